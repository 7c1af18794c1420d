//! A real veth in namespaces that the test makes, and plans for it.

use netcliff_core::inspection::Objective;
use netcliff_host::{
    journal::{HostLock, StateDir},
    setting::{Group, Setting},
    testbed::netns::{Reception, Testbed, TestbedOptions},
    tune::{Plan, Step},
};
use netcliff_testkit::{Need, has};

/// A veth with two queues in a namespace of its own; None, told on the terminal, without the rights.
pub fn bed() -> Option<(tempfile::TempDir, HostLock, Testbed)> {
    if !has(Need::Netns) {
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    let lock = HostLock::acquire(&StateDir::at(dir.path()).unwrap()).unwrap();
    let options = TestbedOptions { queues: 2, reception: Reception::Napi, ..TestbedOptions::default() };
    let testbed = Testbed::create(&lock, options).unwrap();
    Some((dir, lock, testbed))
}

pub fn queue_file(name: &str) -> Setting {
    Setting::file(format!("/sys/class/net/veth1/queues/{name}"))
}

pub fn mtu() -> Setting {
    Setting::Mtu { interface: "veth1".into() }
}

pub fn offload(name: &str) -> Setting {
    Setting::Ethtool { interface: "veth1".into(), group: Group::Features, key: name.into() }
}

/// Steps from what is in force to these values.
pub fn plan_of(settings: &[(Setting, &str)]) -> Plan {
    let step = |(setting, new): &(Setting, &str)| {
        Step::new(setting.clone(), &setting.read().unwrap_or_default(), new, "a test", "none")
    };
    let steps = settings.iter().map(step).collect();
    Plan { objective: Objective::Cpu, machine: Default::default(), steps, notes: Vec::new() }
}

pub fn values(settings: &[(Setting, &str)]) -> Vec<String> {
    settings.iter().map(|(setting, _)| setting.read().unwrap()).collect()
}
