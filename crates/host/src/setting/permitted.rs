//! Which settings may be written: [`Setting::check`]. A plan, a journal or an agent's client names files and devices,
//! and root writes them.

use super::{Group, NO_RULE, Setting};
use crate::nic::classify::{HashFields, PortRule};
use netcliff_core::quote::in_short;
use std::path::{Component, Path};

/// Permitted sysctls below /proc/sys: they set how packets are processed and buffered. Sysctls that set which packets
/// are accepted, or that run a program, are excluded.
const SYSCTLS: [&str; 38] = [
    "net/core/busy_poll",
    "net/core/busy_read",
    "net/core/dev_weight",
    "net/core/dev_weight_rx_bias",
    "net/core/dev_weight_tx_bias",
    "net/core/flow_limit_cpu_bitmap",
    "net/core/flow_limit_table_len",
    "net/core/gro_normal_batch",
    "net/core/netdev_budget",
    "net/core/netdev_budget_usecs",
    "net/core/netdev_max_backlog",
    "net/core/netdev_tstamp_prequeue",
    "net/core/optmem_max",
    "net/core/rmem_default",
    "net/core/rmem_max",
    "net/core/rps_default_mask",
    "net/core/rps_sock_flow_entries",
    "net/core/skb_defer_max",
    "net/core/somaxconn",
    "net/core/wmem_default",
    "net/core/wmem_max",
    "net/ipv4/tcp_adv_win_scale",
    "net/ipv4/tcp_autocorking",
    "net/ipv4/tcp_limit_output_bytes",
    "net/ipv4/tcp_max_syn_backlog",
    "net/ipv4/tcp_mem",
    "net/ipv4/tcp_min_tso_segs",
    "net/ipv4/tcp_moderate_rcvbuf",
    "net/ipv4/tcp_mtu_probing",
    "net/ipv4/tcp_notsent_lowat",
    "net/ipv4/tcp_rmem",
    "net/ipv4/tcp_slow_start_after_idle",
    "net/ipv4/tcp_tso_rtt_log",
    "net/ipv4/tcp_tso_win_divisor",
    "net/ipv4/tcp_wmem",
    "net/ipv4/udp_mem",
    "net/ipv4/udp_rmem_min",
    "net/ipv4/udp_wmem_min",
];
/// Permitted files of an interface in sysfs.
const OF_INTERFACE: [&str; 5] = ["flags", "gro_flush_timeout", "napi_defer_hard_irqs", "threaded", "tx_queue_len"];
/// Permitted files of an interface's queues in sysfs.
const OF_RECEIVE_QUEUE: [&str; 2] = ["rps_cpus", "rps_flow_cnt"];
const OF_TRANSMIT_QUEUE: [&str; 3] = ["xps_cpus", "xps_rxqs", "tx_maxrate"];
/// Longest value (bytes): an RSS table of the largest device.
const LONGEST_VALUE: usize = 64 << 10;

/// Whether the kernel accepts `name` as the name of an interface (dev_valid_name), and the name is printable.
pub(crate) fn is_interface_name(name: &str) -> bool {
    let odd = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '/' | ':');
    !matches!(name, "" | "." | "..") && name.len() < libc::IFNAMSIZ && !name.contains(odd)
}

/// Whether `path` is one of the files that netcliff sets.
pub(crate) fn is_known_file(path: &Path) -> bool {
    let parts: Option<Vec<&str>> = path
        .components()
        .map(|part| match part {
            Component::RootDir => Some("/"),
            Component::Normal(name) => name.to_str(),
            _ => None,
        })
        .collect();
    match parts.as_deref().unwrap_or_default() {
        ["/", "proc", "sys", name @ ..] => SYSCTLS.contains(&name.join("/").as_str()),
        ["/", "proc", "irq", number, "smp_affinity_list" | "smp_affinity"] => is_number(number),
        ["/", "sys", "class", "net", name, file] => is_interface_name(name) && OF_INTERFACE.contains(file),
        ["/", "sys", "class", "net", name, "queues", queue, file] => {
            let of = |prefix, files: &[&str]| queue.strip_prefix(prefix).is_some_and(is_number) && files.contains(file);
            is_interface_name(name) && (of("rx-", &OF_RECEIVE_QUEUE) || of("tx-", &OF_TRANSMIT_QUEUE))
        }
        ["/", "sys", "devices", "system", "cpu", rest @ ..] => match rest {
            ["cpufreq", policy, "scaling_governor"] => policy.strip_prefix("policy").is_some_and(is_number),
            [cpu, "cpufreq", "scaling_governor"] => cpu.strip_prefix("cpu").is_some_and(is_number),
            [cpu, "cpuidle", state, "disable"] => {
                cpu.strip_prefix("cpu").is_some_and(is_number) && state.strip_prefix("state").is_some_and(is_number)
            }
            _ => false,
        },
        _ => false,
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.len() <= 10 && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether `key` names a permitted offload: checksums, segmentation and its reverse, scatter-gather, VLAN tags, hashes.
/// Excluded are offloads that loop frames back or pass on damaged frames (`loopback`, `rx-all`, `rx-fcs`), or move work
/// to where it cannot be measured (`hw-tc-offload`).
fn is_offload(key: &str) -> bool {
    let exact = ["rx-checksum", "rx-gro", "rx-gro-hw", "rx-gro-list", "rx-udp-gro-forwarding", "rx-lro", "rx-hashing"];
    let also = [
        "highdma",
        "tx-nocache-copy",
        "rx-vlan-hw-parse",
        "tx-vlan-hw-insert",
        "rx-udp_tunnel-port-offload",
        "rx-ntuple-filter",
    ];
    let prefixes = ["tx-checksum-", "tx-scatter-gather", "tx-gso-"];
    exact.contains(&key)
        || also.contains(&key)
        || prefixes.iter().any(|prefix| key.starts_with(prefix))
        || (key.starts_with("tx-") && key.ends_with("-segmentation"))
}

impl Setting {
    /// Refuses a file or an offload that is not listed in this module, an invalid name of an interface, and a value
    /// that is not one line of text. The existence of the device is left to the kernel to check.
    ///
    /// # Errors
    /// A sentence that names the refused value or name.
    pub fn check(&self, value: &str) -> Result<(), String> {
        if value.contains(char::is_control) || value.len() > LONGEST_VALUE {
            return Err(format!(
                "the value {:?} of {} is no line of text",
                in_short(value),
                in_short(&self.to_string())
            ));
        }
        match self {
            Setting::File { path } if !is_known_file(path) => {
                let name = in_short(&path.to_string_lossy());
                return Err(format!("netcliff does not set the file {name} (docs/tune.md lists those it sets)"));
            }
            Setting::Ethtool { group: Group::Features, key, .. } if !is_offload(key) => {
                return Err(format!("{:?} is no offload that netcliff sets", in_short(key)));
            }
            Setting::Ethtool { group: Group::Pause, key, .. } if !["rx", "tx", "autoneg"].contains(&key.as_str()) => {
                return Err(format!("{:?} is no switch of flow control: expected rx, tx or autoneg", in_short(key)));
            }
            // A flow rule may only choose a queue. A rule that drops packets is refused.
            Setting::FlowRule { .. } if value != NO_RULE => {
                value.parse::<PortRule>()?;
            }
            Setting::HashFields { .. } => {
                value.parse::<HashFields>()?;
            }
            Setting::Ethtool { key, .. } | Setting::QueueCoalesce { key, .. } if !is_word(key) => {
                return Err(format!("{:?} is no name of a setting", in_short(key)));
            }
            Setting::Interrupt { name, .. }
                if name.is_empty() || name.contains(|c: char| c.is_whitespace() || c.is_control()) =>
            {
                return Err(format!("{:?} is no name of an interrupt", in_short(name)));
            }
            _ => {}
        }
        match self.interface() {
            Some(name) if !is_interface_name(name) => Err(format!("{:?} is no name of an interface", in_short(name))),
            _ => Ok(()),
        }
    }
}

fn is_word(key: &str) -> bool {
    !key.is_empty()
        && key.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_netcliff_sets_is_known_and_nothing_beside_it() {
        for path in [
            "/proc/sys/net/core/netdev_budget",
            "/proc/sys/net/ipv4/tcp_rmem",
            "/proc/irq/40/smp_affinity_list",
            "/sys/class/net/eth0/gro_flush_timeout",
            "/sys/class/net/eth0.7/queues/rx-12/rps_cpus",
            "/sys/devices/system/cpu/cpu3/cpuidle/state2/disable",
            "/sys/devices/system/cpu/cpufreq/policy0/scaling_governor",
        ] {
            assert!(is_known_file(Path::new(path)), "{path}");
        }
        for path in [
            "/proc/sys/kernel/core_pattern",
            "/proc/sys/kernel/modprobe",
            "/proc/sys/net/core/../../kernel/core_pattern",
            "/proc/sys/net/core/bpf_jit_harden",
            "/proc/sys/net/ipv4/ip_forward",
            "/proc/irq/../sysrq-trigger",
            "/proc/irq/40/../../sysrq-trigger/smp_affinity_list",
            "/proc/sysrq-trigger",
            "/sys/power/state",
            "/sys/class/net/eth0/device/reset",
            "/sys/class/net/../../power/flags",
            "/sys/class/net/eth0/queues/rx-0/../../flags",
            "/sys/devices/system/cpu/cpu1/online",
            "/etc/passwd",
            "proc/sys/net/core/netdev_budget",
            "",
        ] {
            assert!(!is_known_file(Path::new(path)), "{path}");
        }
    }

    #[test]
    fn odd_names_values_and_offloads_are_refused() {
        let feature =
            |key: &str| Setting::Ethtool { interface: "eth0".into(), group: Group::Features, key: key.into() };
        for key in ["rx-lro", "tx-tcp-segmentation", "tx-checksum-ip-generic", "tx-udp-segmentation", "rx-gro-hw"] {
            assert_eq!(feature(key).check("on"), Ok(()), "{key}");
        }
        for key in ["loopback", "rx-all", "rx-fcs", "hw-tc-offload", "x;id", ""] {
            assert!(feature(key).check("on").is_err(), "{key}");
        }
        let mtu = |interface: &str| Setting::Mtu { interface: interface.into() };
        for name in ["", ".", "..", "a b", "a/b", "a:b", "a\nb", "abcdefghijklmnop", "a\x1b"] {
            assert!(mtu(name).check("1500").is_err(), "{name:?}");
        }
        assert_eq!(mtu("$(id>PWN)").check("1500"), Ok(()), "the kernel takes it");
        assert!(mtu("eth0").check("1500\nid").is_err());
        let pause = |key: &str| {
            Setting::Ethtool { interface: "eth0".into(), group: Group::Pause, key: key.into() }.check("off")
        };
        assert!(pause("rx").is_ok() && pause("loopback").is_err_and(|why| why.contains("rx, tx or autoneg")));
        let rule = |text: &str| Setting::FlowRule { interface: "eth0".into(), location: 3 }.check(text);
        assert!(rule("none").is_ok() && rule("udp4 dst-port 53 action 2").is_ok());
        assert!(rule("udp4 dst-port 53 action -1").is_err(), "that drops");
        let fields = |text: &str| Setting::HashFields { interface: "eth0".into(), flow: "udp4".into() }.check(text);
        assert!(fields("sdfn").is_ok() && fields("sdfx").is_err());
    }
}
