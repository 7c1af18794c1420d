//! The JSON of points and of their traffic, for serialisation only.
//!
//! The load is one of the keys of the traffic there, because both were one type when the files and schemas of version
//! 0.1 were published.

use serde::{Deserialize, Serialize};

use crate::host::Host;
use crate::queues::Flows;
use crate::scheme::Scheme;
use crate::traffic::{self, Arrivals, FrameSizes, Load};

/// Input of an engine: host, scheme, and traffic with its load.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Point {
    /// Costs and sizes.
    pub host: Host,
    /// How packets reach the CPU.
    pub scheme: Scheme,
    /// Offered traffic and load.
    pub traffic: Traffic,
}

/// Packets offered to a host over a link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Traffic {
    /// The arrival process.
    #[serde(default = "poisson")]
    pub arrivals: Arrivals,
    /// Frame sizes, FCS included.
    #[serde(default = "smallest")]
    pub size: FrameSizes,
    /// Offered load.
    pub rate: Load,
    /// Link speed (bit/s). It limits the load if the user gives it, and is the base of ON/OFF sources and of loads
    /// given as shares of the line rate.
    #[serde(rename = "link", with = "link_text", default = "gigabit")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub link_bps: f64,
    /// Flows of the packets, by which a host with several queues distributes them. `None`: very many flows, so that
    /// each queue gets its share of the indirection table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flows: Option<Flows>,
}

fn poisson() -> Arrivals {
    traffic::Traffic::default().arrivals
}
fn smallest() -> FrameSizes {
    traffic::Traffic::default().size
}
fn gigabit() -> f64 {
    traffic::Traffic::default().link_bps
}

impl Traffic {
    /// Converts `traffic` at `load` to its form in JSON. Without a load, as in a search of the cliff, the key `rate` is
    /// still present and has the meaningless value 1 pps.
    pub fn new(traffic: traffic::Traffic, load: Option<Load>) -> Self {
        let traffic::Traffic { arrivals, size, link_bps, flows } = traffic;
        Self { arrivals, size, rate: load.unwrap_or(Load::Pps(1.0)), link_bps, flows }
    }

    /// The traffic without its load.
    pub fn shape(self) -> traffic::Traffic {
        let Self { arrivals, size, rate: _, link_bps, flows } = self;
        traffic::Traffic { arrivals, size, link_bps, flows }
    }

    /// lambda: offered packets per second; `None` if the file of frame sizes has not been read.
    pub fn rate_pps(&self) -> Option<f64> {
        self.clone().shape().rate_pps(self.rate)
    }
}

mod link_text {
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(value: &f64, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(&crate::units::print_bps(*value))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<f64, D::Error> {
        crate::units::parse_bps(&String::deserialize(input)?).map_err(serde::de::Error::custom)
    }
}

/// serde for a traffic without a load: `#[serde(with = "written::without_load")]`.
pub mod without_load {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::traffic::Traffic;

    /// Writes the traffic with the meaningless load of 1 pps.
    pub fn serialize<S: Serializer>(traffic: &Traffic, out: S) -> Result<S::Ok, S::Error> {
        super::Traffic::new(traffic.clone(), None).serialize(out)
    }

    /// Reads the traffic and ignores the load.
    pub fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Traffic, D::Error> {
        super::Traffic::deserialize(input).map(super::Traffic::shape)
    }
}
