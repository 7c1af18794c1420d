//! Names of drop reasons, from the running kernel's type information.
//!
//! `enum skb_drop_reason` has the reasons of the core network stack. The upper half of a number is the subsystem (`enum
//! skb_drop_reason_subsys`), whose reasons are in a separate enum, possibly in a module. Sources:
//! include/net/dropreason.h, include/net/dropreason-core.h.

use super::TracerError;
use libbpf_rs::btf::{
    Btf, BtfKind,
    types::{Enum, FuncProto, Ptr, Typedef},
};
use libbpf_rs::{HasSize as _, ReferencesType as _};
use std::collections::BTreeMap;

/// Position of the subsystem in a reason's number.
const SUBSYSTEM_SHIFT: u32 = 16;

/// The kernel's names of its reasons.
#[derive(Debug, Clone, Default)]
pub(super) struct Names {
    reasons: BTreeMap<u32, String>,
    subsystems: BTreeMap<u32, String>,
}

impl Names {
    /// Names for the reasons of this kernel's tracepoint; `None` if the tracepoint gives no reasons.
    ///
    /// # Errors
    /// This kernel has no such tracepoint.
    pub(super) fn of_tracepoint(btf: &Btf<'_>) -> Result<Option<Names>, TracerError> {
        let values =
            tracepoint_values(btf).ok_or_else(|| TracerError::new("this kernel has no tracepoint skb:kfree_skb"))?;
        Ok((values >= 3).then(|| Names::from_types(btf)).filter(Names::has_reasons))
    }

    /// Names from the running kernel's types.
    pub(super) fn from_types(btf: &Btf<'_>) -> Names {
        let mut names = Names {
            reasons: members(btf, "skb_drop_reason", "SKB_DROP_REASON_"),
            subsystems: members(btf, "skb_drop_reason_subsys", "SKB_DROP_REASON_SUBSYS_"),
        };
        names.add_of_subsystems(btf);
        for module in crate::procfs::names("/sys/kernel/btf")
            .iter()
            .filter(|name| matches!(name.as_str(), "mac80211" | "openvswitch"))
        {
            // The types of a module extend those of the kernel. If the library cannot read a module's types, only the
            // kernel's are used.
            if let Ok(btf) = Btf::from_path(format!("/sys/kernel/btf/{module}")) {
                names.add_of_subsystems(&btf);
            }
        }
        names
    }

    /// Adds the reasons of subsystems, such as `enum mac80211_drop_reason` and `enum ovs_drop_reason`; all their
    /// numbers are above the numbers of the core's reasons.
    fn add_of_subsystems(&mut self, btf: &Btf<'_>) {
        for one in btf.type_by_kind::<Enum<'_>>() {
            let Some(name) = one.name().and_then(|name| name.to_str()) else { continue };
            if !name.ends_with("drop_reason") || name == "skb_drop_reason" {
                continue;
            }
            for member in one.iter() {
                let number = member.value as u32;
                let Some(text) = member.name.and_then(|name| name.to_str()) else { continue };
                if number >> SUBSYSTEM_SHIFT != 0 && !text.starts_with("__") {
                    self.reasons.entry(number).or_insert_with(|| text.to_owned());
                }
            }
        }
    }

    /// Name of a reason.
    pub(super) fn of(&self, reason: u32) -> String {
        if let Some(name) = self.reasons.get(&reason) {
            return name.clone();
        }
        match self.subsystems.get(&(reason >> SUBSYSTEM_SHIFT)) {
            Some(subsystem) if reason >> SUBSYSTEM_SHIFT != 0 => format!("{subsystem}_{}", reason & 0xffff),
            _ => format!("reason {reason}"),
        }
    }

    /// True if the kernel has reasons.
    pub(super) fn has_reasons(&self) -> bool {
        !self.reasons.is_empty()
    }

    /// Number of names.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.reasons.len()
    }
}

fn members(btf: &Btf<'_>, name: &str, prefix: &str) -> BTreeMap<u32, String> {
    let Some(one) = btf.type_by_name::<Enum<'_>>(name) else { return BTreeMap::new() };
    debug_assert_eq!(one.size(), 4);
    let member = |name: &str, value: i64| {
        let short = name.strip_prefix(prefix).or_else(|| name.strip_prefix("SKB_")).unwrap_or(name);
        (value as u32, short.to_owned())
    };
    // The last entry of the list is not a reason.
    one.iter()
        .filter_map(|m| Some((m.name?.to_str()?, m.value)))
        .filter(|(name, _)| !name.ends_with("_MAX") && !name.ends_with("_MASK"))
        .map(|(name, value)| member(name, value))
        .collect()
}

/// True if the tracepoint gives the socket that a packet was for (since Linux 6.11).
pub(super) fn gives_socket(btf: &Btf<'_>) -> bool {
    tracepoint_values(btf).is_some_and(|values| values >= 4)
}

/// Number of arguments of the tracepoint skb:kfree_skb; `None` if the kernel does not have this tracepoint.
fn tracepoint_values(btf: &Btf<'_>) -> Option<usize> {
    let definition = btf.type_by_name::<Typedef<'_>>("btf_trace_kfree_skb")?;
    let pointer: Ptr<'_> = definition.referenced_type().try_into().ok()?;
    let function = pointer.referenced_type();
    if function.kind() != BtfKind::FuncProto {
        return None;
    }
    let function: FuncProto<'_> = function.try_into().ok()?;
    // The first argument is the tracepoint's own.
    Some(function.len().saturating_sub(1))
}
