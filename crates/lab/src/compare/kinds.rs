//! Converts each kind of run into points with figures.

mod forwarding;
mod learned;
mod profile;

use std::collections::BTreeMap;

use netcliff_core::finding::{ByEngine, Cost};
use netcliff_core::stream::{StreamReport, StreamRow, StreamSample};
use netcliff_core::{EngineKind, Figure, Finding, Fingerprint, Record, units};
use netcliff_packets::thread::print_cpus;

use super::quantity::{
    CLIENT_US, CLIFF, DELIVERED_WIRE, GOODPUT, HOST_US, LATENCY_MEAN, LATENCY_P50, LATENCY_P99, LIVELOCK, PEAK,
    Quantity, RATE, RECEIVER_US_PER_KIB, SENDER_US_PER_KIB, SERVER_US, SYSTEM_US_PER_KIB, THROUGHPUT, WIRE, drawn,
};
use super::{Calibrated, Measured, MeasuredPoint, Reading};
use netcliff_transfer::experiments::TransferReport;
use netcliff_transfer::rr::{Arrivals, Receive, Report, RrRecord, RrRun, RrSample, Settings, Transport};

pub use forwarding::{forwarding, rfc2544};
pub use learned::learned;
pub use profile::profile;
pub use service::service;

/// How a run gets more values of a figure, which a test needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Repetition {
    /// By `--searches`.
    Searches,
    /// By `--repeats`.
    Repeats,
    /// By more repeats, which have no option.
    Own,
    /// By a longer time: the run has one value of each figure.
    Time,
}

impl Repetition {
    /// By the kind of the run and the figure.
    pub fn of(kind: &str, quantity: Quantity) -> Self {
        match kind {
            "service" => Self::Searches,
            "find" if quantity == CLIFF => Self::Searches,
            // The repeats of a throughput are its searches; `--repeats` is for latency and bursts.
            "rfc2544" if quantity == THROUGHPUT => Self::Searches,
            "learn" | "profile" => Self::Time,
            "run" => Self::Own,
            _ => Self::Repeats,
        }
    }

    /// The option; `None` if there is no option.
    pub fn option(self) -> Option<&'static str> {
        match self {
            Self::Searches => Some("--searches"),
            Self::Repeats => Some("--repeats"),
            Self::Own | Self::Time => None,
        }
    }
}

/// Name of a point on pages. They call a measurement `measured`, as the page of `find` does; JSON has the engine's name,
/// `wire`.
pub fn point_title(kind: &str, point: &str) -> String {
    let measured = match kind {
        "find" | "service" => point.strip_suffix(" wire").map(|figure| format!("{figure} measured")),
        "run" => point.strip_prefix("wire ").map(|setting| format!("measured {setting}")),
        _ => None,
    };
    measured.unwrap_or_else(|| point.to_owned())
}

/// Converts the result of `netcliff stream`: one point for each path and block size.
pub fn stream(name: String, report: StreamReport) -> Measured {
    let points = report.rows.iter().map(|row| MeasuredPoint {
        name: format!("{} {}", row.path, units::print_bytes(row.block_bytes)),
        figures: stream_figures(row),
    });
    let asked = report.asked.iter().map(|(name, fact)| (format!("asked.{name}"), fact.clone()));
    let in_force = report.in_force.iter().map(|(name, fact)| (format!("in_force.{name}"), fact.clone()));
    Measured {
        name,
        kind: "stream",
        others: report.rows.iter().find_map(StreamRow::limited_by_others).map(str::to_owned),
        clock: Some(report.clock.clone()),
        points: points.collect(),
        facts: asked.chain(in_force).collect(),
        calibrated: Vec::new(),
        partial: report.partial,
        fingerprint: Some(report.fingerprint),
        far_fingerprint: report.far_fingerprint,
        provenance: report.provenance,
    }
}

fn stream_figures(row: &StreamRow) -> Vec<Reading> {
    if row.samples.is_empty() {
        // Older versions did not store each repeat: use the median, without a test.
        let goodput = row.goodput_bps.map(|spread| spread.median);
        return Reading::of(GOODPUT, [goodput]).into_iter().collect();
    }
    sample_figures(&row.samples)
}

/// The figures of the repeats of a transfer.
fn sample_figures(samples: &[StreamSample]) -> Vec<Reading> {
    let pick = |quantity: Quantity, figure: fn(&StreamSample) -> Option<f64>| {
        Reading::of(quantity, samples.iter().map(figure))
    };
    // For a stream of bytes, the goodput is compared. For datagrams, the rates sent and delivered are also compared.
    let datagrams = samples.iter().any(|sample| sample.delivered_wire_bps.is_some());
    let of_datagrams = |quantity, figure| datagrams.then(|| pick(quantity, figure)).flatten();
    let figures = [
        pick(GOODPUT, |sample| sample.goodput_bps),
        of_datagrams(WIRE, |sample| sample.wire_bps),
        of_datagrams(DELIVERED_WIRE, |sample| sample.delivered_wire_bps),
        pick(SENDER_US_PER_KIB, |sample| sample.sender_us_per_kib),
        pick(RECEIVER_US_PER_KIB, |sample| sample.receiver_us_per_kib),
        pick(SYSTEM_US_PER_KIB, |sample| sample.system_us_per_kib),
    ];
    figures.into_iter().flatten().collect()
}

/// Converts the report of an experiment of transfers: one point for each configuration.
pub fn transfers(name: String, report: TransferReport) -> Measured {
    let points = report.rows.iter().map(|row| {
        let words = report.factors.iter().zip(&row.levels).map(|(factor, level)| format!("{} {level}", factor.key));
        let drawn = drawn(report.y).and_then(|y| Reading::of(y, row.values(report.y).into_iter().map(Some)));
        let figures = drawn.into_iter().chain(sample_figures(&row.samples)).collect();
        MeasuredPoint { name: words.collect::<Vec<_>>().join(", "), figures }
    });
    Measured {
        name,
        kind: "transfer",
        clock: None,
        points: points.collect(),
        facts: report.asked.iter().map(|(name, fact)| (format!("asked.{name}"), fact.clone())).collect(),
        calibrated: Vec::new(),
        partial: report.partial,
        others: None,
        fingerprint: Some(report.fingerprint),
        far_fingerprint: report.far_fingerprint,
        provenance: report.provenance,
    }
}

/// Converts the result of `netcliff rr`: one point for each configuration.
pub fn rr(name: String, run: RrRun) -> Measured {
    let records = run.rows;
    let first = records.first();
    Measured {
        name,
        kind: "rr",
        clock: None,
        points: records.iter().map(rr_point).collect(),
        facts: first.map(|record| rr_facts(&record.report)).unwrap_or_default(),
        calibrated: Vec::new(),
        partial: run.partial || records.iter().any(|record| record.report.partial.is_some()),
        others: None,
        fingerprint: first.and_then(|record| record.fingerprint.clone()),
        far_fingerprint: first.and_then(|record| record.far_fingerprint.clone()),
        provenance: first.map(|record| record.provenance.clone()).unwrap_or_default(),
    }
}

/// Settings that are not part of the points' names.
fn rr_facts(report: &Report) -> Vec<(String, String)> {
    let settings = &report.settings;
    let time = |time_s: f64| units::print_time_s(time_s);
    // Users compare how the ends wait, so it is a setting and not part of the name.
    let receive = match settings.receive {
        Receive::Block => "blocking".to_owned(),
        Receive::Spin => "spinning".to_owned(),
        Receive::KernelPoll(us) => format!("kernel polls for {us} us"),
    };
    let facts = [
        ("path", report.path.clone()),
        ("settings.receive", receive),
        ("settings.client_cpu", print_cpus(settings.client_cpu, &settings.client_cpus)),
        ("settings.server_cpu", print_cpus(settings.server_cpu, &settings.server_cpus)),
        ("settings.time", time(settings.time_s)),
        ("settings.warm_up", time(settings.warm_up_s)),
        ("settings.timeout", time(settings.timeout_s)),
    ];
    facts.into_iter().map(|(name, fact)| (name.to_owned(), fact)).collect()
}

fn rr_point(record: &RrRecord) -> MeasuredPoint {
    let whole;
    let samples = if record.repeats.is_empty() {
        whole = [RrSample::of(&record.report)];
        &whole[..]
    } else {
        &record.repeats
    };
    let pick =
        |quantity: Quantity, figure: fn(&RrSample) -> Option<f64>| Reading::of(quantity, samples.iter().map(figure));
    let closed = record.report.settings.rate_per_s.is_none();
    let figures = [
        // In an open loop, the rate is the requested one, so it is not compared.
        closed.then(|| pick(RATE, |sample| Some(sample.rate_per_s))).flatten(),
        pick(LATENCY_P50, |sample| Some(sample.latency?.p50_s)),
        pick(LATENCY_P99, |sample| Some(sample.latency?.p99_s)),
        pick(CLIENT_US, |sample| sample.client_us_per_transaction),
        pick(SERVER_US, |sample| sample.server_us_per_transaction),
        pick(HOST_US, |sample| sample.host_us_per_transaction),
    ];
    MeasuredPoint { name: rr_name(&record.report.settings), figures: figures.into_iter().flatten().collect() }
}

fn rr_name(settings: &Settings) -> String {
    let transport = match settings.transport {
        Transport::Tcp if settings.connect_each => "tcp crr",
        Transport::Tcp => "tcp",
        Transport::Udp => "udp",
        Transport::Unix => "unix",
    };
    let load = match settings.rate_per_s {
        None => format!("flows {} depth {}", settings.flows, settings.depth),
        Some(rate) => {
            let gaps = if settings.arrivals == Arrivals::Poisson { "poisson" } else { "constant" };
            format!("flows {} {gaps} {rate}/s", settings.flows)
        }
    };
    format!("{transport} {}B/{}B {load}", settings.request_bytes, settings.response_bytes)
}

/// Converts the result of `netcliff find`: cliff, peak and livelock ratio are points, one for each engine.
pub fn finding(name: String, finding: Finding) -> Measured {
    // A measured cliff has the interval of its searches; other figures have that of the sweep's repeats.
    let searches = finding.searches.as_ref().map(|searches| searches.own.searches.len() as u32);
    let point = |name: &str, quantity: Quantity, by: &ByEngine<Figure>| -> Vec<MeasuredPoint> {
        let repeats = if quantity == CLIFF { searches } else { Some(finding.setup.repeats) };
        let of = |(engine, figure): (EngineKind, &Figure)| {
            let reading = match engine {
                EngineKind::Wire => Reading::of_figure(quantity, figure, repeats),
                EngineKind::Model | EngineKind::Sim => Reading::of_computed(quantity, figure),
            };
            MeasuredPoint { name: format!("{name} {engine}"), figures: reading.into_iter().collect() }
        };
        by.present().map(of).collect()
    };
    let points = [
        point("cliff", CLIFF, &finding.cliff_pps),
        point("peak", PEAK, &finding.peak_pps),
        point("livelock", LIVELOCK, &finding.livelock),
    ]
    .concat();
    let facts = finding.setup.facts().into_iter().chain([
        ("setup.testbed", finding.host.testbed.clone()),
        ("setup.loss_target", finding.loss_target.to_string()),
    ]);
    Measured {
        name,
        kind: "find",
        clock: None,
        points,
        facts: facts.map(|(name, fact)| (name.to_owned(), fact)).collect(),
        calibrated: finding.calibration.iter().flat_map(|calibration| &calibration.costs).map(calibrated).collect(),
        partial: finding.partial,
        others: None,
        fingerprint: Some(finding.fingerprint),
        far_fingerprint: None,
        provenance: finding.provenance,
    }
}

pub(super) fn calibrated(cost: &Cost) -> Calibrated {
    Calibrated { key: cost.key.clone(), value: cost.figure.value, unit: cost.unit.clone() }
}

/// Converts records of `predict`, `simulate` and `run`: one point for each record.
pub fn records(name: String, records: Vec<Record>, fingerprint: Option<Fingerprint>, partial: bool) -> Measured {
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    let points = records.iter().map(|record| {
        let mut name = record_name(record);
        let times = seen.entry(name.clone()).or_default();
        *times += 1;
        if *times > 1 {
            name = format!("{name} #{times}");
        }
        MeasuredPoint { name, figures: record_figures(record) }
    });
    Measured {
        name,
        kind: "run",
        clock: None,
        points: points.collect(),
        facts: hosts(&records),
        calibrated: Vec::new(),
        partial,
        others: None,
        fingerprint,
        far_fingerprint: None,
        provenance: records.first().map(|record| record.provenance.clone()).unwrap_or_default(),
    }
}

fn record_name(record: &Record) -> String {
    let settings = &record.provenance.settings;
    let fidelity = settings.get("fidelity").map(|fidelity| format!(" ({fidelity})")).unwrap_or_default();
    let traffic = &record.point.traffic;
    let (engine, scheme) = (record.engine, &record.point.scheme);
    format!("{engine}{fidelity} {scheme}, {} {} {}", traffic.arrivals, traffic.size, record.point.load)
}

fn record_figures(record: &Record) -> Vec<Reading> {
    let outcome = &record.outcome;
    let repeats = outcome.precision.as_ref().and_then(|precision| u32::try_from(precision.replications).ok());
    let latency = outcome.latency_s.unwrap_or_default();
    let figures = [
        (THROUGHPUT, outcome.throughput_pps),
        (LATENCY_MEAN, latency.mean),
        (LATENCY_P50, latency.p50),
        (LATENCY_P99, latency.p99),
    ];
    let reading = |(quantity, figure): (Quantity, Option<Figure>)| match record.engine {
        EngineKind::Wire => Reading::of_figure(quantity, &figure?, repeats),
        EngineKind::Model | EngineKind::Sim => Reading::of_computed(quantity, &figure?),
    };
    figures.into_iter().filter_map(reading).collect()
}

/// The host parameters of the points; `several` if the points differ in a parameter.
fn hosts(records: &[Record]) -> Vec<(String, String)> {
    let tables = records.iter().filter_map(|record| serde_json::to_value(&record.point.host).ok());
    let mut facts: BTreeMap<String, String> = BTreeMap::new();
    for table in tables {
        for (key, value) in table.as_object().into_iter().flatten() {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let held = facts.entry(format!("host.{key}")).or_insert_with(|| text.clone());
            if *held != text {
                "several".clone_into(held);
            }
        }
    }
    facts.into_iter().collect()
}

mod service {
    //! Converts `netcliff find --service`: the cliff as a point, with the CPU time of a request.

    use netcliff_core::ServiceFinding;

    use super::super::quantity::{CLIFF_RPS, REQUEST_US};
    use super::super::{Measured, MeasuredPoint, Reading};

    /// Converts the measured cliff, the predicted one and the CPU time of a request.
    pub fn service(name: String, finding: ServiceFinding) -> Measured {
        let searches = finding.searches.len() as u32;
        let measured = finding.cliff_rps.and_then(|figure| Reading::of_figure(CLIFF_RPS, &figure, Some(searches)));
        let measured = measured.map(|reading| Reading { lower_limit: finding.lower_limit, ..reading });
        let predicted = finding.predicted.as_ref().and_then(|one| Reading::of_computed(CLIFF_RPS, &one.cliff_rps));
        let cost_s: f64 = finding.costs.iter().map(|cost| cost.request_s.value).sum();
        let cost = (cost_s > 0.0).then(|| Reading::of(REQUEST_US, [Some(1e6 * cost_s)])).flatten();
        let point = |name: &str, figures: Vec<Reading>| MeasuredPoint { name: name.to_owned(), figures };
        let points = [
            point("cliff wire", measured.into_iter().chain(cost).collect()),
            point("cliff model", predicted.into_iter().collect()),
        ];
        Measured {
            name,
            kind: "service",
            clock: None,
            points: points.into_iter().filter(|point| !point.figures.is_empty()).collect(),
            facts: finding.asked.iter().map(|(name, fact)| (format!("asked.{name}"), fact.clone())).collect(),
            calibrated: Vec::new(),
            partial: finding.partial.is_some(),
            others: None,
            fingerprint: Some(finding.fingerprint),
            far_fingerprint: None,
            provenance: finding.provenance,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::quantity::{BURST, CLIFF_RPS, PER_PACKET};
    use super::*;

    #[test]
    fn a_figure_is_repeated_by_the_option_of_its_command() {
        fn option(kind: &str, quantity: Quantity) -> Option<&'static str> {
            Repetition::of(kind, quantity).option()
        }
        assert_eq!(option("rfc2544", THROUGHPUT), Some("--searches"));
        assert_eq!((option("rfc2544", BURST), option("rfc2544", LATENCY_P50)), (Some("--repeats"), Some("--repeats")));
        assert_eq!(
            (option("forwarding", THROUGHPUT), option("service", CLIFF_RPS)),
            (Some("--repeats"), Some("--searches"))
        );
        assert_eq!((option("find", CLIFF), option("find", RATE)), (Some("--searches"), Some("--repeats")));
        assert!(["find", "stream", "rr", "transfer"].iter().all(|kind| option(kind, RATE) == Some("--repeats")));
        assert!(["run", "learn", "profile"].iter().all(|kind| option(kind, PER_PACKET).is_none()));
    }
}
