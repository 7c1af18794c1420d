//! The wire: a tap in a namespace of its own. Both are gone with the last descriptor, whatever ends this process.

use std::fs::{File, OpenOptions, write};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use super::super::namespace::Namespace;
use super::{HERE, PREFIX, VmError, step};
use crate::rtnl::Rtnl;

/// Name of this host's end.
pub(super) const NAME: &str = "vm0";
/// Frames that wait where QEMU is late to fetch them, as a NIC's own buffer holds them while its ring is full: 20 KiB of the 82574's 40
/// are for reception (its datasheet, section 7.3), some 300 of the smallest frames.
const QUEUE_FRAMES: u32 = 300;

#[derive(Debug)]
pub(super) struct Tap {
    namespace: Namespace,
    fd: OwnedFd,
}

impl Tap {
    pub(super) fn make() -> Result<Self, VmError> {
        let namespace = Namespace::anonymous("vm")?;
        let fd = namespace.run(|| {
            let fd = open().map_err(|why| VmError::Tap { why })?;
            set_up().map_err(step("set up the tap"))?;
            Ok::<_, VmError>(fd)
        })??;
        Ok(Self { namespace, fd })
    }

    /// What QEMU reads and writes.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub(super) fn netns(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.namespace.net().as_raw_fd()).into()
    }
}

/// A tap of the calling thread's namespace (Documentation/networking/tuntap.rst).
fn open() -> io::Result<OwnedFd> {
    let file: File = OpenOptions::new().read(true).write(true).open("/dev/net/tun")?;
    // SAFETY: all zero is a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(NAME.bytes()) {
        *to = from as libc::c_char;
    }
    let flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: the flags are the first bytes of the union, which other systems declare otherwise.
    unsafe { (&raw mut request.ifr_ifru).cast::<libc::c_short>().write(flags) };
    // SAFETY: TUNSETIFF reads and writes an ifreq.
    match unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) } {
        0 => Ok(file.into()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn set_up() -> io::Result<()> {
    // No router solicitations beside the load; a kernel without IPv6 sends none.
    let _ = write(format!("/proc/sys/net/ipv6/conf/{NAME}/disable_ipv6"), "1");
    // Absent where /sys is not this namespace's; then it holds the kernel's 1000.
    let _ = write(format!("/sys/class/net/{NAME}/tx_queue_len"), QUEUE_FRAMES.to_string());
    let mut rtnl = Rtnl::new();
    let index = rtnl.link(NAME)?.index;
    rtnl.add_address(index, HERE, PREFIX)?;
    rtnl.set_up(NAME)
}
