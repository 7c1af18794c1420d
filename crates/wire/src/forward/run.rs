//! A trial: so many frames at a constant rate, and what became of them.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

use super::account::{Account, Arrived};
use super::frame::{Profile, Templates};
use super::port::{self, PacketReceiver, Receiver, SendBy, Sender};
use crate::clock;
use crate::clock::Ticker;
use crate::error::WireError;
use crate::latency::{Latency, LatencySummary};
use crate::thread::Placement;
use crate::transmit::Kicked;

/// Share of the frames that must leave in time for the load to count as offered.
pub const KEPT_UP_SHARE: f64 = 0.999;
/// From here on a frame is late \[ns\]: at 1 Mpps 100 frames then follow at once, a tenth of the default backlog.
pub const LATE_NS: u64 = 100_000;
/// How long after the end of a trial frames that were due may still leave \[ns\].
const GRACE_NS: u64 = 5_000_000;
/// Frames read between two looks at the schedule: about 5 us.
const READ_AT_ONCE: usize = 32;
/// How often the offset of the kernel's clock is read anew \[ns\].
const OFFSET_NS: u64 = 100_000_000;
/// Longest time a burst may take \[ns\].
const BURST_NS: u64 = 60_000_000_000;
/// Time from the order to the first frame \[ns\].
const LEAD_NS: u64 = 2_000_000;

/// One way through the device.
#[derive(Debug, Clone)]
pub struct Direction {
    /// Namespace and interface that frames leave from.
    pub from: Port,
    /// Namespace and interface where they are expected.
    pub to: Port,
    /// The frames.
    pub profile: Profile,
}

/// An interface of the tester.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Network namespace, e.g. `/run/netns/NAME`; None: the caller's.
    pub netns: Option<PathBuf>,
    /// Interface name in it.
    pub interface: String,
}

/// Which load, for how long.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trial {
    /// Frames a second in each direction.
    pub load_pps: f64,
    /// How long frames are sent \[s\].
    pub duration_s: f64,
    /// Longest wait for residual frames \[s\]; it ends early when none is missing.
    pub settle_s: f64,
    /// Most frames a kick.
    pub max_burst: usize,
    /// When the tagged frame leaves, from the start \[s\].
    pub tagged_at_s: Option<f64>,
    /// So many frames, as fast as they can be handed over, instead of a rate and a time.
    pub burst: Option<u64>,
}

/// What a trial gave.
#[derive(Debug, Clone)]
pub struct TrialReport {
    /// One a direction.
    pub directions: Vec<DirectionReport>,
    /// From the first to the last frame's schedule \[s\].
    pub duration_s: f64,
    /// Why the trial says nothing about the device, if so.
    pub void: Option<Void>,
    /// The stop flag ended it.
    pub stopped: bool,
}

/// Why a trial says nothing about the device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "why")]
pub enum Void {
    /// Frames did not leave in time.
    SenderTooSlow {
        /// Frames a second that left, of the slowest direction.
        reached_pps: f64,
    },
    /// Frames were lost, but no more than left late, and bunched for it: the sender may have lost them.
    SenderUneven {
        /// Frames that left later than [`LATE_NS`].
        late: u64,
    },
    /// The sink's own queues overflowed.
    SinkTooSlow {
        /// Frames the sink's ring had no room for.
        missed: u64,
    },
}

/// What became of the frames of one direction.
#[derive(Debug, Clone)]
pub struct DirectionReport {
    /// Frames of the schedule.
    pub intended: u64,
    /// Frames handed to the port.
    pub sent: u64,
    /// What the port said of them.
    pub kicked: Kicked,
    /// What came.
    pub arrived: Arrived,
    /// Frames that arrived and found the sink's ring full.
    pub missed: u64,
    /// Kick minus schedule.
    pub lateness: Latency,
    /// Distance between a frame's gap to the one before and the intended one, absolute.
    pub gap_error: Latency,
    /// From sending to the kernel's stamp at the sink.
    pub latency: Latency,
    /// The tagged frame's \[s\].
    pub tagged_s: Option<f64>,
    /// From the first to the last frame's leaving \[s\].
    pub sending_s: f64,
}

impl DirectionReport {
    /// Frames sent that did not come whole.
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.arrived.frames)
    }

    /// Frames that left later than [`LATE_NS`].
    pub fn late(&self) -> u64 {
        self.lateness.histogram().count_between(LATE_NS, u64::MAX)
    }

    /// Figures of the lateness, if anything was sent.
    pub fn lateness(&self) -> Option<LatencySummary> {
        self.lateness.summary()
    }
}

impl TrialReport {
    /// Frames sent, all directions.
    pub fn sent(&self) -> u64 {
        self.directions.iter().map(|direction| direction.sent).sum()
    }

    /// Frames lost, all directions.
    pub fn lost(&self) -> u64 {
        self.directions.iter().map(DirectionReport::lost).sum()
    }
}

/// Rings that are open, for one trial after the other. They belong to the thread that opened them.
pub struct Bench {
    lanes: Vec<Lane>,
    ticker: Ticker,
    /// Tag of the last trial.
    tag: u16,
}

/// A direction with its rings.
struct Lane {
    sender: Box<dyn Sender>,
    receiver: Box<dyn Receiver>,
    templates: Templates,
}

impl std::fmt::Debug for Bench {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bench").field("lanes", &self.lanes.len()).field("tag", &self.tag).finish_non_exhaustive()
    }
}

impl Bench {
    /// Opens the rings of every direction. The calling thread is moved to `placement` and through the ports'
    /// namespaces, so it should be one of its own.
    ///
    /// # Errors
    /// A namespace or interface does not exist or has no carrier, a profile cannot be, or the kernel refuses.
    pub fn open(
        directions: &[Direction],
        by: SendBy,
        max_burst: usize,
        placement: &Placement,
    ) -> Result<Self, WireError> {
        placement.enter()?;
        let mut lanes = Vec::new();
        for direction in directions {
            let templates = Templates::new(&direction.profile)?;
            let enter = |port: &Port| Placement { netns: port.netns.clone(), ..Placement::default() }.enter();
            enter(&direction.to)?;
            let receiver = Box::new(PacketReceiver::open(&direction.to.interface)?);
            enter(&direction.from)?;
            let sender = port::open_sender(by, &direction.from.interface, templates.filler(), max_burst)?;
            lanes.push(Lane { sender, receiver, templates });
        }
        // Anything but a constant: frames of an earlier process must not count.
        let tag = (clock::realtime_ns() / 1000) as u16;
        Ok(Self { lanes, ticker: Ticker::new(), tag })
    }

    /// Runs a trial.
    ///
    /// # Errors
    /// A setting cannot be, or a port went away: the trial is void.
    pub fn run(&mut self, trial: &Trial, stop: &AtomicBool) -> Result<TrialReport, WireError> {
        let frames = check(trial)?;
        self.tag = self.tag.wrapping_add(1);
        for lane in &mut self.lanes {
            lane.drain()?;
        }
        let start_ns = clock::monotonic_ns() + LEAD_NS;
        let mut flights: Vec<Flight<'_>> =
            self.lanes.iter_mut().map(|lane| Flight::new(lane, trial, frames, self.tag, start_ns)).collect();
        let stopped = send(&mut flights, trial, &mut self.ticker, start_ns, stop)?;
        settle(&mut flights, trial.settle_s)?;
        let directions = flights.into_iter().map(Flight::report).collect::<Result<Vec<_>, _>>()?;
        let void = void(&directions, trial, frames);
        Ok(TrialReport { directions, duration_s: trial.duration_s, void, stopped })
    }
}

fn check(trial: &Trial) -> Result<u64, WireError> {
    let bad = |what, value: f64, accepted: &str| Err(WireError::setting(what, value, accepted));
    if !(trial.load_pps.is_finite() && trial.load_pps > 0.0) {
        return bad("load_pps", trial.load_pps, "a positive, finite number of frames/s");
    }
    if !(trial.duration_s > 0.0 && trial.duration_s <= 86_400.0) {
        return bad("duration_s", trial.duration_s, "above 0 s, at most a day");
    }
    if !(0.0..=60.0).contains(&trial.settle_s) {
        return bad("settle_s", trial.settle_s, "0 to 60 s");
    }
    if !(1..=1024).contains(&trial.max_burst) {
        return Err(WireError::setting("max_burst", trial.max_burst, "1 to 1024 frames"));
    }
    Ok(trial.burst.unwrap_or((trial.load_pps * trial.duration_s).round() as u64).max(1))
}

impl Lane {
    /// Throws away what an earlier trial left.
    fn drain(&mut self) -> Result<(), WireError> {
        while self.receiver.poll(1024, &mut |_, _| {})? > 0 {}
        self.receiver.missed()?;
        Ok(())
    }
}

/// One direction of a trial under way.
struct Flight<'a> {
    lane: &'a mut Lane,
    account: Account,
    tag: u16,
    frames: u64,
    gap_ns: f64,
    start_ns: u64,
    max_burst: usize,
    next: u64,
    kicked: Kicked,
    lateness: Latency,
    gap_error: Latency,
    last_kick_ns: Option<u64>,
    first_kick_ns: Option<u64>,
    /// `CLOCK_REALTIME` - `CLOCK_MONOTONIC` and when it was read.
    offset_ns: i64,
    offset_read_ns: u64,
}

impl<'a> Flight<'a> {
    fn new(lane: &'a mut Lane, trial: &Trial, frames: u64, tag: u16, start_ns: u64) -> Self {
        let tagged = trial.tagged_at_s.map(|at_s| ((at_s * trial.load_pps) as u64).min(frames - 1));
        let account = Account::new(tag, lane.templates.streams(), tagged);
        Self {
            lane,
            account,
            tag,
            frames,
            gap_ns: if trial.burst.is_some() { 0.0 } else { 1e9 / trial.load_pps },
            start_ns,
            max_burst: trial.max_burst,
            next: 0,
            kicked: Kicked::default(),
            lateness: Latency::new(),
            gap_error: Latency::new(),
            last_kick_ns: None,
            first_kick_ns: None,
            offset_ns: clock::realtime_minus_monotonic_ns(),
            offset_read_ns: start_ns,
        }
    }

    #[inline]
    fn due_ns(&self, sequence: u64) -> u64 {
        self.start_ns + (sequence as f64 * self.gap_ns) as u64
    }

    fn is_sent(&self) -> bool {
        self.next >= self.frames
    }

    /// Sends what is due, up to a burst.
    #[inline]
    fn send_due(&mut self, now_ns: u64) -> Result<(), WireError> {
        let (first, tag) = (self.next, self.tag);
        let templates = &self.lane.templates;
        while self.next < self.frames && self.next - first < self.max_burst as u64 && self.due_ns(self.next) <= now_ns {
            let sequence = self.next;
            let length = templates.length(sequence);
            if !self.lane.sender.stage(length, &mut |frame| templates.write(frame, tag, sequence, now_ns)) {
                break;
            }
            self.next += 1;
        }
        if self.next == first {
            return Ok(());
        }
        self.kicked.add(&self.lane.sender.kick()?);
        self.record(first, now_ns);
        Ok(())
    }

    /// Lateness of each frame of a burst, and by how much its gap to the one before was not the intended one.
    #[inline]
    fn record(&mut self, first: u64, now_ns: u64) {
        for sequence in first..self.next {
            self.lateness.record_ns(now_ns - self.due_ns(sequence));
        }
        let gap_ns = self.gap_ns as u64;
        if let Some(last_ns) = self.last_kick_ns {
            self.gap_error.record_ns((now_ns - last_ns).abs_diff(gap_ns));
        }
        // Frames of one kick follow one another with no gap.
        self.gap_error.record_n_ns(gap_ns, self.next - first - 1);
        self.first_kick_ns.get_or_insert(now_ns);
        self.last_kick_ns = Some(now_ns);
    }

    /// Reads some of what came.
    #[inline]
    fn read(&mut self, most: usize) -> Result<usize, WireError> {
        let Lane { receiver, templates, .. } = &mut *self.lane;
        let (account, offset_ns) = (&mut self.account, self.offset_ns);
        receiver.poll(most, &mut |frame, stamp_ns| {
            let at_ns = stamp_ns.map_or_else(clock::monotonic_ns, |stamp| stamp.wrapping_add_signed(-offset_ns));
            account.take(templates, frame, at_ns);
        })
    }

    fn refresh_offset(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.offset_read_ns) > OFFSET_NS {
            self.offset_ns = clock::realtime_minus_monotonic_ns();
            self.offset_read_ns = now_ns;
        }
    }

    fn report(self) -> Result<DirectionReport, WireError> {
        let missed = self.lane.receiver.missed()?;
        let sending_ns = match (self.first_kick_ns, self.last_kick_ns) {
            (Some(first), Some(last)) => last - first,
            _ => 0,
        };
        Ok(DirectionReport {
            intended: self.frames,
            sent: self.next,
            kicked: self.kicked,
            arrived: self.account.arrived,
            missed,
            lateness: self.lateness,
            gap_error: self.gap_error,
            latency: self.account.latency,
            tagged_s: self.account.tagged_ns.map(|ns| ns as f64 * 1e-9),
            sending_s: sending_ns as f64 * 1e-9,
        })
    }
}

/// Sends until all is sent, the time is over, or it is stopped; true if stopped.
fn send(
    flights: &mut [Flight<'_>],
    trial: &Trial,
    ticker: &mut Ticker,
    start_ns: u64,
    stop: &AtomicBool,
) -> Result<bool, WireError> {
    let sending_ns = trial.burst.map_or((trial.duration_s * 1e9) as u64, |_| BURST_NS);
    let give_up_ns = start_ns + sending_ns + GRACE_NS;
    ticker.anchor();
    loop {
        let now_ns = ticker.now_ns();
        for flight in flights.iter_mut() {
            flight.send_due(now_ns)?;
        }
        if flights.iter().all(Flight::is_sent) || now_ns > give_up_ns {
            return Ok(false);
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(true);
        }
        for flight in flights.iter_mut() {
            flight.read(READ_AT_ONCE)?;
            flight.refresh_offset(now_ns);
        }
    }
}

/// Waits for residual frames.
fn settle(flights: &mut [Flight<'_>], settle_s: f64) -> Result<(), WireError> {
    let until_ns = clock::monotonic_ns() + (settle_s * 1e9) as u64;
    loop {
        let mut read = 0;
        for flight in flights.iter_mut() {
            read += flight.read(1024)?;
        }
        let complete = flights.iter().all(|flight| flight.account.arrived.frames >= flight.next);
        if read == 0 && (complete || clock::monotonic_ns() >= until_ns) {
            return Ok(());
        }
        if read == 0 {
            std::thread::sleep(std::time::Duration::from_micros(200));
        }
    }
}

fn void(directions: &[DirectionReport], trial: &Trial, frames: u64) -> Option<Void> {
    let missed: u64 = directions.iter().map(|direction| direction.missed).sum();
    if missed > 0 {
        return Some(Void::SinkTooSlow { missed });
    }
    let offered = |direction: &DirectionReport| direction.sent - direction.kicked.sender_full;
    let least = directions.iter().map(offered).min()?;
    let reached_pps = least as f64 / (trial.duration_s + GRACE_NS as f64 * 1e-9);
    if (least as f64) < KEPT_UP_SHARE * frames as f64 {
        return Some(Void::SenderTooSlow { reached_pps });
    }
    let late = directions.iter().map(DirectionReport::late).sum();
    let lost: u64 = directions.iter().map(DirectionReport::lost).sum();
    (lost > 0 && lost <= late).then_some(Void::SenderUneven { late })
}

/// Commands to a bench on a thread of its own.
type Order = (Trial, std::sync::mpsc::Sender<Result<TrialReport, WireError>>);

/// A bench on a thread of its own, in its place.
#[derive(Debug)]
pub struct Remote {
    orders: Option<std::sync::mpsc::Sender<Order>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Remote {
    /// Starts the thread and opens the rings there; `stop` ends a trial early.
    ///
    /// # Errors
    /// As [`Bench::open`].
    pub fn start(
        directions: Vec<Direction>,
        by: SendBy,
        max_burst: usize,
        placement: Placement,
        stop: Arc<AtomicBool>,
    ) -> Result<Self, WireError> {
        let (orders, inbox) = std::sync::mpsc::channel::<Order>();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let work = move || match Bench::open(&directions, by, max_burst, &placement) {
            Err(error) => drop(ready.send(Err(error))),
            Ok(mut bench) => {
                drop(ready.send(Ok(())));
                for (trial, answer) in inbox {
                    // Nobody listening means nobody needs it.
                    drop(answer.send(bench.run(&trial, &stop)));
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("netcliff-forward".into())
            .spawn(work)
            .map_err(|e| WireError::system("start the sending thread", e))?;
        match is_ready.recv() {
            Ok(Ok(())) => Ok(Self { orders: Some(orders), thread: Some(thread) }),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(died(thread)),
        }
    }

    /// Runs a trial and waits for it.
    ///
    /// # Errors
    /// As [`Bench::run`]; or the thread died.
    pub fn run(&mut self, trial: Trial) -> Result<TrialReport, WireError> {
        let (answer, answered) = std::sync::mpsc::channel();
        let asked = self.orders.as_ref().is_some_and(|orders| orders.send((trial, answer)).is_ok());
        match answered.recv() {
            Ok(report) if asked => report,
            _ => Err(self.thread.take().map_or_else(|| WireError::died("sender", &"it had ended"), died)),
        }
    }
}

fn died(thread: std::thread::JoinHandle<()>) -> WireError {
    match thread.join() {
        Err(panic) => WireError::died("sender", panic.as_ref()),
        Ok(()) => WireError::died("sender", &"it ended before its time"),
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // A panic was told to whoever asked for the trial.
            let _ = thread.join();
        }
    }
}
