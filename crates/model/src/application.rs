//! The application above the socket, which runs only when neither interrupt nor softirq needs the CPU.
//!
//! [`exact`] solves ring, socket and application together if that takes no longer than some tenths of a second (two
//! seconds with ticks). Otherwise this module approximates, and notes and `cpu_method` of the outcome say so. The ring
//! is solved alone, which is exact for the ring: priorities are preemptive, so that it does not depend on the
//! application. The ring delivers gamma packets per second and leaves the share V of the CPU. The socket is then a
//! finite queue of load gamma t / V, where t is the application's time per packet. Its net input over the ring's cycles
//! is asymptotically Brownian; the variance follows from the variance of the busy period. [`TwoMoment`] computes loss
//! and length of this queue.
//!
//! A wake-up happens if a busy period of the ring starts while the application sleeps. Without interrupt latency there
//! are lambda x (available CPU) wake-ups per second (Poisson arrivals see time averages), with interrupt latency a few
//! more. Each wake-up costs `wakeup` below the socket and `context_switch` above. Packets that find the socket full
//! cost `socket_drop_cost` of a service. Wake-ups and drops change the mean service time, which is therefore a fixed
//! point: a longer service leaves less CPU, hence more drops and fewer wake-ups, hence a shorter service. There is
//! exactly one fixed point if a drop costs no more than a delivery.

pub mod exact;

use netcliff_core::math;
use netcliff_core::note::Note;
use netcliff_core::outcome::packets_per_poll;
use netcliff_core::{CpuShares, Figure, Host, Latency, Loss, Outcome, Scheme};

use crate::answer::{APPROXIMATE, Ring, Shares};
use crate::bounds;
use crate::queue::two_moment::TwoMoment;
use crate::schemes::Work;

/// Relative width at which the search for the mean service ends: far below 1/K, the scale on which loss changes.
const SERVICE_FOUND: f64 = 1e-6;
/// Maximum number of steps towards the fixed point of the service time: each step reduces the distance by the share of
/// dropped packets.
const MOST_STEPS: u32 = 200;

/// Mean occupancy of the socket, as a share of its size, above which its packets count as cold in cache. The occupancy
/// is near 1 beyond saturation, near 0 below.
const COLD_OCCUPANCY: f64 = 0.5;

/// Upper limit of the ring's CPU load in these formulas; higher loads are replaced by it.
const MOST_RING_LOAD: f64 = 0.999;
/// Upper limit of the mean number of packets per busy period; longer busy periods count as endless.
const MOST_BATCH: f64 = 1e6;

/// Socket and application above a solved ring.
struct Socket {
    ring: Ring,
    /// Share of the packets reaching the socket that are lost because it is full.
    loss: f64,
    /// Packets the application reads (pps).
    read_pps: f64,
    /// Share of the CPU left over.
    available: f64,
    /// Mean packets waiting in the socket.
    waiting: f64,
    /// Mean service time that follows from this socket's drops and wake-ups (s).
    implied_service_s: f64,
}

/// Properties of host and scheme that the formulas of this module use.
#[derive(Debug, Clone, Copy)]
pub struct Above<'a> {
    /// Costs and socket.
    pub host: &'a Host,
    /// The scheme, if ring and application may be solved together as one chain; otherwise `None`.
    pub scheme: Option<&'a Scheme>,
    /// t: the application's time per packet (s).
    pub application_s: f64,
    /// Mean frame size (bytes).
    pub frame_bytes: f64,
}

/// Computes the outcome of a host with an application; `solve` solves the ring for a mean service time.
pub fn outcome<E>(above: &Above<'_>, work: &Work, solve: &dyn Fn(&Work) -> Result<Ring, E>) -> Result<Outcome, E> {
    if let Some(outcome) = above.scheme.and_then(|scheme| together(above, scheme, work, &|| solve(work).ok())) {
        return Ok(outcome);
    }
    let Above { host, application_s, .. } = *above;
    let hot = settled(host, application_s, work, solve)?;
    let cold = host.cold_protocol_s + host.cold_application_s > 0.0;
    if !cold || hot.waiting < COLD_OCCUPANCY * host.socket_buffer as f64 {
        return Ok(write(hot, above, application_s, work.arrival_pps));
    }
    // In overload the socket stays almost full, so that its packets are cold in cache.
    let work = Work { service_s: work.service_s + host.cold_protocol_s, ..work.clone() };
    let application_s = application_s + host.cold_application_s;
    let mut outcome = write(settled(host, application_s, &work, solve)?, above, application_s, work.arrival_pps);
    outcome.notes.push(Note::FullSocket);
    Ok(outcome)
}

/// Solves ring, socket and application together; `None` if that is not possible.
fn together(above: &Above<'_>, scheme: &Scheme, work: &Work, ring: &dyn Fn() -> Option<Ring>) -> Option<Outcome> {
    let Above { host, application_s, frame_bytes, .. } = *above;
    let solved = exact::solve(scheme, host, application_s, work, ring)?;
    Some(exact::outcome(&solved, scheme, host, frame_bytes))
}

/// Solves ring and socket if costs do not depend on the socket's occupancy.
fn settled<E>(
    host: &Host,
    application_s: f64,
    work: &Work,
    solve: &dyn Fn(&Work) -> Result<Ring, E>,
) -> Result<Socket, E> {
    let searched = Work { quantiles: false, ..work.clone() };
    let at = |service_s: f64| -> Result<Socket, E> {
        let ring = solve(&Work { service_s, ..searched.clone() })?;
        Ok(socket(host, application_s, work, ring))
    };
    let fixed = host.socket_drop_cost == 1.0 && host.wakeup_s == 0.0;
    let longest_s = work.service_s * host.socket_drop_cost.max(1.0) + host.wakeup_s;
    match host.socket_drop_cost {
        _ if fixed => at(work.service_s),
        dearer if dearer > 1.0 => descending(longest_s, &at),
        _ => crossing(longest_s, &at),
    }
}

/// Like [`crossing`], for hosts on which a dropped packet costs more than a delivered one. The implied service then
/// grows with the service, and there may be several fixed points. Returns the fixed point with the longest service: the
/// one in which a socket stays once it has been full.
fn descending<E>(longest_s: f64, at: &dyn Fn(f64) -> Result<Socket, E>) -> Result<Socket, E> {
    let mut service_s = longest_s;
    let mut socket = at(service_s)?;
    for _ in 0..MOST_STEPS {
        let next_s = socket.implied_service_s.min(service_s);
        if service_s - next_s <= SERVICE_FOUND * service_s {
            break;
        }
        service_s = next_s;
        socket = at(service_s)?;
    }
    Ok(socket)
}

/// Finds the socket whose implied service time equals the service time it was computed with. The implied service falls
/// as the service grows, so that the longest service implies one below the fixed point. Searches between these two ends
/// by false position with Illinois halving.
fn crossing<E>(longest_s: f64, at: &dyn Fn(f64) -> Result<Socket, E>) -> Result<Socket, E> {
    let surplus = |socket: &Socket, service_s: f64| socket.implied_service_s - service_s;
    let mut high = longest_s;
    let top = at(high)?;
    let mut above = surplus(&top, high);
    let mut low = top.implied_service_s;
    if above.abs() <= SERVICE_FOUND * high {
        return Ok(top);
    }
    let mut socket = at(low)?;
    let mut below = surplus(&socket, low);
    let mut last_side = 0;
    for _ in 0..60 {
        if below <= SERVICE_FOUND * low || high - low <= SERVICE_FOUND * high {
            break;
        }
        let guess = low + (high - low) * below / (below - above);
        socket = at(guess)?;
        let found = surplus(&socket, guess);
        if found.abs() <= SERVICE_FOUND * guess {
            break;
        }
        if found > 0.0 {
            (low, below) = (guess, found);
            above *= if last_side == 1 { 0.5 } else { 1.0 };
            last_side = 1;
        } else {
            (high, above) = (guess, found);
            below *= if last_side == -1 { 0.5 } else { 1.0 };
            last_side = -1;
        }
    }
    Ok(socket)
}

fn socket(host: &Host, application_s: f64, work: &Work, ring: Ring) -> Socket {
    let Shares { available: left, .. } = ring.shares.normalised();
    let reaching_pps = ring.throughput_pps;
    // The CPU share that the application's busy periods see: they do not contain the wake-ups that begin them.
    let idle = Idle::new(&ring, left, work.delivery_s);
    let hurried = idle.sleep(left - reaching_pps * application_s, host.context_switch_s);
    let busy_left = left + host.wakeup_s * hurried.wakeups_per_s;
    let (loss, waiting) = queue(host, application_s, work, (left, busy_left), &ring);
    let read_pps = reaching_pps * (1.0 - loss);
    let Sleep { available, wakeups_per_s } = idle.sleep(left - read_pps * application_s, host.context_switch_s);
    // Each wake-up belongs to a packet that reached the socket, so that there is at most one wake-up per packet.
    let wakeups_a_packet = (wakeups_per_s / reaching_pps).min(1.0);
    let implied_service_s =
        work.service_s * (1.0 - loss * (1.0 - host.socket_drop_cost)) + host.wakeup_s * wakeups_a_packet;
    // Keeps the queue solvable even if a drop costs nothing.
    let implied_service_s = implied_service_s.max(1e-3 * work.service_s);
    Socket { ring, loss, read_pps, available, waiting, implied_service_s }
}

/// The ring's idle time in a cycle, which is left to the application: the time until an arrival, plus the time until
/// the arrival's interrupt is delivered.
struct Idle {
    cycles_per_s: f64,
    left: f64,
    waiting_s: f64,
    delivery_s: f64,
}

/// How long and how often the application sleeps.
struct Sleep {
    /// Share of the CPU left over.
    available: f64,
    /// Busy periods of the ring that start while the application sleeps (1/s).
    wakeups_per_s: f64,
}

impl Idle {
    fn new(ring: &Ring, left: f64, delivery_s: f64) -> Self {
        let cycles_per_s = ring.cycles_per_s.max(1e-300);
        let mean_s = left / cycles_per_s;
        let delivery_s = delivery_s.min(mean_s);
        Self { cycles_per_s, left, waiting_s: mean_s - delivery_s, delivery_s }
    }

    /// Computes the sleep of an application that, from the end of the ring's busy period on, falls asleep at the rate
    /// k. X is the idle time: the share of X asleep is 1 - (1 - E[e^(-kX)])/(k E[X]), and P(asleep at the end of X) = 1
    /// - E[e^(-kX)]. Without interrupt latency both are equal: Poisson arrivals see time averages.
    fn asleep(&self, rate: f64) -> Sleep {
        let (waiting, delivery) = (rate * self.waiting_s, rate * self.delivery_s);
        let product = (1.0 + waiting) * (1.0 + delivery);
        let at_end = (waiting + delivery + waiting * delivery) / product;
        let (sum, both) = (waiting + delivery, waiting * delivery);
        // 1 - at_end/sum with a common denominator, which avoids cancellation.
        let squares = waiting * waiting + both + delivery * delivery;
        let share = (squares + both * sum) / (sum * product);
        Sleep { available: self.left * share, wakeups_per_s: self.cycles_per_s * at_end }
    }

    /// Finds the sleep for which the CPU share asleep, plus the CPU share of the context switches that end it, is
    /// `spare`.
    fn sleep(&self, spare: f64, context_switch_s: f64) -> Sleep {
        if spare <= 0.0 {
            return Sleep { available: 0.0, wakeups_per_s: 0.0 };
        }
        let used = |sleep: &Sleep| sleep.available + sleep.wakeups_per_s * context_switch_s;
        // Bisection in ln(rate), as the used share rises with it.
        let (mut low, mut high) = (-60.0_f64, 60.0_f64);
        for _ in 0..100 {
            let middle = 0.5 * (low + high);
            if used(&self.asleep(math::exp(middle) / (self.waiting_s + self.delivery_s))) < spare {
                low = middle;
            } else {
                high = middle;
            }
        }
        self.asleep(math::exp(low) / (self.waiting_s + self.delivery_s))
    }
}

/// Loss of the socket as a finite queue, and the mean number of packets waiting in it.
///
/// Over a cycle of the ring (idle time X, exponential, then a busy period that delivers n packets) the net input is n -
/// X/t, with n independent of X and t the application's time per packet. As V E[n] = 1, its variance per packet is
/// E[n^2]/E[n] plus the variance of the application's service: the queue M^[n]/G/1 with batches n, served at the pace
/// t/V. Below saturation its busy periods begin with a context switch, which adds (2 E[D] + lambda E[D^2])/(2 (1 +
/// lambda E[D])) to every wait, where D = t_sw/V.
fn queue(host: &Host, application_s: f64, work: &Work, (left, busy_left): (f64, f64), ring: &Ring) -> (f64, f64) {
    let rho = ring.throughput_pps * application_s / busy_left;
    let spread = work.shape.squared_variation();
    let batch = Batch::new(work, left, ring, spread);
    let queue = TwoMoment::new(rho, rho.min(1.0) * batch.variability + spread, host.socket_buffer);
    let gap = (1.0 - rho).max(1e-12);
    // Packets in the socket also wait for the rest of the ring's busy period.
    let kept = ring.throughput_pps * 0.5 * batch.excess * work.service_s;
    // At low load a batch waits for its own packets; in heavy traffic only the variance of the net input counts.
    let within = gap * batch.excess + (1.0 - gap) * (batch.variability - 1.0);
    let unbounded = (rho * rho * (1.0 + spread) + rho * within) / (2.0 * gap) + kept;
    let switch = ring.throughput_pps * host.context_switch_s / busy_left;
    let switched = if rho < 1.0 { switch * (2.0 + switch * (1.0 + spread)) / (2.0 * (1.0 + switch)) } else { 0.0 };
    let waiting = queue.mean_waiting(unbounded) + switched;
    let places = host.socket_buffer as f64;
    (queue.loss().max(batch.overflow(places)), waiting.min(places))
}

/// n: packets delivered by one busy period of the ring.
struct Batch {
    /// E[n^2]/E[n] - 1: mean number of packets delivered together with a packet.
    excess: f64,
    /// Variance of the net input per delivered packet, at least 1: equals E[n^2]/E[n] without interrupt latency.
    variability: f64,
    /// Mean number of packets delivered at once if timers or counts collect them; `None` if nothing collects them.
    burst: Option<f64>,
}

impl Batch {
    fn new(work: &Work, left: f64, ring: &Ring, spread: f64) -> Self {
        let idle = left.max(1.0 - MOST_RING_LOAD);
        let mean = (ring.throughput_pps / ring.cycles_per_s.max(1e-300)).clamp(1.0, MOST_BATCH);
        if ring.clocked {
            return Self::clocked(work, idle, ring, spread, mean);
        }
        Self::from_empty(work, idle, spread, mean)
    }

    /// Describes the batches if timers begin the ring's cycles. In the long run as many packets are delivered as arrive
    /// in a Poisson stream; each packet's own service reduces the application's time. A ring that loses packets makes
    /// the stream smoother.
    fn clocked(work: &Work, idle: f64, ring: &Ring, spread: f64, mean: f64) -> Self {
        let service = ring.throughput_pps * work.service_s / idle;
        let net = (1.0 - ring.loss) * ((1.0 + service).powi(2) + spread * service * service);
        Self { excess: (mean - 1.0) * (1.0 + 1.0 / mean), variability: net.max(1.0), burst: Some(mean) }
    }

    /// Describes the batches if an arrival to an empty ring begins a busy period. N0 = 1 + the arrivals during
    /// interrupt latency and set-up; each of the N0 packets is followed by a busy period of the plain queue. N0 is
    /// chosen so that E[n] equals its value in the solved ring. The latency D lengthens the idle time as well as the
    /// batch: the net input n - X gamma/V depends only on the difference.
    fn from_empty(work: &Work, idle: f64, spread: f64, mean: f64) -> Self {
        let (plain, plain_variance) = busy_period(work.arrival_pps * work.service_s, spread, work.places);
        let started = (mean / plain).max(1.0);
        let delivered = (work.arrival_pps * work.delivery_s).min(started - 1.0);
        let set_up = started - 1.0 - delivered;
        let started_variance = delivered + set_up + set_up * set_up * spread;
        let variance = started * plain_variance + started_variance * plain * plain;
        let pace = 1.0 / idle;
        let by_delivery = delivered * delivered * spread;
        let net = variance + pace * pace + by_delivery * (plain - pace).powi(2);
        Self {
            excess: mean - 1.0 + (variance + by_delivery * plain * plain) / mean,
            variability: (net / mean).max(1.0),
            burst: None,
        }
    }

    /// Share of a burst that does not fit into an empty socket of `places` packets. The burst's size has a normal
    /// distribution with the mean and variance of a Poisson variable.
    fn overflow(&self, places: f64) -> f64 {
        let Some(mean) = self.burst else { return 0.0 };
        let deviation = mean.sqrt();
        let beyond = (mean - places) / deviation;
        let density = math::exp(-0.5 * beyond * beyond) / (2.0 * std::f64::consts::PI).sqrt();
        let tail = 0.5 * math::erfc(-beyond / std::f64::consts::SQRT_2);
        ((deviation * density + (mean - places) * tail) / mean).clamp(0.0, 1.0)
    }
}

/// Returns mean and variance of the number of packets served in the busy period that one packet starts, in a ring of
/// `places`. Computed from a full ring downwards: the packets that arrive during a service each start a busy period
/// too.
fn busy_period(rho: f64, spread: f64, places: u64) -> (f64, f64) {
    let (mut mean, mut variance) = (1.0_f64, 0.0_f64);
    for _ in 1..places {
        let next = 1.0 + rho * mean;
        let next_variance = rho * variance + (rho + spread * rho * rho) * mean * mean;
        let settled = (next - mean).abs() <= 1e-12 * next && (next_variance - variance).abs() <= 1e-12 * next_variance;
        (mean, variance) = (next, next_variance);
        if settled || mean > MOST_BATCH {
            break;
        }
    }
    (mean.min(MOST_BATCH), variance.min(MOST_BATCH.powi(3)))
}

fn write(socket: Socket, above: &Above<'_>, application_s: f64, arrival_pps: f64) -> Outcome {
    let Above { frame_bytes, scheme, .. } = *above;
    let Socket { ring, loss, read_pps, available, waiting, .. } = socket;
    let exact = |value: f64| Some(Figure::exact(value));
    let reaching_pps = ring.throughput_pps;
    let ring_loss = ring.loss;
    let socket_loss = reaching_pps / arrival_pps * loss;
    let shares = ring.shares.normalised();
    let application = shares.available - available;
    let mean = (read_pps > 0.0).then(|| Figure::exact(ring.mean_latency_s + waiting / read_pps));
    let mut outcome = ring.outcome(frame_bytes);
    outcome.cpu_method = Some(APPROXIMATE.to_owned());
    outcome.throughput_pps = exact(read_pps);
    outcome.goodput_bps = exact(read_pps * 8.0 * frame_bytes);
    outcome.loss_fraction = exact((ring_loss + socket_loss).min(1.0));
    outcome.loss = Some(Loss { ring: exact(ring_loss), socket: exact(socket_loss), sender: None });
    outcome.latency_s = Some(Latency { mean, ..Latency::default() });
    outcome.latency_to = Some("application".to_owned());
    outcome.cpu = Some(CpuShares {
        interrupt: exact(shares.interrupt),
        poll: exact(shares.poll),
        protocol: exact(shares.protocol),
        application: exact(application),
        paused: None,
        available: exact(available),
    });
    // Omitted because the ring's value counts the ring only: packets in the socket and at the application are missing.
    outcome.packets_in_system = None;
    outcome.packets_per_poll = outcome.polls_per_s.and_then(|polls| packets_per_poll(reaching_pps, polls.value));
    outcome.notes.push(Note::TwoMoments(application_s));
    outcome.notes.extend(scheme.map(|scheme| Note::Approximate(*bounds::two_moment(scheme))));
    outcome
}
