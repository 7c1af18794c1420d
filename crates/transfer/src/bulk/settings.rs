//! The settings of a transfer, and its durations in the units that the ends count.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::options::check_congestion;
use super::{
    Amount, Burst, Channel, DATAGRAM_BYTES, Direction, LARGEST_BLOCK_BYTES, LONGEST_TIME_S, MOST_FLOWS, ReceivePath,
    SendPath, SocketOptions, StartTime,
};
use netcliff_packets::clock;
use netcliff_packets::error::WireError;
use netcliff_packets::thread::{self, Placement};

/// The settings of a transfer.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The transport of the bytes.
    pub channel: Channel,
    /// Address of datagrams to the near end. `None`: if the near end has its own network namespace, the source address
    /// that it would use, otherwise the channel's address. Not used between hosts.
    pub near_address: Option<IpAddr>,
    /// How a stream sender hands over its bytes.
    pub path: SendPath,
    /// Socket options.
    pub options: SocketOptions,
    /// The end that sends, or both.
    pub direction: Direction,
    /// Number of flows in each direction (1 to [`MOST_FLOWS`]).
    pub flows: u32,
    /// Number of threads at each end, at least 1. Flow i is served by the thread with the number i modulo this value.
    /// `None`, or at least the number of flows of the end: one thread per flow.
    pub threads: Option<u32>,
    /// Bytes of one write (1 to [`LARGEST_BLOCK_BYTES`]), or of the payload of one UDP datagram ([`DATAGRAM_BYTES`]).
    pub block_bytes: usize,
    /// Bytes requested by one read (1 to [`LARGEST_BLOCK_BYTES`]).
    pub read_bytes: usize,
    /// How a receiver takes its bytes.
    pub receive: ReceivePath,
    /// SO_RCVLOWAT (bytes): a waiting receiver wakes up when this many bytes have arrived, or at the end. Only for TCP
    /// with [`ReceivePath::Read`], not `acknowledged`; the kernel accepts at most half the receive buffer. `None`: any
    /// byte wakes it.
    pub low_water_bytes: Option<u32>,
    /// Time of sending before the windows open (s).
    pub warm_up_s: f64,
    /// Length of a window, in time or bytes.
    pub amount: Amount,
    /// Number of windows, one after the other on the same connections, at least 1.
    pub windows: u32,
    /// Whether the receiver answers the last byte of a window with a byte, which the sender's window includes. Needs
    /// [`Amount::Bytes`], one window, no warm-up, and TCP or Unix.
    pub acknowledged: bool,
    /// Interval of reading TCP_INFO within the windows (s). `None`: only at their ends.
    pub interval_s: Option<f64>,
    /// The transfer ends if no bytes move for this long (s). Not for pipes.
    pub stall_s: f64,
    /// Placement of the near end.
    pub near: Placement,
    /// Placement of the far end.
    pub far: Placement,
    /// CPUs of the near end's threads, used round robin. Empty: all use the placement `near`.
    pub near_cpus: Vec<usize>,
    /// CPUs of the far end's threads, used round robin. Empty: all use the placement `far`.
    pub far_cpus: Vec<usize>,
    /// Distance (in CPUs) of the near end's threads from the CPU that handles their flow's packets. `None`: the threads
    /// stay where they are placed.
    pub near_rx: Option<u32>,
    /// Distance (in CPUs) of the far end's threads from the CPU that handles their flow's packets. `None`: the threads
    /// stay where they are placed.
    pub far_rx: Option<u32>,
    /// Whether to use the exact CPU meter of the agent's host.
    pub far_meter: bool,
    /// Whether to count at the agent's own devices, if the near end does not read them itself.
    pub far_devices: bool,
    /// Bursts instead of a steady stream. Only for a stream that is read by [`ReceivePath::Read`].
    pub burst: Option<Burst>,
    /// Start time of all ends, set once all are ready. `None`: they start at once.
    pub start: Option<Arc<StartTime>>,
    /// Flag that ends the transfer early; the counts up to then are returned.
    pub stop: Option<Arc<AtomicBool>>,
}

impl Settings {
    /// One flow of 64 KiB blocks from near to far: one second after a warm-up of a quarter second.
    pub fn new(channel: Channel) -> Self {
        Self {
            channel,
            near_address: None,
            path: SendPath::Write,
            options: SocketOptions::default(),
            direction: Direction::Send,
            flows: 1,
            threads: None,
            block_bytes: 64 << 10,
            read_bytes: 128 << 10,
            receive: ReceivePath::Read,
            low_water_bytes: None,
            warm_up_s: 0.25,
            amount: Amount::Seconds(1.0),
            windows: 1,
            acknowledged: false,
            interval_s: None,
            stall_s: 5.0,
            near: Placement::default(),
            far: Placement::default(),
            near_cpus: Vec::new(),
            far_cpus: Vec::new(),
            near_rx: None,
            far_rx: None,
            far_meter: false,
            far_devices: false,
            burst: None,
            start: None,
            stop: None,
        }
    }
}

fn round_robin(place: &Placement, cpus: &[usize], thread: usize) -> Placement {
    Placement { cpu: thread::round_robin(place.cpu, cpus, thread), ..place.clone() }
}

/// Warm-up, windows and stall limit, in the units that the ends count.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spans {
    pub warm_up_ns: u64,
    pub window: Span,
    pub windows: u32,
    pub acknowledged: bool,
    /// Whether the sender continues until the receiver has completed all its windows and closes the connection. With
    /// two clocks and a warm-up, only the receiver knows where its windows are.
    pub receiver_ends: bool,
    pub interval_ns: Option<u64>,
    pub stall_ns: u64,
}

impl Spans {
    /// The durations for ends on two hosts, each with its own clock.
    pub(super) fn between_hosts(self) -> Self {
        let receiver_ends = self.warm_up_ns > 0 && matches!(self.window, Span::Bytes(_));
        Self { receiver_ends, ..self }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Span {
    Time(u64),
    Bytes(u64),
}

impl Settings {
    /// Direction of each flow by number: true if the near end sends.
    pub(super) fn flow_directions(&self) -> Vec<bool> {
        self.directions().iter().flat_map(|forward| std::iter::repeat_n(*forward, self.flows as usize)).collect()
    }

    fn directions(&self) -> &'static [bool] {
        match self.direction {
            Direction::Send => &[true],
            Direction::Receive => &[false],
            Direction::Both => &[true, false],
        }
    }

    /// Number of threads at each end, if it is less than the number of its flows (both directions together).
    pub fn shared_threads(&self) -> Option<u32> {
        let flows = self.flows.saturating_mul(self.directions().len() as u32);
        self.threads.filter(|threads| *threads < flows)
    }

    /// The number of threads, and the setting that flows with shared threads do not support. `None` if they do not
    /// share, or everything is supported.
    pub fn cannot_share(&self) -> Option<(u32, &'static str)> {
        self.shared_threads().zip(self.needs_own_threads())
    }

    /// The setting that needs one thread per flow, because it waits for a single flow. `None` if there is no such
    /// setting.
    fn needs_own_threads(&self) -> Option<&'static str> {
        let of_stream = !matches!(self.channel, Channel::Udp { .. });
        match (&self.path, self.receive) {
            _ if self.channel == Channel::Pipe => Some("channel pipe"),
            _ if self.acknowledged => Some("method acked"),
            (SendPath::ZeroCopy, _) if of_stream => Some("path zerocopy"),
            (SendPath::Uring { zero_copy: false }, _) if of_stream => Some("path uring"),
            (SendPath::Uring { zero_copy: true }, _) if of_stream => Some("path uring-zc"),
            (_, ReceivePath::Uring) => Some("receive uring"),
            _ if self.near_rx.is_some() || self.far_rx.is_some() => Some("cpu rx"),
            _ => None,
        }
    }

    /// Number of the thread that serves a flow at its end.
    pub(super) fn thread_of(&self, flow: usize) -> usize {
        self.shared_threads().map_or(flow, |threads| flow % threads.max(1) as usize)
    }

    /// Placement of the near end's thread of a flow.
    pub(super) fn near_placement(&self, flow: usize) -> Placement {
        round_robin(&self.near, &self.near_cpus, self.thread_of(flow))
    }

    /// Placement of the far end's thread of a flow.
    pub(super) fn far_placement(&self, flow: usize) -> Placement {
        round_robin(&self.far, &self.far_cpus, self.thread_of(flow))
    }

    /// Refuses invalid settings, and a congestion control that this kernel does not have, before anything is opened.
    ///
    /// # Errors
    /// [`WireError::Setting`] with the setting, its value and the accepted form.
    pub fn check(&self) -> Result<(), WireError> {
        self.spans()?;
        self.check_ends()?;
        let name = self.options.congestion.as_ref().filter(|_| matches!(self.channel, Channel::Tcp { .. }));
        name.map_or(Ok(()), |name| check_congestion(name))
    }

    pub(super) fn spans(&self) -> Result<Spans, WireError> {
        self.check_sizes()?;
        let seconds = |what, s: f64, least: u64, accepted: &str| {
            clock::ns_from_s(s)
                .filter(|ns| s <= LONGEST_TIME_S && *ns >= least)
                .ok_or_else(|| WireError::setting(what, s, format!("{accepted} up to {LONGEST_TIME_S} seconds")))
        };
        let window = match self.amount {
            Amount::Seconds(s) => Span::Time(seconds("time_s", s, 1_000_000, "0.001")?),
            Amount::Bytes(0) => return Err(WireError::setting("bytes", 0, "at least 1 byte")),
            Amount::Bytes(bytes) => Span::Bytes(
                bytes
                    .checked_next_multiple_of(self.block_bytes as u64)
                    .ok_or_else(|| WireError::setting("bytes", bytes, "whole blocks below 2^64 bytes"))?,
            ),
        };
        if self.acknowledged {
            self.check_acknowledged()?;
        }
        self.check_low_water()?;
        self.check_receive()?;
        self.check_threads()?;
        Ok(Spans {
            warm_up_ns: seconds("warm_up_s", self.warm_up_s, 0, "0")?,
            window,
            windows: self.windows.max(1),
            acknowledged: self.acknowledged,
            receiver_ends: false,
            interval_ns: self.interval_s.map(|s| seconds("interval_s", s, 1_000_000, "0.001")).transpose()?,
            stall_ns: seconds("stall_s", self.stall_s, 1_000_000, "0.001")?,
        })
    }

    fn check_sizes(&self) -> Result<(), WireError> {
        let blocks = match self.channel {
            Channel::Udp { .. } => DATAGRAM_BYTES,
            _ => 1..=LARGEST_BLOCK_BYTES,
        };
        for (what, bytes, accepted) in
            [("block_bytes", self.block_bytes, blocks), ("read_bytes", self.read_bytes, 1..=LARGEST_BLOCK_BYTES)]
        {
            if !accepted.contains(&bytes) {
                let accepted = format!("{} to {} bytes", accepted.start(), accepted.end());
                return Err(WireError::setting(what, bytes, accepted));
            }
        }
        if !(1..=MOST_FLOWS).contains(&self.flows) {
            return Err(WireError::setting("flows", self.flows, format!("1 to {MOST_FLOWS} flows")));
        }
        Ok(())
    }

    fn check_threads(&self) -> Result<(), WireError> {
        if self.threads == Some(0) {
            return Err(WireError::setting("threads", 0, "at least 1 thread"));
        }
        let Some((threads, what)) = self.cannot_share() else { return Ok(()) };
        let accepted = format!("none, or one for each flow of an end: {what} has threads that wait for one flow only");
        Err(WireError::setting("threads", threads, accepted))
    }

    /// Refuses a low-water mark that the receiver would never reach: it would wait for ever.
    fn check_low_water(&self) -> Result<(), WireError> {
        let Some(bytes) = self.low_water_bytes else { return Ok(()) };
        let fits =
            matches!(self.channel, Channel::Tcp { .. }) && self.receive == ReceivePath::Read && !self.acknowledged;
        if fits && (1..=LARGEST_BLOCK_BYTES).contains(&(bytes as usize)) {
            return Ok(());
        }
        let accepted = format!("1 to {LARGEST_BLOCK_BYTES} bytes, of TCP received by read(2) without acknowledgement");
        Err(WireError::setting("low_water_bytes", bytes, accepted))
    }

    /// Refuses combinations of settings of both ends. An agent cannot check these, because it gets only the settings of
    /// its own end.
    pub(super) fn check_ends(&self) -> Result<(), WireError> {
        self.check_burst()?;
        self.check_ktls()
    }

    fn check_burst(&self) -> Result<(), WireError> {
        let Some(burst) = self.burst else { return Ok(()) };
        let Amount::Seconds(time_s) = self.amount else {
            return Err(WireError::setting("bytes", "set", "a time: bursts are sent for so long"));
        };
        if matches!(self.channel, Channel::Udp { .. }) {
            return Err(WireError::setting(
                "burst",
                "over UDP",
                "a stream: lost datagrams would never make a burst whole",
            ));
        }
        burst.check(self.block_bytes, self.warm_up_s + time_s)
    }

    /// Refuses TLS at one end of a flow only.
    fn check_ktls(&self) -> Result<(), WireError> {
        let (sends, receives) = (self.path == SendPath::Ktls, self.receive == ReceivePath::Ktls);
        let over_tcp = matches!(self.channel, Channel::Tcp { multipath: false, .. });
        if (sends || receives) && !over_tcp {
            return Err(WireError::setting("path", "ktls", "TCP: other channels have no TLS in the kernel"));
        }
        if sends != receives {
            return Err(WireError::setting(
                "receive",
                "ktls",
                "with path ktls, and only then: both ends do TLS or none",
            ));
        }
        Ok(())
    }

    fn check_receive(&self) -> Result<(), WireError> {
        let Channel::Udp { path, .. } = self.channel else {
            return match self.receive {
                ReceivePath::Truncate if !matches!(self.channel, Channel::Tcp { .. }) => {
                    Err(WireError::setting("receive", "trunc", "TCP or UDP: other channels copy all the same"))
                }
                _ => Ok(()),
            };
        };
        match (self.receive, path) {
            (ReceivePath::Mapped, _) => Err(WireError::setting("receive", "zerocopy", "read or uring over UDP")),
            (ReceivePath::Truncate, path) if path.puts_together() => {
                let accepted = "read with UDP_GRO: datagrams that came together are distinguished by their numbers";
                Err(WireError::setting("receive", "trunc", accepted))
            }
            (ReceivePath::Uring, path) if path.puts_together() => {
                let accepted =
                    "read with UDP_GRO: recvmmsg(2) tells where datagrams that came together are to be taken apart";
                Err(WireError::setting("receive", "uring", accepted))
            }
            _ => Ok(()),
        }
    }

    fn check_acknowledged(&self) -> Result<(), WireError> {
        let fits = matches!(self.amount, Amount::Bytes(_)) && self.windows <= 1 && self.warm_up_s == 0.0;
        let duplex = matches!(self.channel, Channel::Tcp { .. } | Channel::Unix);
        if fits && duplex {
            return Ok(());
        }
        let accepted = "a number of bytes in one window without warm-up, over TCP or a Unix socket";
        Err(WireError::setting("acknowledged", true, accepted))
    }
}
