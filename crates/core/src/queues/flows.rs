//! [`Flows`]: number and weights of flows, and how RSS distributes them over the queues.

use crate::math::{self, SplitMix64};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use super::rss::{Table, toeplitz};
use crate::capture::{self, Capture};
use crate::error::{Invalid, ParseError};
use crate::params::{self, Params};

/// Most flows: more do not change the shares visibly, and take long to hash.
const MOST_FLOWS: u32 = 1_000_000;
/// Largest Zipf exponent: above it, one flow has nearly all packets.
const STEEPEST: f64 = 10.0;

/// The flows that packets belong to. Each packet's flow is drawn by the flows' weights, independently of other packets;
/// the flow determines the queue.
#[derive(Debug, Clone, PartialEq)]
pub enum Flows {
    /// `count` flows; the k-th heaviest has the weight k^-zipf.
    Zipf {
        /// Number of flows.
        count: u32,
        /// Exponent; 0: equal weights.
        zipf: f64,
    },
    /// The flows of a capture, weighted by their packets.
    Capture {
        /// pcap or pcapng file.
        file: String,
        /// Its packets; None while it has not been read.
        capture: Option<Arc<Capture>>,
    },
}

impl Flows {
    /// The capture that the flows are from; None for other flows, or if it has not been read.
    pub fn capture(&self) -> Option<&Capture> {
        match self {
            Self::Capture { capture, .. } => capture.as_deref(),
            Self::Zipf { .. } => None,
        }
    }

    /// Checks every number against its range.
    pub fn validate(&self) -> Result<(), Invalid> {
        match self {
            Self::Zipf { count, .. } if !(1..=MOST_FLOWS).contains(count) => {
                Err(Invalid::new("flows", count, format!("must be from 1 to {MOST_FLOWS}")))
            }
            Self::Zipf { zipf, .. } if !(0.0..=STEEPEST).contains(zipf) => {
                Err(Invalid::new("flows zipf", zipf, format!("must be from 0 to {STEEPEST}")))
            }
            Self::Capture { file, capture: Some(capture) } if capture.flows.is_empty() => {
                Err(Invalid::new("flows", file, "must hold packets with IP addresses"))
            }
            _ => Ok(()),
        }
    }

    /// Source and destination of flow `number`: a client in 10.0.0.0/8 that depends only on the number, and one server
    /// for all.
    pub fn tuple(number: u32) -> (SocketAddr, SocketAddr) {
        // Hashing, so that flows with neighbouring numbers have unrelated addresses.
        let mixed = SplitMix64(u64::from(number)).draw();
        let [a, b, c, ..] = mixed.to_be_bytes();
        let port = 1024 + (mixed % 64_512) as u16;
        let client = SocketAddr::new(Ipv4Addr::new(10, a, b, c).into(), port);
        (client, SocketAddr::new(Ipv4Addr::new(192, 0, 2, 1).into(), 443))
    }

    /// Share of the packets for each queue, with sum 1. For a capture that has not been read: share of the table's
    /// entries.
    pub fn shares(&self, table: &Table) -> Vec<f64> {
        let mut shares = vec![0.0; table.count() as usize];
        let mut deal = |(source, destination): (SocketAddr, SocketAddr), weight: f64| {
            shares[table.queue(toeplitz(source, destination)) as usize] += weight;
        };
        match self {
            Self::Zipf { count, zipf } => {
                (0..*count).for_each(|number| deal(Self::tuple(number), math::pow(f64::from(number + 1), -zipf)));
            }
            Self::Capture { capture: Some(capture), .. } => {
                capture.flows.iter().for_each(|flow| deal((flow.source, flow.destination), flow.packets as f64));
                // Packets without addresses to hash go to the first queue.
                shares[0] += capture.packets.iter().filter(|packet| packet.flow.is_none()).count() as f64;
            }
            Self::Capture { capture: None, .. } => return table.shares(),
        }
        let all: f64 = shares.iter().sum();
        shares.iter_mut().for_each(|share| *share /= all);
        shares
    }
}

impl std::str::FromStr for Flows {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        if capture::is_name(text) {
            return Ok(Self::Capture { file: text.trim().to_owned(), capture: None });
        }
        let (count, mut params) = Params::split("flows", text)?;
        let count = count.parse().map_err(|_| {
            ParseError::new(
                "flows",
                text,
                format!("expected a number from 1 to {MOST_FLOWS}, such as 1000 or 1000:zipf=1.1"),
            )
        })?;
        let flows = Self::Zipf { count, zipf: params.number("zipf")?.unwrap_or(0.0) };
        params.finish()?;
        Ok(flows)
    }
}

impl std::fmt::Display for Flows {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Zipf { count, zipf } => {
                let zipf = (*zipf != 0.0).then(|| zipf.to_string());
                out.write_str(&params::print(&count.to_string(), &[("zipf", zipf)]))
            }
            Self::Capture { file, .. } => out.write_str(file),
        }
    }
}

crate::units::serde_as_text!(Flows);
