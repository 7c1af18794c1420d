//! [`Outcome`]: the figures that an engine computed or measured at one point. All figures are optional: absent means
//! "not measured", never zero.
//!
//! [`Measure`] is a figure of an outcome by its name; [`Aims`] are the figures that a simulation must know to a given
//! precision, and [`Precision`] is the precision that it reached.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::ParseError;
use crate::note::{Bounds, Note};
use crate::queues::QueueOutcome;
use crate::units;

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
    /// The value, in the unit that the field of this figure documents.
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

    /// Applies `other`, a function that never decreases, to the value and to both ends of the interval.
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

/// Latency from a packet's arrival in memory to the end of protocol processing (s) or, if an application is modelled or
/// measured, to the time when the application takes the packet from its socket. [`Outcome::latency_to`] names the end;
/// [`Latency::done_mean`] also includes the application's work.
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

/// Shares of one CPU's time. If their sum is below 1, other work had the rest.
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

impl CpuShares {
    /// Smallest share that is not printed as 0 %, if shares are printed as whole percentages.
    pub const LEAST_PRINTED: f64 = 0.005;

    /// Share of the time that is in no other share: pauses, and on a measured host other tasks and other softirqs. `None`
    /// if another share is unknown.
    pub fn rest(&self) -> Option<f64> {
        let shares = [self.interrupt, self.poll, self.protocol, self.application, self.available];
        let sum: Option<f64> = shares.into_iter().map(|share| share.map(|share| share.value)).sum();
        sum.map(|sum| 1.0 - sum)
    }
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
    pub precision: Option<Precision>,
    /// Figures of each of several applications.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub applications: Vec<ApplicationOutcome>,
    /// Figures of each interrupt vector of a host with several queues.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<QueueOutcome>,
    /// Notes that a reader must know: assumptions that fail, figures that could not be measured and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Note>,
}

impl Outcome {
    /// Error bounds stated in the notes; `None` if the outcome is exact or its notes state no bounds. If an
    /// approximation is built on another one, both state bounds, and the last note, of the outer approximation, counts.
    pub fn bounds(&self) -> Option<&Bounds> {
        self.notes.iter().rev().find_map(|note| match note {
            Note::Approximate(bounds) => Some(bounds),
            _ => None,
        })
    }
}

/// Kind of a number, which determines its unit and text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dimension {
    /// Packets per second.
    Pps,
    /// Bits per second.
    Bps,
    /// Seconds.
    Seconds,
    /// A share, 1 being the whole.
    Share,
    /// Events per second.
    PerSecond,
    /// Bytes.
    Bytes,
    /// A number without a unit.
    Number,
}

impl Dimension {
    /// Reads a number of this dimension, with its unit if the dimension has one.
    ///
    /// # Errors
    /// The text that cannot be read, with the accepted form.
    pub fn parse(self, text: &str) -> Result<f64, ParseError> {
        match self {
            Self::Pps => units::parse_pps(text),
            Self::Bps => units::parse_bps(text),
            Self::Seconds => units::parse_time_s(text),
            Self::Share => units::parse_share(text),
            Self::Bytes => units::parse_bytes(text).map(|bytes| bytes as f64),
            Self::PerSecond | Self::Number => {
                let number = text.trim().parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
                number.ok_or_else(|| {
                    ParseError::new("number", text, "expected a number of at least 0, such as \"20000\"")
                })
            }
        }
    }
}

/// A figure of an [`Outcome`]: its key in CSV and experiment files, its name on screens, and the function that reads
/// it.
#[derive(Clone, Copy)]
pub struct Measure {
    /// Key with its unit, as in CSV: `throughput_pps`, `latency_p99_s`.
    pub key: &'static str,
    /// Name on screens, without a unit.
    pub name: &'static str,
    /// Its dimension.
    pub dimension: Dimension,
    get: fn(&Outcome) -> Option<Figure>,
}

impl Measure {
    /// The figure in this outcome; None if the outcome does not have it.
    pub fn of(&self, outcome: &Outcome) -> Option<Figure> {
        (self.get)(outcome)
    }

    /// True for a quantile of latency.
    pub fn is_quantile(&self) -> bool {
        self.key.starts_with("latency_p")
    }

    /// True for a latency: its mean, quantiles and maximum.
    pub fn is_latency(&self) -> bool {
        self.key.starts_with("latency_")
    }

    /// True for a share of one CPU.
    pub fn is_cpu(&self) -> bool {
        self.key.starts_with("cpu_")
    }

    /// True for a share of lost packets.
    pub fn is_loss(&self) -> bool {
        self.key.starts_with("loss_")
    }
}

impl PartialEq for Measure {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl std::fmt::Debug for Measure {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.key)
    }
}

impl std::fmt::Display for Measure {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.key)
    }
}

impl std::str::FromStr for Measure {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        MEASURES.iter().find(|measure| measure.key == text).copied().ok_or_else(|| {
            let keys: Vec<&str> = MEASURES.iter().map(|measure| measure.key).collect();
            ParseError::new("figure", text, format!("expected one of {}", keys.join(", ")))
        })
    }
}

crate::units::serde_as_text!(Measure);

const fn measure(
    key: &'static str,
    name: &'static str,
    dimension: Dimension,
    get: fn(&Outcome) -> Option<Figure>,
) -> Measure {
    Measure { key, name, dimension, get }
}

/// Packets delivered (pps).
pub const THROUGHPUT: Measure = measure("throughput_pps", "throughput", Dimension::Pps, |o| o.throughput_pps);

/// All figures of an outcome, in the order of the CSV's columns.
pub const MEASURES: &[Measure] = &[
    measure("offered_pps", "offered load", Dimension::Pps, |o| o.offered_pps),
    THROUGHPUT,
    measure("goodput_bps", "goodput", Dimension::Bps, |o| o.goodput_bps),
    measure("loss_fraction", "loss", Dimension::Share, |o| o.loss_fraction),
    measure("loss_ring", "loss at the ring", Dimension::Share, |o| o.loss?.ring),
    measure("loss_socket", "loss at the socket", Dimension::Share, |o| o.loss?.socket),
    measure("loss_sender", "loss at the sender", Dimension::Share, |o| o.loss?.sender),
    measure("latency_mean_s", "mean latency", Dimension::Seconds, |o| o.latency_s?.mean),
    measure("latency_p50_s", "median latency", Dimension::Seconds, |o| o.latency_s?.p50),
    measure("latency_p90_s", "90th percentile of latency", Dimension::Seconds, |o| o.latency_s?.p90),
    measure("latency_p99_s", "99th percentile of latency", Dimension::Seconds, |o| o.latency_s?.p99),
    measure("latency_p999_s", "99.9th percentile of latency", Dimension::Seconds, |o| o.latency_s?.p999),
    measure("latency_max_s", "largest latency", Dimension::Seconds, |o| o.latency_s?.max),
    measure("cpu_interrupt", "CPU in interrupts", Dimension::Share, |o| o.cpu?.interrupt),
    measure("cpu_poll", "CPU in poll overhead", Dimension::Share, |o| o.cpu?.poll),
    measure("cpu_protocol", "CPU in protocol processing", Dimension::Share, |o| o.cpu?.protocol),
    measure("cpu_application", "CPU of the application", Dimension::Share, |o| o.cpu?.application),
    measure("cpu_available", "CPU available", Dimension::Share, |o| o.cpu?.available),
    measure("interrupts_per_s", "interrupts", Dimension::PerSecond, |o| o.interrupts_per_s),
    measure("polls_per_s", "polls", Dimension::PerSecond, |o| o.polls_per_s),
    measure("packets_per_poll", "packets a poll", Dimension::Number, |o| o.packets_per_poll),
    measure("packets_in_system", "packets in the host", Dimension::Number, |o| o.packets_in_system),
    measure("transmitted_pps", "transmissions completed", Dimension::Pps, |o| o.transmitted?.completed_pps),
    measure("transmit_refused", "transmissions refused", Dimension::Share, |o| o.transmitted?.refused_fraction),
    measure("transmit_waiting_s", "wait for completion", Dimension::Seconds, |o| o.transmitted?.waiting_s),
    measure("latency_done_mean_s", "mean latency to the application's end", Dimension::Seconds, |o| {
        o.latency_s?.done_mean
    }),
    measure("cpu_paused", "CPU taken away in pauses", Dimension::Share, |o| o.cpu?.paused),
];

/// Short names, and the figures (keys of [`Measure`]) of each.
const SHORT: &[(&str, &[&str])] = &[
    ("throughput", &["throughput_pps"]),
    ("goodput", &["goodput_bps"]),
    ("loss", &["loss_fraction"]),
    ("latency", &["latency_mean_s"]),
    ("p50", &["latency_p50_s"]),
    ("p90", &["latency_p90_s"]),
    ("p99", &["latency_p99_s"]),
    ("p999", &["latency_p999_s"]),
    ("cpu", &["cpu_interrupt", "cpu_poll", "cpu_protocol", "cpu_application", "cpu_available", "cpu_paused"]),
    ("interrupts", &["interrupts_per_s"]),
];

/// A set of figures, written `throughput,latency,p99,cpu` or with the keys of [`Measure`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Aims(u32);

impl Default for Aims {
    /// Throughput, mean latency and the CPU split.
    fn default() -> Self {
        Self(["throughput", "latency", "cpu"].iter().filter_map(|name| bits(name)).sum())
    }
}

/// Bit mask of the figures with this key or short name: bit n is `MEASURES[n]`. `None` if no figure has the name, or it
/// is the maximum latency.
fn bits(name: &str) -> Option<u32> {
    let one = [name];
    let keys = SHORT.iter().find(|(short, _)| *short == name).map_or(&one[..], |(_, keys)| keys);
    keys.iter().try_fold(0, |sum, key| {
        let place = MEASURES.iter().position(|measure| measure.key == *key)?;
        // A maximum has no interval, and longer simulation does not make it more precise.
        (*key != "latency_max_s").then_some(sum | 1 << place)
    })
}

impl Aims {
    /// The figures, in the order of [`MEASURES`].
    pub fn measures(self) -> impl Iterator<Item = &'static Measure> {
        MEASURES.iter().enumerate().filter(move |(place, _)| self.0 & 1 << place != 0).map(|(_, measure)| measure)
    }
}

impl std::str::FromStr for Aims {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let error = || {
            let names: Vec<&str> = SHORT.iter().map(|(name, _)| *name).collect();
            let form = format!("expected a list of {} or columns of --csv such as packets_per_poll", names.join(", "));
            ParseError::new("figures", text, form)
        };
        let sum = text.split(',').try_fold(0, |sum, name| Some(sum | bits(name.trim())?));
        sum.map(Self).ok_or_else(error)
    }
}

impl std::fmt::Display for Aims {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut rest = self.0;
        let mut names: Vec<&str> = Vec::new();
        for (name, _) in SHORT {
            let bits = bits(name).unwrap_or(0);
            if rest & bits == bits {
                names.push(name);
                rest &= !bits;
            }
        }
        names.extend(Self(rest).measures().map(|measure| measure.key));
        out.write_str(&names.join(","))
    }
}

crate::units::serde_as_text!(Aims);

/// Result of a requested precision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Precision {
    /// Requested half width: relative to the value, or for CPU shares as a share of one CPU.
    pub asked: f64,
    /// True if all figures reached it.
    pub reached: bool,
    /// Arrivals simulated, warm-up included.
    pub packets: u64,
    /// Number of replications.
    pub replications: u64,
    /// The figures one by one, without those that the outcome does not have.
    pub figures: Vec<Attained>,
}

/// Largest number of packets per poll that is a figure.
const MOST_PER_POLL: f64 = 1e6;

/// Mean number of packets per poll; `None` if polls are rarer than one in a million packets, as under a scheme that
/// polls only above a load that it practically never reaches.
pub fn packets_per_poll(served_pps: f64, polls_per_s: f64) -> Option<Figure> {
    Some(served_pps / polls_per_s).filter(|packets| *packets <= MOST_PER_POLL).map(Figure::exact)
}

impl Precision {
    /// Half width, relative to the estimate, that guarantees a half width of at most `asked` relative to the true
    /// value.
    pub fn goal(asked: f64) -> f64 {
        asked / (1.0 + asked)
    }
}

/// Precision of one figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Attained {
    /// The figure.
    pub figure: Measure,
    /// Half width of the figure's interval, in the unit of [`Precision::asked`]; `None`: the value is 0, or the
    /// interval is not finite.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub half_width: Option<f64>,
    /// True if the half width is at most the requested one and the figure is reliable.
    pub reached: bool,
}

impl Attained {
    /// Compares the half width of `figure` in `outcome` with `asked` (above 0): relative to the value, or for CPU
    /// shares as a share of one CPU. `reached` is true if the half width is at most asked/(1+asked) of the estimate,
    /// and so at most `asked` of any value in the interval. `None` if the outcome does not have the figure.
    pub fn of(figure: &Measure, outcome: &Outcome, asked: f64) -> Option<Self> {
        let found = figure.of(outcome)?;
        let half = found.interval.map_or(0.0, |ends| (ends.high - ends.low) / 2.0);
        let scale = if figure.is_cpu() { 1.0 } else { found.value.abs() };
        let half_width = Some(if half == 0.0 { 0.0 } else { half / scale }).filter(|width| width.is_finite());
        let reached = half_width.is_some_and(|width| width <= Precision::goal(asked));
        Some(Self { figure: *figure, half_width, reached })
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
    fn polls_that_practically_never_happen_have_no_packets() {
        assert_eq!(packets_per_poll(100e3, 50e3), Some(Figure::exact(2.0)));
        assert_eq!(packets_per_poll(0.0, 50e3), Some(Figure::exact(0.0)));
        assert_eq!(
            [(100e3, 1e-8), (100e3, 0.0), (0.0, 0.0)].map(|(pps, polls)| packets_per_poll(pps, polls)),
            [None; 3]
        );
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

    #[test]
    fn a_measure_reads_back_and_an_unknown_one_is_told_what_there_is() {
        for known in MEASURES {
            assert_eq!(known.to_string().parse::<Measure>().unwrap(), *known);
        }
        let error = "troughput".parse::<Measure>().unwrap_err().to_string();
        assert!(error.contains("troughput") && error.contains("throughput_pps"), "{error}");
    }

    #[test]
    fn a_number_is_read_in_its_dimension() {
        assert_eq!(Dimension::Pps.parse("187kpps").unwrap(), 187e3);
        assert_eq!(Dimension::Seconds.parse("20us").unwrap(), 20e-6);
        assert_eq!(Dimension::Share.parse("80%").unwrap(), 0.8);
        assert_eq!(Dimension::PerSecond.parse("20000").unwrap(), 20e3);
        for text in ["", "-1", "NaN", "inf", "20us"] {
            assert!(Dimension::Number.parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_list_reads_back_and_an_unknown_name_is_told_what_there_is() {
        for text in
            ["throughput,latency,cpu", "p99", "loss,p50,interrupts", "throughput,packets_per_poll", "cpu_available"]
        {
            assert_eq!(text.parse::<Aims>().unwrap().to_string(), text);
        }
        assert_eq!("cpu, latency_mean_s,throughput".parse::<Aims>().unwrap(), Aims::default());
        for text in ["", "lattency", "p99,", "latency_max_s"] {
            let error = text.parse::<Aims>().unwrap_err().to_string();
            assert!(error.contains("throughput") && error.contains("p999"), "{error}");
        }
    }

    #[test]
    fn half_widths_are_relative_but_those_of_the_cpu() {
        let available = Some(Figure::sampled(0.01, 0.005, 0.95));
        let outcome = Outcome {
            throughput_pps: Some(Figure::sampled(100.0, 1.0, 0.95)),
            loss_fraction: Some(Figure::between(0.0, 0.0, 1e-3, 0.95)),
            cpu: Some(CpuShares {
                available,
                interrupt: Some(Figure::sampled(0.0, 0.0, 0.95)),
                ..CpuShares::default()
            }),
            ..Outcome::default()
        };
        let of = |name: &str| -> Vec<Attained> {
            let aims: Aims = name.parse().unwrap();
            aims.measures().filter_map(|figure| Attained::of(figure, &outcome, 0.01)).collect()
        };
        assert_eq!((of("throughput")[0].half_width, of("throughput")[0].reached), (Some(0.01), false));
        let cpu = of("cpu");
        assert_eq!((cpu.len(), cpu[0].half_width), (2, Some(0.0)));
        assert!((cpu[1].half_width.unwrap() - 0.005).abs() < 1e-12);
        assert!(cpu.iter().all(|share| share.reached));
        // No loss was observed: its true size remains unknown.
        assert_eq!((of("loss")[0].half_width, of("loss")[0].reached), (None, false));
        assert!(of("p99").is_empty());
    }
}
