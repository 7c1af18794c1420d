//! [`Drops`]: result of `netcliff drops` for an interval.

use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::IpAddr;

/// How drops were counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// The kernel's tracepoint skb:kfree_skb, which reports reason and place of each drop.
    Ebpf,
    /// Counters that the kernel has without tracing.
    #[default]
    Counters,
}

impl fmt::Display for Method {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Method::Ebpf => "eBPF (skb:kfree_skb), and counters of what it does not see",
            Method::Counters => "counters",
        })
    }
}

impl Method {
    /// Name in a column of a table.
    #[must_use]
    pub fn short(self) -> &'static str {
        match self {
            Method::Ebpf => "eBPF",
            Method::Counters => "counter",
        }
    }
}

/// First word of the limit that only a part of the drops was examined.
pub const SAMPLED: &str = "sampled";

/// An interval's drops.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Drops {
    /// Length of the interval (s).
    pub seconds: f64,
    /// How they were counted.
    pub method: Method,
    /// Filter that selects the packets that count; None: all packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// All drops that the kernel reported, whatever the filter; exact. None: only counters were read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen: Option<u64>,
    /// Number of drops that each examined drop stands for, on average: 1 unless drops were sampled. Counts of rows are
    /// already multiplied by it.
    pub sampling_factor: f64,
    /// Network namespaces that were watched: `netns blue`, `all network namespaces`. None: unknown.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub scope: Option<String>,
    /// The rows, most drops first.
    pub rows: Vec<DropRow>,
    /// With a filter: counters that grew and whose drops eBPF does not see. They count all packets, as a counter cannot
    /// be filtered.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub not_filtered: Vec<DropRow>,
    /// Packets freed because their socket or device was closed. They are not losses, and no sum includes them.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub at_close: Vec<DropRow>,
    /// Meanings of the known reasons, with remedies: first of the rows with a `cause`, then of the other rows in their
    /// order, then of `not_filtered`.
    pub advice: Vec<DropAdvice>,
    /// Limits of these figures, one sentence each.
    pub limits: Vec<String>,
}

/// Drops of one reason at one place, and of one flow, process or stack if these were to be distinguished.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DropRow {
    /// The kernel's name of the reason, such as `UDP_CSUM`; `-` if it gives none.
    pub reason: String,
    /// Place of the drops: a kernel function with the offset in it, or the name of a counter.
    pub place: String,
    /// How the drops of this row were counted.
    #[serde(default)]
    pub method: Method,
    /// Network namespace: its name in /run/netns, `host` for the host's own, otherwise a process in it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub netns: Option<String>,
    /// The namespace's inode number (/proc/PID/ns/net).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub netns_inode: Option<u64>,
    /// The packet's interface when it was dropped.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub device: Option<String>,
    /// The socket that the packet was for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub socket: Option<Socket>,
    /// Container, by the control group of the socket's process, or of a process in the namespace.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub container: Option<String>,
    /// Cause, as far as packets and devices show it, if the kernel gives no reason.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cause: Option<String>,
    /// Drops in the interval.
    pub drops: u64,
    /// Drops per second of the interval.
    pub per_s: f64,
    /// Share of the drops of all rows (0 to 1).
    pub share: f64,
    /// Bytes of the dropped packets. None: only packets were counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The flow, if drops were to be distinguished by flow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow: Option<Flow>,
    /// The task that was running, if drops were to be distinguished by process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<Process>,
    /// The kernel's stack, innermost function first, if drops were to be distinguished by stack.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub stack: Vec<String>,
}

/// Source and destination of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Flow {
    /// IP protocol number.
    pub protocol: u8,
    /// Source.
    pub source: IpAddr,
    /// Source port; 0 if the protocol has no ports.
    pub source_port: u16,
    /// Destination.
    pub destination: IpAddr,
    /// Destination port; 0 if the protocol has no ports.
    pub destination_port: u16,
}

impl fmt::Display for Flow {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        protocol(out, self.protocol)?;
        let end = |out: &mut fmt::Formatter<'_>, address: IpAddr, port: u16| match (address, port) {
            (address, 0) => write!(out, "{address}"),
            (IpAddr::V4(address), port) => write!(out, "{address}:{port}"),
            (IpAddr::V6(address), port) => write!(out, "[{address}]:{port}"),
        };
        end(out, self.source, self.source_port)?;
        out.write_str(" > ")?;
        end(out, self.destination, self.destination_port)
    }
}

fn protocol(out: &mut fmt::Formatter<'_>, number: u8) -> fmt::Result {
    match number {
        6 => out.write_str("tcp "),
        17 => out.write_str("udp "),
        1 => out.write_str("icmp "),
        58 => out.write_str("icmp6 "),
        132 => out.write_str("sctp "),
        other => write!(out, "proto {other} "),
    }
}

/// A socket, and the process that owns it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Socket {
    /// IP protocol number.
    pub protocol: u8,
    /// Local address; unspecified: any.
    pub address: IpAddr,
    /// Local port.
    pub port: u16,
    /// Inode number, as in /proc/PID/fd; 0: no file.
    pub inode: u64,
    /// A process that has it open.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub process: Option<Process>,
}

impl fmt::Display for Socket {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        protocol(out, self.protocol)?;
        match self.address {
            IpAddr::V6(address) => write!(out, "[{address}]:{}", self.port)?,
            IpAddr::V4(address) => write!(out, "{address}:{}", self.port)?,
        }
        match &self.process {
            Some(Process { id, name }) => write!(out, " {name} ({id})"),
            None => Ok(()),
        }
    }
}

/// A task of the kernel's scheduler.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Process {
    /// Its number (PID); 0: the CPU was idle.
    pub id: u32,
    /// Its name.
    pub name: String,
}

/// Meaning of a drop reason, and remedies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DropAdvice {
    /// The reasons that it explains.
    pub reason: String,
    /// Meaning of the reason: the event that drops packets.
    pub meaning: String,
    /// Remedies, one step each, with commands in backquotes.
    pub remedies: Vec<String>,
    /// Source of this explanation.
    pub source: String,
}

/// A packet's path through the kernel.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Path {
    /// Number of the packet, from 0, in the order in which packets were first seen.
    pub packet: u32,
    /// Its flow; None: not an IP packet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow: Option<Flow>,
    /// Places that the packet passed, by time.
    pub steps: Vec<PathStep>,
    /// True if the trace includes the end of the path: the packet was consumed or dropped.
    pub ended: bool,
}

/// One place that a packet passed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PathStep {
    /// Time since the packet was first seen (ns).
    pub at_ns: u64,
    /// The tracepoint or function.
    pub place: String,
    /// The CPU that ran it.
    pub cpu: u32,
    /// The packet's interface here.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub device: Option<String>,
    /// The network namespace of that interface.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub netns: Option<String>,
    /// Bytes from the packet's data pointer on: headers already removed do not count.
    pub bytes: u32,
    /// Reason and place of the drop; None: the packet was not dropped here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropped: Option<String>,
}

/// Largest number of rows in a sum. Further rows lose flow, socket, process and stack before they are added.
const MOST_ROWS: usize = 16_384;

impl DropRow {
    /// Hash of everything but the counts: rows with the same hash are added up.
    fn identity(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let DropRow {
            reason, place, method, netns, netns_inode, device, socket, container, flow, process, stack, ..
        } = self;
        (reason, place, *method as u8, netns, netns_inode, device, socket, container, flow, process, stack)
            .hash(&mut hasher);
        hasher.finish()
    }
}

/// Adds `rows` to `sum`. Rows that differ only in their counts or their cause become one row.
pub fn add_rows(sum: &mut Vec<DropRow>, rows: impl IntoIterator<Item = DropRow>) {
    let mut places: HashMap<u64, usize> = sum.iter().enumerate().map(|(n, row)| (row.identity(), n)).collect();
    for mut row in rows {
        if sum.len() >= MOST_ROWS && !places.contains_key(&row.identity()) {
            (row.flow, row.socket, row.process, row.stack) = (None, None, None, Vec::new());
        }
        let place = *places.entry(row.identity()).or_insert(sum.len());
        match sum.get_mut(place) {
            Some(known) => {
                known.drops += row.drops;
                known.bytes = known.bytes.zip(row.bytes).map(|(one, other)| one + other);
                known.cause = row.cause.or(known.cause.take());
            }
            None => sum.push(row),
        }
    }
}

impl Drops {
    /// Adds the drops of a later interval.
    pub fn add(&mut self, later: &Drops) {
        let weighted = self.sampling_factor * self.seen.unwrap_or(0) as f64
            + later.sampling_factor * later.seen.unwrap_or(0) as f64;
        self.seen = self.seen.zip(later.seen).map(|(one, other)| one + other);
        let seen = self.seen.unwrap_or(0);
        self.sampling_factor = if seen > 0 { weighted / seen as f64 } else { 1.0 };
        self.seconds += later.seconds;
        add_rows(&mut self.rows, later.rows.iter().cloned());
        add_rows(&mut self.not_filtered, later.not_filtered.iter().cloned());
        add_rows(&mut self.at_close, later.at_close.iter().cloned());
        for advice in &later.advice {
            if !self.advice.contains(advice) {
                self.advice.push(advice.clone());
            }
        }
        self.limits
            .extend(later.limits.iter().filter(|limit| !self.limits.contains(limit)).cloned().collect::<Vec<_>>());
        self.settle();
    }

    /// Sorts the rows, most drops first, and sets rates and shares.
    pub fn settle(&mut self) {
        for rows in [&mut self.rows, &mut self.not_filtered, &mut self.at_close] {
            let all: u64 = rows.iter().map(|row| row.drops).sum();
            for row in rows.iter_mut() {
                row.per_s = row.drops as f64 / self.seconds.max(1e-9);
                row.share = if all == 0 { 0.0 } else { row.drops as f64 / all as f64 };
            }
            rows.sort_by(|a, b| b.drops.cmp(&a.drops).then_with(|| (&a.reason, &a.place).cmp(&(&b.reason, &b.place))));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_add_up_by_reason_place_and_owner() {
        let row = |netns: &str, drops: u64| DropRow {
            reason: "NO_SOCKET".into(),
            netns: Some(netns.into()),
            drops,
            bytes: Some(100 * drops),
            ..DropRow::default()
        };
        let interval = |rows: Vec<DropRow>| {
            let limits = vec!["one".to_owned()];
            Drops { seconds: 1.0, seen: Some(10), sampling_factor: 1.0, rows, limits, ..Drops::default() }
        };
        let mut total = interval(vec![row("a", 3), row("b", 1)]);
        total.add(&interval(vec![row("b", 5)]));
        let told: Vec<(Option<&str>, u64)> = total.rows.iter().map(|row| (row.netns.as_deref(), row.drops)).collect();
        assert_eq!(told, [(Some("b"), 6), (Some("a"), 3)]);
        assert_eq!((total.seconds, total.seen, total.limits.len(), total.rows[0].bytes), (2.0, Some(20), 1, Some(600)));
        assert_eq!(total.rows[0].per_s, 3.0);
    }
}
