//! Which hypervisor runs below.

use super::cpu;
use crate::procfs;
use std::path::Path;

/// The name used when only the CPU flag indicates a hypervisor.
const UNNAMED: &str = "unnamed hypervisor";

/// The machine's maker names the hypervisor; the CPU flag only says that there is one.
pub(super) fn read(root: &Path, cpuinfo: &str) -> Option<String> {
    let flagged =
        cpu::field(cpuinfo, "flags").is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"));
    let xen = procfs::text(root.join("sys/hypervisor/type"));
    if !flagged && xen.is_none() {
        return None;
    }
    let dmi = |name: &str| procfs::text(root.join("sys/class/dmi/id").join(name));
    let made_by: Vec<String> = [dmi("sys_vendor"), dmi("product_name")].into_iter().flatten().collect();
    let dmi = (!made_by.is_empty()).then(|| made_by.join(" "));
    Some(xen.or(dmi).unwrap_or_else(|| UNNAMED.to_owned()))
}

/// Replaces a missing name by the one that the processor this runs on reports (`KVMKVMKVM`).
pub(super) fn named_by_processor(hypervisor: Option<String>) -> Option<String> {
    match hypervisor {
        Some(name) if name == UNNAMED => Some(signature().unwrap_or(name)),
        other => other,
    }
}

/// The vendor string of the hypervisor leaf, see Documentation/virt/kvm/x86/cpuid.rst.
#[cfg(target_arch = "x86_64")]
fn signature() -> Option<String> {
    const HYPERVISOR_LEAF: u32 = 0x4000_0000;
    // SAFETY: every x86_64 processor has the instruction; a leaf it lacks answers with other numbers.
    #[allow(unused_unsafe, reason = "the intrinsic is safe from Rust 1.94 on, unsafe before")]
    let leaf = unsafe { std::arch::x86_64::__cpuid(HYPERVISOR_LEAF) };
    let words = [leaf.ebx, leaf.ecx, leaf.edx];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).take_while(|byte| *byte != 0).collect();
    let text = String::from_utf8(bytes).ok()?;
    let text = text.trim();
    (!text.is_empty() && text.chars().all(|letter| letter.is_ascii_graphic() || letter == ' ')).then(|| text.to_owned())
}

#[cfg(not(target_arch = "x86_64"))]
fn signature() -> Option<String> {
    None
}
