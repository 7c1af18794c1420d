//! Exact fakes: slices of a host with known costs, and therefore a known cliff.

use netcliff_core::learned::PartKind;
use netcliff_core::math::SplitMix64;
use netcliff_core::{Napi, Scheme, Traffic};
use netcliff_host::serving::Program;
use netcliff_model::ModelEngine;
use netcliff_testkit::Grid;
use netcliff_trial::bench::PollTime;

use crate::cliff::{Room, host};
use crate::costs::{Costs, Doubt};
use netcliff_host::serving::SMALL_DATAGRAM_BYTES;

use crate::report::{Conclusions, from_watch};
use crate::slice::{Count, CpuSlice, Slice, SocketLook, SocketLooks, ThreadSlice, Watch};

const LOSS: f64 = 1e-4;
const ROOM: Room = Room { ring: 1000, socket: 277, tick_s: 4e-3 };

/// Costs of the host: 2.2 us per packet, and costs that packets share.
const COSTS: Costs = Costs {
    packet_s: 0.9e-6,
    poll_s: 0.4e-6,
    wakeup_s: 0.5e-6,
    interrupt_s: 0.8e-6,
    application_s: 1.2e-6,
    switch_s: 0.9e-6,
    other_s: 0.1e-6,
    fixed: 0.02,
};

fn napi() -> Napi {
    Napi { backlog: true, ..Napi::default() }
}

/// Cliff of the host with [`COSTS`] (pps).
fn true_cliff_pps() -> f64 {
    let (engine, traffic) = (ModelEngine::default().without_quantiles(), Traffic::default());
    netcliff_model::cliff(&engine, &host(&COSTS, ROOM), &Scheme::Napi(napi()), &traffic, LOSS).unwrap().pps
}

/// Fake observations of CPU 1 of the host.
struct Fake {
    chance: SplitMix64,
    cliff_pps: f64,
    /// Relative increase of all costs at an eighth of the cliff, compared with the cliff, due to cold caches.
    colder: f64,
    exact: bool,
}

impl Fake {
    fn new(seed: u64, cliff_pps: f64) -> Self {
        Self { chance: SplitMix64(seed), cliff_pps, colder: 0.0, exact: true }
    }

    fn normal(&mut self) -> f64 {
        // Sum of twelve uniform numbers.
        (0..12).map(|_| self.chance.uniform()).sum::<f64>() - 6.0
    }

    /// A slice of half a second at this load.
    fn slice(&mut self, at: usize, pps: f64) -> Slice {
        let seconds = 0.5;
        let packets = (pps * seconds + (pps * seconds).sqrt() * self.normal()).max(0.0).round();
        let cold = 1.0 + self.colder * (self.cliff_pps / pps.max(1.0)).log2() / 3.0;
        let used = (pps * (COSTS.packet_s + COSTS.application_s)).min(0.95);
        // The busier the CPU, the more packets per poll and per wake-up.
        let batch = 1.0 / (1.0 - pps * COSTS.packet_s).max(0.05);
        let (polls, wakeups) = (packets / batch, packets * (1.0 - used) / batch.sqrt());
        let speed = |fake: &mut Self| cold * (1.0 + 0.02 * fake.normal());
        let (softirq, program, rest) = (speed(self), speed(self), speed(self));
        let mut poll_times = Vec::new();
        let mut protocol_s = 0.0;
        for size in 1..=12 {
            let of_size = polls * (1.0 - 1.0 / batch).powi(size - 1) / batch;
            for (from_idle, part) in [(true, 1.0 - used), (false, used)] {
                let wakes = if from_idle { COSTS.wakeup_s } else { 0.0 };
                let own_s = softirq * (COSTS.packet_s * f64::from(size) + COSTS.poll_s + wakes);
                let count = of_size * part;
                let mean_s = own_s * (1.0 + 0.3 * self.normal() / count.max(1.0).sqrt());
                protocol_s += count * mean_s;
                let variance_s2 = (0.3 * own_s).powi(2);
                poll_times.push(PollTime { packets: f64::from(size), polls: count, mean_s, variance_s2, from_idle });
            }
        }
        let cpu = CpuSlice {
            cpu: 1,
            seconds,
            exact: self.exact,
            interrupt_s: rest * COSTS.interrupt_s * polls,
            protocol_s,
            application_s: program * (COSTS.application_s * packets + COSTS.switch_s * wakeups),
            softirq_other_s: rest * 0.5 * COSTS.other_s * packets,
            other_s: rest * 0.5 * COSTS.other_s * packets + COSTS.fixed * seconds * (1.0 + 0.05 * self.normal()),
            packets,
            polls,
            interrupts: polls,
            wakeups,
            poll_times,
            backlog: true,
            ..CpuSlice::default()
        };
        let cpu = if self.exact { cpu } else { ticked(cpu, &mut self.chance) };
        let idle_s = (seconds - cpu.busy_s()).max(0.0);
        Slice {
            at_unix_s: 1e9 + at as f64 * seconds,
            seconds,
            packets,
            bytes: 64.0 * packets,
            cpus: vec![CpuSlice { idle_s, ..cpu }],
            ..Slice::default()
        }
    }

    /// A watch of one minute, with a load at each of these shares of the cliff in turn.
    fn watch(&mut self, shares: &[f64]) -> Watch {
        let pps = |at: usize| shares[at * shares.len() / 120] * self.cliff_pps;
        let loads: Vec<f64> = (0..120).map(pps).collect();
        let slices: Vec<Slice> = loads.into_iter().enumerate().map(|(at, pps)| self.slice(at, pps)).collect();
        let counts = slices.iter().flat_map(|slice| vec![Count { seconds: 0.01, packets: slice.packets / 50.0 }; 50]);
        Watch { counts: counts.collect(), slices, ring: Some(ROOM.ring), tick_s: Some(ROOM.tick_s), ..Watch::default() }
    }
}

/// Converts a slice to the times that ticks of 4 ms would show.
fn ticked(cpu: CpuSlice, chance: &mut SplitMix64) -> CpuSlice {
    let ticks = 250.0 * cpu.seconds;
    let mut sampled = |s: f64| {
        let hits = (0..ticks as u32).filter(|_| chance.uniform() < s / cpu.seconds).count();
        hits as f64 / ticks * cpu.seconds
    };
    let (protocol_s, interrupt_s) = (sampled(cpu.protocol_s + cpu.softirq_other_s), sampled(cpu.interrupt_s));
    let other_s = sampled(cpu.other_s + cpu.application_s);
    CpuSlice {
        protocol_s,
        interrupt_s,
        other_s,
        application_s: 0.0,
        softirq_other_s: 0.0,
        polls: 0.0,
        interrupts: 0.0,
        wakeups: 0.0,
        poll_times: Vec::new(),
        ..cpu
    }
}

fn learnt(watch: &Watch) -> Conclusions {
    from_watch(watch, &napi(), &[], "a fake", LOSS)
}

/// Fifty hosts (a quarter of them a day) at 20 to 50 % of their cliff, with all costs 10 % higher at an eighth of the
/// cliff: the interval covers the cliff in at least 80 %, and its middle is close. An exact 90 % interval would miss more
/// than the allowed number with probability 1 %; the seeds are fixed.
#[test]
fn the_interval_covers_the_true_cliff() {
    let cliff_pps = true_cliff_pps();
    let mut errors = Vec::new();
    let mut missed = 0.0;
    let grid = Grid::of_today();
    for (_, seed) in grid.part(0..50) {
        let mut fake = Fake { colder: 0.1, ..Fake::new(seed, cliff_pps) };
        let low = 0.2 + 0.02 * (seed % 6) as f64;
        let result = learnt(&fake.watch(&[low, low + 0.1, low + 0.2, low + 0.05]));
        let cpu = result.parts.first().expect("CPU 1");
        let cliff = cpu.cliff_pps.expect("it has a cliff");
        missed += f64::from(u8::from(!cliff.covers(cliff_pps)));
        errors.push((cliff.value / cliff_pps).ln().abs());
        let share = cpu.share.expect("of the cliff").value;
        assert!((share / (low + 0.0875) - 1.0).abs() < 0.3, "seed {seed}: at {share}, not {}", low + 0.0875);
    }
    errors.sort_by(f64::total_cmp);
    let hosts = errors.len() as f64;
    let allowed = (0.1 * hosts).floor() + (2.33 * (0.09 * hosts).sqrt()).ceil();
    assert!(missed <= allowed, "{grid}: {missed} of {hosts} miss {cliff_pps:.0}; errors {errors:?}");
    assert!(errors[errors.len() / 2] < 0.1 && errors[errors.len() - 1] < 0.25, "{grid}: {errors:?}");
}

/// Almost a minute of few, expensive packets, then four seconds of a load without losses, far above the cliff that the
/// expensive packets imply.
#[test]
fn a_load_that_was_carried_refutes_a_lower_cliff() {
    let cliff_pps = true_cliff_pps();
    let mut watch = Fake::new(9, cliff_pps).watch(&[0.005]);
    for cpu in watch.slices.iter_mut().flat_map(|slice| &mut slice.cpus) {
        for time_s in [&mut cpu.protocol_s, &mut cpu.application_s] {
            *time_s *= 60.0;
        }
        cpu.poll_times.iter_mut().for_each(|time| time.mean_s *= 60.0);
    }
    let alone = learnt(&watch);
    assert!(alone.parts[0].cliff_pps.is_some_and(|cliff| cliff.value < 0.1 * cliff_pps), "{:?}", alone.parts);
    let end = watch.slices.len();
    for slice in &mut watch.slices[end - 8..] {
        slice.packets = 0.5 * cliff_pps * slice.seconds;
        slice.cpus.iter_mut().for_each(|cpu| cpu.seconds = 0.0);
    }
    let result = learnt(&watch);
    assert!(result.parts.iter().all(|part| part.cliff_pps.is_none() && part.share.is_none()), "{:?}", result.parts);
    assert!(result.missing.iter().any(|one| one.why.contains("without a loss")), "{:?}", result.missing);
    assert!(result.calibration.is_none());
    watch.slices.iter_mut().for_each(|slice| slice.lost = 1.0);
    assert!(learnt(&watch).parts[0].cliff_pps.is_some(), "what lost packets carried nothing");
}

/// The fit recovers the costs of a host whose costs do not depend on the load.
#[test]
fn costs_are_told_apart_where_the_load_moves() {
    let result = learnt(&Fake::new(3, true_cliff_pps()).watch(&[0.2, 0.35, 0.5, 0.3]));
    let cpu = &result.parts[0];
    let near = |key: &str, truth_s: f64, within: f64| {
        let found = cpu.costs.iter().find(|cost| cost.key == key).unwrap_or_else(|| panic!("{key}: {:?}", cpu.costs));
        assert!((found.figure.value / truth_s - 1.0).abs() < within, "{key}: {:?}, not {truth_s:e}", found.figure);
    };
    near("protocol", COSTS.packet_s, 0.05);
    near("poll", COSTS.poll_s, 0.2);
    near("wakeup", COSTS.wakeup_s, 0.2);
    near("interrupt", COSTS.interrupt_s, 0.1);
    near("application", COSTS.application_s, 0.15);
    assert!((cpu.fixed - COSTS.fixed).abs() < 0.01, "{}", cpu.fixed);
    assert!(result.missing.is_empty(), "{:?}", result.missing);
    let calibration = result.calibration.expect("a host");
    assert!(calibration.host.validate().is_ok() && calibration.host.application_s.is_some());
    assert!(matches!(result.scheme, Scheme::Napi(Napi { backlog: true, .. })));
}

#[test]
fn what_a_steady_load_cannot_tell_is_named_with_what_would_tell_it() {
    let result = learnt(&Fake::new(5, true_cliff_pps()).watch(&[0.3]));
    let said: Vec<&str> = result.missing.iter().map(|one| one.why.as_str()).collect();
    let fixed = said.iter().find(|why| why.contains("time per second")).unwrap_or_else(|| panic!("{said:?}"));
    assert!(
        fixed.contains("the load changed by") && fixed.contains("% only") && fixed.contains("busy hour"),
        "{fixed}"
    );
    let cliff = result.parts[0].cliff_pps.expect("a cliff all the same");
    assert!(cliff.covers(true_cliff_pps()), "{cliff:?}");
}

/// If packets arrive one at a time, each with its own wake-up, polls and switches cannot be separated from packets.
#[test]
fn packets_one_at_a_time_leave_polls_and_switches_in_doubt() {
    let mut watch = Fake::new(6, true_cliff_pps()).watch(&[0.05, 0.1]);
    for cpu in watch.slices.iter_mut().flat_map(|slice| &mut slice.cpus) {
        (cpu.polls, cpu.wakeups) = (cpu.packets, cpu.packets);
        cpu.poll_times.truncate(1);
    }
    let own = crate::slice::of_cpu(&watch.slices, 1);
    let pieces: Vec<_> = own.iter().map(|(slice, _)| (*slice, slice.packets)).collect();
    let fitted = crate::costs::fit(&pieces, 1).expect("a fit");
    assert!(fitted.doubts.contains(&Doubt::Polls) && fitted.doubts.contains(&Doubt::Switches), "{:?}", fitted.doubts);
    let said = learnt(&watch).missing;
    assert!(said.iter().any(|one| one.why.contains("bursts")) && said.len() >= 2, "{said:?}");
}

#[test]
fn ticks_give_a_wider_interval_that_covers() {
    let cliff_pps = true_cliff_pps();
    let exact = learnt(&Fake::new(8, cliff_pps).watch(&[0.2, 0.4, 0.5])).parts[0].cliff_pps.expect("a cliff");
    let result = learnt(&Fake { exact: false, ..Fake::new(8, cliff_pps) }.watch(&[0.2, 0.4, 0.5]));
    let ticks = result.parts[0].cliff_pps.expect("a cliff");
    assert!(
        ticks.covers(cliff_pps) && ticks.relative_half_width() > exact.relative_half_width(),
        "{ticks:?} {exact:?}"
    );
    assert!(result.missing.iter().any(|one| one.why.contains("eBPF")), "{:?}", result.missing);
}

#[test]
fn no_traffic_has_no_cliff_and_says_so() {
    let result = learnt(&Fake::new(1, true_cliff_pps()).watch(&[0.0]));
    assert!(result.parts.iter().all(|part| part.cliff_pps.is_none()) && result.calibration.is_none(), "{result:?}");
    assert!(result.missing.iter().any(|one| one.why.contains("too few to learn")), "{:?}", result.missing);
    let nothing = learnt(&Watch::default());
    assert!(nothing.parts.is_empty() && nothing.missing[0].why.contains("first slice"), "{nothing:?}");
}

#[test]
fn a_cpu_without_time_left_is_at_its_cliff() {
    let mut watch = Fake::new(2, true_cliff_pps()).watch(&[0.95, 1.0]);
    for cpu in watch.slices.iter_mut().flat_map(|slice| &mut slice.cpus) {
        cpu.application_s += cpu.seconds - cpu.busy_s();
        cpu.idle_s = 0.0;
    }
    let result = learnt(&watch);
    let part = &result.parts[0];
    assert_eq!(part.share.expect("a cliff").value, 1.0);
    assert!(part.why.as_ref().is_some_and(|why| why.to_string().contains("fully busy")), "{part:?}");
    assert!(result.calibration.is_none(), "costs there are not those below the cliff");
}

/// The program holds a lock for 5 ms once a second at 20 kpps. The socket takes 277 packets, which fill it in 5 ms at
/// 55 kpps.
#[test]
fn a_program_that_pauses_is_found_and_named() {
    let cliff_pps = true_cliff_pps();
    let mut watch = Fake::new(4, cliff_pps).watch(&[20e3 / cliff_pps]);
    let mut chance = SplitMix64(9);
    let mut look = |_| {
        let into_s = chance.uniform() - 0.995;
        let waits = if into_s > 0.0 { 20e3 * into_s } else { 0.0 };
        SocketLook { share: waits / 277.0, packets_per_s: 20e3 }
    };
    let looks: Vec<SocketLook> = (0..6000).map(&mut look).collect();
    let even = SocketLooks {
        name: "udp 10.0.0.1:54".into(),
        room_bytes: 277.0 * SMALL_DATAGRAM_BYTES as f64,
        looks: vec![SocketLook { share: 0.004, packets_per_s: 20e3 }; 6000],
        dropped: 0.0,
    };
    watch.sockets = vec![SocketLooks { name: "udp 10.0.0.1:53".into(), looks, ..even.clone() }, even];
    let result = learnt(&watch);
    let [first, rest @ ..] = &result.parts[..] else { panic!("{result:?}") };
    assert_eq!((first.kind, first.name.as_str()), (PartKind::Socket, "udp 10.0.0.1:53"));
    let cliff = first.cliff_pps.expect("it overflows");
    assert!(cliff.covers(277.0 / 5e-3) && (cliff.value / 55.4e3 - 1.0).abs() < 0.15, "{cliff:?}");
    let why = first.why.as_ref().expect("why").to_string();
    assert!(why.contains("stops reading for up to 5.") || why.contains("stops reading for up to 4.9"), "{why}");
    assert!(why.contains("about every 1.") || why.contains("about every 0.9"), "{why}");
    assert!(rest.iter().all(|part| part.kind != PartKind::Socket), "a socket that is read at once is no part");
    // If the hypervisor takes the CPU, it may be the cause of the pauses.
    watch.slices.iter_mut().for_each(|slice| slice.cpus[0].steal_s = 0.01 * slice.seconds);
    let stolen = learnt(&watch);
    assert!(stolen.parts.iter().all(|part| part.kind != PartKind::Socket), "{:?}", stolen.parts);
    assert!(
        stolen.cautions.iter().any(|one| one.contains("hypervisor") && one.contains("10.0.0.1:53")),
        "{:?}",
        stolen.cautions
    );
}

/// A thread that moves between two CPUs does not fill either of them, but it can use at most one CPU.
#[test]
fn a_thread_that_moves_has_a_cliff_of_its_own() {
    let cliff_pps = true_cliff_pps();
    let mut watch = Fake::new(4, cliff_pps).watch(&[0.1, 0.3]);
    for (at, slice) in watch.slices.iter_mut().enumerate() {
        let ran_s = 4e-6 * slice.packets + 0.01 * slice.seconds;
        slice.threads = vec![ThreadSlice { pid: 12, tid: 17, cpu: (at % 2) as u32, ran_s, is_realtime: false }];
    }
    let programs = [Program { pid: 12, name: "nsd".into() }];
    let result = from_watch(&watch, &napi(), &programs, "a fake", LOSS);
    let thread = result.parts.iter().find(|part| part.kind == PartKind::Thread).expect("the thread");
    assert_eq!(thread.name, "thread 17 of nsd (pid 12)");
    let cliff = thread.cliff_pps.expect("its time grows");
    assert!(cliff.covers(0.99 * 0.99 / 4e-6), "{cliff:?}");
}

/// Each of two CPUs receives half of the packets, and has half of the traffic's cliff.
#[test]
fn two_receive_cpus_are_two_parts() {
    let cliff_pps = true_cliff_pps();
    let mut watch = Fake::new(4, cliff_pps).watch(&[0.2, 0.4]);
    for slice in &mut watch.slices {
        let other = CpuSlice { cpu: 3, ..slice.cpus[0].clone() };
        slice.packets *= 2.0;
        slice.cpus.push(other);
    }
    let result = learnt(&watch);
    assert_eq!(result.parts.iter().map(|part| part.cpu).collect::<Vec<_>>(), [Some(1), Some(3)]);
    for part in &result.parts {
        assert!((part.packets_per_s / (0.3 * cliff_pps) - 1.0).abs() < 0.02, "{part:?}");
    }
}
