//! [`slot`]: the PCI Express link that a NIC has, from sysfs.

use serde::{Deserialize, Serialize};
use std::path::Path;

/// A PCI Express link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Slot {
    /// 1 to 6.
    pub generation: u32,
    /// Lanes in use.
    pub lanes: u32,
}

/// The link of an interface's device; None for a device without one (veth, virtio, a NIC on another bus). `sys` is where
/// sysfs is mounted.
pub fn slot(name: &str, sys: &Path) -> Option<Slot> {
    let device = sys.join("class/net").join(name).join("device");
    link(&device, "current")
}

/// The widest and fastest link that an interface's device can have.
pub fn widest(name: &str, sys: &Path) -> Option<Slot> {
    let device = sys.join("class/net").join(name).join("device");
    link(&device, "max")
}

fn link(device: &Path, which: &str) -> Option<Slot> {
    let read = |file: &str| std::fs::read_to_string(device.join(format!("{which}_link_{file}"))).ok();
    parse(&read("speed")?, &read("width")?)
}

/// `8.0 GT/s PCIe` and `8`, as drivers/pci/pci-sysfs.c prints them; older kernels print `8 GT/s`.
fn parse(speed: &str, width: &str) -> Option<Slot> {
    let transfers: f64 = speed.split_ascii_whitespace().next()?.parse().ok()?;
    const SPEEDS: [f64; 6] = [2.5, 5.0, 8.0, 16.0, 32.0, 64.0];
    let place = SPEEDS.iter().position(|known| *known == transfers)?;
    let lanes = width.trim().parse().ok().filter(|lanes| *lanes > 0)?;
    Some(Slot { generation: place as u32 + 1, lanes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_sysfs() {
        let root = tempfile::tempdir().unwrap();
        let device = root.path().join("class/net/eth0/device");
        std::fs::create_dir_all(&device).unwrap();
        std::fs::write(device.join("current_link_speed"), "8.0 GT/s PCIe\n").unwrap();
        std::fs::write(device.join("current_link_width"), "4\n").unwrap();
        assert_eq!(slot("eth0", root.path()), Some(Slot { generation: 3, lanes: 4 }));
        assert_eq!(slot("eth1", root.path()), None);
        assert_eq!(parse("Unknown", "8"), None);
        assert_eq!(parse("2.5 GT/s", "0"), None);
    }
}
