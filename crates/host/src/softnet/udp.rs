//! UDP counters of a network namespace.

use crate::procfs::titled;
use serde::{Deserialize, Serialize};
use std::{fs, io};

/// The `Udp:` lines of `/proc/net/snmp`; see the kernel's snmp_counter.rst. All counts are datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UdpCounters {
    /// Delivered to a socket and read by the application.
    pub in_datagrams: u64,
    /// Nobody listened on the port.
    pub no_ports: u64,
    /// Could not be delivered, for any reason (includes the receive errors below).
    pub in_errors: u64,
    /// Sent.
    pub out_datagrams: u64,
    /// The socket's receive buffer was full.
    pub rcvbuf_errors: u64,
    /// No space in the send buffer.
    pub sndbuf_errors: u64,
    /// Bad checksum.
    pub in_csum_errors: u64,
    /// The UDP memory limit (`net.ipv4.udp_mem`) was reached; absent before Linux 5.11.
    pub mem_errors: Option<u64>,
}

impl UdpCounters {
    /// The counters of the calling thread's network namespace.
    ///
    /// # Errors
    /// When `/proc/thread-self/net/snmp` cannot be read or has another form.
    pub fn read() -> io::Result<UdpCounters> {
        parse_snmp(&fs::read_to_string("/proc/thread-self/net/snmp")?)
    }

    /// Increase since an earlier snapshot in the same namespace.
    #[must_use]
    pub fn since(&self, earlier: &UdpCounters) -> UdpCounters {
        UdpCounters {
            in_datagrams: self.in_datagrams.wrapping_sub(earlier.in_datagrams),
            no_ports: self.no_ports.wrapping_sub(earlier.no_ports),
            in_errors: self.in_errors.wrapping_sub(earlier.in_errors),
            out_datagrams: self.out_datagrams.wrapping_sub(earlier.out_datagrams),
            rcvbuf_errors: self.rcvbuf_errors.wrapping_sub(earlier.rcvbuf_errors),
            sndbuf_errors: self.sndbuf_errors.wrapping_sub(earlier.sndbuf_errors),
            in_csum_errors: self.in_csum_errors.wrapping_sub(earlier.in_csum_errors),
            mem_errors: self.mem_errors.zip(earlier.mem_errors).map(|(now, then)| now.wrapping_sub(then)),
        }
    }
}

/// Parses the text of `/proc/net/snmp`. Values are found by name, because kernels have added columns.
///
/// # Errors
/// When there is no `Udp:` pair or one of the long-standing columns is missing.
pub fn parse_snmp(text: &str) -> io::Result<UdpCounters> {
    let bad = |what: &str| io::Error::new(io::ErrorKind::InvalidData, format!("/proc/net/snmp: {what}"));
    if text.lines().filter(|line| line.starts_with("Udp:")).count() < 2 {
        return Err(bad("no Udp: lines"));
    }
    let get = |name: &str| titled(text, "Udp:", name).ok_or_else(|| bad(&format!("no Udp column {name}")));
    Ok(UdpCounters {
        in_datagrams: get("InDatagrams")?,
        no_ports: get("NoPorts")?,
        in_errors: get("InErrors")?,
        out_datagrams: get("OutDatagrams")?,
        rcvbuf_errors: get("RcvbufErrors")?,
        sndbuf_errors: get("SndbufErrors")?,
        in_csum_errors: get("InCsumErrors")?,
        mem_errors: get("MemErrors").ok(),
    })
}
