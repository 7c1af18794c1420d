//! Gaps between arrivals: Poisson, constant, batches, a two-state modulated Poisson process, Pareto ON/OFF sources, or
//! the gaps of a capture.

use netcliff_core::math;
use std::sync::Arc;

use netcliff_core::{Arrivals, Traffic};

use super::on_off::OnOff;
use super::sizes::{Around, Sizes};
use crate::clock::{Clock, to_ticks};
use crate::random::{BLOCK, Purpose, Singles, Stream};

/// A stream of gaps.
#[derive(Debug)]
pub(super) enum Gaps {
    Poisson { stream: Box<Stream>, mean_ticks: f64 },
    Constant { gap_ticks: u64 },
    Batch { stream: Box<Stream>, mean_ticks: f64, size: u32, left: u32 },
    Mmpp(Box<Mmpp>),
    OnOff(Box<OnOff>),
    Thinned(Box<Thinned>),
    Trace { around: Around, ticks_a_ns: f64 },
}

impl Gaps {
    /// Makes the gaps of a traffic at `rate_pps`. A trace that was not read counts as Poisson (such a point is refused
    /// earlier).
    pub(super) fn new(traffic: &Traffic, rate_pps: f64, clock: Clock, seed: u64, replication: u64) -> Self {
        let stream = |purpose| Stream::new(seed, purpose, replication);
        let mean_ticks = clock.ticks(1.0 / rate_pps);
        let gaps = Box::new(stream(Purpose::Gap));
        match &traffic.arrivals {
            Arrivals::Trace { capture: Some(capture), once, .. } => {
                let ticks_a_ns = clock.ticks(1e-9) * capture.rate_pps() / rate_pps;
                Self::Trace {
                    around: Around::new(Arc::clone(capture), if *once { 0 } else { replication }),
                    ticks_a_ns,
                }
            }
            Arrivals::Poisson | Arrivals::Trace { capture: None, .. } => Self::Poisson { stream: gaps, mean_ticks },
            Arrivals::Constant => Self::Constant { gap_ticks: clock.whole(1.0 / rate_pps).max(1) },
            Arrivals::Batch { size } => {
                Self::Batch { stream: gaps, mean_ticks: mean_ticks * f64::from(*size), size: *size, left: 0 }
            }
            Arrivals::Mmpp { peak, busy, stay_s } => {
                let shape = (*peak, *busy, clock.ticks(*stay_s));
                Self::Mmpp(Box::new(Mmpp::new(shape, mean_ticks, *gaps, stream(Purpose::State))))
            }
            Arrivals::Thinned { keep, of } => {
                let whole = Traffic { arrivals: (**of).clone(), ..traffic.clone() };
                Self::Thinned(Box::new(Thinned {
                    gaps: Self::new(&whole, rate_pps / keep, clock, seed, replication),
                    keep: *keep,
                    chances: Singles::new(stream(Purpose::Thinning), false),
                    sizes: Sizes::new(&traffic.size, stream(Purpose::SkippedSize), replication),
                    bytes: [0; BLOCK],
                    block: [0; BLOCK],
                    next: BLOCK,
                }))
            }
            Arrivals::OnOff(on_off) => {
                Self::OnOff(Box::new(OnOff::new(on_off, traffic, rate_pps, clock, stream(Purpose::State))))
            }
        }
    }

    /// Fills a block with gaps [ticks]. `bytes` are the sizes of the same packets.
    pub(super) fn fill(&mut self, bytes: &[u32; BLOCK], out: &mut [u64; BLOCK]) {
        match self {
            Self::Poisson { stream, mean_ticks } => stream.exponential_ticks(*mean_ticks, out),
            Self::Constant { gap_ticks } => out.fill(*gap_ticks),
            Self::Batch { stream, mean_ticks, size, left } => {
                let mut units = [0.0; BLOCK];
                // Only the first packet of a batch needs a number, but one is drawn for each packet, so that blocks
                // stay aligned.
                stream.exponential(&mut units);
                for (gap, unit) in out.iter_mut().zip(&units) {
                    let first = *left == 0;
                    *gap = if first { to_ticks(unit * *mean_ticks) } else { 0 };
                    *left = if first { *size - 1 } else { *left - 1 };
                }
            }
            Self::Mmpp(mmpp) => mmpp.fill(out),
            Self::Thinned(thinned) => thinned.fill(out),
            Self::Trace { around, ticks_a_ns } => {
                out.iter_mut().for_each(|gap| *gap = to_ticks(around.next().gap_ns as f64 * *ticks_a_ns));
            }
            Self::OnOff(on_off) => out.iter_mut().zip(bytes).for_each(|(gap, bytes)| *gap = on_off.next(*bytes)),
        }
    }
}

/// The packets that remain after thinning another process. The process has its own sizes, which only ON/OFF sources
/// use; they are drawn separately from the sizes of the remaining packets.
#[derive(Debug)]
pub(super) struct Thinned {
    gaps: Gaps,
    keep: f64,
    chances: Singles,
    sizes: Sizes,
    bytes: [u32; BLOCK],
    block: [u64; BLOCK],
    next: usize,
}

impl Thinned {
    fn fill(&mut self, out: &mut [u64; BLOCK]) {
        for gap in out {
            *gap = 0;
            loop {
                if self.next == BLOCK {
                    self.next = 0;
                    self.sizes.fill(&mut self.bytes);
                    self.gaps.fill(&self.bytes, &mut self.block);
                }
                *gap += self.block[self.next];
                self.next += 1;
                if self.chances.next() <= self.keep {
                    break;
                }
            }
        }
    }
}

/// Two-state Markov-modulated Poisson process.
#[derive(Debug)]
pub(super) struct Mmpp {
    /// Arrivals per tick and mean stay [ticks], for the quiet and the busy state.
    states: [(f64, f64); 2],
    state: usize,
    /// Remaining time in the present state [ticks].
    left: f64,
    gaps: Singles,
    stays: Singles,
}

impl Mmpp {
    fn new((peak, busy, stay): (f64, f64, f64), mean_ticks: f64, gaps: Stream, stays: Stream) -> Self {
        let quiet_rate = ((1.0 - peak * busy) / (1.0 - busy)).max(0.0) / mean_ticks;
        let states = [(quiet_rate, stay * (1.0 - busy) / busy), (peak / mean_ticks, stay)];
        let mut stays = Singles::new(stays, true);
        // An exponential is below -ln(1 - p) with probability p: the process starts in its stationary state.
        let state = usize::from(stays.next() < -math::ln(1.0 - busy));
        let left = stays.next() * states[state].1;
        Self { states, state, left, gaps: Singles::new(gaps, true), stays }
    }

    fn fill(&mut self, out: &mut [u64; BLOCK]) {
        for gap in out {
            let mut waited = 0.0;
            let mut hazard = self.gaps.next();
            while hazard > self.states[self.state].0 * self.left {
                hazard -= self.states[self.state].0 * self.left;
                waited += self.left;
                self.state = 1 - self.state;
                self.left = self.stays.next() * self.states[self.state].1;
            }
            let rest = hazard / self.states[self.state].0;
            self.left -= rest;
            *gap = to_ticks(waited + rest);
        }
    }
}
