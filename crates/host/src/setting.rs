//! Settings of the host that can be read, written and restored: [`Setting`]. All values are text, as in the kernel's
//! files.

mod command;
mod permitted;

pub use command::is_adaptive;
pub(crate) use command::of_coalescing;
pub(crate) use permitted::{is_interface_name, is_known_file};
pub use same::same;

use crate::{
    inspect::interrupts,
    nic::{
        self, Nic,
        classify::{self, HashFields, PortRule},
        ethtool, link,
        netdev::{self, NapiKey},
        per_queue,
        stamping::Stamping,
    },
    procfs,
    rtnl::Rtnl,
};
use netcliff_core::{experiment::Coalesce, quote};
use serde::{Deserialize, Serialize};
use std::{
    ffi::CString,
    fmt, fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// Directory of network devices in sysfs.
const DEVICES: &str = "/sys/class/net";

/// Longest wait for a link after a change of its setting: copper negotiates 1000 Mbit/s for 2 to 4 s. A link that stays
/// down is set twice more (by hand, then back), and the control channel over it must survive that (20 s).
pub(crate) const LINK_TIME: Duration = Duration::from_secs(5);
/// Interval between two checks of a link.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A setting of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Setting {
    /// A file below /proc/sys, /proc/irq or /sys.
    File {
        /// The file.
        path: PathBuf,
    },
    /// A value of interrupt coalescing, ring, channels or offloads, by the kernel's name.
    Ethtool {
        /// Interface.
        interface: String,
        /// Group of the value.
        group: Group,
        /// Name within the group, such as `rx-usecs`.
        key: String,
    },
    /// A value of interrupt coalescing of one queue, by the kernel's name.
    QueueCoalesce {
        /// Interface.
        interface: String,
        /// The queue.
        queue: u32,
        /// Name such as `rx-usecs`.
        key: String,
    },
    /// Header fields that RSS hashes for a kind of packets, as [`HashFields`] formats them.
    HashFields {
        /// Interface.
        interface: String,
        /// Kind such as `udp4`.
        flow: String,
    },
    /// The key of the RSS hash, hexadecimal.
    RssKey {
        /// Interface.
        interface: String,
    },
    /// The flow rule at a location of the device's table, as [`PortRule`] formats it; `none`: the location is free.
    FlowRule {
        /// Interface.
        interface: String,
        /// Location in the table.
        location: u32,
    },
    /// The RSS table: queue numbers separated by commas; `default` lets the driver choose.
    RssTable {
        /// Interface.
        interface: String,
    },
    /// CPUs that may handle an interrupt, as a list. The interrupt's number changes with the channels and at each boot,
    /// so it is identified by the name that its driver gives it.
    Interrupt {
        /// Interface.
        interface: String,
        /// Last word of the interrupt's line in /proc/interrupts, such as `eth0-TxRx-3`.
        name: String,
    },
    /// MTU (bytes).
    Mtu {
        /// Interface.
        interface: String,
    },
    /// Speed and duplex, as [`link::LinkSetting`] formats them.
    Link {
        /// Interface.
        interface: String,
    },
    /// Which frames the device stamps, as [`Stamping`] formats it.
    HardwareStamps {
        /// Interface.
        interface: String,
    },
    /// A setting of one NAPI instance. Ids increase whenever a device is opened, so the instance is identified by its
    /// position.
    Napi {
        /// Interface.
        interface: String,
        /// Position in the order of ids, from 0.
        place: usize,
        /// Which setting.
        key: NapiKey,
    },
}

/// A group of ethtool settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Group {
    /// Interrupt coalescing.
    Coalesce,
    /// Ring sizes.
    Rings,
    /// Channels.
    Channels,
    /// Offloads, `on` or `off`.
    Features,
    /// Flow control: `rx`, `tx`, `autoneg`, `on` or `off`.
    Pause,
    /// Header split (`tcp-data-split`), `on` or `off`.
    HeaderSplit,
}

/// Value of a flow rule that does not exist.
pub(crate) const NO_RULE: &str = "none";

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Setting::File { path } => match path.strip_prefix("/proc/sys") {
                Ok(name) => f.write_str(&name.to_string_lossy().replace('/', ".")),
                Err(_) => write!(f, "{}", path.display()),
            },
            Setting::Ethtool { interface, group, key } => {
                let group = match group {
                    Group::Coalesce => "coalesce",
                    Group::Rings => "ring",
                    Group::Channels => "channels",
                    Group::Features => "offload",
                    Group::Pause => "pause",
                    Group::HeaderSplit => "ring",
                };
                write!(f, "{interface} {group} {key}")
            }
            Setting::QueueCoalesce { interface, queue, key } => write!(f, "{interface} queue {queue} coalesce {key}"),
            Setting::HashFields { interface, flow } => write!(f, "{interface} hashed fields {flow}"),
            Setting::RssKey { interface } => write!(f, "{interface} RSS key"),
            Setting::FlowRule { interface, location } => write!(f, "{interface} flow rule {location}"),
            Setting::RssTable { interface } => write!(f, "{interface} RSS table"),
            Setting::Interrupt { interface, name } => write!(f, "{interface} interrupt {name}"),
            Setting::Mtu { interface } => write!(f, "{interface} MTU"),
            Setting::Link { interface } => write!(f, "{interface} speed and duplex"),
            Setting::HardwareStamps { interface } => write!(f, "{interface} hardware time stamps"),
            Setting::Napi { interface, place, key } => write!(f, "{interface} NAPI {place} {}", key.name()),
        }
    }
}

impl Setting {
    /// A sysctl by its dotted name.
    pub fn sysctl(name: &str) -> Setting {
        Setting::File { path: Path::new("/proc/sys").join(name.replace('.', "/")) }
    }

    /// A file of the kernel.
    pub fn file(path: impl Into<PathBuf>) -> Setting {
        Setting::File { path: path.into() }
    }

    /// Name of the interface that the setting belongs to; `None` for other settings.
    pub fn interface(&self) -> Option<&str> {
        match self {
            Setting::File { path } => path.strip_prefix(DEVICES).ok()?.iter().next()?.to_str(),
            Setting::Ethtool { interface, .. }
            | Setting::QueueCoalesce { interface, .. }
            | Setting::HashFields { interface, .. }
            | Setting::RssKey { interface }
            | Setting::FlowRule { interface, .. }
            | Setting::RssTable { interface }
            | Setting::Interrupt { interface, .. }
            | Setting::Mtu { interface }
            | Setting::Link { interface }
            | Setting::HardwareStamps { interface }
            | Setting::Napi { interface, .. } => Some(interface),
        }
    }

    /// The corresponding setting of another interface. The name of an interrupt stays the same.
    pub(crate) fn of_interface(&self, name: &str) -> Setting {
        let mut other = self.clone();
        match &mut other {
            Setting::File { path } => {
                if let Ok(below) = path.strip_prefix(DEVICES) {
                    *path = Path::new(DEVICES).join(name).join(below.components().skip(1).collect::<PathBuf>());
                }
            }
            Setting::Ethtool { interface, .. }
            | Setting::QueueCoalesce { interface, .. }
            | Setting::HashFields { interface, .. }
            | Setting::RssKey { interface }
            | Setting::FlowRule { interface, .. }
            | Setting::RssTable { interface }
            | Setting::Interrupt { interface, .. }
            | Setting::Mtu { interface }
            | Setting::Link { interface }
            | Setting::HardwareStamps { interface }
            | Setting::Napi { interface, .. } => name.clone_into(interface),
        }
        other
    }

    /// Name of the interface whose queues the driver recreates when the setting is written; `None` if it recreates no
    /// queues.
    pub(crate) fn renews_queues_of(&self) -> Option<&str> {
        match self {
            Setting::Ethtool { interface, group: Group::Channels | Group::Rings, .. } => Some(interface),
            _ => None,
        }
    }

    /// Whether the setting belongs to a network namespace and not to the whole host.
    pub fn is_of_namespace(&self) -> bool {
        self.interface().is_some() || matches!(self, Setting::File { path } if path.starts_with("/proc/sys/net"))
    }

    /// Reads the value in force, seen from the network namespace of the calling thread.
    ///
    /// # Errors
    /// The interface or file does not exist or may not be read, or the driver does not report the value.
    pub fn read(&self) -> io::Result<String> {
        match self {
            Setting::File { path } => Ok(fs::read_to_string(checked(path)?)?.trim().to_owned()),
            Setting::Ethtool { interface, group, key } => {
                let nic = nic::read(interface, Path::new("/sys"))?;
                figure(&nic, *group, key)
                    .ok_or_else(|| unsupported(format!("the driver of {interface} does not report {key}")))
            }
            Setting::QueueCoalesce { interface, queue, key } => {
                let value = per_queue::coalescing(interface, *queue)?.get(key).copied();
                let reason =
                    || unsupported(format!("{key} is no figure of a queue: expected one of {}", coalesce_keys()));
                value.map(|value| value.to_string()).ok_or_else(reason)
            }
            Setting::HashFields { interface, flow } => Ok(classify::hash_fields(interface, flow)?.to_string()),
            Setting::RssKey { interface } => {
                let key = nic::read(interface, Path::new("/sys"))?.rss.and_then(|rss| rss.key);
                key.ok_or_else(|| unsupported(format!("the driver of {interface} shows no RSS key")))
            }
            Setting::FlowRule { interface, location } => {
                Ok(classify::rule_at(interface, *location)?.map_or_else(|| NO_RULE.to_owned(), |found| found.rule))
            }
            Setting::RssTable { interface } => {
                let table = rss_table(&nic::read(interface, Path::new("/sys"))?);
                table.ok_or_else(|| unsupported(format!("the driver of {interface} shows no RSS table")))
            }
            Setting::Interrupt { interface, name } => {
                Ok(fs::read_to_string(interrupts::affinity_file(interface, name)?)?.trim().to_owned())
            }
            Setting::Mtu { interface } => {
                let mtu = Rtnl::new().link(interface)?.mtu_bytes;
                mtu.map(|mtu| mtu.to_string()).ok_or_else(|| unsupported(format!("{interface} has no MTU")))
            }
            Setting::Link { interface } => {
                let setting = settled_link(interface)?;
                let reason = || unsupported(format!("the driver of {interface} does not report speed and duplex"));
                setting.ok_or_else(reason)
            }
            Setting::HardwareStamps { interface } => Ok(Stamping::of(interface)?.to_string()),
            Setting::Napi { interface, place, key } => {
                let value = napi(interface, *place)?.figure(*key);
                let reason = || unsupported(format!("this kernel does not report {} of a NAPI instance", key.name()));
                value.map(|value| value.to_string()).ok_or_else(reason)
            }
        }
    }

    /// Writes a value. [`Setting::read`] then returns the value that the driver chose.
    ///
    /// # Errors
    /// The kernel or the driver refuses it.
    pub fn write(&self, value: &str) -> io::Result<()> {
        match self {
            Setting::File { path } => fs::write(checked(path)?, value),
            Setting::Ethtool { interface, group: Group::Features, key } => {
                let name = CString::new(key.as_str()).map_err(io::Error::other)?;
                let on = parse_switch(value)?;
                ethtool::set_feature(interface, &name, on)?;
                // A driver may switch an offload without a request (vmxnet3 LRO for an XDP program) without changing
                // the wanted value; writing the wanted value again then has no effect.
                if nic::read(interface, Path::new("/sys"))?.feature(key) == Some(!on) {
                    ethtool::set_feature(interface, &name, !on)?;
                    ethtool::set_feature(interface, &name, on)?;
                }
                Ok(())
            }
            Setting::Ethtool { interface, group: Group::Pause, key } => {
                ethtool::set_pause(interface, key, parse_switch(value)?)
            }
            Setting::Ethtool { interface, group: Group::HeaderSplit, .. } => {
                ethtool::set_header_split(interface, parse_switch(value)?)
            }
            Setting::QueueCoalesce { interface, queue, key } => {
                let what = Coalesce::in_order().find(|what| what.kernel_name() == key);
                let reason = || bad(format!("{key:?} is no figure of a queue: expected one of {}", coalesce_keys()));
                let value = value.parse().map_err(|_| bad(format!("{value:?} is no whole number")))?;
                per_queue::set_coalescing(interface, *queue, what.ok_or_else(reason)?, value)
            }
            Setting::HashFields { interface, flow } => {
                classify::set_hash_fields(interface, flow, value.parse::<HashFields>().map_err(bad)?)
            }
            Setting::RssKey { interface } => nic::set_rss_key(interface, value),
            Setting::FlowRule { interface, location } => match value {
                NO_RULE => classify::set_rule(interface, *location, None),
                rule => classify::set_rule(interface, *location, Some(&rule.parse::<PortRule>().map_err(bad)?)),
            },
            Setting::Ethtool { interface, group, key } => {
                let value = value.parse().map_err(|_| bad(format!("{value:?} is no whole number")))?;
                match group {
                    Group::Coalesce => ethtool::set_coalesce(interface, key, value),
                    Group::Rings => ethtool::set_ring(interface, key, value),
                    _ => ethtool::set_channels(interface, key, value),
                }
            }
            Setting::RssTable { interface } => nic::set_rss_table(interface, &table(value)?),
            Setting::Interrupt { interface, name } => fs::write(interrupts::affinity_file(interface, name)?, value),
            Setting::Mtu { interface } => {
                let mtu = value.parse().map_err(|_| bad(format!("MTU {value:?} is no whole number")))?;
                Rtnl::new().set_mtu(interface, mtu)
            }
            Setting::Link { interface } => link::set_link(interface, &value.parse()?),
            Setting::HardwareStamps { interface } => value.parse::<Stamping>().map_err(bad)?.set(interface),
            Setting::Napi { interface, place, key } => {
                let value = value.parse().map_err(|_| bad(format!("{value:?} is no whole number below 2^32")))?;
                netdev::set_napi(napi(interface, *place)?.id, *key, value)
            }
        }
    }
}

/// How speed and duplex of a link are determined, as text ([`link::LinkSetting`]). For a link that was just set by hand
/// this waits until the link is up, because the driver does not report speed and duplex before; `by hand, down` if the
/// link stays down. `None` if the driver does not report whether the link is negotiated.
fn settled_link(interface: &str) -> io::Result<Option<String>> {
    let deadline = Instant::now() + LINK_TIME;
    loop {
        let nic = nic::read(interface, Path::new("/sys"))?;
        let setting = nic.link_setting().map(|setting| setting.to_string());
        if setting.is_some() || nic.autoneg.is_none() {
            return Ok(setting);
        }
        if !nic.up || Instant::now() > deadline {
            return Ok(Some("by hand, down".to_owned()));
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// A NAPI instance of an interface, by its position.
fn napi(interface: &str, place: usize) -> io::Result<netdev::Napi> {
    let napis = netdev::napis(Rtnl::new().link(interface)?.index)?;
    let count = napis.len();
    napis.into_iter().nth(place).ok_or_else(|| {
        let reason = format!("{interface} has {count} NAPI instances, so there is no number {place}; is it up?");
        io::Error::new(io::ErrorKind::NotFound, reason)
    })
}

/// The value of an ethtool setting in an interface's description; `None` if the driver does not report it.
pub(crate) fn figure(nic: &Nic, group: Group, key: &str) -> Option<String> {
    let map = match group {
        Group::Coalesce => &nic.coalesce,
        Group::Rings => &nic.rings,
        Group::Channels => &nic.channels,
        Group::Features => return nic.feature(key).map(on_or_off),
        Group::Pause => return nic.pause.get(key).copied().map(on_or_off),
        Group::HeaderSplit => return nic.header_split.map(on_or_off),
    };
    map.get(key).map(u32::to_string)
}

fn on_or_off(on: bool) -> String {
    if on { "on" } else { "off" }.to_owned()
}

fn coalesce_keys() -> String {
    Coalesce::in_order().map(Coalesce::kernel_name).collect::<Vec<_>>().join(", ")
}

/// The RSS table in the format of [`Setting::RssTable`]; `None` if the driver does not report a table.
pub(crate) fn rss_table(nic: &Nic) -> Option<String> {
    let table = nic.rss.as_ref().map(|rss| &rss.indirection).filter(|table| !table.is_empty())?;
    Some(table.iter().map(u32::to_string).collect::<Vec<_>>().join(","))
}

/// Network namespace of the calling thread, by the inode number of its file.
pub(crate) fn namespace() -> Option<u64> {
    fs::metadata("/proc/thread-self/ns/net").ok().map(|file| file.ino())
}

/// What keeps a network namespace alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Keeper {
    /// A name given by `ip netns`.
    Name(String),
    /// A process, by its pid.
    Process(String),
}

impl Keeper {
    /// A command line that runs `command` in that namespace.
    pub(crate) fn inside(&self, command: &str) -> String {
        match self {
            Self::Name(name) => format!("ip netns exec {} {command}", quote::shell(name)),
            Self::Process(pid) => format!("nsenter --target {pid} --net {command}"),
        }
    }
}

/// What keeps a namespace alive: its name, otherwise the process in it with the lowest pid; `None` if the namespace is
/// gone.
pub(crate) fn namespace_keeper(number: u64) -> Option<Keeper> {
    let is = |path: &Path| fs::metadata(path).is_ok_and(|file| file.ino() == number);
    let named = procfs::names("/run/netns").into_iter().find(|name| is(&Path::new("/run/netns").join(name)));
    let mut pids: Vec<u32> = procfs::names("/proc").iter().filter_map(|name| name.parse().ok()).collect();
    // The process with the lowest pid is usually the oldest and so the most likely to stay.
    pids.sort_unstable();
    let of = || pids.into_iter().find(|pid| is(&Path::new("/proc").join(pid.to_string()).join("ns/net")));
    named.map(Keeper::Name).or_else(|| Some(Keeper::Process(of()?.to_string())))
}

/// Refuses files that netcliff does not set, whether a plan or a journal names them.
fn checked(path: &Path) -> io::Result<&Path> {
    if permitted::is_known_file(path) {
        return Ok(path);
    }
    Err(bad(format!("netcliff does not set the file {}, so it is not touched", path.display())))
}

fn bad(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, reason)
}

fn unsupported(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, reason)
}

fn parse_switch(value: &str) -> io::Result<bool> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(bad(format!("{value:?} is neither on nor off"))),
    }
}

fn table(value: &str) -> io::Result<Vec<u32>> {
    if value == "default" {
        return Ok(Vec::new());
    }
    let entries = value.split(',').map(|entry| entry.parse().map_err(|_| bad(format!("{entry:?} is no queue"))));
    entries.collect()
}

#[cfg(test)]
mod tests;

mod same {
    //! Compares two values of a setting.

    /// Whether the kernel treats both as equal: spaces and tabs, leading zeros of CPU masks and the empty mask do not
    /// matter.
    pub fn same(a: &str, b: &str) -> bool {
        let plain = |text: &str| -> Vec<String> { text.split_whitespace().map(without_zeros).collect() };
        plain(a) == plain(b)
    }

    /// Removes zeros and commas before the first significant digit of a CPU mask, whose commas separate groups of eight
    /// digits. A list of CPUs or queues, in which 0 is a number, is returned unchanged.
    fn without_zeros(word: &str) -> String {
        let is_list = word.split(',').skip(1).any(|group| group.len() != 8);
        let bare = if is_list { word } else { word.trim_start_matches(['0', ',']) };
        if bare.is_empty() { "0".to_owned() } else { bare.to_owned() }
    }
}
