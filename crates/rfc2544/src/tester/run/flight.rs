//! One direction of a running trial: its schedule and its counts, and how the trial sends and ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::super::account::Account;
use super::{DirectionReport, GRACE_NS, Lane, Trial, Void};
use netcliff_core::verdict::TesterCounts;
use netcliff_packets::clock::{self, Ticker};
use netcliff_packets::error::WireError;
use netcliff_packets::latency::Latency;
use netcliff_packets::port::SendOutcome;
use netcliff_packets::port::Stamp;
use netcliff_packets::replay::Replay;

/// Longest duration of a burst \[ns\].
const BURST_NS: u64 = 60_000_000_000;
/// Number of frames read between two checks of the schedule: about 5 us.
const READ_AT_ONCE: usize = 32;
/// Interval between reads of the offset between the kernel's clocks, and between checks of the sink's port \[ns\].
const LOOK_NS: u64 = 100_000_000;
/// Interval between counts of lost frames, if the trial ends early after too many of them \[ns\].
const COUNT_NS: u64 = 50_000_000;

/// One direction of a running trial.
pub(super) struct Flight<'a> {
    lane: &'a mut Lane,
    account: Account,
    tag: u16,
    /// Sequence number of the tagged frame, which is sent through a separate socket that reports when the frame left.
    alone: Option<u64>,
    frames: u64,
    gap_ns: f64,
    /// A capture whose times are replayed, and the factor by which its gaps are stretched to the load.
    replay: Option<(Arc<Replay>, f64)>,
    start_ns: u64,
    max_burst: usize,
    next: u64,
    kicked: SendOutcome,
    lateness: Latency,
    gap_error: Latency,
    last_kick_ns: Option<u64>,
    first_kick_ns: Option<u64>,
    /// `CLOCK_REALTIME` - `CLOCK_MONOTONIC` \[ns\], at the last read.
    offset_ns: i64,
    /// Largest error bound of the offset in this trial \[ns\].
    offset_off_ns: u64,
    looked_ns: u64,
    /// Number of frames that found the sink's ring full.
    missed: u64,
}

impl<'a> Flight<'a> {
    pub(super) fn new(lane: &'a mut Lane, trial: &Trial, frames: u64, tag: u16, start_ns: u64) -> Self {
        let tagged = trial.tagged(frames);
        let account = Account::new(tag, lane.templates.streams(), tagged);
        let (offset_ns, offset_off_ns) = clock::realtime_minus_monotonic();
        let replay = lane.templates.replay().filter(|_| trial.burst.is_none()).cloned();
        let alone = tagged.filter(|_| lane.tags.is_some());
        Self {
            lane,
            account,
            tag,
            alone,
            frames,
            replay: replay.map(|replay| {
                let stretch = replay.stretch(trial.load_pps);
                (replay, stretch)
            }),
            gap_ns: if trial.burst.is_some() { 0.0 } else { 1e9 / trial.load_pps },
            start_ns,
            max_burst: trial.max_burst,
            next: 0,
            kicked: SendOutcome::default(),
            lateness: Latency::new(),
            gap_error: Latency::new(),
            last_kick_ns: None,
            first_kick_ns: None,
            offset_ns,
            offset_off_ns,
            looked_ns: start_ns,
            missed: 0,
        }
    }

    #[inline]
    fn due_ns(&self, sequence: u64) -> u64 {
        let offset_ns = match &self.replay {
            Some((replay, stretch)) => replay.at_ns(sequence, *stretch),
            None => (sequence as f64 * self.gap_ns) as u64,
        };
        self.start_ns + offset_ns
    }

    fn is_sent(&self) -> bool {
        self.next >= self.frames
    }

    /// Sends the frames that are due, at most one burst of them and the tagged frame.
    #[inline]
    fn send_due(&mut self, now_ns: u64) -> Result<(), WireError> {
        let (first, tag) = (self.next, self.tag);
        let templates = &self.lane.templates;
        while self.next < self.frames && self.next - first < self.max_burst as u64 && self.due_ns(self.next) <= now_ns {
            let sequence = self.next;
            let length = templates.length(sequence);
            if self.alone == Some(sequence)
                || !self.lane.sender.stage(length, &mut |frame| templates.write(frame, tag, sequence, now_ns))
            {
                break;
            }
            self.next += 1;
        }
        if self.next > first {
            self.kicked.add(&self.lane.sender.kick()?);
        }
        if self.alone == Some(self.next) && self.due_ns(self.next) <= now_ns {
            self.send_alone(now_ns)?;
        }
        if self.next > first {
            self.record(first, now_ns);
        }
        Ok(())
    }

    /// Sends the tagged frame through its own socket, after the frames before it.
    fn send_alone(&mut self, now_ns: u64) -> Result<(), WireError> {
        let (sequence, tag) = (self.next, self.tag);
        let Lane { templates, tags, .. } = &mut *self.lane;
        if let Some(tags) = tags {
            let length = templates.length(sequence);
            let kicked = tags.send(length, |frame| templates.write(frame, tag, sequence, now_ns))?;
            self.kicked.add(&kicked);
            self.next += 1;
        }
        Ok(())
    }

    /// Records the lateness of each frame of a burst, and the error of its gap to the previous frame.
    #[inline]
    fn record(&mut self, first: u64, now_ns: u64) {
        let mut before_ns = self.due_ns(first.saturating_sub(1));
        for sequence in first..self.next {
            let due_ns = self.due_ns(sequence);
            self.lateness.record_ns(now_ns - due_ns);
            // Frames of one kick follow each other without a gap, so the error of a gap is the scheduled gap itself.
            if sequence > first && self.replay.is_some() {
                self.gap_error.record_ns(due_ns - before_ns);
            } else if sequence == first
                && let Some(last_ns) = self.last_kick_ns
            {
                self.gap_error.record_ns((now_ns - last_ns).abs_diff(due_ns - before_ns));
            }
            before_ns = due_ns;
        }
        if self.replay.is_none() {
            self.gap_error.record_n_ns(self.gap_ns as u64, self.next - first - 1);
        }
        self.first_kick_ns.get_or_insert(now_ns);
        self.last_kick_ns = Some(now_ns);
    }

    /// Reads some of the frames that have arrived.
    #[inline]
    fn read(&mut self, most: usize) -> Result<usize, WireError> {
        let Lane { receiver, templates, .. } = &mut *self.lane;
        let (account, offset_ns) = (&mut self.account, self.offset_ns);
        receiver.poll(most, &mut |frame, stamp| {
            let at_ns = match stamp {
                Some(Stamp::Realtime(ns)) => ns.wrapping_add_signed(-offset_ns),
                Some(Stamp::Monotonic(ns)) => ns,
                None => clock::monotonic_ns(),
            };
            account.take(templates, frame, at_ns);
        })
    }

    /// Every 0.1 s, reads the clocks' offset and checks the ports. Fails if a port has failed.
    fn look_around(&mut self, now_ns: u64) -> Result<(), WireError> {
        if now_ns.saturating_sub(self.looked_ns) > LOOK_NS {
            let (offset_ns, off_ns) = clock::realtime_minus_monotonic();
            self.offset_ns = offset_ns;
            self.offset_off_ns = self.offset_off_ns.max(off_ns);
            self.missed += self.lane.receiver.missed()?;
            self.lane.check()?;
            self.looked_ns = now_ns;
        }
        Ok(())
    }

    /// Frames lost so far ([`Account::lost`]).
    fn lost(&mut self, now_ns: u64, settle_ns: u64) -> u64 {
        self.account.lost(now_ns, self.next, settle_ns)
    }

    /// Ends the schedule: frames that are not due by now no longer belong to the trial.
    fn cut(&mut self, now_ns: u64) {
        let due = ((now_ns - self.start_ns) as f64 / self.gap_ns) as u64 + 1;
        self.frames = due.max(self.next).min(self.frames);
    }

    /// Makes the report. `ticker_off_ns` is the error bound of the sender's clock \[ns\].
    pub(super) fn report(self, ticker_off_ns: u64) -> Result<DirectionReport, WireError> {
        let missed = self.missed + self.lane.receiver.missed()?;
        self.lane.check()?;
        let tagged_s = self.account.tagged_ns.map(|ns| ns as f64 * 1e-9);
        // The timestamps of a frame that did not arrive give no latency.
        let stamped = match &mut self.lane.tags {
            Some(tags) if tagged_s.is_some() => tags.end()?,
            _ => None,
        };
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
            tagged_s,
            uncertainty_s: (ticker_off_ns + self.offset_off_ns) as f64 * 1e-9,
            stamped,
            sending_s: sending_ns as f64 * 1e-9,
            batch: None,
        })
    }
}

/// Why sending ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// All frames were sent, or the time was over.
    Sent,
    /// More frames were lost than the trial may lose.
    Decided {
        /// Time at which this was known \[ns\].
        at_ns: u64,
    },
    /// The stop flag was set.
    Stopped,
}

/// Sends until all frames are sent, the time is over, the trial is decided, or `stop` is set.
pub(super) fn send(
    flights: &mut [Flight<'_>],
    trial: &Trial,
    ticker: &mut Ticker,
    start_ns: u64,
    stop: &AtomicBool,
) -> Result<Ended, WireError> {
    let settle_ns = (trial.settle_s * 1e9) as u64;
    let scheduled = flights.iter().all(|flight| flight.replay.is_none() && flight.gap_ns > 0.0);
    let most_lost = trial.most_lost.filter(|_| scheduled);
    let mut counted_ns = start_ns;
    let sending_ns = trial.burst.map_or((trial.duration_s * 1e9) as u64, |_| BURST_NS);
    let give_up_ns = start_ns + sending_ns + GRACE_NS;
    ticker.anchor();
    loop {
        let now_ns = ticker.now_ns();
        for flight in flights.iter_mut() {
            flight.send_due(now_ns)?;
        }
        if flights.iter().all(Flight::is_sent) || now_ns > give_up_ns {
            return Ok(Ended::Sent);
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(Ended::Stopped);
        }
        for flight in flights.iter_mut() {
            flight.read(READ_AT_ONCE)?;
            flight.look_around(now_ns)?;
        }
        if let Some(most_lost) = most_lost
            && now_ns.saturating_sub(counted_ns) > COUNT_NS
        {
            counted_ns = now_ns;
            let lost: u64 = flights.iter_mut().map(|flight| flight.lost(now_ns, settle_ns)).sum();
            if lost > most_lost {
                flights.iter_mut().for_each(|flight| flight.cut(now_ns));
                return Ok(Ended::Decided { at_ns: now_ns });
            }
        }
    }
}

/// Waits for frames that are still on the path.
pub(super) fn settle(flights: &mut [Flight<'_>], settle_s: f64) -> Result<(), WireError> {
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

pub(in crate::tester) fn void(directions: &[DirectionReport], duration_s: f64) -> Option<Void> {
    let frames = directions.iter().map(|direction| direction.intended).max().unwrap_or(0);
    let offered = |direction: &DirectionReport| direction.sent - direction.kicked.sender_full;
    let least = directions.iter().map(offered).min()? as f64;
    let sides = TesterCounts {
        offered_share: if frames == 0 { 1.0 } else { least / frames as f64 },
        reached_pps: least / (duration_s + GRACE_NS as f64 * 1e-9),
        lost: directions.iter().map(DirectionReport::lost).sum(),
        late: directions.iter().map(DirectionReport::late).sum(),
        missed: directions.iter().map(|direction| direction.missed).sum(),
    };
    sides.void(false)
}
