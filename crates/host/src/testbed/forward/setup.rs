//! Sets up links, addresses and forwarding.

use std::{fs, io};

use super::{ForwardOptions, Forwarding, Nets, Side, nets, nft, routed_interface, router_interface};
use crate::{
    inventory::Limitation,
    nic::ethtool,
    procfs,
    rtnl::{Rtnl, VethEnd},
    testbed::{
        TestbedError,
        namespace::{Namespace, raw_fd},
    },
};

/// Connects a side with the router and brings both ends up.
pub(super) fn join(
    tester: &Namespace,
    router: &Namespace,
    side: &Side,
    n: usize,
    options: &ForwardOptions,
) -> Result<(), TestbedError> {
    let router_end = router_interface(n);
    let end = |name, mac| VethEnd { name, mac, mtu_bytes: options.mtu_bytes, rx_queues: 1, tx_queues: 1 };
    let (here, there) = (end(side.interface.as_str(), side.mac), end(router_end.as_str(), side.router_mac));
    let there_ns = raw_fd(router.net());
    tester
        .run(|| Rtnl::new().add_veth(&here, &there, there_ns))?
        .map_err(TestbedError::step("create the veth pair"))?;
    for (namespace, name) in [(tester, &side.interface), (router, &router_end)] {
        namespace
            .run(|| -> io::Result<()> {
                quiet();
                // With GRO, veth would receive by NAPI on the sender's CPU.
                ethtool::set_feature(name, c"rx-gro", false)?;
                Rtnl::new().set_up(name)
            })?
            .map_err(TestbedError::step("bring the veth pair up"))?;
    }
    Ok(())
}

/// Suppresses all but measured packets on the links: router solicitations, duplicate address detection. A kernel
/// without IPv6 does not have these files.
fn quiet() {
    for (file, value) in [("accept_dad", "0"), ("router_solicitations", "0"), ("addr_gen_mode", "1")] {
        for scope in ["all", "default"] {
            let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{scope}/{file}"), value);
        }
    }
}

/// Configures RPS: received packets go to the backlog of one CPU. Settings that are not permitted are reported in
/// `limits`.
pub(super) fn steer(
    namespace: &Namespace,
    interface: &str,
    cpu: u32,
    limits: &mut Vec<Limitation>,
) -> Result<(), TestbedError> {
    if let Some(reason) = namespace.sysfs_error() {
        limits.push(Limitation::ReceptionNotSteered { reason: reason.to_owned() });
        return Ok(());
    }
    let file = format!("/sys/class/net/{interface}/queues/rx-0/rps_cpus");
    match namespace.run(|| fs::write(file, procfs::cpu_mask(&[cpu])))? {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            limits.push(Limitation::ReceptionNotSteered { reason: error.to_string() });
            Ok(())
        }
        Err(error) => Err(TestbedError::failed("steer the reception of the veth")(error)),
    }
}

/// Makes the router forward.
pub(super) fn forward(router: &Namespace, sides: &[Side; 2], options: &ForwardOptions) -> Result<(), TestbedError> {
    let step = |what: &str, done: io::Result<()>| done.map_err(TestbedError::failed(what));
    let route = || {
        options.vlan.map_or(Ok(()), |id| tag(id, options.forwarding))?;
        step("set up routing", route(sides, options.vlan))
    };
    router.run(|| match options.forwarding {
        Forwarding::Route => route(),
        Forwarding::Netfilter => {
            route()?;
            step("load netfilter rules (this kernel may lack nf_tables)", nft::filter(options.rules))
        }
        Forwarding::Conntrack => {
            route()?;
            step("load a connection tracking rule (this kernel may lack nf_tables or nft_ct)", nft::track())
        }
        Forwarding::Bridge => step("make a bridge (this kernel may lack it)", bridge(sides)),
        // Set up by `redirect`.
        Forwarding::Xdp | Forwarding::XdpGeneric => Ok(()),
    })?
}

/// Creates the router's interfaces on a VLAN.
fn tag(id: u16, forwarding: Forwarding) -> Result<(), TestbedError> {
    let mut rtnl = Rtnl::new();
    for n in 0..2 {
        let name = routed_interface(n, Some(id));
        let added = rtnl.link(&router_interface(n)).and_then(|port| rtnl.add_vlan(&name, port.index, id));
        match added.and_then(|()| rtnl.set_up(&name)) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                return Err(TestbedError::NoVlan { forwarding });
            }
            other => other.map_err(TestbedError::failed("make the router's VLAN interfaces"))?,
        }
    }
    Ok(())
}

fn route(sides: &[Side; 2], vlan: Option<u16>) -> io::Result<()> {
    fs::write("/proc/sys/net/ipv4/ip_forward", "1")?;
    let ipv6 = fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1").is_ok();
    let mut rtnl = Rtnl::new();
    for (n, side) in sides.iter().enumerate() {
        let index = rtnl.link(&routed_interface(n, vlan))?.index;
        for Nets { net, prefix, router, link_prefix, next_hop } in nets(n) {
            if net.is_ipv6() && !ipv6 {
                continue;
            }
            rtnl.add_address(index, router, link_prefix)?;
            rtnl.add_neighbour(index, next_hop, side.unheard_mac())?;
            rtnl.add_route(index, net, prefix, next_hop)?;
        }
    }
    Ok(())
}

fn bridge(sides: &[Side; 2]) -> io::Result<()> {
    let mut rtnl = Rtnl::new();
    rtnl.add_bridge("br0")?;
    let index = rtnl.link("br0")?.index;
    for (n, side) in sides.iter().enumerate() {
        let port = router_interface(n);
        rtnl.set_master(&port, index)?;
        let port = rtnl.link(&port)?.index;
        rtnl.add_bridge_entry(port, side.unheard_mac())?;
    }
    rtnl.set_up("br0")
}
