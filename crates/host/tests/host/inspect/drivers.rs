//! Tests the values derived from captures of guests in which drivers of real devices ran (docs/drivers.md).

use crate::inspect::common::{Overlay, captured, files};
use netcliff_core::inspection::Objective;
use netcliff_host::{
    inspect::{
        self, Inspection, capture,
        rules::{self, Aim},
    },
    nic::{Nic, moderation::Moderation},
    tune::{
        Wish, plan,
        plan::scheme::{self, Device},
    },
};

/// The features that a virtio device negotiated, one character per feature.
const FEATURES: &str = "sys/class/net/eth0/device/features";

macro_rules! guest {
    ($name:literal) => {
        captured(include_str!(concat!("../../fixtures/", $name, ".tree")))
    };
}

/// The scheme of eth0 as text for `--scheme`; `Err` with the reason if there is no scheme.
fn scheme_of(guest: &Overlay) -> Result<String, String> {
    let host = Inspection::of_capture(guest.lay().path()).unwrap();
    let all = inspect::scheme::of(&host);
    assert!(all.iter().all(|told| told.interface.starts_with("eth")), "hardware only: {all:?}");
    let told = all.into_iter().find(|told| told.interface == "eth0").expect("eth0");
    told.scheme.map(|scheme| scheme.to_string()).ok_or_else(|| told.why.expect("a reason"))
}

/// The inspection of a capture, and the rules that report something for an objective.
fn judged(guest: &Overlay, objective: Objective) -> (Inspection, Vec<String>) {
    let host = Inspection::of_capture(guest.lay().path()).unwrap();
    let remarks = rules::check(&host, &Aim { objective: Some(objective), ..Aim::default() });
    let told = remarks.into_iter().map(|remark| format!("{} {}", remark.rule, remark.interface.unwrap_or_default()));
    (host, told.map(|told| told.trim().to_owned()).collect())
}

/// `rx 0 29, ...`: receive queues with their interrupts.
fn receive_interrupts(host: &Inspection, port: &str) -> Vec<(u32, Option<u32>)> {
    let paths = &host.port(port).unwrap().queues;
    let receive = paths.iter().filter(|path| path.direction == netcliff_host::inspect::Direction::Receive);
    receive.map(|path| (path.queue, path.irq)).collect()
}

/// New values of eth0's coalescing, rings and channels that a plan for an objective proposes.
fn device_steps(host: &Inspection, objective: Objective) -> Vec<String> {
    let wish = Wish { interfaces: vec!["eth0".into()], ..Wish::new(objective) };
    let steps = plan(host, &wish).unwrap().steps.into_iter().map(|step| step.proposal);
    let of_device = steps.filter(|step| step.name.starts_with("eth0 ") && !step.name.contains(" interrupt "));
    of_device.map(|step| format!("{} {}", step.name, step.new)).collect()
}

/// 82576: four receive and four transmit queues with separate interrupts; adaptive by `rx-usecs` 3.
#[test]
fn igb() {
    let (host, told) = judged(&guest!("igb"), Objective::Latency);
    assert_eq!(told, ["coalesce-adaptive eth0", "coalesce-adaptive eth1"]);
    let port = host.port("eth0").unwrap();
    assert!(matches!(port.nic.moderation(), Some(Moderation::Adaptive { word: Some(3), .. })));
    assert_eq!(receive_interrupts(&host, "eth0"), [(0, Some(29)), (1, Some(30)), (2, Some(31)), (3, Some(32))]);
    assert_eq!(port.queue_irqs().count(), 8);
    assert_eq!(port.nic.pcie.map(|slot| (slot.generation, slot.lanes)), Some((1, 1)));
    assert_eq!(device_steps(&host, Objective::Latency), ["eth0 coalesce rx-usecs 10"], "8 us would be refused");
    assert_eq!(device_steps(&host, Objective::Throughput), Vec::<String>::new());
}

/// A paravirtual device: 10 Gbit/s over a PCI Express slot of one lane is not reported as a fault.
#[test]
fn vmxnet3() {
    let (host, told) = judged(&guest!("vmxnet3"), Objective::Throughput);
    assert_eq!(told, Vec::<String>::new());
    assert_eq!(receive_interrupts(&host, "eth0").len(), 4);
    assert!(
        host.port("eth0")
            .unwrap()
            .queue_irqs()
            .all(|irq| irq.direction == Some(netcliff_host::inspect::Direction::Both))
    );
}

/// A device behind a PCI bridge, with one interrupt whose name does not contain a queue.
#[test]
fn e1000() {
    let (host, told) = judged(&guest!("e1000"), Objective::Throughput);
    assert_eq!(told, Vec::<String>::new());
    let irqs: Vec<_> = host.port("eth0").unwrap().queue_irqs().map(|irq| (irq.name.as_str(), irq.queue)).collect();
    assert_eq!(irqs, [("eth0", Some(0))]);
}

/// 82574: separate interrupts for reception and transmission, both of one NAPI instance; adaptive by `rx-usecs` 3.
#[test]
fn e1000e() {
    let (host, told) = judged(&guest!("e1000e"), Objective::Latency);
    assert_eq!(told, ["coalesce-adaptive eth0", "coalesce-adaptive eth1"]);
    let port = host.port("eth0").unwrap();
    assert_eq!(receive_interrupts(&host, "eth0"), [(0, Some(28))]);
    assert_eq!(port.queue_irqs().map(|irq| irq.number).collect::<Vec<_>>(), [28, 29]);
    assert_eq!(port.nic.napis.len(), 1);
    assert_eq!(device_steps(&host, Objective::Latency), ["eth0 coalesce rx-usecs 10"]);
    let (_, told) = judged(&guest!("e1000e"), Objective::Cpu);
    assert_eq!(told, Vec::<String>::new());
}

/// Four queue pairs with RSS. The device has no speed and no adjustable delay: this is reported, and no delay is
/// proposed.
#[test]
fn virtio_net() {
    for objective in [Objective::Latency, Objective::Throughput] {
        let (host, told) = judged(&guest!("virtio_net"), objective);
        assert_eq!(told, Vec::<String>::new());
        assert_eq!(device_steps(&host, objective), Vec::<String>::new());
    }
    let (host, _) = judged(&guest!("virtio_net"), Objective::Latency);
    assert_eq!(receive_interrupts(&host, "eth0"), [(0, Some(29)), (1, Some(31)), (2, Some(33)), (3, Some(35))]);
    let nic = &host.port("eth0").unwrap().nic;
    assert_eq!((nic.speed_mbps, nic.napis.len()), (None, 4));
    assert!(nic.missing.values().any(|why| why.contains("VIRTIO_NET_F_NOTF_COAL")), "{:?}", nic.missing);
}

/// A virtio device without VIRTIO_NET_F_NOTF_COAL refuses delays and counts, although ethtool lists them: only settings
/// of NAPI are proposed.
#[test]
fn virtio_net_without_the_feature_is_set_by_napi_alone() {
    let guest = guest!("virtio_net");
    let steps_of = |guest: &Overlay, scheme: &str| {
        let (host, _) = judged(guest, Objective::Latency);
        let port = host.port("eth0").unwrap();
        let steps = scheme::steps(&scheme.parse().unwrap(), Device::Port(&host, port))?;
        Ok::<Vec<String>, String>(steps.into_iter().map(|step| step.proposal.command).collect())
    };
    for coalescing in ["coalesce:frames=8,masked=true", "coalesce:usecs=50us,masked=true", "dim"] {
        let why = steps_of(&guest, coalescing).unwrap_err();
        assert!(
            why.starts_with("eth0 takes no coalescing settings") && why.contains("VIRTIO_NET_F_NOTF_COAL"),
            "{why}"
        );
        assert!(why.contains("napi_defer_hard_irqs, gro_flush_timeout and threaded"), "{why}");
    }
    for napi in ["napi:defer_hard_irqs=2,gro_flush_timeout=50us", "napi:threaded"] {
        let commands = steps_of(&guest, napi).unwrap();
        assert!(!commands.is_empty() && commands.iter().all(|command| !command.contains("ethtool")), "{commands:?}");
    }
    let bits = |set: usize| (0..128).map(|bit| if bit == set { '1' } else { '0' }).collect::<String>() + "\n";
    let features = |set| guest.without(FEATURES).file(FEATURES, &bits(set));
    let frames = steps_of(&features(53), "coalesce:frames=8,masked=true").unwrap();
    assert!(frames.iter().any(|command| command == "ethtool -C eth0 rx-frames 8"), "{frames:?}");
    assert!(steps_of(&features(52), "coalesce:frames=8,masked=true").is_err());
}

/// As captured, Intel's devices are adaptive, which their drivers report by a special `rx-usecs` or not at all. With a
/// fixed `rx-usecs` the captures have a scheme, and for it `tune plan` proposes nothing.
#[test]
fn captured_devices_in_the_words_of_schemes() {
    let kernel = "napi:weight=64,budget=300,budget_time=";
    for (guest, why) in [
        (guest!("igb"), "rx-usecs 3 is igb's word"),
        (guest!("e1000e"), "rx-usecs 3 is e1000e's word"),
        (guest!("e1000"), "82545 and later only"),
        (guest!("vmxnet3"), "its hypervisor decides"),
    ] {
        let said = scheme_of(&guest).unwrap_err();
        assert!(said.contains(why), "{said}");
    }
    assert!(scheme_of(&guest!("virtio_net")).is_ok_and(|text| text.starts_with(kernel) && !text.contains("rx_")));
    for (name, guest) in [("igb", guest!("igb")), ("e1000e", guest!("e1000e"))] {
        let (mut host, _) = judged(&guest, Objective::Latency);
        let port = host.ports.iter_mut().find(|port| port.nic.name == "eth0").unwrap();
        port.nic.coalesce.insert("rx-usecs".to_owned(), 50);
        let told = inspect::scheme::of(&host).into_iter().find(|told| told.interface == "eth0").unwrap();
        let scheme = told.scheme.expect("a scheme");
        assert!(scheme.to_string().ends_with(",min_gap=50us"), "{name}: {scheme}");
        assert_eq!(told.beside.is_some(), name == "e1000e", "{:?}", told.beside);
        let pasted = scheme.to_string().parse().unwrap();
        let steps = scheme::steps(&pasted, Device::Port(&host, host.port("eth0").unwrap())).unwrap();
        let of_eth0: Vec<_> = steps.iter().filter(|step| step.proposal.name.starts_with("eth0 ")).collect();
        assert!(of_eth0.is_empty(), "{name} works so already: {of_eth0:?}");
    }
}

/// A capture of a complete fixture is equal to the fixture, without missing or additional files.
#[test]
fn fixtures_of_drivers_hold_what_is_read() {
    for guest in [guest!("e1000e"), guest!("virtio_net")] {
        let dir = guest.lay();
        let again = tempfile::tempdir().unwrap();
        capture::write(dir.path(), &capture::answers(dir.path()).unwrap(), again.path()).unwrap();
        let names = |files: &[(String, String)]| files.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        let (before, after) = (files(dir.path()), files(again.path()));
        assert_eq!(names(&before), names(&after));
        for (before, after) in before.iter().zip(&after).filter(|(before, _)| before.0 != capture::ANSWERS) {
            assert_eq!(before, after);
        }
        let macs =
            |dir| capture::answers(dir).unwrap().into_iter().map(|nic| Nic { mac: None, ..nic }).collect::<Vec<_>>();
        assert_eq!(macs(dir.path()), macs(again.path()));
    }
}
