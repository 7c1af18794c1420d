use super::*;
use crate::nic::Nic;
use std::collections::BTreeMap;

fn port(driver: &str, coalesce: &[(&str, u32)]) -> Port {
    let coalesce: BTreeMap<String, u32> = coalesce.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect();
    let napi_settings = [("napi_defer_hard_irqs", 0), ("gro_flush_timeout", 0), ("threaded", 0)];
    let nic = Nic {
        name: "eth0".to_owned(),
        driver: Some(driver.to_owned()),
        bus: Some("0000:18:00.0".to_owned()),
        coalesce,
        napi_settings: napi_settings.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect(),
        ..Nic::default()
    };
    Port { nic, ..Port::default() }
}

fn commands(scheme: &str, device: Device<'_>) -> Result<Vec<String>, String> {
    let steps = steps(&scheme.parse().unwrap(), device)?;
    Ok(steps.into_iter().map(|step| step.proposal.command).collect())
}

fn on(port: &Port, scheme: &str) -> Result<Vec<String>, String> {
    commands(scheme, Device::Port(&Inspection::default(), port))
}

#[test]
fn what_linux_has_becomes_commands() {
    let mlx = port("mlx5_core", &[("rx-usecs", 8), ("rx-frames", 128), ("adaptive-rx", 1), ("cqe-mode-rx", 0)]);
    for (scheme, wanted) in [
        (
            "napi:defer_hard_irqs=2,gro_flush_timeout=50us",
            &[
                "ethtool -C eth0 adaptive-rx off",
                "ethtool -C eth0 rx-usecs 0",
                "ethtool -C eth0 rx-frames 1",
                "echo 2 > /sys/class/net/eth0/napi_defer_hard_irqs",
                "echo 50000 > /sys/class/net/eth0/gro_flush_timeout",
            ][..],
        ),
        (
            "coalesce:frames=8,usecs=50us,masked=true",
            &["ethtool -C eth0 adaptive-rx off", "ethtool -C eth0 rx-usecs 50", "ethtool -C eth0 rx-frames 8"],
        ),
        ("dim", &[]),
        ("dim:profile=cqe", &["ethtool -C eth0 cqe-mode-rx on"]),
    ] {
        assert_eq!(on(&mlx, scheme).unwrap(), wanted, "{scheme}");
    }
    let threaded = on(&mlx, "napi:threaded,busy_poll,budget=600").unwrap();
    for command in [
        "sysctl -w net.core.netdev_budget=600",
        "echo 1 > /sys/class/net/eth0/threaded",
        "sysctl -w net.core.busy_read=50",
    ] {
        assert!(threaded.iter().any(|one| one == command), "{command}: {threaded:?}");
    }
}

#[test]
fn what_no_driver_offers_is_said() {
    let mlx = port("mlx5_core", &[("rx-usecs", 8), ("adaptive-rx", 1)]);
    for (scheme, part) in [
        ("interrupt", "napi comes closest"),
        ("disable-enable", "napi comes closest"),
        ("polling", "by a timer"),
        ("hybrid", "by a timer"),
        ("napi-2007", "by a timer"),
        ("soft-timers", "by a timer"),
        ("freebsd-polling", "FreeBSD"),
        ("coalesce:usecs=50us,masked=true,free_timer=true", "free_timer=false"),
        ("napi:weight=16", "64 packets"),
        ("coalesce:usecs=50us", "masked=true"),
        ("coalesce:packet_timer=10us,masked=true", "no timer"),
        ("coalesce:min_gap=50us,masked=true", "no smallest gap"),
        ("coalesce:frames=8,masked=true", "no rx-frames"),
        ("dim:profile=cqe", "cqe-mode-rx"),
    ] {
        let why = on(&mlx, scheme).unwrap_err();
        assert!(why.contains(part), "{scheme}: {why}");
    }
    let veth = Port { nic: Nic { kind: Some("veth".to_owned()), bus: None, ..mlx.nic.clone() }, ..mlx.clone() };
    for scheme in ["coalesce:frames=8,masked=true", "dim", "napi:threaded"] {
        assert!(on(&veth, scheme).unwrap_err().contains("no hardware"), "{scheme}");
    }
    assert_eq!(on(&veth, "napi:weight=16").unwrap(), ["sysctl -w net.core.dev_weight=16"]);
}

/// `rx-usecs` is the shortest time between interrupts for Intel's drivers and a timer for all others. Intel's drivers
/// accept no delay whose value selects an adaptive mode.
#[test]
fn a_delay_is_what_the_driver_means_by_it() {
    let intel = port("igb", &[("rx-usecs", 3)]);
    assert_eq!(on(&intel, "coalesce:min_gap=50us,masked=true").unwrap(), ["ethtool -C eth0 rx-usecs 50"]);
    assert!(on(&intel, "coalesce:usecs=50us,masked=true").unwrap_err().contains("min_gap"));
    assert!(on(&intel, "coalesce:min_gap=3us,masked=true").unwrap_err().contains("10 us"));
}

/// Moderation in front of NAPI is set like that of `coalesce`, and NAPI's own settings in addition.
#[test]
fn moderation_in_front_of_napi_is_set_with_it() {
    let intel = port("igb", &[("rx-usecs", 3)]);
    assert_eq!(on(&intel, "napi:min_gap=50us").unwrap(), ["ethtool -C eth0 rx-usecs 50"]);
    for (scheme, part) in
        [("napi:rx_usecs=50us", "min_gap"), ("napi:min_gap=3us", "10 us"), ("napi:packet_timer=9us", "each packet")]
    {
        let why = on(&intel, scheme).unwrap_err();
        assert!(why.contains(part), "{scheme}: {why}");
    }
    let any = |scheme: &str| commands(scheme, Device::Any("DEV")).unwrap();
    let both = any("napi:rx_usecs=20us,rx_frames=8,threaded");
    assert!(both.iter().any(|command| command == "ethtool -C DEV rx-usecs 20"), "{both:?}");
    assert!(both.iter().any(|command| command == "ethtool -C DEV rx-frames 8"), "{both:?}");
    assert!(both.last().unwrap().contains("threaded"), "{both:?}");
}

/// The kernel's times have 32 bits: a larger one is refused and not truncated.
#[test]
fn a_time_that_the_kernel_has_no_bits_for_is_refused() {
    let any = |scheme: &str| commands(scheme, Device::Any("DEV"));
    let mlx = port("mlx5_core", &[("rx-usecs", 8), ("rx-frames", 128), ("adaptive-rx", 0)]);
    for (scheme, part) in [
        ("napi:busy_poll,irq_suspend_timeout=5s", "irq_suspend_timeout 5s is longer"),
        ("napi:defer_hard_irqs=2,gro_flush_timeout=5s", "gro_flush_timeout 5s is longer"),
        // A time above 2^32 us, which truncated to 32 bits would be 1 us.
        ("coalesce:usecs=4294.967297s,masked=true", "rx-usecs 4294.967297s is longer"),
    ] {
        for why in [any(scheme).unwrap_err(), on(&mlx, scheme).unwrap_err()] {
            assert!(why.contains(part) && why.contains("at most 4"), "{scheme}: {why}");
        }
    }
    let longest = any("napi:busy_poll,irq_suspend_timeout=4294967295ns").unwrap();
    assert!(longest.last().unwrap().contains("4294967295"), "{longest:?}");
}

#[test]
fn without_a_device_the_commands_name_a_placeholder() {
    let any = |scheme: &str| commands(scheme, Device::Any("DEV"));
    assert_eq!(
        any("coalesce:frames=8,masked=true").unwrap(),
        ["ethtool -C DEV adaptive-rx off", "ethtool -C DEV rx-usecs 0", "ethtool -C DEV rx-frames 8"]
    );
    assert_eq!(any("napi:threaded").unwrap().last().unwrap(), "echo 1 > /sys/class/net/DEV/threaded");
    assert!(any("coalesce:min_gap=9us,masked=true").unwrap_err().contains("--if"));
}
