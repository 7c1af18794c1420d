//! What the stack does with each packet in addition to carrying it: netfilter and security modules.

use super::NarrowPath;
use crate::{files, procfs};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, io, path::Path};

/// Modules that netfilter needs to look at packets.
pub(super) const FILTERS: &[&str] =
    &["nf_conntrack", "nf_tables", "ip_tables", "ip6_tables", "ebtables", "br_netfilter", "nf_nat"];

/// Parts of the kernel that examine each packet.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Network {
    /// Parts of netfilter that are loaded as modules, or that have files of their own in /proc.
    pub netfilter: Vec<String>,
    /// Number of tracked connections.
    pub conntrack_entries: Option<u64>,
    /// Largest number of tracked connections.
    pub conntrack_max: Option<u64>,
    /// SELinux mode: `enforcing` or `permissive`; `None` without SELinux.
    pub selinux: Option<String>,
    /// Active security modules; `None` if this user may not read them.
    pub security_modules: Option<String>,
    /// Interfaces with IPv6. The kernel disables IPv6 on an interface whose MTU is too small.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ipv6: Vec<String>,
    /// Paths with a smaller MTU than their interface, as far as the kernel knows; the narrowest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub narrow_paths: Vec<NarrowPath>,
}

impl Network {
    pub(super) fn read(root: &Path, missing: &mut BTreeMap<String, String>) -> Network {
        let conntrack = root.join("proc/sys/net/netfilter");
        let lsm = noted(root, "sys/kernel/security/lsm", missing);
        Network {
            netfilter: filters(root),
            conntrack_entries: procfs::number(conntrack.join("nf_conntrack_count")),
            conntrack_max: procfs::number(conntrack.join("nf_conntrack_max")),
            selinux: procfs::text(root.join("sys/fs/selinux/enforce"))
                .map(|mode| if mode == "1" { "enforcing" } else { "permissive" }.to_owned()),
            security_modules: lsm,
            ipv6: with_ipv6(root),
            narrow_paths: Vec::new(),
        }
    }
}

/// Interfaces whose `disable_ipv6` is 0. Without the file IPv6 is off (a kernel without IPv6, or too small an MTU).
fn with_ipv6(root: &Path) -> Vec<String> {
    let all = root.join("proc/sys/net/ipv6/conf");
    let is_on = |name: &String| procfs::number::<u32>(all.join(name).join("disable_ipv6")) == Some(0);
    let interfaces = procfs::names(&all).into_iter().filter(|name| !matches!(name.as_str(), "all" | "default"));
    interfaces.filter(is_on).collect()
}

fn filters(root: &Path) -> Vec<String> {
    let modules = procfs::whole(root.join("proc/modules"));
    let loaded: Vec<&str> = modules.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let built_in = [
        ("nf_conntrack", "proc/sys/net/netfilter/nf_conntrack_count"),
        ("ip_tables", "proc/net/ip_tables_names"),
        ("ip6_tables", "proc/net/ip6_tables_names"),
        ("br_netfilter", "proc/sys/net/bridge/bridge-nf-call-iptables"),
    ];
    let there = |name: &str| {
        loaded.contains(&name) || built_in.iter().any(|(part, file)| *part == name && root.join(file).exists())
    };
    FILTERS.iter().filter(|name| there(name)).map(|name| (*name).to_owned()).collect()
}

/// The text of a file. If this user may not read it, notes in `missing` that root is needed.
fn noted(root: &Path, file: &str, missing: &mut BTreeMap<String, String>) -> Option<String> {
    if let Err(error) = files::bytes(&root.join(file), files::MOST_BYTES)
        && error.kind() == io::ErrorKind::PermissionDenied
    {
        missing.insert(file.into(), format!("/{file} can be read by root only"));
    }
    procfs::text(root.join(file))
}
