//! VLAN devices: their tag and the device below, from /proc/net/vlan.

use std::io;

/// Why frames with a tag cannot be sent by a device.
#[derive(Debug, thiserror::Error)]
pub enum NoVlan {
    /// It is not a VLAN device.
    #[error(
        "{interface} leads to the host under test, and is no VLAN device of this host: for --vlan {id} make one, `ip link add link \
         {interface} name {interface}.{id} type vlan id {id}`, with an address of the host under test's subnet"
    )]
    None {
        /// The device.
        interface: String,
        /// The requested tag.
        id: u16,
    },
    /// It has another tag.
    #[error("{interface} leads to the host under test, and has VLAN {own}: give --vlan {own}, or none")]
    Other {
        /// The device.
        interface: String,
        /// Its tag.
        own: u16,
    },
    /// procfs cannot be read.
    #[error("the VLAN of {interface} is not known: {source}")]
    Unknown {
        /// The device.
        interface: String,
        /// The kernel's answer.
        source: io::Error,
    },
}

/// The device below a VLAN device with this tag, in the calling thread's network namespace.
///
/// # Errors
/// The interface is no VLAN device, or has another tag, or procfs cannot be read.
pub fn below_vlan(interface: &str, id: u16) -> Result<String, NoVlan> {
    let own = || interface.to_owned();
    let text = match std::fs::read_to_string(format!("/proc/thread-self/net/vlan/{interface}")) {
        Ok(text) => text,
        // Without the 8021q module the directory does not exist.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(NoVlan::None { interface: own(), id }),
        Err(source) => return Err(NoVlan::Unknown { interface: own(), source }),
    };
    match parse(&text) {
        Some((tag, below)) if tag == id => Ok(below),
        Some((tag, _)) => Err(NoVlan::Other { interface: own(), own: tag }),
        None => Err(NoVlan::Unknown { interface: own(), source: io::ErrorKind::InvalidData.into() }),
    }
}

/// Parses the VLAN id and the name of the device below (net/8021q/vlanproc.c, `vlandev_seq_show`); `None` if either is
/// missing.
fn parse(text: &str) -> Option<(u16, String)> {
    let after = |name: &str| text.split_once(name)?.1.split_ascii_whitespace().next();
    Some((after("VID:")?.parse().ok()?, after("Device:")?.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_description_is_read() {
        let text = "far0.5  VID: 5\t REORDER_HDR: 1  dev->priv_flags: 1021\n         total frames received            0\n\
                    Device: far0\nINGRESS priority mappings: 0:0\n";
        assert_eq!(parse(text), Some((5, "far0".to_owned())));
        assert_eq!(parse("far0.5"), None);
        let none = below_vlan("lo", 7).expect_err("it is no VLAN device").to_string();
        assert!(none.contains("ip link add link lo name lo.7 type vlan id 7"), "{none}");
    }
}
