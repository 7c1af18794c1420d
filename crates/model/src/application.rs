//! The application above the socket: served when neither interrupt nor softirq wants the CPU.
//!
//! Approximation, named in the outcome's notes. The ring is solved as if alone (the priorities are preemptive, so it
//! does not see the application) and leaves the share V of the CPU. With w the CPU time of a packet below the socket
//! and t the application's, the CPU is one work-conserving server of w + t a packet: in heavy traffic its whole
//! backlog stands in the socket, so the socket is a finite queue with load rho = gamma t / V and variability
//! E[(w + t)^2] / t^2 (state-space collapse), solved by [`TwoMoment`].
//!
//! Wake-ups happen only for arrivals that find the whole CPU idle (Poisson arrivals see time averages): lambda x
//! available a second, each costing `wakeup` below the socket and `context_switch` above. Packets that find the
//! socket full cost `socket_drop_cost` of a service. Both change the mean service, found as a fixed point: a longer
//! service leaves less CPU, hence more drops and fewer wake-ups, hence a shorter service; one crossing.

use netcliff_core::{CpuShares, Figure, Host, Latency, Loss, Outcome, Service};

use crate::answer::{Ring, Shares};
use crate::queue::two_moment::TwoMoment;
use crate::schemes::Work;

/// Relative width at which the mean service is taken as found.
const SERVICE_FOUND: f64 = 1e-9;

/// Squared coefficient of variation of the host's times.
fn squared_variation(service: Service) -> f64 {
    match service {
        Service::Exponential => 1.0,
        Service::Deterministic => 0.0,
        Service::Lognormal { cv } => cv * cv,
        Service::Erlang { stages } => 1.0 / f64::from(stages),
    }
}

/// The socket and the application on top of a solved ring.
struct Socket {
    ring: Ring,
    /// Share of packets that reach the socket and find it full.
    loss: f64,
    /// Packets the application reads [pps].
    read_pps: f64,
    /// Wake-ups of a sleeping application [1/s].
    wakeups_per_s: f64,
    /// CPU that nobody wants [1].
    available: f64,
    /// Mean packets waiting in the socket.
    waiting: f64,
    /// Mean service that this socket implies [s].
    implied_service_s: f64,
}

/// Outcome with an application; `solve` answers the ring for a given mean service.
pub fn outcome<E>(
    host: &Host,
    application_s: f64,
    work: &Work,
    frame_bytes: f64,
    solve: &dyn Fn(&Work) -> Result<Ring, E>,
) -> Result<Outcome, E> {
    let searched = Work { quantiles: false, ..work.clone() };
    let at = |service_s: f64| -> Result<Socket, E> {
        let ring = solve(&Work { service_s, ..searched.clone() })?;
        Ok(socket(host, application_s, work, service_s, ring))
    };
    let shortest = work.service_s * host.socket_drop_cost;
    let longest = work.service_s + host.wakeup_s;
    let service_s = if shortest == longest { longest } else { crossing(shortest, longest, &at)? };
    Ok(write(at(service_s.max(1e-3 * work.service_s))?, host, application_s, frame_bytes, work.arrival_pps))
}

/// The service at which the socket implies itself, by false position with Illinois' halving: what is implied falls
/// as the service grows, so there is one crossing.
fn crossing<E>(shortest: f64, longest: f64, at: &dyn Fn(f64) -> Result<Socket, E>) -> Result<f64, E> {
    let floor = 1e-3 * longest;
    let (mut low, mut high) = (shortest.max(floor), longest);
    let surplus = |service_s: f64| Ok(at(service_s)?.implied_service_s - service_s);
    let (mut below, mut above) = (surplus(low)?, surplus(high)?);
    if below <= 0.0 {
        return Ok(low);
    }
    if above >= 0.0 {
        return Ok(high);
    }
    let mut last_side = 0;
    for _ in 0..60 {
        if high - low <= SERVICE_FOUND * high {
            break;
        }
        let guess = low + (high - low) * below / (below - above);
        let found = surplus(guess)?;
        if found.abs() <= SERVICE_FOUND * guess {
            return Ok(guess);
        }
        if found > 0.0 {
            (low, below) = (guess, found);
            if last_side == 1 {
                above *= 0.5;
            }
            last_side = 1;
        } else {
            (high, above) = (guess, found);
            if last_side == -1 {
                below *= 0.5;
            }
            last_side = -1;
        }
    }
    Ok(0.5 * (low + high))
}

fn socket(host: &Host, application_s: f64, work: &Work, service_s: f64, ring: Ring) -> Socket {
    let Shares { available: left, .. } = ring.shares.normalised();
    let reaching_pps = ring.throughput_pps;
    let queue = queue(host, application_s, left, &ring);
    let loss = queue.loss();
    let read_pps = reaching_pps * (1.0 - loss);
    let spare = (left - read_pps * application_s).max(0.0);
    let available = spare / (1.0 + work.arrival_pps * host.context_switch_s);
    let wakeups_per_s = work.arrival_pps * available;
    // A wake-up belongs to a packet that reached the socket; there cannot be more of them than such packets.
    let wakeups_a_packet = (wakeups_per_s / reaching_pps).min(1.0);
    let implied_service_s =
        work.service_s * (1.0 - loss * (1.0 - host.socket_drop_cost)) + host.wakeup_s * wakeups_a_packet;
    debug_assert!(service_s > 0.0);
    Socket { ring, loss, read_pps, wakeups_per_s, available, waiting: queue.mean_waiting(), implied_service_s }
}

fn queue(host: &Host, application_s: f64, left: f64, ring: &Ring) -> TwoMoment {
    let Shares { interrupt, poll, protocol, .. } = ring.shares.normalised();
    let reaching_pps = ring.throughput_pps;
    let rho = reaching_pps * application_s / left;
    let below_s = (interrupt + poll + protocol) / reaching_pps;
    let spread = squared_variation(host.service);
    let protocol_s = protocol / reaching_pps;
    // Per packet: the mean of everything squared at the load's own weight, and the variances of the two big parts.
    let ratio = below_s / application_s;
    let variability = rho.min(1.0) * (1.0 + ratio).powi(2) + spread * (1.0 + (protocol_s / application_s).powi(2));
    TwoMoment::new(rho, variability, host.socket_buffer)
}

fn write(socket: Socket, host: &Host, application_s: f64, frame_bytes: f64, arrival_pps: f64) -> Outcome {
    let Socket { ring, loss, read_pps, wakeups_per_s, available, waiting, .. } = socket;
    let exact = |value: f64| Some(Figure::exact(value));
    let reaching_pps = ring.throughput_pps;
    let ring_loss = ring.loss;
    let socket_loss = reaching_pps / arrival_pps * loss;
    let shares = ring.shares.normalised();
    let application = shares.available - available;
    let mean = (read_pps > 0.0).then(|| {
        let woken = wakeups_per_s * host.context_switch_s / read_pps;
        Figure::exact(ring.mean_latency_s + waiting / read_pps + woken)
    });
    let mut outcome = ring.outcome(frame_bytes);
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
        available: exact(available),
    });
    outcome.packets_per_poll =
        outcome.polls_per_s.filter(|polls| polls.value > 0.0).map(|polls| Figure::exact(reaching_pps / polls.value));
    outcome.notes.push(format!(
        "application: two-moment approximation of the socket (heavy-traffic collapse of the CPU's backlog, t = {}); \
         interrupt > softirq > application strictly, ksoftirqd's sharing is not modelled; quantiles of latency to the \
         application are not known",
        netcliff_core::units::print_time_s(application_s)
    ));
    outcome
}
