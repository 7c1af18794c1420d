//! Sends frames on schedule.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::limits::Limit;
use super::{Gap, GeneratorConfig, KEPT_UP_SHARE, MOST_STALLS, STALL_NS, SenderFailure, SenderReport, SentSlot, Span};
use crate::error::WireError;
use crate::frame::{Header, SEQUENCE_LIMIT};
use crate::latency::Latency;
use crate::port::SendOutcome;
use crate::thread::{CpuStamp, CpuUse};
use crate::transmit::Transmit;
use netcliff_core::verdict::LATE_NS;

/// Time after the end of the span during which overdue frames may still leave \[ns\].
const GRACE_NS: u64 = 10_000_000;
/// The thread spins if the next frame is due within this time \[ns\], and otherwise sleeps for most of the wait. Only
/// the wait for the start is longer than this.
const SPIN_NS: u64 = 2_000_000;

/// The state of a run.
struct Run<'a> {
    config: &'a GeneratorConfig,
    span: Span,
    begin: CpuStamp,
    frames: SendOutcome,
    window_offered: u64,
    window_frames: SendOutcome,
    lateness: Latency,
    burst_kicks: Vec<u64>,
    ring_full: u64,
    sequence: u64,
    first_intended_ns: Option<u64>,
    last_intended_ns: Option<u64>,
    first_kick_ns: Option<u64>,
    last_kick_ns: Option<u64>,
    slots: Vec<SentSlot>,
    stalls: Vec<Gap>,
    /// The last clock reading. `None` if the thread has slept since.
    awake_ns: Option<u64>,
    /// Intended send times of the frames of the kick under way.
    staged: Vec<u64>,
    own_limit: Option<Limit>,
    shared_limit: Option<Arc<Limit>>,
}

/// Sends every frame of the schedule that is due within the span. `clock` returns the present time \[ns\].
pub(super) fn follow(
    transmitter: &mut dyn Transmit,
    schedule: impl Iterator<Item = u64>,
    span: Span,
    config: &GeneratorConfig,
    stop: &AtomicBool,
    clock: impl Fn() -> u64,
    progress: impl Fn(u64),
) -> Result<SenderReport, SenderFailure> {
    let mut times = schedule
        .take_while(|offset| *offset < span.duration_ns)
        .map(|offset| span.start_ns + offset)
        .take(usize::try_from(span.max_frames.unwrap_or(SEQUENCE_LIMIT)).unwrap_or(usize::MAX))
        .peekable();
    let mut run = Run::new(config, span)?;
    let give_up_ns = span.start_ns + span.duration_ns + GRACE_NS;
    let mut stopped = false;
    while let Some(&due_ns) = times.peek() {
        let now = clock();
        run.look(now);
        if stop.load(Ordering::Relaxed) || config.lease.is_over(now) {
            stopped = true;
            break;
        }
        if now > give_up_ns {
            break;
        }
        if due_ns > now {
            if wait(due_ns - now) {
                run.awake_ns = None;
            }
            continue;
        }
        run.stage_due(transmitter, &mut times, now);
        if let Err(reason) = run.kick(transmitter, now, &clock) {
            let measured = run.report(times.peek().copied(), stopped).ok().map(Box::new);
            return Err(SenderFailure { reason, measured });
        }
        progress(run.sequence);
    }
    Ok(run.report(times.peek().copied(), stopped)?)
}

/// Spins once or sleeps for at most `ns`. Returns true if the thread slept.
fn wait(ns: u64) -> bool {
    if ns > SPIN_NS {
        std::thread::sleep(std::time::Duration::from_nanos((ns - SPIN_NS).min(20_000_000)));
        return true;
    }
    std::hint::spin_loop();
    false
}

impl<'a> Run<'a> {
    fn new(config: &'a GeneratorConfig, span: Span) -> Result<Self, WireError> {
        Ok(Self {
            config,
            span,
            begin: CpuStamp::now()?,
            frames: SendOutcome::default(),
            window_offered: 0,
            window_frames: SendOutcome::default(),
            lateness: Latency::new(),
            burst_kicks: vec![0; config.max_burst + 1],
            ring_full: 0,
            sequence: 0,
            first_intended_ns: None,
            last_intended_ns: None,
            first_kick_ns: None,
            last_kick_ns: None,
            slots: vec![SentSlot::default(); span.window.slots()],
            stalls: Vec::new(),
            awake_ns: None,
            staged: Vec::with_capacity(config.max_burst),
            own_limit: config.most_pps.map(Limit::of),
            shared_limit: config.share.as_ref().map(|share| Arc::clone(&share.limit)),
        })
    }

    /// Records a clock reading, and a stall if the previous reading is more than [`STALL_NS`] ago.
    #[inline]
    fn look(&mut self, now: u64) {
        self.config.heartbeat.beat(now);
        if let Some(from_ns) = self.awake_ns.replace(now)
            && now.saturating_sub(from_ns) > STALL_NS
            && self.stalls.len() < MOST_STALLS
        {
            self.stalls.push(Gap { from_ns, to_ns: now });
        }
    }

    /// Stages the frames that are due, at most one burst and at most the number that the rate limits allow.
    #[inline]
    fn stage_due(
        &mut self,
        transmitter: &mut dyn Transmit,
        times: &mut std::iter::Peekable<impl Iterator<Item = u64>>,
        now: u64,
    ) {
        let most = self.config.max_burst;
        let own = self.own_limit.as_ref().map_or(most, |limit| limit.claim(now, most));
        let both = self.shared_limit.as_ref().map_or(own, |limit| limit.claim(now, own));
        self.stage(transmitter, times, now, both);
        let staged = self.staged.len();
        if let Some(limit) = &self.own_limit {
            limit.give_back(own - staged);
        }
        if let Some(limit) = &self.shared_limit {
            limit.give_back(both - staged);
        }
    }

    /// Stages up to `most` frames that are due. All of them lie inside the window, or all outside.
    #[inline]
    fn stage(
        &mut self,
        transmitter: &mut dyn Transmit,
        times: &mut std::iter::Peekable<impl Iterator<Item = u64>>,
        now: u64,
        most: usize,
    ) {
        self.staged.clear();
        while let Some(&intended_ns) = times.peek() {
            let window = self.span.window;
            let other_side =
                self.staged.first().is_some_and(|first| window.contains(*first) != window.contains(intended_ns));
            if intended_ns > now || other_side || self.staged.len() >= most {
                return;
            }
            let header = Header { sequence: self.sequence, intended_ns };
            if !transmitter.stage(&header) {
                self.ring_full += 1;
                return;
            }
            self.staged.push(intended_ns);
            self.sequence += 1;
            times.next();
        }
    }

    #[inline]
    fn kick(&mut self, transmitter: &mut dyn Transmit, now: u64, clock: impl Fn() -> u64) -> Result<(), WireError> {
        let (Some(&first), Some(&last)) = (self.staged.first(), self.staged.last()) else {
            return Ok(());
        };
        let kicked = transmitter.kick()?;
        let after = clock();
        self.look(after);
        self.first_intended_ns.get_or_insert(first);
        self.first_kick_ns.get_or_insert(now);
        self.last_intended_ns = Some(last);
        self.last_kick_ns = Some(after);
        self.frames.add(&kicked);
        if self.span.window.contains(first) {
            self.window_offered += self.staged.len() as u64;
            self.window_frames.add(&kicked);
        }
        self.burst_kicks[self.staged.len()] += 1;
        for intended_ns in &self.staged {
            self.lateness.record_ns(after - intended_ns);
            if let Some(slot) = self.span.window.slot(*intended_ns).and_then(|slot| self.slots.get_mut(slot)) {
                slot.sent += 1;
                slot.late += u64::from(after - intended_ns > LATE_NS);
            }
        }
        Ok(())
    }

    /// Makes the report. `next_ns` is the intended time of the first frame that was not sent; `None` if all were sent.
    fn report(self, next_ns: Option<u64>, stopped: bool) -> Result<SenderReport, WireError> {
        let cpu: CpuUse = self.begin.until(&CpuStamp::now()?);
        let behind_s = match (next_ns, self.last_kick_ns) {
            (Some(next), Some(last)) => last.saturating_sub(next) as f64 * 1e-9,
            _ => 0.0,
        };
        let rate = |from: Option<u64>, to: Option<u64>| {
            let span_ns = to?.checked_sub(from?).filter(|span_ns| *span_ns > 0)?;
            (self.sequence > 1).then(|| (self.sequence - 1) as f64 * 1e9 / span_ns as f64)
        };
        let intended_pps = rate(self.first_intended_ns, self.last_intended_ns);
        // The achieved rate counts from the first *intended* send time: a late start is part of the shortfall.
        let achieved_pps = rate(self.first_intended_ns, self.last_kick_ns);
        let on_rate = match (intended_pps, achieved_pps) {
            // In a run so short that the time of the last call alone exceeds the allowed share, the lag of the last
            // call decides.
            (Some(intended), Some(achieved)) => {
                achieved >= KEPT_UP_SHARE * intended || (next_ns.is_none() && self.last_kick_ns < self.lag_allowed())
            }
            _ => true,
        };
        let on_time = self.lateness.quantile_s(0.99).is_none_or(|p99| p99 <= self.config.lateness_bound_s);
        let sent_all = next_ns.is_none() && self.sequence > 0;
        let limited = self.ring_full > 0 || self.frames.sender_full > 0;
        Ok(SenderReport {
            intended_pps,
            achieved_pps,
            frames: self.frames,
            window_offered: self.window_offered,
            window_frames: self.window_frames,
            next_sequence: self.sequence,
            largest_burst: self.burst_kicks.iter().rposition(|kicks| *kicks > 0).unwrap_or(0) as u64,
            burst_kicks: self.burst_kicks,
            ring_full: self.ring_full,
            behind_s,
            kept_up: on_rate && on_time && !limited && (stopped || next_ns.is_none()),
            sent_all,
            lateness_bound_s: self.config.lateness_bound_s,
            lateness: self.lateness,
            slots: self.slots,
            stalls: self.stalls,
            stopped,
            first_kick_ns: self.first_kick_ns,
            last_kick_ns: self.last_kick_ns,
            cpu,
            method: self.config.method,
            round_trips: None,
        })
    }

    /// Latest time at which the last kick may end in a run that is too short to judge by its rate.
    fn lag_allowed(&self) -> Option<u64> {
        Some(self.last_intended_ns? + (self.config.lateness_bound_s * 1e9) as u64)
    }
}
