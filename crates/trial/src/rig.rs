//! The rig: a testbed (namespaces, loopback or a link to other hosts) with the CPUs it uses, ready for a series of
//! trials.

mod between;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use netcliff_core::Fingerprint;
use netcliff_core::experiment::Feature;
use netcliff_host::device::{DeviceError, DeviceHold};
use netcliff_host::fingerprint;
use netcliff_host::inventory::{Inventory, Limitation};
use netcliff_host::journal::{HostLock, JournalError, ReplayReport, StateDir};
use netcliff_host::testbed::netns::{Reception, Side, Testbed, TestbedOptions};
use netcliff_host::testbed::offloads::TRANSMIT_OFFLOADS;
use netcliff_host::testbed::sysctl::{Held, SysctlOverrides};
use netcliff_host::testbed::{TestbedError, loopback::Loopback};
use netcliff_host::tune::device::{self, DeviceKey, Held as Settings, HeldError, Made, Wanted};
use netcliff_packets::WireError;
use netcliff_packets::thread::allowed_cpus;

use crate::stand::{self, Stand};

pub use between::{
    Between, BetweenError, BetweenOptions, LEAST_MOST_PPS, MOST_QUEUES, Sending, SharedCarrier, before_the_stack,
};

/// UDP port of the application.
const PORT: u16 = 9000;
/// Source UDP port of the packets.
const SOURCE_PORT: u16 = 9001;
/// Why settings of an interface cannot be made on loopback.
const NO_DEVICE: &str =
    "loopback has no interface whose settings could be changed: namespaces are needed, --testbed netns";
/// Interval between two attempts to send over a link that is coming up.
const LINK_INTERVAL: Duration = Duration::from_millis(200);

/// Why a rig cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum RigError {
    /// The undo journal cannot be used, or another netcliff measures on this host.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The namespaces cannot be made.
    #[error(transparent)]
    Testbed(#[from] TestbedError),
    /// A requested CPU does not exist.
    #[error("CPU {cpu} cannot be used: online are {online}; choose one of these")]
    NoSuchCpu {
        /// Number of the CPU.
        cpu: u32,
        /// List of the online CPUs.
        online: String,
    },
    /// Packets cannot be sent or received in the testbed.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The link to another host cannot be used.
    #[error(transparent)]
    Between(#[from] BetweenError),
    /// The device's settings cannot be changed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The device refuses the settings.
    #[error(transparent)]
    Settings(#[from] HeldError),
}

/// Kind of testbed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Place {
    /// Namespaces if permitted, otherwise loopback.
    #[default]
    Best,
    /// Two network namespaces joined by veth.
    Netns,
    /// 127.0.0.1.
    Loopback,
}

impl netcliff_core::Choice for Place {
    const CHOICES: &'static [(Self, &'static str, &'static str)] = &[
        (Self::Best, "best", "Network namespaces where permitted, else loopback"),
        (Self::Netns, "netns", "Two network namespaces joined by veth"),
        (Self::Loopback, "loopback", "127.0.0.1: the sender's CPU also does the receive path's work"),
    ];
}

/// Options of a rig.
#[derive(Debug, Clone, Default)]
pub struct RigOptions {
    /// Kind of testbed.
    pub place: Place,
    /// CPU of the sender; `None`: the first online.
    pub sender_cpu: Option<u32>,
    /// CPU of the packet work and application of the host under test; `None`: the last online.
    pub host_cpu: Option<u32>,
    /// Host-wide sysctls for the time of the run.
    pub sysctls: SysctlOverrides,
    /// Settings of the testbed's interfaces.
    pub link: LinkOptions,
    /// Link by which the load comes from another host, whatever `place` is; the sender's CPU is then one of that host.
    /// `None`: the load comes from this host.
    pub between: Option<BetweenOptions>,
    /// Settings of that link's interface for the time of the run; in a namespace testbed, settings of the host under
    /// test's interface, which is removed with the testbed.
    pub settings: Vec<Wanted>,
    /// Longest wait until the link to the other host passes packets: its settings may just have been changed.
    pub link_time: Duration,
}

impl RigOptions {
    /// Checks the options before anything is changed.
    ///
    /// # Errors
    /// A CPU does not exist, a device may not be changed, or (with [`Place::Netns`]) namespaces are not permitted.
    pub fn check(&self) -> Result<(), RigError> {
        cpus(&Inventory::of_this_host(), self)?;
        if let Some(between) = self.between.as_ref().filter(|_| !self.settings.is_empty()) {
            DeviceHold::check(&between.interface)?;
        }
        if self.place == Place::Netns { Ok(Testbed::check_permitted()?) } else { Ok(()) }
    }
}

/// Settings of the interfaces of a namespace testbed. By default, these are the settings that `netcliff find` uses.
#[derive(Debug, Clone, Default)]
pub struct LinkOptions {
    /// MTU of both ends (bytes); `None`: 9000.
    pub mtu_bytes: Option<u32>,
    /// Whether to use IPv6 if no address determines the version; also of a link to another host.
    pub ipv6: bool,
    /// Whether all transmit offloads of both ends are on or off; `None`: the kernel's defaults.
    pub offloads: Option<bool>,
    /// How the host under test receives packets: by the per-CPU backlog or by a kind of NAPI.
    pub reception: Reception,
    /// Whether RPS of the host under test is off, so that it receives on the CPU that sends. Not supported with
    /// threaded NAPI.
    pub without_rps: bool,
    /// Whether RPS moves the sender's reception to the sender's CPU, as on a separate host.
    pub steer_sender: bool,
}

/// The network through which packets travel.
#[derive(Debug)]
enum Bed {
    Netns(Box<Testbed>),
    Loopback,
    Between(Box<Between>),
}

/// A testbed with the CPUs it uses. Dropping it restores the host.
#[derive(Debug)]
pub struct Rig {
    bed: Bed,
    ipv6: bool,
    /// CPU of the sender.
    pub sender_cpu: u32,
    /// CPU of the host under test.
    pub host_cpu: u32,
    /// Whether the user chose `host_cpu` by an option.
    pub host_cpu_named: bool,
    /// CPU of a sender on another host; `None`: its agent chooses.
    pub far_sender_cpu: Option<u32>,
    /// Changes that an earlier, killed run left, and the result of undoing them.
    pub replayed: ReplayReport,
    /// Sentences on how this rig limits results.
    pub limits: Vec<String>,
    /// Sentences on how the host limits results, whatever is measured on it.
    pub host_limits: Vec<String>,
    /// Set to stop a running measurement.
    pub stop: Arc<AtomicBool>,
    /// Watch for changes during a measurement; `None` before the rig is built.
    stand: Option<Mutex<Stand>>,
    /// Settings of the link's interface. Restored before the lock is released.
    settings: Option<Settings>,
    /// Settings of a testbed's own interface; the interface is removed with the testbed, so they are not restored.
    made: Vec<Made>,
    /// Changed sysctls of this host, if the testbed does not change them itself. Restored before the lock is released.
    _sysctls: Option<Held>,
    lock: HostLock,
}

impl Rig {
    /// Builds the testbed, after undoing the changes that a killed run left.
    ///
    /// # Errors
    /// Another netcliff measures on this host, a CPU does not exist, or (with [`Place::Netns`]) namespaces are not
    /// permitted.
    pub fn build(options: &RigOptions, stop: Arc<AtomicBool>) -> Result<Self, RigError> {
        let inventory = Inventory::of_this_host();
        let (sender_cpu, mut host_cpu) = cpus(&inventory, options)?;
        let (lock, replayed) = HostLock::acquire_and_replay(&StateDir::default_for_user()?)?;
        let host_limits: Vec<String> = inventory.limits().iter().map(ToString::to_string).collect();
        let mut limits = host_limits.clone();
        limits.extend(replayed.left_over());
        let (mut sysctls, mut settings) = (None, None);
        let bed = match (&options.between, options.place) {
            (Some(between), _) => {
                if !options.settings.is_empty() {
                    settings = Some(Settings::take(&lock, &between.interface, &options.settings)?);
                }
                let (between, landing) = opened(between, options, &stop)?;
                host_cpu = options.host_cpu.or(landing).unwrap_or(host_cpu);
                sysctls = Some(Held::take(&lock, &options.sysctls)?);
                Bed::Between(Box::new(between))
            }
            (None, Place::Loopback) => Bed::Loopback,
            (None, Place::Netns) => Bed::Netns(Box::new(testbed(&lock, (sender_cpu, host_cpu), options)?)),
            (None, Place::Best) => match testbed(&lock, (sender_cpu, host_cpu), options) {
                Ok(testbed) => Bed::Netns(Box::new(testbed)),
                Err(error @ TestbedError::NotPermitted { .. }) => {
                    limits.push(error.to_string());
                    Bed::Loopback
                }
                Err(error) => return Err(error.into()),
            },
        };
        match &bed {
            Bed::Netns(testbed) => {
                limits.extend(testbed.limits().iter().map(ToString::to_string));
                if let Some(on) = options.link.offloads {
                    limits.extend(switch(testbed, &TRANSMIT_OFFLOADS.map(|feature| (feature, on)))?);
                    if on && options.link.reception != Reception::Backlog {
                        limits.push(Limitation::NapiUnused.to_string());
                    }
                }
            }
            Bed::Loopback => limits.extend(Loopback.limits().iter().map(ToString::to_string)),
            Bed::Between(_) => {}
        }
        if sender_cpu == host_cpu && !matches!(bed, Bed::Between(_)) {
            limits.push(format!(
                "sender and host under test share CPU {host_cpu}: the sender's work counts as the host's, and the cliff \
                 is that of both together"
            ));
        }
        let made = match &bed {
            Bed::Netns(testbed) if !options.settings.is_empty() => {
                let gro = |one: &Wanted| one.key == DeviceKey::Feature(Feature::Gro) && one.value > 0;
                if options.settings.iter().any(gro) && !testbed.let_napi_poll()? {
                    limits.push(Limitation::NapiUnused.to_string());
                }
                set_in(testbed, &options.settings)?
            }
            Bed::Loopback if !options.settings.is_empty() => return Err(HeldError::Lacks(NO_DEVICE.to_owned()).into()),
            _ => Vec::new(),
        };
        let ipv6 = options.link.ipv6;
        let stand = None;
        let far_sender_cpu = options.sender_cpu;
        let mut rig = Self {
            bed,
            ipv6,
            sender_cpu,
            host_cpu,
            host_cpu_named: options.host_cpu.is_some(),
            far_sender_cpu,
            replayed,
            limits,
            host_limits,
            stop,
            stand,
            settings,
            made,
            _sysctls: sysctls,
            lock,
        };
        rig.stand = Some(Mutex::new(Stand::on(&rig.places())));
        Ok(rig)
    }

    /// The settings made on the link's interface, or on the testbed's own interface, with their results.
    pub fn settings(&self) -> &[Made] {
        self.settings.as_ref().map_or(&self.made, Settings::settings)
    }

    /// Sets values of the whole host through the journal, until the returned value is dropped.
    ///
    /// # Errors
    /// A value cannot be written; values set before are restored.
    pub fn hold_sysctls(&self, overrides: &SysctlOverrides) -> Result<Held, RigError> {
        Ok(Held::take(&self.lock, overrides)?)
    }

    /// Ends the testbed; returns a sentence for each setting of the link's interface that could not be restored.
    pub fn end(mut self) -> Vec<String> {
        self.settings.as_mut().map(Settings::set_back).unwrap_or_default()
    }

    /// CPU for the thread that watches a measurement: in a testbed the sender's CPU, otherwise a CPU other than the one
    /// under test, if this process may use another.
    pub fn watching_cpu(&self) -> u32 {
        let others = || allowed_cpus().into_iter().map(|cpu| cpu as u32).find(|cpu| *cpu != self.host_cpu);
        if self.between().is_some() { others().unwrap_or(self.host_cpu) } else { self.sender_cpu }
    }

    /// Namespaces to be watched during a measurement: the testbed's two namespaces, or this host's namespace with the
    /// link or loopback.
    pub fn places(&self) -> Vec<stand::Place> {
        if let Some(between) = self.between() {
            return vec![stand::Place::devices(None, [between.interface().to_owned()])];
        }
        let sides = [Side::Sender, Side::HostUnderTest];
        let spaces: Vec<stand::Place> =
            sides.into_iter().filter_map(|side| self.netns(side)).map(stand::Place::whole).collect();
        if spaces.is_empty() { vec![stand::Place::towards(self.host_address())] } else { spaces }
    }

    /// A sentence that describes changes of the testbed or the CPUs since the last call; `None` if nothing changed.
    pub fn changed(&self) -> Option<String> {
        self.stand.as_ref().and_then(|stand| stand.lock().unwrap_or_else(PoisonError::into_inner).changed())
    }

    /// Whether packets travel between namespaces.
    pub fn is_netns(&self) -> bool {
        matches!(self.bed, Bed::Netns(_))
    }

    /// Whether sender and receiver share a network stack.
    pub fn is_loopback(&self) -> bool {
        matches!(self.bed, Bed::Loopback)
    }

    /// The link to the sending host; `None` if the sender is on this host.
    pub fn between(&self) -> Option<&Between> {
        match &self.bed {
            Bed::Between(between) => Some(between),
            _ => None,
        }
    }

    /// The namespaces and their link; `None` on other testbeds.
    pub fn testbed(&self) -> Option<&Testbed> {
        match &self.bed {
            Bed::Netns(testbed) => Some(testbed),
            _ => None,
        }
    }

    /// Describes the packets' path in one line.
    pub fn describe(&self) -> String {
        self.describe_as("sender", "host under test")
    }

    /// Describes the packets' path in one line, with these names of the ends.
    pub fn describe_as(&self, sender: &str, host: &str) -> String {
        let (sender_cpu, host_cpu) = (self.sender_cpu, self.host_cpu);
        match &self.bed {
            Bed::Netns(_) => format!("netns: {sender} on CPU {sender_cpu}, {host} on CPU {host_cpu}, joined by veth"),
            Bed::Loopback => {
                format!("loopback: {sender} on CPU {sender_cpu}, receiver's application on CPU {host_cpu}")
            }
            Bed::Between(between) => between.describe(host_cpu),
        }
    }

    /// Describes driver and reception in one line.
    pub fn driver(&self) -> String {
        match &self.bed {
            Bed::Netns(testbed) => match testbed.options().reception {
                Reception::Backlog if testbed.options().reception_cpus.is_empty() => {
                    format!("veth without GRO and RPS: received on CPU {} (process_backlog)", self.sender_cpu)
                }
                Reception::Backlog => {
                    format!("veth without GRO; RPS steers to CPU {} (process_backlog)", self.host_cpu)
                }
                other => format!("veth with GRO, reception {other}"),
            },
            Bed::Loopback => "loopback (process_backlog on the sender's CPU)".to_owned(),
            Bed::Between(between) => between.driver(self.host_cpu),
        }
    }

    /// Path of the network namespace of an end; `None` if the testbed has no namespaces.
    pub fn netns(&self, side: Side) -> Option<PathBuf> {
        self.testbed().map(|testbed| testbed.netns_path(side))
    }

    /// Name of the interface by which the sender sends.
    pub fn sender_interface(&self) -> String {
        match &self.bed {
            Bed::Netns(testbed) => testbed.endpoint(Side::Sender).interface.clone(),
            Bed::Loopback => "lo".to_owned(),
            Bed::Between(between) => between.interface().to_owned(),
        }
    }

    /// Hardware addresses of sender and host under test; all zero if the testbed has no namespaces.
    pub fn macs(&self) -> ([u8; 6], [u8; 6]) {
        match &self.bed {
            Bed::Netns(testbed) => (testbed.endpoint(Side::Sender).mac, testbed.endpoint(Side::HostUnderTest).mac),
            Bed::Loopback | Bed::Between(_) => ([0; 6], [0; 6]),
        }
    }

    /// True if IPv6 was requested.
    pub fn is_ipv6(&self) -> bool {
        self.ipv6
    }

    /// Addresses of sender and host under test, of either IP version; `None` if the namespaces or the link have none of
    /// that version. The address of a sender on another host is unspecified.
    pub fn ends(&self, ipv6: bool) -> Option<(IpAddr, IpAddr)> {
        match (&self.bed, ipv6) {
            (Bed::Loopback, true) => Some((Ipv6Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into())),
            (Bed::Loopback, false) => Some((Ipv4Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into())),
            (Bed::Netns(testbed), _) => {
                let of = |side| {
                    let end = testbed.endpoint(side);
                    if ipv6 { end.ipv6.map(IpAddr::V6) } else { Some(end.ip.into()) }
                };
                Some((of(Side::Sender)?, of(Side::HostUnderTest)?))
            }
            (Bed::Between(between), _) => {
                let host = between.address().ip();
                (host.is_ipv6() == ipv6).then(|| (unspecified(ipv6), host))
            }
        }
    }

    /// Address of the host under test, of the requested IP version.
    pub fn host_address(&self) -> IpAddr {
        self.addresses().1.ip()
    }

    /// Source and destination of the packets, of the requested IP version.
    pub fn addresses(&self) -> (SocketAddr, SocketAddr) {
        // The testbed was built with addresses of that version.
        let none = (unspecified(self.ipv6), unspecified(self.ipv6));
        let (from, to) = self.ends(self.ipv6).or_else(|| self.ends(false)).unwrap_or(none);
        (SocketAddr::new(from, SOURCE_PORT), SocketAddr::new(to, PORT))
    }

    /// Switches offloads of both ends' interfaces, by the kernel's names, until the testbed ends; returns a sentence
    /// for each offload whose state then differs from the wanted one.
    ///
    /// # Errors
    /// A namespace cannot be entered, or its interface cannot be read.
    pub fn set_features(&self, wanted: &[(&str, bool)]) -> Result<Vec<String>, TestbedError> {
        match &self.bed {
            Bed::Netns(testbed) => switch(testbed, wanted),
            Bed::Loopback => Ok(vec!["loopback has no offloads of its own to switch".to_owned()]),
            Bed::Between(_) => Ok(vec!["the offloads of a link between hosts are left as they are".to_owned()]),
        }
    }

    /// Properties of the host, and of the interfaces on the packets' path, that explain differences between
    /// measurements. Loopback has no interface properties.
    ///
    /// # Errors
    /// A namespace cannot be entered or its links cannot be listed.
    pub fn fingerprint(&self, host: &Inventory) -> Result<Fingerprint, TestbedError> {
        match &self.bed {
            Bed::Netns(testbed) => fingerprint::of_testbed(host, testbed),
            Bed::Loopback => Ok(fingerprint::of_host(host, &[])),
            Bed::Between(between) => Ok(fingerprint::of_host(host, std::slice::from_ref(between.nic()))),
        }
    }

    /// Describes the interfaces of a testbed in one line; `None` if it has none.
    pub fn link(&self) -> Option<String> {
        let Bed::Netns(testbed) = &self.bed else { return None };
        let on = |side| {
            let features = testbed.features(side).ok()?;
            let held = TRANSMIT_OFFLOADS.iter().filter(|name| features.get(**name) == Some(&true)).count();
            Some(match held {
                0 => "off".to_owned(),
                held if held == TRANSMIT_OFFLOADS.len() => "on".to_owned(),
                held => format!("{held} of {} on", TRANSMIT_OFFLOADS.len()),
            })
        };
        let offloads = on(Side::Sender).unwrap_or_else(|| "unknown".to_owned());
        let options = testbed.options();
        let received = match options.reception {
            Reception::Backlog => "by the CPU's backlog queue",
            Reception::Napi => "by veth's NAPI",
            Reception::ThreadedNapi => "by a NAPI thread",
        };
        Some(format!("MTU {}, transmit offloads {offloads}, received {received}", options.mtu_bytes))
    }

    /// Runs a closure in the host under test: in a new thread inside its namespace or, on other testbeds, in the
    /// calling thread.
    ///
    /// # Errors
    /// The namespace cannot be entered or the closure panics.
    pub fn in_host<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, TestbedError> {
        match &self.bed {
            Bed::Netns(testbed) => testbed.run_in_hut(work),
            Bed::Loopback | Bed::Between(_) => Ok(work()),
        }
    }
}

/// The address of an IP version that stands for any.
fn unspecified(ipv6: bool) -> IpAddr {
    if ipv6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() }
}

/// Opens a link. Retries for `options.link_time` until packets pass.
fn opened(
    between: &BetweenOptions,
    options: &RigOptions,
    stop: &Arc<AtomicBool>,
) -> Result<(Between, Option<u32>), BetweenError> {
    let deadline = Instant::now() + options.link_time;
    loop {
        match Between::open(between, options.link.ipv6, options.sender_cpu, stop) {
            Err(BetweenError::Stopped) => return Err(BetweenError::Stopped),
            Err(_) if Instant::now() < deadline && !stop.load(Ordering::Relaxed) => {
                std::thread::sleep(LINK_INTERVAL);
            }
            outcome => return outcome,
        }
    }
}

/// Applies the `wanted` settings to the interface of the host under test.
fn set_in(testbed: &Testbed, wanted: &[Wanted]) -> Result<Vec<Made>, RigError> {
    let interface = &testbed.endpoint(Side::HostUnderTest).interface;
    Ok(testbed.run_in_hut(|| device::set(interface, wanted))??)
}

/// Switches offloads of both ends; returns a sentence for each whose state then differs from the wanted one.
fn switch(testbed: &Testbed, wanted: &[(&str, bool)]) -> Result<Vec<String>, TestbedError> {
    let mut refused = Vec::new();
    for (side, name) in [(Side::Sender, "sender"), (Side::HostUnderTest, "host under test")] {
        let other = testbed.set_features(side, wanted)?;
        refused.extend(other.iter().map(|(feature, why)| format!("{feature} of the {name} is not as asked: {why}")));
    }
    Ok(refused)
}

fn testbed(lock: &HostLock, (sender, host): (u32, u32), options: &RigOptions) -> Result<Testbed, TestbedError> {
    let link = &options.link;
    let options = TestbedOptions {
        mtu_bytes: link.mtu_bytes.unwrap_or(9000),
        ipv6: link.ipv6,
        reception: link.reception,
        reception_cpus: if link.without_rps { Vec::new() } else { vec![host] },
        sender_reception_cpus: if link.steer_sender { vec![sender] } else { Vec::new() },
        sysctls: options.sysctls.clone(),
        ..TestbedOptions::default()
    };
    Testbed::create(lock, options)
}

/// Returns the CPUs of sender and host under test: the requested CPUs, or the first and the last online CPU.
fn cpus(inventory: &Inventory, options: &RigOptions) -> Result<(u32, u32), RigError> {
    let online = &inventory.cpu.online;
    let list = || online.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let pick = |asked: Option<u32>, default: Option<&u32>| match asked {
        Some(cpu) if online.contains(&cpu) => Ok(cpu),
        Some(cpu) => Err(RigError::NoSuchCpu { cpu, online: list() }),
        None => Ok(default.copied().unwrap_or(0)),
    };
    let sender_cpu = options.sender_cpu.filter(|_| options.between.is_none());
    Ok((pick(sender_cpu, online.first())?, pick(options.host_cpu, online.last())?))
}
