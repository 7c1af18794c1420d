//! These tests compute each reported effect independently from costs and inventory, or check a property that the
//! formulas require.

use netcliff_core::Figure;
use netcliff_core::finding::Cost;
use netcliff_core::inspection::Objective;
use netcliff_host::inspect::{Direction, Irq, QueuePath};
use netcliff_host::inventory::IdleState;
use netcliff_host::nic::Nic;

use super::*;

/// Costs of a Pentium 4 host whose application takes 2 us per packet. The interval of the protocol cost is +-10 %.
fn calibration() -> Calibration {
    let host = Host { application_s: Some(2e-6), interrupt_latency_s: 3e-6, ..Host::pentium4_2530mhz() };
    let figure = Figure::sampled(host.protocol_s, 0.1 * host.protocol_s, 0.95);
    let cost = Cost { key: "protocol".into(), figure, unit: "s".into(), how: "a test".into() };
    Calibration { costs: vec![cost], host, cpu_method: "none".into(), r_squared: None, correlated: Vec::new() }
}

fn found() -> Found {
    Found::bare(3, calibration())
}

/// A host with eth0: this number of queues, queue n with interrupt 40 + n, all on CPU 0; 10 Gbit/s, MTU 1500.
fn host(queues: u32) -> Inspection {
    let irq = |number: u32| Irq {
        number,
        name: format!("eth0-{}", number - 40),
        direction: Some(Direction::Both),
        queue: Some(number - 40),
        allowed: vec![0],
        ..Irq::default()
    };
    let path = |queue: u32| QueuePath {
        direction: Direction::Receive,
        queue,
        napi_id: None,
        irq: Some(40 + queue),
        cpus: vec![0],
    };
    let nic = Nic {
        name: "eth0".into(),
        mtu_bytes: Some(1500),
        speed_mbps: Some(10_000),
        rps_cpus: vec!["0".into(); queues as usize],
        ..Nic::default()
    };
    let port = Port {
        nic,
        irqs: (40..40 + queues).map(irq).collect(),
        queues: (0..queues).map(path).collect(),
        far_end: None,
    };
    Inspection { ports: vec![port], ..Inspection::default() }
}

fn step(setting: Setting, old: &str, new: &str) -> Step {
    Step::new(setting, old, new, "a test", "none")
}

fn feature(key: &str) -> Setting {
    Setting::Ethtool { interface: "eth0".into(), group: Group::Features, key: key.into() }
}

/// The text reported for each step.
fn shown(host: &Inspection, steps: Vec<Step>) -> Vec<String> {
    let mut plan = Plan { objective: Objective::Throughput, machine: Default::default(), steps, notes: Vec::new() };
    effects(&mut plan, host, &found());
    plan.steps.into_iter().map(|step| step.proposal.effect.unwrap()).collect()
}

/// All numbers in a text after the given words.
fn numbers(text: &str, from: &str) -> Vec<f64> {
    let (_, tail) = text.split_once(from).unwrap_or_else(|| panic!("{from:?} is not in {text}"));
    tail.split([' ', '(', ')', ',', ';']).filter_map(|word| word.parse().ok()).collect()
}

fn near(value: f64, expected: f64, share: f64) {
    assert!((value / expected - 1.0).abs() < share, "{value} is not {expected}");
}

fn ring_losses(slots: &[u64], delay_us: u32) -> Vec<f64> {
    let mut host = host(1);
    host.ports[0].nic.coalesce.insert("rx-usecs".into(), delay_us);
    let setting = Setting::Ethtool { interface: "eth0".into(), group: Group::Rings, key: "rx".into() };
    let steps = slots.iter().map(|new| step(setting.clone(), "1", &new.to_string())).collect();
    shown(&host, steps).iter().map(|shown| numbers(shown.split("->").nth(1).unwrap(), "")[0]).collect()
}

/// 20 us at 14.88 Mpps are a burst of 298 packets. A ring with n slots stores at most n of them, a ring for several
/// bursts stores all, and a larger ring never loses more.
#[test]
fn rings() {
    let slots: Vec<u64> = (5..13).map(|power| 1 << power).collect();
    let lost = ring_losses(&slots, 20);
    for (slots, lost) in slots.iter().zip(&lost) {
        assert!(*lost >= 100.0 * (1.0 - *slots as f64 / 298.0) - 0.1, "{slots} slots lose {lost} %");
    }
    assert!(lost.windows(2).all(|pair| pair[1] <= pair[0] + 0.05), "{lost:?}");
    assert_eq!(lost.last(), Some(&0.0), "{lost:?}");
}

/// k CPUs serve between one and k times as much as one CPU, and exactly k times as much with equal shares.
#[test]
fn interrupts_spread() {
    let one_kpps = 1e3 / (5.25 + 64.0 / 748.0 + 2.0);
    for (cpus, busiest_queues) in [(1, 8.0), (2, 4.0), (3, 3.0), (4, 2.0), (8, 1.0)] {
        let steps: Vec<Step> = (0..8)
            .map(|queue: u32| {
                let setting = Setting::Interrupt { interface: "eth0".into(), name: format!("eth0-{queue}") };
                step(setting, "0-7", &(queue % cpus).to_string())
            })
            .collect();
        let shown = shown(&host(8), steps);
        assert!(shown.iter().all(|one| *one == shown[0]), "all interrupts together: {shown:?}");
        let after_kpps = match shown[0].split_once("kpps").unwrap().0.split_once("->") {
            None => numbers(&shown[0], "at most")[0],
            Some(_) => {
                let sides = numbers(&shown[0], "at most");
                near(sides[0], one_kpps, 0.01);
                sides[3]
            }
        };
        near(after_kpps, one_kpps * 8.0 / busiest_queues, 0.01);
        assert!(after_kpps >= 0.99 * one_kpps && after_kpps <= 1.01 * f64::from(cpus) * one_kpps, "{shown:?}");
        assert!(shown[0].contains("upper bound") && shown[0].contains("even share"), "{shown:?}");
    }
}

/// The report shows RPS with the cost of the interrupt between CPUs, and RFS by the stages of a flow. XPS has no
/// prediction.
#[test]
fn steering() {
    let file = |name: &str| Setting::file(format!("/sys/class/net/eth0/queues/{name}"));
    let shown = shown(
        &host(1),
        vec![
            step(file("rx-0/rps_cpus"), "0", "0000000c"),
            step(file("rx-0/rps_flow_cnt"), "0", "32768"),
            step(Setting::sysctl("net.core.rps_sock_flow_entries"), "0", "32768"),
            step(file("tx-0/xps_cpus"), "0", "1"),
        ],
    );
    assert!(shown[0].starts_with("1 CPU -> 2 CPUs for the packets"), "{shown:?}");
    // The handler plus the interrupt's overhead: 3.73 + 3 us.
    near(numbers(&shown[0], "idle waits")[0], 6.7, 0.01);
    let flow = numbers(&shown[1], "at most");
    near(flow[0], 1e3 / (5.25 + 64.0 / 748.0), 0.01);
    near(flow[3], 1e3 / (5.25 + 64.0 / 748.0 + 2.0), 0.01);
    assert_eq!(shown[1], shown[2]);
    assert!(shown[3].starts_with("not predicted: ") && shown[3].contains("not sending"), "{shown:?}");
    let mut veth = host(1);
    veth.ports[0].queues.clear();
    veth.ports[0].irqs.clear();
    let shown = super::tests::shown(&veth, vec![step(file("rx-0/rps_cpus"), "0", "3")]);
    assert!(shown[0].starts_with("2 CPUs work on the packets of eth0"), "{shown:?}");
}

#[test]
fn segments() {
    let (protocol_us, byte_us) = (5.25, 1.0 / 748.0);
    let mut host = host(1);
    host.ports[0].nic.features.insert("rx-checksum".into(), true);
    let shown = shown(
        &host,
        vec![
            step(feature("rx-gro"), "off", "on"),
            step(feature("rx-checksum"), "off", "on"),
            step(Setting::Mtu { interface: "eth0".into() }, "1500", "9000"),
            step(feature("tx-tcp-segmentation"), "off", "on"),
            step(feature("tx-checksum-ip-generic"), "off", "on"),
            step(feature("rx-lro"), "on", "off"),
        ],
    );
    let kib_us = |packets: f64, passes: f64, mtu: f64| {
        (protocol_us * packets + byte_us * passes * (mtu + 18.0)) * 1024.0 / (mtu - 52.0)
    };
    // At most 43 frames of 1518 bytes fit into 64 KiB.
    let [before, _, _, after, low, high, ..] = numbers(&shown[0], "full frames")[..] else { panic!("{shown:?}") };
    near(before, kib_us(1.0, 1.0, 1500.0), 1e-3);
    near(after, kib_us(0.25 + 0.75 / 43.0, 1.0, 1500.0), 1e-3);
    near(low, kib_us(0.9 / 43.0, 1.0, 1500.0), 2e-3);
    near(high, kib_us(1.1, 1.0, 1500.0), 1e-3);
    let sides = numbers(&shown[1], "full frames");
    near(sides[0] - sides[3], kib_us(0.0, 0.5, 1500.0), 0.01);
    // Ethernet, IPv4 and TCP headers, preamble and gap: 1448 of 1538 and 8948 of 9038 bytes.
    let payload = numbers(&shown[2], "at most");
    near(payload[0], 94.1, 1e-3);
    near(payload[1], 99.0, 1e-3);
    near(numbers(&shown[2], "full frames")[3], kib_us(1.0, 1.0, 9000.0), 1e-3);
    // 1 MiB / 1448 and 1 MiB / (43 x 1448), rounded up.
    assert_eq!(numbers(&shown[3], "sent:")[..2], [725.0, 17.0]);
    near(numbers(&shown[4], "the CPU")[0], 0.5 * byte_us * 1024.0, 1e-3);
    assert!(shown[5].starts_with("not predicted: "), "{shown:?}");
}

#[test]
fn sleep_and_speed() {
    let mut host = host(1);
    let state = |name: &str, us| IdleState { name: name.into(), exit_latency_us: Some(us), ..IdleState::default() };
    host.host.cpu.idle_states = vec![state("POLL", 0), state("C1", 2), state("C6", 133), state("C10", 890)];
    host.host.cpu.idle_states[3].only_on = vec![1];
    host.host.cpu.policy_frequencies_hz.insert("policy0".into(), (800_000_000, 3_200_000_000));
    let disable = |cpu, state| Setting::file(format!("/sys/devices/system/cpu/cpu{cpu}/cpuidle/state{state}/disable"));
    let governor = |policy| Setting::file(format!("/sys/devices/system/cpu/cpufreq/{policy}/scaling_governor"));
    let shown = shown(
        &host,
        vec![
            step(disable(0, 2), "0", "1"),
            step(disable(1, 2), "0", "1"),
            step(disable(1, 3), "0", "1"),
            step(governor("policy0"), "powersave", "performance"),
            step(governor("policy1"), "powersave", "performance"),
        ],
    );
    assert!(shown[0].contains("CPU 0 waits up to 133 -> 2 us"), "{shown:?}");
    assert!(shown[1].contains("CPU 1 waits up to 890 -> 2 us"), "{shown:?}");
    assert_eq!(shown[1], shown[2], "both states of a CPU together");
    let costs = numbers(&shown[3], "of a packet");
    near(costs[0], 4.0 * (5.25 + 64.0 / 748.0 + 2.0), 1e-3);
    near(costs[3], 5.25 + 64.0 / 748.0 + 2.0, 1e-3);
    assert!(shown[4].starts_with("not predicted: ") && shown[4].contains("frequencies"), "{shown:?}");
}

/// Drops at a backlog come from bursts, whose length is unknown.
#[test]
fn backlogs_are_not_predicted() {
    let shown = shown(&host(1), vec![step(Setting::sysctl("net.core.netdev_max_backlog"), "1000", "2000")]);
    assert!(shown[0].starts_with("not predicted: ") && shown[0].contains("bursts"), "{shown:?}");
}

#[test]
fn windows() {
    let rmem = Setting::sysctl("net.ipv4.tcp_rmem");
    let shown = shown(&host(1), vec![step(rmem, "4096 131072 2000000", "4096 131072 6000000")]);
    assert!(shown[0].contains("3.00 times"), "{shown:?}");
}
