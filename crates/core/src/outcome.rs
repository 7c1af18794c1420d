//! [`Outcome`]: what an engine computed or measured at one point. All figures are optional: absent means "not
//! measured", never zero.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::note::{Bounds, Note};
use crate::queues::QueueOutcome;

mod soundness;

pub use soundness::Unsound;

/// Confidence interval of a figure's true value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interval {
    /// Lower end, in the figure's unit.
    pub low: f64,
    /// Upper end, in the figure's unit.
    pub high: f64,
    /// Coverage, for instance 0.95.
    pub confidence: f64,
}

/// A number, and its confidence interval if it was sampled. In JSON a plain number or {value, low, high, confidence}.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    /// The value, in the unit of the field that holds it.
    pub value: f64,
    /// None if the value was computed, not sampled.
    pub interval: Option<Interval>,
}

impl Figure {
    /// A computed value.
    pub fn exact(value: f64) -> Self {
        Self { value, interval: None }
    }

    /// A sampled value with a symmetric interval.
    pub fn sampled(value: f64, half_width: f64, confidence: f64) -> Self {
        Self { value, interval: Some(Interval { low: value - half_width, high: value + half_width, confidence }) }
    }

    /// A sampled value with the ends given.
    pub fn between(value: f64, low: f64, high: f64, confidence: f64) -> Self {
        Self { value, interval: Some(Interval { low, high, confidence }) }
    }

    /// True if `truth` lies in the interval or, without one, equals the value up to a relative 1e-12.
    pub fn covers(&self, truth: f64) -> bool {
        match self.interval {
            Some(interval) => (interval.low..=interval.high).contains(&truth),
            None => (self.value - truth).abs() <= 1e-12 * truth.abs(),
        }
    }

    /// Half width of the interval divided by the value; 0 for a computed value.
    pub fn relative_half_width(&self) -> f64 {
        self.interval.map_or(0.0, |interval| (interval.high - interval.low) / 2.0 / self.value.abs())
    }

    /// The interval limited to 0 and above, for quantities that cannot be negative. Few repeats that differ much give
    /// intervals below 0.
    #[must_use]
    pub fn not_negative(self) -> Self {
        let interval = self.interval.map(|ends| Interval { low: ends.low.max(0.0), ..ends });
        Self { interval, ..self }
    }

    /// The interval limited to 0 to 1, for shares.
    #[must_use]
    pub fn as_share(self) -> Self {
        let interval = self.interval.map(|ends| Interval { low: ends.low.max(0.0), high: ends.high.min(1.0), ..ends });
        Self { interval, ..self }
    }

    /// Applies `other`, which must not decrease, to the value and to both ends.
    #[must_use]
    pub fn mapped(&self, other: impl Fn(f64) -> f64) -> Self {
        let interval = self.interval.map(|i| Interval { low: other(i.low), high: other(i.high), ..i });
        Self { value: other(self.value), interval }
    }

    /// The figure with value and ends multiplied by `factor` (positive).
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        self.mapped(|value| value * factor)
    }
}

impl From<f64> for Figure {
    fn from(value: f64) -> Self {
        Self::exact(value)
    }
}

#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
enum FigureText {
    Plain(f64),
    Sampled { value: f64, low: f64, high: f64, confidence: f64 },
}

/// A number, or a sampled value with its interval.
#[cfg(feature = "schema")]
impl schemars::JsonSchema for Figure {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Figure".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        FigureText::json_schema(generator)
    }
}

impl Serialize for Figure {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        // JSON has no infinity: an interval with an infinite end is left out.
        match self.interval.filter(|interval| interval.low.is_finite() && interval.high.is_finite()) {
            None => FigureText::Plain(self.value),
            Some(Interval { low, high, confidence }) => {
                FigureText::Sampled { value: self.value, low, high, confidence }
            }
        }
        .serialize(out)
    }
}

impl<'de> Deserialize<'de> for Figure {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        match FigureText::deserialize(input)
            .map_err(|_| D::Error::custom("expected a number or {value, low, high, confidence}"))?
        {
            FigureText::Plain(value) => Ok(Self::exact(value)),
            FigureText::Sampled { value, low, high, confidence } => Ok(Self::between(value, low, high, confidence)),
        }
    }
}

/// Latency from a packet's arrival in memory to the end of protocol processing (s). If an application is modelled or
/// measured: to the time when it takes the packet from its socket; its work follows. [`Outcome::latency_to`] says
/// which; [`Latency::done_mean`] includes the application's work.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Latency {
    /// Mean (s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<Figure>,
    /// Median (s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50: Option<Figure>,
    /// 90th percentile (s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p90: Option<Figure>,
    /// 99th percentile (s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99: Option<Figure>,
    /// 99.9th percentile (s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p999: Option<Figure>,
    /// Largest observed (s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<Figure>,
    /// Mean until the application has finished its work on the packet (s); only if an application is simulated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done_mean: Option<Figure>,
}

/// Shares of one CPU's time; their sum is 1 if all are present.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuShares {
    /// Interrupt handling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupt: Option<Figure>,
    /// Poll overhead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poll: Option<Figure>,
    /// Protocol processing (softirq).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Figure>,
    /// The application, its context switches included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<Figure>,
    /// Pauses, in which the CPU was taken away; None if the host has no pauses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Figure>,
    /// Time available for anything else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available: Option<Figure>,
}

/// Lost packets as fractions of the offered ones, by place.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Loss {
    /// At the receive ring or backlog.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ring: Option<Figure>,
    /// At the application's socket buffer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<Figure>,
    /// At the sender: scheduled but never sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender: Option<Figure>,
}

/// Transmissions of a host that sends.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Transmitted {
    /// Transmit completions processed (pps).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_pps: Option<Figure>,
    /// Share of the transmissions that were dropped because the transmit ring was full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused_fraction: Option<Figure>,
    /// Mean time from the end of a transmission to the end of its completion's processing (s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_s: Option<Figure>,
}

/// Figures of one of several applications.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ApplicationOutcome {
    /// Number of the application, from 0.
    pub application: u32,
    /// Offered packets for this application (pps).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered_pps: Option<Figure>,
    /// Packets that it consumed (pps).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput_pps: Option<Figure>,
    /// Frame bits that it consumed, FCS included (bit/s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goodput_bps: Option<Figure>,
    /// Lost packets as fractions of the packets for this application, by place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<Loss>,
    /// Mean latency of the packets it consumed (s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_latency_s: Option<Figure>,
    /// Its share of the CPU, including context switches to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Figure>,
}

/// Figures of one point. With an application, throughput counts the packets that it consumed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Outcome {
    /// Load that was actually offered (pps); absent if it equals the point's load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered_pps: Option<Figure>,
    /// Packets delivered (pps): by protocol processing or, if there is one, to the application.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput_pps: Option<Figure>,
    /// Frame bits delivered, FCS included (bit/s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goodput_bps: Option<Figure>,
    /// Share of the offered packets that were lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_fraction: Option<Figure>,
    /// Lost packets as shares of the offered ones, by place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<Loss>,
    /// Latency (s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_s: Option<Latency>,
    /// End of the latency: `protocol` (end of protocol processing) or `application` (it takes the packet).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_to: Option<String>,
    /// Shares of the CPU's time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<CpuShares>,
    /// How the CPU's shares were obtained: `exact` or `approximate` (computed), `simulated`, `ebpf`, `procfs`,
    /// `soaker`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_method: Option<String>,
    /// Interrupts per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupts_per_s: Option<Figure>,
    /// Polls per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub polls_per_s: Option<Figure>,
    /// Mean number of packets per poll.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets_per_poll: Option<Figure>,
    /// Mean number of packets in the host: in ring, protocol processing, socket and application (including the packet
    /// that it works on). With several queues the sum over all receive vectors. Packets that wait for transmission, for
    /// its completion or at the sender do not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets_in_system: Option<Figure>,
    /// Transmissions; absent if the host sends nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transmitted: Option<Transmitted>,
    /// Requested and reached precision; absent if none was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<crate::precision::Precision>,
    /// Figures of each of several applications.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub applications: Vec<ApplicationOutcome>,
    /// Figures of each interrupt vector of a host with several queues.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<QueueOutcome>,
    /// What a reader must know: assumptions that fail, figures that could not be measured and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Note>,
}

impl Outcome {
    /// Error bounds stated in the notes. If an approximation uses another one, both state bounds, and those of the
    /// outer one, noted last, count. `None` if the outcome is exact or its notes state no bounds.
    pub fn bounds(&self) -> Option<&Bounds> {
        self.notes.iter().rev().find_map(|note| match note {
            Note::Approximate(bounds) => Some(bounds),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_a_number_or_an_interval_in_json() {
        assert_eq!(serde_json::to_string(&Figure::exact(2.5)).unwrap(), "2.5");
        let sampled = Figure::sampled(2.0, 0.5, 0.95);
        let text = serde_json::to_string(&sampled).unwrap();
        assert_eq!(text, r#"{"value":2.0,"low":1.5,"high":2.5,"confidence":0.95}"#);
        assert_eq!(serde_json::from_str::<Figure>(&text).unwrap(), sampled);
        assert!(serde_json::from_str::<Figure>("\"x\"").is_err());
        // An interval with an infinite end is written so that it can be read again.
        let open = serde_json::to_string(&Figure::between(2.0, 1.0, f64::INFINITY, 0.95)).unwrap();
        assert_eq!(serde_json::from_str::<Figure>(&open).unwrap(), Figure::exact(2.0));
    }

    #[test]
    fn absent_figures_leave_no_trace() {
        let outcome = Outcome { throughput_pps: Some(1.0.into()), ..Outcome::default() };
        assert_eq!(serde_json::to_string(&outcome).unwrap(), r#"{"throughput_pps":1.0}"#);
    }

    #[test]
    fn an_interval_covers_its_ends() {
        let figure = Figure::sampled(10.0, 1.0, 0.99);
        assert!(figure.covers(9.0) && figure.covers(11.0) && !figure.covers(11.1));
        assert_eq!(figure.scaled(2.0).interval.unwrap().high, 22.0);
        let ends = |figure: Figure| figure.interval.map(|ends| (ends.low, ends.high));
        let wide = Figure::sampled(0.5, 0.75, 0.95);
        assert_eq!((ends(wide.not_negative()), ends(wide.as_share())), (Some((0.0, 1.25)), Some((0.0, 1.0))));
        let inside = Figure::sampled(0.5, 0.25, 0.95);
        assert_eq!((inside.not_negative(), inside.as_share()), (inside, inside));
        assert_eq!(Figure::exact(-1.0).not_negative(), Figure::exact(-1.0));
    }
}
