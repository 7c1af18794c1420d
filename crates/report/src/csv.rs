//! [`records`]: records as CSV, one row each, every figure as value, low and high in its base unit.

mod rfc2544;

use netcliff_core::experiment::{Curve, Dot, TransferMeasure};
use netcliff_core::outcome::MEASURES;
use netcliff_core::roofline::{PARTS, Roofline};
use netcliff_core::{Figure, Point, Profile, Record, Slice};
use netcliff_rfc2544::forwarding::{Bound, ForwardingReport};
use netcliff_transfer::experiments::TransferReport;

use crate::format;

pub use flat::flat;
pub use rfc2544::rfc2544;

const POINT: [&str; 8] = ["engine", "host", "scheme", "arrivals", "size", "rate", "rate_pps", "link_bps"];
const ORIGIN: [&str; 8] =
    ["confidence", "latency_to", "cpu_method", "notes", "version", "seed", "started_utc", "fingerprint_id"];

/// The records with a header line; a figure that was not measured is an empty field, never zero. Numbers round-trip.
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
                 cpu_protocol,cpu_application,cpu_available,cpu_paused\n";
    let rows = slices.iter().map(|slice| {
        let cpu = slice.cpu;
        let shares = [cpu.interrupt, cpu.poll, cpu.protocol, cpu.application, cpu.available, cpu.paused];
        let counts = [slice.arrived, slice.delivered, slice.dropped_ring, slice.dropped_socket];
        let mut fields = vec![number(Some(slice.from_s)), number(Some(slice.to_s))];
        fields.extend(counts.map(|count| count.to_string()));
        fields.extend([number(Some(slice.ring_mean)), slice.ring_max.to_string()]);
        fields.extend(shares.map(|share| number(share.map(|figure| figure.value))));
        line(&fields)
    });
    [names.to_owned()].into_iter().chain(rows).collect()
}

/// The stages of a profile, one row each: times per packet (s), and shares of the time of all stages.
pub fn profile(profile: &Profile) -> String {
    let names =
        "stage,per_packet_s,per_packet_low_s,per_packet_high_s,share,share_low,share_high,cpu,samples,by_caller\n";
    let rows = profile.stages.iter().map(|row| {
        let figure = |figure: Option<Figure>| {
            let ends = figure.and_then(|figure| figure.interval);
            [figure.map(|figure| figure.value), ends.map(|ends| ends.low), ends.map(|ends| ends.high)].map(number)
        };
        let mut fields = vec![row.stage.key().to_owned()];
        fields.extend(figure(row.per_packet_s));
        fields.extend(figure(Some(row.share)));
        fields.extend([number(Some(row.cpu)), row.samples.to_string(), number(Some(row.by_caller))]);
        line(&fields)
    });
    [names.to_owned()].into_iter().chain(rows).collect()
}

/// A roofline: one row per frame size and set of offloads, bounds in packets per second. A part without a bound is
/// empty.
pub fn roofline(roofline: &Roofline) -> String {
    let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<String>>();
    let mut header = words(&["asked_bytes", "frame_bytes", "offloads", "pps", "bps", "binding"]);
    header.extend(PARTS.map(|part| format!("{}_pps", part.replace(' ', "_").to_lowercase())));
    header.extend(words(&["highest_pps", "highest_bps", "highest_binding", "highest_frames_per_interrupt"]));
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
        let highest = row.highest.as_ref();
        fields.extend([number(highest.and_then(|row| row.pps)), number(highest.and_then(|row| row.bps))]);
        fields.push(highest.and_then(|row| row.binding.clone()).unwrap_or_default());
        fields.push(number(highest.and_then(|row| row.frames_per_interrupt)));
        line(&fields)
    });
    [line(&header)].into_iter().chain(rows).collect()
}

/// An experiment of transfers, one row per repeat: the level of each factor, the repeat's number, every figure. Figures
/// that were not measured are empty.
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

/// An experiment of forwarding: one row per search, rates in frames per second. Figures that were not measured are
/// empty.
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
    let figures = MEASURES.iter().flat_map(|figure| ["", "_low", "_high"].map(|end| format!("{figure}{end}")));
    let point = POINT.iter().map(ToString::to_string);
    point.chain(figures).chain(ORIGIN.iter().map(ToString::to_string)).collect()
}

fn row(record: &Record) -> Vec<String> {
    let figures = MEASURES.iter().map(|figure| figure.of(&record.outcome));
    let numbers = figures.flat_map(|figure| {
        let interval = figure.and_then(|f| f.interval);
        [figure.map(|f| f.value), interval.map(|i| i.low), interval.map(|i| i.high)].map(number)
    });
    point(record).into_iter().chain(numbers).chain(origin(record)).collect()
}

fn point(record: &Record) -> Vec<String> {
    let Point { host, scheme, traffic, load } = &record.point;
    vec![
        record.engine.to_string(),
        host.name.clone(),
        scheme.to_string(),
        traffic.arrivals.to_string(),
        traffic.size.to_string(),
        load.to_string(),
        number(record.point.rate_pps()),
        number(Some(traffic.link_bps)),
    ]
}

fn origin(record: &Record) -> Vec<String> {
    let (outcome, provenance) = (&record.outcome, &record.provenance);
    let mut confidences: Vec<f64> =
        MEASURES.iter().filter_map(|figure| Some(figure.of(outcome)?.interval?.confidence)).collect();
    confidences.sort_by(f64::total_cmp);
    confidences.dedup();
    vec![
        confidences.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
        outcome.latency_to.clone().unwrap_or_default(),
        outcome.cpu_method.clone().unwrap_or_default(),
        outcome.notes.iter().map(ToString::to_string).collect::<Vec<_>>().join(" | "),
        provenance.version.clone(),
        provenance.seed.map(|seed| seed.to_string()).unwrap_or_default(),
        format::date_utc(provenance.started_unix_s),
        provenance.fingerprint_id.clone().unwrap_or_default(),
    ]
}

/// The shortest text that reads back to exactly this number; empty for `None`.
fn number(value: Option<f64>) -> String {
    value.filter(|value| value.is_finite()).map(|value| format!("{value:?}")).unwrap_or_default()
}

/// Puts an apostrophe before a cell that a spreadsheet would run as a formula: names of hosts and files may come from
/// anyone.
fn plain(cell: &str) -> String {
    let is_value = |rest: &str| rest.chars().all(|letter| letter.is_alphanumeric() || " .,%/_".contains(letter));
    let runs = cell.starts_with(['=', '@', '\t', '\r'])
        || cell.strip_prefix(['+', '-']).is_some_and(|rest| cell.parse::<f64>().is_err() && !is_value(rest));
    if runs { format!("'{cell}") } else { cell.to_owned() }
}

pub(crate) fn line(fields: &[String]) -> String {
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    writer.write_record(fields.iter().map(|field| plain(field))).expect("a Vec takes every write");
    let bytes = writer.into_inner().expect("a Vec takes every write");
    String::from_utf8(bytes).expect("text in, text out")
}

mod flat {
    //! [`flat`]: any result as CSV, for kinds without columns of their own.

    use serde_json::Value;

    use super::line;

    /// One row for each number, text or switch of a JSON value, with its JSON pointer (RFC 6901):
    /// `/rows/0/rate_per_s,123.4`. Figures that were not measured have no row.
    pub fn flat(value: &Value) -> String {
        let mut rows = vec![vec!["figure".to_owned(), "value".to_owned()]];
        collect(value, &mut String::new(), &mut rows);
        rows.iter().map(|fields| line(fields)).collect()
    }

    fn collect(value: &Value, at: &mut String, rows: &mut Vec<Vec<String>>) {
        let mut below = |name: &str, value: &Value, at: &mut String| {
            let length = at.len();
            at.push('/');
            at.push_str(&name.replace('~', "~0").replace('/', "~1"));
            collect(value, at, rows);
            at.truncate(length);
        };
        match value {
            Value::Object(fields) => fields.iter().for_each(|(name, value)| below(name, value, at)),
            Value::Array(items) => {
                items.iter().enumerate().for_each(|(index, value)| below(&index.to_string(), value, at))
            }
            Value::Null => {}
            Value::String(text) => rows.push(vec![at.clone(), text.clone()]),
            other => rows.push(vec![at.clone(), other.to_string()]),
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn every_value_has_its_pointer() {
            let value = serde_json::json!({"rows": [{"rate": 1.5, "name": "a, b"}], "a/b": true, "none": null});
            assert_eq!(flat(&value), "figure,value\n/a~1b,true\n/rows/0/name,\"a, b\"\n/rows/0/rate,1.5\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cell_is_a_formula() {
        let fields =
            ["=HYPERLINK(1)", "@SUM(1)", "+1+cmd|' /C calc'!A0", "-1+1", "-1.5", "-2.4 %", "-", "1e-3", "eth0"];
        let line = line(&fields.map(str::to_owned));
        assert_eq!(line, "'=HYPERLINK(1),'@SUM(1),'+1+cmd|' /C calc'!A0,'-1+1,-1.5,-2.4 %,-,1e-3,eth0\n");
    }
}
