//! The options of a testbed.

use crate::testbed::{TestbedError, check_cpus, sysctl::SysctlOverrides};
use serde::{Deserialize, Serialize};
use std::{fmt, path::Path};

/// How the veth of the host under test receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reception {
    /// GRO off; RPS moves each packet to the backlog of the chosen CPU, where `process_backlog` processes it.
    #[default]
    Backlog,
    /// GRO on: veth's own NAPI, in the softirq of the CPU that sends. Sender and receiver share that CPU. TCP
    /// segmentation of the sender's veth is off, see [`super::offloads::SEGMENTATION`].
    Napi,
    /// GRO on and threaded NAPI, its kernel thread bound to the chosen CPUs. TCP segmentation as with `Napi`.
    ThreadedNapi,
}

impl fmt::Display for Reception {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reception::Backlog => "backlog",
            Reception::Napi => "napi",
            Reception::ThreadedNapi => "threaded-napi",
        })
    }
}

/// Smallest MTU with which the kernel keeps IPv6 on a device (bytes; RFC 8200, section 5).
pub const IPV6_MIN_MTU: u32 = 1280;

/// Options of the testbed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestbedOptions {
    /// MTU of both ends (bytes), 68 to 65535.
    pub mtu_bytes: u32,
    /// Whether both ends have IPv6 addresses, too.
    pub ipv6: bool,
    /// Receive and transmit queues of each end, 1 to 64.
    pub queues: u32,
    /// How the host under test receives.
    pub reception: Reception,
    /// CPUs that process the packets that the host under test receives (unused for [`Reception::Napi`]); empty: the CPU
    /// that sent the packet.
    pub reception_cpus: Vec<u32>,
    /// CPUs that process the packets that the sender receives, as on a separate host; empty: the CPU that sent the
    /// packet.
    pub sender_reception_cpus: Vec<u32>,
    /// Host-wide sysctls for the time of the run; they need the host's root.
    pub sysctls: SysctlOverrides,
}

impl Default for TestbedOptions {
    /// MTU 1500, one queue, backlog reception on the last online CPU.
    fn default() -> Self {
        let last = crate::inventory::online_cpus(Path::new("/")).last().copied().unwrap_or(0);
        TestbedOptions {
            mtu_bytes: 1500,
            ipv6: false,
            queues: 1,
            reception: Reception::Backlog,
            reception_cpus: vec![last],
            sender_reception_cpus: Vec::new(),
            sysctls: SysctlOverrides::default(),
        }
    }
}

impl TestbedOptions {
    /// True if the CPU that sends a packet also receives it.
    pub(super) fn receives_where_it_is_sent(&self) -> bool {
        self.reception == Reception::Napi || self.reception_cpus.is_empty()
    }

    /// Refuses options out of range.
    pub(super) fn check(&self) -> Result<(), TestbedError> {
        let range = |name, value: u32, min: u32, max: u32, accepted| {
            let value = u64::from(value);
            if (u64::from(min)..=u64::from(max)).contains(&value) {
                Ok(())
            } else {
                Err(TestbedError::OutOfRange { name, value, accepted })
            }
        };
        match self.ipv6 {
            true => range("mtu", self.mtu_bytes, IPV6_MIN_MTU, 65_535, "1280 to 65535 bytes with IPv6")?,
            false => range("mtu", self.mtu_bytes, 68, 65_535, "68 to 65535 bytes")?,
        }
        range("queues", self.queues, 1, 64, "1 to 64")?;
        check_cpus(&[&self.reception_cpus[..], &self.sender_reception_cpus[..]].concat())
    }
}
