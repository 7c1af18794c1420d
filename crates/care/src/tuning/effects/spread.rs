//! Steps that redistribute packets over queues, the RSS table and the number of channels: the busiest queue decides.
//!
//! Per-queue utilisation (docs/theory/queues.md): a queue with the share p of the packets, on a core of its own, is full at
//! 1 / (p c) with c the cost of a packet. The share is that of the table's entries, for many flows of like weight.

use netcliff_host::setting::{Group, Setting};
use netcliff_host::tune::Step;

use super::{Known, Range};

/// Shares of the packets that the queues get, by queue.
type Shares = Vec<f64>;

/// What the step is expected to change; None for others, and for values that are no distribution.
pub(super) fn effect(known: &Known<'_>, step: &Step) -> Option<String> {
    let of: fn(&str) -> Option<Shares> = match &step.setting {
        Setting::RssTable { .. } => table,
        Setting::Ethtool { group: Group::Channels, key, .. } if key == "combined" || key == "rx" => even,
        _ => return None,
    };
    let (before, after) = (of(&step.proposal.old)?, of(&step.proposal.new)?);
    let share = |shares: &Shares| format!("{:.1} % of the packets", 100.0 * busiest(shares));
    Some(format!(
        "the busiest queue gets {} -> {} and its core is full at {} -> {} kpps (predicted; costs of {}, ranges from their \
         intervals; many flows of like weight, a core a queue)",
        share(&before),
        share(&after),
        full(known, &before),
        full(known, &after),
        known.run,
    ))
}

/// Even shares of so many queues.
fn even(count: &str) -> Option<Shares> {
    let count: usize = count.parse().ok().filter(|count| *count > 0)?;
    Some(vec![1.0 / count as f64; count])
}

/// Shares of a table's entries.
fn table(text: &str) -> Option<Shares> {
    let entries: Vec<usize> = text.split(',').map(|entry| entry.trim().parse().ok()).collect::<Option<_>>()?;
    let mut shares = vec![0.0; entries.iter().max()? + 1];
    entries.iter().for_each(|queue| shares[*queue] += 1.0 / entries.len() as f64);
    Some(shares)
}

fn busiest(shares: &Shares) -> f64 {
    shares.iter().copied().fold(0.0, f64::max)
}

/// Load of all queues together at which the busiest one's core is full (kpps).
fn full(known: &Known<'_>, shares: &Shares) -> Range {
    known.range(|host| 1e-3 * known.one_cpu_pps(host) / busiest(shares))
}
