//! [`learned`]: output of `netcliff learn`.

use netcliff_core::finding::Cost;
use netcliff_core::learned::{Dispersion, Learned, LearnedPart, PartKind, PartLimit};

use super::Style;
use super::headroom::columns;
use super::page::{Page, Tone};
use crate::format::{self, Unit};
use crate::sheet::cost_name;

/// Index of dispersion from which traffic is called bursty.
const BURSTY: f64 = 2.0;
/// Share of the cliff above which the answer is an alarm.
const NEAR: f64 = 0.8;
/// Share of all packets from which a part gets all of them, as far as a page shows it.
const WHOLE: f64 = 0.995;

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
        page.paragraph(0, Tone::Faint, PARTS);
        let shown = |why: &&PartLimit| !matches!(why, PartLimit::TooFew(_));
        let limit = |part: &LearnedPart| Some(format!("{}: {}.", part.name, part.why.as_ref().filter(shown)?));
        page.list(
            "LIMITS OF THE CLIFFS, OR WHY ONE IS MISSING",
            &learned.parts.iter().filter_map(limit).collect::<Vec<_>>(),
        );
    }
    if let Some(part) = learned.first_cpu() {
        let ends = part.costs.iter().find_map(|cost| cost.figure.interval);
        let level = ends.map_or(String::new(), |ends| format!("; {} intervals", format::share_short(ends.confidence)));
        page.list(
            &format!("CPU TIME OF PACKETS AND POLLS ({}{level})", part.name),
            &part.costs.iter().map(|one| cost(part, one)).collect::<Vec<_>>(),
        );
    }
    page.list("TRAFFIC", &traffic(learned));
    page.list("NOT LEARNT FROM THIS TRAFFIC", &unknown(learned));
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

/// Sentences such as `This host is at 34 % (27 % to 44 %) of its cliff; highest: 71 % at 2026-11-28 14:05:00 UTC. Its
/// cliff is 421 kpps ...`
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
        format!("; highest: {} at {}", format::share_short(highest), format::date_utc(learned.traffic.highest_unix_s))
    });
    let cliff = format::with_confidence(&cliff, Unit::Pps);
    let at = format!("This host is at {share} of its cliff{highest}.");
    let part = subject(first);
    match first.cliff_pps.filter(|_| learned.share_of(first) < WHOLE) {
        Some(own) => format!(
            "{at} Its cliff is {cliff} in all, with this mix of packets: {part}, which gets {} of them, is then at its own cliff of {}.",
            format::share_short(learned.share_of(first)),
            format::value(&own, Unit::Pps)
        ),
        None => format!("{at} Its cliff is {cliff} with this mix of packets: {part} reaches its limit first."),
    }
}

/// The part that overloads, in a sentence.
fn subject(part: &LearnedPart) -> String {
    match part.kind {
        PartKind::Cpu => part.name.clone(),
        PartKind::Thread => format!("the {}", part.name),
        PartKind::Socket => format!("the socket {}", part.name),
    }
}

fn basis(learned: &Learned) -> String {
    let watched = &learned.watched;
    let programs =
        if watched.programs.is_empty() { String::new() } else { format!(", and {}", watched.programs.join(", ")) };
    let measured = if watched.metered == watched.slices {
        "in all of them".to_owned()
    } else {
        format!("in {} of them", watched.metered)
    };
    // Only the meter that counts its own CPU time is turned off to limit that time.
    let off = if watched.metered > 0 && watched.metered < watched.slices && watched.meter_cpu.is_some() {
        " The meter was off in the others, to limit its own CPU time."
    } else {
        ""
    };
    let disturbed = if watched.disturbed > 0 {
        format!(" Of the slices with CPU time {} were disturbed and left out.", watched.disturbed)
    } else {
        String::new()
    };
    format!(
        "Watched {}{programs} for {}, in {} slices of at least {}; CPU time was measured {measured} ({}).{off}{disturbed} Watching took {} of a CPU. Nothing was sent.",
        watched.interfaces.join(", "),
        format::quantity(watched.seconds, Unit::Seconds),
        watched.slices,
        format::quantity(watched.slice_s, Unit::Seconds),
        watched.method,
        format::share(watched.overhead()),
    )
}

/// What the columns of the parts mean.
const PARTS: &str = "load: mean rate of packets; of cliff: load / cliff; highest of cliff: the same in the busiest slice; busy: mean share of one \
                     CPU that interrupts, softirqs and programs use.";

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
    let heads = ["", "load", "cliff", "90 % interval", "of cliff", "highest of cliff", "busy"].map(str::to_owned);
    columns([heads].into_iter().chain(learned.parts.iter().map(row)))
}

/// A cost with its name. Without a cost of a poll, that of a packet includes it.
fn cost(part: &LearnedPart, cost: &Cost) -> String {
    let has = |key: &str| part.costs.iter().any(|one| one.key == key);
    let name = match cost.key.as_str() {
        "interrupt" => "per interrupt",
        "poll" => "per poll",
        "protocol" if has("poll") => "protocol per packet",
        "protocol" if has("interrupt") => "packet and its poll together",
        "protocol" => "packet, poll and interrupt together",
        key => cost_name(key),
    };
    format!("{name}: {}", format::figure(&cost.figure, Unit::Seconds))
}

/// Figures that are not known, with the reason. CPUs with the same reason share a line.
fn unknown(learned: &Learned) -> Vec<String> {
    let mut groups: Vec<(Vec<String>, &str)> = Vec::new();
    for one in &learned.missing {
        match one.cpu().map(|(cpu, why)| (format!("CPU {cpu}"), why)) {
            Some((name, why)) => match groups.iter_mut().find(|(_, known)| *known == why) {
                Some((names, _)) => names.push(name),
                None => groups.push((vec![name], why)),
            },
            None => groups.push((Vec::new(), one.why.as_str())),
        }
    }
    let line = |(names, why): &(Vec<String>, &str)| {
        if names.is_empty() { (*why).to_owned() } else { format!("{}: {why}", names.join(", ")) }
    };
    groups.iter().map(line).collect()
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
        let verdict = match traffic.dispersion.iter().find(|one| one.index >= BURSTY) {
            Some(from) => {
                let scale = format::quantity(from.scale_s, Unit::Seconds);
                format!("bursts, or a load that changes, over {scale} and more")
            }
            None => "about as random as Poisson arrivals".to_owned(),
        };
        let list: Vec<String> = traffic.dispersion.iter().map(each).collect();
        lines.push(format!(
            "{verdict}: variance of the packets counted in equal intervals, over their mean (1 for Poisson arrivals, bursty from {BURSTY}): {}",
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

#[cfg(test)]
mod tests {
    use netcliff_core::finding::{HostSummary, Missing};
    use netcliff_core::learned::{LearnedTraffic, Watched};
    use netcliff_core::{Figure, Load, Traffic, written};

    use super::*;

    fn example(shares: &[f64]) -> Learned {
        let part = |(cpu, share): (usize, &f64)| LearnedPart {
            kind: PartKind::Cpu,
            name: format!("CPU {cpu}"),
            cpu: Some(cpu as u32),
            packets_per_s: share * 6e3,
            cliff_pps: Some(Figure::between(50e3, 37e3, 68e3, 0.9)),
            share: Some(Figure::between(0.06, 0.045, 0.08, 0.9)),
            share_highest: Some(0.08),
            busy: 0.1,
            softirq: 0.05,
            program: 0.0,
            fixed: 0.0,
            costs: ["interrupt", "protocol"]
                .map(|key| Cost {
                    key: key.to_owned(),
                    figure: Figure::between(7e-6, 6e-6, 8e-6, 0.9),
                    unit: "s".to_owned(),
                    how: "regression over slices".to_owned(),
                })
                .to_vec(),
            why: None,
        };
        let missing = |cpu: u32| Missing::of_cpu(cpu, "polls took one packet");
        let index = |scale_s, index| Dispersion { scale_s, index, intervals: 100 };
        Learned {
            kind: "learn".to_owned(),
            host: HostSummary::default(),
            watched: Watched {
                interfaces: vec!["lo".to_owned()],
                programs: Vec::new(),
                seconds: 10.2,
                slice_s: 0.4,
                slices: 24,
                metered: 13,
                disturbed: 0,
                method: "eBPF programs at the kernel's transitions, exact".to_owned(),
                own_cpu: 0.02,
                meter_cpu: Some(0.01),
            },
            traffic: LearnedTraffic {
                packets_per_s: 6e3,
                lowest_pps: 0.0,
                highest_pps: 8e3,
                highest_unix_s: 0.0,
                mean_bytes: None,
                sent_pps: 0.0,
                dispersion: vec![index(1e-3, 0.8), index(5e-3, 3.6), index(10e-3, 16.0)],
                queues: Vec::new(),
            },
            parts: shares.iter().enumerate().map(part).collect(),
            calibration: None,
            scheme: "napi".parse().expect("a scheme"),
            as_traffic: written::Traffic::new(Traffic::default(), Some(Load::Pps(6e3))),
            loss_target: 1e-4,
            lost: Vec::new(),
            missing: vec![missing(0), missing(1)],
            cautions: Vec::new(),
            fingerprint: Default::default(),
            provenance: Default::default(),
            partial: false,
        }
    }

    #[test]
    fn the_cliff_of_the_host_and_that_of_its_cpu_are_distinct() {
        let page = learned(&example(&[0.5, 0.5]), Style { width: 80, ..Style::default() });
        assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
        let words = page.split_whitespace().collect::<Vec<_>>().join(" ");
        for says in [
            "at 6 % (4.5 % to 8 %, 90 % confidence) of its cliff; highest: 8 % at 1970-01-01 00:00:00 UTC.",
            "Its cliff is 100 kpps (74-136, 90 % confidence) in all, with this mix of packets: CPU 0, which gets 50 % of them, is then at its own cliff of 50.0 kpps.",
            "in 24 slices of at least 400 ms; CPU time was measured in 13 of them (eBPF programs at the kernel's transitions, exact). The meter was off in the others",
            "per interrupt: 7.00 us",
            "packet and its poll together: 7.00 us",
            "over 5.00 ms and more",
            "CPU 0, CPU 1: polls took one packet.",
        ] {
            assert!(words.contains(says), "{says}: {page}");
        }
        let page = learned(&example(&[1.0]), Style { width: 240, ..Style::default() });
        assert!(
            page.contains(
                "Its cliff is 50.0 kpps (37.0-68.0, 90 % confidence) with this mix of packets: CPU 0 reaches its limit first."
            ),
            "{page}"
        );
    }
}
