use netcliff_core::finding::{Calibration, Setup};
use netcliff_core::watch::{InterruptMoment, QuotaMoment};
use netcliff_core::{Finding, Host, Scheme, Traffic};

use super::*;

const KERNEL: &str = "Linux 6.18.44";
const NOW_S: f64 = 2e9;
const CPU: &str = "2 x Test CPU";

fn here(unix_s: f64, kernel: &str) -> Here<'_> {
    Here { unix_s, kernel, cpu: CPU }
}

/// A calibration with a cliff of 200 kpps, at which softirqs use half of the CPU.
fn found() -> Found {
    let calibration = Calibration {
        costs: Vec::new(),
        host: Host { application_s: None, ..Host::pentium4_2530mhz() },
        cpu_method: "none".into(),
        r_squared: None,
        correlated: Vec::new(),
    };
    let mut found = Found::bare(3, calibration);
    let setup = Setup { scheme: Scheme::Ideal, traffic: Traffic::default(), ..found.finding.setup.clone() };
    let mut finding = Finding { setup, ..(*found.finding).clone() };
    finding.cliff_pps.wire = Some(Figure::between(200e3, 190e3, 210e3, 0.95));
    finding.cpu_at_cliff.wire =
        Some(CpuShares { interrupt: Some(0.1.into()), protocol: Some(0.4.into()), ..CpuShares::default() });
    finding.host.kernel = KERNEL.into();
    finding.host.cpu = CPU.into();
    finding.provenance.started_unix_s = NOW_S - 60.0;
    found.finding = Box::new(finding);
    found
}

fn moment() -> Moment {
    let cpu = |cpu, packets_per_s, softirq| CpuMoment {
        cpu,
        packets_per_s,
        softirq,
        idle: 1.0 - softirq,
        ..CpuMoment::default()
    };
    let irq = |number, name: &str, cpu| InterruptMoment {
        interface: "eth0".into(),
        number,
        name: name.into(),
        per_s: 100.0,
        cpu: Some(cpu),
    };
    let queue = |queue, receive, packets_per_s| QueueMoment { queue, receive, packets_per_s, dropped_per_s: Some(0.0) };
    Moment {
        seconds: 1.0,
        cpus: vec![cpu(0, 50e3, 0.10), cpu(1, 100e3, 0.31), cpu(2, 0.0, 0.0)],
        interrupts: vec![irq(40, "eth0-rx-0", 0), irq(41, "eth0-rx-1", 1), irq(42, "eth0-tx-1", 2)],
        interfaces: vec![InterfaceMoment {
            name: "eth0".into(),
            queues: vec![queue(0, true, 50e3), queue(1, true, 100e3), queue(1, false, 9.0)],
            ..InterfaceMoment::default()
        }],
        ..Moment::default()
    }
}

#[test]
fn the_larger_of_packets_and_time_counts() {
    let now = headroom(&moment(), &found(), here(NOW_S, KERNEL)).expect("a headroom");
    // CPU 1 has 100 of 200 kpps, but uses 0.31 in softirqs, of the 0.5 that they use at the cliff.
    assert_eq!((now.run, now.engine, now.cpu, now.cpus[1].by), (Some(3), EngineKind::Wire, 1, Nearest::Softirq));
    assert!((now.share - 0.62).abs() < 1e-9, "{}", now.share);
    assert_eq!((now.cpus[0].by, now.cpus[0].share), (Nearest::Packets, 0.25));
    assert_eq!((now.cpus[2].share, now.cpus[2].latency_s), (0.0, None));
    // The model's latency at the packets/s of each CPU: longer at the higher load.
    let mean = |cpu: usize| now.cpus[cpu].latency_s.and_then(|latency| latency.mean).expect("the model answers").value;
    assert!(0.0 < mean(0) && mean(0) < mean(1), "{} {}", mean(0), mean(1));
    let queues: Vec<(u32, f64, Option<u32>)> = now.queues.iter().map(|q| (q.queue, q.share, q.cpu)).collect();
    assert_eq!(queues, [(0, 0.25, Some(0)), (1, 0.5, Some(1))]);
    assert!(now.cautions.is_empty() && now.lost_per_s == 0.0, "{:?}", now.cautions);
}

/// If a link is closer to its limit than every CPU is, its share is the host's. An exhausted CPU quota takes
/// precedence.
#[test]
fn links_and_quotas_bound_a_host() {
    let mut moment = moment();
    moment.interfaces[0].link_bps = Some(1e9);
    (moment.interfaces[0].tx_bps, moment.interfaces[0].tx_pps) = (0.9e9, 75e3);
    let now = headroom(&moment, &found(), here(NOW_S, KERNEL)).expect("a headroom");
    // A frame has 24 bytes more on the wire than the interface counts.
    assert!((now.share - (0.9 + 75e3 * 192.0 / 1e9)).abs() < 1e-9 && now.cpu == 1, "{}", now.share);
    assert!(matches!(now.nearest_bound(), Some(Bound::Link(link)) if link.sent), "{:?}", now.bounds);
    moment.quotas = vec![QuotaMoment { group: "/box".into(), cpus: 0.5, used: 0.3, throttled: 0.95 }];
    let now = headroom(&moment, &found(), here(NOW_S, KERNEL)).expect("a headroom");
    assert!(matches!(now.nearest_bound(), Some(Bound::Quota(_))) && now.share == 0.95, "{:?}", now.bounds);
    moment.cpus[1].packets_per_s = 197e3;
    let now = headroom(&moment, &found(), here(NOW_S, KERNEL)).expect("a headroom");
    assert!(now.nearest_bound().is_none() && now.bounds.len() == 3, "{:?}", now.bounds);
}

#[test]
fn what_speaks_against_it_is_said() {
    let mut old = found();
    old.finding.cliff_pps.sim = old.finding.cliff_pps.wire.take();
    let now = headroom(&moment(), &old, here(NOW_S + 40.0 * 86_400.0, "Linux 7.0")).expect("a headroom");
    let said = now.cautions.join(" ");
    assert!(said.contains("not measured") && said.contains("Linux 7.0") && said.contains("40 days ago"), "{said}");
    old.finding.cliff_pps.sim = None;
    let error = headroom(&moment(), &old, here(NOW_S, KERNEL)).expect_err("no cliff");
    assert!(error.contains("find run 3"), "{error}");
    let error = headroom(&Moment::default(), &found(), here(NOW_S, KERNEL)).expect_err("no CPU");
    assert!(error.contains("no CPU"), "{error}");
}

/// A program with a socket, which uses this share of a CPU.
fn program(cpu: u32, name: &str, share: f64) -> ProgramMoment {
    let sockets = Some(vec!["udp 0.0.0.0:53".to_owned()]);
    ProgramMoment { cpu, pid: 7, name: name.into(), share, busiest_thread: share, sockets, ..ProgramMoment::default() }
}

/// A service that uses a whole CPU is at its limit, whatever packets and softirqs show. Of two full CPUs, the report
/// names the service's CPU.
#[test]
fn a_cpu_without_idle_time_is_at_its_limit() {
    let mut full = moment();
    for cpu in &mut full.cpus[..2] {
        (cpu.user, cpu.idle) = (0.6, 0.02);
    }
    full.cpus[0].idle = 0.0;
    full.programs = vec![ProgramMoment { elsewhere: true, ..program(0, "dnsperf", 0.97) }, program(1, "dnsmasq", 0.66)];
    let now = headroom(&full, &found(), here(NOW_S, KERNEL)).expect("a headroom");
    assert_eq!((now.cpu, now.cpus[1].by), (1, Nearest::Programs));
    assert!((now.share - 0.98).abs() < 1e-9 && now.programs.len() == 2, "{}", now.share);
    // Programs with low priority (nice) leave the CPU to others.
    full.cpus[0].niced = 0.9;
    full.cpus[1].niced = 0.9;
    let now = headroom(&full, &found(), here(NOW_S, KERNEL)).expect("a headroom");
    assert!(now.share < 0.7, "{}", now.share);
}

/// A thread cannot use more than one CPU, wherever it runs.
#[test]
fn a_thread_that_moves_between_idle_cpus_is_at_its_limit() {
    let mut moved = moment();
    for cpu in &mut moved.cpus[..2] {
        (cpu.user, cpu.softirq, cpu.idle, cpu.packets_per_s) = (0.5, 0.0, 0.5, 0.0);
    }
    moved.programs = vec![program(1, "memcached", 0.97)];
    let now = headroom(&moved, &found(), here(NOW_S, KERNEL)).expect("a headroom");
    assert!(now.cpu == 1 && (now.share - 0.97).abs() < 1e-9, "{}", now.share);
    moved.programs[0].sockets = Some(Vec::new());
    let now = headroom(&moved, &found(), here(NOW_S, KERNEL)).expect("a headroom");
    assert!((now.share - 0.5).abs() < 1e-9, "no socket, no packets to lose: {}", now.share);
}

/// Packets that cost less than the packets of the calibration do not count as above the cliff, on a CPU that is partly
/// idle and loses no packets.
#[test]
fn cheap_packets_pass_no_cliff() {
    let mut cheap = moment();
    cheap.cpus[1].packets_per_s = 400e3;
    let share = |moment: &Moment| headroom(moment, &found(), here(NOW_S, KERNEL)).expect("a headroom").share;
    assert_eq!(share(&cheap), 1.0);
    cheap.cpus[2].dropped_per_s = 1.0;
    assert_eq!(share(&cheap), 2.0);
}

/// A calibration of another machine or from the future is reported as such, and its cliff is not valid.
#[test]
fn a_calibration_of_another_machine_or_time_is_not_valid() {
    let now = headroom(&moment(), &found(), here(NOW_S, KERNEL)).expect("a headroom");
    assert!(now.cliff_valid && now.cautions.is_empty() && now.age_s == Some(60.0), "{now:?}");
    let other = Here { cpu: "64 x Other CPU", ..here(NOW_S - 3600.0, KERNEL) };
    let now = headroom(&moment(), &found(), other).expect("a headroom");
    let said = now.cautions.join(" ");
    assert!(said.contains("of another machine (2 x Test CPU)") && said.contains("lies in the future"), "{said}");
    assert_eq!((now.cliff_valid, now.age_s), (false, None));
    // A file of `find --json` has no run number, but the same cautions apply.
    let mut file = Found { run: None, ..found() };
    file.finding.setup.application_work_s = 7e-6;
    let now = headroom(&moment(), &file, here(NOW_S, KERNEL)).expect("a headroom");
    assert!(!now.cliff_valid && now.cautions[0].contains("what-if"), "{:?}", now.cautions);
}
