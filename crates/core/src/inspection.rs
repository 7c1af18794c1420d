//! Result of `netcliff inspect`: [`Sheet`] (sections of facts about a host) and [`Remark`] (an observed problem, why it
//! matters, and the command that would change it).

use serde::{Deserialize, Serialize};

/// Objective for which settings are optimised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Objective {
    /// Short waiting times.
    Latency,
    /// CPU time left for other programs.
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
        (Self::Latency, "latency", "Low latency"),
        (Self::Cpu, "cpu", "CPU time left for other work"),
        (Self::Throughput, "throughput", "High throughput: packets and bytes delivered"),
    ];
}

impl std::fmt::Display for Objective {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.name())
    }
}

/// How much a remark matters, in the order of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Packets are lost, or the rate is far below the possible rate.
    Fault,
    /// Under load, throughput, latency or CPU use is worse than necessary.
    Warning,
    /// Worth knowing; may be intended.
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

/// A probable problem of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Remark {
    /// Identifier of the rule (kebab case); stable.
    pub rule: String,
    /// How much it matters.
    pub severity: Severity,
    /// The interface that it is about; None: the whole host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// The observation, with its numbers.
    pub evidence: String,
    /// Why it matters.
    pub why: String,
    /// Documentation that says so.
    pub source: String,
    /// Shell commands that would change the observed setting or state, to be run as root; empty if no command can.
    pub commands: Vec<String>,
}

/// A section of the page: heading and facts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Section {
    /// The heading.
    pub heading: String,
    /// True for an interface, false for the host and its stack.
    pub is_interface: bool,
    /// (name, value) of each fact.
    pub facts: Vec<(String, String)>,
}

/// The page about one host.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sheet {
    /// Sections in the order of a packet's path.
    pub sections: Vec<Section>,
    /// Remarks, the most severe first.
    pub remarks: Vec<Remark>,
    /// Facts that could not be read, with the reason.
    pub not_had: Vec<String>,
    /// False: not root, so that some facts could not be read.
    pub is_root: bool,
}
