//! The receiver: a pinned thread that reads UDP as an application would, and measures what it reads.
//!
//! Three latencies per packet, each a histogram:
//! - intended send time to application read: end to end, without coordinated omission;
//! - kernel receive timestamp to application read: all queueing in this host after the timestamp;
//! - intended send time to kernel receive timestamp: mostly the sender's lateness.
//!
//! Where the kernel takes the timestamp: with `net.core.netdev_tstamp_prequeue` = 1 (the default) before the RPS
//! backlog, with 0 after it ([`SinkReport::stamped_before_backlog`]). Software timestamps are `CLOCK_REALTIME` and are
//! converted to the monotonic clock; the offset is read every 0.1 s.
//!
//! The thread is an ordinary SCHED_OTHER thread unless its placement says otherwise. Its own work per packet (a clock
//! read per read call, a bitmap, up to three histogram updates) is part of the host under test, as an application's
//! would be; it has not been measured separately.

use std::net::{SocketAddr, UdpSocket};
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;

use netcliff_host::cpu::heartbeat::Heartbeat;

use crate::clock;
use crate::error::WireError;
use crate::generator::Window;
use crate::thread::Placement;

mod measure;
mod read;
mod report;
#[cfg(test)]
mod tests;
mod work;

pub(crate) use read::Inbox;
pub use read::{CONTROL_WORDS, Reader, stamp_realtime_ns};
pub use report::SinkReport;
pub use work::{Application, Work};

use measure::Measurement;

/// How the sink reads and what it does with packets.
#[derive(Debug, Clone)]
pub struct SinkConfig {
    /// Where the thread runs.
    pub placement: Placement,
    /// Address and port to bind.
    pub bind: SocketAddr,
    /// Frames of this run are counted; all others are foreign.
    pub run_id: u32,
    /// Run ids of further generators. Each has its own sequence numbers and window.
    pub more_runs: Vec<u32>,
    /// How packets are read.
    pub reader: Reader,
    /// What the application does with each packet.
    pub work: Work,
    /// Receive buffer to request \[bytes as given to SO_RCVBUF: the kernel doubles the value and counts whole buffers
    /// against it, about 0.8 KiB for a small frame\]. `None`: the system's default.
    pub receive_buffer_bytes: Option<usize>,
    /// Whether to request kernel receive timestamps. They cost the host one clock read per packet.
    pub kernel_timestamps: bool,
    /// Number of sequence numbers remembered (1 bit each): packets that are later by more than this number count as
    /// `too_old`.
    pub tracked: usize,
    /// Heartbeat of the running thread, which reveals pauses of its CPU.
    pub heartbeat: Heartbeat,
    /// Answers each packet whose sequence number is a multiple of this: sends its header back to its source. `None`:
    /// sends no answers.
    pub answer_each: Option<NonZeroU64>,
}

impl SinkConfig {
    /// The default configuration: one blocking `recvmsg` per packet, no work, timestamps on.
    pub fn new(bind: SocketAddr, run_id: u32) -> Self {
        Self {
            placement: Placement::default(),
            bind,
            run_id,
            more_runs: Vec::new(),
            reader: Reader::Recvmsg,
            work: Work::None,
            receive_buffer_bytes: None,
            kernel_timestamps: true,
            tracked: 1 << 20,
            heartbeat: Heartbeat::default(),
            answer_each: None,
        }
    }
}

/// Time without a packet after which no packet from another host is still on the path \[ns\].
pub(crate) const QUIET_NS: u64 = 50_000_000;
/// Time without a packet after which no packet from a sender on this host is still on the path \[ns\]. Such packets
/// wait only in the backlog of the sink's own CPU. If that CPU was paused, the sink did not run either, and it reads
/// once more before it ends.
pub(crate) const QUIET_HERE_NS: u64 = 20_000_000;

/// Counters and controls shared with a running sink.
#[derive(Debug, Default)]
pub struct SinkProgress {
    /// Number of packets of this run read so far, warm-up included, duplicates excluded.
    pub delivered: AtomicU64,
    /// Time at which to end even if packets still come [ns of `CLOCK_MONOTONIC`]; 0 if not set.
    drain_until_ns: AtomicU64,
    /// Time without a packet after which the sink ends \[ns\]; set by the caller that ends the run.
    quiet_ns: AtomicU64,
    /// The measured windows, one for each generator by its own clock; set once.
    windows: OnceLock<Vec<Window>>,
}

/// A sink that failed during the run, with the results so far.
#[derive(Debug, thiserror::Error)]
#[error("the sink stopped after {} packets: {reason}", measured.as_ref().map_or(0, |m| m.delivered))]
pub struct SinkFailure {
    /// Why the sink failed.
    #[source]
    pub reason: WireError,
    /// What was measured before the failure, if anything.
    pub measured: Option<Box<SinkReport>>,
}

/// A running sink, which is bound and reads.
#[derive(Debug)]
pub struct Sink {
    thread: JoinHandle<Result<(), WireError>>,
    measurement: Arc<Mutex<Measurement>>,
    progress: Arc<SinkProgress>,
    address: SocketAddr,
}

impl Sink {
    /// Binds the sink and starts to read. Packets count once [`Sink::measure`] has set the window.
    ///
    /// # Errors
    /// The placement, the address or a setting cannot be used.
    pub fn spawn(config: SinkConfig, stop: Arc<AtomicBool>) -> Result<Self, WireError> {
        let application = config.work.application(&config.heartbeat)?;
        Self::spawn_with(config, application, stop)
    }

    /// Like [`Sink::spawn`], with the caller's application instead of `config.work`.
    ///
    /// # Errors
    /// See [`Sink::spawn`].
    pub fn spawn_with(
        config: SinkConfig,
        mut application: Box<dyn Application>,
        stop: Arc<AtomicBool>,
    ) -> Result<Self, WireError> {
        config.reader.check()?;
        let stamped_before_backlog = socket::stamped_before_backlog();
        let progress = Arc::new(SinkProgress::default());
        let measurement = Arc::new(Mutex::new(Measurement::new(&config, stamped_before_backlog)));
        let (ready, is_ready) = channel();
        let (theirs, shared) = (Arc::clone(&progress), Arc::clone(&measurement));
        let thread = std::thread::Builder::new()
            .name("netcliff-sink".into())
            .spawn(move || {
                let socket = match open(&config, application.as_mut()) {
                    Ok(opened) => opened,
                    Err(error) => {
                        let _ = ready.send(Err(error));
                        return Ok(());
                    }
                };
                let address = socket.local_addr();
                let _ = ready.send(address.map_err(|e| WireError::system("read the bound address", e)));
                let mut measurement = shared.lock().unwrap_or_else(PoisonError::into_inner);
                measurement.read_all(&socket, application.as_mut(), &config, &stop, &theirs)
            })
            .map_err(|e| WireError::system("start the sink thread", e))?;
        let address = match is_ready.recv() {
            Ok(Ok(address)) => address,
            Ok(Err(error)) => return Err(error),
            Err(_) => return Err(join_reason(thread)),
        };
        Ok(Self { thread, measurement, progress, address })
    }

    /// The bound address, with the actual port if port 0 was requested.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the measured window: packets count by their *intended* send time. Call it before the run starts. A sink has
    /// a single window: a second call changes nothing.
    pub fn measure(&self, window: Window) {
        self.measure_each(vec![window]);
    }

    /// Sets the windows of several generators, each by its own clock, in the order of their run ids.
    pub fn measure_each(&self, windows: Vec<Window>) {
        let _ = self.progress.windows.set(windows);
    }

    /// Counters that the running sink updates.
    pub fn progress(&self) -> &SinkProgress {
        &self.progress
    }

    /// Whether the thread has ended. Before `finish`, this means that it failed or was stopped.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Lets the sink drain: it ends when no packet has come for 50 ms, or after `drain_s` \[s\].
    ///
    /// # Errors
    /// The thread failed or panicked; the error contains the results so far.
    pub fn finish(self, drain_s: f64) -> Result<SinkReport, SinkFailure> {
        self.finish_after(drain_s, QUIET_NS)
    }

    /// Lets the sink drain as [`Self::finish`] does, but until no packet has come for `quiet_ns` \[ns\].
    pub(crate) fn finish_after(self, drain_s: f64, quiet_ns: u64) -> Result<SinkReport, SinkFailure> {
        self.progress.quiet_ns.store(quiet_ns, Ordering::Relaxed);
        let drain_ns = clock::ns_from_s(drain_s).unwrap_or_default();
        let until = clock::monotonic_ns() + drain_ns;
        self.progress.drain_until_ns.store(until, Ordering::Relaxed);
        let outcome = match self.thread.join() {
            Ok(outcome) => outcome,
            Err(panic) => Err(WireError::died("sink", panic.as_ref())),
        };
        // A panic poisons the lock, but the counts before the panic are valid.
        let measured = self.measurement.lock().unwrap_or_else(PoisonError::into_inner).report();
        outcome.map(|()| measured.clone()).map_err(|reason| SinkFailure { reason, measured: Some(Box::new(measured)) })
    }
}

fn open(config: &SinkConfig, application: &mut dyn Application) -> Result<UdpSocket, WireError> {
    config.placement.enter()?;
    application.prepare()?;
    socket::open(config)
}

fn join_reason(thread: JoinHandle<Result<(), WireError>>) -> WireError {
    match thread.join() {
        Err(panic) => WireError::died("sink", panic.as_ref()),
        Ok(Err(error)) => error,
        Ok(Ok(())) => WireError::died("sink", &"it ended before it was bound"),
    }
}

mod socket {
    //! The sink's socket and what the kernel reports about it.

    use std::net::UdpSocket;

    use netcliff_host::system;
    use nix::sys::socket::{setsockopt, sockopt};
    use nix::sys::time::{TimeVal, TimeValLike};

    use super::SinkConfig;
    use crate::error::WireError;

    /// Time that a blocking read waits before it checks whether the run is over \[ns\].
    pub(super) const TIMEOUT_NS: u64 = 10_000_000;

    /// Binds the socket and sets the options that the configuration requests.
    pub(super) fn open(config: &SinkConfig) -> Result<UdpSocket, WireError> {
        let action = || format!("bind the sink to {}", config.bind);
        let socket = UdpSocket::bind(config.bind).map_err(|e| WireError::system(action(), e))?;
        if let Some(bytes) = config.receive_buffer_bytes {
            set_buffer(&socket, bytes)?;
        }
        if config.kernel_timestamps {
            system::receive_timestamps(&socket)
                .map_err(|e| WireError::system("ask for kernel receive timestamps", e))?;
        }
        setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::nanoseconds(TIMEOUT_NS as i64))
            .map_err(|e| WireError::system("set the receive timeout", e))?;
        Ok(socket)
    }

    fn set_buffer(socket: &UdpSocket, bytes: usize) -> Result<(), WireError> {
        if !(1..=1 << 30).contains(&bytes) {
            return Err(WireError::setting("receive_buffer_bytes", bytes, "1 to 2^30 bytes"));
        }
        system::set_receive_buffer(socket, bytes)
            .map_err(|e| WireError::system(format!("set a receive buffer of {bytes} bytes"), e))
    }

    /// The receive buffer in effect, as the kernel counts it \[bytes\]. `None` if the kernel does not report it.
    pub(super) fn buffer_bytes(socket: &UdpSocket) -> Option<u64> {
        let bytes = nix::sys::socket::getsockopt(socket, sockopt::RcvBuf).ok()?;
        u64::try_from(bytes).ok()
    }

    /// Whether the kernel takes its timestamps before the RPS backlog. `None` if the sysctl cannot be read: it is
    /// visible only in the initial network namespace.
    pub(super) fn stamped_before_backlog() -> Option<bool> {
        let text = std::fs::read_to_string("/proc/sys/net/core/netdev_tstamp_prequeue").ok()?;
        Some(text.trim() != "0")
    }
}
