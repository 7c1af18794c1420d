//! [`Queues`]: a host whose NIC spreads packets over several receive queues, each with its own interrupt and core
//! (Gasparakis and Waskiewicz 2010; docs/theory/queues.md).
//!
//! | module | holds |
//! | --- | --- |
//! | [`rss`] | the Toeplitz hash and the indirection table of 128 entries |
//! | [`flows`] | flows, their weights, and the share of each queue |
//! | `layout` | the core of each interrupt vector, and its costs there |
//! | [`apart`] | cores for transmit completions other than their queue's own |
//! | [`total`] | the host's outcome from the outcomes of its vectors |

pub mod apart;
pub mod flows;
mod layout;
pub mod rss;
pub mod total;

use crate::error::{Invalid, ParseError};
use crate::params::{self, Params};
use crate::units;

pub use flows::Flows;
pub use layout::{Together, busiest, evaluate, shares};
pub use total::{QueueOutcome, Role, binding, imbalance};

/// Most receive queues; no NIC has more.
pub const MOST_QUEUES: u32 = 4096;
/// Largest factor of `remote`, `cold` and `smt`; cache misses do not explain more.
const LARGEST_FACTOR: f64 = 100.0;

/// Which cores work for a queue (Gasparakis and Waskiewicz 2010, figures 6 to 8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Map {
    /// Cache-coherent pairing: one core per queue, for its reception and its transmit completions.
    #[default]
    Pairing,
    /// Interrupt spread: a queue's reception on one core, its transmit completions on another, both with cold caches.
    /// No two queues share a core unless [`Queues::on`] says so.
    Spread,
    /// SMT-aware: reception on a physical core, transmit completions on its sibling thread. Caches are warm, but each
    /// slows the other.
    Smt,
}

/// Receive queues, their cores, and the costs there.
#[derive(Debug, Clone, PartialEq)]
pub struct Queues {
    /// Number of receive queues.
    pub count: u32,
    /// Entries of the indirection table, repeated up to 128; empty: entry n is queue n mod count.
    pub table: Vec<u32>,
    /// Share of the offered packets for each queue, with sum 1; empty: the shares follow from flows and indirection
    /// table.
    pub shares: Vec<f64>,
    /// Which cores work for a queue.
    pub map: Map,
    /// Core of each queue's reception; several queues may share one. Empty: one core each. With [`Map::Spread`]
    /// transmit completions go to these cores as well ([`apart::completions`]). Not allowed with [`Map::Smt`].
    pub on: Vec<u32>,
    /// CPU time of a forwarded packet's transmit completion (s); None: the host forwards nothing.
    pub transmit_s: Option<f64>,
    /// Number of NUMA nodes. Each has an equal block of cores; the NIC is at the first.
    pub nodes: u32,
    /// Factor of protocol and transmit times on a node other than the NIC's.
    pub remote: f64,
    /// Factor of protocol and transmit times with cold caches ([`Map::Spread`]).
    pub cold: f64,
    /// Factor of all times while the SMT sibling is busy.
    pub smt: f64,
}

impl Queues {
    /// Returns `count` queues with equal shares, one core per queue.
    pub fn even(count: u32) -> Self {
        Self {
            count,
            table: Vec::new(),
            shares: Vec::new(),
            map: Map::Pairing,
            on: Vec::new(),
            transmit_s: None,
            nodes: 1,
            remote: 1.0,
            cold: 1.0,
            smt: 1.0,
        }
    }

    /// One queue for each of these shares of the offered packets.
    pub fn with_shares(shares: Vec<f64>) -> Self {
        Self { shares, ..Self::even(0) }.counted()
    }

    fn counted(self) -> Self {
        let count = self.shares.len() as u32;
        Self { count, ..self }
    }

    /// Number of cores that work for these queues (physical cores with [`Map::Smt`]), counting all cores up to the
    /// highest in [`Queues::on`].
    pub fn cores(&self) -> u32 {
        if let Some(highest) = self.on.iter().max() {
            return highest + 1;
        }
        if self.map == Map::Spread && self.transmit_s.is_some() { 2 * self.count } else { self.count }
    }

    /// True if some core works for more than one interrupt vector.
    pub fn share_cores(&self) -> bool {
        let completes_here = self.map == Map::Spread && self.transmit_s.is_some() && !self.on.is_empty();
        completes_here || self.used_cores().len() < self.on.len()
    }

    /// The cores in [`Queues::on`], ascending, without duplicates.
    pub(crate) fn used_cores(&self) -> Vec<u32> {
        let mut cores = self.on.clone();
        cores.sort_unstable();
        cores.dedup();
        cores
    }

    /// Checks every number against its range.
    pub fn validate(&self) -> Result<(), Invalid> {
        if !(1..=MOST_QUEUES).contains(&self.count) {
            return Err(Invalid::new("queues", self.count, format!("must be from 1 to {MOST_QUEUES}")));
        }
        self.validate_places()?;
        if let Some(entry) = self.table.iter().find(|entry| **entry >= self.count) {
            return Err(Invalid::new("queues table", entry, format!("must be from 0 to {}", self.count - 1)));
        }
        if self.table.len() > rss::TABLE {
            return Err(Invalid::new(
                "queues table entries",
                self.table.len(),
                format!("must be at most {}", rss::TABLE),
            ));
        }
        if !self.shares.is_empty() {
            valid_shares(&self.shares, self.count)?;
        }
        if !(1..=self.cores()).contains(&self.nodes) {
            return Err(Invalid::new(
                "queues nodes",
                self.nodes,
                format!("must be from 1 to {} (the cores)", self.cores()),
            ));
        }
        for (name, factor) in [("remote", self.remote), ("cold", self.cold), ("smt", self.smt)] {
            if !(1.0..=LARGEST_FACTOR).contains(&factor) {
                let accepted = format!("must be a factor from 1 to {LARGEST_FACTOR}");
                return Err(Invalid::new(format!("queues {name}"), factor, accepted));
            }
        }
        Ok(())
    }
}

impl Queues {
    fn validate_places(&self) -> Result<(), Invalid> {
        if self.on.is_empty() {
            return Ok(());
        }
        if self.map == Map::Smt {
            return Err(Invalid::new(
                "queues on",
                join(&self.on),
                "goes with map=pairing or map=spread: leave out map=smt or on",
            ));
        }
        if self.map == Map::Spread && self.transmit_s.is_some() && self.used_cores().len() < 2 {
            return Err(Invalid::new(
                "queues on",
                join(&self.on),
                "must name at least two cores with map=spread, which puts completions on another core than their \
                 queue's: such as on=0/1, or use map=pairing",
            ));
        }
        if self.on.len() != self.count as usize {
            let accepted = format!("must be one core for each of {} queues", self.count);
            return Err(Invalid::new("queues on", join(&self.on), accepted));
        }
        match self.on.iter().find(|core| **core >= MOST_QUEUES) {
            Some(core) => Err(Invalid::new("queues on", core, format!("must be below {MOST_QUEUES}"))),
            None => Ok(()),
        }
    }
}

/// Accepted difference of the sum of shares from 1.
const ROUNDING: f64 = 1e-9;

fn valid_shares(shares: &[f64], count: u32) -> Result<(), Invalid> {
    if shares.len() != count as usize {
        return Err(Invalid::new("queue shares", shares.len(), format!("must be one for each of {count} queues")));
    }
    if let Some(share) = shares.iter().find(|share| !(0.0..=1.0).contains(*share)) {
        return Err(Invalid::new("queue share", share, "must be from 0 to 1"));
    }
    let sum: f64 = shares.iter().sum();
    if (sum - 1.0).abs() > ROUNDING {
        return Err(Invalid::new("sum of the queue shares", sum, "must be 1"));
    }
    Ok(())
}

const FORM: &str = "expected a number of queues with options, such as 4 or 4:map=spread,cold=1.3,transmit=1us (keys: \
                    map=pairing|spread|smt, on=0/0/1/1 (the core of each queue; with map=spread of its reception), transmit, cold, smt, nodes, remote, table=0/1/2/3, shares=40%/30%/20%/10%)";

impl std::str::FromStr for Queues {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let (count, mut params) = Params::split("queues", text)?;
        let refused = || ParseError::new("queues", text, FORM);
        let count = count.parse().map_err(|_| refused())?;
        let list = |value: Option<&str>| -> Vec<String> {
            value.map_or_else(Vec::new, |value| value.split('/').map(|item| item.trim().to_owned()).collect())
        };
        let table: Result<Vec<u32>, _> = list(params.take("table")).iter().map(|entry| entry.parse()).collect();
        let on: Result<Vec<u32>, _> = list(params.take("on")).iter().map(|core| core.parse()).collect();
        let shares: Result<Vec<f64>, _> =
            list(params.take("shares")).iter().map(|share| units::parse_share(share)).collect();
        let map = match params.take("map") {
            None | Some("pairing") => Map::Pairing,
            Some("spread") => Map::Spread,
            Some("smt") => Map::Smt,
            Some(other) => return Err(ParseError::new("queues `map`", other, "expected pairing, spread or smt")),
        };
        let queues = Self {
            table: table.map_err(|_| refused())?,
            shares: shares?,
            map,
            on: on.map_err(|_| refused())?,
            transmit_s: params.time_s("transmit")?.filter(|seconds| *seconds > 0.0),
            nodes: params.count_u32("nodes")?.unwrap_or(1),
            remote: params.number("remote")?.unwrap_or(1.0),
            cold: params.number("cold")?.unwrap_or(1.0),
            smt: params.number("smt")?.unwrap_or(1.0),
            ..Self::even(count)
        };
        params.finish()?;
        Ok(queues)
    }
}

fn join(items: &[impl ToString]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join("/")
}

impl std::fmt::Display for Queues {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        fn given(items: &[impl ToString]) -> Option<String> {
            (!items.is_empty()).then(|| join(items))
        }
        let factor = |factor: f64| (factor != 1.0).then(|| factor.to_string());
        let map = match self.map {
            Map::Pairing => None,
            Map::Spread => Some("spread".to_owned()),
            Map::Smt => Some("smt".to_owned()),
        };
        out.write_str(&params::print(
            &self.count.to_string(),
            &[
                ("map", map),
                ("on", given(&self.on)),
                ("transmit", self.transmit_s.map(units::print_time_s)),
                ("cold", factor(self.cold)),
                ("smt", factor(self.smt)),
                ("nodes", (self.nodes > 1).then(|| self.nodes.to_string())),
                ("remote", factor(self.remote)),
                ("table", given(&self.table)),
                ("shares", given(&self.shares)),
            ],
        ))
    }
}

crate::units::serde_as_text!(Queues);

#[cfg(test)]
mod tests;
