//! Compares the reported scheme of a device with what its driver does.

use super::*;

fn nic(driver: &str, coalesce: &[(&str, u32)]) -> Nic {
    Nic {
        name: "eth0".to_owned(),
        driver: Some(driver.to_owned()),
        bus: Some("0000:01:00.0".to_owned()),
        coalesce: coalesce.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
        ..Nic::default()
    }
}

/// The scheme's text without the kernel's settings, or the reason if there is no scheme.
fn told(nic: &Nic) -> Result<String, String> {
    let AsNapi { napi, lacks, .. } = nic.napi_scheme(&Napi::default());
    let text = netcliff_core::Scheme::Napi(napi).record();
    let own = text.strip_prefix("napi:weight=64,budget=300,budget_time=2ms").expect(&text).trim_start_matches(',');
    lacks.map_or_else(|| Ok(own.to_owned()), Err)
}

#[test]
fn what_each_driver_means_by_its_delay() {
    for (driver, coalesce, means) in [
        ("e1000", &[("rx-usecs", 50)][..], "min_gap=50us"),
        ("e1000e", &[("rx-usecs", 50)], "min_gap=50us"),
        ("igb", &[("rx-usecs", 10), ("tx-usecs", 10)], "min_gap=10us"),
        ("igb", &[("rx-usecs", 0), ("tx-usecs", 0)], ""),
        ("igc", &[("rx-usecs", 20)], "min_gap=20us"),
        ("ixgbe", &[("rx-usecs", 25), ("rx-frames", 0), ("adaptive-rx", 0)], "min_gap=25us"),
        ("i40e", &[("rx-usecs", 50), ("adaptive-rx", 0), ("rx-usecs-high", 0)], "min_gap=50us"),
        ("i40e", &[("rx-usecs", 10), ("adaptive-rx", 0), ("rx-usecs-high", 60)], "min_gap=60us"),
        ("ice", &[("rx-usecs", 50), ("adaptive-rx", 0), ("rx-usecs-high", 236)], "min_gap=236us"),
        ("virtio_net", &[("rx-usecs", 0), ("rx-frames", 1), ("adaptive-rx", 0)], ""),
        ("virtio_net", &[("rx-usecs", 50), ("rx-frames", 8), ("adaptive-rx", 0)], "rx_frames=8,rx_usecs=50us"),
        ("vmxnet3", &[("rx-usecs", 250), ("rx-frames", 0), ("adaptive-rx", 0)], "min_gap=250us"),
        ("vmxnet3", &[("rx-usecs", 0), ("rx-frames", 64), ("adaptive-rx", 0)], "rx_frames=64,rx_usecs=4ms"),
        ("mlx5_core", &[("rx-usecs", 8), ("rx-frames", 128), ("adaptive-rx", 0)], "rx_frames=128,rx_usecs=8us"),
        (
            "mlx5_core",
            &[("rx-usecs", 8), ("rx-frames", 128), ("adaptive-rx", 0), ("cqe-mode-rx", 1)],
            "rx_frames=128,packet_timer=8us",
        ),
        ("mlx5_core", &[("rx-usecs", 8), ("rx-frames", 1), ("adaptive-rx", 0)], ""),
        ("ena", &[("rx-usecs", 20), ("adaptive-rx", 0)], "rx_usecs=20us"),
        ("tg3", &[("rx-usecs", 20), ("rx-frames", 5)], "rx_frames=5,rx_usecs=20us"),
    ] {
        assert_eq!(told(&nic(driver, coalesce)), Ok(means.to_owned()), "{driver} {coalesce:?}");
    }
}

/// QEMU's e1000 and e1000e interrupt at most 7813 times per second, whatever the driver sets. Up to QEMU 10.0, igb
/// waits four times the requested time.
#[test]
fn qemus_devices_keep_a_gap_of_their_own() {
    for (driver, version, us, means) in [
        ("e1000", (7, 2), 0, "min_gap=128us"),
        ("e1000e", (7, 2), 50, "min_gap=128us,gap=direct"),
        ("e1000e", (10, 0), 250, "min_gap=250us,gap=direct"),
        ("e1000e", (10, 1), 250, "min_gap=250us"),
        ("igb", (10, 0), 0, "min_gap=4.096us,gap=echo"),
        ("igb", (10, 0), 50, "min_gap=204.8us,gap=echo"),
        ("igb", (10, 1), 50, "min_gap=50us"),
        ("vmxnet3", (10, 0), 0, "gap=reopened"),
    ] {
        let emulated = Nic { qemu: Some(version), ..nic(driver, &[("rx-usecs", us)]) };
        assert_eq!(told(&emulated), Ok(means.to_owned()), "{driver} {version:?} {us}");
        let AsNapi { napi, beside, .. } = emulated.napi_scheme(&Napi::default());
        let has_quirk = means.contains(",gap=") || means.starts_with("gap=");
        let is_named =
            beside.is_some_and(|text| text.contains(&format!("QEMU's {driver} interrupts, as no hardware does")));
        assert_eq!(is_named, has_quirk, "{driver} {version:?} {us}");
        let written = netcliff_core::Scheme::Napi(napi).to_string();
        assert!(written.parse::<netcliff_core::Scheme>().is_ok(), "what is printed can be pasted: {written}");
    }
}

/// Timers that the drivers do not report, as QEMU implements them.
#[test]
fn timers_that_the_module_was_given() {
    for (driver, given, means) in [
        ("e1000", &[("InterruptThrottleRate", 0)][..], "min_gap=128us"),
        ("e1000", &[("InterruptThrottleRate", 4000), ("RxIntDelay", 0), ("RxAbsIntDelay", 125)], "min_gap=250us"),
        ("e1000", &[("InterruptThrottleRate", 1000), ("RxIntDelay", 32), ("RxAbsIntDelay", 250)], "min_gap=256us"),
        ("e1000", &[("InterruptThrottleRate", 0), ("RxIntDelay", 32)], "min_gap=128us"),
        ("e1000e", &[("RxIntDelay", 125), ("RxAbsIntDelay", 250)], "min_gap=128us,gap=direct"),
        (
            "e1000e",
            &[("IntMode", 1), ("RxIntDelay", 125), ("RxAbsIntDelay", 250)],
            "rx_usecs=256us,packet_timer=128us,min_gap=128us,gap=latched",
        ),
        ("e1000e", &[("IntMode", 1), ("RxIntDelay", 0), ("RxAbsIntDelay", 250)], "min_gap=128us,gap=latched"),
    ] {
        let reported: &[(&str, u32)] = if driver == "e1000" { &[] } else { &[("rx-usecs", 0)] };
        let parameters = given.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        let emulated = Nic { qemu: Some((7, 2)), parameters, ..nic(driver, reported) };
        assert_eq!(told(&emulated), Ok(means.to_owned()), "{driver} {given:?}");
    }
}

/// Every delay is printed exactly as set, so that the scheme can be copied.
#[test]
fn delays_are_printed_as_set() {
    for us in 1..=10_000 {
        let text = told(&nic("i40e", &[("rx-usecs", us)])).unwrap();
        assert!(text.trim_end_matches(|c: char| !c.is_ascii_digit()).len() <= "min_gap=9.999".len(), "{us}: {text}");
    }
}

#[test]
fn what_no_times_and_counts_say() {
    for (driver, coalesce, why) in [
        ("e1000", &[][..], "82545 and later only"),
        ("vmxnet3", &[], "its hypervisor decides"),
        ("8139cp", &[], "reports no coalescing"),
        ("e1000e", &[("rx-usecs", 3)], "rx-usecs 3 is e1000e's word"),
        ("e1000e", &[("rx-usecs", 4)], "rx-usecs 4 is e1000e's word"),
        ("igb", &[("rx-usecs", 1)], "rx-usecs 1 is igb's word"),
        ("igc", &[("rx-usecs", 3)], "rx-usecs 3 is igc's word"),
        ("igbvf", &[("rx-usecs", 2)], "rx-usecs 2 is igbvf's word"),
        ("ixgbe", &[("rx-usecs", 1)], "rx-usecs 1 is ixgbe's word"),
        ("i40e", &[("rx-usecs", 50), ("adaptive-rx", 1)], "follows the load"),
        ("ice", &[("rx-usecs", 50), ("adaptive-rx", 1)], "follows the load"),
        ("mlx5_core", &[("rx-usecs", 8), ("rx-frames", 128), ("adaptive-rx", 1)], "--scheme dim comes"),
        ("mlx5_core", &[("rx-usecs", 8), ("adaptive-rx", 1), ("cqe-mode-rx", 1)], "--scheme dim:profile=cqe comes"),
        ("ena", &[("rx-usecs", 0), ("adaptive-rx", 1)], "--scheme dim comes"),
        ("virtio_net", &[("rx-usecs", 0), ("rx-frames", 0), ("adaptive-rx", 1)], "--scheme dim comes"),
        ("vmxnet3", &[("rx-usecs", 0), ("rx-frames", 0), ("adaptive-rx", 1)], "follows the load"),
        ("tg3", &[("rx-usecs", 0), ("rx-frames", 5)], "last packets of a burst"),
    ] {
        let said = told(&nic(driver, coalesce)).expect_err(driver);
        assert!(said.contains(why), "{driver} {coalesce:?}: {said}");
    }
    for scheme in ["dim", "dim:profile=cqe"] {
        assert!(scheme.parse::<netcliff_core::Scheme>().is_ok(), "{scheme} is what is recommended");
    }
}

#[test]
fn what_is_not_reported_is_named_beside_the_scheme() {
    let beside = |driver: &str, coalesce: &[(&str, u32)]| nic(driver, coalesce).napi_scheme(&Napi::default()).beside;
    let named = |driver, coalesce, word: &str| beside(driver, coalesce).is_some_and(|text| text.contains(word));
    assert!(named("e1000e", &[("rx-usecs", 50)], "RDTR"));
    assert!(named("e1000", &[("rx-usecs", 50)], "RADV"));
    assert!(named("vmxnet3", &[("rx-usecs", 250)], "rate"));
    assert!(named("tg3", &[("rx-usecs", 20)], "ethtool"));
    assert_eq!(beside("igb", &[("rx-usecs", 50)]), None);
    assert_eq!(beside("mlx5_core", &[("rx-usecs", 50)]), None);
    // No sentence if the reported settings delay nothing, or if no scheme expresses `rx-usecs`.
    assert_eq!(beside("tg3", &[("rx-usecs", 0)]), None);
    assert_eq!(beside("e1000e", &[("rx-usecs", 3)]), None);
}

fn instance(id: u32, deferred: u32, threaded: u32) -> Instance {
    Instance {
        id,
        defer_hard_irqs: Some(deferred),
        gro_flush_timeout_ns: Some(20_000),
        threaded: Some(threaded),
        ..Instance::default()
    }
}

#[test]
fn instances_are_part_of_the_scheme_where_they_agree() {
    let of = |napis: Vec<Instance>| Nic { napis, ..nic("igb", &[("rx-usecs", 50)]) };
    let alike = told(&of(vec![instance(1, 2, 1), instance(2, 2, 1)]));
    assert_eq!(alike, Ok("threaded=true,defer_hard_irqs=2,gro_flush_timeout=20us,min_gap=50us".to_owned()));
    let differ = told(&of(vec![instance(1, 2, 0), instance(2, 0, 0)])).unwrap_err();
    assert_eq!(differ, "its NAPI instances differ in defer-hard-irqs: 0 to 2");
    assert!(told(&of(vec![instance(1, 0, 2)])).unwrap_err().contains("never sleep"));
    // A queue that only transmits is not considered.
    let queue = crate::nic::netdev::Queue { id: 0, receive: true, napi_id: Some(1) };
    let one = Nic { queues: vec![queue], ..of(vec![instance(1, 2, 0), instance(2, 0, 0)]) };
    assert_eq!(told(&one), Ok("defer_hard_irqs=2,gro_flush_timeout=20us,min_gap=50us".to_owned()));
    let file = Nic { napi_settings: [("threaded".to_owned(), 1)].into(), ..of(Vec::new()) };
    assert_eq!(told(&file), Ok("threaded=true,min_gap=50us".to_owned()));
    // Without the timer nothing is deferred, and the scheme would be refused.
    let no_timer = Instance { gro_flush_timeout_ns: Some(0), ..instance(1, 2, 0) };
    assert_eq!(told(&of(vec![no_timer])), Ok("min_gap=50us".to_owned()));
}

#[test]
fn of_the_kernel() {
    let set = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let sysctls = [
        set("net.core.dev_weight", "32"),
        set("net.core.netdev_budget", "600"),
        set("net.core.netdev_budget_usecs", "8000"),
        set("net.core.busy_read", "50"),
        set("net.core.gro_normal_batch", "8"),
    ]
    .into();
    let host = Inventory { sysctls, ..Inventory::default() };
    let text = |backlog| netcliff_core::Scheme::Napi(host.napi(backlog)).to_string();
    assert_eq!(text(true), "napi:weight=32,budget=600,budget_time=8ms,backlog=true");
    assert_eq!(text(false), "napi:weight=64,budget=600,budget_time=8ms,gro_normal_batch=8,busy_poll=true");
    assert_eq!(Inventory::default().napi(false), Napi::default());
}

#[test]
fn steered_packets_are_the_backlogs() {
    let steered = Nic { rps_cpus: vec!["2".to_owned()], ..nic("igb", &[("rx-usecs", 50)]) };
    assert!(steered.uses_backlog() && !nic("igb", &[]).uses_backlog());
    let AsNapi { napi, lacks, beside } = steered.napi_scheme(&Inventory::default().napi(true));
    assert_eq!((napi.moderation, lacks), (Moderation::default(), None));
    assert!(beside.is_some_and(|text| text.contains("RPS")));
}
