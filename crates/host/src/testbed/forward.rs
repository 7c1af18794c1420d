//! A device under test between two sides of a tester: three network namespaces in a row, joined by veth.
//!
//! `generator -- router -- sink`. The real kernel forwards. RPS moves the packets that arrive at the router to the
//! router's CPU, and the packets that arrive at the tester to the tester's CPU, so that the router's CPU does only the
//! router's work. The addresses are reserved for benchmarks by RFC 2544 (198.18.0.0/15) and RFC 5180 (2001:2::/48).
//! Neighbour entries are permanent, so that only measured packets are sent.

mod nft;
mod redirect;
mod setup;
mod tuned;

use std::{
    fmt, fs, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    path::PathBuf,
};

use serde::{Deserialize, Serialize};

use super::{
    Permission, TestbedError,
    namespace::{Namespace, raw_fd},
    netns,
};
use crate::{
    inventory::Limitation,
    journal::{HostLock, Journal, UndoOutcome},
    nic::ethtool,
    procfs,
    rtnl::Rtnl,
    tune::apply::Session,
    xdp::Mode,
};

pub use tuned::RouterPlan;

/// How the router forwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Forwarding {
    /// IP routing without further features.
    #[default]
    Route,
    /// Routing with netfilter rules (nf_tables), each of which is compared with each frame.
    Netfilter,
    /// Routing with connection tracking.
    Conntrack,
    /// A bridge instead of a router.
    Bridge,
    /// An XDP program that redirects each frame to the other port: in native mode if available, else in generic mode.
    Xdp,
    /// An XDP program that redirects each frame to the other port, in generic mode.
    XdpGeneric,
}

impl netcliff_core::Choice for Forwarding {
    const CHOICES: &'static [(Self, &'static str, &'static str)] = &[
        (Self::Route, "route", "IP routing"),
        (Self::Netfilter, "netfilter", "Routing with netfilter rules (--rules)"),
        (Self::Conntrack, "conntrack", "Routing with connection tracking"),
        (Self::Bridge, "bridge", "A bridge"),
        (
            Self::Xdp,
            "xdp",
            "XDP redirect: native mode in a NAPI thread on the router's CPU, generic mode where that is refused",
        ),
        (Self::XdpGeneric, "xdp-generic", "XDP redirect, generic mode"),
    ];
}

impl Forwarding {
    /// All kinds of forwarding.
    pub const ALL: [Self; 6] =
        [Self::Route, Self::Netfilter, Self::Conntrack, Self::Bridge, Self::Xdp, Self::XdpGeneric];
}

impl fmt::Display for Forwarding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(netcliff_core::Choice::name(*self))
    }
}

/// Default number of rules of [`Forwarding::Netfilter`].
pub const RULES_BY_DEFAULT: u16 = 20;

/// Number of rules of [`Forwarding::Netfilter`]; more would not fit one netlink message.
pub const RULES: std::ops::RangeInclusive<u16> = 1..=500;

/// Real-time priority of the thread that counts arriving frames: above the tester's sender, which never sleeps.
const SINK_PRIORITY: i32 = 45;

/// Options of the testbed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForwardOptions {
    /// How the router forwards.
    pub forwarding: Forwarding,
    /// Number of rules of [`Forwarding::Netfilter`].
    pub rules: u16,
    /// 802.1Q tag of the frames: a router is addressed at interfaces of that VLAN.
    pub vlan: Option<u16>,
    /// MTU of all links (bytes).
    pub mtu_bytes: u32,
    /// CPU of the router's packet work.
    pub router_cpu: u32,
    /// CPU of the tester: it processes the packets that arrive at the tester's ports.
    pub tester_cpu: u32,
}

/// One of the tester's two sides: its port, and the router's port that it is connected to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Side {
    /// Name of the namespace; `ip netns` shows it if this process is the host's root.
    pub namespace: String,
    /// The tester's interface in the namespace.
    pub interface: String,
    /// Hardware address of the tester's port.
    pub mac: [u8; 6],
    /// Hardware address of the router's port.
    pub router_mac: [u8; 6],
    /// First of 32 001 consecutive IPv4 addresses reached through the port.
    pub ipv4: Ipv4Addr,
    /// First of 32 001 consecutive IPv6 addresses reached through the port.
    pub ipv6: Ipv6Addr,
}

impl Side {
    /// A hardware address for frames to this port that differs from the port's own: the tester's ring still receives
    /// these frames, and the tester's kernel drops them at once instead of looking up a route.
    pub fn unheard_mac(&self) -> [u8; 6] {
        let mut mac = self.mac;
        mac[4] = 0xff;
        mac
    }
}

/// The running testbed. Dropping it removes everything and clears its journal.
#[derive(Debug)]
pub struct ForwardBed {
    tester: [Namespace; 2],
    router: Namespace,
    sides: [Side; 2],
    limits: Vec<Limitation>,
    /// Mode of the forwarding XDP program; `None` if no program forwards.
    xdp_mode: Option<Mode>,
    options: ForwardOptions,
    /// Settings of a plan, in force until the testbed ends; `None` if no plan was applied.
    tuned: Option<Session>,
    journal: Journal,
    lock: HostLock,
}

impl ForwardBed {
    /// Builds the testbed. On any error everything created so far is removed.
    ///
    /// # Errors
    /// [`TestbedError::NotPermitted`] without the rights, a CPU that is not online, an MTU out of range, or a failed
    /// step, which names what the kernel lacks for this forwarding.
    pub fn create(lock: &HostLock, options: ForwardOptions) -> Result<Self, TestbedError> {
        check(&options)?;
        let permission = Permission::probe();
        if !permission.allows_testbed() {
            return Err(netns::not_permitted(permission));
        }
        let mut journal = Journal::begin(lock.state())?;
        let stem = netns::stem();
        let mut namespace = |role: &str| {
            let name = format!("{stem}-{role}");
            match permission {
                Permission::Root => Namespace::named(&name, &mut journal),
                _ => Namespace::anonymous(&name),
            }
        };
        let (generator, router, sink) = (namespace("gen")?, namespace("rtr")?, namespace("snk")?);
        let tester = [generator, sink];
        let sides = [side(&tester[0], 0), side(&tester[1], 1)];
        let mut limits = Vec::new();
        for (n, (namespace, side)) in tester.iter().zip(&sides).enumerate() {
            setup::join(namespace, &router, side, n, &options)?;
            setup::steer(namespace, &side.interface, options.tester_cpu, &mut limits)?;
            setup::steer(&router, &router_interface(n), options.router_cpu, &mut limits)?;
        }
        setup::forward(&router, &sides, &options)?;
        let xdp_mode = redirect::redirect(&router, &tester, &sides, &options, &mut limits)?;
        let lock = lock.clone();
        Ok(Self { tester, router, sides, limits, xdp_mode, options, tuned: None, journal, lock })
    }

    /// The tester's sides: frames enter at the first and leave at the second.
    pub fn sides(&self) -> &[Side; 2] {
        &self.sides
    }

    /// Path by which any thread of this process can open a side's network namespace while the testbed exists.
    pub fn netns_path(&self, side: usize) -> PathBuf {
        format!("/proc/self/fd/{}", raw_fd(self.tester[side.min(1)].net())).into()
    }

    /// Path of the router's network namespace, see [`ForwardBed::netns_path`].
    pub fn router_netns_path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", raw_fd(self.router.net())).into()
    }

    /// Mode of the forwarding XDP program; `None` if no program forwards.
    pub fn xdp_mode(&self) -> Option<Mode> {
        self.xdp_mode
    }

    /// The options that it was built with.
    pub fn options(&self) -> &ForwardOptions {
        &self.options
    }

    /// What could not be set up, and how that limits the result.
    pub fn limits(&self) -> &[Limitation] {
        &self.limits
    }

    /// Packets that each of the router's links dropped on reception or transmission.
    ///
    /// # Errors
    /// The kernel does not report them.
    pub fn router_drops(&self) -> Result<[u64; 2], TestbedError> {
        let ask = || -> io::Result<[u64; 2]> {
            let mut drops = [0; 2];
            for (n, drops) in drops.iter_mut().enumerate() {
                let stats = Rtnl::new().link(&router_interface(n))?.stats.unwrap_or_default();
                *drops = stats.rx_dropped + stats.tx_dropped;
            }
            Ok(drops)
        };
        self.router.run(ask)?.map_err(TestbedError::failed("read the router's counters"))
    }

    /// Makes the router's ports accept frames that an XDP program sends to the tester's ports (live frames), or
    /// restores the previous state: a veth accepts such frames only while it receives by NAPI, with GRO on.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn take_live_frames(&self, on: bool) -> Result<(), TestbedError> {
        let set = || (0..2).try_for_each(|n| ethtool::set_feature(&router_interface(n), c"rx-gro", on));
        // NAPI is on already for a forwarding program.
        if self.xdp_mode == Some(Mode::Native) {
            return Ok(());
        }
        self.router.run(set)?.map_err(TestbedError::failed("switch GRO of the router's veth"))?;
        if !self.polls_live_frames() {
            return Ok(());
        }
        let cpu = self.options.router_cpu;
        let steer = || -> io::Result<()> {
            for n in 0..2 {
                let interface = router_interface(n);
                let mask = if on { "0".to_owned() } else { procfs::cpu_mask(&[cpu]) };
                fs::write(format!("/sys/class/net/{interface}/queues/rx-0/rps_cpus"), mask)?;
                if on {
                    redirect::thread(&interface, cpu, 1)?;
                } else {
                    fs::write(format!("/sys/class/net/{interface}/threaded"), "0")?;
                }
            }
            Ok(())
        };
        self.router.run(steer)?.map_err(TestbedError::failed("have the router's CPU poll its ports"))
    }

    /// Whether a NAPI thread on the router's CPU receives live frames, as the interrupt of a NIC would do. If there is
    /// no such thread, because the router shares the tester's CPU or a plan configured the router, the CPU that sends
    /// the frames also receives them.
    pub fn polls_live_frames(&self) -> bool {
        let apart = self.options.router_cpu != self.options.tester_cpu;
        apart && self.tuned.is_none() && self.router.sysfs_error().is_none()
    }

    /// Makes a NAPI thread on this CPU, with a real-time priority, count the frames that arrive at the sink's port, so
    /// that the router's CPU does not do this work.
    ///
    /// # Errors
    /// The port does not receive by NAPI, or the right to set the priority is missing.
    pub fn count_on(&self, cpu: u32) -> Result<(), TestbedError> {
        let sink = &self.tester[1];
        if sink.sysfs_error().is_some() {
            return Ok(());
        }
        sink.run(|| redirect::thread(&self.sides[1].interface, cpu, SINK_PRIORITY))?
            .map_err(TestbedError::failed("have a NAPI thread count what arrives"))
    }

    /// Frames that the router could not send to the sink's port because its ring was full, since the testbed was built.
    ///
    /// # Errors
    /// The kernel does not report them.
    pub fn refused_by_sink(&self) -> Result<u64, TestbedError> {
        let ask = || Ok::<_, io::Error>(Rtnl::new().link(&router_interface(1))?.stats.unwrap_or_default().tx_dropped);
        self.router.run(ask)?.map_err(TestbedError::failed("read the router's counters"))
    }

    /// Removes everything and returns the result of undoing each change.
    pub fn close(mut self) -> Vec<UndoOutcome> {
        let mut undone = self.untune();
        undone.extend(self.journal.undo_all());
        undone
    }
}

impl Drop for ForwardBed {
    fn drop(&mut self) {
        for outcome in self.untune() {
            if let Some(error) = outcome.error {
                tracing::warn!(change = ?outcome.change, %error, "a setting could not be set back");
            }
        }
    }
}

fn check(options: &ForwardOptions) -> Result<(), TestbedError> {
    if !(1280..=65_535).contains(&options.mtu_bytes) {
        let value = options.mtu_bytes.into();
        return Err(TestbedError::OutOfRange { name: "mtu", value, accepted: "1280 to 65535 bytes" });
    }
    if !RULES.contains(&options.rules) {
        return Err(TestbedError::OutOfRange { name: "rules", value: options.rules.into(), accepted: "1 to 500" });
    }
    super::check_cpus(&[options.router_cpu, options.tester_cpu])
}

/// The router's port towards side `n`.
fn router_interface(n: usize) -> String {
    format!("rtr{n}")
}

/// The interface with the router's address towards side `n`.
fn routed_interface(n: usize, vlan: Option<u16>) -> String {
    vlan.map_or_else(|| router_interface(n), |id| format!("{}.{id}", router_interface(n)))
}

fn side(namespace: &Namespace, n: u8) -> Side {
    Side {
        namespace: namespace.name().to_owned(),
        interface: format!("tst{n}"),
        // Locally administered, so never a real card's address.
        mac: [0x02, b'n', b'c', 1, 0, n],
        router_mac: [0x02, b'n', b'c', 2, 0, n],
        ipv4: Ipv4Addr::new(198, 18 + n, 0, 2),
        ipv6: Ipv6Addr::new(0x2001, 2, 0, n.into(), 0, 0, 0, 2),
    }
}

/// The networks behind a side, the router's own address and the next hop on the link.
struct Nets {
    net: IpAddr,
    prefix: u8,
    router: IpAddr,
    link_prefix: u8,
    next_hop: IpAddr,
}

fn nets(n: usize) -> [Nets; 2] {
    let n = n as u8;
    let v4 = |c: u8, d: u8| IpAddr::V4(Ipv4Addr::new(198, 18 + n, c, d));
    let v6 = |net: u16, host: u16| IpAddr::V6(Ipv6Addr::new(0x2001, 2, 0, net + u16::from(n), 0, 0, 0, host));
    [
        Nets { net: v4(0, 0), prefix: 17, router: v4(255, 1), link_prefix: 24, next_hop: v4(255, 2) },
        Nets { net: v6(0, 0), prefix: 64, router: v6(0xff00, 1), link_prefix: 64, next_hop: v6(0xff00, 2) },
    ]
}
