//! Sender and host under test as two network namespaces joined by a veth pair.
//!
//! Addresses are from 198.18.0.0/15, which RFC 2544 reserves for benchmarks; the neighbour entries are permanent and
//! IPv6 is off, so that only measured packets are sent. If IPv6 is requested, its addresses are from 2001:2::/48 (RFC
//! 5180), without duplicate address detection, solicitations or link-local addresses; the kernel then sends only one or
//! two multicast listener reports when the addresses are set.

use super::{
    Permission, TestbedError, endpoint,
    namespace::{Entrance, Namespace, raw_fd},
    sysctl::{self, SysctlOverrides},
};
use crate::{
    inventory::Limitation,
    journal::{HostLock, Journal, UndoOutcome},
    rtnl::{Rtnl, VethEnd},
};
use serde::{Deserialize, Serialize};
use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr},
    sync::atomic::{AtomicU32, Ordering},
    thread::{Builder, JoinHandle},
};

pub use super::{
    endpoint::Endpoint,
    options::{IPV6_MIN_MTU, Reception, TestbedOptions},
};

/// One of the two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// The end that generates load.
    Sender,
    /// The end whose reception is measured.
    HostUnderTest,
}

/// Counters of an interface since its creation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkCounters {
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets dropped on reception.
    pub rx_dropped: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets dropped on transmission; for a veth these are packets that the peer could not receive.
    pub tx_dropped: u64,
    /// Receive errors.
    pub rx_errors: u64,
    /// Transmit errors.
    pub tx_errors: u64,
}

/// The running testbed. Dropping it removes everything and clears its journal.
#[derive(Debug)]
pub struct Testbed {
    sender: Namespace,
    host_under_test: Namespace,
    endpoints: [Endpoint; 2],
    options: TestbedOptions,
    limits: Vec<Limitation>,
    journal: Journal,
    _lock: HostLock,
}

/// Distinguishes testbeds of one process; names of other processes differ by their pid.
static SERIAL: AtomicU32 = AtomicU32::new(0);

impl Testbed {
    /// Builds the testbed. On any error everything created so far is removed.
    ///
    /// # Errors
    /// [`TestbedError::NotPermitted`] without the rights (fall back to [`super::loopback::Loopback`]), an option out of
    /// range, a sysctl that cannot be set, or a failed step.
    pub fn create(lock: &HostLock, options: TestbedOptions) -> Result<Testbed, TestbedError> {
        options.check()?;
        let permission = permitted()?;
        let mut journal = Journal::begin(lock.state())?;
        let [sender, host_under_test] = namespaces(&permission, &mut journal)?;
        let endpoints = join(&sender, &host_under_test, &options)?;
        let mut limits = Vec::new();
        let [from, receiver] = &endpoints;
        endpoint::reception(&host_under_test, receiver, &options, &mut limits)?;
        endpoint::sender_reception(&sender, from, &options, &mut limits)?;
        sysctl::set_all(&mut journal, &options.sysctls)?;
        let _lock = lock.clone();
        let mut testbed = Testbed { sender, host_under_test, endpoints, options, limits, journal, _lock };
        if testbed.options.reception != Reception::Backlog && !testbed.let_napi_poll()? {
            testbed.limits.push(Limitation::NapiUnused);
        }
        Ok(testbed)
    }

    /// Checks whether this process may build a testbed.
    ///
    /// # Errors
    /// [`TestbedError::NotPermitted`] if it may not.
    pub fn check_permitted() -> Result<(), TestbedError> {
        permitted().map(drop)
    }

    /// Addresses of an end.
    pub fn endpoint(&self, side: Side) -> &Endpoint {
        match side {
            Side::Sender => &self.endpoints[0],
            Side::HostUnderTest => &self.endpoints[1],
        }
    }

    /// Path by which any thread of this process can open an end's network namespace, named or not, while the testbed
    /// exists.
    pub fn netns_path(&self, side: Side) -> std::path::PathBuf {
        format!("/proc/self/fd/{}", raw_fd(self.namespace(side).net())).into()
    }

    /// The options that it was built with.
    pub fn options(&self) -> &TestbedOptions {
        &self.options
    }

    /// What could not be set up, and how that limits the result.
    pub fn limits(&self) -> &[Limitation] {
        &self.limits
    }

    /// Runs a closure in a new thread inside a namespace and waits for its result. Sockets opened there stay in the
    /// namespace; `/sys` shows its devices, `/proc/thread-self/net` its counters.
    ///
    /// # Errors
    /// The namespace cannot be entered, or the closure panics.
    pub fn run_in<T: Send>(&self, side: Side, work: impl FnOnce() -> T + Send) -> Result<T, TestbedError> {
        self.namespace(side).run(work)
    }

    /// Runs a closure in the sender, see [`Testbed::run_in`].
    ///
    /// # Errors
    /// See [`Testbed::run_in`].
    pub fn run_in_sender<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, TestbedError> {
        self.run_in(Side::Sender, work)
    }

    /// Runs a closure in the host under test, see [`Testbed::run_in`].
    ///
    /// # Errors
    /// See [`Testbed::run_in`].
    pub fn run_in_hut<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, TestbedError> {
        self.run_in(Side::HostUnderTest, work)
    }

    /// Starts a named thread inside a namespace and returns without waiting. The thread may outlive the testbed, and
    /// its namespace then exists as long as the thread: join it before the testbed is dropped.
    ///
    /// # Errors
    /// The thread cannot be started; failure to enter is in the thread's result.
    pub fn spawn_in<T: Send + 'static>(
        &self,
        side: Side,
        name: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<Result<T, TestbedError>>, TestbedError> {
        let entrance: Entrance = self.namespace(side).entrance()?;
        let run = move || {
            entrance.enter()?;
            // From here on only the thread itself keeps the namespace alive.
            drop(entrance);
            Ok(work())
        };
        Builder::new().name(name.to_owned()).spawn(run).map_err(TestbedError::failed(format!("start thread {name}")))
    }

    /// Counters of an end's interface (rtnetlink's 64-bit statistics).
    ///
    /// # Errors
    /// The kernel does not answer, or answers without statistics.
    pub fn counters(&self, side: Side) -> Result<LinkCounters, TestbedError> {
        let name = self.endpoint(side).interface.clone();
        let link = self.run_in(side, || Rtnl::new().link(&name))?;
        let stats = link
            .and_then(|link| link.stats.ok_or_else(|| io::Error::other("no 64-bit statistics")))
            .map_err(TestbedError::failed(format!("read the counters of {name}")))?;
        Ok(LinkCounters {
            rx_packets: stats.rx_packets,
            rx_bytes: stats.rx_bytes,
            rx_dropped: stats.rx_dropped,
            tx_packets: stats.tx_packets,
            tx_bytes: stats.tx_bytes,
            tx_dropped: stats.tx_dropped,
            rx_errors: stats.rx_errors,
            tx_errors: stats.tx_errors,
        })
    }

    /// Changes host-wide sysctls in addition to the sysctls of the options; all are restored at the end.
    ///
    /// # Errors
    /// A sysctl does not exist here, may not be written, or the kernel stores another value.
    pub fn set_sysctls(&mut self, sysctls: &SysctlOverrides) -> Result<(), TestbedError> {
        sysctl::set_all(&mut self.journal, sysctls)
    }

    /// Removes everything and returns the result of undoing each change.
    pub fn close(mut self) -> Vec<UndoOutcome> {
        self.journal.undo_all()
    }

    fn namespace(&self, side: Side) -> &Namespace {
        match side {
            Side::Sender => &self.sender,
            Side::HostUnderTest => &self.host_under_test,
        }
    }
}

fn permitted() -> Result<Permission, TestbedError> {
    let permission = Permission::probe();
    if permission.allows_testbed() { Ok(permission) } else { Err(not_permitted(permission)) }
}

pub(super) fn not_permitted(permission: Permission) -> TestbedError {
    let reason = match permission {
        Permission::Forbidden { reason } => reason,
        _ => "not root, and the process has not entered a user namespace".to_owned(),
    };
    let source = io::Error::new(io::ErrorKind::PermissionDenied, reason);
    TestbedError::NotPermitted { step: "make network namespaces", source }
}

/// Common prefix of the names of one testbed's namespaces.
pub(super) fn stem() -> String {
    let pid = std::process::id();
    match SERIAL.fetch_add(1, Ordering::Relaxed) {
        0 => format!("nc-{pid}"),
        n => format!("nc-{pid}-{n}"),
    }
}

fn namespaces(permission: &Permission, journal: &mut Journal) -> Result<[Namespace; 2], TestbedError> {
    let stem = stem();
    let mut make = |role| {
        let name = format!("{stem}-{role}");
        match permission {
            Permission::Root => Namespace::named(&name, journal),
            _ => Namespace::anonymous(&name),
        }
    };
    Ok([make("snd")?, make("hut")?])
}

fn join(
    sender: &Namespace,
    host_under_test: &Namespace,
    options: &TestbedOptions,
) -> Result<[Endpoint; 2], TestbedError> {
    let named = |namespace: &Namespace, n: u8| Endpoint {
        namespace: namespace.name().to_owned(),
        interface: format!("veth{n}"),
        index: 0,
        // Locally administered, so never a real card's address.
        mac: [0x02, b'n', b'c', 0, 0, n + 1],
        ip: Ipv4Addr::new(198, 18, 0, n + 1),
        ipv6: options.ipv6.then(|| Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, u16::from(n) + 1)),
    };
    let mut ends = [named(sender, 0), named(host_under_test, 1)];
    let [here, there] = [&ends[0], &ends[1]].map(|end| VethEnd {
        name: &end.interface,
        mac: end.mac,
        mtu_bytes: options.mtu_bytes,
        rx_queues: options.queues,
        tx_queues: options.queues,
    });
    let there_ns = raw_fd(host_under_test.net());
    sender
        .run(|| Rtnl::new().add_veth(&here, &there, there_ns))?
        .map_err(TestbedError::step("create the veth pair"))?;
    let peers = [ends[1].clone(), ends[0].clone()];
    for ((namespace, end), peer) in [sender, host_under_test].into_iter().zip(&mut ends).zip(&peers) {
        let configured = namespace.run(|| endpoint::address(end, peer))?;
        end.index = configured.map_err(TestbedError::step("configure the veth pair"))?;
    }
    Ok(ends)
}
