//! What every loader of eBPF programs needs: libbpf's messages, the kernel's types, and why programs were not loaded.

use std::mem::MaybeUninit;
use std::sync::Once;

use libbpf_rs::{PrintLevel, btf::Btf};

/// The kernel's types, which programs are fitted to; libbpf's messages go to the log from here on.
///
/// # Errors
/// This kernel has none, as a sentence.
pub(crate) fn types() -> Result<Btf<'static>, String> {
    route_messages();
    Btf::from_vmlinux()
        .map_err(|_| "this kernel has no type information (/sys/kernel/btf/vmlinux; CONFIG_DEBUG_INFO_BTF)".to_owned())
}

/// Sends libbpf's messages to the log instead of stderr.
pub(crate) fn route_messages() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        libbpf_rs::set_print(Some((PrintLevel::Warn, |_, message| {
            tracing::debug!(target: "libbpf", "{}", message.trim_end());
        })));
    });
}

/// libbpf-rs wants a place for the object that outlives the skeleton. It is one pointer, and programs are opened a few times a process: leaking
/// it is simpler than a self-reference.
pub(crate) fn place<T>() -> &'static mut MaybeUninit<T> {
    Box::leak(Box::new(MaybeUninit::uninit()))
}

/// Why programs were not opened.
pub(crate) fn open_reason(error: &libbpf_rs::Error) -> String {
    format!("the programs could not be opened: {error}")
}

/// Why programs were not loaded.
pub(crate) fn load_reason(error: &libbpf_rs::Error) -> String {
    let text = format!("{error:#}");
    // The verifier's refusal is EACCES, a missing capability EPERM: one kind to the library, which gives the number in its text only.
    let refused = text.contains(&format!("(os error {})", libc::EACCES));
    match error.kind() {
        libbpf_rs::ErrorKind::PermissionDenied if !refused => {
            "no permission to load eBPF programs: run as root, or with CAP_BPF and CAP_PERFMON; a container's seccomp filter has to allow \
             bpf(), too"
                .to_owned()
        }
        _ => format!("the kernel refused the programs: {text}"),
    }
}
