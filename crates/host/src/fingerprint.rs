//! Everything that explains a measured difference, as a [`Fingerprint`]: one flat, ordered map.
//!
//! Keys are dotted paths (`kernel.release`, `nic.veth1.feature.rx-gro`, `sysctl.net.core.netdev_budget`);
//! a fact that could not be measured has no key. Facts that differ from run to run without explaining
//! anything (counters, pids, addresses, load) are left out, so that two runs under the same conditions
//! have equal maps.

use crate::{
    inventory::{self, Inventory},
    nic::{self, Nic},
    testbed::{
        TestbedError,
        netns::{Side, Testbed},
    },
};
use netcliff_core::Fingerprint;
use std::{collections::BTreeMap, net::IpAddr, path::Path};

/// The facts of a host and of the interfaces that take part in a measurement.
pub fn of_host(host: &Inventory, nics: &[Nic]) -> Fingerprint {
    collect(host, nics).into()
}

/// The facts of a host and of the device that has `address` (keys `nic.path`), and of the devices below that one
/// (`nic.path-1`, ...). The keys carry no interface names, so that two hosts can be compared. No device facts if no
/// device has the address.
pub fn of_address(host: &Inventory, address: IpAddr) -> Fingerprint {
    of_path(host, &nic::path::with_address(address, Path::new("/sys")).unwrap_or_default())
}

/// The facts of this host and of the device by which it reaches `peer`, with the keys of [`of_address`]. No device
/// facts if `peer` is this host.
pub fn towards(host: &Inventory, peer: IpAddr) -> Fingerprint {
    match nic::path::source_towards(peer) {
        Ok(source) if source != peer => of_address(host, source),
        _ => of_host(host, &[]),
    }
}

fn of_path(host: &Inventory, nics: &[Nic]) -> Fingerprint {
    let mut facts = collect(host, &[]);
    for (place, nic) in nics.iter().enumerate() {
        let part = if place == 0 { "path".to_owned() } else { format!("path-{place}") };
        facts.add(format!("nic.{part}.name"), Some(&nic.name));
        facts.nic(&part, nic);
    }
    facts.into()
}

fn collect(host: &Inventory, nics: &[Nic]) -> Facts {
    let mut facts = Facts::default();
    facts.cpu(host);
    facts.kernel(host);
    for (name, value) in &host.sysctls {
        facts.add(format!("sysctl.{name}"), Some(value));
    }
    for nic in nics {
        facts.nic(&nic.name, nic);
    }
    facts
}

/// The facts of a measurement in a namespace testbed: the facts of the host, of both ends of the veth pair and of the
/// testbed's reception options, and the sysctls of the host under test's namespace.
///
/// # Errors
/// When a namespace cannot be entered or its links cannot be listed.
pub fn of_testbed(host: &Inventory, testbed: &Testbed) -> Result<Fingerprint, TestbedError> {
    let nic_of = |side| {
        let name = testbed.endpoint(side).interface.clone();
        let nic = testbed.run_in(side, || nic::read(&name, Path::new("/sys")))?;
        nic.map_err(TestbedError::failed(format!("read interface {name}")))
    };
    let nics = [nic_of(Side::Sender)?, nic_of(Side::HostUnderTest)?];
    let mut facts = collect(host, &nics);
    // The sysctls are read again, because the testbed may have changed them. Those of the host under test's namespace
    // come last and replace the host's.
    let host_wide = inventory::sysctls(Path::new("/"));
    let own = testbed.run_in_hut(|| inventory::sysctls(Path::new("/")))?;
    for (name, value) in host_wide.into_iter().chain(own) {
        facts.add(format!("sysctl.{name}"), Some(value));
    }
    let options = testbed.options();
    facts.add("testbed.kind", Some("netns"));
    facts.add("testbed.reception", Some(options.reception));
    facts.add("testbed.reception_cpus", Some(joined(&options.reception_cpus)));
    facts.add("testbed.queues", Some(options.queues));
    Ok(facts.into())
}

#[derive(Default)]
struct Facts(BTreeMap<String, String>);

impl From<Facts> for Fingerprint {
    fn from(Facts(facts): Facts) -> Fingerprint {
        Fingerprint { facts }
    }
}

impl Facts {
    fn add(&mut self, key: impl Into<String>, value: Option<impl ToString>) {
        if let Some(value) = value {
            self.0.insert(key.into(), value.to_string());
        }
    }

    fn cpu(&mut self, host: &Inventory) {
        let cpu = &host.cpu;
        self.add("cpu.model", cpu.model.as_ref());
        self.add("cpu.signature", cpu.signature.as_ref());
        self.add("cpu.microcode", cpu.microcode.as_ref());
        self.add("cpu.online", Some(joined(&cpu.online)));
        let groups: Vec<String> = cpu.smt_siblings.iter().map(|group| joined(group)).collect();
        self.add("cpu.smt_active", cpu.smt_active);
        self.add("cpu.smt_siblings", (!groups.is_empty()).then(|| groups.join(" ")));
        self.add("cpu.packages", cpu.packages);
        for (node, cpus) in &cpu.numa_nodes {
            self.add(format!("cpu.numa.{node}"), Some(cpus));
        }
        self.add("cpu.governor", some_list(&cpu.governors));
        self.add("cpu.frequency_driver", cpu.frequency_driver.as_ref());
        self.add("cpu.frequency_max_hz", cpu.frequency_max_hz);
        self.add("cpu.boost", cpu.boost);
        self.add("cpu.idle.driver", cpu.idle_driver.as_ref());
        self.add("cpu.idle.governor", cpu.idle_governor.as_ref());
        for state in &cpu.idle_states {
            let latency = state.exit_latency_us.map_or_else(|| "?".into(), |us| us.to_string());
            let off = if state.disabled { " off" } else { "" };
            self.add(format!("cpu.idle.state.{}", state.name), Some(format!("{latency}us{off}")));
        }
        for (name, action) in &cpu.mitigations {
            self.add(format!("cpu.mitigation.{name}"), Some(action));
        }
    }

    fn kernel(&mut self, host: &Inventory) {
        let kernel = &host.kernel;
        self.add("kernel.release", kernel.release.as_ref());
        self.add("kernel.version", kernel.version.as_ref());
        self.add("kernel.command_line", kernel.command_line.as_ref());
        self.add("kernel.hz", kernel.hz);
        self.add("kernel.preemption", kernel.preemption.as_ref());
        self.add("kernel.clocksource", kernel.clocksource.as_ref());
        self.add("kernel.isolated_cpus", kernel.isolated_cpus.as_ref());
        self.add("kernel.nohz_full_cpus", kernel.nohz_full_cpus.as_ref());
        self.add("host.hypervisor", host.hypervisor.as_ref());
        self.add("host.memory_total_bytes", host.memory_total_bytes);
        self.add("host.irqbalance", Some(host.load.irqbalance_pid.is_some()));
    }

    fn nic(&mut self, name: &str, nic: &Nic) {
        let key = |fact: &str| format!("nic.{name}.{fact}");
        self.add(key("kind"), nic.kind.as_ref());
        self.add(key("driver"), nic.driver.as_ref());
        self.add(key("driver_version"), nic.driver_version.as_ref());
        self.add(key("firmware"), nic.firmware.as_ref());
        self.add(key("bus"), nic.bus.as_ref());
        self.add(key("numa_node"), nic.numa_node);
        self.add(key("state"), nic.operational_state.as_ref());
        self.add(key("mtu_bytes"), nic.mtu_bytes);
        self.add(key("qdisc"), some_list(&nic.qdiscs));
        self.add(key("txqlen_packets"), nic.txqlen_packets);
        self.add(key("rx_queues"), nic.rx_queues);
        self.add(key("tx_queues"), nic.tx_queues);
        self.add(key("gro_max_bytes"), nic.gro_max_bytes);
        self.add(key("gso_max_bytes"), nic.gso_max_bytes);
        self.add(key("speed_mbps"), nic.speed_mbps);
        self.add(key("duplex"), nic.duplex.as_ref());
        self.add(key("autoneg"), nic.autoneg);
        // The two most important offloads have short keys of their own.
        self.add(key("gro"), nic.feature("rx-gro"));
        self.add(key("tso"), nic.feature("tx-tcp-segmentation"));
        self.map(&key("feature"), &nic.features);
        self.map(&key("coalesce"), &nic.coalesce);
        self.map(&key("ring"), &nic.rings);
        self.map(&key("channels"), &nic.channels);
        self.map(&key("pause"), &nic.pause);
        self.map(&key("napi"), &nic.napi_settings);
        self.map(&key("irq_affinity"), &nic.irq_affinity);
        self.add(key("rps_cpus"), some_list(&nic.rps_cpus));
        if let Some(rss) = &nic.rss {
            self.add(key("rss.hash_function"), rss.hash_function);
            self.add(key("rss.indirection"), some_list(&rss.indirection));
        }
    }

    fn map<K: ToString, V: ToString>(&mut self, prefix: &str, map: &BTreeMap<K, V>) {
        for (name, value) in map {
            self.add(format!("{prefix}.{}", name.to_string()), Some(value.to_string()));
        }
    }
}

fn joined<T: ToString>(items: &[T]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn some_list<T: ToString>(items: &[T]) -> Option<String> {
    (!items.is_empty()).then(|| joined(items))
}

/// Most facts that the sentence of [`changed_meanwhile`] names.
const NAMED: usize = 5;

/// A sentence that lists which conditions changed between the two fingerprints; `None` if nothing changed.
pub fn changed_meanwhile(before: &Fingerprint, now: &Fingerprint) -> Option<String> {
    let changed = before.diff(now);
    let shown = |(name, from, to): &(&str, Option<&str>, Option<&str>)| {
        format!("{name}: {} -> {}", from.unwrap_or("none"), to.unwrap_or("none"))
    };
    let named: Vec<String> = changed.iter().take(NAMED).map(shown).collect();
    let more = match changed.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let why = "the host is not as it was when the run began, so that its repeats may differ";
    (!changed.is_empty()).then(|| format!("{why}: {}{more}", named.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> Inventory {
        let mut host = Inventory::default();
        host.kernel.release = Some("6.18.0".into());
        host.cpu.online = vec![0, 1];
        host.sysctls.insert("net.core.netdev_budget".into(), "300".into());
        host
    }

    fn veth() -> Nic {
        let mut nic = Nic { name: "veth1".into(), index: 7, ..Nic::default() };
        nic.features.insert("rx-gro".into(), false);
        nic.coalesce.insert("rx-usecs".into(), 20);
        nic.qdiscs = vec!["noqueue".into()];
        nic
    }

    #[test]
    fn keys_are_dotted_and_absent_facts_have_none() {
        let facts = of_host(&host(), &[veth()]).facts;
        for (key, value) in [
            ("kernel.release", "6.18.0"),
            ("cpu.online", "0,1"),
            ("sysctl.net.core.netdev_budget", "300"),
            ("nic.veth1.gro", "false"),
            ("nic.veth1.feature.rx-gro", "false"),
            ("nic.veth1.coalesce.rx-usecs", "20"),
            ("nic.veth1.qdisc", "noqueue"),
        ] {
            assert_eq!(facts.get(key).map(String::as_str), Some(value), "{key}");
        }
        assert!(!facts.contains_key("nic.veth1.speed_mbps"));
        assert!(facts.values().all(|value| !value.is_empty()), "{facts:#?}");
    }

    #[test]
    fn devices_of_a_path_are_named_by_their_part() {
        let bond = Nic { name: "bond0".into(), speed_mbps: Some(10_000), ..Nic::default() };
        let facts = of_path(&host(), &[bond, veth()]).facts;
        for (key, value) in [
            ("nic.path.name", "bond0"),
            ("nic.path.speed_mbps", "10000"),
            ("nic.path-1.name", "veth1"),
            ("nic.path-1.gro", "false"),
        ] {
            assert_eq!(facts.get(key).map(String::as_str), Some(value), "{key}");
        }
        assert!(!facts.keys().any(|key| key.starts_with("nic.bond0")));
        // A host reaches its own address through no device.
        let own = towards(&host(), [127, 0, 0, 1].into());
        assert_eq!(own, of_host(&host(), &[]));
    }

    #[test]
    fn what_explains_nothing_is_left_out() {
        let (mut other, mut nic) = (host(), veth());
        other.load.average = Some([9.0; 3]);
        other.memory_available_bytes = Some(1);
        nic.index = 99;
        nic.mac = Some("02:00:00:00:00:01".into());
        assert_eq!(of_host(&host(), &[veth()]), of_host(&other, &[nic]));
    }

    fn facts(pairs: &[(&str, &str)]) -> Fingerprint {
        Fingerprint { facts: pairs.iter().map(|(name, fact)| ((*name).to_owned(), (*fact).to_owned())).collect() }
    }

    #[test]
    fn what_changed_meanwhile_is_named() {
        let before = facts(&[("kernel.release", "6.1"), ("cpu.governor", "powersave")]);
        assert_eq!(changed_meanwhile(&before, &before), None);
        let said = changed_meanwhile(&before, &facts(&[("kernel.release", "6.18")])).expect("two facts");
        assert!(
            said.contains("kernel.release: 6.1 -> 6.18") && said.contains("cpu.governor: powersave -> none"),
            "{said}"
        );
        let names: Vec<String> = (0..NAMED + 2).map(|fact| format!("sysctl.{fact}")).collect();
        let many: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "1")).collect();
        let said = changed_meanwhile(&facts(&[]), &facts(&many)).expect("seven facts");
        assert!(said.ends_with("and 2 more"), "{said}");
    }
}
