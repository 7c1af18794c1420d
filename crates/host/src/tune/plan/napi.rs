//! Steps at NAPI instances: when polling ends, and who polls.
//!
//! A file of sysfs sets all instances of a device at once and is used where they agree with it. Where they do not, or where
//! there is no such file, each instance is set by netlink, so that an undo gives each its own value back.

use super::Draft;
use crate::{
    inspect::Port,
    nic::{
        Nic,
        netdev::{Napi, NapiKey},
    },
    setting::Setting,
};
use netcliff_core::inspection::Objective;

const COALESCING: &str = "Documentation/networking/napi.rst, Software IRQ coalescing";
const SUSPENSION: &str = "Documentation/networking/napi.rst, IRQ suspension";
const THREADED: &str = "Documentation/networking/napi.rst, Threaded NAPI";
/// Interrupts come back after this long at the latest when a busy-polling application hangs (ns): the value with which the
/// kernel's own measurements of the suspension were made (commit message of net: Add napi_struct parameter
/// irq_suspend_timeout).
const SUSPEND_NS: u32 = 20_000_000;

/// How long an instance keeps its interrupt masked after an empty poll.
pub(super) fn deferral(draft: &mut Draft<'_>, port: &Port) {
    if !port.nic.is_physical() {
        return;
    }
    let (polls, timeout_ns, reason) = match draft.wish.objective {
        Objective::Cpu => (2, 50_000, "the next packets are polled by timer instead of each raising an interrupt"),
        Objective::Latency => (0, 0, "a packet that arrives after an empty poll must not wait for a timer"),
        Objective::Throughput => return,
    };
    propose(draft, port, NapiKey::DeferHardIrqs, polls, reason, COALESCING);
    propose(draft, port, NapiKey::GroFlushTimeout, timeout_ns, reason, COALESCING);
}

/// Interrupts stay off while an application that asked for it (SO_PREFER_BUSY_POLL with epoll) finds packets.
pub(super) fn suspension(draft: &mut Draft<'_>, port: &Port) {
    let all_zero = instances(&port.nic).all(|(_, napi)| napi.figure(NapiKey::IrqSuspendTimeout) == Some(0));
    if draft.wants(Objective::Cpu) && port.nic.is_physical() && all_zero {
        let reason =
            "no interrupts while an application busy polls with epoll and SO_PREFER_BUSY_POLL; others see no change";
        propose(draft, port, NapiKey::IrqSuspendTimeout, SUSPEND_NS, reason, SUSPENSION);
    }
}

/// Threads that poll cost a wake-up each time; those that never sleep (2) are left where latency is wanted.
pub(super) fn threads(draft: &mut Draft<'_>, port: &Port) {
    let spinning = instances(&port.nic).any(|(_, napi)| napi.figure(NapiKey::Threaded) == Some(2));
    if !port.nic.is_physical() || draft.wants(Objective::Throughput) || (draft.wants(Objective::Latency) && spinning) {
        return;
    }
    let reason = "a thread that polls has to be woken and scheduled first; the softirq runs at once";
    propose(draft, port, NapiKey::Threaded, 0, reason, THREADED);
}

/// The instances that serve receive queues, with their place; all where the driver does not report.
fn instances(nic: &Nic) -> impl Iterator<Item = (usize, &Napi)> {
    let receives = |napi: &Napi| nic.queues.iter().any(|queue| queue.receive && queue.napi_id == Some(napi.id));
    let told = nic.napis.iter().any(receives);
    nic.napis.iter().enumerate().filter(move |(_, napi)| !told || receives(napi))
}

/// The file of sysfs that sets all instances.
pub(in crate::tune) fn file_of(key: NapiKey) -> Option<&'static str> {
    match key {
        NapiKey::DeferHardIrqs => Some("napi_defer_hard_irqs"),
        NapiKey::GroFlushTimeout => Some("gro_flush_timeout"),
        NapiKey::Threaded => Some("threaded"),
        NapiKey::IrqSuspendTimeout => None,
    }
}

fn propose(draft: &mut Draft<'_>, port: &Port, key: NapiKey, wanted: u32, reason: &str, source: &str) {
    for (setting, old) in settings(&port.nic, key) {
        draft.propose(setting, &old, &wanted.to_string(), reason, source);
    }
}

/// What sets a key on all instances that receive, each with the value in force; nothing where the kernel does not report it.
pub(in crate::tune) fn settings(nic: &Nic, key: NapiKey) -> Vec<(Setting, String)> {
    let name = &nic.name;
    let file = file_of(key).and_then(|file| Some((file, *nic.napi_settings.get(file)?)));
    let own = |napi: &Napi| napi.figure(key).map(u64::from);
    if let Some((file, old)) = file
        && instances(nic).all(|(_, napi)| own(napi).is_none_or(|value| value == old))
    {
        return vec![(Setting::file(format!("/sys/class/net/{name}/{file}")), old.to_string())];
    }
    let of_one = |(place, napi): (usize, &Napi)| {
        Some((Setting::Napi { interface: name.clone(), place, key }, own(napi)?.to_string()))
    };
    instances(nic).filter_map(of_one).collect()
}
