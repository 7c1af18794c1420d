//! UDP counters of a network namespace.

use crate::procfs::{titled, valued};
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
    /// The counters of IPv4 in the calling thread's network namespace.
    ///
    /// # Errors
    /// When `/proc/thread-self/net/snmp` cannot be read or has another form.
    pub fn read() -> io::Result<UdpCounters> {
        parse_snmp(&fs::read_to_string("/proc/thread-self/net/snmp")?)
    }

    /// The counters of one address family in the calling thread's network namespace.
    ///
    /// # Errors
    /// When the family's file cannot be read or has another form.
    pub fn read_of(ipv6: bool) -> io::Result<UdpCounters> {
        if ipv6 { parse_snmp6(&fs::read_to_string("/proc/thread-self/net/snmp6")?) } else { Self::read() }
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

/// Parses the `Udp6` lines of the text of `/proc/net/snmp6`.
///
/// # Errors
/// When one of the long-standing lines is missing.
fn parse_snmp6(text: &str) -> io::Result<UdpCounters> {
    let get = |name: &str| {
        let name = format!("Udp6{name}");
        let bad = || io::Error::new(io::ErrorKind::InvalidData, format!("/proc/net/snmp6: no line {name}"));
        valued(text, &name).ok_or_else(bad)
    };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_ipv6_are_read_by_name() {
        let names =
            ["InDatagrams", "NoPorts", "InErrors", "OutDatagrams", "RcvbufErrors", "SndbufErrors", "InCsumErrors"];
        let text: String = (1..)
            .zip(names)
            .map(|(value, name)| format!("Udp6{name}          \t{value}\nUdpLite6{name} 0\n"))
            .collect();
        let counters = parse_snmp6(&text).expect("it has every line");
        assert_eq!((counters.in_datagrams, counters.rcvbuf_errors, counters.in_csum_errors), (1, 5, 7));
        assert_eq!(counters.mem_errors, None);
        assert!(parse_snmp6("Udp6InDatagrams 1\n").is_err());
        if std::path::Path::new("/proc/net/snmp6").exists() {
            UdpCounters::read_of(true).expect("procfs");
        }
    }
}
