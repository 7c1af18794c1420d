//! [`Difference`]: how one figure differs between two schemes that served the same packets.

use serde::{Deserialize, Serialize};

use crate::outcome::Figure;

/// A figure under two schemes, and its difference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Difference {
    /// The figure's name in the JSON outcome, such as `throughput_pps` or `latency_s.p99`.
    pub figure: String,
    /// Under the first scheme, in the figure's unit.
    pub first: Figure,
    /// Under the second scheme.
    pub second: Figure,
    /// Second minus first, with its paired-t interval.
    pub difference: Figure,
    /// Variance of the difference if each scheme had its own packets, divided by the variance of the difference with
    /// the same packets. None if the divisor is 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variance_reduction: Option<f64>,
}

impl Difference {
    /// True if the interval does not contain 0.
    pub fn is_significant(&self) -> bool {
        self.difference.interval.is_some_and(|ends| ends.low > 0.0 || ends.high < 0.0)
    }
}
