//! A trial by live XDP frames: programs in the kernel make the frames and count them ([`netcliff_host::live`]).
//!
//! It offers several times the rate of a ring, because no frame crosses from this process into the kernel or back. But
//! frames leave in batches ([`batch`]), have one size, are IPv4, and go in one direction.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use netcliff_host::live::{Counted, Frames, Live, MOST_FRAMES, PortCounts, Sent, Stopper, Trial as LiveTrial};
use netcliff_host::xdp::Facts;
use netcliff_packets::clock;
use netcliff_packets::error::WireError;
use netcliff_packets::interface::check_carrier;
use netcliff_packets::latency::Latency;
use netcliff_packets::port::SendOutcome;
use netcliff_packets::port::{ReceiveBy, Receiving, Sending};
use netcliff_packets::thread::Placement;

use super::account::Arrived;
use super::frame::Templates;
use super::run::{Direction, DirectionReport, GRACE_NS, Methods, Port, Tester, Trial, TrialReport};
use super::run::{check, void};
use super::stamps::{PortStamps, Stamps};

/// Largest scheduled time of a batch: frames that are due within this time leave together \[ns\].
const BATCH_NS: f64 = 20_000.0;
/// Largest number of frames in a batch: a quarter of a veth's ring, and the number that one poll takes.
const MOST_BATCH: u32 = 64;
/// Shortest time that a run of the program waits for a batch that is not yet due \[s\].
const WAIT_S: f64 = 25e-6;
/// Interval between checks of the stop flag.
const LOOK: Duration = Duration::from_millis(20);
/// Longest duration of a burst \[ns\].
const BURST_NS: u64 = 60_000_000_000;

/// Number of frames in a batch at a load (pps): the frames of 20 us, but at least 1 and at most 64.
pub fn batch(load_pps: f64) -> u32 {
    (load_pps * BATCH_NS * 1e-9).clamp(1.0, f64::from(MOST_BATCH)) as u32
}

/// The programs in the kernel that send and count the frames of one direction.
#[derive(Debug)]
pub struct LiveBench {
    live: Live,
    near: Port,
    far: Port,
    /// Index of the near port in its namespace.
    index: u32,
    tag: u16,
    tester: Tester,
    _watcher: Watcher,
}

/// A thread that ends the current trial when `stop` is set: the sending thread is in the kernel and cannot check the
/// flag.
#[derive(Debug)]
struct Watcher(Arc<AtomicBool>);

impl Watcher {
    /// Starts the thread with the placement of the calling thread.
    fn start(stopper: Stopper, stop: Arc<AtomicBool>) -> Result<Self, String> {
        let over = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&over);
        let watch = move || {
            while !theirs.load(Ordering::Relaxed) {
                std::thread::sleep(LOOK);
                if stop.load(Ordering::Relaxed) {
                    stopper.stop();
                }
            }
        };
        let thread = std::thread::Builder::new().name("netcliff-stop".into()).spawn(watch);
        thread.map(|_| Self(over)).map_err(|error| format!("a thread could not be started: {error}"))
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl LiveBench {
    /// Loads the programs and attaches the counting one. The calling thread is moved to `placement` and into the
    /// namespace of the sending port.
    ///
    /// # Errors
    /// A sentence that says which property of the frames, the ports or the kernel prevents it.
    pub fn open(
        directions: &[Direction],
        by: Methods,
        placement: &Placement,
        stop: Arc<AtomicBool>,
    ) -> Result<Self, String> {
        let [direction] = directions else { return Err("frames go both ways".to_owned()) };
        if by.stamps != Stamps::Application {
            return Err(format!("--stamps {} are those of sockets", by.stamps));
        }
        if by.receive != ReceiveBy::Auto {
            return Err("--receive-by: a program counts what arrives".to_owned());
        }
        let text = |error: WireError| error.to_string();
        let mut live = Live::load(&frames(direction)?)?;
        let stopper = live.stopper().map_err(|error| format!("the programs' memory: {error}"))?;
        let watcher = Watcher::start(stopper, stop)?;
        placement.enter().map_err(text)?;
        let enter = |port: &Port| {
            Placement { netns: port.netns.clone(), ..Placement::default() }.enter().map_err(text)?;
            check_carrier(&port.interface).map_err(text)?;
            let facts = Facts::of(&port.interface).map_err(|error| format!("interface {}: {error}", port.interface))?;
            Ok::<_, String>((facts.index, PortStamps::of(&port.interface)))
        };
        let (index, far) = enter(&direction.to)?;
        live.attach(index).map_err(|error| {
            format!("the program that counts cannot be attached to {}: {error}", direction.to.interface)
        })?;
        let (index, near) = enter(&direction.from)?;
        live.probe().map_err(|error| format!("this kernel sends no live frames (Linux 5.18, root): {error}"))?;
        let tester = Tester {
            sending: Sending::Live,
            not_sent_by_xdp: None,
            receiving: Receiving::Counted,
            not_received_by_xdp: None,
            not_live: None,
            stamps: by.stamps,
            ports: vec![far, near],
        };
        let tag = (clock::realtime_ns() / 1000) as u16;
        Ok(Self {
            live,
            near: direction.from.clone(),
            far: direction.to.clone(),
            index,
            tag,
            tester,
            _watcher: watcher,
        })
    }

    /// The methods in use.
    pub fn tester(&self) -> &Tester {
        &self.tester
    }

    /// Runs a trial. Latency is measured for each frame, including the tagged one if there is one.
    ///
    /// # Errors
    /// A setting is invalid, or a port is down or gone: the trial is void then.
    pub fn run(&mut self, trial: &Trial, stop: &AtomicBool) -> Result<TrialReport, WireError> {
        let frames = check(trial)?;
        if frames > MOST_FRAMES {
            let accepted = format!("at most {MOST_FRAMES} frames by live frames: a shorter trial, or --send-by auto");
            return Err(WireError::setting("frames of a trial", frames, accepted));
        }
        // 0 is the tag of frames outside a trial.
        self.tag = self.tag.wrapping_add(1).max(1);
        let in_burst = trial.burst.is_some();
        let gap_ns = if in_burst { 0.0 } else { 1e9 / trial.load_pps };
        let batch = if in_burst { MOST_BATCH } else { batch(trial.load_pps) }.min(trial.max_batch());
        let before = self.counts()?;
        let whole_ns = (frames as f64 * gap_ns) as u64;
        let sending_ns = if in_burst { BURST_NS } else { (trial.duration_s * 1e9) as u64 };
        self.live.begin(&LiveTrial {
            tag: self.tag,
            frames,
            gap_ns,
            batch,
            most_ns: sending_ns + GRACE_NS,
            port: self.index,
            measures: trial.tagged_at_s.is_some(),
            tagged: trial.tagged(frames),
        });
        let stopped = self.send(frames, sending_ns.min(whole_ns) as f64 * 1e-9, stop)?;
        let sent = self.live.sent();
        self.settle(sent.frames, trial.settle_s);
        check_carrier(&self.near.interface)?;
        let port = self.counts()?.since(before);
        let report = report(frames, &sent, &self.live.counted(), port, gap_ns, batch);
        let directions = vec![report];
        let void = void(&directions, trial.duration_s);
        Ok(TrialReport { directions, duration_s: trial.duration_s, void, stopped })
    }

    fn counts(&self) -> Result<PortCounts, WireError> {
        let interface = &self.near.interface;
        PortCounts::of(interface)
            .map_err(|error| WireError::system(format!("read the counters of interface {interface}"), error))
    }

    /// Sends until all frames are sent, the time is over, or `stop` is set. Returns true if stopped.
    fn send(&mut self, frames: u64, duration_s: f64, stop: &AtomicBool) -> Result<bool, WireError> {
        // A run of the program may end without a frame because it waited. More runs are requested for this; surplus
        // runs end at once.
        let waits = (duration_s / WAIT_S) as u64;
        loop {
            let (sent, over) = self.live.progress();
            if stop.load(Ordering::Relaxed) {
                return Ok(true);
            }
            if over || sent >= frames {
                return Ok(false);
            }
            let runs = u32::try_from(frames - sent + waits).unwrap_or(u32::MAX);
            self.live.send(runs).map_err(|error| {
                WireError::system(format!("send live frames on interface {}", self.near.interface), error)
            })?;
        }
    }

    /// Waits for frames that are still on the path.
    fn settle(&self, sent: u64, settle_s: f64) {
        let until_ns = clock::monotonic_ns() + (settle_s * 1e9) as u64;
        while self.live.arrived() < sent && clock::monotonic_ns() < until_ns {
            std::thread::sleep(std::time::Duration::from_micros(200));
        }
    }

    /// The port where frames arrive.
    pub fn far(&self) -> &Port {
        &self.far
    }
}

/// The frames of a direction, if the program can generate them.
fn frames(direction: &Direction) -> Result<Frames, String> {
    let profile = &direction.profile;
    if profile.source.is_ipv6() {
        return Err("the program makes no IPv6 frames".to_owned());
    }
    if profile.replay.is_some() || profile.sizes.len() != 1 {
        return Err("the program makes frames of one size at a constant rate".to_owned());
    }
    let templates = Templates::new(profile).map_err(|error| error.to_string())?;
    Ok(templates.for_programs())
}

/// Makes the report of a direction. Frames that the port neither sent nor refused did not reach the port.
fn report(intended: u64, sent: &Sent, counted: &Counted, port: PortCounts, gap_ns: f64, batch: u32) -> DirectionReport {
    let refused = port.refused.min(sent.frames);
    let accepted = port.left.min(sent.frames - refused);
    let kicked = SendOutcome { accepted, refused, sender_full: sent.frames - refused - accepted, unreachable: 0 };
    let (mut lateness, mut gap_error, mut latency) = (Latency::new(), Latency::new(), Latency::new());
    let mut left = sent.frames;
    for (beyond_ns, batches) in &sent.beyond {
        for place in 0..u64::from(batch) {
            let frames = (*batches).min(left);
            lateness.record_n_ns(beyond_ns + (place as f64 * gap_ns) as u64, frames);
            left -= frames;
        }
    }
    sent.apart.iter().for_each(|(ns, batches)| gap_error.record_n_ns(*ns, *batches));
    let batches: u64 = sent.beyond.iter().map(|(_, batches)| batches).sum();
    gap_error.record_n_ns(gap_ns as u64, sent.frames.saturating_sub(batches));
    counted.latency.iter().for_each(|(ns, frames)| latency.record_n_ns(*ns, *frames));
    let [first_ns, last_ns] = sent.span_ns;
    DirectionReport {
        intended,
        sent: sent.frames,
        kicked,
        arrived: Arrived {
            frames: counted.frames,
            duplicates: counted.duplicates,
            reordered: counted.reordered,
            corrupt: counted.corrupt,
            too_old: 0,
            foreign: counted.foreign,
        },
        missed: 0,
        lateness,
        gap_error,
        latency,
        tagged_s: counted.tagged_ns.map(|ns| ns as f64 * 1e-9),
        uncertainty_s: 0.0,
        stamped: None,
        sending_s: last_ns.saturating_sub(first_ns) as f64 * 1e-9,
        batch: Some(batch),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_the_frames_of_20_us() {
        let at = [1.0, 49e3, 100e3, 1e6, 2.05e6, 20e6].map(batch);
        assert_eq!(at, [1, 1, 2, 20, 41, 64]);
    }

    /// Ten frames in batches of four, scheduled 1 us apart; the batches leave 500 ns late. Each frame of a batch is
    /// also late by the time from its schedule to the end of the batch.
    #[test]
    fn each_frame_has_its_place_and_its_lateness() {
        let sent = Sent {
            frames: 10,
            over: false,
            span_ns: [3_500, 9_500],
            beyond: vec![(500, 3)],
            apart: vec![(3_000, 1), (1_000, 1)],
        };
        let counted = Counted { frames: 6, duplicates: 1, ..Counted::default() };
        let port = PortCounts { left: 7, refused: 2 };
        let report = report(10, &sent, &counted, port, 1_000.0, 4);
        assert_eq!(report.kicked, SendOutcome { accepted: 7, refused: 2, sender_full: 1, unreachable: 0 });
        assert_eq!((report.sent, report.lost(), report.arrived.duplicates), (10, 4, 1));
        assert_eq!(report.lateness.count(), 10);
        let worst_s = report.lateness.quantile_s(1.0).expect("frames");
        assert!((3.4e-6..3.6e-6).contains(&worst_s), "{worst_s}");
        assert!((5.9e-6..6.1e-6).contains(&report.sending_s), "{}", report.sending_s);
        // Frames of other programs at the port do not change the counts of lost and duplicate frames.
        let more = super::report(10, &sent, &counted, PortCounts { left: 50, refused: 1 }, 1_000.0, 4);
        assert_eq!(more.kicked.total(), 10);
    }
}
