//! Compares the fast simulator and the referee over random configurations.

use netcliff_core::{FrameSizes, Host, Load, Point, Scheme, Service, Traffic};

use super::{World, linux, plain};
use crate::clock::Clock;
use crate::machine::{Machine, PacketOutcome, SocketCounts, Watch};
use crate::random::{BLOCK, Purpose, Stream};
use crate::schemes;
use crate::tally::Counts;

#[derive(Default)]
struct Fates(Vec<(u32, PacketOutcome, u64)>);

impl Watch for Fates {
    fn outcome(&mut self, number: u32, outcome: PacketOutcome, at: u64) {
        self.0.push((number, outcome, at));
    }
}

const PACKETS: usize = 1500;

fn referee(point: &Point, clock: Clock, seed: u64, packets: usize) -> World {
    match point.scheme {
        Scheme::Napi(_) => linux::run(point, clock, seed, 0, packets),
        _ => plain::run(point, clock, seed, 0, packets),
    }
}

fn compare(packets: usize, point: &Point, seed: u64) -> Counts {
    let clock = Clock::new(point.rate_pps().unwrap(), packets as u64);
    let slow = referee(point, clock, seed, packets);
    let mut machine = Machine::new(point, clock, seed, 0, packets as u64, Fates::default());
    schemes::run(point, clock, &mut machine);
    let (records, fates) = machine.finish();
    let label = format!("seed {seed}: {} {:?} {}", point.scheme, point.host, point.load);
    for (place, (fast, slow)) in fates.0.iter().zip(&slow.fates).enumerate() {
        assert_eq!(fast, slow, "outcome {place} (fast, referee) of {label}");
    }
    let fast = records.marks.last().unwrap();
    assert!(fates.0.len() >= slow.fates.len(), "{label}");
    assert!(fates.0[slow.fates.len()..].iter().all(|(_, _, at)| *at >= fast.at), "{label}");
    assert_eq!(*fast, slow.counts, "counts (fast, referee) of {label}");
    let each: Vec<SocketCounts> = slow.applications.iter().map(|thread| thread.counts).collect();
    let several = if each.len() > 1 { each.len() } else { 0 };
    let last = &records.sockets[records.sockets.len() - several..];
    assert_eq!(last, &each[..several], "applications (fast, referee) of {label}");
    let sum = |of: fn(&SocketCounts) -> u64| last.iter().map(of).sum::<u64>();
    if several > 0 {
        assert_eq!((sum(|one| one.offered), sum(|one| one.cpu)), (fast.offered, fast.cpu[3]), "{label}");
    }
    *fast
}

/// Random numbers for a configuration.
struct Rng(Stream, [f64; BLOCK], usize);

impl Rng {
    fn roll(&mut self) -> f64 {
        if self.2 == BLOCK {
            self.0.uniform(&mut self.1);
            self.2 = 0;
        }
        self.2 += 1;
        self.1[self.2 - 1]
    }

    fn up_to(&mut self, largest: u64) -> u64 {
        1 + ((1.0 - self.roll()) * largest as f64) as u64
    }

    fn time_s(&mut self, largest: f64) -> f64 {
        // One value in five is zero, which causes simultaneous events and stages without duration.
        if self.roll() < 0.2 { 0.0 } else { self.roll() * largest }
    }

    fn host(&mut self) -> Host {
        let services = [
            Service::Exponential,
            Service::Deterministic,
            Service::Lognormal { cv: 0.7 },
            Service::Erlang { stages: 3 },
            Service::Hyperexponential { cv: 1.8 },
            Service::from_times("made", vec![(0.0, 1.0), (1e-6, 7.0), (9e-6, 0.5)]).unwrap(),
        ];
        let application = self.time_s(6e-6);
        Host {
            interrupt_s: self.time_s(5e-6),
            interrupt_latency_s: self.time_s(5e-6),
            protocol_s: 0.1e-6 + self.roll() * 6e-6,
            per_byte_s: self.time_s(2e-9),
            mask_s: self.time_s(1e-6),
            poll_s: self.time_s(2e-6),
            application_s: (self.roll() < 0.7).then_some(application),
            context_switch_s: self.time_s(3e-6),
            wakeup_s: self.time_s(2e-6),
            cold_protocol_s: self.time_s(1e-6),
            cold_application_s: self.time_s(2e-6),
            socket_drop_cost: 2.0 * self.roll(),
            ring: self.up_to(200),
            socket_buffer: self.up_to(100),
            tick_s: 2e-5 + self.roll() * 4e-3,
            service: services[self.up_to(6) as usize - 1].clone(),
            ..Host::pentium4_2530mhz()
        }
    }

    fn offered(&mut self) -> (Traffic, Load) {
        let load = Load::Pps(10.0_f64.powf(3.5 + 2.7 * self.roll()));
        let mut traffic = Traffic::default();
        let arrivals = ["poisson", "poisson", "constant", "batch:size=5", "mmpp", "onoff:rule=superpose"];
        traffic.arrivals = arrivals[self.up_to(6) as usize - 1].parse().unwrap();
        if self.roll() < 0.3 {
            traffic.size = FrameSizes::Imix;
        }
        (traffic, load)
    }
}

fn many(count: u64, scheme: impl Fn(&mut Rng) -> String) {
    many_with(count, scheme, |_, _| {});
}

/// Compares `count` configurations whose hosts `more` changes. Returns the final counts of each.
fn many_with(count: u64, scheme: impl Fn(&mut Rng) -> String, more: impl Fn(&mut Rng, &mut Host)) -> Vec<Counts> {
    many_over(PACKETS, count, scheme, more)
}

/// Compares `count` configurations of `packets` packets each.
fn many_over(
    packets: usize,
    count: u64,
    scheme: impl Fn(&mut Rng) -> String,
    more: impl Fn(&mut Rng, &mut Host),
) -> Vec<Counts> {
    let run = |seed| {
        let mut rng = Rng(Stream::new(seed, Purpose::Size, 99), [0.0; BLOCK], BLOCK);
        let scheme = scheme(&mut rng).parse().unwrap();
        let (host, (traffic, load)) = (rng.host(), rng.offered());
        let mut point = Point { host, scheme, traffic, load };
        more(&mut rng, &mut point.host);
        point.host.validate().unwrap();
        compare(packets, &point, seed)
    };
    (0..count).map(run).collect()
}

mod moderation;
mod pauses;
mod sides;

#[test]
fn ideal_agrees_packet_for_packet() {
    many(100, |_| "ideal".to_owned());
}

#[test]
fn interrupt_agrees_packet_for_packet() {
    many(200, |rng| format!("interrupt:drops_interrupt={}", rng.roll() < 0.5));
}

#[test]
fn disable_enable_agrees_packet_for_packet() {
    many(200, |rng| format!("disable-enable:merged={}", rng.roll() < 0.5));
}

/// A polling period must be longer than the poll overhead, which is at most 2 us here.
fn polled(rng: &mut Rng) -> String {
    format!("period={}ns,quota={}", 2001 + rng.up_to(30_000), rng.up_to(6))
}

#[test]
fn polling_agrees_packet_for_packet() {
    many(300, |rng| format!("polling:{}", polled(rng)));
}

#[test]
fn napi_2007_agrees_packet_for_packet() {
    many(300, |rng| format!("napi-2007:{}", polled(rng)));
    many(300, |rng| format!("napi-2007:{},remember=true", polled(rng)));
}

#[test]
fn adapting_polls_agree_packet_for_packet() {
    many(400, |rng| {
        let period = 2001 + rng.up_to(60_000);
        format!("freebsd-polling:period={period}ns,burst_max={},user_frac={}%", rng.up_to(40), rng.up_to(100) - 1)
    });
    many_over(20_000, 10, |rng| format!("freebsd-polling:period={}us,user_frac=30%", 20 + rng.up_to(400)), |_, _| {});
}

#[test]
fn soft_timers_agree_packet_for_packet() {
    many(400, |rng| {
        let (polled, trigger) = (polled(rng), rng.up_to(30) - 1);
        format!("soft-timers:{polled},trigger={trigger}us,backup={}us,cost={}%", 33 + rng.up_to(60), rng.up_to(101) - 1)
    });
}

#[test]
fn coalescing_agrees_packet_for_packet() {
    many(600, |rng| {
        let mut text = "coalesce:drops_interrupt=".to_owned() + if rng.roll() < 0.5 { "true" } else { "false" };
        for key in ["usecs", "packet_timer", "min_gap"] {
            if rng.roll() < 0.5 {
                text += &format!(",{key}={}us", rng.up_to(60) - 1);
            }
        }
        text + if rng.roll() < 0.5 { ",masked=true" } else { "" } + ["", ",frames=1"][rng.up_to(2) as usize - 1]
    });
    many(200, |rng| format!("coalesce:frames={},masked={}", rng.up_to(9), rng.roll() < 0.5));
}

/// A free-running timer, alone and together with every other reason to interrupt.
#[test]
fn coalescing_by_a_free_timer_agrees_packet_for_packet() {
    many(400, |rng| {
        let mut text = format!("coalesce:free_timer=true,usecs={}us,masked={}", rng.up_to(80), rng.roll() < 0.4);
        text += if rng.roll() < 0.5 { ",drops_interrupt=true" } else { "" };
        for key in ["packet_timer", "min_gap"] {
            if rng.roll() < 0.3 {
                text += &format!(",{key}={}us", rng.up_to(60) - 1);
            }
        }
        text + &if rng.roll() < 0.3 { format!(",frames={}", rng.up_to(9)) } else { String::new() }
    });
}

fn hybrid(rng: &mut Rng) -> String {
    let down = rng.up_to(300);
    let polled = polled(rng);
    let up_down =
        if rng.roll() < 0.5 { format!("up={}kpps,down={down}kpps,", down + rng.up_to(50)) } else { String::new() };
    format!("hybrid:{up_down}{polled},ewma={},merged={}", 0.1 + 0.9 * rng.roll(), rng.roll() < 0.5)
}

#[test]
fn hybrid_agrees_packet_for_packet() {
    many(300, hybrid);
}

fn dim(rng: &mut Rng) -> String {
    let profile = if rng.roll() < 0.5 { "eqe" } else { "cqe" };
    format!("dim:profile={profile},start={}", rng.up_to(5) - 1)
}

#[test]
fn dim_agrees_packet_for_packet() {
    many(200, dim);
}

/// Referee and simulator measure and decide with separate code. The runs are long enough for hundreds of decisions: a
/// walk of lib/dim through all its states takes some ten decisions of 64 interrupts each.
#[test]
fn long_runs_of_adaptive_schemes_agree_packet_for_packet() {
    many_over(30_000, 25, hybrid, |_, _| {});
    many_over(60_000, 25, dim, |_, _| {});
}

#[test]
fn deferred_interrupts_agree_packet_for_packet() {
    many(300, |rng| {
        format!(
            "napi:weight={},threaded={},defer_hard_irqs={},gro_flush_timeout={}us",
            rng.up_to(80),
            rng.roll() < 0.3,
            rng.up_to(4),
            rng.up_to(100)
        )
    });
}

/// A device's polls that collect packets before passing them on, together with everything that can end a poll.
#[test]
fn gathered_packets_agree_packet_for_packet() {
    let gathering = |rng: &mut Rng, napi: String| {
        format!("{napi},gro_normal_batch={},ksoftirqd={}", rng.up_to(12), rng.roll() < 0.3)
    };
    let each = [sides::transmissions, sides::flow_control, pauses::pauses, applications::applications];
    many_with(
        1000,
        |rng| {
            let napi = sides::linux(rng, false);
            gathering(rng, napi)
        },
        |rng, host| {
            for more in each {
                if rng.roll() < 0.3 {
                    more(rng, host);
                }
            }
        },
    );
    many_with(
        300,
        |rng| {
            let napi = sides::busy_napi(rng);
            gathering(rng, napi)
        },
        sides::busy,
    );
}

#[test]
fn napi_agrees_packet_for_packet() {
    many(600, |rng| {
        format!(
            "napi:weight={},budget={},budget_time={}us,backlog={},threaded={},ksoftirqd={}",
            rng.up_to(80),
            rng.up_to(400),
            rng.up_to(3000),
            rng.roll() < 0.5,
            rng.roll() < 0.3,
            rng.roll() < 0.4
        )
    });
}

mod applications {
    //! Several applications under every scheme.

    use netcliff_core::Host;

    use super::sides::{any, flow_control, linux, transmissions};
    use super::{Rng, many_with};
    use crate::tally::Counts;

    /// Adds random applications: some with ticks so short that the running thread changes often, some with their own
    /// shares, times and sockets.
    pub(super) fn applications(rng: &mut Rng, host: &mut Host) {
        host.application_s = Some(rng.time_s(8e-6));
        host.tick_s = 2e-5 + rng.roll() * 2e-3;
        let count = rng.up_to(4) as usize;
        let mut text = count.to_string();
        let list = |items: Vec<String>| items.join("/");
        let mut more = Vec::new();
        if rng.roll() < 0.5 {
            let parts: Vec<f64> = (0..count).map(|_| 0.01 + rng.roll()).collect();
            let sum: f64 = parts.iter().sum();
            more.push(format!("shares={}", list(parts.iter().map(|part| (part / sum).to_string()).collect())));
        }
        if rng.roll() < 0.5 {
            let times = (0..count).map(|_| format!("{}s", rng.time_s(2e-5))).collect();
            more.push(format!("times={}", list(times)));
        }
        if rng.roll() < 0.5 {
            more.push(format!("buffers={}", list((0..count).map(|_| rng.up_to(60).to_string()).collect())));
        }
        if !more.is_empty() {
            text = format!("{text}:{}", more.join(","));
        }
        host.applications = Some(text.parse().unwrap());
    }

    fn share(runs: &[Counts], of: impl Fn(&Counts) -> bool) -> f64 {
        runs.iter().filter(|counts| of(counts)).count() as f64 / runs.len() as f64
    }

    #[test]
    fn several_applications_agree_packet_for_packet() {
        let mut runs = many_with(500, any, applications);
        runs.extend(many_with(500, |rng| linux(rng, true), applications));
        assert!(share(&runs, |counts| counts.dropped_socket > 0) > 0.1);
        assert!(share(&runs, |counts| counts.delivered > 1000) > 0.2);
    }

    #[test]
    fn several_applications_beside_flow_control_and_transmissions_agree() {
        many_with(200, any, |rng, host| {
            applications(rng, host);
            flow_control(rng, host);
            transmissions(rng, host);
        });
    }
}
