//! netcliff as the first process of a guest: file systems, modules, the NIC, the control channel.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::image::{MODULES, PARAMETERS};
use super::{PORT_NAME, PREFIX, Port, ROUTER, ports};
use crate::rtnl::Rtnl;
use crate::system;

/// Sysctl that switches IPv4 forwarding.
const FORWARD: &str = "/proc/sys/net/ipv4/ip_forward";
/// Longest wait for a device of the guest.
const PATIENCE: Duration = Duration::from_secs(20);

/// Type and mount point of each file system. The last two serve the CPU meter and may be missing.
const FILE_SYSTEMS: [(&str, &str); 7] = [
    ("proc", "/proc"),
    ("sysfs", "/sys"),
    ("devtmpfs", "/dev"),
    ("tmpfs", "/run"),
    ("tmpfs", "/tmp"),
    ("tracefs", "/sys/kernel/tracing"),
    ("bpf", "/sys/fs/bpf"),
];

/// Whether this is the first process.
pub fn is_first_process() -> bool {
    std::process::id() == 1
}

/// Sets the guest up; returns the control channel and the name of its NIC.
///
/// # Errors
/// What is missing, as a sentence.
pub fn prepare() -> Result<(File, String), String> {
    for (kind, place) in FILE_SYSTEMS {
        match system::mount_kind(kind, place) {
            Err(error) if !matches!(kind, "tracefs" | "bpf") => return Err(format!("{kind} on {place}: {error}")),
            _ => {}
        }
    }
    load_modules()?;
    Rtnl::new().set_up("lo").map_err(|error| format!("lo: {error}"))?;
    let router = std::env::var_os(ROUTER).is_some();
    let devices = ports(router).iter().map(set_up).collect::<Result<Vec<_>, String>>()?;
    if router {
        fs::write(FORWARD, "1").map_err(|error| format!("{FORWARD}: {error}"))?;
    }
    Ok((within("the control channel", control)?, devices.into_iter().next().unwrap_or_default()))
}

/// Sets a NIC's address; returns the NIC's name.
fn set_up(port: &Port) -> Result<String, String> {
    let device = within("the NIC", || nic(port))?;
    let set = || -> io::Result<()> {
        let mut rtnl = Rtnl::new();
        let index = rtnl.link(&device)?.index;
        rtnl.add_address(index, port.there, PREFIX)?;
        rtnl.set_up(&device)
    };
    set().map_err(|error| format!("{device}: {error}"))?;
    let carrier = format!("/sys/class/net/{device}/carrier");
    within("a carrier", || fs::read_to_string(&carrier).ok().filter(|up| up.trim() == "1"))?;
    Ok(device)
}

/// Powers the guest off.
pub fn power_off() {
    // QEMU is configured to end at a reboot, which needs no ACPI.
    system::reboot();
}

fn load_modules() -> Result<(), String> {
    let parameters = fs::read_to_string(Path::new("/").join(PARAMETERS)).unwrap_or_default();
    let parameters = CString::new(parameters).map_err(|error| error.to_string())?;
    let listed = fs::read_dir(Path::new("/").join(MODULES)).map_err(|error| format!("/{MODULES}: {error}"))?;
    let mut modules: Vec<_> = listed.flatten().map(|entry| entry.path()).collect();
    modules.sort();
    for (place, path) in modules.iter().enumerate() {
        let given = if place + 1 == modules.len() { parameters.as_c_str() } else { c"" };
        let loaded = File::open(path).and_then(|file| system::load_module(&file, given));
        loaded.map_err(|error| format!("{} is refused by its kernel: {error}", path.display()))?;
    }
    // The last module is the NIC's driver: `012-e1000e.ko`.
    let name = modules.last().and_then(|path| Some(path.file_stem()?.to_str()?.split_once('-')?.1));
    if let (Some(name), Ok(given)) = (name, parameters.to_str()) {
        crate::nic::parameters::given(name, given);
    }
    Ok(())
}

fn within<T>(what: &str, mut of: impl FnMut() -> Option<T>) -> Result<T, String> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = of() {
            return Ok(found);
        }
        if Instant::now() > deadline {
            return Err(format!("{what} is missing after {} s", PATIENCE.as_secs()));
        }
        sleep(Duration::from_millis(20));
    }
}

fn nic(port: &Port) -> Option<String> {
    let mac = port.mac.map(|byte| format!("{byte:02x}")).join(":");
    let devices = fs::read_dir("/sys/class/net").ok()?.flatten().map(|entry| entry.path());
    let mut own = devices.filter(|path| fs::read_to_string(path.join("address")).is_ok_and(|has| has.trim() == mac));
    Some(own.next()?.file_name()?.to_string_lossy().into_owned())
}

fn control() -> Option<File> {
    let ports = fs::read_dir("/sys/class/virtio-ports").ok()?.flatten().map(|entry| entry.path());
    let mut own = ports.filter(|path| fs::read_to_string(path.join("name")).is_ok_and(|name| name.trim() == PORT_NAME));
    let device = Path::new("/dev").join(own.next()?.file_name()?);
    OpenOptions::new().read(true).write(true).open(device).ok()
}
