//! Content of the page, computed once for terminal and HTML: rows of model, simulation and measurement, and the figures
//! that were not measured.

mod checks;
mod costs;
mod culprit;
mod disturbed;
mod hosts;
mod missing;
mod rests;
mod searched;
mod story;
mod verdict;

use netcliff_core::finding::{ByEngine, LatencyAt, RoundTripsAt, Suggestion, Tried};
use netcliff_core::{Arrivals, CpuShares, EngineKind, Figure, Finding, FrameSizes, Latency, Loss, Traffic};

use crate::format::{self, Unit};

pub use checks::{check, check_notes, median_error, worst_checks};
pub use costs::{CostLine, cost_name, costs};
pub use culprit::culprit;
pub use disturbed::{DISTURBANCE, bin, disturbance, pause_lengths};
pub use hosts::device;
pub use missing::not_had;
pub use rests::rests_on;
pub use searched::{cliff_note, contradictions, idle, left_out, searched, to_plan_with};
pub use story::{Livelock, Verdict, at_twice_heading, delivered_at_twice, error_of, livelock};
pub use verdict::{caution, confidences, doubts, no_cliff, verdict, void_trials};

/// The engines in the order of the columns.
pub const ENGINES: [EngineKind; 3] = [EngineKind::Model, EngineKind::Sim, EngineKind::Wire];

/// Label of the cliff that includes pauses from outside the host.
pub const WITH_PAUSES: &str = "with pauses";

/// The engine's name as a column: `model`, `sim`, `measured`.
pub fn column(engine: EngineKind) -> &'static str {
    match engine {
        EngineKind::Wire => "measured",
        other => other.name(),
    }
}

/// One figure as text. The ends of the interval are a separate text, which a narrow page can put on a separate line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// The value as text: `412 kpps`.
    pub value: String,
    /// Ends of the interval: `403-421`. `None` if the figure was computed, not sampled.
    pub interval: Option<String>,
}

impl Cell {
    /// The figure as text. `None` if it is not a finite number.
    pub fn of(figure: &Figure, unit: Unit) -> Option<Self> {
        figure
            .value
            .is_finite()
            .then(|| Self { value: format::value(figure, unit), interval: format::interval(figure, unit, "-") })
    }
}

/// A label and one cell for each engine, in the order of [`ENGINES`]. `None`: the figure was not measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Name of the row's figures.
    pub label: String,
    /// One cell for each engine.
    pub cells: [Option<Cell>; 3],
}

impl Row {
    fn new(label: impl Into<String>, unit: Unit, get: impl Fn(EngineKind) -> Option<Figure>) -> Self {
        Self {
            label: label.into(),
            cells: ENGINES.map(|engine| get(engine).and_then(|figure| Cell::of(&figure, unit))),
        }
    }

    /// True if no engine has the figure.
    pub fn is_empty(&self) -> bool {
        self.cells.iter().all(Option::is_none)
    }
}

/// The cliff and the errors of prediction and simulation against the measured one.
pub fn cliff(finding: &Finding) -> Vec<Row> {
    let mut rows = vec![by_engine("cliff", Unit::Pps, &finding.cliff_pps), errors(&finding.cliff_pps)];
    let experienced = &finding.cliff_experienced_pps;
    if experienced.present().next().is_some() {
        rows.push(by_engine(WITH_PAUSES, Unit::Pps, experienced));
    }
    if experienced.model.or(experienced.sim).is_some() {
        rows.push(errors(experienced));
    }
    rows
}

/// Errors of model and simulation against the measurement.
fn errors(cliff: &ByEngine<Figure>) -> Row {
    // The measurement has no error against itself: an empty cell, not a missing figure.
    let error = ENGINES.map(|engine| match engine {
        EngineKind::Wire => Some(String::new()),
        _ => error_of(cliff, engine).map(|error| format::signed(error, Unit::Share)),
    });
    Row { label: "error".to_owned(), cells: error.map(|text| text.map(|value| Cell { value, interval: None })) }
}

/// Peak throughput.
pub fn peak(finding: &Finding) -> Vec<Row> {
    vec![by_engine("peak", Unit::Pps, &finding.peak_pps)]
}

/// Delivered load at twice the cliff over the peak.
pub fn at_twice(finding: &Finding) -> Vec<Row> {
    vec![by_engine("share of peak", Unit::Share, &delivered_at_twice(finding))]
}

/// Text that names the cliff of which the loads of latencies are a share: the measured cliff if there is one, else the
/// simulated, the predicted or a rough one.
pub fn of_the_cliff(finding: &Finding) -> &'static str {
    match &finding.cliff_pps {
        ByEngine { wire: Some(_), .. } => "of the cliff",
        ByEngine { sim: Some(_), .. } => "of the simulated cliff",
        ByEngine { model: Some(_), .. } => "of the predicted cliff",
        _ => "of the rough cliff",
    }
}

/// What the latencies include.
pub const LATENCY_NOTE: &str =
    "measured: with pauses from outside, and bursts after delays of the sender; model and simulation: without both";

/// Median and tail latencies at one share of the cliff.
pub fn latency(at: &LatencyAt) -> Vec<Row> {
    let row = |label: &str, pick: fn(&Latency) -> Option<Figure>| {
        Row::new(label, Unit::Seconds, |engine| at.latency_s.get(engine).and_then(pick))
    };
    vec![row("p50", |l| l.p50), row("p99", |l| l.p99), row("p99.9", |l| l.p999)]
}

/// Round trips at one load, which are measured only.
pub fn round_trips(at: &RoundTripsAt) -> Vec<Row> {
    let row = |label: &str, time_s: f64| {
        Row::new(label, Unit::Seconds, |engine| (engine == EngineKind::Wire).then(|| Figure::exact(time_s)))
    };
    vec![
        row("shortest", at.min_s),
        row("p50", at.p50_s),
        row("p90", at.p90_s),
        row("p99", at.p99_s),
        row("longest", at.max_s),
    ]
}

/// Heading of the round trips at one load.
pub fn round_trips_heading(at: &RoundTripsAt, finding: &Finding) -> String {
    let (share, load) = (format::share_short(at.share), format::quantity(at.load_pps, Unit::Pps));
    format!("Round trips at {share} {}, {load}, {} answers", of_the_cliff(finding), at.samples)
}

/// A part of a CPU's time: its name, and the function that reads its share.
pub type CpuPart = (&'static str, fn(&CpuShares) -> Option<Figure>);

/// The parts of a CPU's time from the highest priority down.
pub const CPU_PARTS: [CpuPart; 5] = [
    ("interrupt", |cpu| cpu.interrupt),
    ("poll", |cpu| cpu.poll),
    ("protocol", |cpu| cpu.protocol),
    ("application", |cpu| cpu.application),
    ("idle", |cpu| cpu.available),
];

/// The CPU split (shares of the CPU's time by part), one row for each part.
pub fn cpu(split: &ByEngine<CpuShares>) -> Vec<Row> {
    CPU_PARTS
        .iter()
        .map(|(name, part)| Row::new(*name, Unit::Share, |engine| split.get(engine).and_then(part)))
        .collect()
}

/// The CPU split at the cliff, with the rows that only the measurement has.
pub fn cpu_at_cliff(finding: &Finding) -> Vec<Row> {
    let load_pps = finding.cliff_pps.wire.map(|figure| figure.value);
    with_besides(finding, cpu(&finding.cpu_at_cliff), load_pps)
}

/// The CPU split at twice the cliff.
pub fn cpu_at_twice(finding: &Finding) -> Vec<Row> {
    let load_pps = finding.cliff_pps.wire.map(|figure| 2.0 * figure.value);
    with_besides(finding, cpu(&finding.cpu_at_twice), load_pps)
}

fn with_besides(finding: &Finding, mut rows: Vec<Row>, load_pps: Option<f64>) -> Vec<Row> {
    let measured = finding.cpu_measured.as_ref().and_then(|measured| measured.at(load_pps?));
    let empty = || Some(Cell { value: String::new(), interval: None });
    if let Some(besides) = measured {
        let mut add = |label: &str, figure: &Figure| {
            rows.push(Row { label: label.to_owned(), cells: [empty(), empty(), Cell::of(figure, Unit::Share)] });
        };
        add("other work", &besides.other);
        besides.meter.iter().for_each(|meter| add("of which: meter", meter));
    }
    rows
}

/// How the measured CPU split was converted to the classes of model and simulation. `None` if it was not converted.
pub fn cpu_note(finding: &Finding) -> Option<String> {
    let measured = finding.cpu_measured.as_ref()?;
    let time = |time_s: f64| format::quantity(time_s, Unit::Seconds);
    // Behind a NIC, the engines' row of the application includes the time that interrupts take from it.
    let hit = (measured.hidden_s > 0.0).then(|| time(measured.hidden_s));
    let softirq = measured.hidden_softirq_s.filter(|hidden_s| *hidden_s > 0.0).map(time);
    let interrupts = match (hit, softirq) {
        (Some(hit), Some(softirq)) if hit != softirq => {
            format!("{hit} of each interrupt ({softirq} in a softirq) and ")
        }
        (Some(hit), _) => format!("{hit} of each interrupt and "),
        (None, Some(softirq)) => format!("{softirq} of each interrupt in a softirq and "),
        (None, None) => String::new(),
    };
    Some(format!(
        "measured: {interrupts}{} of each poll are counted as interrupts and polls, not as the work that they interrupt",
        time(measured.poll_s)
    ))
}

/// Packets lost by place, as shares of the offered packets.
pub fn loss(loss: &ByEngine<Loss>) -> Vec<Row> {
    let row = |label: &str, pick: fn(&Loss) -> Option<Figure>| {
        Row::new(label, Unit::Share, |engine| loss.get(engine).and_then(pick))
    };
    let mut sender = row("sender", |l| l.sender);
    // Only real packets have a sender that can fall behind: the model's and the simulation's cells are empty, not
    // missing.
    for cell in sender.cells.iter_mut().take(2).filter(|cell| cell.is_none()) {
        *cell = Some(Cell { value: String::new(), interval: None });
    }
    vec![row("ring/backlog", |l| l.ring), row("socket buffer", |l| l.socket), sender]
}

/// Note next to the figures of [`fn@check`].
pub const CHECK_NOTE: &str = "changed settings (--check), predicted with the costs of this run and then measured; delivered: rate delivered at 1.5 and at 2 \
     times the check's own cliff; percentages with a sign: error of the prediction";

/// A row of figures by engine.
pub fn by_engine(label: &str, unit: Unit, figures: &ByEngine<Figure>) -> Row {
    Row::new(label, unit, |engine| figures.get(engine).copied())
}

/// The confidence that all intervals of a finding share. `None` if the confidences differ.
pub fn confidence(finding: &Finding) -> Option<f64> {
    let figures = finding.cliff_pps.present().chain(finding.peak_pps.present()).map(|(_, figure)| figure);
    let costs = finding.calibration.iter().flat_map(|c| &c.costs).map(|cost| &cost.figure);
    let mut found = figures.chain(costs).filter_map(|figure| figure.interval).map(|interval| interval.confidence);
    let first = found.next()?;
    found.all(|other| other == first).then_some(first)
}

/// Frame sizes and arrivals, such as `64B, poisson`. For a capture, its file: `own.pcap`.
pub fn traffic_in_short(finding: &Finding) -> String {
    let Traffic { size, arrivals, .. } = &finding.setup.traffic;
    match (arrivals, size) {
        (Arrivals::Trace { file, .. }, FrameSizes::Trace(_)) => file.clone(),
        (Arrivals::Trace { file, .. }, _) => format!("{size}, {file}"),
        _ => format!("{size}, {arrivals}"),
    }
}

/// The traffic of a finding as a sentence.
fn traffic(finding: &Finding) -> String {
    let Traffic { size, arrivals, .. } = &finding.setup.traffic;
    match (arrivals, size) {
        (Arrivals::Trace { .. }, FrameSizes::Trace(_)) => format!("packets of {}", traffic_in_short(finding)),
        _ => format!("{arrivals} arrivals, {size} frames"),
    }
}

/// The stages of a run, and how the time of each was spent. Empty for findings of versions that did not record it.
pub fn time_spent(finding: &Finding) -> Vec<(String, String)> {
    let Some(spent) = &finding.time_spent else { return Vec::new() };
    let row = |name: &str, measured_s: f64, waited_s: f64, computed_s: f64, trials: u32| {
        let trials = if trials == 1 { "1 trial".to_owned() } else { format!("{trials} trials") };
        let all_s = measured_s + waited_s + computed_s;
        let of = format!(
            "{all_s:.1} s: {measured_s:.1} measured in {trials}, {waited_s:.1} waited, {computed_s:.1} computed"
        );
        (name.to_owned(), of)
    };
    let trials = spent.stages.iter().map(|stage| stage.trials).sum();
    let whole = row("all", spent.measured_s, spent.waited_s, spent.computed_s, trials);
    let each = spent.stages.iter().map(|at| row(&at.stage, at.measured_s, at.waited_s, at.computed_s, at.trials));
    std::iter::once(whole).chain(each).collect()
}

/// The configuration of the run: name and value of each setting.
pub fn setup(finding: &Finding) -> Vec<(&'static str, String)> {
    use netcliff_core::units::{print_bytes, print_time_s};
    let setup = &finding.setup;
    let repeats = if setup.repeats == 1 { "1 trial".to_owned() } else { format!("{} trials", setup.repeats) };
    let quick = if setup.quick { " (--quick)" } else { "" };
    let mut facts = vec![
        ("scheme", setup.scheme.to_string()),
        ("traffic", traffic(finding)),
        ("application", format!("{} of work a packet", print_time_s(setup.application_work_s))),
        ("socket", format!("{} receive buffer", print_bytes(setup.socket_buffer_bytes))),
        ("trials", format!("{repeats} per load, {} each{quick}", print_time_s(setup.trial_s))),
    ];
    facts.extend(idle(finding).map(|idle| ("CPU under test", idle)));
    facts
}

/// The load generator and its limits, in words.
pub fn generator(finding: &Finding) -> Vec<(&'static str, String)> {
    let generator = &finding.generator;
    let ceiling = generator.ceiling_pps.map_or("-".to_owned(), |ceiling| format::figure(&ceiling, Unit::Pps));
    let frames = if generator.frame_bytes == 0 {
        String::new()
    } else {
        format!(", the generator's highest rate with {} B frames", generator.frame_bytes)
    };
    let mut lines = vec![("ceiling", format!("{ceiling}{frames}"))];
    if !generator.method.is_empty() {
        lines.push(("method", generator.method.clone()));
    }
    if let Some(lateness_s) = generator.lateness_p99_s {
        let lateness = format::quantity(lateness_s, Unit::Seconds);
        lines.push((
            "lateness",
            format!(
                "99 % of the packets left at most {lateness} late, at the highest load that the generator sent in time"
            ),
        ));
    }
    lines.extend(hosts::generators(finding));
    lines
}

/// Largest number of suggestions shown on the page.
pub const SUGGESTIONS: usize = 2;

/// A setting to try, why, and the cliff with it: simulated, and measured where it was tried.
pub fn suggestion(suggestion: &Suggestion) -> String {
    let cliff = match &suggestion.expected_cliff_pps {
        Some(cliff) => format!("Simulated cliff with it: {}", format::figure(cliff, Unit::Pps)),
        None => "Not simulated".to_owned(),
    };
    let gain = against(suggestion).map_or(String::new(), |gain| format!(", {gain}"));
    let tried = suggestion.tried.as_ref().map_or(String::new(), |tried| format!(" {}.", measured(tried)));
    format!("{}: {}. {cliff}{gain}.{tried}", suggestion.setting, suggestion.why)
}

/// The gain that a suggestion is expected to give and the gain it gave, a sentence each.
pub fn gains(suggestion: &Suggestion) -> Vec<String> {
    let expected = against(suggestion).map(|gain| format!("Simulated gain: {gain}."));
    let tried = suggestion.tried.as_ref().map(|tried| format!("{}.", measured(tried)));
    expected.into_iter().chain(tried).collect()
}

/// The gain, and the cliff without the setting, which is simulated like the cliff with it: `+113 % over the 52.1 kpps
/// simulated without it`.
fn against(suggestion: &Suggestion) -> Option<String> {
    let gain = suggestion.gain?;
    let without = suggestion.expected_cliff_pps.map(|with| with.value / (1.0 + gain.value));
    let over = without
        .filter(|pps| pps.is_finite())
        .map_or("the simulated cliff".to_owned(), |pps| format!("the {} simulated", format::quantity(pps, Unit::Pps)));
    Some(format!("{} over {over} without it", with_ends(&gain)))
}

/// The cliffs with and without a suggestion that was measured, and their ratio.
fn measured(tried: &Tried) -> String {
    let gain = with_ends(&tried.gain);
    let [without, with] = [&tried.without_pps, &tried.with_pps].map(|cliff| format::value(cliff, Unit::Pps));
    format!(
        "Median cliff, measured alternately in {} rounds: {without} without it, {with} with it, a change of {gain}",
        tried.rounds
    )
}

/// A gain with the ends of its interval and their confidence, if it has them: `+12 % (10 to 14, 95 % confidence)`.
fn with_ends(gain: &Figure) -> String {
    let confidence = gain.interval.and_then(|ends| format::confidence(ends.confidence));
    let sure = confidence.map_or(String::new(), |confidence| format!(", {confidence}"));
    let ends = format::interval(gain, Unit::Share, " to ");
    let ends = ends.map_or(String::new(), |ends| format!(" ({ends}{sure})"));
    format!("{}{ends}", format::signed(gain.value, Unit::Share))
}

#[cfg(test)]
mod tests;

pub mod ledger {
    //! Rows of the packet accounting of a trial.

    use netcliff_core::ledger::Ledger;

    use crate::format;

    /// Rows by place and reason: name, number of packets, share of the sent packets, and source of the count. Delivered
    /// packets come first, unexplained packets last.
    pub fn rows(ledger: &Ledger) -> Vec<[String; 4]> {
        let share = |packets: u64| match ledger.sent {
            0 => String::new(),
            sent => format::share(packets as f64 / sent as f64),
        };
        let row = |what: String, packets: u64, by: &str| [what, packets.to_string(), share(packets), by.to_owned()];
        let dropped = ledger.dropped.iter();
        let dropped = dropped.map(|one| row(format!("{}: {}", one.place.name(), one.reason), one.packets, &one.source));
        let unexplained =
            ["unexplained".to_owned(), ledger.unexplained.to_string(), String::new(), ledger.method.clone()];
        [row("delivered".to_owned(), ledger.delivered, "the receiver")]
            .into_iter()
            .chain(dropped)
            .chain([row("still inside".to_owned(), ledger.inside, ""), unexplained])
            .collect()
    }
}
