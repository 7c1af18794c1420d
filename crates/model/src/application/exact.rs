//! Ring, socket and application as one chain, solved exactly: for exponential times and schemes whose ring is left alone
//! only when it is empty, or while a new packet waits for its interrupt.
//!
//! The application works in the ring's free periods only, and stands still during its excursions (`excursion`). An
//! excursion therefore acts on the socket by the number of its services alone (`batch`), a free period by what the
//! application gets done in it (`free`); the two make a chain of the socket by itself (`socket`), however large the
//! ring is. A wake-up lengthens the first service of an excursion that finds the application asleep, a full socket may
//! shorten those that remain: both are known when the excursion begins.
//!
//! The sums that the outcome needs are then taken over all excursions, weighted by the room they find in the socket. What is
//! left out has a probability below 1e-16.

mod batch;
mod excursion;
mod free;
mod outcome;
mod rest;
mod socket;

use std::cell::Cell;

use netcliff_core::{Host, Scheme};

use crate::answer::Shares;
use crate::queue::arrivals::TimeShape;
use crate::schemes::modulated::{Chain, Role};
use crate::schemes::{Gathering, LARGEST_WEIGHT, Work};
use batch::{Batches, Start, Totals};
use excursion::{Excursion, Weights};
use free::{Wait, Waited};
pub use outcome::outcome;
use socket::{Cycle, Ending, Idle, Socket};

/// Ring, socket and application in statistical equilibrium.
#[derive(Debug, Clone, PartialEq)]
pub struct Solved {
    /// Packets that leave protocol processing, those dropped at the socket included (pps).
    pub delivered_pps: f64,
    /// Packets the application takes (pps).
    pub read_pps: f64,
    /// Share of offered packets lost at the ring (1).
    pub ring_loss: f64,
    /// The same at the socket (1).
    pub socket_loss: f64,
    /// Mean packets in ring and protocol.
    pub mean_present: f64,
    /// Mean packets waiting in the socket.
    pub mean_waiting: f64,
    /// Mean time from memory to the moment the application takes the packet (s).
    pub mean_latency_s: f64,
    /// CPU split; what nobody wants is `available`.
    pub shares: Shares,
    /// The application's share of the CPU, context switches included.
    pub application: f64,
    /// Interrupts (1/s).
    pub interrupts_per_s: f64,
    /// Polls (1/s), where the scheme polls.
    pub polls_per_s: Option<f64>,
    /// Polls that used their whole weight (1/s).
    pub full_polls_per_s: f64,
    /// False where something was taken as independent that is not quite.
    pub exact: bool,
}

impl Solved {
    /// True if every figure is a number.
    fn is_finite(&self) -> bool {
        let Shares { interrupt, poll, protocol, available } = self.shares;
        let rates = [self.delivered_pps, self.read_pps, self.interrupts_per_s, self.polls_per_s.unwrap_or(0.0)];
        let packets = [self.mean_present, self.mean_waiting, self.mean_latency_s, self.full_polls_per_s];
        let shares = [self.ring_loss, self.socket_loss, interrupt, poll, protocol, available, self.application];
        rates.iter().chain(&packets).chain(&shares).all(|figure| figure.is_finite())
    }
}

/// A scheme as excursions of its ring and what precedes them.
struct Plan {
    chain: Chain,
    /// The stage in which an excursion begins.
    stage: usize,
    wait: Wait,
}

/// (Packets, stage) pairs worked through at the most: about a tenth of a second, since a search for a cliff and a sweep
/// (`netcliff find`) take some forty solutions.
const MOST_PAIRS: f64 = 2e7;
/// Operations of the block elimination at the most: about a tenth of a second.
const MOST_OPERATIONS: f64 = 2e8;

impl Plan {
    /// None where the ring is also left alone with packets in it, or the times are not exponential.
    fn of(scheme: &Scheme, work: &Work) -> Option<Self> {
        if work.shape != TimeShape::Exponential || !work.mixture.is_empty() {
            return None;
        }
        let plain = |scheme: &Scheme, wait: Wait| {
            let chain = Chain::of(scheme, work).ok()?;
            let stage = if matches!(scheme, Scheme::Napi(_)) { 1 } else { (chain.accepted)(0) };
            Some(Self { chain, stage, wait })
        };
        match scheme {
            Scheme::Ideal | Scheme::Interrupt { .. } | Scheme::DisableEnable { .. } => plain(scheme, Wait::Nothing),
            Scheme::Napi(_) if work.delivery_s > 0.0 => plain(scheme, Wait::Exponential { mean_s: work.delivery_s }),
            Scheme::Napi(_) => plain(scheme, Wait::Nothing),
            Scheme::Coalesce(coalesce) if coalesce.masked => {
                let wait = wait(&Gathering::of(coalesce)?)?;
                plain(&Scheme::DisableEnable { merged: false }, wait)
            }
            _ => None,
        }
    }
}

/// What a masked coalescing waits for; None for a timer from the last packet.
fn wait(gathering: &Gathering) -> Option<Wait> {
    if gathering.packet_timer_s.is_some() {
        return None;
    }
    let packets = gathering.frames.map(|frames| frames as usize);
    Some(match (gathering.timer_s.filter(|timer_s| *timer_s > 0.0), packets) {
        (_, Some(1)) | (None, None) => Wait::Nothing,
        (None, Some(packets)) => Wait::Packets(packets),
        (Some(timer_s), packets) => Wait::Timer { timer_s, packets },
    })
}

/// Solves it; None where there is no such chain, where it would take much longer than a tenth of a second, or where a figure is
/// beyond a double.
pub fn solve(scheme: &Scheme, host: &Host, application_s: f64, work: &Work) -> Option<Solved> {
    let Plan { chain, stage, wait } = Plan::of(scheme, work)?;
    let most = usize::try_from(host.socket_buffer).ok()?;
    // The elimination beyond a full socket, and the cuts of the socket: known before anything is done.
    let stages = chain.roles.len() as f64;
    if 2.0 * stages.powi(3) * work.places as f64 > MOST_OPERATIONS || (most as f64).powi(2) > MOST_OPERATIONS {
        return None;
    }
    let excursion = Excursion::new(&chain, work, host.wakeup_s, host.socket_drop_cost);
    let batches = Batches { excursion: &excursion, most, budget: Cell::new(MOST_PAIRS) };
    let socket = Socket {
        most,
        read_pps: work.stage_rate(application_s),
        switch_per_s: (host.context_switch_s > 0.0).then(|| 1.0 / host.context_switch_s),
    };
    let [working, switching, asleep] = socket.waits(wait, work.arrival_pps, work.places as usize)?;
    let mut packets: Vec<usize> =
        [&working, &switching, &asleep].iter().flat_map(|waited| &waited.ends).map(|end| end.packets).collect();
    packets.sort_unstable();
    packets.dedup();
    let start = |packets: usize, asleep: bool| Start { packets, stage, asleep };
    let count = packets.len();
    let mut endings = Vec::with_capacity(count);
    for &packets in &packets {
        let before = batches.budget.get();
        let awake = batches.served(start(packets, false))?;
        // Each ending is worked through up to four times, and longer ones take no less.
        if (before - batches.budget.get()) * 4.0 * (count - endings.len()) as f64 > MOST_PAIRS {
            return None;
        }
        let asleep = if excursion.wakes() { batches.served(start(packets, true))? } else { awake.clone() };
        endings.push(Ending { packets, awake, asleep });
    }
    let cycle = Cycle { working, switching, asleep, endings };
    let idle = socket.idle(&cycle, wait, work.arrival_pps)?;
    let mut free = Free::new(&socket, &cycle, &idle, work.arrival_pps);
    let mut totals = Totals::new(excursion.stages());
    let mut rest = Weights::default();
    for (packets, rooms) in free.awake.iter().filter(|(_, rooms)| rooms.iter().any(|rate| *rate > 0.0)) {
        batches.add(start(*packets, false), rooms, &mut totals, &mut rest)?;
    }
    for (packets, rate) in free.asleep.iter().filter(|(_, rate)| *rate > 0.0) {
        let mut rooms = vec![0.0; most + 1];
        rooms[most] = *rate;
        batches.add(start(*packets, true), &rooms, &mut totals, &mut rest)?;
    }
    batches.add_rest(&rest, &mut totals)?;
    free.taken_area += totals.taken_area;
    // A ring so overloaded that an excursion outlasts what a double can count has no figures here.
    Some(answer(scheme, work, &chain, &free, &totals, &socket, wait.is_exact())).filter(Solved::is_finite)
}

/// The free periods: a second of idle time, and the waits that follow its arrivals.
struct Free {
    /// Time asleep, in a switch, at work (s).
    asleep_s: f64,
    switching_s: f64,
    working_s: f64,
    /// Integral of the packets in the socket [packet s].
    waiting_area: f64,
    /// Integral of the packets in the ring, and of those that the socket will take [packet s].
    area: f64,
    taken_area: f64,
    /// Time with a full ring (s).
    full_s: f64,
    /// Excursions begun (1), by packets in the ring and room in the socket.
    awake: Vec<(usize, Vec<f64>)>,
    /// The same that find the application asleep.
    asleep: Vec<(usize, f64)>,
}

impl Free {
    fn new(socket: &Socket, cycle: &Cycle, idle: &Idle, arrival_pps: f64) -> Self {
        let most = socket.most;
        let mut free = Self {
            asleep_s: idle.asleep,
            switching_s: idle.switching.iter().sum(),
            working_s: idle.working.iter().sum(),
            waiting_area: (0..=most).map(|w| w as f64 * (idle.switching[w] + idle.working[w])).sum(),
            area: 0.0,
            taken_area: 0.0,
            full_s: 0.0,
            awake: cycle.endings.iter().map(|ending| (ending.packets, vec![0.0; most + 1])).collect(),
            asleep: cycle.endings.iter().map(|ending| (ending.packets, 0.0)).collect(),
        };
        free.add(&cycle.asleep, idle.asleep * arrival_pps, None, most);
        for waiting in 0..=most {
            free.add(&cycle.working, idle.working[waiting] * arrival_pps, Some((waiting, false)), most);
            free.add(&cycle.switching, idle.switching[waiting] * arrival_pps, Some((waiting, true)), most);
        }
        free
    }

    /// Waits begun at a rate by an application with so many packets waiting, in a switch or not; None: asleep.
    fn add(&mut self, waited: &Waited, rate: f64, state: Option<(usize, bool)>, most: usize) {
        if rate == 0.0 {
            return;
        }
        self.area += rate * waited.area;
        self.full_s += rate * waited.full_s;
        let after = |progress: usize| match state {
            Some((waiting, _)) => waiting.checked_sub(progress),
            None => None,
        };
        for (progress, time) in waited.times.iter().enumerate() {
            let sum = match (after(progress), state) {
                (None, _) => &mut self.asleep_s,
                (Some(_), Some((_, true))) if progress == 0 => &mut self.switching_s,
                _ => &mut self.working_s,
            };
            *sum += rate * time;
            self.waiting_area += rate * time * after(progress).unwrap_or(0) as f64;
        }
        for end in &waited.ends {
            let Some(place) = self.awake.iter().position(|(packets, _)| *packets == end.packets) else { continue };
            for (progress, share) in end.progress.iter().enumerate() {
                let room = match after(progress) {
                    Some(waiting) => {
                        self.awake[place].1[most - waiting] += rate * share;
                        most - waiting
                    }
                    None => {
                        self.asleep[place].1 += rate * share;
                        most
                    }
                };
                self.taken_area += rate * end.waits.iter().take(room).map(|wait| wait[progress]).sum::<f64>();
            }
        }
    }
}

fn answer(
    scheme: &Scheme,
    work: &Work,
    chain: &Chain,
    free: &Free,
    totals: &Totals,
    socket: &Socket,
    exact: bool,
) -> Solved {
    let free_s = free.asleep_s + free.switching_s + free.working_s;
    let all_s = free_s + totals.time_s();
    let role = |wanted: Role, times: &[f64]| -> f64 {
        chain.roles.iter().zip(times).filter(|(role, _)| **role == wanted).map(|(_, time)| time).sum()
    };
    let both = |wanted: Role| role(wanted, &totals.present_s) + role(wanted, &totals.empty_s);
    // A wake-up in the stage that interrupt and first packet share is protocol.
    let first_s = both(Role::First) - totals.waking_s;
    let shares = Shares {
        interrupt: (both(Role::Interrupt) + first_s * (1.0 - chain.first_serves)) / all_s,
        poll: (both(Role::Poll) + both(Role::Unmask)) / all_s,
        protocol: (both(Role::Serving) + first_s * chain.first_serves + totals.waking_s) / all_s,
        available: free.asleep_s / all_s,
    };
    let read_pps = free.working_s * socket.read_pps / all_s;
    let excursions: f64 = free.awake.iter().flat_map(|(_, rooms)| rooms).sum::<f64>()
        + free.asleep.iter().map(|(_, rate)| rate).sum::<f64>();
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
        full_polls_per_s: full_polls_s(scheme, chain, totals) / work.service_s / all_s,
        exact,
    }
}

/// Time in the service of the last packet that a poll's weight allows (s).
fn full_polls_s(scheme: &Scheme, chain: &Chain, totals: &Totals) -> f64 {
    match scheme {
        Scheme::Napi(napi) if napi.weight <= LARGEST_WEIGHT => totals.present_s[chain.roles.len() - 1],
        _ => 0.0,
    }
}

/// The register write after a poll (s).
fn unmask_s(scheme: &Scheme, work: &Work) -> f64 {
    match scheme {
        Scheme::Napi(napi) if napi.backlog => 0.0,
        _ => work.mask_s,
    }
}
