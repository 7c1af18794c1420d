//! [`Forwarding`]: the throughput of this kernel as a router over the frame size, in several set-ups that take turns.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::KindTag;
use super::figure::{Axes, Ends};
use super::file::{BadValue, Step};
use super::mark::MarkSection;
use super::values::{OneOrMore, Share, rising_bytes};
use crate::inspection::Objective;
use crate::measure::Dimension;
use crate::traffic::FrameSizes;
use crate::units;

/// Flows where the file does not say: so many that RSS and its like deal them evenly.
const FLOWS: u32 = 64;
/// Most rounds: more is surely a slip of the pen.
const ROUNDS_AT_MOST: u32 = 1000;

/// One way to set the router up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SetUp {
    /// What it is called in tables and figures.
    pub name: String,
    /// How it forwards: `route`, `netfilter`, `conntrack`, `bridge`, `xdp` or `xdp-generic`.
    #[serde(default = "route")]
    pub forwarding: String,
    /// Rules of `netfilter` that each frame is compared with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<u16>,
    /// The objective of the plan by which its interfaces are set; None: as the kernel sets them up, so that the CPU that
    /// sends a frame also forwards it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tune: Option<Objective>,
}

fn route() -> String {
    "route".to_owned()
}

/// An experiment of forwarding, as its file says it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Forwarding {
    /// What the experiment shows, one line.
    #[serde(default)]
    pub title: String,
    kind: KindTag,
    /// How often each set-up is measured; in each round all take their turn.
    #[serde(default = "three")]
    pub rounds: u32,
    /// Frame sizes, FCS included.
    pub sizes: OneOrMore<FrameSizes>,
    /// Flows, over source ports and addresses; None: 64, or as many more as there have to be for each destination to have as many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flows: Option<u32>,
    /// Addresses that they go to, for what the router remembers by destination; in turn.
    #[serde(default = "single", skip_serializing_if = "is_single")]
    pub destinations: u32,
    /// Ports of each of those.
    #[serde(default = "single", skip_serializing_if = "is_single")]
    pub destination_ports: u32,
    /// Length of a trial; 21 of them classify a load, of which half may lose.
    #[serde(default = "trial")]
    pub trial: String,
    /// Rest between trials.
    #[serde(default = "rest")]
    pub rest: String,
    /// Longest wait for residual frames.
    #[serde(default = "settle")]
    pub settle: String,
    /// Relative distance of the bounds at which a search ends.
    #[serde(default = "width")]
    pub width: Share,
    /// Share of frames that a trial may lose.
    #[serde(default = "none")]
    pub loss: String,
    /// The set-ups; the others are compared with the first.
    #[serde(rename = "set-up")]
    pub set_ups: Vec<SetUp>,
    /// How it is drawn.
    #[serde(default)]
    pub figure: Ends,
    /// Numbers that others have stated.
    #[serde(default, rename = "mark", skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<MarkSection>,
}

fn three() -> u32 {
    3
}
fn single() -> u32 {
    1
}
fn is_single(count: &u32) -> bool {
    *count == 1
}
fn trial() -> String {
    "50ms".to_owned()
}
fn rest() -> String {
    "5ms".to_owned()
}
fn settle() -> String {
    "50ms".to_owned()
}
fn width() -> Share {
    Share(0.05)
}
fn none() -> String {
    "0%".to_owned()
}

impl Forwarding {
    /// Frame sizes (bytes, FCS included), rising.
    ///
    /// # Errors
    /// A size that is not one number of bytes.
    pub fn sizes_bytes(&self) -> Result<Vec<f64>, BadValue> {
        rising_bytes(&self.sizes)
    }

    /// Length of a trial, rest between trials, longest wait for residual frames (s).
    ///
    /// # Errors
    /// One is no time.
    pub fn times_s(&self) -> Result<[f64; 3], BadValue> {
        let time = |key: &'static str, text: &str| {
            units::parse_time_s(text).map_err(|error| BadValue::at("", key, error.to_string()))
        };
        Ok([time("trial", &self.trial)?, time("rest", &self.rest)?, time("settle", &self.settle)?])
    }

    /// Share of frames that a trial may lose.
    ///
    /// # Errors
    /// It is no share.
    pub fn loss_ratio(&self) -> Result<f64, BadValue> {
        units::parse_share(&self.loss).map_err(|error| BadValue::at("", "loss", error.to_string()))
    }

    /// Flows each way: those of the file, or as many that all destinations have as many.
    pub fn flows(&self) -> u32 {
        let targets = self.destinations.saturating_mul(self.destination_ports).max(1);
        self.flows.unwrap_or_else(|| FLOWS.checked_next_multiple_of(targets).unwrap_or(targets))
    }

    /// Throughput over frame size.
    pub(super) fn axes(&self) -> Result<Axes, BadValue> {
        self.figure.axes(("frame size", Dimension::Bytes), ("throughput", Dimension::Pps))
    }

    /// Checks every value; ways of forwarding and ranges are the measuring side's to know.
    ///
    /// # Errors
    /// The first that cannot be, with its place.
    pub fn check(&self) -> Result<(), BadValue> {
        self.sizes_bytes()?;
        self.times_s()?;
        self.loss_ratio()?;
        if !(1..=ROUNDS_AT_MOST).contains(&self.rounds) {
            let message = format!("rounds = {}: expected 1 to {ROUNDS_AT_MOST}", self.rounds);
            return Err(BadValue::at("", "rounds", message));
        }
        if self.set_ups.is_empty() {
            return Err(BadValue::at("", "set-up", "set-up: expected at least one [[set-up]] with a name"));
        }
        let mut names = BTreeSet::new();
        for (index, set_up) in self.set_ups.iter().enumerate() {
            let bad = |key, message| BadValue {
                place: vec![Step::Key("set-up"), Step::Item(index), Step::Key(key)],
                message,
            };
            if set_up.name.is_empty() || !names.insert(&set_up.name) {
                return Err(bad("name", format!("name = \"{}\": each set-up needs a name of its own", set_up.name)));
            }
            if set_up.rules.is_some() && set_up.forwarding != "netfilter" {
                let message = format!("rules: only with forwarding = \"netfilter\", not \"{}\"", set_up.forwarding);
                return Err(bad("rules", message));
            }
        }
        self.axes().map(drop)
    }
}
