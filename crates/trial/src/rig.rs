//! The rig: a testbed with its meters, ready for one trial after the other.

mod between;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddrV4};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use netcliff_core::Fingerprint;
use netcliff_host::device::{DeviceError, DeviceHold};
use netcliff_host::fingerprint;
use netcliff_host::inventory::Inventory;
use netcliff_host::journal::{HostLock, JournalError, ReplayReport, StateDir};
use netcliff_host::testbed::netns::{Reception, Side, Testbed, TestbedOptions};
use netcliff_host::testbed::offloads::TRANSMIT_OFFLOADS;
use netcliff_host::testbed::sysctl::{Held, SysctlOverrides};
use netcliff_host::testbed::{TestbedError, loopback::Loopback};
use netcliff_host::tune::device::{self, Held as Settings, HeldError, Made, Wanted};
use netcliff_packets::WireError;
use netcliff_packets::thread::allowed_cpus;

use crate::stand::{self, Stand};

pub use between::{
    Between, BetweenError, BetweenOptions, LEAST_MOST_PPS, MOST_QUEUES, Sending, SharedCarrier, before_the_stack,
};

/// UDP port of the application.
const PORT: u16 = 9000;
/// UDP port packets seem to come from.
const SOURCE_PORT: u16 = 9001;
/// Why settings of an interface cannot be made on loopback.
const NO_DEVICE: &str =
    "loopback has no interface whose settings could be changed: namespaces are needed, --testbed netns";
/// Interval between two attempts to use a link that comes up.
const LINK_INTERVAL: Duration = Duration::from_millis(200);

/// Why there is no rig.
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
        /// The CPU requested.
        cpu: u32,
        /// The CPUs there are.
        online: String,
    },
    /// Packets cannot be sent or received in the testbed.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The link to another host cannot be used.
    #[error(transparent)]
    Between(#[from] BetweenError),
    /// The device's settings cannot be changed at all.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The device does not take them.
    #[error(transparent)]
    Settings(#[from] HeldError),
}

/// Which testbed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Place {
    /// Namespaces where permitted, else loopback.
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
        (Self::Loopback, "loopback", "127.0.0.1: sender and receiver share their CPU's packet work"),
    ];
}

/// What to build.
#[derive(Debug, Clone, Default)]
pub struct RigOptions {
    /// Which testbed.
    pub place: Place,
    /// CPU of the sender; None: the first online.
    pub sender_cpu: Option<u32>,
    /// CPU of the host under test's packet work and application; None: the last online.
    pub host_cpu: Option<u32>,
    /// Host-wide values for the length of the run.
    pub sysctls: SysctlOverrides,
    /// What the interfaces are set to.
    pub link: LinkOptions,
    /// The load comes from another host, by this link, whatever `place` says; its sender's CPU is one there.
    pub between: Option<BetweenOptions>,
    /// Settings of that link's interface for the length of the run; in a namespace testbed of the host under test's, which is
    /// removed with it.
    pub settings: Vec<Wanted>,
    /// That link may not pass packets yet, as its settings were just changed: it is tried for so long.
    pub link_time: Duration,
}

impl RigOptions {
    /// Refuses what can be seen to be impossible before anything is made.
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

/// The interfaces of a namespace testbed. The default is what `netcliff find` measures on.
#[derive(Debug, Clone, Default)]
pub struct LinkOptions {
    /// MTU of both ends (bytes); None: 9000.
    pub mtu_bytes: Option<u32>,
    /// Use IPv6 where no address decides.
    pub ipv6: bool,
    /// All transmit offloads of both ends on or off; None: as the kernel makes them.
    pub offloads: Option<bool>,
    /// How the host under test receives.
    pub reception: Reception,
    /// RPS of the host under test is off, so that it receives on the CPU that sends. Not with threaded NAPI.
    pub without_rps: bool,
    /// The sender's reception is steered to its own CPU too, as on a host of its own.
    pub steer_sender: bool,
}

/// Where packets travel.
#[derive(Debug)]
enum Bed {
    Netns(Box<Testbed>),
    Loopback,
    Between(Box<Between>),
}

/// A testbed with the CPUs it uses. Dropping it leaves the host as it was found.
#[derive(Debug)]
pub struct Rig {
    bed: Bed,
    ipv6: bool,
    /// CPU of the sender.
    pub sender_cpu: u32,
    /// CPU of the host under test.
    pub host_cpu: u32,
    /// Whether that was asked for.
    pub host_cpu_named: bool,
    /// CPU of a sender on another host; None: as its agent chooses.
    pub far_sender_cpu: Option<u32>,
    /// What an earlier, killed run had left and what became of it.
    pub replayed: ReplayReport,
    /// What limits this rig, a sentence each.
    pub limits: Vec<String>,
    /// Those of the host, whatever is measured on it.
    pub host_limits: Vec<String>,
    /// Set to stop what runs.
    pub stop: Arc<AtomicBool>,
    /// None before it is built.
    stand: Option<Mutex<Stand>>,
    /// Settings of the link's interface. Set back before the lock goes.
    settings: Option<Settings>,
    /// Settings of a testbed's own interface, which are removed with it.
    made: Vec<Made>,
    /// Those of this host, where no testbed holds them. Set back before the lock goes.
    _sysctls: Option<Held>,
    lock: HostLock,
}

impl Rig {
    /// Builds the testbed, after undoing what a killed run left behind.
    ///
    /// # Errors
    /// Another netcliff measures on this host, a CPU does not exist, or (with [`Place::Netns`]) namespaces
    /// are not permitted.
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
            Bed::Netns(testbed) if !options.settings.is_empty() => set_in(testbed, &options.settings)?,
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

    /// What became of the settings of the link's interface, or of the testbed's.
    pub fn settings(&self) -> &[Made] {
        self.settings.as_ref().map_or(&self.made, Settings::settings)
    }

    /// Sets values of the whole host, through the journal, until what is returned is dropped.
    ///
    /// # Errors
    /// A value cannot be written; what was set before is set back.
    pub fn hold_sysctls(&self, overrides: &SysctlOverrides) -> Result<Held, RigError> {
        Ok(Held::take(&self.lock, overrides)?)
    }

    /// Ends the testbed; returns what of the link's interface could not be set back, in sentences.
    pub fn end(mut self) -> Vec<String> {
        self.settings.as_mut().map(Settings::set_back).unwrap_or_default()
    }

    /// A CPU beside the one under test, where there is one: that of the sender in a testbed.
    pub fn watching_cpu(&self) -> u32 {
        let others = || allowed_cpus().into_iter().map(|cpu| cpu as u32).find(|cpu| *cpu != self.host_cpu);
        if self.between().is_some() { others().unwrap_or(self.host_cpu) } else { self.sender_cpu }
    }

    /// Where a measurement on it has to be watched: the namespaces of the testbed, the link to another host, or loopback.
    pub fn places(&self) -> Vec<stand::Place> {
        if let Some(between) = self.between() {
            return vec![stand::Place::devices(None, [between.interface().to_owned()])];
        }
        let sides = [Side::Sender, Side::HostUnderTest];
        let spaces: Vec<stand::Place> =
            sides.into_iter().filter_map(|side| self.netns(side)).map(stand::Place::whole).collect();
        if spaces.is_empty() { vec![stand::Place::towards(self.host_address())] } else { spaces }
    }

    /// What changed in the testbed or the CPUs since the last call, in a sentence; None if nothing did.
    pub fn changed(&self) -> Option<String> {
        self.stand.as_ref().and_then(|stand| stand.lock().unwrap_or_else(PoisonError::into_inner).changed())
    }

    /// True where packets travel between namespaces.
    pub fn is_netns(&self) -> bool {
        matches!(self.bed, Bed::Netns(_))
    }

    /// True where sender and receiver share a network stack.
    pub fn is_loopback(&self) -> bool {
        matches!(self.bed, Bed::Loopback)
    }

    /// The link to the host that sends, where that is another.
    pub fn between(&self) -> Option<&Between> {
        match &self.bed {
            Bed::Between(between) => Some(between),
            _ => None,
        }
    }

    /// The namespaces and their link, where there are some.
    pub fn testbed(&self) -> Option<&Testbed> {
        match &self.bed {
            Bed::Netns(testbed) => Some(testbed),
            _ => None,
        }
    }

    /// One line on where packets travel.
    pub fn describe(&self) -> String {
        self.describe_as("sender", "host under test")
    }

    /// One line on where packets travel between ends with these names.
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

    /// One line on driver and reception.
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

    /// The network namespace of an end; None where there are none.
    pub fn netns(&self, side: Side) -> Option<PathBuf> {
        self.testbed().map(|testbed| testbed.netns_path(side))
    }

    /// The interface the sender sends into.
    pub fn sender_interface(&self) -> String {
        match &self.bed {
            Bed::Netns(testbed) => testbed.endpoint(Side::Sender).interface.clone(),
            Bed::Loopback => "lo".to_owned(),
            Bed::Between(between) => between.interface().to_owned(),
        }
    }

    /// Hardware addresses of sender and host under test.
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

    /// Addresses of sender and host under test, of either version of IP; None where namespaces were made without IPv6.
    pub fn ends(&self, ipv6: bool) -> Option<(IpAddr, IpAddr)> {
        match (&self.bed, ipv6) {
            (Bed::Loopback, true) => Some((Ipv6Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into())),
            (Bed::Netns(testbed), true) => {
                let of = |side| testbed.endpoint(side).ipv6.map(IpAddr::V6);
                Some((of(Side::Sender)?, of(Side::HostUnderTest)?))
            }
            (Bed::Between(_), true) => None,
            (_, false) => {
                let (from, to) = self.addresses();
                Some((IpAddr::V4(*from.ip()), IpAddr::V4(*to.ip())))
            }
        }
    }

    /// Where the host under test is reached, by the requested version of IP.
    pub fn host_address(&self) -> IpAddr {
        self.ends(self.ipv6).map_or_else(|| IpAddr::V4(*self.addresses().1.ip()), |(_, host)| host)
    }

    /// IPv4 addresses and ports packets go from and to.
    pub fn addresses(&self) -> (SocketAddrV4, SocketAddrV4) {
        let (from, to) = match &self.bed {
            Bed::Netns(testbed) => (testbed.endpoint(Side::Sender).ip, testbed.endpoint(Side::HostUnderTest).ip),
            Bed::Loopback => (Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST),
            Bed::Between(between) => (Ipv4Addr::UNSPECIFIED, *between.address().ip()),
        };
        (SocketAddrV4::new(from, SOURCE_PORT), SocketAddrV4::new(to, PORT))
    }

    /// Switches offloads of both ends' interfaces, by the kernel's names; returns a sentence for each that is otherwise
    /// afterwards. They are gone with the testbed.
    ///
    /// # Errors
    /// The testbed has no interfaces of its own, or they cannot be read.
    pub fn set_features(&self, wanted: &[(&str, bool)]) -> Result<Vec<String>, TestbedError> {
        match &self.bed {
            Bed::Netns(testbed) => switch(testbed, wanted),
            Bed::Loopback => Ok(vec!["loopback has no offloads of its own to switch".to_owned()]),
            Bed::Between(_) => Ok(vec!["the offloads of a link between hosts are left as they are".to_owned()]),
        }
    }

    /// Everything that explains a measured difference: of the host, and of the interfaces between the namespaces.
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

    /// One line on the interfaces of a testbed; None where there are none.
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
        Some(format!("MTU {}, transmit offloads {offloads}, reception {}", options.mtu_bytes, options.reception))
    }

    /// Runs a closure on a thread inside the host under test.
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

/// A link, once it passes packets.
fn opened(
    between: &BetweenOptions,
    options: &RigOptions,
    stop: &Arc<AtomicBool>,
) -> Result<(Between, Option<u32>), BetweenError> {
    let deadline = Instant::now() + options.link_time;
    loop {
        match Between::open(between, options.sender_cpu, stop) {
            Err(BetweenError::Stopped) => return Err(BetweenError::Stopped),
            Err(_) if Instant::now() < deadline && !stop.load(Ordering::Relaxed) => {
                std::thread::sleep(LINK_INTERVAL);
            }
            outcome => return outcome,
        }
    }
}

/// Sets what is wanted on the interface of the host under test.
fn set_in(testbed: &Testbed, wanted: &[Wanted]) -> Result<Vec<Made>, RigError> {
    let interface = &testbed.endpoint(Side::HostUnderTest).interface;
    Ok(testbed.run_in_hut(|| device::set(interface, wanted))??)
}

/// Switches offloads of both ends; returns a sentence for each that is otherwise afterwards.
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

/// The CPUs requested, or the first and the last online one.
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
