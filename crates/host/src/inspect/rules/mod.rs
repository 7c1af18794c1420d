//! Finds problems of a host's configuration: [`check`].
//!
//! A rule is a pure function from an [`Inspection`] and an [`Aim`] to remarks. Rules on one topic are in one file. Each
//! rule has a test that triggers it and a test that does not (crates/host/tests/host/inspect/rules.rs). docs/inspect.md
//! lists the rules.

mod cpu;
mod drops;
mod interrupts;
pub(super) mod link;
mod network;
mod queues;

pub(crate) use drops::{Pressure, backlog_losses, squeezes};
pub use queues::Burst;
pub(crate) use queues::{
    SHORT_DELAY_US, hashed_without_ports, is_skewed, most_queues, near_cores, near_cpus, ring_wanted,
};

use super::{Inspection, Port};
use netcliff_core::inspection::{Objective, Remark, Severity};

/// What the host is used for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Aim {
    /// The objective; `None` if the user gave none.
    pub objective: Option<Objective>,
    /// Round-trip time of the paths that TCP should fill (s).
    pub rtt_s: f64,
}

impl Default for Aim {
    /// No objective, and a round-trip time of 1 ms, as in a large building.
    fn default() -> Self {
        Self { objective: None, rtt_s: 1e-3 }
    }
}

/// A finding of a rule about a host or an interface, without the rule's identifier.
struct Seen {
    severity: Severity,
    evidence: String,
    commands: Vec<String>,
}

/// The part of a host that a rule inspects.
enum Look {
    /// The whole host.
    Host(fn(&Inspection, &Aim) -> Option<Seen>),
    /// Each interface on the page.
    Port(fn(&Inspection, &Port, &Aim) -> Option<Seen>),
}

/// A rule.
pub struct Rule {
    /// Stable identifier in kebab case.
    pub id: &'static str,
    /// Why the finding matters.
    pub why: &'static str,
    /// Source of the statement in `why`.
    pub source: &'static str,
    look: Look,
}

/// All rules.
pub fn all() -> impl Iterator<Item = &'static Rule> {
    [link::RULES, interrupts::RULES, queues::RULES, drops::RULES, cpu::RULES, network::RULES].into_iter().flatten()
}

/// The remarks of all rules, the most severe first.
pub fn check(inspection: &Inspection, aim: &Aim) -> Vec<Remark> {
    let ports = inspection.main_ports();
    let mut remarks: Vec<Remark> = all()
        .flat_map(|rule| match rule.look {
            Look::Host(look) => look(inspection, aim).map(|seen| rule.remark(seen, None)).into_iter().collect(),
            Look::Port(look) => ports
                .iter()
                .filter_map(|port| Some(rule.remark(look(inspection, port, aim)?, Some(&port.nic.name))))
                .collect::<Vec<_>>(),
        })
        .collect();
    // The sort is stable: remarks of equal severity stay in the order of a packet's path.
    remarks.sort_by_key(|remark| remark.severity);
    remarks
}

impl Rule {
    fn remark(&self, seen: Seen, interface: Option<&str>) -> Remark {
        Remark {
            rule: self.id.to_owned(),
            severity: seen.severity,
            interface: interface.map(str::to_owned),
            evidence: seen.evidence,
            why: self.why.to_owned(),
            source: self.source.to_owned(),
            commands: seen.commands,
        }
    }
}

fn seen(severity: Severity, evidence: impl Into<String>, commands: impl IntoIterator<Item = String>) -> Option<Seen> {
    Some(Seen { severity, evidence: evidence.into(), commands: commands.into_iter().collect() })
}

/// `1 queue`, `3 queues`.
fn count(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}
