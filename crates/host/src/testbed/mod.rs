//! Testbeds: the network through which the packets of a measurement travel.
//!
//! [`netns::Testbed`] is the usual one: a sender and a host under test, each a network namespace, joined by a veth
//! pair. [`forward::ForwardBed`] is a generator, a router and a sink in a row. [`vm::Vm`] is a guest with a NIC that a
//! real driver drives. [`loopback::Loopback`] is the fallback if namespaces are forbidden, and reports how that limits
//! its results.

mod endpoint;
pub mod forward;
pub mod link;
mod namespace;
pub mod netns;
pub mod offloads;
mod options;
mod permission;
pub mod ports;
pub mod stamping;
pub mod sysctl;
pub mod vm;

pub(crate) use namespace::NETNS_DIR;
pub use permission::{Permission, enter_user_namespace};

use crate::journal::JournalError;
use std::{
    io,
    path::{Path, PathBuf},
};

/// Why a testbed could not be made or used.
#[derive(Debug, thiserror::Error)]
pub enum TestbedError {
    /// Neither root nor an unprivileged user namespace is available.
    #[error(
        "network namespaces are not permitted here ({step}: {source}): run as root, or allow unprivileged \
         user namespaces (sysctl kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0), \
         or measure on loopback and accept how that limits the result"
    )]
    NotPermitted {
        /// Step that was attempted.
        step: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// A step of building the testbed failed for another reason.
    #[error("cannot {step}: {source}")]
    Step {
        /// Step that was attempted, as a verb and its object.
        step: String,
        /// The system's error.
        source: io::Error,
    },
    /// The CPU requested does not exist or is offline.
    #[error("CPU {cpu} cannot be used: online are {online}; choose one of these")]
    NoSuchCpu {
        /// Number of the CPU.
        cpu: u32,
        /// List of the online CPUs, for example `0, 1`.
        online: String,
    },
    /// An option is out of range.
    #[error("{name} {value} is out of range: {accepted}")]
    OutOfRange {
        /// The option.
        name: &'static str,
        /// Its value.
        value: u64,
        /// Accepted range.
        accepted: &'static str,
    },
    /// The router cannot be on a VLAN.
    #[error(
        "--vlan with --forwarding {forwarding} needs interfaces of the VLAN in the router's namespace, which this kernel \
         cannot make (it lacks CONFIG_VLAN_8021Q, or its module 8021q): choose --forwarding bridge or xdp, which forward \
         tagged frames as they are, or two ports with --tx and --rx"
    )]
    NoVlan {
        /// Requested kind of forwarding.
        forwarding: forward::Forwarding,
    },
    /// A sysctl does not exist in this namespace.
    #[error(
        "{path} does not exist: this kernel lacks it, or the process is not in the host's own network \
         namespace, where alone it can be set"
    )]
    NoSuchSysctl {
        /// The file below /proc/sys.
        path: PathBuf,
    },
    /// The kernel did not keep a value that was written.
    #[error("{path} was set to {wanted} but holds {actual}: the kernel limits it")]
    NotKept {
        /// The file.
        path: PathBuf,
        /// Value that was written.
        wanted: String,
        /// Value read back.
        actual: String,
    },
    /// A closure that ran in a namespace panicked.
    #[error("the work inside namespace {namespace} panicked: {message}")]
    Panicked {
        /// The namespace.
        namespace: String,
        /// The panic's message.
        message: String,
    },
    /// The undo journal could not be written, so nothing was changed.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl TestbedError {
    /// Classifies a failure: EPERM and EACCES mean that the testbed is not permitted, all other errors are a failed
    /// step.
    pub(crate) fn step(step: &'static str) -> impl FnOnce(io::Error) -> TestbedError {
        move |source| match source.kind() {
            io::ErrorKind::PermissionDenied => TestbedError::NotPermitted { step, source },
            _ => TestbedError::Step { step: step.to_owned(), source },
        }
    }

    pub(crate) fn failed(step: impl Into<String>) -> impl FnOnce(io::Error) -> TestbedError {
        let step = step.into();
        move |source| TestbedError::Step { step, source }
    }
}

/// Refuses CPUs that are not online.
fn check_cpus(wanted: &[u32]) -> Result<(), TestbedError> {
    let online = crate::inventory::online_cpus(Path::new("/"));
    let list = || online.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    match wanted.iter().find(|cpu| !online.contains(cpu)) {
        Some(&cpu) => Err(TestbedError::NoSuchCpu { cpu, online: list() }),
        None => Ok(()),
    }
}

pub mod kept {
    //! Offloads that the kernel switches off when a measurement attaches a program or socket, and leaves off
    //! afterwards.

    use std::path::Path;

    use crate::{
        journal::{HostLock, Journal, JournalError},
        nic,
        setting::{Group, Setting},
    };

    /// Offloads by which the device merges frames: the kernel switches them off, and not on again, when an XDP program
    /// is attached (generic_xdp_install in net/core/dev.c; vmxnet3_xdp_set).
    pub const MERGING: [&str; 2] = ["rx-lro", "rx-gro-hw"];

    /// Offloads that are switched on again when this value is dropped, or at the next start if the run is killed.
    #[derive(Debug)]
    pub struct KeptOffloads {
        /// `None` if no offload is on.
        _journal: Option<Journal>,
    }

    impl KeptOffloads {
        /// Records which of these offloads, by the kernel's names, are on at interfaces of the thread's network
        /// namespace.
        ///
        /// # Errors
        /// The undo journal cannot be used.
        pub fn hold(lock: &HostLock, interfaces: &[&str], offloads: &[&str]) -> Result<Self, JournalError> {
            let mut journal = None;
            for interface in interfaces {
                // An interface that has gone has no offloads to restore.
                let Ok(nic) = nic::read(interface, Path::new("/sys")) else { continue };
                let on = offloads.iter().filter(|name| nic.feature(name) == Some(true));
                let setting = |name: &&str| Setting::Ethtool {
                    interface: (*interface).to_owned(),
                    group: Group::Features,
                    key: (*name).to_owned(),
                };
                let settings: Vec<_> = on.map(|name| (setting(name), "on".to_owned())).collect();
                if !settings.is_empty() {
                    Journal::record_at_risk(&mut journal, lock.state(), interface, settings)?;
                }
            }
            Ok(Self { _journal: journal })
        }
    }
}

pub mod loopback {
    //! Fallback if namespaces are forbidden: sender and receiver on 127.0.0.1.

    use crate::inventory::Limitation;
    use std::net::Ipv4Addr;

    /// Sender and receiver in one network stack. Nothing is changed on the host.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct Loopback;

    impl Loopback {
        /// Source address of the sender.
        pub const SENDER: Ipv4Addr = Ipv4Addr::LOCALHOST;
        /// Address on which the receiver listens.
        pub const HOST_UNDER_TEST: Ipv4Addr = Ipv4Addr::LOCALHOST;

        /// How this testbed limits results.
        pub fn limits(&self) -> Vec<Limitation> {
            vec![Limitation::Loopback]
        }
    }
}
