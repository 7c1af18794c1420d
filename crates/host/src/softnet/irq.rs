//! Interrupt and softirq counts by CPU.

use crate::procfs;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fs, io};

/// A table of counters: rows by name, columns by CPU (`/proc/interrupts`, `/proc/softirqs`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PerCpu {
    /// CPU of each column; offline CPUs have none.
    pub cpus: Vec<u32>,
    /// Counts by row name: `NET_RX`, `RES` (rescheduling interrupts), `CAL` (function call interrupts,
    /// which RPS uses), or an interrupt number.
    pub rows: BTreeMap<String, Row>,
}

/// One row of a [`PerCpu`] table.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Row {
    /// Counts, one per column.
    pub counts: Vec<u64>,
    /// Chip, trigger and device names, as printed.
    pub description: String,
}

impl PerCpu {
    /// A counter; `None` if the row or the CPU is missing.
    pub fn count(&self, row: &str, cpu: u32) -> Option<u64> {
        let column = self.cpus.iter().position(|candidate| *candidate == cpu)?;
        self.rows.get(row)?.counts.get(column).copied()
    }

    /// A counter's increase since an earlier snapshot; `None` if the row or the CPU is missing.
    pub fn count_since(&self, earlier: &PerCpu, row: &str, cpu: u32) -> Option<u64> {
        Some(self.count(row, cpu)?.wrapping_sub(earlier.count(row, cpu)?))
    }
}

/// Interrupts since boot.
///
/// # Errors
/// When `/proc/interrupts` cannot be read or has another form.
pub fn interrupts() -> io::Result<PerCpu> {
    parse_per_cpu(&procfs::lossy("/proc/interrupts")?)
}

/// Softirqs since boot.
///
/// # Errors
/// When `/proc/softirqs` cannot be read or has another form.
pub fn softirqs() -> io::Result<PerCpu> {
    parse_per_cpu(&fs::read_to_string("/proc/softirqs")?)
}

/// Parses either table.
///
/// # Errors
/// When the first line does not name CPUs.
pub fn parse_per_cpu(text: &str) -> io::Result<PerCpu> {
    let bad = || io::Error::new(io::ErrorKind::InvalidData, "the first line does not name CPUs");
    let mut lines = text.lines();
    let cpus: Vec<u32> = lines
        .next()
        .ok_or_else(bad)?
        .split_whitespace()
        .map(|name| name.strip_prefix("CPU").and_then(|number| number.parse().ok()).ok_or_else(bad))
        .collect::<Result<_, _>>()?;
    if cpus.is_empty() {
        return Err(bad());
    }
    let rows = lines.filter_map(|line| row(line, cpus.len())).collect();
    Ok(PerCpu { cpus, rows })
}

/// `NAME: count.. description`; rows such as `ERR:` have a single count for the whole machine.
fn row(line: &str, columns: usize) -> Option<(String, Row)> {
    let (name, rest) = line.split_once(':')?;
    let mut words = rest.split_whitespace().peekable();
    let mut counts = Vec::new();
    while counts.len() < columns
        && let Some(count) = words.peek().and_then(|word| word.parse().ok())
    {
        counts.push(count);
        words.next();
    }
    let description = words.collect::<Vec<_>>().join(" ");
    Some((name.trim().to_owned(), Row { counts, description }))
}
