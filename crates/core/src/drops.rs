//! What `netcliff drops` shows of an interval: [`Drops`].

use serde::{Deserialize, Serialize};
use std::fmt;
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
            Method::Ebpf => "eBPF (skb:kfree_skb)",
            Method::Counters => "counters",
        })
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
    /// The rows, most drops first.
    pub rows: Vec<DropRow>,
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
        match self.protocol {
            6 => out.write_str("tcp ")?,
            17 => out.write_str("udp ")?,
            1 => out.write_str("icmp ")?,
            58 => out.write_str("icmp6 ")?,
            132 => out.write_str("sctp ")?,
            other => write!(out, "proto {other} ")?,
        }
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
    /// Bytes from the packet's data on, headers that were already taken off not included.
    pub bytes: u32,
    /// Why and where it was dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropped: Option<String>,
}

impl Drops {
    /// Sorts the rows, most drops first, and sets rates and shares.
    pub fn settle(&mut self) {
        let all: u64 = self.rows.iter().map(|row| row.drops).sum();
        for row in &mut self.rows {
            row.per_s = row.drops as f64 / self.seconds.max(1e-9);
            row.share = if all == 0 { 0.0 } else { row.drops as f64 / all as f64 };
        }
        self.rows.sort_by(|a, b| b.drops.cmp(&a.drops).then_with(|| (&a.reason, &a.place).cmp(&(&b.reason, &b.place))));
    }
}
