//! [`outcomes`]: records as text tables for `results`, `predict` and `simulate`.

use std::collections::HashSet;

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};
use netcliff_core::host::Preset;
use netcliff_core::note::Note;
use netcliff_core::queues::Role;
use netcliff_core::traffic::WIRE_OVERHEAD_BYTES;
use netcliff_core::{
    Analysis, ApplicationOutcome, Arrivals, EngineKind, Figure, Host, Latency, Load, Outcome, Point, QueueOutcome,
    Record,
};

use crate::Style;
use crate::format::{self, Unit};
use crate::sheet;

/// A named fact of a record.
type Fact = (&'static str, fn(&Record) -> String);

/// Facts that may be long. They are above the table if all records share them, otherwise above each group of records.
const LONG: &[Fact] = &[
    ("host", |r| r.point.host.name.clone()),
    ("scheme", |r| r.point.scheme.to_string()),
    ("arrivals", |r| r.point.traffic.arrivals.to_string()),
    ("frames", |r| r.point.traffic.size.to_string()),
    ("queues", |r| r.point.host.queues.as_ref().map_or(String::new(), ToString::to_string)),
    ("flows", |r| r.point.traffic.flows.as_ref().map_or(String::new(), ToString::to_string)),
];

/// Facts that are columns.
const SHORT: &[Fact] = &[("engine", |r| sheet::column(r.engine).to_owned()), ("load", load)];

/// The load of a record: in packets per second if that rate is known, otherwise as it was given.
fn load(record: &Record) -> String {
    record.point.rate_pps().map_or_else(|| record.point.load.to_string(), |pps| format::quantity(pps, Unit::Pps))
}

/// The bit rates of a single record whose load was given in bits per second.
const BITS: Fact = ("bits", |r| bits(&r.point));

/// For a load in bits per second, which bits the load counts. Empty for other loads.
fn bits(point: &Point) -> String {
    let (Load::Bps(bps), Some(bytes)) = (point.load, point.traffic.size.mean_bytes()) else { return String::new() };
    let on_link_bps = bps * (bytes + WIRE_OVERHEAD_BYTES) / bytes;
    let [frames, link] = [bps, on_link_bps].map(|bps| format::quantity(bps, Unit::Bps));
    format!("{frames} of frames, {link} on the link with preamble and gap")
}

/// A figure's name, its unit, and the function that reads it from an outcome.
type Column = (&'static str, Unit, fn(&Outcome) -> Option<Figure>);

/// Columns of a list, between which are those of the latency.
const BRIEF: [Column; 3] = [
    ("delivered", Unit::Pps, |o| o.throughput_pps),
    ("lost", Unit::Share, |o| o.loss_fraction),
    ("CPU idle", Unit::Share, |o| o.cpu?.available),
];
const P50: Column = ("p50", Unit::Seconds, |o| latency(o)?.p50);
const P99: Column = ("p99", Unit::Seconds, |o| latency(o)?.p99);
const MEAN: Column = ("latency mean", Unit::Seconds, |o| latency(o)?.mean);

/// The columns of a list: quantiles of the latency or, if no record has them and one has the mean, the mean.
fn columns(records: &[Record]) -> Vec<Column> {
    let any = |(_, _, get): Column| records.iter().any(|record| get(&record.outcome).is_some());
    let latency = if any(MEAN) && !any(P50) && !any(P99) { vec![MEAN] } else { vec![P50, P99] };
    let [delivered, lost, cpu_left] = BRIEF;
    [vec![delivered, lost], latency, vec![cpu_left]].concat()
}

/// Figures of a single record.
const WHOLE: &[Column] = &[
    ("offered", Unit::Pps, |o| o.offered_pps),
    ("delivered", Unit::Pps, |o| o.throughput_pps),
    ("delivered frame bits", Unit::Bps, |o| o.goodput_bps),
    ("lost", Unit::Share, |o| o.loss_fraction),
    ("lost at ring/backlog", Unit::Share, |o| o.loss?.ring),
    ("lost at socket buffer", Unit::Share, |o| o.loss?.socket),
    ("lost at sender", Unit::Share, |o| o.loss?.sender),
    ("latency mean", Unit::Seconds, |o| latency(o)?.mean),
    ("latency p50", Unit::Seconds, |o| latency(o)?.p50),
    ("latency p90", Unit::Seconds, |o| latency(o)?.p90),
    ("latency p99", Unit::Seconds, |o| latency(o)?.p99),
    ("latency p99.9", Unit::Seconds, |o| latency(o)?.p999),
    ("latency max", Unit::Seconds, |o| latency(o)?.max),
    ("latency mean, application done", Unit::Seconds, |o| latency(o)?.done_mean),
    ("CPU interrupt", Unit::Share, |o| o.cpu?.interrupt),
    ("CPU poll", Unit::Share, |o| o.cpu?.poll),
    ("CPU protocol", Unit::Share, |o| o.cpu?.protocol),
    ("CPU application", Unit::Share, |o| o.cpu?.application),
    ("CPU paused", Unit::Share, |o| o.cpu?.paused),
    ("CPU idle", Unit::Share, |o| o.cpu?.available),
    ("interrupts", Unit::PerSecond, |o| o.interrupts_per_s),
    ("polls", Unit::PerSecond, |o| o.polls_per_s),
    ("packets a poll", Unit::Number, |o| o.packets_per_poll),
    ("mean packets in the host", Unit::Number, |o| o.packets_in_system),
    ("transmissions completed", Unit::Pps, |o| o.transmitted?.completed_pps),
    ("transmissions refused", Unit::Share, |o| o.transmitted?.refused_fraction),
    ("wait for completion", Unit::Seconds, |o| o.transmitted?.waiting_s),
];

/// CPU shares of [`WHOLE`] that are 0 only because the host's preset does not know their cost.
fn unknown_shares(host: &Host) -> Vec<&'static str> {
    let is_whole = Preset::named(&host.name).is_some_and(|preset| preset.is_whole);
    let costs = [("CPU interrupt", host.interrupt_s + host.mask_s), ("CPU poll", host.poll_s)];
    costs.into_iter().filter(|(_, cost_s)| is_whole && *cost_s == 0.0).map(|(name, _)| name).collect()
}

fn latency(outcome: &Outcome) -> Option<Latency> {
    outcome.latency_s
}

/// Several records as a table, with their common facts above it; one record as a list of all its figures.
///
/// A missing figure is "-" in a table and is left out of a list. The text ends in a newline; without records it says
/// so.
pub fn outcomes(records: &[Record], style: Style) -> String {
    let text = match records {
        [] => "no records\n".to_owned(),
        [record] => outcome(record, &offered(&load(record)), style),
        _ => list(records, style),
    };
    format::printable(&text)
}

/// Cliff and livelock index, then one line for each cost, the most important for the cliff first; then the figures of
/// `record`. `at_half`: the user named no load, and the record is for half the cliff.
pub fn analysed(analysis: &Analysis, record: &Record, at_half: bool, style: Style) -> String {
    let load = load(record);
    let at = if at_half { format!("At half the cliff, {load} (--rate names another load)") } else { offered(&load) };
    let is_unknown = record.outcome.notes.iter().any(Note::is_unknown_error);
    self::analysis(analysis, is_unknown, style) + &format::printable(&outcome(record, &at, style))
}

/// `is_unknown`: the model's error is unknown for this host.
fn analysis(analysis: &Analysis, is_unknown: bool, style: Style) -> String {
    let cliff = format::quantity(analysis.cliff_pps, Unit::Pps);
    let mut text =
        format!("cliff       {cliff} (highest load with loss up to {})\n", format::loss(analysis.loss_target));
    if is_unknown {
        let (rate, loss) = (cliff.replace(' ', ""), format::loss(analysis.loss_target));
        text.push_str(&format!(
            "            The error of this value is unknown. To check it: `netcliff simulate`\n            \
             with the same --host and --scheme and --rate {rate} loses about {loss}.\n"
        ));
    }
    text.push_str(&format!(
        "left at 2x  delivers {} of the peak at twice the cliff (100 %: no livelock)\n",
        format::share(analysis.livelock)
    ));
    if analysis.sensitivities.is_empty() {
        return text;
    }
    let mut table = empty(style);
    table.set_header(["a cost 1 % higher", "change of cliff", "mean latency", "CPU idle"]);
    for one in &analysis.sensitivities {
        let or_dash =
            |value: Option<f64>, unit: &str| value.map_or("-".to_owned(), |value: f64| format!("{value:+.3} {unit}"));
        let row = [
            one.cost.clone(),
            or_dash(Some(one.cliff), "%"),
            or_dash(one.latency, "%"),
            or_dash(one.available, "points"),
        ];
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    text.push_str(&format!("\n{}(points: percentage points)\n\n", lines(&table)));
    format::printable(&text)
}

fn list(records: &[Record], style: Style) -> String {
    let (shared, telling): (Vec<&Fact>, Vec<&Fact>) =
        LONG.iter().partition(|(_, get)| records.iter().all(|record| get(record) == get(&records[0])));
    let [warnings, notes] = [true, false].map(|warn| notes(records, warn));
    let above: Vec<String> = several(records).into_iter().chain(warnings).map(|line| wrapped(&line, style)).collect();
    let mut text = if above.is_empty() { String::new() } else { above.concat() + "\n" };
    text.push_str(&facts(&shared, &records[0]));
    let groups: Vec<&[Record]> = records.chunk_by(|a, b| telling.iter().all(|(_, get)| get(a) == get(b))).collect();
    for group in &groups {
        text.push_str(&format!("\n{}{}", facts(&telling, &group[0]), lines(&brief(group, style))));
    }
    let mut ends: Vec<&str> = records.iter().filter_map(|record| record.outcome.latency_to.as_deref()).collect();
    ends.sort_unstable();
    ends.dedup();
    if let [end] = ends[..] {
        let legend = format!(
            "latency (mean, p50, p99): {}; CPU idle: idle share of the receiving CPU's time",
            end_of_latency(end)
        );
        text.push_str(&format!("\n{}", wrapped(&legend, style)));
    }
    if let Some(effort) = simulated(records) {
        text.push_str(&wrapped(&effort, style));
    }
    let below = [
        groups.iter().any(|group| shares_costs(group)).then_some(SHARED_COSTS_NOTE),
        groups.iter().any(|group| delivers_by_chance(group)).then_some(CHANCE_NOTE),
    ];
    below.into_iter().flatten().for_each(|note| text.push_str(&wrapped(&format!("note: {note}"), style)));
    notes.iter().for_each(|note| text.push_str(&wrapped(note, style)));
    text
}

/// Number of packets that the simulator had at each load, and where the intervals are. `None` if no record, or not every
/// simulated record, has this number.
fn simulated(records: &[Record]) -> Option<String> {
    let of_sim: Vec<&Record> = records.iter().filter(|record| record.engine == EngineKind::Sim).collect();
    let packets = of_sim.first()?.provenance.settings.get("packets")?;
    let are_alike = of_sim.iter().all(|record| record.provenance.settings.get("packets") == Some(packets));
    let count = packets.parse::<u64>().ok().filter(|_| are_alike)?;
    Some(format!(
        "sim: {count} packets at each load, more where a figure needs longer runs; --rate with one load, --json and --csv show intervals"
    ))
}

/// Each warning, or each other note, once, in the order of the records, with the loads that have it unless all records
/// have it. Notes on full polls become the one with the highest values.
fn notes(records: &[Record], warn: bool) -> Vec<String> {
    let all = || records.iter().flat_map(|record| &record.outcome.notes);
    let sentence = |note: &Note| {
        let Note::FullPolls(_, weight, _) = note else { return note.warning().unwrap_or_else(|| note.to_string()) };
        let most = all().fold((0.0, 0.0), |most: (f64, f64), other| match other {
            Note::FullPolls(share, of, more_pps) if of == weight => (most.0.max(*share), most.1.max(*more_pps)),
            _ => most,
        });
        Note::FullPolls(most.0, *weight, most.1).to_string()
    };
    let noted = |record| -> Vec<(String, String)> {
        let record: &Record = record;
        let wanted = valid(&record.outcome.notes).into_iter().filter(|note| note.warning().is_some() == warn);
        wanted.map(|note| (sentence(note), load(record))).collect()
    };
    let kind = if warn { "warning" } else { "note" };
    let line = |(note, mut loads): (String, Vec<String>)| {
        if loads.len() == records.len() {
            return format!("{kind}: {note}");
        }
        // Records of several schemes have the same loads, in their order.
        let mut seen = HashSet::new();
        loads.retain(|load| seen.insert(load.clone()));
        format!("{kind}, at {}: {note}", loads.join(", "))
    };
    grouped(records.iter().flat_map(noted)).into_iter().map(line).collect()
}

/// The notes, those on an unknown error first, without bounds of that error.
fn valid(notes: &[Note]) -> Vec<&Note> {
    let mut valid: Vec<&Note> =
        notes.iter().filter(|note| !notes.iter().any(|other| note.is_refuted_by(other))).collect();
    valid.sort_by_key(|note| !note.is_unknown_error());
    valid
}

/// `text` as lines that fit the page.
pub(crate) fn wrapped(text: &str, style: Style) -> String {
    format::lines(text, style.width, "", "").into_iter().map(|line| line + "\n").collect()
}

/// `At 100 kpps offered`.
fn offered(load: &str) -> String {
    format!("At {load} offered")
}

/// The result at one load as a line, after the words on the load: `At 100 kpps offered: delivered 100 kpps, lost 0 %,
/// latency p99 181 us, CPU idle 19.5 % (model).`
fn answer(record: &Record, at: &str) -> String {
    let outcome = &record.outcome;
    let stated = |name: &str, unit: Unit, figure: Option<Figure>| {
        figure.map(|figure| format!("{name}{}", format::figure(&figure, unit)))
    };
    let (p99, mean) = latency(outcome).map_or((None, None), |latency| (latency.p99, latency.mean));
    let parts = [
        stated("delivered ", Unit::Pps, outcome.throughput_pps),
        stated("lost ", Unit::Share, outcome.loss_fraction),
        stated("latency p99 ", Unit::Seconds, p99),
        stated("latency mean ", Unit::Seconds, mean.filter(|_| p99.is_none())),
        stated("CPU idle ", Unit::Share, outcome.cpu.and_then(|cpu| cpu.available)),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let parts = if parts.is_empty() { "no figure is known".to_owned() } else { parts.join(", ") };
    let sampled = outcome.throughput_pps.into_iter().chain(outcome.loss_fraction).find_map(|figure| figure.interval);
    let level = sampled.map_or(String::new(), |ends| format!(", {} intervals", format::share_short(ends.confidence)));
    format!("{at}: {parts} ({}{level}).", sheet::column(record.engine))
}

/// Loss up to this counts as no loss, because short trials do not resolve a smaller loss.
const NO_LOSS: f64 = 1e-3;
/// Sentence on the limit of loss, which is not that of a cliff.
const NO_LOSS_NOTE: &str = "This limit is that of measured sweeps, whose short trials cannot show less loss; the limit of a cliff is 0.01 %: `netcliff predict \
     --cliff` with the same host and settings computes that load.";

/// Why the CPU that is left does not extrapolate to the cliff.
const SHARED_COSTS_NOTE: &str = "CPU time does not grow in proportion to the load: at higher loads more packets share an interrupt, a poll or a wake-up. \
     The cliff is therefore higher than these shares suggest";
/// A packet's CPU time at the highest load without loss, as a share of that at the lowest load, below which the page
/// has [`SHARED_COSTS_NOTE`].
const CHEAPER: f64 = 0.9;

/// Whether computed records of one engine show that a packet costs less CPU time at a higher load without loss.
fn shares_costs(group: &[Record]) -> bool {
    let cost = |record: &Record| {
        let outcome = &record.outcome;
        let is_clean = outcome.loss_fraction?.value <= NO_LOSS && record.engine != EngineKind::Wire;
        let (pps, cpu) = (record.point.rate_pps()?, outcome.cpu?);
        let busy = 1.0 - cpu.available?.value - cpu.paused.map_or(0.0, |share| share.value);
        (is_clean && pps > 0.0).then_some((pps, busy / pps))
    };
    let of_engine = |engine: EngineKind| {
        let mut costs: Vec<(f64, f64)> =
            group.iter().filter(|record| record.engine == engine).filter_map(cost).collect();
        costs.sort_by(|a, b| a.0.total_cmp(&b.0));
        costs.first().zip(costs.last()).is_some_and(|(low, high)| high.1 < CHEAPER * low.1)
    };
    [EngineKind::Model, EngineKind::Sim].into_iter().any(of_engine)
}

/// Why the delivered rate differs from the load although nothing is lost.
const CHANCE_NOTE: &str = "where \"delivered\" differs from the load although nothing is lost, the random arrivals came by chance a little faster or slower \
     than their mean";

/// Whether a simulated record without loss shows another delivered rate than its load, because its arrivals are random.
fn delivers_by_chance(group: &[Record]) -> bool {
    group.iter().any(|record| {
        let outcome = &record.outcome;
        let arrivals = &record.point.traffic.arrivals;
        let is_random =
            record.engine == EngineKind::Sim && !matches!(arrivals, Arrivals::Constant | Arrivals::Trace { .. });
        let is_clean = outcome.loss_fraction.is_some_and(|loss| loss.value == 0.0);
        let delivered = outcome.throughput_pps.map(|rate| format::value(&rate, Unit::Pps));
        is_random && is_clean && record.point.rate_pps().is_some() && delivered.is_some_and(|rate| rate != load(record))
    })
}

/// Highest of several loads without loss, and the limit of loss. `None` if the records differ in more than their load.
fn several(records: &[Record]) -> Option<String> {
    let first = records.first()?;
    let same = |record: &Record| record.engine == first.engine && LONG.iter().all(|(_, get)| get(record) == get(first));
    if !records.iter().all(same) {
        return None;
    }
    let load = |record: &Record| record.point.rate_pps();
    let mut by_load: Vec<(f64, f64)> =
        records.iter().filter_map(|record| Some((load(record)?, record.outcome.loss_fraction?.value))).collect();
    by_load.sort_by(|a, b| a.0.total_cmp(&b.0));
    let clean = by_load.iter().take_while(|(_, loss)| *loss <= NO_LOSS).last();
    let (lowest, highest) = (by_load.first()?.0, by_load.last()?.0);
    let pps = |value: f64| format::quantity(value, Unit::Pps);
    let engine = sheet::column(first.engine);
    let found = match clean {
        Some((load, _)) if *load == highest => {
            format!(
                "At most {} is lost at all {} loads up to {} ({engine}).",
                format::loss(NO_LOSS),
                records.len(),
                pps(highest)
            )
        }
        Some((load, _)) => {
            let next = by_load.iter().find(|(other, _)| other > load).map_or(highest, |(other, _)| *other);
            format!(
                "At most {} is lost up to {}, more from {} on ({engine}; only the given loads were tried).",
                format::loss(NO_LOSS),
                pps(*load),
                pps(next)
            )
        }
        None => format!(
            "More than {} is lost even at the lowest of these loads, {} ({engine}).",
            format::loss(NO_LOSS),
            pps(lowest)
        ),
    };
    Some(format!("{found} {NO_LOSS_NOTE}"))
}

fn brief(records: &[Record], style: Style) -> Table {
    let mut table = empty(style);
    let columns = columns(records);
    table.set_header(SHORT.iter().map(|(name, _)| *name).chain(columns.iter().map(|(name, ..)| *name)));
    for record in records {
        let facts = SHORT.iter().map(|(_, get)| get(record));
        let figures = columns
            .iter()
            .map(|(_, unit, get)| get(&record.outcome).map_or("-".to_owned(), |figure| format::value(&figure, *unit)));
        table.add_row(facts.chain(figures));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Figures of each interrupt vector, a line each. Empty for a host with one queue.
fn queues(parts: &[QueueOutcome], style: Style) -> String {
    if parts.is_empty() {
        return String::new();
    }
    let mut table = empty(style);
    table.set_header(["queue", "core", "share of load", "delivered", "lost", "p99", "CPU idle"]);
    for part in parts {
        let column = |unit: Unit, get: fn(&Outcome) -> Option<Figure>| {
            let figure = part.outcome.as_ref().and_then(get);
            figure.map_or("-".to_owned(), |figure| format::value(&figure, unit))
        };
        table.add_row([
            format!("{} {}", part.queue, if part.role == Role::Receive { "receive" } else { "transmit" }),
            part.core.to_string(),
            format::share(part.share),
            column(Unit::Pps, |o| o.throughput_pps),
            column(Unit::Share, |o| o.loss_fraction),
            column(Unit::Seconds, |o| latency(o)?.p99),
            column(Unit::Share, |o| o.cpu?.available),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!("\n{}", lines(&table))
}

/// The event at which the latency ends, in words.
fn end_of_latency(name: &str) -> String {
    match name {
        "protocol" => "until the end of protocol processing".to_owned(),
        "application" => "until the application reads the packet".to_owned(),
        other => format!("until {other}"),
    }
}

/// What the CPU shares are, and how they were obtained.
fn method_of_cpu(name: &str) -> String {
    let method = match name {
        "simulated" => name.to_owned(),
        "exact" => "computed exactly".to_owned(),
        "approximate" => "computed approximately (the notes say how)".to_owned(),
        meter => format!("measured ({meter})"),
    };
    format!("shares of the receiving CPU's time, {method}; \"CPU idle\" is its idle time")
}

/// Figures of each application, a line each. Empty unless there are several applications.
fn applications(parts: &[ApplicationOutcome], style: Style) -> String {
    if parts.is_empty() {
        return String::new();
    }
    let mut table = empty(style);
    table.set_header(["application", "offered", "read", "lost at socket", "mean latency", "of a CPU"]);
    for part in parts {
        let column =
            |figure: Option<Figure>, unit| figure.map_or("-".to_owned(), |figure| format::value(&figure, unit));
        table.add_row([
            part.application.to_string(),
            column(part.offered_pps, Unit::Pps),
            column(part.throughput_pps, Unit::Pps),
            column(part.loss.and_then(|loss| loss.socket), Unit::Share),
            column(part.mean_latency_s, Unit::Seconds),
            column(part.cpu, Unit::Share),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!("\n{}", lines(&table))
}

fn outcome(record: &Record, at: &str, style: Style) -> String {
    let all: Vec<&Fact> = SHORT.iter().chain([&BITS]).chain(LONG).collect();
    let mut table = empty(style);
    let unknown = unknown_shares(&record.point.host);
    for (name, unit, get) in WHOLE {
        if let Some(figure) = get(&record.outcome) {
            let value = if unknown.contains(name) { "-".to_owned() } else { format::figure(&figure, *unit) };
            table.add_row([(*name).to_owned(), value]);
        }
    }
    let (warnings, notes): (Vec<&Note>, Vec<&Note>) =
        valid(&record.outcome.notes).into_iter().partition(|note| note.warning().is_some());
    let warnings = warnings.iter().map(ToString::to_string);
    let answer: String = [answer(record, at)].into_iter().chain(warnings).map(|line| wrapped(&line, style)).collect();
    let mut text = format!("{answer}\n{}\n{}", facts(&all, record), lines(&table));
    text.push_str(&applications(&record.outcome.applications, style));
    text.push_str(&queues(&record.outcome.queues, style));
    text.push('\n');
    for (name, fact) in [
        ("latency", &meaning_of_latency(record)),
        ("CPU", &record.outcome.cpu_method.as_deref().map(method_of_cpu)),
        ("seed", &record.provenance.seed.map(|seed| seed.to_string())),
        ("fingerprint", &record.provenance.fingerprint_id),
    ] {
        if let Some(fact) = fact {
            let fact = format::lines(fact, style.width, &format!("{name:<11} "), &" ".repeat(12));
            text.push_str(&(fact.join("\n") + "\n"));
        }
    }
    for note in &notes {
        text.push_str(&wrapped(&format!("note: {note}"), style));
    }
    text
}

/// From where to where the latency of a record is, and whether it includes pauses of the CPU.
fn meaning_of_latency(record: &Record) -> Option<String> {
    let to = end_of_latency(record.outcome.latency_to.as_deref()?);
    // A measured latency begins where the method of the trial begins it.
    if record.engine == EngineKind::Wire {
        return Some(to);
    }
    let has_done = latency(&record.outcome).is_some_and(|latency| latency.done_mean.is_some());
    let done = if has_done { "; \"application done\": until it has processed the packet" } else { "" };
    let pauses = match (record.point.host.pauses(), record.point.host.name.as_str()) {
        (Some(_), _) => "; pauses of the CPU are included",
        (None, "calibrated") => "; pauses of the CPU from outside are left out",
        (None, _) => "",
    };
    Some(format!("from arrival {to}{done}{pauses}"))
}

fn facts(facts: &[&Fact], record: &Record) -> String {
    let filled = facts.iter().map(|(name, get)| (name, get(record))).filter(|(_, fact)| !fact.is_empty());
    filled.map(|(name, fact)| format!("{name:<11} {fact}\n")).collect()
}

pub(crate) fn empty(style: Style) -> Table {
    let rule = if style.unicode { '─' } else { '-' };
    let mut table = Table::new();
    table
        .load_style(TableStyle::new().header_separator(LineStyle::none().fill(rule).junction(rule)))
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(u16::try_from(style.width).unwrap_or(u16::MAX));
    table
}

pub(crate) fn lines(table: &Table) -> String {
    table.trim_fmt() + "\n"
}

/// Groups items by key, in the order of each key's first item.
pub(crate) fn grouped<K: PartialEq, T>(items: impl IntoIterator<Item = (K, T)>) -> Vec<(K, Vec<T>)> {
    let mut groups: Vec<(K, Vec<T>)> = Vec::new();
    for (key, item) in items {
        match groups.iter_mut().find(|(of, _)| *of == key) {
            Some((_, items)) => items.push(item),
            None => groups.push((key, vec![item])),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn groups_are_in_the_order_of_their_first_items() {
        let groups = grouped([("b", 1), ("a", 2), ("b", 3)]);
        assert_eq!(groups, [("b", vec![1, 3]), ("a", vec![2])]);
    }
}
