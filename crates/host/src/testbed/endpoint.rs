//! One end of the veth pair, and its settings.

use super::{
    TestbedError,
    namespace::Namespace,
    options::{Reception, TestbedOptions},
};
use crate::{
    inventory::Limitation,
    nic::{ethtool, netdev},
    procfs,
    rtnl::Rtnl,
};
use nix::{
    sched::{CpuSet, sched_setaffinity},
    unistd::Pid,
};
use serde::{Deserialize, Serialize};
use std::{
    fs, io,
    net::{Ipv4Addr, Ipv6Addr},
};

/// One end of the veth pair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// Name of the namespace; `ip netns` shows it if this process is the host's root.
    pub namespace: String,
    /// Interface name inside the namespace.
    pub interface: String,
    /// Interface index inside the namespace.
    pub index: u32,
    /// Hardware address.
    pub mac: [u8; 6],
    /// IPv4 address (/24).
    pub ip: Ipv4Addr,
    /// IPv6 address (/64), if requested.
    pub ipv6: Option<Ipv6Addr>,
}

/// Sets addresses and permanent neighbours inside the namespace and brings the interface up. Returns the interface
/// index.
pub(super) fn address(end: &Endpoint, peer: &Endpoint) -> io::Result<u32> {
    match end.ipv6 {
        // Router solicitations and duplicate address detection would be counted as traffic.
        Some(_) => quiet_ipv6(&end.interface)?,
        // A kernel without IPv6 has no such file.
        None => ["all", "default"].iter().for_each(|scope| drop(ipv6_setting(scope, "disable_ipv6", "1"))),
    }
    let mut rtnl = Rtnl::new();
    let index = rtnl.link(&end.interface)?.index;
    rtnl.set_up("lo")?;
    rtnl.set_up(&end.interface)?;
    rtnl.add_address(index, end.ip, 24)?;
    rtnl.add_neighbour(index, peer.ip, peer.mac)?;
    if let (Some(own), Some(other)) = (end.ipv6, peer.ipv6) {
        rtnl.add_address(index, own, 64)?;
        rtnl.add_neighbour(index, other, peer.mac)?;
    }
    Ok(index)
}

fn ipv6_setting(scope: &str, name: &str, value: &str) -> io::Result<()> {
    fs::write(format!("/proc/sys/net/ipv6/conf/{scope}/{name}"), value)
}

/// Configures IPv6 so that the kernel sends no unrequested packets: no link-local address, no duplicate address
/// detection, no router solicitations.
fn quiet_ipv6(interface: &str) -> io::Result<()> {
    let quiet = [("addr_gen_mode", "1"), ("accept_dad", "0"), ("router_solicitations", "0"), ("disable_ipv6", "0")];
    let unable = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => io::Error::new(io::ErrorKind::Unsupported, "this kernel has no IPv6"),
        _ => error,
    };
    // A new namespace may inherit the host's disabled IPv6 (net.core.devconf_inherit_init_net).
    ipv6_setting("lo", "disable_ipv6", "0").map_err(unable)?;
    quiet.iter().try_for_each(|(name, value)| ipv6_setting(interface, name, value)).map_err(unable)
}

/// Configures reception of the host under test; settings that a user namespace does not permit are reported in
/// `limits`.
pub(super) fn reception(
    namespace: &Namespace,
    end: &Endpoint,
    options: &TestbedOptions,
    limits: &mut Vec<Limitation>,
) -> Result<(), TestbedError> {
    let gro = options.reception != Reception::Backlog;
    namespace
        .run(|| ethtool::set_feature(&end.interface, c"rx-gro", gro))?
        .map_err(TestbedError::step("switch GRO of the veth"))?;
    if let Some(reason) = namespace.sysfs_error() {
        limits.push(Limitation::ReceptionNotSteered { reason: reason.to_owned() });
        return Ok(());
    }
    let steered = namespace.run(|| match options.reception {
        Reception::Backlog => steer(end, options.queues, &options.reception_cpus),
        Reception::Napi => Ok(()),
        Reception::ThreadedNapi => thread_napi(&end.interface, &options.reception_cpus).map(drop),
    })?;
    match steered {
        Ok(()) if options.receives_where_it_is_sent() => {
            limits.push(Limitation::ReceptionOnSenderCpu);
        }
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            limits.push(Limitation::ReceptionNotSteered { reason: error.to_string() });
        }
        Err(error) => return Err(TestbedError::failed("steer the reception of the veth")(error)),
    }
    Ok(())
}

/// Configures RPS for the packets that the sender receives (acknowledgements, or the traffic of the other direction),
/// if requested.
pub(super) fn sender_reception(
    namespace: &Namespace,
    end: &Endpoint,
    options: &TestbedOptions,
    limits: &mut Vec<Limitation>,
) -> Result<(), TestbedError> {
    if options.sender_reception_cpus.is_empty() || namespace.sysfs_error().is_some() {
        // Without sysfs, the limit of the host under test reports this already.
        return Ok(());
    }
    match namespace.run(|| steer(end, options.queues, &options.sender_reception_cpus))? {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            limits.push(Limitation::ReceptionNotSteered { reason: error.to_string() });
            Ok(())
        }
        steered => steered.map_err(TestbedError::failed("steer the reception of the sender's veth")),
    }
}

/// Configures RPS: packets of each receive queue go to the backlog of the chosen CPUs.
fn steer(end: &Endpoint, queues: u32, cpus: &[u32]) -> io::Result<()> {
    let mask = procfs::cpu_mask(cpus);
    for queue in 0..queues {
        let file = format!("/sys/class/net/{}/queues/rx-{queue}/rps_cpus", end.interface);
        fs::write(file, &mask)?;
    }
    Ok(())
}

/// Whether a thread is a NAPI thread. The kernel reports the pid of a NAPI thread in the initial PID namespace: in
/// another PID namespace (a container) that pid belongs to no process, or to a different one.
fn is_napi(thread: Pid) -> bool {
    procfs::text(format!("/proc/{thread}/comm")).is_some_and(|name| name.starts_with("napi/"))
}

fn unseen() -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, "the NAPI threads of the veth are not seen from this PID namespace")
}

/// Makes kernel threads on these CPUs poll an interface in place of softirqs (threaded NAPI); returns the threads.
pub(super) fn thread_napi(interface: &str, cpus: &[u32]) -> io::Result<Vec<Pid>> {
    fs::write(format!("/sys/class/net/{interface}/threaded"), "1")?;
    let mut set = CpuSet::new();
    cpus.iter().try_for_each(|cpu| set.set(*cpu as usize))?;
    let napis = netdev::napis(Rtnl::new().link(interface)?.index)?;
    let pids = napis.iter().filter_map(|napi| i32::try_from(napi.thread_pid?).ok().map(Pid::from_raw));
    let threads: Vec<Pid> = pids.collect();
    if threads.is_empty() {
        return Err(io::Error::other("the kernel names no NAPI thread for the veth"));
    }
    threads
        .iter()
        .try_for_each(|thread| if is_napi(*thread) { Ok(sched_setaffinity(*thread, &set)?) } else { Err(unseen()) })?;
    Ok(threads)
}
