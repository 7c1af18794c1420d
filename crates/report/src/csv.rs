//! [`records`]: records as CSV, one row each, every figure as value, low and high in its base unit.

use netcliff_core::experiment::{Curve, Dot, TransferMeasure};
use netcliff_core::roofline::{PARTS, Roofline};
use netcliff_core::{Record, Slice, measure};
use netcliff_lab::forwarding::{Bound, ForwardingReport};
use netcliff_lab::rfc2544::report::Rfc2544Report;
use netcliff_lab::transfers::TransferReport;

use crate::format;

const POINT: [&str; 8] = ["engine", "host", "scheme", "arrivals", "size", "rate", "rate_pps", "link_bps"];
const ORIGIN: [&str; 8] =
    ["confidence", "latency_to", "cpu_method", "notes", "version", "seed", "started_utc", "fingerprint_id"];

/// The records with a header line; an absent figure is an empty field, never zero. Numbers round-trip.
///
/// `confidence` lists the confidences of the row's intervals, mostly one.
pub fn records(records: &[Record]) -> String {
    let mut rows = vec![header()];
    rows.extend(records.iter().map(row));
    rows.iter().map(|fields| line(fields)).collect()
}

/// Curves that are formulas, with a header line: `curve` and the two columns named by `keys`.
pub fn curves(curves: &[Curve], keys: (&str, &str)) -> String {
    let mut rows = vec![vec!["curve".to_owned(), keys.0.to_owned(), keys.1.to_owned()]];
    for curve in curves {
        let row = |dot: &Dot| vec![curve.name.clone(), number(Some(dot.x)), number(Some(dot.y.value))];
        rows.extend(curve.dots.iter().map(row));
    }
    rows.iter().map(|fields| line(fields)).collect()
}

/// The slices of a series with a header line: times in seconds, packets, shares of one CPU.
pub fn series(slices: &[Slice]) -> String {
    let names = "from_s,to_s,arrived,delivered,dropped_ring,dropped_socket,ring_mean,ring_max,cpu_interrupt,cpu_poll,\
                 cpu_protocol,cpu_application,cpu_available\n";
    let rows = slices.iter().map(|slice| {
        let cpu = slice.cpu;
        let shares = [cpu.interrupt, cpu.poll, cpu.protocol, cpu.application, cpu.available];
        let counts = [slice.arrived, slice.delivered, slice.dropped_ring, slice.dropped_socket];
        let mut fields = vec![number(Some(slice.from_s)), number(Some(slice.to_s))];
        fields.extend(counts.map(|count| count.to_string()));
        fields.extend([number(Some(slice.ring_mean)), slice.ring_max.to_string()]);
        fields.extend(shares.map(|share| number(share.map(|figure| figure.value))));
        line(&fields)
    });
    [names.to_owned()].into_iter().chain(rows).collect()
}

/// RFC 2544's tables in long form: a row a frame size, test, load and figure, each in its base unit.
pub fn rfc2544(report: &Rfc2544Report) -> String {
    let mut rows = vec![["frame", "mean_bytes", "test", "load_pps", "figure", "value"].map(str::to_owned).to_vec()];
    for size in &report.sizes {
        let mut row = |test: &str, load_pps: Option<f64>, figure: &str, value: Option<f64>| {
            if value.is_some() {
                let own = [size.frame.to_string(), number(Some(size.mean_bytes))];
                let rest = [test.to_owned(), number(load_pps), figure.to_owned(), number(value)];
                rows.push(own.into_iter().chain(rest).collect());
            }
        };
        row("tester", None, "sender_pps", Some(size.sender_pps));
        if let Some(found) = size.throughput.as_ref().and_then(|searched| searched.found.first()) {
            row("throughput", None, "lower_pps", found.lower_pps);
            row("throughput", None, "upper_pps", found.upper_pps);
            row("throughput", None, "conditional_pps", found.throughput_pps);
        }
        if let Some(mean) = &size.throughput_pps {
            row("throughput", None, "mean_pps", Some(mean.value));
            row("throughput", None, "mean_low_pps", mean.interval.map(|ends| ends.low));
            row("throughput", None, "mean_high_pps", mean.interval.map(|ends| ends.high));
        }
        for turn in &size.searches {
            let search = format!("search {}", turn.round);
            row(&search, None, "sender_pps", Some(turn.sender_pps));
            if let Some((lower_pps, upper_pps)) = turn.searched.bounds() {
                row(&search, None, "lower_pps", Some(lower_pps));
                row(&search, None, "upper_pps", upper_pps);
            }
        }
        if let Some(predicted) = &size.predicted {
            let load = Some(predicted.load_pps);
            row("predicted", load, "frame_s", Some(predicted.frame_s));
            row("predicted", load, "poll_s", Some(predicted.poll_s));
            row("predicted", load, "one_server_pps", Some(predicted.server_pps));
            row("predicted", load, "simulated_pps", predicted.simulated_pps);
        }
        for line in &size.line_shares {
            row("throughput", Some(line.line_pps), &format!("share_of_{:.0}_bps", line.line_bps), Some(line.share));
        }
        if let Some(latency) = &size.latency {
            let load = Some(latency.load_pps);
            row("latency", load, "tagged_mean_s", Some(latency.mean_s));
            // By whose stamps, where there are any.
            let by_stamps = latency.absent.map(|_| latency.mean_s);
            row("latency", load, &format!("tagged_mean_{}_s", latency.clock), by_stamps);
            row("latency", load, "tagged_uncertainty_s", latency.uncertainty_s);
            row("latency", load, "tagged_mean_application_s", latency.application_mean_s);
            row("latency", load, "tagged_mean_kernel_s", latency.kernel_mean_s);
            row("latency", load, "absent_stamps", latency.absent_stamps().map(f64::from));
            row("latency", load, "typical_s", Some(latency.typical_s.median));
            row("latency", load, "worst_case_s", Some(latency.worst_s.median));
        }
        for trial in size.loss.iter().flat_map(|curve| &curve.trials) {
            row("loss", Some(trial.load_pps), "loss_ratio", Some(trial.loss_ratio()));
        }
        if let Some(found) = &size.back_to_back {
            let load = Some(found.burst_pps);
            row("back-to-back", load, "mean_frames", Some(found.mean));
            row("back-to-back", load, "deviation_frames", found.deviation);
            row("back-to-back", load, "implied_buffer_s", Some(found.implied_buffer_s));
            row("back-to-back", load, "corrected_buffer_s", Some(found.corrected_buffer_s));
        }
    }
    rows.iter().map(|fields| line(fields)).collect()
}

/// A roofline, one row a frame size and set of offloads, bounds in packets a second; a part without a bound is empty.
pub fn roofline(roofline: &Roofline) -> String {
    let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<String>>();
    let mut header = words(&["asked_bytes", "frame_bytes", "offloads", "pps", "bps", "binding"]);
    header.extend(PARTS.map(|part| format!("{}_pps", part.replace(' ', "_").to_lowercase())));
    let rows = roofline.rows.iter().map(|row| {
        let offloads: Vec<&str> = row.offloads.iter().map(|offload| offload.name()).collect();
        let mut fields = vec![
            row.asked_bytes.to_string(),
            row.frame_bytes.to_string(),
            offloads.join(" "),
            number(row.pps),
            number(row.bps),
            row.binding.clone().unwrap_or_default(),
        ];
        fields.extend(PARTS.map(|part| number(row.bounds_pps.get(part).copied())));
        line(&fields)
    });
    [line(&header)].into_iter().chain(rows).collect()
}

/// An experiment of transfers, one row a repeat: the level of each factor, the repeat's number, every figure; one that was
/// not had is empty.
pub fn transfers(report: &TransferReport) -> String {
    let factors = report.factors.iter().map(|factor| factor.key.name().to_owned());
    let measures = TransferMeasure::ALL.map(|measure| measure.name().to_owned());
    let header: Vec<String> = factors.chain(["repeat".to_owned()]).chain(measures).collect();
    let rows = report.rows.iter().flat_map(|row| {
        row.samples.iter().enumerate().map(|(repeat, sample)| {
            let figures = TransferMeasure::ALL.map(|measure| number(measure.of(sample, row.carries_bps)));
            let fields: Vec<String> =
                row.levels.iter().cloned().chain([(repeat + 1).to_string()]).chain(figures).collect();
            line(&fields)
        })
    });
    [line(&header)].into_iter().chain(rows).collect()
}

/// An experiment of forwarding, one row a search, rates in frames a second; what was not had is empty.
pub fn forwarding(report: &ForwardingReport) -> String {
    let header = "frame_bytes,set_up,round,throughput_pps,upper_pps,bound,sender_pps,simulated_pps,server_pps,frame_s,poll_s,trials,\
                  trial_time_s\n";
    let rows = report.rows.iter().flat_map(|row| {
        row.samples.iter().map(|sample| {
            let predicted = sample.predicted.as_ref();
            let own = [number(Some(row.bytes())), row.set_up.clone(), sample.round.to_string()];
            let found = [number(sample.throughput_pps), number(sample.upper_pps)];
            let bound = [sample.bound.map_or("", Bound::name).to_owned(), number(Some(sample.sender_pps))];
            let costs = [
                predicted.and_then(|predicted| predicted.simulated_pps),
                predicted.map(|predicted| predicted.server_pps),
                predicted.map(|predicted| predicted.frame_s),
                predicted.map(|predicted| predicted.poll_s),
            ]
            .map(number);
            let spent = [sample.trials.to_string(), number(Some(sample.trial_time_s))];
            line(&[&own[..], &found, &bound, &costs, &spent].concat())
        })
    });
    [header.to_owned()].into_iter().chain(rows).collect()
}

fn header() -> Vec<String> {
    let figures = measure::ALL.iter().flat_map(|figure| ["", "_low", "_high"].map(|end| format!("{figure}{end}")));
    let point = POINT.iter().map(ToString::to_string);
    point.chain(figures).chain(ORIGIN.iter().map(ToString::to_string)).collect()
}

fn row(record: &Record) -> Vec<String> {
    let figures = measure::ALL.iter().map(|figure| figure.of(&record.outcome));
    let numbers = figures.flat_map(|figure| {
        let interval = figure.and_then(|f| f.interval);
        [figure.map(|f| f.value), interval.map(|i| i.low), interval.map(|i| i.high)].map(number)
    });
    point(record).into_iter().chain(numbers).chain(origin(record)).collect()
}

fn point(record: &Record) -> Vec<String> {
    let traffic = &record.point.traffic;
    vec![
        record.engine.to_string(),
        record.point.host.name.clone(),
        record.point.scheme.to_string(),
        traffic.arrivals.to_string(),
        traffic.size.to_string(),
        traffic.rate.to_string(),
        number(traffic.rate_pps()),
        number(Some(traffic.link_bps)),
    ]
}

fn origin(record: &Record) -> Vec<String> {
    let (outcome, provenance) = (&record.outcome, &record.provenance);
    let mut confidences: Vec<f64> =
        measure::ALL.iter().filter_map(|figure| Some(figure.of(outcome)?.interval?.confidence)).collect();
    confidences.sort_by(f64::total_cmp);
    confidences.dedup();
    vec![
        confidences.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
        outcome.latency_to.clone().unwrap_or_default(),
        outcome.cpu_method.clone().unwrap_or_default(),
        outcome.notes.join(" | "),
        provenance.version.clone(),
        provenance.seed.map(|seed| seed.to_string()).unwrap_or_default(),
        format::date_utc(provenance.started_unix_s),
        provenance.fingerprint_id.clone().unwrap_or_default(),
    ]
}

/// The shortest text that reads back to the same number; empty if there is none.
fn number(value: Option<f64>) -> String {
    value.filter(|value| value.is_finite()).map(|value| format!("{value:?}")).unwrap_or_default()
}

fn line(fields: &[String]) -> String {
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    writer.write_record(fields).expect("a Vec takes every write");
    let bytes = writer.into_inner().expect("a Vec takes every write");
    String::from_utf8(bytes).expect("text in, text out")
}
