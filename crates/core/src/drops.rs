//! What `netcliff drops` shows of an interval: [`Drops`].

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
    /// At the kernel's tracepoint skb:kfree_skb, each with reason and place.
    Ebpf,
    /// By the counters that the kernel keeps anyway.
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
    /// In a column.
    #[must_use]
    pub fn short(self) -> &'static str {
        match self {
            Method::Ebpf => "eBPF",
            Method::Counters => "counter",
        }
    }
}

/// An interval's drops.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Drops {
    /// Length of the interval (s).
    pub seconds: f64,
    /// How they were counted.
    pub method: Method,
    /// Which packets count; None: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// All drops that the kernel reported, whatever the filter; exact. None where only counters were read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen: Option<u64>,
    /// Drops that one that was looked at stands for, mean: 1 below the bound of the sampling. Counts of rows are scaled by it.
    pub sampling_factor: f64,
    /// Whose drops these are: `netns blue`, `all network namespaces`; None where that was not looked at.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub scope: Option<String>,
    /// The rows, most drops first.
    pub rows: Vec<DropRow>,
    /// With a filter: counters that grew and that eBPF does not see. They are of all packets, as no filter applies to a counter.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub not_filtered: Vec<DropRow>,
    /// Packets that were freed as their socket or device was closed: no losses, in no sum.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub at_close: Vec<DropRow>,
    /// What the reasons mean and what to do about them, those of the first rows first.
    pub advice: Vec<DropAdvice>,
    /// What limits these figures, a sentence each.
    pub limits: Vec<String>,
}

/// Drops of one reason at one place, and what else was asked to tell them apart by.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DropRow {
    /// The kernel's name of the reason (`UDP_CSUM`); `-` where it gives none.
    pub reason: String,
    /// Where: a function of the kernel with the offset in it, or a counter's name.
    pub place: String,
    /// How this row was counted.
    #[serde(default)]
    pub method: Method,
    /// Network namespace: its name below /run/netns, `host` for the host's own, else a process in it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub netns: Option<String>,
    /// The namespace's inode number (/proc/PID/ns/net).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub netns_inode: Option<u64>,
    /// The packet's interface at the place.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub device: Option<String>,
    /// The socket that it was for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub socket: Option<Socket>,
    /// The container by its control group: of the socket's process, else of one in the namespace.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub container: Option<String>,
    /// What the packets and the devices show of the cause, where the kernel gives no reason.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cause: Option<String>,
    /// Drops in the interval.
    pub drops: u64,
    /// The same by time (drops/s).
    pub per_s: f64,
    /// Share of all rows.
    pub share: f64,
    /// Bytes of the packets; None where only packets are counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The flow, where asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow: Option<Flow>,
    /// Who had the CPU, where asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<Process>,
    /// The kernel's stack, innermost first, where asked.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub stack: Vec<String>,
}

/// Source and destination of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Flow {
    /// IP's protocol.
    pub protocol: u8,
    /// Source.
    pub source: IpAddr,
    /// Its port; 0 without ports.
    pub source_port: u16,
    /// Destination.
    pub destination: IpAddr,
    /// Its port.
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

/// A socket and who has it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Socket {
    /// IP's protocol.
    pub protocol: u8,
    /// Its own address; unspecified: any.
    pub address: IpAddr,
    /// Its own port.
    pub port: u16,
    /// Its inode number, as in /proc/PID/fd; 0 where it has no file.
    pub inode: u64,
    /// A process that has it.
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

/// A task.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Process {
    /// Number; 0: the CPU was idle.
    pub id: u32,
    /// Name.
    pub name: String,
}

/// What a reason means and what helps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DropAdvice {
    /// The reasons that it is about.
    pub reason: String,
    /// What happened.
    pub meaning: String,
    /// What to do, a step each; commands stand in backquotes.
    pub remedies: Vec<String>,
    /// The source of that.
    pub source: String,
}

/// A packet's path through the kernel.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Path {
    /// Its number, from 0 in the order in which packets were first seen.
    pub packet: u32,
    /// Its flow; None where it was not IP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow: Option<Flow>,
    /// What touched it, in order of time.
    pub steps: Vec<PathStep>,
    /// True where its end was seen, consumed or dropped.
    pub ended: bool,
}

/// A place that touched a packet.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PathStep {
    /// Time since the packet was first seen (ns).
    pub at_ns: u64,
    /// The tracepoint or function.
    pub place: String,
    /// CPU.
    pub cpu: u32,
    /// The packet's interface here.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub device: Option<String>,
    /// The network namespace of that interface.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub netns: Option<String>,
    /// Bytes from the packet's data on, headers that were already taken off not included.
    pub bytes: u32,
    /// Why and where it was dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropped: Option<String>,
}

/// Rows of a sum that are told apart; what more there is goes without flow, socket and process.
const MOST_ROWS: usize = 16_384;

impl DropRow {
    /// A number of all but the counts: rows that count the same have the same.
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

/// Adds rows to those that count the same.
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
    /// Adds a later interval.
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
