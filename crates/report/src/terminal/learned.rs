//! [`learned`]: output of `netcliff learn`.

use netcliff_core::finding::Cost;
use netcliff_core::learned::{Dispersion, Learned, LearnedPart, PartKind};

use super::Style;
use super::headroom::columns;
use super::page::{Page, Tone};
use crate::format::{self, Unit};
use crate::sheet::cost_name;

/// Index of dispersion from which traffic is called bursty.
const BURSTY: f64 = 2.0;
/// Share of the cliff above which the answer is an alarm.
const NEAR: f64 = 0.8;

/// The page: the answer first, then the parts, the costs of a packet, the traffic, and figures that are not known.
pub fn learned(learned: &Learned, style: Style) -> String {
    let mut page = Page::new(style);
    let near = learned.first().and_then(|first| first.share_highest).is_some_and(|share| share >= NEAR);
    let tone = if near || !learned.lost.is_empty() { Tone::Alarm } else { Tone::Strong };
    page.paragraph(0, tone, &answer(learned));
    page.paragraph(0, Tone::Faint, &basis(learned));
    if learned.partial {
        page.paragraph(0, Tone::Alarm, "PARTIAL: the watch ended before its time.");
    }
    page.list("LOST DURING THE WATCH", &learned.lost);
    if !learned.parts.is_empty() {
        page.block(&parts(learned));
        let limits = learned.parts.iter().filter_map(|part| Some(format!("{}: {}.", part.name, part.why.as_ref()?)));
        page.list(
            "LIMITS OF THE CLIFFS, OR WHY ONE IS MISSING",
            &limits.filter(|line| !line.contains("too few")).collect::<Vec<_>>(),
        );
    }
    if let Some(part) = learned.first_cpu() {
        page.list(
            &format!("CPU TIME OF PACKETS AND POLLS ({})", part.name),
            &part.costs.iter().map(cost).collect::<Vec<_>>(),
        );
    }
    page.list("TRAFFIC", &traffic(learned));
    let unknown: Vec<String> = learned.missing.iter().map(|one| one.why.clone()).collect();
    page.list("NOT SEPARATED BY THIS TRAFFIC", &unknown);
    page.list("CAUTION", &learned.cautions);
    page.finish()
}

/// A result as one line, for a list of results over time: `2026-11-28 14:05:00 UTC  at 34 % of 412 kpps (350 kpps to
/// 480 kpps), CPU 1 first`.
pub fn learned_line(learned: &Learned) -> String {
    let at = format::date_utc(learned.provenance.started_unix_s);
    let Some((first, cliff)) = learned.first().zip(learned.cliff_pps()) else {
        let why = learned.missing.first().map_or("no part has one", |missing| missing.why.as_str());
        return format!("{at}  no cliff: {why}");
    };
    let share = first.share.map_or_else(|| "-".to_owned(), |share| format::share_short(share.value));
    let lost = if learned.lost.is_empty() { "" } else { ", PACKETS LOST" };
    format!("{at}  at {share} of {}, {} first{lost}", format::figure(&cliff, Unit::Pps), first.name)
}

/// Sentences such as `This host is at 34 % of its cliff (27 % to 44 %), and was at 71 % at 2026-11-28 14:05 UTC. CPU 1
/// gives out first, ...`
fn answer(learned: &Learned) -> String {
    let Some((first, cliff)) = learned.first().zip(learned.cliff_pps()) else {
        return "No cliff could be learnt from this traffic: the reasons are below.".to_owned();
    };
    let share = first.share.map_or_else(String::new, |share| {
        let interval = share.interval.map_or_else(String::new, |ends| {
            let confidence = format::share_short(ends.confidence);
            format!(
                " ({} to {}, {confidence} confidence)",
                format::share_short(ends.low),
                format::share_short(ends.high)
            )
        });
        format!("{}{interval}", format::share_short(share.value))
    });
    let highest = first.share_highest.map_or_else(String::new, |highest| {
        format!(", and was at {} at {}", format::share_short(highest), format::date_utc(learned.traffic.highest_unix_s))
    });
    format!(
        "This host is at {share} of its cliff{highest}. {} reaches its limit first, when this mix of packets arrives at {}.",
        subject(first),
        format::figure(&cliff, Unit::Pps)
    )
}

/// The part that overloads, as the start of a sentence.
fn subject(part: &LearnedPart) -> String {
    match part.kind {
        PartKind::Cpu => part.name.clone(),
        PartKind::Thread => format!("The {}", part.name),
        PartKind::Socket => format!("The socket {}", part.name),
    }
}

fn basis(learned: &Learned) -> String {
    let watched = &learned.watched;
    let programs =
        if watched.programs.is_empty() { String::new() } else { format!(", and {}", watched.programs.join(", ")) };
    let disturbed = if watched.disturbed > 0 {
        format!(", {} of them left out as disturbed", watched.disturbed)
    } else {
        String::new()
    };
    format!(
        "Watched {}{programs} for {}; {} slices of {}, {} with CPU time{disturbed}. CPU time: {}. Watching took {} of a CPU. Nothing was sent.",
        watched.interfaces.join(", "),
        format::quantity(watched.seconds, Unit::Seconds),
        watched.slices,
        format::quantity(watched.slice_s, Unit::Seconds),
        watched.metered,
        watched.method,
        format::share(watched.overhead()),
    )
}

fn parts(learned: &Learned) -> String {
    let row = |part: &LearnedPart| {
        let share = |value: Option<f64>| value.map_or("-".to_owned(), format::share_short);
        [
            part.name.clone(),
            format::quantity(part.packets_per_s, Unit::Pps),
            part.cliff_pps.map_or("-".to_owned(), |cliff| format::value(&cliff, Unit::Pps)),
            part.cliff_pps
                .and_then(|cliff| format::interval(&cliff, Unit::Pps, " to "))
                .unwrap_or_else(|| "-".to_owned()),
            share(part.share.map(|share| share.value)),
            share(part.share_highest),
            if part.kind == PartKind::Socket { "-".to_owned() } else { format::share(part.busy) },
        ]
    };
    let heads = ["", "load", "cliff", "90 % interval", "of cliff", "highest", "busy"].map(str::to_owned);
    columns([heads].into_iter().chain(learned.parts.iter().map(row)))
}

fn cost(cost: &Cost) -> String {
    let name = cost_name(&cost.key);
    format!("{name}: {}", format::figure(&cost.figure, Unit::Seconds))
}

fn traffic(learned: &Learned) -> Vec<String> {
    let traffic = &learned.traffic;
    let size = traffic.mean_bytes.map_or_else(String::new, |bytes| format!(", {bytes:.0} B a packet on average"));
    let pps = |value| format::quantity(value, Unit::Pps);
    let mut lines = vec![format!(
        "{} received (lowest to highest second: {} to {}){size}; {} sent",
        pps(traffic.packets_per_s),
        pps(traffic.lowest_pps),
        pps(traffic.highest_pps),
        pps(traffic.sent_pps)
    )];
    if !traffic.dispersion.is_empty() {
        let each = |one: &Dispersion| {
            format!("{} over {}", format::significant(one.index), format::quantity(one.scale_s, Unit::Seconds))
        };
        let most = traffic.dispersion.iter().map(|one| one.index).fold(0.0, f64::max);
        let words =
            if most >= BURSTY { "bursts, or a load that changes" } else { "about as random as Poisson arrivals" };
        let list: Vec<String> = traffic.dispersion.iter().map(each).collect();
        lines.push(format!(
            "{words}: variance of the packets counted in equal intervals, over their mean (1 for Poisson arrivals): {}",
            list.join(", ")
        ));
    }
    let mut queues: Vec<_> = traffic.queues.iter().filter(|queue| queue.share > 0.0).collect();
    queues.sort_by(|a, b| b.share.total_cmp(&a.share));
    if let (Some(busiest), true) = (queues.first(), traffic.queues.len() > 1) {
        let even = 1.0 / traffic.queues.len() as f64;
        lines.push(format!(
            "{} rx {} has {} of the packets of {} queues; an even share is {}",
            busiest.interface,
            busiest.queue,
            format::share_short(busiest.share),
            traffic.queues.len(),
            format::share_short(even)
        ));
    }
    lines
}
