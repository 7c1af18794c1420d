//! What only sysfs and the old ethtool ioctl tell: driver, firmware, RPS masks, interrupt affinity.

use super::Nic;
use crate::procfs;
use std::{
    fs, io, mem,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    path::Path,
    ptr,
};

/// SIOCETHTOOL, linux/sockios.h.
const SIOCETHTOOL: libc::Ioctl = 0x8946;
/// ETHTOOL_GDRVINFO, linux/ethtool.h.
const ETHTOOL_GDRVINFO: u32 = 3;

/// `struct ethtool_drvinfo`, linux/ethtool.h. The netlink family has no equivalent.
#[repr(C)]
struct DriverInfo {
    cmd: u32,
    driver: [u8; 32],
    version: [u8; 32],
    firmware: [u8; 32],
    bus: [u8; 32],
    erom_version: [u8; 32],
    reserved: [u8; 12],
    counts: [u32; 5],
}

/// Fills in what sysfs, mounted at `sys`, and the driver tell about an interface.
pub(super) fn fill(nic: &mut Nic, sys: &Path) {
    let dir = sys.join("class/net").join(&nic.name);
    let device = dir.join("device");
    nic.driver = fs::read_link(device.join("driver"))
        .ok()
        .and_then(|link| Some(link.file_name()?.to_string_lossy().into_owned()));
    // The kernel says -1 for "no node"; that is None here.
    nic.numa_node = procfs::number(device.join("numa_node"));
    match driver_info(&nic.name) {
        Ok(info) => {
            nic.driver = nic.driver.take().or_else(|| string(&info.driver));
            nic.driver_version = string(&info.version);
            nic.firmware = string(&info.firmware);
            nic.bus = string(&info.bus);
        }
        Err(error) => drop(nic.missing.insert("driver-info".into(), error.to_string())),
    }
    let queues = dir.join("queues");
    nic.rps_cpus = procfs::names(&queues)
        .iter()
        .filter(|name| name.starts_with("rx-"))
        .filter_map(|name| procfs::text(queues.join(name).join("rps_cpus")))
        .collect();
    for name in ["threaded", "gro_flush_timeout", "napi_defer_hard_irqs"] {
        if let Some(value) = procfs::number(dir.join(name)) {
            nic.napi_settings.insert(name.to_owned(), value);
        }
    }
    for irq in procfs::names(device.join("msi_irqs")).iter().filter_map(|name| name.parse().ok()) {
        let irq: u32 = irq;
        if let Some(cpus) = procfs::text(format!("/proc/irq/{irq}/smp_affinity_list")) {
            nic.irq_affinity.insert(irq, cpus);
        }
    }
}

fn driver_info(name: &str) -> io::Result<DriverInfo> {
    // SAFETY: socket takes three integers and returns a new descriptor or -1.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just returned by the kernel and nobody else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: both structs are plain integers and byte arrays, for which all-zero is a valid value.
    let (mut info, mut request): (DriverInfo, libc::ifreq) = unsafe { (mem::zeroed(), mem::zeroed()) };
    info.cmd = ETHTOOL_GDRVINFO;
    if name.len() >= request.ifr_name.len() {
        return Err(io::Error::other(format!("{name} is too long for an interface name")));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = ptr::from_mut(&mut info).cast();
    // SAFETY: `request` is a valid ifreq whose data points to a DriverInfo that outlives the call, of
    // the size that the kernel writes for ETHTOOL_GDRVINFO.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &mut request) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(info) }
}

/// A NUL-terminated field; `None` if empty or the "N/A" that some drivers write.
fn string(field: &[u8]) -> Option<String> {
    let text: Vec<u8> = field.iter().copied().take_while(|byte| *byte != 0).collect();
    let text = String::from_utf8_lossy(&text).trim().to_owned();
    (!text.is_empty() && text != "N/A").then_some(text)
}
