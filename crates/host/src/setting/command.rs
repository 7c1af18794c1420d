//! Formats a setting as a shell command, and names the right to run it.

use super::{Group, NO_RULE, Setting, table};
use crate::nic::classify::PortRule;
use crate::nic::key_bytes;
use crate::nic::link::LinkSetting;
use crate::nic::stamping::Stamping;
use netcliff_core::quote::{one_line, shell, shell_words};

impl Setting {
    /// Shell command that sets a value, with each name and value quoted as a word; a comment if no command sets it.
    pub fn command(&self, value: &str) -> String {
        match self {
            Setting::File { path } => match path.strip_prefix("/proc/sys") {
                Ok(_) => format!("sysctl -w {}={}", shell(&self.sysctl_name().unwrap_or_default()), shell(value)),
                Err(_) => format!("{} > {}", echo(value), shell(&path.to_string_lossy())),
            },
            Setting::Ethtool { interface, .. }
            | Setting::QueueCoalesce { interface, .. }
            | Setting::HashFields { interface, .. }
            | Setting::RssKey { interface }
            | Setting::FlowRule { interface, .. } => match self.ethtool_words(interface, value) {
                Some(words) => shell_words(words.iter().map(String::as_str)),
                None => comment(self, value),
            },
            Setting::RssTable { interface } => match equal(value) {
                Some(queues) => format!("ethtool -X {} equal {queues}", shell(interface)),
                None => comment(self, value),
            },
            // The name is passed in the environment, so that awk does not interpret it as a pattern, number or escape.
            Setting::Interrupt { name, .. } => format!(
                "{} > /proc/irq/$(name={} awk '$NF \"\" == ENVIRON[\"name\"] {{ print $1 + 0 }}' /proc/interrupts)/smp_affinity_list",
                echo(value),
                shell(name)
            ),
            Setting::Mtu { interface } => format!("ip link set dev {} mtu {}", shell(interface), shell(value)),
            Setting::Link { interface } => match link(value) {
                Some(words) => {
                    format!("ethtool -s {} {}", shell(interface), shell_words(words.iter().map(String::as_str)))
                }
                None => comment(self, value),
            },
            // hwstamp_ctl of linuxptp.
            Setting::HardwareStamps { interface } => match value.parse::<Stamping>() {
                Ok(stamping) => {
                    format!("hwstamp_ctl -i {} -t {} -r {}", shell(interface), stamping.transmit, stamping.receive)
                }
                Err(_) => comment(self, value),
            },
            Setting::Napi { interface, place, key } => match value.parse::<u64>() {
                Ok(value) => napi(interface, *place, key.name(), value),
                Err(_) => comment(self, value),
            },
        }
    }

    /// Program name and arguments of the ethtool command that sets a value of a device; `None` if ethtool does not set
    /// it.
    pub(crate) fn ethtool_words(&self, device: &str, value: &str) -> Option<Vec<String>> {
        let words = |option: &str, more: &[&str]| {
            let all = ["ethtool", option, device].into_iter().chain(more.iter().copied());
            Some(all.map(str::to_owned).collect())
        };
        match self {
            Setting::Ethtool { group, key, .. } => match group {
                Group::Coalesce if key.starts_with("cqe-mode") => words("-C", &[key, on_or_off(value)]),
                Group::Coalesce => words("-C", &[key, of_coalescing(key, value)]),
                Group::Rings => words("-G", &[key, value]),
                Group::Channels => words("-L", &[key, value]),
                Group::Features => words("-K", &[key, value]),
                Group::Pause => words("-A", &[key, value]),
                Group::HeaderSplit => words("-G", &[key, value]),
            },
            Setting::QueueCoalesce { queue, key, .. } => {
                let mask = queue_mask(*queue);
                // The device is the first argument, as in all commands here.
                words("--per-queue", &["queue_mask", &mask, "--coalesce", key, of_coalescing(key, value)])
            }
            Setting::HashFields { flow, .. } => match value {
                "-" => None,
                fields => words("-N", &["rx-flow-hash", flow, fields]),
            },
            Setting::RssKey { .. } => {
                let bytes = key_bytes(value).ok()?;
                let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                words("-X", &["hkey", &bytes.join(":")])
            }
            Setting::FlowRule { location, .. } => match value.parse::<PortRule>() {
                Ok(PortRule { flow, port, queue }) => {
                    let (port, queue, at) = (port.to_string(), queue.to_string(), location.to_string());
                    words("-N", &["flow-type", &flow, "dst-port", &port, "action", &queue, "loc", &at])
                }
                Err(_) if value == NO_RULE => words("-N", &["delete", &location.to_string()]),
                Err(_) => None,
            },
            Setting::RssTable { .. } => words("-X", &["equal", &equal(value)?.to_string()]),
            Setting::Link { .. } => {
                let link = link(value)?;
                words("-s", &link.iter().map(String::as_str).collect::<Vec<_>>())
            }
            _ => None,
        }
    }

    /// Name of a sysctl for sysctl(8): with dots, or with slashes if a part contains a dot
    /// (`net/ipv4/conf/eth0.7/forwarding`). `None` if it is not a sysctl.
    pub(crate) fn sysctl_name(&self) -> Option<String> {
        let Setting::File { path } = self else { return None };
        let name = path.strip_prefix("/proc/sys").ok()?.to_string_lossy();
        Some(if name.contains('.') { name.into_owned() } else { name.replace('/', ".") })
    }

    /// The right needed to write the setting.
    pub fn right(&self) -> &'static str {
        match self {
            // Network sysctls and the queues of an interface need the capability over their namespace in addition to
            // the file's owner.
            Setting::File { path } if path.starts_with("/proc/sys/net") || path.starts_with("/sys/class/net") => {
                "root or CAP_NET_ADMIN with CAP_DAC_OVERRIDE"
            }
            Setting::File { .. } | Setting::Interrupt { .. } => "root, whose file it is",
            _ => "CAP_NET_ADMIN, which root has",
        }
    }
}

/// A coalescing value as a word of ethtool: `on` or `off` if the key is an adaptive switch.
pub(crate) fn of_coalescing<'a>(key: &str, value: &'a str) -> &'a str {
    if is_adaptive(key) { on_or_off(value) } else { value }
}

/// Whether a coalescing key is a switch with which the driver chooses the other values.
pub fn is_adaptive(key: &str) -> bool {
    key.starts_with("adaptive")
}

fn on_or_off(value: &str) -> &'static str {
    if value == "0" { "off" } else { "on" }
}

/// Comment for a setting that no command sets.
fn comment(setting: &Setting, value: &str) -> String {
    format!("# {}", one_line(&format!("{setting}: {value}")))
}

/// Start of a command that writes a value to a file: `echo` if every shell's echo prints it unchanged.
fn echo(value: &str) -> String {
    let same = !value.is_empty() && !value.starts_with('-') && !value.contains('\\');
    format!("{} {}", if same { "echo" } else { "printf '%s\\n'" }, shell(value))
}

/// Mask of a queue: `0x4` for queue 2; for queues from 32 on with more digits.
fn queue_mask(queue: u32) -> String {
    format!("0x{:x}{}", 1 << (queue % 4), "0".repeat((queue / 4) as usize))
}

/// Speed and duplex as ethtool arguments; `None` if the value is not a link setting.
fn link(value: &str) -> Option<Vec<String>> {
    let words: Vec<String> = match value.parse().ok()? {
        LinkSetting::Forced(mode) => {
            let (speed, duplex) = (mode.speed_mbps.to_string(), if mode.half_duplex { "half" } else { "full" });
            ["speed", &speed, "duplex", duplex, "autoneg", "off"].map(str::to_owned).into()
        }
        LinkSetting::Negotiated(offers) => {
            let offers = offers.iter().flat_map(|name| [name.as_str(), "on"]);
            ["autoneg", "on", "advertise"].into_iter().chain(offers).map(str::to_owned).collect()
        }
    };
    Some(words)
}

/// Command of the kernel's own tool (tools/net/ynl); its inner part looks up the present id.
fn napi(interface: &str, place: usize, key: &str, value: u64) -> String {
    let ifindex = format!("/sys/class/net/{interface}/ifindex");
    format!(
        "ynl --family netdev --do napi-set --json \"{{\\\"id\\\": $(ynl --family netdev --output-json --dump napi-get \
         --json \"{{\\\"ifindex\\\": $(cat {})}}\" | grep -o '\"id\": *[0-9]*' | \
         tr -dc '0-9\\n' | sort -n | sed -n {}p), \\\"{key}\\\": {value}}}\"",
        shell(&ifindex),
        place + 1,
    )
}

/// Number of queues of an RSS table that is round robin over them; `None` for other tables.
fn equal(value: &str) -> Option<u32> {
    let table = table(value).ok().filter(|table| !table.is_empty())?;
    let queues = table.iter().max()? + 1;
    (0..).zip(&table).all(|(place, queue): (u32, &u32)| *queue == place % queues).then_some(queues)
}
