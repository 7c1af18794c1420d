//! Code shared by all loaders of eBPF programs: their skeletons and memory, libbpf's messages, the kernel's types, and
//! reasons why programs were not loaded.

use std::io;
use std::mem::MaybeUninit;
use std::num::NonZeroUsize;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::Once;

use libbpf_rs::{PrintLevel, btf::Btf};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

/// The module `skeleton`, which the build generates from bpf/FILE.bpf.c.
macro_rules! skeleton {
    ($file:literal) => {
        #[allow(
            missing_docs,
            missing_debug_implementations,
            unreachable_pub,
            clippy::all,
            clippy::undocumented_unsafe_blocks
        )]
        mod skeleton {
            include!(concat!(env!("OUT_DIR"), "/", $file, ".skel.rs"));
        }
    };
}
pub(crate) use skeleton;

/// An eBPF map with one value or an array of values, mapped into this process; unmapped on drop.
#[derive(Debug)]
pub(crate) struct Mapped<T> {
    memory: NonNull<T>,
    bytes: NonZeroUsize,
}

// SAFETY: the mapping is bound to no thread; code that reads or writes through its pointer explains why that is sound.
unsafe impl<T> Send for Mapped<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Mapped<T> {}

impl<T> Mapped<T> {
    /// Maps the first `count` values of a map. The map must allow mmap(2), as an array with BPF_F_MMAPABLE does.
    ///
    /// # Errors
    /// `count` is 0, or the kernel refuses the mapping.
    pub(crate) fn new(map: BorrowedFd<'_>, count: usize) -> io::Result<Self> {
        let bytes = NonZeroUsize::new(count * size_of::<T>()).ok_or(io::ErrorKind::InvalidInput)?;
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let memory = unsafe { mmap(None, bytes, access, MapFlags::MAP_SHARED, map, 0) }?;
        Ok(Self { memory: memory.cast(), bytes })
    }

    pub(crate) fn as_ptr(&self) -> *mut T {
        self.memory.as_ptr()
    }
}

impl<T> Drop for Mapped<T> {
    fn drop(&mut self) {
        // SAFETY: the memory was mapped with this address and length, and no pointers into it remain.
        let _ = unsafe { munmap(self.memory.cast(), self.bytes.get()) };
    }
}

/// Returns the kernel's types (BTF), to which eBPF programs are adapted when they are loaded. After the first call
/// libbpf's messages go to the log.
///
/// # Errors
/// One sentence: this kernel has no BTF.
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

/// Memory for the object of a skeleton; libbpf-rs requires this memory to outlive the skeleton. It is one pointer, and
/// programs are opened a few times per process, so leaking the memory is simpler than a self-reference.
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
    // A refusal by the verifier is EACCES, a missing capability EPERM. libbpf-rs gives both the same kind, and the
    // number only in its text.
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
