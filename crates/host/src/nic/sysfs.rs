//! Values that only sysfs reports: PCI Express link, NUMA node, RPS, XPS and RFS, NAPI settings, interrupt affinity.

use super::{Nic, netdev::NapiKey, slot};
use crate::procfs;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// Reason why a virtio device has no interrupt delay, although its driver reports a delay of zero.
const NO_DELAY: &str = "the virtual device has none to set (VIRTIO_NET_F_NOTF_COAL)";
/// Topic of the reason [`NO_DELAY`] in [`Nic::missing`].
const DELAY: &str = "interrupt delay";
/// Number of the virtio feature VIRTIO_NET_F_NOTF_COAL (include/uapi/linux/virtio_net.h).
const NOTF_COAL: usize = 53;

/// Fills in what sysfs, mounted at `sys`, and the procfs next to it report about an interface.
pub(super) fn fill(nic: &mut Nic, sys: &Path) {
    let dir = sys.join("class/net").join(&nic.name);
    let device = dir.join("device");
    let driver = fs::read_link(device.join("driver"))
        .ok()
        .and_then(|link| Some(link.file_name()?.to_string_lossy().into_owned()));
    nic.driver = driver.or_else(|| nic.driver.take());
    nic.parameters = super::parameters::of(nic.driver.as_deref().unwrap_or_default());
    // The kernel reports -1 for "no node", which is `None` here. A virtio device has the node of its PCI function.
    nic.numa_node = procfs::number(device.join("numa_node")).or_else(|| procfs::number(device.join("../numa_node")));
    nic.qemu = is_qemus(&device, sys).then(|| machine_version(sys).unwrap_or_default());
    nic.pcie = slot::slot(&nic.name, sys);
    nic.pcie_max = slot::widest(&nic.name, sys);
    if nic.driver.as_deref() == Some("virtio_net") && virtio_delays(&device) == Some(false) {
        for key in ["rx-usecs", "tx-usecs"] {
            nic.coalesce.remove(key);
        }
        nic.missing.insert(DELAY.into(), NO_DELAY.into());
    }
    queues(nic, &dir.join("queues"));
    nic.tph = hints(sys, &nic.name).or(nic.tph);
    if let Some(driver) = nic.driver.as_deref() {
        nic.module_parameters = module_parameters(&sys.join("module").join(driver).join("parameters"));
    }
    for name in NapiKey::ALL.into_iter().filter_map(NapiKey::file) {
        if let Some(value) = procfs::number(dir.join(name)) {
            nic.napi_settings.insert(name.to_owned(), value);
        }
    }
    let proc = sys.parent().unwrap_or(Path::new("/")).join("proc");
    for (irq, _) in procfs::numbered(message_interrupts(&device), "") {
        if let Some(cpus) = procfs::text(proc.join(format!("irq/{irq}/smp_affinity_list"))) {
            nic.irq_affinity.insert(irq, cpus);
        }
    }
}

/// Directory that lists the device's interrupts. The interrupts of a virtio device belong to its PCI function, its
/// parent. The parent of any other device is a bridge, which has other interrupts.
pub(crate) fn message_interrupts(device: &Path) -> PathBuf {
    let virtio = fs::read_link(device.join("subsystem")).is_ok_and(|bus| bus.ends_with("virtio"));
    device.join(if virtio { "../msi_irqs" } else { "msi_irqs" })
}

/// Whether a virtio device can delay interrupts: it has the feature VIRTIO_NET_F_NOTF_COAL (the file has one character
/// per feature). Without it `virtnet_set_coalesce` (drivers/net/virtio_net.c) refuses a delay with EOPNOTSUPP and any
/// rx-frames but 1 with EINVAL; VIRTIO_NET_F_VQ_NOTF_COAL (52) alone is for single queues (`ethtool --per-queue`).
/// `None` if the features cannot be read.
fn virtio_delays(device: &Path) -> Option<bool> {
    let features = procfs::text(device.join("features"))?;
    Some(features.as_bytes().get(NOTF_COAL) == Some(&b'1'))
}

/// Whether QEMU emulates a device of Intel or VMware: both the machine and the subsystem vendor are QEMU's. A device
/// that is passed through to a guest has the subsystem vendor of its maker, and VMware's device is virtual in any
/// machine. QEMU's subsystem ids are in hw/net/e1000.c (1af4:1100), e1000e.c (8086:0000) and vmxnet3.c.
fn is_qemus(device: &Path, sys: &Path) -> bool {
    let identifier = |name: &str| procfs::text(device.join(name));
    if procfs::text(sys.join("class/dmi/id/sys_vendor")).as_deref() != Some("QEMU") {
        return false;
    }
    match identifier("vendor").as_deref() {
        Some("0x8086") => {
            identifier("subsystem_vendor").as_deref() == Some("0x1af4")
                || identifier("subsystem_device").as_deref() == Some("0x0000")
        }
        Some("0x15ad") => true,
        _ => false,
    }
}

/// The version in the name of QEMU's machine: `pc-q35-7.2`.
fn machine_version(sys: &Path) -> Option<(u32, u32)> {
    let machine = procfs::text(sys.join("class/dmi/id/product_version"))?;
    let (major, minor) = machine.rsplit('-').next()?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

impl Nic {
    /// Reason why the device's driver refuses to delay interrupts, whatever ethtool reports; `None` if it may accept
    /// such settings.
    pub fn refuses_coalescing(&self) -> Option<String> {
        let why = self.missing.get(DELAY)?;
        Some(format!("{} takes no coalescing settings: {why}", self.name))
    }
}

/// Longest value of a module's parameter that is read (bytes): some have one for each of 32 devices.
const LONGEST_PARAMETER: usize = 200;

/// Readable parameters of a module, by name.
fn module_parameters(directory: &Path) -> BTreeMap<String, String> {
    let value = |name: &String| procfs::text(directory.join(name)).filter(|text| text.len() <= LONGEST_PARAMETER);
    procfs::names(directory).into_iter().filter_map(|name| Some((name.clone(), value(&name)?))).collect()
}

/// Whether TLP processing hints of an interface's device are on.
pub(crate) fn hints(sys: &Path, interface: &str) -> Option<bool> {
    tph(&fs::read(sys.join("class/net").join(interface).join("device/config")).ok()?)
}

/// Whether TLP processing hints are enabled in a PCI function's configuration space. `None`: the function lacks the
/// capability, or only the first 64 bytes could be read, as by users other than root. PCI Express 6.0, 7.9.13:
/// capability 0x17, enabled by bits 9:8 of its control register.
fn tph(config: &[u8]) -> Option<bool> {
    const TPH: u32 = 0x17;
    let word = |at: usize| Some(u32::from_le_bytes(config.get(at..at + 4)?.try_into().ok()?));
    let mut at = 0x100;
    // Each header names the next one; the limit ends a circular list.
    for _ in 0..256 {
        let header = word(at)?;
        if header & 0xffff == TPH {
            return Some(word(at + 8)? >> 8 & 3 != 0);
        }
        at = Some((header >> 20) as usize).filter(|next| *next >= 0x100)?;
    }
    None
}

fn queues(nic: &mut Nic, queues: &Path) {
    let receive = procfs::numbered(queues, "rx-");
    nic.rps_cpus = receive.iter().filter_map(|(_, queue)| procfs::text(queue.join("rps_cpus"))).collect();
    nic.rps_flow_counts = receive.iter().filter_map(|(_, queue)| procfs::number(queue.join("rps_flow_cnt"))).collect();
    // A device with one queue reports an error.
    let transmit = procfs::numbered(queues, "tx-");
    nic.xps_cpus = transmit.iter().map(|(_, queue)| procfs::text(queue.join("xps_cpus")).unwrap_or_default()).collect();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_bridges_interrupts_are_not_the_devices() {
        let root = tempfile::tempdir().unwrap();
        let device = root.path().join("0000:00:01.0/0000:01:00.0");
        fs::create_dir_all(&device).unwrap();
        fs::create_dir(device.join("../msi_irqs")).unwrap();
        symlink("../../bus/pci", device.join("subsystem")).unwrap();
        assert!(!message_interrupts(&device).exists());
        fs::remove_file(device.join("subsystem")).unwrap();
        symlink("../../bus/virtio", device.join("subsystem")).unwrap();
        assert!(message_interrupts(&device).exists());
    }

    /// Two extended capabilities, the second TPH (0x17), as lspci -xxxx prints them for a ConnectX-6.
    #[test]
    fn hints_are_a_capability_with_a_switch() {
        let mut config = vec![0; 4096];
        config[0x100..0x104].copy_from_slice(&(0x2a0_u32 << 20 | 1 << 16 | 0x0001).to_le_bytes());
        assert_eq!(tph(&config), None, "the list ends");
        config[0x2a0..0x2a4].copy_from_slice(&(1_u32 << 16 | 0x0017).to_le_bytes());
        assert_eq!(tph(&config), Some(false));
        config[0x2a9] = 1;
        assert_eq!(tph(&config), Some(true));
        assert_eq!(tph(&config[..64]), None, "not root");
    }

    #[test]
    fn a_virtio_device_tells_by_its_features_whether_it_delays() {
        let device = tempfile::tempdir().unwrap();
        assert_eq!(virtio_delays(device.path()), None);
        for (set, delays) in [(&[0, 1, 22, 57][..], false), (&[0, 53], true), (&[52], false)] {
            let features: String = (0..64).map(|bit| if set.contains(&bit) { '1' } else { '0' }).collect();
            fs::write(device.path().join("features"), features + "\n").unwrap();
            assert_eq!(virtio_delays(device.path()), Some(delays), "{set:?}");
        }
    }

    /// A device passed through to a guest of QEMU, and the same card on a real host, have their maker's subsystem.
    #[test]
    fn devices_are_qemus_by_machine_and_subsystem() {
        let root = tempfile::tempdir().unwrap();
        let (device, dmi) = (root.path().join("device"), root.path().join("class/dmi/id"));
        fs::create_dir_all(&device).unwrap();
        fs::create_dir_all(&dmi).unwrap();
        for (maker, vendor, subsystem, emulated) in [
            ("QEMU", "0x8086", ["0x1af4", "0x1100"], true),
            ("QEMU", "0x8086", ["0x8086", "0x0000"], true),
            ("QEMU", "0x8086", ["0x8086", "0x001f"], false),
            ("QEMU", "0x1af4", ["0x1af4", "0x0001"], false),
            ("QEMU", "0x15ad", ["0x15ad", "0x07b0"], true),
            ("VMware, Inc.", "0x15ad", ["0x15ad", "0x07b0"], false),
            ("Dell Inc.", "0x8086", ["0x8086", "0x0000"], false),
        ] {
            fs::write(dmi.join("sys_vendor"), format!("{maker}\n")).unwrap();
            let files = [("vendor", vendor), ("subsystem_vendor", subsystem[0]), ("subsystem_device", subsystem[1])];
            files.iter().for_each(|(name, text)| fs::write(device.join(name), format!("{text}\n")).unwrap());
            assert_eq!(is_qemus(&device, root.path()), emulated, "{maker} {vendor} {subsystem:?}");
        }
        assert_eq!(machine_version(root.path()), None);
        fs::write(dmi.join("product_version"), "pc-q35-10.0\n").unwrap();
        assert_eq!(machine_version(root.path()), Some((10, 0)));
    }
}
