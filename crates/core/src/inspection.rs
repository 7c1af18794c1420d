//! What `netcliff inspect` says of a host, for people and programs: [`Sheet`] (sections of facts) and [`Remark`]
//! (what looks wrong, why, and the command that would change it).

use serde::{Deserialize, Serialize};

/// What settings are wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Objective {
    /// Short waits.
    Latency,
    /// CPU left for others.
    Cpu,
    /// Packets and bytes delivered.
    Throughput,
}

impl Objective {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Latency, Self::Cpu, Self::Throughput];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        crate::Choice::name(self)
    }
}

impl crate::Choice for Objective {
    const CHOICES: &'static [(Self, &'static str, &'static str)] = &[
        (Self::Latency, "latency", "Short waits"),
        (Self::Cpu, "cpu", "CPU left for others"),
        (Self::Throughput, "throughput", "Packets and bytes delivered"),
    ];
}

impl std::fmt::Display for Objective {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.name())
    }
}

/// How much a remark matters; the order is that of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Packets are lost, or most of the speed is.
    Fault,
    /// Speed, latency or CPU is wasted under load.
    Warning,
    /// Worth knowing; may be meant so.
    Note,
}

impl std::fmt::Display for Severity {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::Fault => "fault",
            Self::Warning => "warning",
            Self::Note => "note",
        })
    }
}

/// One thing that looks wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Remark {
    /// Identifier of the rule (kebab case); stable.
    pub rule: String,
    /// How much it matters.
    pub severity: Severity,
    /// The interface it is about; None: the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// What was seen, with its figures.
    pub evidence: String,
    /// Why it matters.
    pub why: String,
    /// Where that is written.
    pub source: String,
    /// Shell commands that would change it, as root; empty where only hands can.
    pub commands: Vec<String>,
}

/// A heading and what is said under it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Section {
    /// The heading.
    pub heading: String,
    /// True for an interface, false for the host and its stack.
    pub is_interface: bool,
    /// Names and what is said of each.
    pub facts: Vec<(String, String)>,
}

/// The page about a host.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sheet {
    /// Along the path of a packet.
    pub sections: Vec<Section>,
    /// What looks wrong, worst first.
    pub remarks: Vec<Remark>,
    /// What could not be read, with the reason.
    pub not_had: Vec<String>,
    /// False where only root could have read the rest.
    pub is_root: bool,
}
