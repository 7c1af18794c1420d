//! [`rr`]: output of `netcliff rr`.

use netcliff_core::Figure;
use netcliff_transfer::rr::{
    Arrivals, Cost, HostCost, HostCpus, OneWay, Receive, RrRecord, RrRun, RrSample, Settings, ThreadCost, Transport,
};

mod brief;

pub use brief::rr_brief;

use super::Style;
use super::cpus::{self, Split};
use super::page::{Page, Tone};
use crate::format::{self, Unit};

/// The page, by configuration: settings, rate, latency, one-way delays, CPU time by end and method, and notes. If there
/// are several configurations, a table of all comes first.
pub fn rr(run: &RrRun, style: Style) -> String {
    let mut page = Page::new(style);
    if run.rows.len() > 1 {
        overview(&mut page, run);
        page.heading("CONFIGURATION BY CONFIGURATION");
    }
    for record in &run.rows {
        one(&mut page, record);
    }
    if !run.not_had.is_empty() {
        page.heading("NOT MEASURED");
        run.not_had.iter().for_each(|why| page.item("- ", why));
    }
    page.finish()
}

fn one(page: &mut Page, record: &RrRecord) {
    let report = &record.report;
    head(page, record);
    figures(page, record);
    latency(page, record);
    agents::agents(page, record);
    cost(page, &report.cost);
    hosts(page, &record.cpus);
    if !report.notes.is_empty() {
        page.heading("NOTES");
        report.notes.iter().for_each(|note| page.item("- ", note));
    }
}

/// Adds a table of all configurations: means over the repeats, with their intervals.
fn overview(page: &mut Page, run: &RrRun) {
    page.heading("CONFIGURATIONS (mean of the repeats, 95 % interval; p50, p99: of the latency)");
    let mut lines = vec![format!("  {:>6}{:>7}{:>22}{:>20}{:>20}", "flows", "depth", "rate", "p50", "p99")];
    for record in &run.rows {
        let cell = |unit, pick: fn(&RrSample) -> Option<f64>| {
            over_repeats(record, pick).map_or("-".to_owned(), |figure| format::plus_minus(&figure, unit))
        };
        lines.push(format!(
            "  {:>6}{:>7}{:>22}{:>20}{:>20}",
            record.report.settings.flows,
            record.report.settings.depth,
            cell(Unit::PerSecond, |sample| Some(sample.rate_per_s)),
            cell(Unit::Seconds, |sample| Some(sample.latency?.p50_s)),
            cell(Unit::Seconds, |sample| Some(sample.latency?.p99_s)),
        ));
    }
    page.block(&lines.join("\n"));
}

fn over_repeats(record: &RrRecord, pick: fn(&RrSample) -> Option<f64>) -> Option<Figure> {
    let values: Vec<f64> = record.repeats.iter().filter_map(pick).collect();
    netcliff_stats::mean(&values).map(Figure::not_negative)
}

fn head(page: &mut Page, record: &RrRecord) {
    let report = &record.report;
    let title = format!("netcliff {}: request/response, {}", record.provenance.version, asked(&report.settings));
    page.paragraph(0, Tone::Strong, &title);
    if let Some(why) = &report.partial {
        page.paragraph(0, Tone::Alarm, &format!("PARTIAL: {why}. Results up to then are shown."));
    }
    brief::answer(page, record);
    page.fact("path", &report.path);
    page.fact("load", &load(&report.settings));
    page.fact("receive", &waiting(report.settings.receive));
    let window = format::quantity(report.window_s, Unit::Seconds);
    let warm_up = format::quantity(report.settings.warm_up_s, Unit::Seconds);
    page.fact("window", &format!("{window} in all, each repeat after {warm_up} of warm-up"));
}

fn asked(settings: &Settings) -> String {
    let carried = match settings.transport {
        Transport::Tcp if settings.connect_each => "TCP, a connection each",
        Transport::Tcp => "TCP",
        Transport::Udp => "UDP",
        Transport::Unix => "Unix sockets",
    };
    format!("{carried}, requests of {} B, responses of {} B", settings.request_bytes, settings.response_bytes)
}

fn load(settings: &Settings) -> String {
    let flows = format!("{} {}", settings.flows, if settings.flows == 1 { "flow" } else { "flows" });
    match settings.rate_per_s {
        Some(rate) => {
            let gaps = match settings.arrivals {
                Arrivals::Constant => "equal",
                Arrivals::Poisson => "exponential",
            };
            format!("open loop: {} over {flows}, {gaps} gaps", format::quantity(rate, Unit::PerSecond))
        }
        None => format!("closed loop: {flows}, {} in flight in each", settings.depth),
    }
}

fn waiting(receive: Receive) -> String {
    match receive {
        Receive::Block => "blocking: both ends sleep and are woken".to_owned(),
        Receive::Spin => "busy: both ends poll their sockets without sleeping (no wake-ups)".to_owned(),
        Receive::KernelPoll(us) => format!("SO_BUSY_POLL {us} us, then blocking"),
    }
}

fn figures(page: &mut Page, record: &RrRecord) {
    let report = &record.report;
    page.heading("TRANSACTIONS");
    let rate = over_repeats(record, |sample| Some(sample.rate_per_s)).filter(|_| record.repeats.len() > 1);
    match rate {
        Some(figure) => {
            let repeats = record.repeats.len();
            let rate = format::plus_minus(&figure, Unit::PerSecond);
            page.fact("rate", &format!("{rate} (mean of {repeats} repeats, 95 % interval)"));
            let known = record.known.as_ref().filter(|known| known.asked.is_some());
            known.and_then(|known| format::known([known])).iter().for_each(|known| page.fact("precision", known));
        }
        None => page.fact("rate", &format::quantity(report.rate_per_s, Unit::PerSecond)),
    }
    let mut counts = format!("{} answered", report.transactions);
    if report.timeouts > 0 || report.settings.transport == Transport::Udp {
        let share = report.timeouts as f64 / report.asked().max(1) as f64;
        counts += &format!(", {} without an answer ({})", report.timeouts, format::loss(share));
    }
    if report.unsent > 0 {
        let share = report.unsent as f64 / report.asked().max(1) as f64;
        counts += &format!(", {} due but never sent ({})", report.unsent, format::loss(share));
    }
    if report.late_answers > 0 {
        counts += &format!(", {} answers too late", report.late_answers);
    }
    if report.refused > 0 {
        counts += &format!("; {} unauthenticated connections refused", report.refused);
    }
    page.fact("count", &counts);
}

fn latency(page: &mut Page, record: &RrRecord) {
    let report = &record.report;
    let from = match (report.settings.rate_per_s, report.settings.connect_each) {
        (Some(_), _) => "LATENCY, FROM WHEN A REQUEST WAS DUE",
        (None, true) => "LATENCY, FROM BEFORE THE CONNECTION",
        (None, false) => "LATENCY",
    };
    page.heading(from);
    let mut rows = vec![("answer", report.latency.as_ref()), ("sent late", report.lateness.as_ref())];
    if let OneWay::Delays { forth, back } = &report.one_way {
        rows.extend([("request", Some(forth)), ("response", Some(back))]);
    }
    let mut lines =
        vec![format!("  {:<12}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}", "", "mean", "p50", "p90", "p99", "p99.9", "max")];
    for (name, record) in rows {
        let Some(summary) = record.map(|record| &record.summary) else { continue };
        let times = [summary.mean_s, summary.p50_s, summary.p90_s, summary.p99_s, summary.p999_s, summary.max_s];
        let cells: String =
            times.iter().map(|time| format!("{:>10}", format::quantity(*time, Unit::Seconds))).collect();
        lines.push(format!("  {name:<12}{cells}"));
    }
    page.block(&lines.join("\n"));
    let each = |pick: fn(&RrSample) -> Option<f64>| {
        over_repeats(record, pick).map_or("-".to_owned(), |figure| format::plus_minus(&figure, Unit::Seconds))
    };
    if record.repeats.len() > 1 {
        let (p50, p99) = (each(|sample| Some(sample.latency?.p50_s)), each(|sample| Some(sample.latency?.p99_s)));
        page.fact("over repeats", &format!("p50 {p50}, p99 {p99} (the table is of all repeats together)"));
    }
    if let OneWay::NotAvailable(why) = &report.one_way {
        page.fact("one way", &format!("not available: {why}"));
    }
}

fn cost(page: &mut Page, cost: &Cost) {
    page.heading("CPU");
    let threads = |cost: &ThreadCost, method: &str| {
        let share = format::share(cost.cpus);
        let each = format::quantity(cost.us_per_transaction * 1e-6, Unit::Seconds);
        let counted = cost.cycles_per_transaction.zip(cost.instructions_per_transaction);
        let counted = counted.map_or(String::new(), |(cycles, instructions)| {
            let (cycles, instructions) = (format::significant(cycles), format::significant(instructions));
            format!(", {cycles} cycles and {instructions} instructions")
        });
        format!(
            "{share} of a CPU, {each}{counted} a transaction ({method}; without interrupts and softirqs outside these threads)"
        )
    };
    let host = |cost: &HostCost| {
        let each = format::quantity(cost.us_per_transaction * 1e-6, Unit::Seconds);
        format!("{:.2} CPUs busy, {each} of CPU time a transaction (all of the host, {})", cost.busy_cpus, cost.method)
    };
    let lines = [
        ("client", cost.client_threads.as_ref().map(|cost| threads(cost, "its threads' clock"))),
        ("server", cost.server_threads.as_ref().map(|cost| threads(cost, "its threads' clock"))),
        ("host", cost.client_host.as_ref().map(host)),
        ("by ticks", cost.client_ticks.as_ref().map(host)),
        ("far host", cost.server_exact.as_ref().or(cost.server_host.as_ref()).map(host)),
        ("by ticks", cost.server_host.as_ref().filter(|_| cost.server_exact.is_some()).map(host)),
    ];
    for (name, line) in lines {
        if let Some(line) = line {
            page.fact(name, &line);
        }
    }
}

/// Adds each CPU of both ends' hosts. Records of earlier versions do not have these figures.
fn hosts(page: &mut Page, cpus: &HostCpus) {
    if !cpus.system.is_empty() {
        let heading = "CPUS OF THE HOST (/proc/stat, nice in user; exact: eBPF; medians)";
        cpus::table(page, heading, "", &[Split::alone(&cpus.system, &cpus.exact)]);
    }
    if !cpus.far_system.is_empty() {
        let heading = "CPUS OF THE FAR END'S HOST (its /proc/stat, nice in user; exact: its eBPF; medians)";
        cpus::table(page, heading, "", &[Split::alone(&cpus.far_system, &cpus.far_exact)]);
    }
    cpus::explain_exact(page, !cpus.exact.is_empty() || !cpus.far_exact.is_empty());
    // The CPU use of the measurement itself is not added here, because the notes contain it.
    cpus::methods(page, std::iter::empty(), &cpus.cpu_methods);
}

mod agents {
    //! Several agents: each one's share.

    use netcliff_transfer::rr::RrRecord;

    use super::{Page, Tone};
    use crate::format::{self, Unit};

    /// Adds a table of the agents, and how they started.
    pub(super) fn agents(page: &mut Page, record: &RrRecord) {
        let Some(together) = &record.report.together else { return };
        page.heading("AGENTS");
        let mut lines = vec![format!("  {:<30}{:>13}{:>11}{:>11}{:>9}", "agent", "rate", "p50", "p99", "lost")];
        for agent in &together.agents {
            let latency = agent.latency.as_ref().map(|latency| latency.summary);
            let [p50, p99] = [latency.map(|of| of.p50_s), latency.map(|of| of.p99_s)]
                .map(|time| time.map_or("-".to_owned(), |time| format::quantity(time, Unit::Seconds)));
            let rate = format::quantity(agent.rate_per_s, Unit::PerSecond);
            let short: String = agent.agent.chars().take(29).collect();
            lines.push(format!("  {short:<30}{rate:>13}{p50:>11}{p99:>11}{:>9}", agent.timeouts));
        }
        page.block(&lines.join("\n"));
        let fair = together.jain.map_or(String::new(), |jain| format!("Jain's index {jain:.3}. "));
        let skew = match together.start_skew_s {
            Some(skew_s) => {
                format!("First requests left within {} of each other.", format::quantity(skew_s, Unit::Seconds))
            }
            None => "When their first requests left is not known.".to_owned(),
        };
        page.paragraph(2, Tone::Plain, &format!("{fair}{skew}"));
    }
}
