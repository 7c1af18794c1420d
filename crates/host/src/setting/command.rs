//! A setting in the words of a shell, and what it takes to make it.

use super::{Group, Setting, table};
use crate::nic::link::LinkSetting;
use crate::nic::stamping::Stamping;

impl Setting {
    /// The shell command that sets a value.
    pub fn command(&self, value: &str) -> String {
        match self {
            Setting::File { path } => match path.strip_prefix("/proc/sys") {
                Ok(_) => format!("sysctl -w {self}='{value}'"),
                Err(_) => format!("echo '{value}' > {}", path.display()),
            },
            Setting::Ethtool { interface, group, key } => match group {
                Group::Coalesce if key.starts_with("adaptive") => {
                    format!("ethtool -C {interface} {key} {}", if value == "0" { "off" } else { "on" })
                }
                Group::Coalesce => format!("ethtool -C {interface} {key} {value}"),
                Group::Rings => format!("ethtool -G {interface} {key} {value}"),
                Group::Channels => format!("ethtool -L {interface} {key} {value}"),
                Group::Features => format!("ethtool -K {interface} {key} {value}"),
            },
            Setting::RssTable { interface } => match equal(value) {
                Some(queues) => format!("ethtool -X {interface} equal {queues}"),
                None => format!("# RSS table of {interface}: {value}"),
            },
            Setting::Interrupt { name, .. } => format!(
                "echo '{value}' > /proc/irq/$(awk '$NF == \"{name}\" {{ print $1 + 0 }}' /proc/interrupts)/smp_affinity_list"
            ),
            Setting::Mtu { interface } => format!("ip link set dev {interface} mtu {value}"),
            Setting::Link { interface } => format!("ethtool -s {interface} {}", link(value)),
            // Of linuxptp.
            Setting::HardwareStamps { interface } => match value.parse::<Stamping>() {
                Ok(stamping) => {
                    format!("hwstamp_ctl -i {interface} -t {} -r {}", stamping.transmit, stamping.receive)
                }
                Err(_) => format!("# hardware time stamps of {interface}: {value}"),
            },
            // The kernel's own tool (tools/net/ynl); the inner part finds the id of today.
            Setting::Napi { interface, place, key } => format!(
                "ynl --family netdev --do napi-set --json \"{{\\\"id\\\": $(ynl --family netdev --output-json --dump napi-get \
                 --json \"{{\\\"ifindex\\\": $(cat /sys/class/net/{interface}/ifindex)}}\" | grep -o '\"id\": *[0-9]*' | \
                 tr -dc '0-9\\n' | sort -n | sed -n {}p), \\\"{}\\\": {value}}}\"",
                place + 1,
                key.name()
            ),
        }
    }

    /// The right that writing it takes.
    pub fn right(&self) -> &'static str {
        match self {
            // Network sysctls and the queues of an interface ask for the capability over their namespace besides the file's owner.
            Setting::File { path } if path.starts_with("/proc/sys/net") || path.starts_with("/sys/class/net") => {
                "root or CAP_NET_ADMIN with CAP_DAC_OVERRIDE"
            }
            Setting::File { .. } | Setting::Interrupt { .. } => "root, whose file it is",
            _ => "CAP_NET_ADMIN, which root has",
        }
    }
}

/// Speed and duplex in the words of ethtool; as they are where the value is none.
fn link(value: &str) -> String {
    match value.parse() {
        Ok(LinkSetting::Forced(mode)) => {
            let duplex = if mode.half_duplex { "half" } else { "full" };
            format!("speed {} duplex {duplex} autoneg off", mode.speed_mbps)
        }
        Ok(LinkSetting::Negotiated(offers)) => {
            let offers: String = offers.iter().map(|name| format!(" {name} on")).collect();
            format!("autoneg on advertise{offers}")
        }
        Err(_) => value.to_owned(),
    }
}

/// So many queues dealt in turn.
fn equal(value: &str) -> Option<u32> {
    let table = table(value).ok().filter(|table| !table.is_empty())?;
    let queues = table.iter().max()? + 1;
    (0..).zip(&table).all(|(place, queue): (u32, &u32)| *queue == place % queues).then_some(queues)
}
