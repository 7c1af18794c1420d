//! [`Forwarding`]: throughput of this kernel as a router by frame size, in several set-ups measured in turn.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::KindTag;
use super::figure::{Axes, Ends};
use super::file::{BadValue, Step};
use super::mark::MarkSection;
use super::values::{OneOrMore, Share, rising_bytes};
use crate::inspection::Objective;
use crate::outcome::Dimension;
use crate::traffic::FrameSizes;
use crate::units;

/// Number of flows if the file gives none: enough for RSS to spread them evenly.
const FLOWS: u32 = 64;
/// Most rounds; more is probably a typing error.
const ROUNDS_AT_MOST: u32 = 1000;

/// A configuration of the router.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SetUp {
    /// Its name in tables and figures.
    pub name: String,
    /// How the router forwards: `route`, `netfilter`, `conntrack`, `bridge`, `xdp` or `xdp-generic`.
    #[serde(default = "route")]
    pub forwarding: String,
    /// Number of rules that `netfilter` compares each frame with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<u16>,
    /// Objective of the plan (`tune`) that sets its interfaces. None: the kernel's defaults, by which the CPU that
    /// sends a frame also forwards it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tune: Option<Objective>,
}

fn route() -> String {
    "route".to_owned()
}

/// A forwarding experiment, as written in its file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Forwarding {
    /// Title: the subject of the experiment, one line.
    #[serde(default)]
    pub title: String,
    kind: KindTag,
    /// Number of rounds; each round measures every set-up once.
    #[serde(default = "three")]
    pub rounds: u32,
    /// Frame sizes, FCS included.
    pub sizes: OneOrMore<FrameSizes>,
    /// Number of flows, distinguished by source port and address. `None`: 64, rounded up to a multiple of the
    /// destinations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flows: Option<u32>,
    /// Number of destination addresses; flows use them in turn. The router stores some of its state by destination.
    #[serde(default = "single", skip_serializing_if = "is_single")]
    pub destinations: u32,
    /// Number of destination ports of each address.
    #[serde(default = "single", skip_serializing_if = "is_single")]
    pub destination_ports: u32,
    /// Length of one trial. A load is classified by 21 trials, of which up to half may lose frames.
    #[serde(default = "trial")]
    pub trial: String,
    /// Pause between trials.
    #[serde(default = "rest")]
    pub rest: String,
    /// Longest wait for frames that are still under way after a trial.
    #[serde(default = "settle")]
    pub settle: String,
    /// Relative distance of the bounds at which a search ends.
    #[serde(default = "width")]
    pub width: Share,
    /// Highest share of lost frames in a trial that passes.
    #[serde(default = "none")]
    pub loss: String,
    /// The set-ups; all others are compared with the first.
    #[serde(rename = "set-up")]
    pub set_ups: Vec<SetUp>,
    /// How it is drawn.
    #[serde(default)]
    pub figure: Ends,
    /// Stated numbers to compare with.
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
    /// Returns the frame sizes (bytes, FCS included) in rising order.
    ///
    /// # Errors
    /// A size that is not one number of bytes.
    pub fn sizes_bytes(&self) -> Result<Vec<f64>, BadValue> {
        rising_bytes(&self.sizes)
    }

    /// Length of a trial, pause between trials, longest wait for late frames (s).
    ///
    /// # Errors
    /// One of them is not a time.
    pub fn times_s(&self) -> Result<[f64; 3], BadValue> {
        let time = |key: &'static str, text: &str| {
            units::parse_time_s(text).map_err(|error| BadValue::at("", key, error.to_string()))
        };
        Ok([time("trial", &self.trial)?, time("rest", &self.rest)?, time("settle", &self.settle)?])
    }

    /// Highest share of lost frames in a trial that passes.
    ///
    /// # Errors
    /// It is not a share.
    pub fn loss_ratio(&self) -> Result<f64, BadValue> {
        units::parse_share(&self.loss).map_err(|error| BadValue::at("", "loss", error.to_string()))
    }

    /// Number of flows in each direction: as the file gives it, otherwise 64 rounded up to a multiple of the
    /// destinations.
    pub fn flows(&self) -> u32 {
        let targets = self.destinations.saturating_mul(self.destination_ports).max(1);
        self.flows.unwrap_or_else(|| FLOWS.checked_next_multiple_of(targets).unwrap_or(targets))
    }

    /// The axes: throughput by frame size.
    pub(super) fn axes(&self) -> Result<Axes, BadValue> {
        self.figure.axes(("frame size", Dimension::Bytes), ("throughput", Dimension::Pps))
    }

    /// Checks every value except the forwarding methods and the ranges, which are checked where they are measured.
    ///
    /// # Errors
    /// The first impossible value, with its place in the file.
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
