//! [`Grid`]: combinations of hosts, schemes and traffic that engines evaluate.

use serde::{Deserialize, Serialize};

use super::curve::{Answerer, Curve, Dot};
use super::figure::{Across, Axes, Axis, FigureSection};
use super::file::BadValue;
use super::hosts::{DeviceSection, HostSection, Variant};
use super::mark::{Line as Ahead, MarkSection, Ruled};
use super::values::{OneOrMore, Rates, Share};
use super::{KindTag, PACKETS_RANGE};
use crate::engine::{EngineKind, Fidelity, Point};
use crate::host::{self, Host};
use crate::outcome::{Dimension, Measure, Outcome};
use crate::queues::Flows;
use crate::scheme::{Napi, Scheme};
use crate::traffic::{Arrivals, FrameSizes, Load, Traffic};
use crate::units;

/// Most points of a grid; more is probably a typing error.
const POINTS_AT_MOST: usize = 1_000_000;

/// The traffic of a grid.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TrafficSection {
    /// Arrival processes; several make a dimension of the grid.
    #[serde(default = "poisson")]
    pub arrivals: OneOrMore<Arrivals>,
    /// Frame sizes; several make a dimension of the grid.
    #[serde(default = "smallest")]
    pub sizes: OneOrMore<FrameSizes>,
    /// Flows, by which a host with several queues distributes packets; several make a dimension of the grid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flows: Option<OneOrMore<Flows>>,
    /// Offered loads.
    pub rates: Rates,
    /// Link speed, which no load may exceed. If not given: 1 Gbit/s, used only for loads given as shares of the line
    /// rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
}

impl TrafficSection {
    /// The link's speed (bit/s).
    fn link_bps(&self) -> Result<f64, BadValue> {
        let text = self.link.as_deref().unwrap_or("1Gbit/s");
        units::parse_bps(text).map_err(|error| BadValue::at("traffic", "link", error))
    }

    /// Refuses a load above the link's speed.
    fn check(&self, traffic: &Traffic, load: Load) -> Result<(), BadValue> {
        traffic.fits_link(load, self.link.is_some()).map_err(|error| BadValue::at("traffic", "rates", error))
    }
}

fn poisson() -> OneOrMore<Arrivals> {
    OneOrMore(vec![Arrivals::Poisson])
}
fn smallest() -> OneOrMore<FrameSizes> {
    OneOrMore(vec![FrameSizes::Fixed(64)])
}
fn exact() -> OneOrMore<Fidelity> {
    OneOrMore(vec![Fidelity::Exact])
}

/// A grid of points, the engines that evaluate it, their precision, and how it is drawn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Grid {
    /// Title: the subject of the experiment, one line.
    #[serde(default)]
    pub title: String,
    /// The work whose figure this is: author, year, title.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub paper: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) kind: Option<KindTag>,
    /// The engines.
    pub engines: Vec<EngineKind>,
    /// The model's fidelity; several give one curve each.
    #[serde(default = "exact")]
    pub fidelity: OneOrMore<Fidelity>,
    /// The hosts; not allowed with devices.
    #[serde(default, skip_serializing_if = "HostSection::is_absent")]
    pub host: HostSection,
    /// Schemes to compare; not allowed with devices.
    #[serde(default, deserialize_with = "crate::scheme::written", skip_serializing_if = "Vec::is_empty")]
    pub schemes: Vec<Scheme>,
    /// Real NICs with several settings, in place of hosts and schemes.
    #[serde(default, rename = "device", skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<DeviceSection>,
    /// Names of the schemes in the figure, in the order of `schemes`; if not given, the texts of the schemes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names: Option<Vec<String>>,
    /// The traffic.
    pub traffic: TrafficSection,
    /// Seed of every sampled engine; None: derived from the file, and stored with the results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Relative half width of confidence intervals to reach; 5 % if neither it nor `packets` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<Share>,
    /// Arrivals simulated per point; an upper limit if a precision is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<u64>,
    /// Confidence of intervals; 95 % if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Share>,
    /// How it is drawn.
    #[serde(default)]
    pub figure: FigureSection,
    /// Stated numbers to compare with.
    #[serde(default, rename = "mark", skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<MarkSection>,
}

/// One point for one engine.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// Position in the order of all tasks.
    pub index: usize,
    /// Name of its curve.
    pub curve: String,
    /// The engine.
    pub answerer: Answerer,
    /// Position on the x axis.
    pub x: f64,
    /// The point. For a device, host and scheme are placeholders until it is calibrated.
    pub point: Point,
    /// Indexes of the device and of its setting; None if the task is not of a device.
    pub device: Option<(usize, usize)>,
}

/// One curve of the figure: its name, its points as (x, point) in the order of the file (not sorted by x), and the
/// indexes of its device and setting; `None` without a device.
struct Line {
    name: String,
    points: Vec<(f64, Point)>,
    device: Option<(usize, usize)>,
}

impl Grid {
    /// The engines, in the order of the file.
    pub fn answerers(&self) -> Vec<Answerer> {
        let each = |engine: &EngineKind| match engine {
            EngineKind::Model => {
                self.fidelity.0.iter().map(|f| Answerer { engine: *engine, fidelity: Some(*f) }).collect()
            }
            _ => vec![Answerer { engine: *engine, fidelity: None }],
        };
        self.engines.iter().flat_map(each).collect()
    }

    /// All tasks: by curve, then by engine, then by x.
    ///
    /// # Errors
    /// Why a point is impossible, with its place in the file.
    pub fn tasks(&self) -> Result<Vec<Task>, BadValue> {
        let lines = if self.devices.is_empty() { self.lines()? } else { self.device_lines()? };
        let answerers = self.answerers();
        let mut tasks = Vec::new();
        for line in lines {
            for answerer in &answerers {
                for (x, point) in &line.points {
                    let curve = line.name.clone();
                    let (index, device) = (tasks.len(), line.device);
                    tasks.push(Task { index, curve, answerer: *answerer, x: *x, point: point.clone(), device });
                }
            }
        }
        if tasks.is_empty() {
            let message =
                "nothing to do: engines, fidelity, schemes, arrivals, sizes and rates must each name at least one";
            return Err(BadValue::at("", "engines", message));
        }
        Ok(tasks)
    }

    /// Returns the axes of the grid's figure.
    ///
    /// # Errors
    /// The ends of an axis are impossible, or nothing varies along x.
    pub fn axes(&self) -> Result<Axes, BadValue> {
        let figure = &self.figure;
        let (name, dimension) = match &figure.x {
            Across::Rate => self.rate_axis()?,
            Across::Size => ("frame size".to_owned(), Dimension::Bytes),
            Across::Host(key) => (key.replace('_', " "), host_dimension(key)),
        };
        Ok(Axes {
            x: Axis::new(name, dimension, figure.x_scale, "x_range", figure.x_range.as_deref())?,
            y: Axis::new(figure.y.name, figure.y.dimension, figure.y_scale, "y_range", figure.y_range.as_deref())?,
        })
    }

    fn rate_axis(&self) -> Result<(String, Dimension), BadValue> {
        let rates = &self.traffic.rates.0;
        let dimension = |load: &Load| match load {
            Load::Pps(_) => Dimension::Pps,
            Load::Bps(_) => Dimension::Bps,
            Load::LineShare(_) => Dimension::Share,
        };
        let Some(first) = rates.first() else {
            return Err(BadValue::at("traffic", "rates", "rates: expected at least one load"));
        };
        if rates.iter().any(|load| dimension(load) != dimension(first)) {
            let message =
                format!("rates = \"{}\": loads along the x axis must all have the same unit", self.traffic.rates);
            return Err(BadValue::at("traffic", "rates", message));
        }
        let name = if dimension(first) == Dimension::Share { "offered load, of line rate" } else { "offered load" };
        Ok((name.to_owned(), dimension(first)))
    }

    /// The curves of the drawn figure; `outcome` returns a task's outcome, if there is one.
    pub fn curves<'a>(&self, tasks: &[Task], outcome: impl Fn(&Task) -> Option<&'a Outcome>) -> Vec<Curve> {
        Self::curves_of(self.figure.y, tasks, outcome)
    }

    /// The curves of `measure`, which need not be the drawn figure.
    pub fn curves_of<'a>(
        measure: Measure,
        tasks: &[Task],
        outcome: impl Fn(&Task) -> Option<&'a Outcome>,
    ) -> Vec<Curve> {
        let mut curves: Vec<Curve> = Vec::new();
        for task in tasks {
            let same = |curve: &Curve| curve.name == task.curve && curve.answerer == Some(task.answerer);
            if !curves.last().is_some_and(same) {
                curves.push(Curve { name: task.curve.clone(), answerer: Some(task.answerer), dots: Vec::new() });
            }
            if let Some((curve, y)) = curves.last_mut().zip(outcome(task).and_then(|o| measure.of(o))) {
                curve.dots.push(Dot { x: task.x, y });
            }
        }
        curves.retain(|curve| !curve.dots.is_empty());
        curves.iter_mut().for_each(|curve| curve.dots.sort_by(|a, b| a.x.total_cmp(&b.x)));
        curves
    }

    /// Returns what is known before the run: names and x ranges of the curves, and the settings of the file.
    pub(super) fn ruled(&self) -> Result<Ruled, BadValue> {
        let mut lines: Vec<Ahead> = Vec::new();
        for task in self.tasks()? {
            let reach = |reach: Option<(f64, f64)>| {
                reach.map_or((task.x, task.x), |(low, high)| (low.min(task.x), high.max(task.x)))
            };
            match lines.iter_mut().find(|line| line.name == task.curve) {
                Some(line) => line.reach = Some(reach(line.reach)),
                None => {
                    let scheme = if task.device.is_none() { task.point.scheme.to_string() } else { String::new() };
                    let settings = scheme.split([':', ',']).filter(|part| part.contains('=')).map(str::to_owned);
                    lines.push(Ahead { name: task.curve, reach: Some(reach(None)), settings: settings.collect() });
                }
            }
        }
        let delivers = self.figure.x == Across::Rate && self.figure.y == crate::outcome::THROUGHPUT;
        Ok(Ruled { lines: Some(lines), settings: self.host.set.clone(), delivers })
    }

    /// Checks the number of names and of packets, which no point depends on.
    pub(super) fn check(&self) -> Result<(), BadValue> {
        if let Some(names) = self.names.as_ref().filter(|names| names.len() != self.schemes.len()) {
            let message = format!("names: {} names for {} schemes; expected one each", names.len(), self.schemes.len());
            return Err(BadValue::at("", "names", message));
        }
        match self.packets {
            Some(packets) if !PACKETS_RANGE.contains(&packets) => {
                let (low, high) = (PACKETS_RANGE.start(), PACKETS_RANGE.end());
                let message = format!("packets = {packets}: expected a whole number from {low} to {high}");
                Err(BadValue::at("", "packets", message))
            }
            _ => Ok(()),
        }
    }

    /// One line per setting of each device. Host and scheme are placeholders until the device is calibrated.
    fn device_lines(&self) -> Result<Vec<Line>, BadValue> {
        if self.host != HostSection::default() || !self.schemes.is_empty() {
            let message = "schemes: a [[device]] has its own scheme and is calibrated: leave out schemes and [host]";
            return Err(BadValue::at("", "schemes", message));
        }
        self.devices.iter().enumerate().try_for_each(|(index, device)| device.check(index))?;
        let TrafficSection { arrivals, sizes, rates, flows, .. } = &self.traffic;
        let ([arrivals], [size @ FrameSizes::Fixed(_)], None) = (&*arrivals.0, &*sizes.0, flows) else {
            let message = "sizes: with a [[device]] expected one frame size, one arrival process and no flows";
            return Err(BadValue::at("traffic", "sizes", message));
        };
        if self.figure.x != Across::Rate {
            return Err(BadValue::at("figure", "x", "figure.x: with a [[device]] expected \"rate\""));
        }
        let link_bps = self.traffic.link_bps()?;
        let mut lines = Vec::new();
        for (at, device) in self.devices.iter().enumerate() {
            for (place, setting) in device.settings.iter().enumerate() {
                let mut points = Vec::new();
                for load in rates.0.iter().copied() {
                    let traffic = Traffic { arrivals: arrivals.clone(), size: size.clone(), link_bps, flows: None };
                    self.traffic.check(&traffic, load)?;
                    let (host, scheme) = (Host::pentium4_2530mhz(), Scheme::Napi(Napi::default()));
                    let point = Point { host, scheme, traffic, load };
                    points.push((self.x(&point)?, point));
                }
                let name =
                    if self.devices.len() > 1 { format!("{}, {setting}", device.name()) } else { setting.clone() };
                lines.push(Line { name, points, device: Some((at, place)) });
            }
        }
        Ok(lines)
    }

    fn lines(&self) -> Result<Vec<Line>, BadValue> {
        let hosts = self.host.variants()?;
        let link_bps = self.traffic.link_bps()?;
        let TrafficSection { arrivals, sizes, rates, .. } = &self.traffic;
        let flows: Vec<Option<Flows>> =
            self.traffic.flows.as_ref().map_or_else(|| vec![None], |flows| flows.0.iter().cloned().map(Some).collect());
        let others = arrivals.0.len() * sizes.0.len() * flows.len() * rates.0.len();
        let count = hosts.len() * self.schemes.len() * others;
        if count > POINTS_AT_MOST {
            return Err(BadValue::at("traffic", "rates", format!("{count} points: expected at most {POINTS_AT_MOST}")));
        }
        let mut lines: Vec<Line> = Vec::new();
        for (index, scheme) in self.schemes.iter().enumerate() {
            for variant in &hosts {
                for arrivals in &arrivals.0 {
                    for (size, flows) in sizes.0.iter().flat_map(|size| flows.iter().map(move |flows| (size, flows))) {
                        for load in rates.0.iter().copied() {
                            let arrivals = arrivals.clone();
                            let size = match (&arrivals, size) {
                                (Arrivals::Trace { capture, .. }, FrameSizes::Trace(_)) => {
                                    FrameSizes::Trace(capture.clone())
                                }
                                (_, size) => size.clone(),
                            };
                            let traffic = Traffic { arrivals, size, link_bps, flows: flows.clone() };
                            self.traffic.check(&traffic, load)?;
                            let point = Point { host: variant.host.clone(), scheme: scheme.clone(), traffic, load };
                            let bad = |error| BadValue::at("", "schemes", format!("{scheme}: {error}")).item(index);
                            point.validate().map_err(bad)?;
                            let (name, x) = (self.name(index, variant, &point), self.x(&point)?);
                            match lines.iter_mut().find(|line| line.name == name) {
                                Some(line) => line.points.push((x, point)),
                                None => lines.push(Line { name, points: vec![(x, point)], device: None }),
                            }
                        }
                    }
                }
            }
        }
        Ok(lines)
    }

    /// Name of a point's curve: everything that has several values and is not along x.
    fn name(&self, scheme: usize, variant: &Variant, point: &Point) -> String {
        let named = self.names.as_ref().and_then(|names| names.get(scheme)).cloned();
        let mut parts = vec![named.unwrap_or_else(|| point.scheme.to_string())];
        parts.extend(variant.names(|key| self.figure.x != Across::Host(key.to_owned())));
        if self.traffic.arrivals.0.len() > 1 {
            parts.push(point.traffic.arrivals.to_string());
        }
        if self.traffic.sizes.0.len() > 1 && self.figure.x != Across::Size {
            parts.push(point.traffic.size.to_string());
        }
        if self.traffic.flows.as_ref().is_some_and(|flows| flows.0.len() > 1) {
            parts.extend(point.traffic.flows.as_ref().map(|flows| format!("flows {flows}")));
        }
        if self.traffic.rates.0.len() > 1 && self.figure.x != Across::Rate {
            parts.push(point.load.to_string());
        }
        if self.schemes.len() == 1 && parts.len() > 1 {
            parts.remove(0);
        }
        parts.join(", ")
    }

    fn x(&self, point: &Point) -> Result<f64, BadValue> {
        match &self.figure.x {
            Across::Rate => Ok(point.load.amount()),
            Across::Size => match point.traffic.size {
                FrameSizes::Fixed(bytes) => Ok(f64::from(bytes)),
                ref mixed => {
                    let message =
                        format!("sizes: {mixed} has no place on an axis of frame sizes; expected sizes such as 64B");
                    Err(BadValue::at("traffic", "sizes", message))
                }
            },
            Across::Host(key) => {
                let varied = self.host.vary.iter().any(|varied| varied.key == *key);
                point.host.get(key).filter(|_| varied).ok_or_else(|| {
                    let message = format!(
                        "figure.x = \"{key}\": nothing varies it; expected it in [host] as vary = [\"{key}=VALUE,VALUE,...\"]"
                    );
                    BadValue::at("figure", "x", message)
                })
            }
        }
    }
}

/// Dimension of the values of a host key.
pub(super) fn host_dimension(key: &str) -> Dimension {
    match host::TABLE.iter().find(|row| row.name == key).map(|row| row.unit) {
        Some(host::Unit::Slots | host::Unit::Packets | host::Unit::Ratio) => Dimension::Number,
        Some(host::Unit::Time | host::Unit::Text) | None => Dimension::Seconds,
    }
}
