//! The application above the socket: served when neither interrupt nor softirq wants the CPU.
//!
//! [`exact`] solves ring, socket and application together where that takes no longer than some tenths of a second (two seconds with ticks); elsewhere this is an
//! approximation, named in the outcome's notes and `cpu_method`. The ring is solved as if alone (the priorities are preemptive, so it
//! does not see the application), delivers gamma packets a second and leaves the share V of the CPU. The socket is
//! then a finite queue of load gamma t / V whose net input is asymptotically Brownian over the ring's cycles; its
//! variance follows from the busy period's, and [`TwoMoment`] gives loss and length.
//!
//! Wake-ups happen only in busy periods of the ring that find the application asleep; without a delay of the interrupt
//! these are lambda x available a second (Poisson arrivals see time averages), with one a few more. Each costs `wakeup`
//! below the socket and `context_switch` above. Packets that find the socket full cost `socket_drop_cost` of a service.
//! Both change the mean service, found as a fixed point: a longer service leaves less CPU, hence more drops and fewer
//! wake-ups, hence a shorter service; one crossing.

pub mod exact;

use netcliff_core::math;
use netcliff_core::note::Note;
use netcliff_core::{CpuShares, Figure, Host, Latency, Loss, Outcome, Scheme};

use crate::answer::{APPROXIMATE, Ring, Shares};
use crate::bounds;
use crate::queue::two_moment::TwoMoment;
use crate::schemes::Work;

/// Relative width at which the mean service is taken as found: far below 1/K, the scale on which loss changes.
const SERVICE_FOUND: f64 = 1e-6;
/// Steps towards a service that implies itself, at most: each comes nearer by the share of packets that are dropped.
const MOST_STEPS: u32 = 200;

/// Mean occupancy of the socket above which its packets are taken as cold: beyond saturation it is near 1, below near 0.
const COLD_OCCUPANCY: f64 = 0.5;

/// The CPU that the ring leaves is taken as at least 1 less this.
const MOST_RING_LOAD: f64 = 0.999;
/// Mean packets of a busy period at the most: longer ones never end.
const MOST_BATCH: f64 = 1e6;

/// The socket and the application on top of a solved ring.
struct Socket {
    ring: Ring,
    /// Share of packets that reach the socket and find it full.
    loss: f64,
    /// Packets the application reads (pps).
    read_pps: f64,
    /// CPU left over (1).
    available: f64,
    /// Mean packets waiting in the socket.
    waiting: f64,
    /// Mean service that this socket implies (s).
    implied_service_s: f64,
}

/// The host and its scheme, seen from the application.
#[derive(Debug, Clone, Copy)]
pub struct Above<'a> {
    /// Its costs and its socket.
    pub host: &'a Host,
    /// The scheme, where it may be solved together with the application.
    pub scheme: Option<&'a Scheme>,
    /// t: the application's time a packet (s).
    pub application_s: f64,
    /// The mean frame.
    pub frame_bytes: f64,
}

/// Outcome with an application; `solve` answers the ring for a given mean service.
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
    // The socket stays near full, and its packets are cold.
    let work = Work { service_s: work.service_s + host.cold_protocol_s, ..work.clone() };
    let application_s = application_s + host.cold_application_s;
    let mut outcome = write(settled(host, application_s, &work, solve)?, above, application_s, work.arrival_pps);
    outcome.notes.push(Note::FullSocket);
    Ok(outcome)
}

/// Ring, socket and application solved together; None where they cannot be.
fn together(above: &Above<'_>, scheme: &Scheme, work: &Work, ring: &dyn Fn() -> Option<Ring>) -> Option<Outcome> {
    let Above { host, application_s, frame_bytes, .. } = *above;
    let solved = exact::solve(scheme, host, application_s, work, ring)?;
    Some(exact::outcome(&solved, scheme, host, frame_bytes))
}

/// Ring and socket at costs that do not depend on the socket's occupancy.
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

/// The same where a dropped packet costs more than a delivered one: what is implied then grows with the service, there may be several
/// crossings, and from the longest service down the first is met: that of a socket which has been full.
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

/// The socket at the service that it implies itself. What is implied falls as the service grows, so that the longest
/// service implies one below the crossing: with these two ends, false position with Illinois' halving.
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
    // Busy periods of the application do not see the wake-ups that begin them: V without these.
    let idle = Idle::new(&ring, left, work.delivery_s);
    let hurried = idle.sleep(left - reaching_pps * application_s, host.context_switch_s);
    let busy_left = left + host.wakeup_s * hurried.wakeups_per_s;
    let (loss, waiting) = queue(host, application_s, work, (left, busy_left), &ring);
    let read_pps = reaching_pps * (1.0 - loss);
    let Sleep { available, wakeups_per_s } = idle.sleep(left - read_pps * application_s, host.context_switch_s);
    // A wake-up belongs to a packet that reached the socket; there cannot be more of them than such packets.
    let wakeups_a_packet = (wakeups_per_s / reaching_pps).min(1.0);
    let implied_service_s =
        work.service_s * (1.0 - loss * (1.0 - host.socket_drop_cost)) + host.wakeup_s * wakeups_a_packet;
    // A drop that costs nothing must still leave a queue that can be solved.
    let implied_service_s = implied_service_s.max(1e-3 * work.service_s);
    Socket { ring, loss, read_pps, available, waiting, implied_service_s }
}

/// The time that a cycle of the ring leaves to the application: a wait for an arrival, then the interrupt's delivery.
struct Idle {
    cycles_per_s: f64,
    left: f64,
    waiting_s: f64,
    delivery_s: f64,
}

/// How much of it the application sleeps.
struct Sleep {
    /// Share of the CPU left over (1).
    available: f64,
    /// Busy periods of the ring that find it asleep (1/s).
    wakeups_per_s: f64,
}

impl Idle {
    fn new(ring: &Ring, left: f64, delivery_s: f64) -> Self {
        let cycles_per_s = ring.cycles_per_s.max(1e-300);
        let mean_s = left / cycles_per_s;
        let delivery_s = delivery_s.min(mean_s);
        Self { cycles_per_s, left, waiting_s: mean_s - delivery_s, delivery_s }
    }

    /// For an application that falls asleep at rate k from the end of the ring's busy period: the share of the idle
    /// time X asleep, 1 - (1 - E[e^(-kX)])/(k E[X]), and P(asleep at its end) = 1 - E[e^(-kX)]. Without a delivery the
    /// two are the same: Poisson arrivals see time averages.
    fn asleep(&self, rate: f64) -> Sleep {
        let (waiting, delivery) = (rate * self.waiting_s, rate * self.delivery_s);
        let product = (1.0 + waiting) * (1.0 + delivery);
        let at_end = (waiting + delivery + waiting * delivery) / product;
        let (sum, both) = (waiting + delivery, waiting * delivery);
        // 1 - at_end/sum over a common denominator, so that nothing cancels.
        let squares = waiting * waiting + both + delivery * delivery;
        let share = (squares + both * sum) / (sum * product);
        Sleep { available: self.left * share, wakeups_per_s: self.cycles_per_s * at_end }
    }

    /// The sleep that fills `spare` of the CPU together with the context switches that end it.
    fn sleep(&self, spare: f64, context_switch_s: f64) -> Sleep {
        if spare <= 0.0 {
            return Sleep { available: 0.0, wakeups_per_s: 0.0 };
        }
        let used = |sleep: &Sleep| sleep.available + sleep.wakeups_per_s * context_switch_s;
        // In ln(rate), as what is used rises with it.
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

/// The socket as a finite queue: its loss, and the mean number that waits in it.
///
/// Its net input over a cycle of the ring (idle time X, exponential, then a busy period that delivers n packets) is
/// n - X/t with n independent of X. With V E[n] = 1 its variance a packet is E[n^2]/E[n] plus the application's own:
/// the queue of batches n, M^[n]/G/1, served at the pace t/V. Below saturation its busy periods begin with a context
/// switch, which adds (2 E[D] + lambda E[D^2])/(2 (1 + lambda E[D])) to every wait, D = t_sw/V.
fn queue(host: &Host, application_s: f64, work: &Work, (left, busy_left): (f64, f64), ring: &Ring) -> (f64, f64) {
    let rho = ring.throughput_pps * application_s / busy_left;
    let spread = work.shape.squared_variation();
    let batch = Batch::new(work, left, ring, spread);
    let queue = TwoMoment::new(rho, rho.min(1.0) * batch.variability + spread, host.socket_buffer);
    let gap = (1.0 - rho).max(1e-12);
    // The rest of the busy period keeps what it has delivered waiting.
    let kept = ring.throughput_pps * 0.5 * batch.excess * work.service_s;
    // Alone, a batch waits for itself; in heavy traffic only the variance of the net input counts.
    let within = gap * batch.excess + (1.0 - gap) * (batch.variability - 1.0);
    let unbounded = (rho * rho * (1.0 + spread) + rho * within) / (2.0 * gap) + kept;
    let switch = ring.throughput_pps * host.context_switch_s / busy_left;
    let switched = if rho < 1.0 { switch * (2.0 + switch * (1.0 + spread)) / (2.0 * (1.0 + switch)) } else { 0.0 };
    let waiting = queue.mean_waiting(unbounded) + switched;
    let places = host.socket_buffer as f64;
    (queue.loss().max(batch.overflow(places)), waiting.min(places))
}

/// The packets n that one busy period of the ring delivers.
struct Batch {
    /// E[n^2]/E[n] - 1: mean packets delivered with a packet.
    excess: f64,
    /// Variance of the net input a delivered packet, at least 1: E[n^2]/E[n] where nothing delays the interrupt.
    variability: f64,
    /// Mean packets that come at once, where clocks or counts gather them; None: as they come.
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

    /// Cycles begin by the clock: over long, as many packets are delivered as come, a Poisson stream of which each brings itself and
    /// takes its service from the application. A ring that loses packets evens them out.
    fn clocked(work: &Work, idle: f64, ring: &Ring, spread: f64, mean: f64) -> Self {
        let service = ring.throughput_pps * work.service_s / idle;
        let net = (1.0 - ring.loss) * ((1.0 + service).powi(2) + spread * service * service);
        Self { excess: (mean - 1.0) * (1.0 + 1.0 / mean), variability: net.max(1.0), burst: Some(mean) }
    }

    /// A busy period is begun by N0 = 1 + the arrivals in delivery and set-up; each of them brings a busy period of
    /// the plain queue. N0 is taken so that E[n] is the solved ring's. The delivery D lengthens the idle time as well
    /// as the batch: the net input n - X gamma/V sees only the difference.
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

    /// Share of a burst that does not fit into an empty socket of `places`: its size as normal with a Poisson variable's moments.
    fn overflow(&self, places: f64) -> f64 {
        let Some(mean) = self.burst else { return 0.0 };
        let deviation = mean.sqrt();
        let beyond = (mean - places) / deviation;
        let density = math::exp(-0.5 * beyond * beyond) / (2.0 * std::f64::consts::PI).sqrt();
        let tail = 0.5 * math::erfc(-beyond / std::f64::consts::SQRT_2);
        ((deviation * density + (mean - places) * tail) / mean).clamp(0.0, 1.0)
    }
}

/// Mean and variance of the packets that one packet's busy period serves in a ring of `places`: from a full ring down, a service
/// brings as many as come in it, each with what it brings from its place on.
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
    // The ring's alone: what waits in the socket and with the application belongs to it too.
    outcome.packets_in_system = None;
    outcome.packets_per_poll =
        outcome.polls_per_s.filter(|polls| polls.value > 0.0).map(|polls| Figure::exact(reaching_pps / polls.value));
    outcome.notes.push(Note::TwoMoments(application_s));
    outcome.notes.extend(scheme.map(|scheme| Note::Approximate(*bounds::two_moment(scheme))));
    outcome
}
