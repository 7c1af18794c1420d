//! Exact solution of schemes whose polls wait for timer ticks (polling, napi-2007), with socket and application: for
//! exponential times, and if the ring does not depend on the socket.
//!
//! The ring alone is solved first. Its (packets, phase) pairs, combined with the states of the application, are the
//! states of the chain here. The distribution just after a tick is the fixed point of one period
//! ([`crate::queue::krylov`]); another period gives the times spent in the states. The socket is computed only up to
//! the number of packets that it reaches.
//!
//! Mean latency covers only packets that the socket takes. While a packet is in the ring, packets behind it influence
//! neither when it leaves nor what the application does. Packets arrive at lambda per second of its time in the ring.
//! The mean time in the ring is therefore the number of packets that a packet leaves behind, plus the number that a
//! full ring refused during its time there, divided by lambda.

mod fates;
mod period;

use std::f64::consts::LN_10;

use netcliff_core::math;
use netcliff_core::{Host, Scheme};

use super::budget::Budget;
use super::{Near, Solved};
use crate::answer::Shares;
use crate::queue::arrivals::TimeShape;
use crate::queue::krylov;
use crate::queue::uniform::Mixture;
use crate::schemes::{self, Ticked, Ticks, Work};
use period::{Brings, Move, Pace, Rows};

/// States with a smaller probability are left out. The fixed point is reached when a period changes the distribution by
/// less than this.
const LEFT_OUT: f64 = 1e-11;
/// With at most this number of (packets, phase) pairs, all of them are used, however rare, because after a refusal by a
/// full ring the packets are followed down to levels that an overloaded ring almost never reaches.
const FEW_PAIRS: usize = 400;
/// Replaces [`LEFT_OUT`] while the solution only determines how far the socket fills.
const ROUGHLY: f64 = 1e-5;
/// A socket that is full with a larger probability counts as often full.
const OFTEN: f64 = 1e-3;
/// Safety factor for the extrapolated number of packets to which the socket fills.
const MARGIN: f64 = 1.15;
/// Maximum number of periods of the iteration per decimal digit: measured are 4 to 10 for `polling:period=20us,quota=3`
/// and `napi-2007:period=20us,quota=3` with `application=2us` at 50 to 110 kpps. If the budget does not suffice for the
/// digits still missing, the iteration is not started.
const PERIODS_A_DIGIT: f64 = 10.0;
/// Operations per entry of a vector, below 1 because several entries are processed at once (approximate).
const ENTRY: f64 = 0.3;
/// If the socket is larger than the computed part, the probability at the end of that part must not exceed this.
const SPARSE: f64 = 1e-10;
/// Losses below this count as zero, because the iteration is not more precise.
const RESOLVED: f64 = 1e-9;
/// Number of packets up to which the socket is computed at first.
const FIRST_MOST: usize = 32;
/// The same initial limit for states in which a context switch to the application is under way.
const FIRST_SWITCHING: usize = 16;

/// The chain. A row is a pair (packets in the ring, phase of the scheme); each row has one state for each state of the
/// application.
struct Clocked {
    rows: Rows,
    /// `[row]`: packets in the ring.
    packets: Vec<usize>,
    /// `[row]`: the row to which a tick leads.
    ticks: Vec<usize>,
    /// Rows with a full ring.
    full: Vec<usize>,
    /// Distribution just after a tick, without the application.
    after_tick: Vec<f64>,
    period_s: f64,
    arrival_pps: f64,
}

/// Results for socket and application.
struct Found {
    /// Packets that the socket drops (pps).
    dropped_pps: f64,
    /// Mean number of packets in the ring that the socket will take; `None` if the socket takes all packets.
    present_taken: Option<f64>,
    /// Mean packets waiting in the socket.
    waiting: f64,
    /// Share of time with the application asleep and the CPU free.
    asleep: f64,
    /// Share of time of the application, including context switches.
    application: f64,
}

/// Solves the chain. `None` if the scheme has no ticks, if the ring depends on the socket, or if the budget does not
/// suffice.
pub fn solve(scheme: &Scheme, host: &Host, application_s: f64, work: &Work) -> Option<Solved> {
    let feels_socket = host.wakeup_s > 0.0 || host.cold_protocol_s > 0.0 || host.socket_drop_cost != 1.0;
    let is_exponential = work.shape == TimeShape::Exponential && work.mixture.is_empty();
    if feels_socket || host.cold_application_s > 0.0 || !is_exponential {
        return None;
    }
    let budget = Budget::of_ticks();
    let ticked = schemes::ticked(scheme, work)?;
    let ticks = ticked.ticks();
    budget.take(ENTRY * ticks.operations().ok()?)?;
    let solution = ticks.solve().ok()?;
    let ring = ticked.ring(&solution);
    let pace = Pace {
        read_pps: work.stage_rate(application_s),
        switch_per_s: (host.context_switch_s > 0.0).then(|| 1.0 / host.context_switch_s),
    };
    let mut chain = Clocked::new(&ticks, &*ticked, &|level, phase| solution.seen(level, phase), pace);
    let found = chain.solve(usize::try_from(host.socket_buffer).ok()?, &budget)?;
    let dropped_pps = if found.dropped_pps > RESOLVED * work.arrival_pps { found.dropped_pps } else { 0.0 };
    let read_pps = ring.throughput_pps - dropped_pps;
    Some(Solved {
        delivered_pps: ring.throughput_pps,
        read_pps,
        ring_loss: ring.loss,
        socket_loss: dropped_pps / work.arrival_pps,
        mean_present: ring.mean_present,
        mean_waiting: found.waiting,
        mean_latency_s: (found.present_taken.unwrap_or(ring.mean_present) + found.waiting) / read_pps,
        shares: Shares { available: found.asleep, ..ring.shares },
        application: found.application,
        interrupts_per_s: ring.interrupts_per_s,
        polls_per_s: ring.polls_per_s,
        full_polls_per_s: 0.0,
        near: Near::default(),
    })
    .filter(Solved::is_finite)
}

/// Approximate number of periods that the iteration needs from the precision `known` to [`LEFT_OUT`].
fn missing_periods(known: f64) -> f64 {
    PERIODS_A_DIGIT * (math::ln(known / LEFT_OUT) / LN_10).max(1.0)
}

/// Probabilities of a nearly full socket.
#[derive(Debug, Clone, Copy, Default)]
struct Tail {
    /// Probability of the largest computed number of packets.
    fullest: f64,
    /// Probability of at least half of that number.
    upper_half: f64,
}

impl Tail {
    /// Returns the number of packets beyond which the probability is below [`LEFT_OUT`], if probabilities continue to
    /// fall as they do up to half of `most`.
    fn reach(&self, most: usize) -> usize {
        let halves = math::ln(LEFT_OUT) / math::ln(self.upper_half.max(f64::MIN_POSITIVE));
        if halves > 0.0 { (MARGIN * halves * (most as f64 / 2.0)).ceil() as usize } else { usize::MAX }
    }
}

impl Clocked {
    fn new(ticks: &Ticks<'_>, ticked: &dyn Ticked, seen: &dyn Fn(usize, usize) -> f64, pace: Pace) -> Self {
        let all = (0..=ticks.top).flat_map(|level| (0..ticks.phases).map(move |phase| (level, phase)));
        let after = |(level, phase): (usize, usize)| (level, (ticks.tick)(level, phase));
        let rarest = if (ticks.top + 1) * ticks.phases <= FEW_PAIRS { 0.0 } else { LEFT_OUT };
        let mut pairs: Vec<(usize, usize)> = all.filter(|(level, phase)| seen(*level, *phase) > rarest).collect();
        pairs.extend(pairs.clone().into_iter().map(after));
        pairs.sort_unstable();
        pairs.dedup();
        let row = |pair: (usize, usize)| pairs.binary_search(&pair).ok();
        let free: Vec<bool> = pairs.iter().map(|(_, phase)| ticked.is_free(*phase)).collect();
        let likelier = |one: &usize, other: &usize| {
            seen(pairs[*one].0, pairs[*one].1).total_cmp(&seen(pairs[*other].0, pairs[*other].1))
        };
        let likeliest = (0..pairs.len()).max_by(likelier).unwrap_or(0);
        let moves_from = |(from, &(level, phase)): (usize, &(usize, usize))| {
            let jumps = ticks.jumps(level, phase).into_iter();
            let moves = jumps.map(|(leads_to, brings, rate)| {
                let known = row(leads_to);
                let to = known.unwrap_or(likeliest);
                let brings = if brings { Brings::Packet } else { Brings::Nothing };
                Move { from, to, rate, brings, is_astray: known.is_none(), frees: free[to] && !free[from] }
            });
            moves.filter(|one| one.to != from).collect::<Vec<_>>()
        };
        let moves = pairs.iter().enumerate().flat_map(moves_from).collect();
        let ticks_to: Vec<usize> =
            pairs.iter().enumerate().map(|(own, pair)| row(after(*pair)).unwrap_or(own)).collect();
        let mut after_tick = vec![0.0; pairs.len()];
        for (place, (level, phase)) in pairs.iter().enumerate() {
            after_tick[ticks_to[place]] += seen(*level, *phase);
        }
        Self {
            full: (0..pairs.len()).filter(|place| pairs[*place].0 == ticks.top).collect(),
            packets: pairs.iter().map(|(level, _)| *level).collect(),
            ticks: ticks_to,
            after_tick,
            period_s: ticks.period_s,
            arrival_pps: ticks.arrival_pps,
            rows: Rows { free, moves, most: 0, most_switching: 0, pace },
        }
    }

    /// Solves the chain with a socket of `places`; `None` if the budget does not suffice.
    fn solve(&mut self, places: usize, budget: &Budget) -> Option<Found> {
        let mut most = [FIRST_SWITCHING.min(places), FIRST_MOST.min(places)];
        let mut still = if most == [places; 2] { LEFT_OUT } else { ROUGHLY };
        let (mut start, mut known) = (Vec::new(), 1.0);
        loop {
            start = self.widened(start, most);
            [self.rows.most_switching, self.rows.most] = most;
            let mixture = period::mixture(self.rows.fastest_per_s(), self.period_s, self.rows.operations(), budget)?;
            let basis = ENTRY * (2 * krylov::KEPT * start.len()) as f64;
            let one_period = basis + mixture.ends.len() as f64 * self.rows.operations();
            budget.lasts(missing_periods(known) * one_period)?;
            let period = |now: &[f64]| {
                budget.take(basis)?;
                Some(self.tick(&self.rows.pass(&mixture, now, false, budget)?.ended))
            };
            start = krylov::stationary(&period, start, still)?;
            start.iter_mut().for_each(|share| *share = share.max(0.0));
            let tails = self.tails(&start);
            let is_wide = [0, 1].map(|part| most[part] == places || tails[part].fullest <= still.max(SPARSE));
            if most[1] == places && tails[1].fullest > OFTEN && self.is_often_full() && self.packets[0] > 0 {
                return None;
            }
            if is_wide == [true; 2] && still == LEFT_OUT {
                return self.figures(&mixture, &start, most[1] == places, budget);
            }
            if is_wide != [true; 2] {
                let reach = [0, 1].map(|part| tails[part].reach(most[part]).min(places));
                let wider = (reach[0] + reach[1] + 2) as f64 / self.rows.width() as f64;
                budget.lasts(missing_periods(still) * one_period * wider)?;
            } else {
                (known, still) = (still, LEFT_OUT);
            }
            most = [0, 1].map(|part| match is_wide[part] {
                true => most[part].max(tails[part].reach(most[part])),
                false => 2 * most[part],
            });
            most = [most[0].min(places), most[1].max(most[0]).min(places)];
        }
    }

    /// Returns the same distribution with room for `most` packets in the socket. If `start` is empty, returns the
    /// distribution with the application asleep.
    fn widened(&self, start: Vec<f64>, [most_switching, most]: [usize; 2]) -> Vec<f64> {
        let width = most_switching + most + 2;
        let mut wide = vec![0.0; self.after_tick.len() * width];
        if start.is_empty() {
            wide.iter_mut().step_by(width).zip(&self.after_tick).for_each(|(asleep, share)| *asleep = *share);
            return wide;
        }
        for (narrow, wide) in start.chunks(self.rows.width()).zip(wide.chunks_mut(width)) {
            let (switching, working) = self.rows.parts(narrow);
            wide[..switching.len()].copy_from_slice(switching);
            wide[most_switching + 1..][..working.len()].copy_from_slice(working);
        }
        wide
    }

    /// Returns the probabilities of a nearly full socket, during a context switch and with the application working.
    fn tails(&self, now: &[f64]) -> [Tail; 2] {
        let mut tails = [Tail::default(); 2];
        for row in now.chunks(self.rows.width()) {
            let (switching, working) = self.rows.parts(row);
            for (tail, part) in tails.iter_mut().zip([switching, working]) {
                tail.fullest += part[part.len() - 1];
                tail.upper_half += part[part.len() / 2..].iter().sum::<f64>();
            }
        }
        tails
    }

    fn tick(&self, before: &[f64]) -> Vec<f64> {
        let width = self.rows.width();
        let mut after = vec![0.0; before.len()];
        for (from, &to) in self.ticks.iter().enumerate() {
            let frees = self.rows.free[to] && !self.rows.free[from];
            let (here, there) = (from * width..(from + 1) * width, to * width..(to + 1) * width);
            self.rows.land(Brings::Nothing, frees, 1.0, &before[here], &mut after[there]);
        }
        after
    }

    fn figures(&self, mixture: &Mixture, start: &[f64], drops: bool, budget: &Budget) -> Option<Found> {
        let spent = self.rows.pass(mixture, start, true, budget)?.spent;
        let rows = || spent.chunks(self.rows.width()).map(|row| self.rows.parts(row));
        let fates = self.fates(&spent, drops);
        let present_taken = if drops {
            let refused = self.refused(mixture, start, &spent, budget)?;
            Some((fates.behind + refused) / self.arrival_pps / self.period_s)
        } else {
            None
        };
        let (mut asleep, mut application) = (0.0, 0.0);
        for ((switching, working), _) in rows().zip(&self.rows.free).filter(|(_, free)| **free) {
            asleep += switching[0];
            application += switching[1..].iter().chain(working).sum::<f64>();
        }
        let area = |times: &[f64]| times.iter().enumerate().map(|(n, time)| n as f64 * time).sum::<f64>();
        let waiting: f64 = rows().map(|(switching, working)| area(switching) + area(working)).sum();
        Some(Found {
            dropped_pps: fates.dropped / self.period_s,
            present_taken,
            waiting: waiting / self.period_s,
            asleep: asleep / self.period_s,
            application: application / self.period_s,
        })
    }
}
