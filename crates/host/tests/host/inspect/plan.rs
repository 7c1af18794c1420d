//! Tests the settings that are proposed for captured hosts.

use crate::inspect::common::{Overlay, base};
use netcliff_core::inspection::Objective;
use netcliff_host::{
    inspect::Inspection,
    tune::{Plan, PlanError, Wish, affinity::Design, plan},
};
use serde_json::json;

fn planned(overlay: &Overlay, wish: &Wish) -> Plan {
    plan_of(overlay, wish).unwrap()
}

fn plan_of(overlay: &Overlay, wish: &Wish) -> Result<Plan, PlanError> {
    let dir = overlay.lay();
    plan(&Inspection::of_capture(dir.path()).unwrap(), wish)
}

/// Name, old and new value of each step about eth0 or the host.
fn steps(plan: &Plan) -> Vec<String> {
    let about = plan.steps.iter().filter(|step| step.setting.interface() != Some("eth1"));
    let lines = about.map(|step| format!("{}: {} -> {}", step.proposal.name, step.proposal.old, step.proposal.new));
    lines.collect()
}

fn wish(objective: Objective) -> Wish {
    Wish { interfaces: vec!["eth0".into()], ..Wish::new(objective) }
}

#[test]
fn a_fitting_host_is_left_alone() {
    let plan = planned(&base(), &Wish::new(Objective::Throughput));
    assert_eq!(plan.steps, [], "{:#?}", plan.steps);
}

#[test]
fn latency() {
    let states = "sys/devices/system/cpu/cpu0/cpuidle/state1";
    let policy = "sys/devices/system/cpu/cpufreq/policy0/scaling_governor";
    let host = base()
        .nic("eth0", "/coalesce/adaptive-rx", 1)
        .file(&format!("{states}/latency"), "133\n")
        .file("sys/class/net/eth0/napi_defer_hard_irqs", "2\n")
        .file("sys/class/net/eth0/gro_flush_timeout", "20000\n")
        .file("sys/class/net/eth0/queues/rx-0/rps_cpus", "000e\n")
        .file("proc/sys/net/core/busy_poll", "0\n")
        .file(policy, "schedutil\n")
        .file("sys/devices/system/cpu/online", "0-3\n");
    let host = (0..4).fold(host, |host, queue| {
        host.file(&format!("sys/class/net/eth0/queues/tx-{queue}/xps_cpus"), &format!("{:04x}\n", 1 << queue))
            .nic("eth0", &format!("/napis/{queue}/defer_hard_irqs"), 2)
            .nic("eth0", &format!("/napis/{queue}/gro_flush_timeout_ns"), 20_000)
    });
    let steps = steps(&planned(&host, &wish(Objective::Latency)));
    assert_eq!(
        steps,
        [
            // The ring has to store 14.88 M frames/s for 25 + 133 + 20 us.
            "eth0 ring rx: 512 -> 4096",
            "eth0 coalesce adaptive-rx: 1 -> 0",
            "eth0 coalesce rx-usecs: 25 -> 8",
            "/sys/class/net/eth0/queues/rx-0/rps_cpus: 000e -> 0",
            "/sys/class/net/eth0/napi_defer_hard_irqs: 2 -> 0",
            "/sys/class/net/eth0/gro_flush_timeout: 20000 -> 0",
            "net.core.busy_poll: 0 -> 50",
            "/sys/devices/system/cpu/cpufreq/policy0/scaling_governor: schedutil -> performance",
            "/sys/devices/system/cpu/cpu0/cpuidle/state1/disable: 0 -> 1",
            "/sys/devices/system/cpu/cpu1/cpuidle/state1/disable: 0 -> 1",
            "/sys/devices/system/cpu/cpu2/cpuidle/state1/disable: 0 -> 1",
            "/sys/devices/system/cpu/cpu3/cpuidle/state1/disable: 0 -> 1",
        ]
    );
}

#[test]
fn cpu() {
    let plan = planned(&base().nic("eth0", "/features/rx-gro", false), &wish(Objective::Cpu));
    assert_eq!(
        steps(&plan),
        [
            "eth0 coalesce rx-usecs: 25 -> 100",
            "eth0 offload rx-gro: off -> on",
            "/sys/class/net/eth0/napi_defer_hard_irqs: 0 -> 2",
            "/sys/class/net/eth0/gro_flush_timeout: 0 -> 50000",
            "eth0 NAPI 0 irq-suspend-timeout: 0 -> 20000000",
            "eth0 NAPI 1 irq-suspend-timeout: 0 -> 20000000",
            "eth0 NAPI 2 irq-suspend-timeout: 0 -> 20000000",
            "eth0 NAPI 3 irq-suspend-timeout: 0 -> 20000000",
        ]
    );
}

/// Small values of rx-usecs select a mode of Intel's drivers, and delays below 10 us are refused.
#[test]
fn delays_in_the_words_of_a_driver() {
    let host = base().nic("eth0", "/driver", "igb").nic("eth0", "/coalesce", json!({ "rx-usecs": 3 }));
    let of = |objective| {
        let plan = planned(&host, &wish(objective));
        let coalesce = plan.steps.into_iter().filter(|step| step.proposal.name.contains("coalesce"));
        coalesce.map(|step| (step.proposal.name, step.proposal.new, step.proposal.effect)).collect::<Vec<_>>()
    };
    let [(name, new, Some(effect))] = &of(Objective::Latency)[..] else { panic!("one step") };
    assert_eq!((name.as_str(), new.as_str()), ("eth0 coalesce rx-usecs", "10"));
    assert!(effect.contains("not predicted") && effect.contains("adaptive"), "{effect}");
    assert_eq!(of(Objective::Cpu), [], "adaptive is left on");
    assert_eq!(of(Objective::Throughput), [], "adaptive is left on");
}

/// If all NAPI instances have one value, a sysfs file sets them together. If one differs, or there is no file, each
/// instance is set separately.
#[test]
fn napi_instances_one_by_one_where_they_differ() {
    let host =
        (0..4).fold(base().nic("eth0", "/coalesce/rx-usecs", 100).nic("eth0", "/rings/rx", 4096), |host, place| {
            let napi = format!("/napis/{place}");
            host.nic("eth0", &format!("{napi}/defer_hard_irqs"), if place == 2 { 7 } else { 0 })
                .nic("eth0", &format!("{napi}/gro_flush_timeout_ns"), 0)
                .nic("eth0", &format!("{napi}/irq_suspend_timeout_ns"), 0)
                .nic("eth0", &format!("{napi}/threaded"), 1)
        });
    let host = host.file("sys/class/net/eth0/threaded", "1\n");
    assert_eq!(
        steps(&planned(&host, &wish(Objective::Cpu))),
        [
            "eth0 NAPI 0 defer-hard-irqs: 0 -> 2",
            "eth0 NAPI 1 defer-hard-irqs: 0 -> 2",
            "eth0 NAPI 2 defer-hard-irqs: 7 -> 2",
            "eth0 NAPI 3 defer-hard-irqs: 0 -> 2",
            "/sys/class/net/eth0/gro_flush_timeout: 0 -> 50000",
            "eth0 NAPI 0 irq-suspend-timeout: 0 -> 20000000",
            "eth0 NAPI 1 irq-suspend-timeout: 0 -> 20000000",
            "eth0 NAPI 2 irq-suspend-timeout: 0 -> 20000000",
            "eth0 NAPI 3 irq-suspend-timeout: 0 -> 20000000",
            "/sys/class/net/eth0/threaded: 1 -> 0",
        ]
    );
    assert!(steps(&planned(&host, &wish(Objective::Latency))).contains(&"eth0 NAPI 2 defer-hard-irqs: 7 -> 0".into()));
    // NAPI threads that never sleep are left on if the objective is latency.
    let spinning = host.nic("eth0", "/napis/1/threaded", 2);
    let steps = steps(&planned(&spinning, &wish(Objective::Latency)));
    assert!(steps.iter().all(|step| !step.contains("threaded")), "{steps:#?}");
}

#[test]
fn throughput_on_a_host_set_up_badly() {
    let host = base()
        .nic("eth0", "/rings/rx", 128)
        .nic("eth0", "/coalesce/rx-usecs", 0)
        .nic("eth0", "/features/rx-lro", true)
        .nic("eth0", "/rss/indirection", vec![0_u32; 8])
        .file("proc/sys/net/core/netdev_budget", "300\n")
        .file("proc/net/softnet_stat", "000f4240 00000005 00000003 0 0 0 0 0 0 0 0 0 0\n")
        .file("later/proc/net/softnet_stat", "000f4250 00000008 00000004 0 0 0 0 0 0 0 0 0 0\n")
        .irq(43, "7");
    let throughput = Wish { rtt_s: 5e-3, ..wish(Objective::Throughput) };
    assert_eq!(
        steps(&planned(&host, &throughput)),
        [
            // Only 30 frames arrive in the 2 us in which the CPU wakes, so the ring is not changed.
            "eth0 coalesce rx-usecs: 0 -> 50",
            "eth0 RSS table: 0,0,0,0,0,0,0,0 -> 0,1,2,3,0,1,2,3",
            "eth0 offload rx-lro: on -> off",
            "eth0 interrupt eth0-TxRx-3: 7 -> 3",
            "net.core.netdev_max_backlog: 1000 -> 2000",
            "net.core.netdev_budget: 300 -> 600",
            "net.core.netdev_budget_usecs: 2000 -> 4000",
            "net.ipv4.tcp_wmem: 4096 16384 4194304 -> 4096 16384 6250000",
        ]
    );
}

/// Counts since boot do not fall when the budget is raised, so they must not make the next plan raise it again.
#[test]
fn old_squeezes_are_answered_once() {
    let counted = |squeezed: u32| {
        let counts = format!("00000040 00000000 {squeezed:08x} 0 0 0 0 0 0 0 0 0 0\n");
        base().file("proc/net/softnet_stat", &counts).file("later/proc/net/softnet_stat", &counts)
    };
    let budgets = |host: &Overlay| {
        let steps = steps(&planned(host, &wish(Objective::Throughput)));
        steps.into_iter().filter(|step| step.contains("budget")).collect::<Vec<_>>()
    };
    let many = counted(50).file("proc/sys/net/core/netdev_budget", "300\n");
    assert_eq!(budgets(&many)[0], "net.core.netdev_budget: 300 -> 600");
    assert_eq!(budgets(&many.file("proc/sys/net/core/netdev_budget", "600\n")), [""; 0]);
    // Three squeezes are no more than the start of a host causes: the plan leaves the budget unchanged.
    assert_eq!(budgets(&counted(3).file("proc/sys/net/core/netdev_budget", "300\n")), [""; 0]);
}

#[test]
fn one_queue_is_helped_by_rps_and_rfs() {
    let empty = serde_json::json!([]);
    let mut host = base().nic("eth0", "/channels", serde_json::json!({})).nic("eth0", "/rx_queues", 1);
    host = host.nic("eth0", "/queues", empty.clone()).nic("eth0", "/napis", empty).nic(
        "eth0",
        "/rss",
        serde_json::Value::Null,
    );
    let only_first = host.lay();
    for queue in 1..4 {
        for kind in ["rx", "tx"] {
            let dir = only_first.path().join(format!("sys/class/net/eth0/queues/{kind}-{queue}"));
            std::fs::remove_dir_all(dir).unwrap();
        }
        for irq in [40 + queue, 44] {
            let _ = std::fs::remove_file(only_first.path().join(format!("sys/class/net/eth0/device/msi_irqs/{irq}")));
        }
    }
    let inspection = Inspection::of_capture(only_first.path()).unwrap();
    let wanted = steps(&plan(&inspection, &wish(Objective::Throughput)).unwrap());
    assert_eq!(
        wanted,
        [
            // CPUs 1-3 and 8-11: the node of the device without the CPU that takes its interrupt.
            "/sys/class/net/eth0/queues/rx-0/rps_cpus: 0000 -> 00000f0e",
            "net.core.rps_sock_flow_entries: 0 -> 32768",
            "/sys/class/net/eth0/queues/rx-0/rps_flow_cnt: 0 -> 32768",
        ]
    );
    // The CPU that RPS leaves out is the planned CPU of the interrupt, so the plan is the same before and after the
    // interrupt is moved.
    for file in ["smp_affinity_list", "effective_affinity_list"] {
        std::fs::write(only_first.path().join("proc/irq/40").join(file), "2\n").unwrap();
    }
    let inspection = Inspection::of_capture(only_first.path()).unwrap();
    let moved = steps(&plan(&inspection, &wish(Objective::Throughput)).unwrap());
    assert_eq!((moved[0].as_str(), &moved[1..]), ("eth0 interrupt eth0-TxRx-0: 2 -> 0", &wanted[..]));
    // If the objective needs neither RPS nor RFS, the plan switches both off.
    let on = host.file("sys/class/net/eth0/queues/rx-0/rps_flow_cnt", "256\n");
    let off = "/sys/class/net/eth0/queues/rx-0/rps_flow_cnt: 256 -> 0".to_owned();
    assert!(steps(&planned(&on, &wish(Objective::Latency))).contains(&off));
}

#[test]
fn channels_come_first_and_are_told_of() {
    let two = base().nic("eth0", "/channels/combined", 2).equal_rss("eth0", 2);
    let plan = planned(&two, &wish(Objective::Throughput));
    assert_eq!(steps(&plan)[0], "eth0 channels combined: 2 -> 4");
    assert!(plan.changes_channels() && plan.notes[0].contains("eth0"), "{plan:#?}");
    assert!(!planned(&two, &wish(Objective::Cpu)).changes_channels());
    // The present interrupts are not the interrupts of the four new queues, so the plan places none of them.
    let pinned = two.irq(43, "7");
    assert_eq!(steps(&planned(&pinned, &wish(Objective::Throughput))), steps(&plan));
    let settled = Wish { channels_as_they_are: true, ..wish(Objective::Throughput) };
    assert_eq!(steps(&planned(&pinned, &settled))[0], "eth0 interrupt eth0-TxRx-3: 7 -> 3");
}

#[test]
fn designs_differ_where_interrupts_are_apart() {
    let mut host = base();
    let interrupts = std::fs::read_to_string(base().lay().path().join("proc/interrupts")).unwrap();
    let renamed = interrupts
        .replace("eth0-TxRx-2", "eth0-tx-0")
        .replace("eth0-TxRx-3", "eth0-tx-1")
        .replace("eth0-TxRx", "eth0-rx");
    host = host.file("proc/interrupts", &renamed).nic("eth0", "/queues", serde_json::json!([]));
    let placed = |design| {
        let plan = planned(&host, &Wish { design, ..wish(Objective::Cpu) });
        let irqs = steps(&plan).into_iter().filter(|step| step.contains(" interrupt "));
        irqs.map(|step| step.replace("eth0 interrupt eth0-", "")).collect::<Vec<_>>()
    };
    // Present CPUs: rx 0 and 1 on CPUs 0 and 1, tx 0 and 1 on CPUs 2 and 3.
    assert_eq!(placed(Some(Design::Pairing)), ["tx-0: 2 -> 0", "tx-1: 3 -> 1"]);
    assert_eq!(placed(Some(Design::Spread)), [""; 0]);
    assert_eq!(placed(None), ["tx-0: 2 -> 8", "tx-1: 3 -> 9"], "SMT: the second threads of CPUs 0 and 1");
}

/// On a router both ports use the same cores. On other hosts the ports use different cores; if there are too few cores,
/// a note says so.
#[test]
fn only_a_router_gives_its_ports_the_same_cores_by_design() {
    let shares = |host: &Overlay| {
        let plan = planned(host, &Wish::new(Objective::Throughput));
        plan.notes.iter().filter(|note| note.contains("more than the 4 cores")).cloned().collect::<Vec<_>>()
    };
    assert_eq!(shares(&base()), [""; 0]);
    let end_host =
        base().file("proc/sys/net/ipv4/ip_forward", "0\n").file("proc/sys/net/ipv6/conf/all/forwarding", "0\n");
    let notes = shares(&end_host);
    assert!(notes.len() == 1 && notes[0].starts_with("eth1: "), "{notes:?}");
}

#[test]
fn irqbalance_is_told_of_and_mtu_is_set_only_when_asked_for() {
    let host = base().file("proc/612/comm", "irqbalance\n");
    let plan = planned(&host, &Wish { mtu_bytes: Some(9000), ..wish(Objective::Cpu) });
    assert!(plan.notes.iter().any(|note| note.contains("612")), "{plan:#?}");
    assert!(steps(&plan).contains(&"eth0 MTU: 1500 -> 9000".to_owned()));
}

#[test]
fn a_plan_is_for_one_machine() {
    let plan = planned(&base(), &Wish::new(Objective::Cpu));
    let now = |overlay: &Overlay| Inspection::of_capture(overlay.lay().path()).unwrap();
    assert_eq!(plan.machine.differs(&now(&base())), None);
    for (other, word) in [
        (base().file("sys/devices/system/cpu/online", "0-7\n"), "0-7"),
        (base().nic("eth0", "/driver", "ice"), "ice"),
        (base().nic("eth0", "/channels/combined-max", 8), "of 8 receive queues"),
        (base().nic("eth0", "/channels/combined", 2), "2 of "),
        (base().nic("eth0", "/channels/tx", 7), "11 transmit queues"),
        (base().nic("eth1", "/name", "eth9"), "eth1"),
    ] {
        let told = plan.machine.differs(&now(&other)).unwrap();
        assert!(told.contains(word), "{told}");
    }
    assert!(super::plan::planned_error("nosuch0").contains("nosuch0"));
}

fn planned_error(interface: &str) -> String {
    let dir = base().lay();
    let wish = Wish { interfaces: vec![interface.into()], ..Wish::new(Objective::Cpu) };
    plan(&Inspection::of_capture(dir.path()).unwrap(), &wish).unwrap_err().to_string()
}

/// With an MTU below 1280 bytes the kernel disables IPv6 on an interface, removes its addresses and static routes, and
/// does not restore them.
#[test]
fn an_mtu_that_costs_ipv6_is_refused() {
    let error = |host: &Overlay, mtu: u32| {
        let wish = Wish { mtu_bytes: Some(mtu), ..wish(Objective::Cpu) };
        plan(&Inspection::of_capture(host.lay().path()).unwrap(), &wish).err().map(|error| error.to_string())
    };
    let of = |interface: &str, off: &str| {
        base().file(&format!("proc/sys/net/ipv6/conf/{interface}/disable_ipv6"), &format!("{off}\n"))
    };
    let told = error(&of("eth0", "0"), 1279).unwrap();
    assert!(told.contains("eth0 has IPv6") && told.contains("1280 and more"), "{told}");
    for (host, mtu) in [(of("eth0", "0"), 1280), (of("eth0", "1"), 68), (of("eth1", "0"), 68), (base(), 68)] {
        assert_eq!(error(&host, mtu), None, "{mtu}");
    }
}

#[test]
fn plans_survive_json() {
    let plan = planned(&base().irq(43, "7"), &Wish::new(Objective::Latency));
    assert!(!plan.steps.is_empty());
    let text = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan);
    for step in &plan.steps {
        assert!(step.proposal.reason.len() > 10 && step.proposal.source.len() > 5, "{step:#?}");
    }
}

/// The work of a spared CPU is placed on the other CPUs; if no CPU is left, nothing is placed.
#[test]
fn spared_cpus_get_no_work() {
    let few = Wish { spared: vec![0, 8], ..wish(Objective::Throughput) };
    assert_eq!(steps(&planned(&base(), &few))[0], "eth0 channels combined: 4 -> 3");
    let few = Wish { channels_as_they_are: true, ..few };
    let lines = steps(&planned(&base(), &few));
    let placed: Vec<&String> = lines.iter().filter(|line| line.contains(" interrupt ")).collect();
    assert!(
        !placed.is_empty() && !placed.iter().any(|line| line.ends_with("-> 0") || line.ends_with("-> 8")),
        "{lines:?}"
    );
    let none = Wish { spared: (0..16).collect(), ..wish(Objective::Throughput) };
    let plan = planned(&base(), &none);
    assert!(plan.notes.iter().any(|note| note.contains("no work is placed")), "{:?}", plan.notes);
    let of_work = [" interrupt ", "rps_cpus", "channels"];
    assert!(!steps(&plan).iter().any(|line| of_work.iter().any(|word| line.contains(word))), "{plan:#?}");
    let nowhere = Wish { spared: vec![1, 77], ..wish(Objective::Throughput) };
    let error = plan_of(&base(), &nowhere).unwrap_err().to_string();
    assert_eq!(error, "CPU 77 is not online: 0-15 are");
}

/// The plan makes the device hash the ports of UDP, too, unless fragments arrive, which have no ports.
#[test]
fn ports_are_hashed() {
    let host = base().nic("eth0", "/hash_fields", json!({ "tcp4": "sdfn", "udp4": "sd", "udp6": "vsd" }));
    let set = ["eth0 hashed fields udp4: sd -> sdfn", "eth0 hashed fields udp6: vsd -> vsdfn"];
    assert_eq!(steps(&planned(&host, &wish(Objective::Throughput))), set);
    let snmp = "Ip: ReasmReqds FragFails FragCreates\nIp: 7 0 0\n";
    let plan = planned(&host.file("proc/net/snmp", snmp), &wish(Objective::Throughput));
    assert_eq!(steps(&plan), [""; 0]);
    let note = plan.notes.iter().find(|note| note.contains("7 fragments")).expect("a note");
    assert!(note.contains("tune set hash-udp4=sdfn --if eth0"), "{note}");
}

/// Interrupts for both directions of a queue cannot be spread: the plan says so.
#[test]
fn what_spread_cannot_part_is_said() {
    let spread = Wish { design: Some(Design::Spread), ..wish(Objective::Throughput) };
    let plan = planned(&base(), &spread);
    assert!(plan.notes.iter().any(|note| note.contains("spread cannot separate them")), "{:?}", plan.notes);
}
