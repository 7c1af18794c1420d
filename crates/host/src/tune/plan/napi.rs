//! Steps at NAPI instances: deferral of interrupts, suspension, and threads.
//!
//! A sysfs file sets all instances of a device at once and is used if their values agree with it. Otherwise, or if
//! there is no such file, each instance is set by netlink, so that an undo restores each instance's own value.

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
/// Longest time without interrupts if a busy-polling application hangs (ns): the value in the kernel's own measurements
/// of the suspension (commit message of net: Add napi_struct parameter irq_suspend_timeout).
const SUSPEND_NS: u32 = 20_000_000;

/// Proposes how long an instance keeps its interrupt masked after an empty poll.
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

/// Proposes that interrupts stay off while an application that requests it (SO_PREFER_BUSY_POLL with epoll) receives
/// packets.
pub(super) fn suspension(draft: &mut Draft<'_>, port: &Port) {
    let all_zero = instances(&port.nic).all(|(_, napi)| napi.figure(NapiKey::IrqSuspendTimeout) == Some(0));
    if draft.wants(Objective::Cpu) && port.nic.is_physical() && all_zero {
        let reason =
            "no interrupts while an application busy polls with epoll and SO_PREFER_BUSY_POLL; others see no change";
        propose(draft, port, NapiKey::IrqSuspendTimeout, SUSPEND_NS, reason, SUSPENSION);
    }
}

/// Proposes polling without threads, as a thread costs a wake-up per poll; threads that never sleep (2) are left on if
/// the objective is latency.
pub(super) fn threads(draft: &mut Draft<'_>, port: &Port) {
    let spinning = instances(&port.nic).any(|(_, napi)| napi.figure(NapiKey::Threaded) == Some(2));
    if !port.nic.is_physical() || draft.wants(Objective::Throughput) || (draft.wants(Objective::Latency) && spinning) {
        return;
    }
    let reason = "a thread that polls has to be woken and scheduled first; the softirq runs at once";
    propose(draft, port, NapiKey::Threaded, 0, reason, THREADED);
}

/// The instances that serve receive queues, with their position; all instances if the driver does not report which of
/// them do.
fn instances(nic: &Nic) -> impl Iterator<Item = (usize, &Napi)> {
    let receives = |napi: &Napi| nic.queues.iter().any(|queue| queue.receive && queue.napi_id == Some(napi.id));
    let known = nic.napis.iter().any(receives);
    nic.napis.iter().enumerate().filter(move |(_, napi)| !known || receives(napi))
}

fn propose(draft: &mut Draft<'_>, port: &Port, key: NapiKey, wanted: u32, reason: &str, source: &str) {
    for (setting, old) in settings(&port.nic, key) {
        draft.propose(setting, &old, &wanted.to_string(), reason, source);
    }
}

/// Settings that set a key on all instances that receive, with their present values; empty if the kernel does not
/// report the key.
pub(in crate::tune) fn settings(nic: &Nic, key: NapiKey) -> Vec<(Setting, String)> {
    let name = &nic.name;
    let file = key.file().and_then(|file| Some((file, *nic.napi_settings.get(file)?)));
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
