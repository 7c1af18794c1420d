//! Exact solution of ring, socket and application as one Markov chain, for exponential times and for schemes that give
//! the CPU to the application only while the ring is empty or a new packet waits for its interrupt. napi's ring may
//! have times made of exponential phases (`Phases`); the application's times are always exponential.
//!
//! An excursion is a busy period of the ring; the application stands still during an excursion and runs in the free
//! periods between excursions. Therefore an excursion changes the socket only by its number of services (`batch`), a
//! free period only by the application's progress (`free`). Together they give a Markov chain of the socket alone
//! (`socket`), whatever the size of the ring. A wake-up lengthens the first service of an excursion if the application
//! is asleep, and a full socket may shorten later services; both are known when the excursion begins.
//!
//! The sums for the outcome are then taken over all excursions, weighted by the free space in the socket at their
//! start. Events with a probability below 1e-13 to 1e-15, depending on the step, are left out; with ticks, below 1e-11.

mod band;
mod clocked;
mod elimination;
mod excursion;
mod free;
mod laws;
mod level;
mod outcome;
mod periods;
mod polls;
mod rest;
mod socket;
mod sweep;
mod weights;

use netcliff_core::{Host, Scheme};

use crate::answer::{Ring, Shares};
use crate::queue::arrivals::TimeShape;
use crate::schemes::modulated::{Chain, Phases, Role};
use crate::schemes::{self, AsTimer, Gathering, LARGEST_WEIGHT, Work};
use band::{Band, longest_progress};
use budget::Budget;
use excursion::{Costs, Excursion};
use free::Wait;
use laws::Laws;
pub use outcome::outcome;
use periods::Free;
use polls::Polls;
use socket::{Cycle, Node, Socket, Waits};
use sweep::{Sweep, Totals};

/// Ring, socket and application in equilibrium.
#[derive(Debug, Clone, PartialEq)]
pub struct Solved {
    /// Packets that leave protocol processing, including those dropped at the socket (pps).
    pub delivered_pps: f64,
    /// Packets that the application takes (pps).
    pub read_pps: f64,
    /// Share of offered packets lost at the ring (1).
    pub ring_loss: f64,
    /// Share of offered packets lost at the socket (1).
    pub socket_loss: f64,
    /// Mean packets in ring and protocol.
    pub mean_present: f64,
    /// Mean packets waiting in the socket.
    pub mean_waiting: f64,
    /// Mean time from arrival in memory until the application takes the packet (s).
    pub mean_latency_s: f64,
    /// CPU shares without the application; `available` is what is left over.
    pub shares: Shares,
    /// The application's share of the CPU, context switches included.
    pub application: f64,
    /// Interrupts (1/s).
    pub interrupts_per_s: f64,
    /// Polls (1/s); `None` if the scheme does not poll.
    pub polls_per_s: Option<f64>,
    /// Polls that processed their whole weight (1/s).
    pub full_polls_per_s: f64,
    /// The approximations of this solution.
    pub near: Near,
}

/// Approximations of a solution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Near {
    /// True: the additional times of cold caches are approximated as exponential, with the socket's occupancy in the
    /// middle of each excursion.
    pub cold: bool,
    /// True: polls are assumed to reach their weight at random.
    pub polls: bool,
    /// True: the NIC's moderation is replaced by a single timer with the same mean time.
    pub moderation: bool,
}

impl Solved {
    /// True if all figures are finite.
    fn is_finite(&self) -> bool {
        let Shares { interrupt, poll, protocol, available } = self.shares;
        let rates = [self.delivered_pps, self.read_pps, self.interrupts_per_s, self.polls_per_s.unwrap_or(0.0)];
        let packets = [self.mean_present, self.mean_waiting, self.mean_latency_s, self.full_polls_per_s];
        let shares = [self.ring_loss, self.socket_loss, interrupt, poll, protocol, available, self.application];
        rates.iter().chain(&packets).chain(&shares).all(|figure| figure.is_finite())
    }
}

/// A scheme as excursions (busy periods) of its ring, and what precedes them.
struct Plan {
    chain: Chain,
    /// Stage in which an excursion begins.
    stage: usize,
    wait: Wait,
    /// P(another poll follows a service), if polls are assumed to reach their weight (packets per poll) at random.
    /// `None` if the chain counts the packets of each poll.
    again: Option<f64>,
    /// The exponential phases of the scheme's times.
    phases: Phases,
}

/// Number of socket occupancies at which waits for interrupts and busy periods with cold caches are computed. Between
/// two of these occupancies, values are interpolated linearly.
const COLD_NODES: usize = 5;

impl Plan {
    /// Makes the chain that counts the packets of each poll. `None` if the application may also run with packets in the
    /// ring, or if times are not exponential.
    fn of(scheme: &Scheme, work: &Work) -> Option<Self> {
        if work.shape != TimeShape::Exponential || !work.mixture.is_empty() {
            return None;
        }
        let plain = |scheme: &Scheme, wait: Wait| {
            let chain = schemes::chain(scheme, work).ok()?;
            let stage = if matches!(scheme, Scheme::Napi(_)) { 1 } else { (chain.accepted)(0) };
            Some(Self { chain, stage, wait, again: None, phases: Phases::One })
        };
        match scheme {
            Scheme::Ideal | Scheme::Interrupt { .. } | Scheme::DisableEnable { .. } => plain(scheme, Wait::Nothing),
            Scheme::Napi(_) if work.delivery_s > 0.0 => plain(scheme, Wait::Exponential { mean_s: work.delivery_s }),
            Scheme::Napi(_) => plain(scheme, Wait::Nothing),
            Scheme::Coalesce(coalesce) if coalesce.masked => {
                let wait = wait(&Gathering::of(coalesce)?);
                plain(&Scheme::DisableEnable { merged: false }, wait)
            }
            _ => None,
        }
    }
}

impl Plan {
    /// Makes napi's chain in which any service may be the last of its poll, with the same probability as in `ring`
    /// alone: a few stages instead of dozens. Its times may consist of phases. `None` for other schemes.
    fn at_random(scheme: &Scheme, work: &Work, ring: &Ring) -> Option<Self> {
        let Scheme::Napi(napi) = scheme else { return None };
        let again = schemes::napi_full_polls(ring, napi);
        let phases = Phases::of(&work.shape)?;
        let plan = Self::of(scheme, &Work { shape: TimeShape::Exponential, ..work.clone() })?;
        Some(Self { chain: schemes::napi_at_random(work, napi, again), again: Some(again), phases, ..plan })
    }
}

/// Conditions that end the wait for an interrupt in masked coalescing.
fn wait(gathering: &Gathering) -> Wait {
    let packets = gathering.frames.map(|frames| frames as usize);
    let timer_s = gathering.timer_s.filter(|timer_s| *timer_s > 0.0);
    match (timer_s, gathering.packet_timer_s, packets) {
        (_, _, Some(1)) | (None, None, None) => Wait::Nothing,
        (None, None, Some(packets)) => Wait::Packets(packets),
        (Some(timer_s), _, packets) => Wait::Timer { timer_s, packets },
        (None, Some(timer_s), packets) => {
            Wait::PacketTimer { timer_s, packets, drops_restart: gathering.drops_restart }
        }
    }
}

/// Conditions that end the wait for an interrupt of a NIC with moderation under NAPI.
fn timer(nic: &AsTimer) -> Wait {
    let AsTimer { timer_s, from_last, frames: packets, .. } = *nic;
    match (timer_s > 0.0, from_last) {
        (false, _) => Wait::Nothing,
        (true, false) => Wait::Timer { timer_s, packets },
        (true, true) => Wait::PacketTimer { timer_s, packets, drops_restart: false },
    }
}

/// Solves the chain. `None` if the scheme has no such chain, if solving would take much longer than half a second, or
/// if a figure exceeds the range of doubles. `ring` solves the ring alone.
pub fn solve(
    scheme: &Scheme,
    host: &Host,
    application_s: f64,
    work: &Work,
    ring: &dyn Fn() -> Option<Ring>,
) -> Option<Solved> {
    let moderation = match scheme {
        Scheme::Napi(napi) if napi.moderation.is_on() => Some(schemes::napi_as_timer(work, napi)?),
        _ => None,
    };
    if let Scheme::Polling { .. } | Scheme::Napi2007 { .. } = scheme {
        return clocked::solve(scheme, host, application_s, work);
    }
    let whole = |mut plan: Plan| {
        plan.wait = moderation.map_or(plan.wait, |nic| timer(&nic));
        let mut solved =
            solve_plan(&plan, scheme, host, application_s, work, &Budget::whole().leaving_out(work.left_out))?;
        solved.near.moderation = moderation.is_some_and(|nic| !nic.is_exact);
        Some(solved)
    };
    Plan::of(scheme, work).and_then(whole).or_else(|| {
        let plan = matches!(scheme, Scheme::Napi(_)).then(|| Plan::at_random(scheme, work, &ring()?))??;
        whole(plan)
    })
}

fn solve_plan(
    plan: &Plan,
    scheme: &Scheme,
    host: &Host,
    application_s: f64,
    work: &Work,
    budget: &Budget,
) -> Option<Solved> {
    let most = usize::try_from(host.socket_buffer).ok()?;
    let costs =
        Costs { wakeup_s: host.wakeup_s, cold_s: host.cold_protocol_s, drop_cost: host.socket_drop_cost, socket: most };
    budget.take(most as f64)?;
    let excursion = Excursion::new(&plan.chain, plan.phases, work, costs);
    let colder_s = |waiting: usize| host.cold_application_s * ((waiting + 1) as f64 / most as f64).min(1.0);
    let socket = Socket {
        most,
        read_pps: (0..=most).map(|waiting| work.stage_rate(application_s + colder_s(waiting))).collect(),
        switch_per_s: (host.context_switch_s > 0.0).then(|| 1.0 / host.context_switch_s),
    };
    let is_cold = host.cold_protocol_s + host.cold_application_s > 0.0;
    let polls = Polls::of(&excursion, most, budget);
    let cycle = cycle(plan, (&excursion, polls.as_ref()), &socket, is_cold, budget)?;
    let idle = match plan.wait {
        Wait::Nothing => socket.idle(&cycle, work.arrival_pps, budget)?,
        _ => Band::new(&socket, &cycle, work.arrival_pps, budget)?.stationary(budget)?,
    };
    let mut free = Free::new(&socket, &cycle, &idle, (plan.wait, excursion.places), work.arrival_pps, budget)?;
    let totals = match &polls {
        Some(polls) => polls::Pass::totals(polls, (most, cycle.longest()), &free.begun, budget)?,
        None => Sweep { excursion: &excursion, stage: plan.stage, most, longest: cycle.longest(), budget }
            .totals(&free.begun)?,
    };
    free.taken_area += totals.taken_area;
    // In extreme overload a busy period of the ring has more services than a double can count: the result is then not
    // finite.
    let near = Near { cold: is_cold, polls: plan.again.is_some(), moderation: false };
    Some(answer(scheme, work, (plan, &excursion.chain), &free, &totals, near)).filter(Solved::is_finite)
}

/// Computes the waits for interrupts and the ring's busy periods after them; `None` if the budget of operations does
/// not suffice.
fn cycle(
    plan: &Plan,
    (excursion, polls): (&Excursion, Option<&Polls>),
    socket: &Socket,
    is_cold: bool,
    budget: &Budget,
) -> Option<Cycle> {
    let (most, places, arrival_pps) = (socket.most, excursion.places, excursion.arrival_pps);
    let intervals = if is_cold { (COLD_NODES - 1).min(most) } else { 0 };
    let at: Vec<usize> = (0..=intervals).map(|node| most * node / intervals.max(1)).collect();
    if let Some((packets, progress)) = plan.wait.reaches(arrival_pps, places, socket.read_pps[most], most) {
        // A busy period of the ring has at least as many services as packets at its start.
        budget.lasts(band::operations(socket, progress, packets, !is_cold))?;
    }
    let asleep = socket.asleep(plan.wait, arrival_pps, places, budget)?;
    let mut waits = Vec::new();
    for &waiting in &at {
        waits.push(socket.waits(plan.wait, arrival_pps, places, waiting, budget)?);
    }
    let awake = waits.iter().flat_map(|waits| [&waits.working, &waits.switching]);
    let ends = awake.chain([&asleep]).flat_map(|waited| &waited.ends);
    let mut packets: Vec<usize> = ends.map(|end| end.packets).collect();
    packets.sort_unstable();
    packets.dedup();
    let progress = longest_progress(waits.iter().flat_map(|waits| [&waits.working, &waits.switching]), budget);
    let band = |services: usize| match plan.wait {
        Wait::Nothing => 0.0,
        _ => band::operations(socket, progress, services, !is_cold),
    };
    let laws = Laws::new((excursion, polls), plan.stage, most, *packets.last()?, at.len(), &band, budget)?;
    let (mut nodes, mut woken) = (Vec::new(), Vec::new());
    // In the middle of a busy period, half of its packets wait in the socket: all its services get the cache costs of
    // that occupancy.
    let mut half = 0;
    for (waiting, Waits { working, switching }) in at.into_iter().zip(waits) {
        let wakes = waiting == 0 && excursion.wakes();
        let (served, first) = laws.served(&packets, (waiting + half).min(most), wakes)?;
        if waiting == 0 {
            woken = if wakes { first } else { served.clone() };
        }
        half = (0.5 * served.first().map_or(0.0, laws::Served::mean)) as usize;
        nodes.push(Node { waiting, working, switching, served });
    }
    Some(Cycle { packets, nodes, asleep, woken })
}

/// Computes the figures of a solution; `chain` is `plan`'s chain with phases.
fn answer(
    scheme: &Scheme,
    work: &Work,
    (plan, chain): (&Plan, &Chain),
    free: &Free,
    totals: &Totals,
    near: Near,
) -> Solved {
    let free_s = free.asleep_s + free.switching_s + free.working_s;
    let all_s = free_s + totals.time_s();
    let role = |wanted: Role, times: &[f64]| -> f64 {
        chain.roles.iter().zip(times).filter(|(role, _)| **role == wanted).map(|(_, time)| time).sum()
    };
    let both = |wanted: Role| role(wanted, &totals.present_s) + role(wanted, &totals.empty_s);
    // A wake-up counts as protocol, also in the stage of interrupt and first packet.
    let first_s = both(Role::First) - totals.waking_s;
    let shares = Shares {
        interrupt: (both(Role::Interrupt) + first_s * (1.0 - chain.first_serves)) / all_s,
        poll: (both(Role::Poll) + both(Role::Unmask)) / all_s,
        protocol: (both(Role::Serving) + first_s * chain.first_serves + totals.waking_s) / all_s,
        available: free.asleep_s / all_s,
    };
    let read_pps = totals.taken / all_s;
    let excursions = free.begun.total();
    let interrupts = match scheme {
        Scheme::Ideal => 0.0,
        Scheme::Interrupt { .. } => both(Role::Interrupt) * work.stage_rate(work.interrupt_s),
        _ => excursions + role(Role::Unmask, &totals.present_s) * work.stage_rate(unmask_s(scheme, work)),
    };
    Solved {
        delivered_pps: (totals.taken + totals.dropped) / all_s,
        read_pps,
        ring_loss: (free.full_s + totals.full_s) / all_s,
        socket_loss: totals.dropped / all_s / work.arrival_pps,
        mean_present: (free.area + totals.area) / all_s,
        mean_waiting: (free.waiting_area + totals.waiting_area) / all_s,
        mean_latency_s: (free.taken_area + free.waiting_area + totals.waiting_area) / totals.taken,
        shares,
        application: (free.switching_s + free.working_s) / all_s,
        interrupts_per_s: interrupts / all_s,
        polls_per_s: matches!(scheme, Scheme::Napi(_)).then(|| both(Role::Poll) * work.stage_rate(work.poll_s) / all_s),
        full_polls_per_s: full_polls(scheme, plan, work, totals) / all_s,
        near,
    }
}

/// Polls that processed their whole weight (1/s).
fn full_polls(scheme: &Scheme, plan: &Plan, work: &Work, totals: &Totals) -> f64 {
    match (scheme, plan.again) {
        (_, Some(again)) => again * (totals.taken + totals.dropped),
        (Scheme::Napi(napi), None) if napi.weight <= LARGEST_WEIGHT => {
            totals.present_s[plan.chain.roles.len() - 1] / work.service_s
        }
        _ => 0.0,
    }
}

/// Time of the register write after a poll (s).
fn unmask_s(scheme: &Scheme, work: &Work) -> f64 {
    match scheme {
        Scheme::Napi(napi) if napi.backlog => 0.0,
        _ => work.mask_s,
    }
}

mod budget {
    //! Limits the work of a solution.

    use std::cell::Cell;

    /// Maximum number of operations of one solution (a multiplication with its addition counts as one): some tenths of
    /// a second, because a search for a cliff and a sweep (`netcliff find`) need about forty solutions. A ring of 1000,
    /// a socket of 2500 packets and polls of 64 need 1e8 at the cliff, 4e8 at twice its load.
    pub const MOST_OPERATIONS: f64 = 2e9;

    /// Maximum number of operations of a solution with ticks: one to two seconds. The ring alone may take as long, and
    /// `netcliff find` uses no scheme with ticks. A ring of 1024 and a socket of 256 packets under
    /// `napi-2007:period=20us,quota=3` need 9e8 at 100 kpps.
    const MOST_OPERATIONS_OF_TICKS: f64 = 2e9;

    /// Number of operations that a solution may still use; all its parts take from the same budget.
    #[derive(Debug)]
    pub struct Budget {
        left: Cell<f64>,
        /// Events with a smaller probability are left out.
        least: f64,
    }

    impl Budget {
        /// The whole budget of a solution without ticks.
        pub fn whole() -> Self {
            Self { left: Cell::new(MOST_OPERATIONS), least: 0.0 }
        }

        /// The whole budget of a solution with ticks.
        pub fn of_ticks() -> Self {
            Self { left: Cell::new(MOST_OPERATIONS_OF_TICKS), least: 0.0 }
        }

        /// Returns the same budget, with events of a probability below `least` left out.
        pub fn leaving_out(self, least: f64) -> Self {
            Self { least, ..self }
        }

        /// Returns the probability below which a step leaves out events: `exact`, which is the limit of that step in
        /// the exact solution, or the limit of this budget if that is higher.
        pub fn least(&self, exact: f64) -> f64 {
            exact.max(self.least)
        }

        /// Checks that `operations` are left, without taking them; `None` if fewer are left.
        pub fn lasts(&self, operations: f64) -> Option<()> {
            (self.left.get() >= operations).then_some(())
        }

        /// Takes `operations` from the budget; `None` if fewer are left.
        pub fn take(&self, operations: f64) -> Option<()> {
            let left = self.left.get() - operations;
            self.left.set(left);
            (left >= 0.0).then_some(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Interrupts delivered 1 ms late, and a ring of 10 000 packets: a solution that needs more operations than the
    /// budget allows is refused before a quarter of the budget is spent.
    #[test]
    fn what_does_not_fit_is_refused_early() {
        let host = Host {
            context_switch_s: 2e-6,
            wakeup_s: 1e-6,
            cold_protocol_s: 0.3e-6,
            cold_application_s: 0.4e-6,
            socket_buffer: 2516,
            ..Host::pentium4_2530mhz()
        };
        let scheme: Scheme = "napi".parse().unwrap();
        for arrival_pps in [250e3, 420e3, 600e3] {
            let work = Work {
                arrival_pps,
                service_s: 0.9e-6,
                interrupt_s: 2e-6,
                poll_s: 0.5e-6,
                mask_s: 0.0,
                delivery_s: 1e-3,
                places: 10_000,
                shape: TimeShape::Exponential,
                frame_bytes: 64.0,
                mixture: Vec::new(),
                quantiles: false,
                left_out: 0.0,
            };
            let budget = Budget::whole();
            let plan = Plan::of(&scheme, &work).unwrap();
            assert_eq!(solve_plan(&plan, &scheme, &host, 1e-6, &work, &budget), None, "{arrival_pps}");
            assert!(budget.lasts(0.75 * budget::MOST_OPERATIONS).is_some(), "{arrival_pps}: {budget:?}");
        }
    }
}
