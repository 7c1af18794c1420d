//! The control channel between two hosts: a client has an agent run the far end of a test.
//!
//! Both ends identify themselves, agree on a version and, between hosts, prove the same key (Noise NNpsk0). Then the
//! client starts a test by name with that test's settings, receives the ports and a token that admits data connections,
//! requests reports while it runs, and stops it. Both send a heartbeat each second; an end that receives nothing for
//! [`Limits::silence_s`] considers the other gone and keeps what it measured.
//!
//! | module | holds |
//! | --- | --- |
//! | [`far`] | what a kind of test implements to be run by an agent: start, report, stop |
//! | [`client`] | the near end: connects; starts, queries and stops a test |
//! | [`agent`] | the far end: listens, admits, serves |
//! | [`message`] | the messages |
//! | [`handshake`] | the handshake: version, key, free slots |
//! | [`channel`] | messages over any byte stream: bounded, timed, encrypted where there is a key |
//! | [`stream`] | TCP, or a pair of pipes (`ssh HOST netcliff agent --stdio`), read and written against a deadline |
//! | [`key`] | the pre-shared key and tokens |

pub mod activation;
pub mod agent;
pub mod channel;
pub mod client;
mod connections;
pub mod far;
pub mod handshake;
pub mod key;
mod memory;
pub mod message;
pub mod peer;
mod serve;
pub mod stream;
#[cfg(test)]
mod tests;

pub use netcliff_packets::error::{ControlError, PROTOCOL};

/// Feature of an agent that can meter its host's CPUs exactly during a test, or report why it cannot.
pub const CPU_METER: &str = "cpu-meter";

/// Feature of an agent that spreads the flows of a transfer over several CPUs.
pub const CPU_LISTS: &str = "cpu-lists";

/// Feature of an agent that spreads the flows of request/response over several CPUs.
pub const RR_CPU_LISTS: &str = "rr-cpu-lists";

/// Feature of an agent that serves the flows of a transfer with fewer threads than flows.
pub const SHARED_THREADS: &str = "shared-threads";

/// Feature of an agent that counts packets and interrupts at its own devices during a transfer.
pub const DEVICE_COUNTS: &str = "device-counts";

/// Feature of an agent whose ends of a transfer start at a time given by the client.
pub const COMMON_START: &str = "common-start";

/// Feature of an agent whose threads of a transfer move to the CPU that receives their flow's packets.
pub const RX_CPU: &str = "rx-cpu";

/// Default port of an agent.
pub const PORT: u16 = 9940;

/// Limits that each end sets for the other: sizes of messages, times, numbers of connections, memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Largest message of a client (bytes): a list of a thousand CPUs is a tenth of it.
    pub message_bytes: usize,
    /// Largest number of values in a message of a client, of which at most a sixteenth may be lists and objects. A
    /// parsed value takes a multiple of the memory of its text.
    pub message_values: usize,
    /// Largest message of an agent (bytes): the report of a thousand flows, each with its TCP_INFO in intervals, is
    /// smaller.
    pub report_bytes: usize,
    /// Time from the connection to the end of the handshake (s).
    pub handshake_s: f64,
    /// Time from the first to the last byte of a message, and time for the other end to accept one (s).
    pub message_s: f64,
    /// Silence after which the other end counts as gone (s).
    pub silence_s: f64,
    /// Time after which a connection without a test is closed (s).
    pub idle_s: f64,
    /// Time after which a test is stopped (s).
    pub test_s: f64,
    /// Largest number of connections, handshakes included.
    pub connections: usize,
    /// Largest number of simultaneous handshakes: the limit of pending connections.
    pub handshakes: usize,
    /// Largest memory of all tests together: buffers, files, threads, reports (bytes).
    pub memory_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_bytes: 64 << 10,
            message_values: 4096,
            report_bytes: 16 << 20,
            handshake_s: 5.0,
            message_s: 5.0,
            silence_s: 5.0,
            idle_s: 60.0,
            test_s: 3600.0,
            connections: 64,
            handshakes: 16,
            memory_bytes: memory::usual_bytes(),
        }
    }
}

/// Heartbeats per silence limit: one may be late on a busy host without the other end giving up.
const HEARTBEATS_A_SILENCE: f64 = 5.0;

impl Limits {
    /// Interval between two heartbeats (s).
    pub fn heartbeat_interval_s(&self) -> f64 {
        self.silence_s / HEARTBEATS_A_SILENCE
    }
}
