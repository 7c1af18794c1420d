//! Figures of stored runs, for which the experiment's file is not available: the axes follow from the report.

use netcliff_core::experiment::{Answerer, Axes, Axis, Curve, Dot, Scale};
use netcliff_core::service::{ResponseTimes, ServiceFinding, ServiceTrial};
use netcliff_core::{Dimension, EngineKind, Fidelity, Figure, Provenance, Record};
use netcliff_rfc2544::forwarding::{ForwardingReport, ForwardingRow};
use netcliff_transfer::experiments::TransferReport;
use netcliff_transfer::rr::{RrRecord, RrRun};

use super::Drawing;
use crate::format::{self, Unit};
use crate::table::grouped;

/// If the largest x divided by the smallest is at least this, the axis is logarithmic.
const DECADES: f64 = 20.0;

impl Drawing {
    /// Throughput over frame size.
    pub fn of_forwarding(report: &ForwardingReport) -> Self {
        let axes = Axes {
            x: axis("frame size", Dimension::Bytes, Scale::Linear),
            y: axis("throughput", Dimension::Pps, Scale::Linear),
        };
        let drawing = stored(&report.title, axes, report.curves(), &report.provenance);
        Self { asked: report.asked.clone(), partial: report.partial, ..drawing }
    }

    /// Adds the limit of each throughput of the report, and the highest rates of the sender, so that a reader sees
    /// which figures are limits of the tester.
    pub fn limited(mut self, report: &ForwardingReport) -> Self {
        let limited = |row| -> Option<(String, &ForwardingRow)> {
            let row: &ForwardingRow = row;
            Some((format!("{}: the {}", row.set_up, row.bound?.name()), row))
        };
        let text = |(name, rows): (String, Vec<&ForwardingRow>)| {
            let sizes: Vec<String> = rows.iter().map(|row| row.frame.to_string()).collect();
            let flat_out = || rows.iter().flat_map(|row| &row.samples).map(|sample| sample.sender_pps);
            let ends = [flat_out().reduce(f64::min), flat_out().reduce(f64::max)];
            let ends = ends.map(|pps| pps.map_or("-".to_owned(), |pps| format::quantity(pps, Unit::Pps)));
            format!("{name} at {} (sender flat out: {} to {})", sizes.join(", "), ends[0], ends[1])
        };
        self.limits = grouped(report.rows.iter().filter_map(limited)).into_iter().map(text).collect();
        self
    }

    /// The figure of the report over the setting along x. Without a setting along x, the drawing has no curve.
    pub fn of_transfers(report: &TransferReport) -> Self {
        let curves = report.curves();
        let x = report
            .x
            .map_or(("setting", Dimension::Number), |key| (key.label(), key.dimension().unwrap_or(Dimension::Number)));
        let axes =
            Axes { x: axis(x.0, x.1, scale(&curves)), y: axis(report.y.label(), report.y.dimension(), Scale::Linear) };
        let drawing = stored(&report.title, axes, curves, &report.provenance);
        Self { asked: report.asked.clone(), partial: report.partial, ..drawing }
    }

    /// The share of answers that took longer than a time, over that time: p99 is at 1 %. One curve for each
    /// configuration of `rr` that has answers.
    pub fn of_rr(title: &str, run: &RrRun) -> Self {
        let curve = |record: &RrRecord| {
            let counts_ns = &record.report.latency.as_ref()?.counts_ns;
            let all: u64 = counts_ns.iter().map(|(_, count)| count).sum();
            let mut left = all;
            let dots = counts_ns.iter().filter_map(|(ns, count)| {
                left -= count;
                // No answer took longer than the slowest answer: its share is 0, which a logarithmic axis cannot show.
                (left > 0).then(|| Dot { x: *ns as f64 * 1e-9, y: Figure::exact(left as f64 / all as f64) })
            });
            let settings = &record.report.settings;
            let name = format!(
                "requests of {} B, responses of {} B, {} flows",
                settings.request_bytes, settings.response_bytes, settings.flows
            );
            Some(Curve { name, answerer: None, dots: dots.collect() })
        };
        let mut curves: Vec<Curve> = run.rows.iter().filter_map(curve).filter(|curve| !curve.dots.is_empty()).collect();
        // If several configurations have the same name, their position in the run distinguishes them.
        for place in 1..curves.len() {
            if curves[..place].iter().any(|other| other.name == curves[place].name) {
                curves[place].name += &format!(" ({})", place + 1);
            }
        }
        let axes = Axes {
            x: axis("latency", Dimension::Seconds, Scale::Log),
            y: axis("share of requests that took longer", Dimension::Share, Scale::Log),
        };
        let provenance = run.rows.first().map(|record| record.provenance.clone()).unwrap_or_default();
        Self { partial: run.partial, ..stored(title, axes, curves, &provenance) }
    }

    /// Response times over the load: median and 99th percentile of the trials that count, the promised limits, and the
    /// cliffs.
    pub fn of_service(title: &str, finding: &ServiceFinding) -> Self {
        let counts = |trial: &&ServiceTrial| trial.void.is_none();
        let trials: Vec<&ServiceTrial> = finding.trials.iter().filter(counts).collect();
        let measured = |name: &str, of: fn(&ResponseTimes) -> f64| {
            let dots = trials.iter().filter_map(|trial| {
                let time_s = of(trial.times.as_ref()?);
                (time_s > 0.0).then(|| Dot { x: trial.rate_rps, y: time_s.into() })
            });
            let mut dots: Vec<Dot> = dots.collect();
            dots.sort_by(|a, b| a.x.total_cmp(&b.x));
            let answerer = Some(Answerer { engine: EngineKind::Wire, fidelity: None });
            Curve { name: name.to_owned(), answerer, dots }
        };
        let mut curves = vec![measured("median", |times| times.p50_s), measured("99 %", |times| times.p99_s)];
        let dots = || curves.iter().flat_map(|curve| &curve.dots);
        let ends = |of: fn(&Dot) -> f64| {
            dots().map(of).fold((f64::INFINITY, 0.0), |(low, high), at| (at.min(low), at.max(high)))
        };
        let ((left, right), (lowest, highest)) = (ends(|dot| dot.x), ends(|dot| dot.y.value));
        let line = |name: String, from: (f64, f64), to: (f64, f64)| {
            let dots = [from, to].map(|(x, y): (f64, f64)| Dot { x, y: y.into() });
            Curve { name, answerer: None, dots: dots.into() }
        };
        let limits = finding
            .promise
            .quantiles
            .iter()
            .map(|limit| line(format!("promise: {limit}"), (left, limit.within_s), (right, limit.within_s)));
        let cliffs = [
            ("cliff, measured", finding.cliff_rps),
            ("cliff, predicted", finding.predicted.as_ref().map(|one| one.cliff_rps)),
        ];
        let cliffs = cliffs.into_iter().filter_map(|(name, rps)| {
            let rps = rps?.value;
            Some(line(name.to_owned(), (rps, lowest), (rps, highest)))
        });
        let lines: Vec<Curve> = if lowest < highest { limits.chain(cliffs).collect() } else { Vec::new() };
        curves.extend(lines);
        curves.retain(|curve| !curve.dots.is_empty());
        let axes = Axes {
            x: axis("load (requests)", Dimension::PerSecond, Scale::Linear),
            y: axis("response time", Dimension::Seconds, Scale::Log),
        };
        let drawing = stored(title, axes, curves, &finding.provenance);
        Self { asked: finding.asked.clone(), partial: finding.partial.is_some(), ..drawing }
    }

    /// Throughput over the offered load: a curve for each combination of host, scheme, traffic and engine.
    pub fn of_records(title: &str, records: &[Record], partial: bool) -> Self {
        let mut curves: Vec<Curve> = Vec::new();
        for record in records {
            let (point, outcome) = (&record.point, &record.outcome);
            let (Some(x), Some(y)) = (point.rate_pps(), outcome.throughput_pps) else { continue };
            let name =
                format!("{}, {}, {} of {}", point.host.name, point.scheme, point.traffic.arrivals, point.traffic.size);
            let fidelity = record.provenance.settings.get("fidelity").and_then(|text| text.parse::<Fidelity>().ok());
            let answerer = Some(Answerer { engine: record.engine, fidelity });
            let same = |curve: &&mut Curve| curve.name == name && curve.answerer == answerer;
            match curves.iter_mut().find(same) {
                Some(curve) => curve.dots.push(Dot { x, y }),
                None => curves.push(Curve { name, answerer, dots: vec![Dot { x, y }] }),
            }
        }
        curves.iter_mut().for_each(|curve| curve.dots.sort_by(|a, b| a.x.total_cmp(&b.x)));
        let axes = Axes {
            x: axis("offered load", Dimension::Pps, Scale::Linear),
            y: axis("throughput", Dimension::Pps, Scale::Linear),
        };
        let provenance = records.first().map(|record| record.provenance.clone()).unwrap_or_default();
        Self { partial, ..stored(title, axes, curves, &provenance) }
    }
}

/// An axis whose ends follow from the curves.
pub(crate) fn axis(name: &str, dimension: Dimension, scale: Scale) -> Axis {
    Axis { name: name.to_owned(), dimension, scale, range: None }
}

/// A logarithmic scale if the largest x is at least [`DECADES`] times the smallest, otherwise a linear one.
fn scale(curves: &[Curve]) -> Scale {
    let places = || curves.iter().flat_map(|curve| &curve.dots).map(|dot| dot.x);
    let (low, high) = (places().fold(f64::INFINITY, f64::min), places().fold(0.0, f64::max));
    if low > 0.0 && high >= DECADES * low { Scale::Log } else { Scale::Linear }
}

/// A drawing of these curves, without marks, configuration and file.
pub(crate) fn stored(title: &str, axes: Axes, curves: Vec<Curve>, provenance: &Provenance) -> Drawing {
    Drawing {
        title: title.to_owned(),
        axes,
        curves,
        marks: Vec::new(),
        not_had: Vec::new(),
        limits: Vec::new(),
        judged: Default::default(),
        missing: Vec::new(),
        asked: Vec::new(),
        source: String::new(),
        provenance: provenance.clone(),
        partial: false,
    }
}
