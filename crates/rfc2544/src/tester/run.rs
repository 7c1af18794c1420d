//! A trial: sends frames at a constant rate and accounts for each.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use super::account::Arrived;
use super::frame::{Profile, Templates};
use super::stamps::{PortStamps, Stamped, Stamps, Tags};
use netcliff_packets::clock;
use netcliff_packets::clock::Ticker;
use netcliff_packets::error::WireError;
use netcliff_packets::latency::{Latency, LatencySummary};
use netcliff_packets::port::{ReceiveBy, Receiver, Receiving, SendBy, SendOutcome, Sender, Sending};
use netcliff_packets::thread::Placement;

mod flight;
mod open;
mod remote;

pub use netcliff_core::verdict::{KEPT_UP_SHARE, LATE_NS, Void};
pub use remote::Remote;

pub(super) use flight::void;
use flight::{Ended, Flight, send, settle};
use open::{receivers, senders};

/// Default number of frames per kick (one handover to the kernel): frames that are due together leave together.
pub const MAX_BURST: usize = 32;
/// Time after the end of a trial during which overdue frames may still leave \[ns\].
pub(super) const GRACE_NS: u64 = 5_000_000;
/// Time between the call that starts a trial and its first frame \[ns\].
const LEAD_NS: u64 = 2_000_000;

/// One direction through the device under test.
#[derive(Debug, Clone)]
pub struct Direction {
    /// Port that the frames leave from.
    pub from: Port,
    /// Port where the frames are expected.
    pub to: Port,
    /// The frames.
    pub profile: Profile,
}

/// An interface of the tester.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Network namespace, e.g. `/run/netns/NAME`. `None`: the caller's.
    pub netns: Option<PathBuf>,
    /// Name of the interface in that namespace.
    pub interface: String,
}

/// The requested methods of sending, receiving and stamping.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Methods {
    /// Method of sending.
    pub send: SendBy,
    /// Method of receiving.
    pub receive: ReceiveBy,
    /// Clock that stamps the tagged frames.
    pub stamps: Stamps,
}

impl Methods {
    /// Refuses timestamps with XDP: an XDP program takes frames before the kernel or a packet socket stamps them.
    fn checked(self) -> Result<Self, WireError> {
        match (self.stamps, self.receive) {
            (Stamps::Application, _) => Ok(self),
            (_, ReceiveBy::Auto | ReceiveBy::Packet) => Ok(Self { receive: ReceiveBy::Packet, ..self }),
            (stamps, _) => {
                let accepted =
                    format!("packet or auto with --stamps {stamps}: what AF_XDP takes in has no such stamps");
                Err(WireError::setting("--receive-by", "AF_XDP", accepted))
            }
        }
    }
}

/// The methods of sending, receiving and timestamping in use, as found in the first direction; the other direction has
/// the same.
#[derive(Debug, Clone, PartialEq)]
pub struct Tester {
    /// Method of sending.
    pub sending: Sending,
    /// Why the sender does not use AF_XDP although AF_XDP was tried. `None` otherwise.
    pub not_sent_by_xdp: Option<String>,
    /// Method of receiving.
    pub receiving: Receiving,
    /// Why the receiver does not use AF_XDP although AF_XDP was tried. `None` otherwise.
    pub not_received_by_xdp: Option<String>,
    /// Why live frames are not in use although they were requested. `None` otherwise.
    pub not_live: Option<String>,
    /// Clock that stamps the tagged frames.
    pub stamps: Stamps,
    /// The timestamps that each port offers, the sink's port first.
    pub ports: Vec<PortStamps>,
}

/// The load of a trial and its duration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trial {
    /// Frames per second in each direction.
    pub load_pps: f64,
    /// Time for which frames are sent \[s\].
    pub duration_s: f64,
    /// Longest wait for frames that are still on the path \[s\]; it ends early when no frame is missing.
    pub settle_s: f64,
    /// Largest number of frames per kick.
    pub max_burst: usize,
    /// Time at which the tagged frame leaves, from the start \[s\]. `None`: no frame is tagged.
    pub tagged_at_s: Option<f64>,
    /// Number of frames to send as fast as possible, used instead of rate and duration.
    pub burst: Option<u64>,
    /// Number of frames, over all directions, that may be lost. Sending ends when more frames have not arrived
    /// `settle_s` after they left. `None`: sending does not end early. Bursts, captures and live frames never end
    /// early.
    pub most_lost: Option<u64>,
}

/// The result of a trial.
#[derive(Debug, Clone)]
pub struct TrialReport {
    /// The results of each direction.
    pub directions: Vec<DirectionReport>,
    /// Time for which frames were scheduled \[s\]. It is shorter than the requested duration if the trial ended early
    /// ([`Trial::most_lost`]).
    pub duration_s: f64,
    /// Why the trial is void (RFC 9971). `None` if it counts.
    pub void: Option<Void>,
    /// Whether the stop flag ended the trial.
    pub stopped: bool,
}

/// The results of one direction.
#[derive(Debug, Clone)]
pub struct DirectionReport {
    /// Number of scheduled frames.
    pub intended: u64,
    /// Number of frames handed to the port.
    pub sent: u64,
    /// What happened to these frames, as the port reports.
    pub kicked: SendOutcome,
    /// Counts of frames at the sink.
    pub arrived: Arrived,
    /// Number of frames that arrived when the sink's ring was full.
    pub missed: u64,
    /// Time of the kick minus the scheduled time.
    pub lateness: Latency,
    /// Absolute difference between the actual and the scheduled gap to the previous frame.
    pub gap_error: Latency,
    /// Latency from sending to the kernel's timestamp at the sink.
    pub latency: Latency,
    /// Latency of the tagged frame \[s\], by the clocks of sender and sink.
    pub tagged_s: Option<f64>,
    /// Uncertainty of latencies from relating these clocks \[s\], measured in this trial.
    pub uncertainty_s: f64,
    /// Latencies of the tagged frame by kernel or hardware timestamps. `None` if not requested, or if the frame was not
    /// sent or did not arrive.
    pub stamped: Option<Stamped>,
    /// Time from the departure of the first frame to that of the last one \[s\].
    pub sending_s: f64,
    /// Number of frames that leave together by design. `None`: each frame leaves at its own time.
    pub batch: Option<u32>,
}

impl DirectionReport {
    /// Number of frames sent that did not arrive intact.
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.arrived.frames)
    }

    /// Number of frames that left later than [`LATE_NS`].
    pub fn late(&self) -> u64 {
        self.lateness.histogram().count_between(LATE_NS, u64::MAX)
    }

    /// Statistics of the lateness. `None` if nothing was sent.
    pub fn lateness(&self) -> Option<LatencySummary> {
        self.lateness.summary()
    }
}

impl TrialReport {
    /// Adds frames that the sink's port refused because it was full, as counted at the device's port. Any such frame
    /// makes the trial void.
    pub fn refused_by_sink(mut self, frames: u64) -> Self {
        if let Some(direction) = self.directions.first_mut() {
            direction.missed += frames;
            self.void = void(&self.directions, self.duration_s);
        }
        self
    }

    /// Number of frames sent, over all directions.
    pub fn sent(&self) -> u64 {
        self.directions.iter().map(|direction| direction.sent).sum()
    }

    /// Number of frames lost, over all directions.
    pub fn lost(&self) -> u64 {
        self.directions.iter().map(DirectionReport::lost).sum()
    }
}

/// Open rings for several trials, one after the other. They belong to the thread that opened them.
pub struct Bench {
    lanes: Vec<Lane>,
    ticker: Ticker,
    /// Tag of the last trial.
    tag: u16,
    tester: Tester,
}

/// A direction with its open rings.
struct Lane {
    sender: Box<dyn Sender>,
    receiver: Box<dyn Receiver>,
    templates: Templates,
    /// Sockets for the tagged frame, if kernel or hardware stamp it.
    tags: Option<Tags>,
}

impl std::fmt::Debug for Bench {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bench").field("lanes", &self.lanes.len()).field("tag", &self.tag).finish_non_exhaustive()
    }
}

impl Bench {
    /// Opens the rings of every direction. The calling thread is moved to `placement` and into the ports' namespaces,
    /// so use a separate thread.
    ///
    /// # Errors
    /// A namespace or interface does not exist or has no carrier, a profile is invalid, a port does not offer the
    /// requested timestamps, or the kernel refuses.
    pub fn open(
        directions: &[Direction],
        by: Methods,
        max_burst: usize,
        placement: &Placement,
    ) -> Result<Self, WireError> {
        let by = by.checked()?;
        placement.enter()?;
        let templates = directions.iter().map(|direction| Templates::new(&direction.profile));
        let templates = templates.collect::<Result<Vec<_>, _>>()?;
        let mut senders = senders(directions, &templates, by, max_burst)?;
        let receivers = receivers(directions, &templates, by, &mut senders)?;
        let (mut lanes, mut tester) = (Vec::new(), None);
        for ((templates, near), far) in templates.into_iter().zip(senders).zip(receivers) {
            let tags = near.tagger.zip(far.tap);
            let tags = tags.map(|(tagger, tap)| Tags::new(by.stamps, (tagger, &near.stamps), (tap, &far.stamps)));
            let (opened, taken) = (near.opened, far.opened);
            let (sender, receiver) = (opened.sender, taken.receiver);
            let why = |error: WireError| error.to_string();
            tester.get_or_insert_with(|| Tester {
                sending: sender.sending(),
                not_sent_by_xdp: opened.not_xdp.map(why),
                receiving: receiver.receiving(),
                not_received_by_xdp: taken.not_xdp.map(why),
                not_live: None,
                stamps: by.stamps,
                ports: vec![far.stamps, near.stamps],
            });
            lanes.push(Lane { sender, receiver, templates, tags: tags.transpose()? });
        }
        // Tags start at another value in each process, so that frames of an earlier process do not count.
        let tag = (clock::realtime_ns() / 1000) as u16;
        let tester = tester.ok_or_else(|| WireError::setting("directions", 0, "one or two"))?;
        Ok(Self { lanes, ticker: Ticker::new(), tag, tester })
    }

    /// The methods of sending, receiving and stamping in use.
    pub fn tester(&self) -> &Tester {
        &self.tester
    }

    /// Runs a trial.
    ///
    /// # Errors
    /// A setting is invalid, or a port was removed: then the trial is void.
    pub fn run(&mut self, trial: &Trial, stop: &AtomicBool) -> Result<TrialReport, WireError> {
        let frames = check(trial)?;
        self.tag = self.tag.wrapping_add(1);
        for lane in &mut self.lanes {
            lane.drain()?;
        }
        let tagged = trial.tagged(frames);
        for lane in &mut self.lanes {
            lane.expect(self.tag, tagged)?;
        }
        let start_ns = clock::monotonic_ns() + LEAD_NS;
        let mut flights: Vec<Flight<'_>> =
            self.lanes.iter_mut().map(|lane| Flight::new(lane, trial, frames, self.tag, start_ns)).collect();
        let sent = send(&mut flights, trial, &mut self.ticker, start_ns, stop)?;
        let duration_s = match sent {
            Ended::Decided { at_ns } => (at_ns - start_ns) as f64 * 1e-9,
            Ended::Sent | Ended::Stopped => trial.duration_s,
        };
        let off_ns = self.ticker.off_ns();
        settle(&mut flights, trial.settle_s)?;
        let directions = flights.into_iter().map(|flight| flight.report(off_ns)).collect::<Result<Vec<_>, _>>()?;
        let void = void(&directions, duration_s);
        Ok(TrialReport { directions, duration_s, void, stopped: sent == Ended::Stopped })
    }
}

impl Trial {
    /// Index of the tagged frame among `frames` frames. `None` if no frame is tagged.
    pub(super) fn tagged(&self, frames: u64) -> Option<u64> {
        self.tagged_at_s.map(|at_s| ((at_s * self.load_pps) as u64).min(frames - 1))
    }

    /// Largest number of live frames in a batch: unlimited here unless the kicks are smaller than usual.
    pub(super) fn max_batch(&self) -> u32 {
        if self.max_burst < MAX_BURST { self.max_burst as u32 } else { u32::MAX }
    }
}

pub(super) fn check(trial: &Trial) -> Result<u64, WireError> {
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
    /// Fails while a port has no carrier, because all frames would count as lost.
    fn check(&self) -> Result<(), WireError> {
        self.sender.check()?;
        self.receiver.check()
    }

    /// Discards frames left over from an earlier trial.
    fn drain(&mut self) -> Result<(), WireError> {
        while self.receiver.poll(1024, &mut |_, _| {})? > 0 {}
        self.receiver.missed()?;
        Ok(())
    }

    /// Prepares for the timestamps of the tagged frame, if there is one.
    fn expect(&mut self, tag: u16, tagged: Option<u64>) -> Result<(), WireError> {
        let Some((tags, sequence)) = self.tags.as_mut().zip(tagged) else { return Ok(()) };
        tags.begin(&self.templates, tag, sequence)
    }
}
