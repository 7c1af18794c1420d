//! [`headroom`]: output of `netcliff headroom`.

use std::cmp::Ordering;

use netcliff_core::EngineKind;
use netcliff_core::headroom::{Bound, CliffSource, CpuHeadroom, Headroom, Nearest, QueueHeadroom};
use netcliff_core::watch::{LinkFilling, ProgramMoment};

use super::Style;
use super::page::{Page, Tone};
use crate::format::{self, Unit};

/// Largest number of CPUs whose programs are listed: those with the largest shares.
const MOST_CPUS: usize = 4;
/// Number of queues above which queues without packets are left out.
const MOST_QUEUES: usize = 16;
/// Largest number of other limits that are listed, and the smallest share of a listed limit.
const MOST_BOUNDS: usize = 8;
const LEAST_BOUND: f64 = 0.01;
/// Smallest share of all packets from which a CPU counts as processing packets.
const TAKES_PART: f64 = 0.01;
/// What `-` in the table of the queues means.
const UNKNOWN: &str =
    "CPU: that of most interrupts of the queue (-: none came, or unknown); lost -: the driver does not count it.";
/// How the kernel counts the packets of a CPU.
const PASSES: &str = "A packet counts once for each device of this host that receives it (bridge, bond, VLAN, veth); packets \
                      that GRO merges count as one.";

/// The page: the answer first, then CPUs, queues, and reasons not to rely on the answer.
pub fn headroom(headroom: &Headroom, style: Style) -> String {
    let mut page = Page::new(style);
    let tone = if headroom.share >= 1.0 || headroom.lost_per_s > 0.0 { Tone::Alarm } else { Tone::Strong };
    page.paragraph(0, tone, &answer(headroom));
    page.paragraph(0, Tone::Faint, &basis(headroom));
    page.paragraph(0, Tone::Faint, &counted(headroom));
    page.list("LOST NOW", &headroom.lost);
    page.list("NOT COUNTED AS LOST", &headroom.unclaimed);
    page.block(&cpus(headroom));
    page.paragraph(0, Tone::Faint, &legend(headroom));
    page.list("PROGRAMS", &programs(headroom));
    page.list("OTHER LIMITS", &bounds(headroom));
    let queues: Vec<&QueueHeadroom> = headroom.queues.iter().collect();
    if !queues.is_empty() {
        page.block(&of_queues(&queues));
        if queues.iter().any(|queue| queue.cpu.is_none() || queue.dropped_per_s.is_none()) {
            page.paragraph(0, Tone::Faint, UNKNOWN);
        }
    }
    page.list("CAUTION", &headroom.cautions);
    page.finish()
}

/// Sentence with the answer: `This host is at 62 % of its cliff: CPU 1 is nearest, by softirq time.`
fn answer(headroom: &Headroom) -> String {
    let lost = match headroom.lost_per_s {
        lost if lost > 0.0 => format!(" It loses {} now.", format::quantity(lost, Unit::Pps)),
        _ => String::new(),
    };
    let share = format::share_short(headroom.share);
    match headroom.nearest_bound() {
        Some(Bound::Link(link)) if link.held => {
            return format!("This host is at {share} of the rate that a token bucket holds: {}.{lost}", of_link(link));
        }
        Some(Bound::Link(link)) => return format!("This host is at {share} of a link: {}.{lost}", of_link(link)),
        Some(Bound::Quota(quota)) => {
            let quota = format::printable(&quota.sentence());
            return format!("This host is at {share} of a CPU quota: {quota}.{lost}");
        }
        Some(Bound::Conntrack(table)) => {
            return format!("This host is at {share} of a table: {}.{lost}", table.sentence());
        }
        None => {}
    }
    let (of, by) = match headroom.cpus.iter().find(|cpu| cpu.cpu == headroom.cpu) {
        Some(cpu) if cpu.by == Nearest::Programs => ("limit", format!("by CPU time: {}", busy(headroom, cpu))),
        Some(cpu) if cpu.by == Nearest::Softirq => ("cliff", "by softirq time".to_owned()),
        _ => ("cliff", "by packets".to_owned()),
    };
    format!("This host is at {share} of its {of}: CPU {} is nearest, {by}.{lost}", headroom.cpu)
}

/// How busy a CPU is, or the busiest thread on it, and with which program.
fn busy(headroom: &Headroom, cpu: &CpuHeadroom) -> String {
    let busy = if cpu.share > cpu.busy + 1e-9 {
        format!("a thread on it {} busy", format::share_short(cpu.share))
    } else {
        format!("{} busy", format::share_short(cpu.busy))
    };
    match headroom.programs.iter().find(|program| program.cpu == cpu.cpu) {
        Some(program) => format!("{busy}, most by {}", format::printable(&program.title())),
        None => busy,
    }
}

/// The programs of the CPUs with the largest shares, a sentence each.
fn programs(headroom: &Headroom) -> Vec<String> {
    let mut cpus: Vec<&CpuHeadroom> = headroom.cpus.iter().collect();
    cpus.sort_by(|a, b| {
        (b.cpu == headroom.cpu, b.share).partial_cmp(&(a.cpu == headroom.cpu, a.share)).unwrap_or(Ordering::Equal)
    });
    let numbers = cpus.into_iter().take(MOST_CPUS).map(|cpu| cpu.cpu);
    let of = |cpu: u32| headroom.programs.iter().filter(move |program| program.cpu == cpu);
    let sentence = |program: &ProgramMoment| format::printable(&program.sentence());
    numbers.flat_map(of).map(sentence).collect()
}

/// The load of a link as text: `eth0 sends 970 of 1000 Mbit/s`.
fn of_link(link: &LinkFilling) -> String {
    let way = if link.sent { "sends" } else { "receives" };
    let (bps, limit) = (format::quantity(link.bps, Unit::Bps), format::quantity(link.limit_bps, Unit::Bps));
    let bucket = if link.held { " (a token bucket of tc)" } else { "" };
    format!("{} {way} {bps} of {limit}{bucket}", format::printable(&link.interface))
}

/// Limits that are at least a hundredth full, a sentence each.
fn bounds(headroom: &Headroom) -> Vec<String> {
    let used = headroom.bounds.iter().filter(|bound| bound.share() >= LEAST_BOUND).take(MOST_BOUNDS);
    let sentence = |bound: &Bound| {
        let what = match bound {
            Bound::Link(link) => of_link(link),
            Bound::Quota(quota) => format::printable(&quota.sentence()),
            Bound::Conntrack(table) => table.sentence(),
        };
        format!("{what}: {}", format::share_short(bound.share()))
    };
    used.map(sentence).collect()
}

fn column(by: Nearest) -> &'static str {
    match by {
        Nearest::Packets => "packets",
        Nearest::Softirq => "softirq time",
        Nearest::Programs => "CPU time",
    }
}

/// The cliff with which loads are compared: its engine, its run and age, and whether it is reliable.
fn basis(headroom: &Headroom) -> String {
    let frames = headroom.frame_bytes.map_or(String::new(), |bytes| format!(" of {bytes}-byte frames"));
    let how = match headroom.engine {
        EngineKind::Wire => "measured",
        EngineKind::Sim => "simulated, not measured",
        EngineKind::Model => "by the model, not measured",
    };
    let age = headroom.age_s.map_or(String::new(), |age_s| format!(", {} ago", format::age(age_s)));
    let date = match headroom.calibrated_unix_s {
        date if date > 0.0 => format!(", {}", format::date_utc(date)),
        _ => String::new(),
    };
    let why = headroom.cliff_why.as_ref().map_or(String::new(), |why| format!("; {why}"));
    let valid = if headroom.cliff_valid { "" } else { " Do not rely on it: see CAUTION." };
    let others = if matches!(headroom.cliff_of, CliffSource::Find(_)) {
        " Other frame sizes or programs have another cliff: `netcliff learn` estimates it from traffic."
    } else {
        ""
    };
    format!(
        "Cliff of one CPU: {}{frames}, {how} ({}{date}{age}{why}).{valid}{others}",
        format::with_confidence(&headroom.cliff_pps, Unit::Pps),
        headroom.cliff_of,
    )
}

/// How the load was counted. If several CPUs process packets, a sentence says that the cliff is each CPU's.
fn counted(headroom: &Headroom) -> String {
    let total_pps: f64 = headroom.cpus.iter().map(|cpu| cpu.packets_per_s).sum();
    let takes = |cpu: &&CpuHeadroom| cpu.packets_per_s >= 1.0 && cpu.packets_per_s >= TAKES_PART * total_pps;
    let counted = format!("Counted over {}. {PASSES}", format::quantity(headroom.seconds, Unit::Seconds));
    match headroom.cpus.iter().filter(takes).count() {
        several @ 2.. => format!(
            "{several} CPUs process packets, {} together: each is compared with that cliff, and the first line is of CPU {}. {counted}",
            format::quantity(total_pps, Unit::Pps),
            headroom.cpu
        ),
        _ => counted,
    }
}

fn has_latency(headroom: &Headroom) -> bool {
    headroom.cpus.iter().any(|cpu| cpu.latency_s.is_some())
}

/// What the columns of the CPUs mean.
fn legend(headroom: &Headroom) -> String {
    let of_limit = match headroom.softirq_at_cliff {
        Some(share) => format!(
            "of limit: the largest of packets (load / cliff), softirq time (softirq / {}, that at the cliff) and CPU time (busy).",
            format::share(share)
        ),
        None => "of limit: the larger of packets (load / cliff) and CPU time (busy).".to_owned(),
    };
    let latency = if has_latency(headroom) {
        " mean, p99: latency of the calibrated packets at this load, by the model; -: no packets, or not computed."
    } else {
        ""
    };
    format!("{of_limit} softirq, busy: shares of the CPU's time (busy: all but idle).{latency}")
}

fn cpus(headroom: &Headroom) -> String {
    let row = |cpu: &CpuHeadroom| {
        let latency = |pick: fn(&netcliff_core::Latency) -> Option<netcliff_core::Figure>| {
            let figure = cpu.latency_s.as_ref().and_then(pick);
            figure.map_or("-".to_owned(), |figure| format::value(&figure, Unit::Seconds))
        };
        [
            format!("CPU {}", cpu.cpu),
            format::quantity(cpu.packets_per_s, Unit::Pps),
            format::share(cpu.softirq),
            format::share(cpu.busy),
            format::share_short(cpu.share),
            if cpu.share > 0.0 { column(cpu.by) } else { "-" }.to_owned(),
            latency(|latency| latency.mean),
            latency(|latency| latency.p99),
        ]
    };
    let heads = ["", "load", "softirq", "busy", "of limit", "nearest limit", "mean", "p99"].map(str::to_owned);
    let rows = [heads].into_iter().chain(headroom.cpus.iter().map(row));
    if has_latency(headroom) {
        return columns(rows);
    }
    columns(rows.map(|[cpu, load, softirq, busy, share, by, ..]| [cpu, load, softirq, busy, share, by]))
}

fn of_queues(queues: &[&QueueHeadroom]) -> String {
    let shown = |queue: &&&QueueHeadroom| queues.len() <= MOST_QUEUES || queue.packets_per_s > 0.0;
    let row = |queue: &&QueueHeadroom| {
        [
            format!("{} rx {}", format::printable(&queue.interface), queue.queue),
            format::quantity(queue.packets_per_s, Unit::Pps),
            format::share_short(queue.share),
            queue.cpu.map_or("-".to_owned(), |cpu| cpu.to_string()),
            queue.dropped_per_s.map_or("-".to_owned(), |lost| format::quantity(lost, Unit::Pps)),
        ]
    };
    let heads = ["queue", "load", "of cliff", "CPU", "lost"].map(str::to_owned);
    columns([heads].into_iter().chain(queues.iter().filter(shown).map(row)))
}

/// Columns as wide as their widest cell, two spaces between them. The first is aligned to the left, the others to the
/// right.
pub(super) fn columns<const N: usize>(rows: impl Iterator<Item = [String; N]>) -> String {
    let rows: Vec<[String; N]> = rows.collect();
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or_default();
    let widths: [usize; N] = std::array::from_fn(width);
    let cell = |row: &[String; N], at: usize| {
        let width = widths[at];
        if at == 0 { format!("{:<width$}", row[at]) } else { format!("{:>width$}", row[at]) }
    };
    let line = |row: &[String; N]| {
        let cells: Vec<String> = (0..N).map(|at| cell(row, at)).collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use netcliff_core::watch::{ConntrackMoment, QuotaMoment};
    use netcliff_core::{Figure, Latency};

    use super::*;

    const STYLE: Style = Style { colour: false, width: 100, unicode: false };

    fn example() -> Headroom {
        let cpu = |cpu, packets_per_s, softirq, share, by, latency_s| CpuHeadroom {
            cpu,
            packets_per_s,
            softirq,
            busy: softirq,
            share,
            by,
            dropped_per_s: 0.0,
            latency_s,
        };
        let latency = Latency { mean: Some(34e-6.into()), p99: Some(120e-6.into()), ..Latency::default() };
        Headroom {
            seconds: 2.0,
            run: Some(3),
            cliff_of: CliffSource::Find(3),
            cliff_why: None,
            cliff_valid: false,
            calibrated_unix_s: 1_764_000_000.0,
            age_s: Some(40.0 * 86_400.0),
            cliff_pps: Figure::between(216e3, 191e3, 242e3, 0.938),
            engine: EngineKind::Wire,
            frame_bytes: Some(64),
            softirq_at_cliff: Some(0.5),
            share: 0.62,
            cpu: 1,
            bounds: Vec::new(),
            cpus: vec![
                cpu(0, 0.0, 0.01, 0.02, Nearest::Softirq, None),
                cpu(1, 134e3, 0.25, 0.62, Nearest::Packets, Some(latency)),
            ],
            queues: vec![QueueHeadroom {
                interface: "eth0".into(),
                queue: 0,
                packets_per_s: 134e3,
                share: 0.62,
                cpu: Some(1),
                dropped_per_s: Some(0.0),
            }],
            lost_per_s: 0.0,
            lost: Vec::new(),
            unclaimed: Vec::new(),
            losses: Vec::new(),
            programs: Vec::new(),
            cautions: vec!["The cliff was measured 40 days ago: repeat `netcliff find`.".into()],
        }
    }

    #[test]
    fn the_page() {
        let page = headroom(&example(), STYLE);
        assert!(page.starts_with("This host is at 62 % of its cliff: CPU 1 is nearest, by packets.\n"), "{page}");
        assert!(page.split_whitespace().collect::<Vec<_>>().join(" ").contains("find run 3,"), "{page}");
        for says in ["64-byte frames", "CPU 1  134 kpps", "34.0 us", "eth0 rx 0", "40 days ago"] {
            assert!(page.contains(says), "{says} in:\n{page}");
        }
        assert!(
            page.contains("of limit: the largest of packets (load / cliff), softirq time (softirq / 50.0 %"),
            "{page}"
        );
        let narrow = headroom(&example(), Style { width: 80, ..STYLE });
        assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
        let lost = headroom(&Headroom { lost_per_s: 1e3, ..example() }, STYLE);
        assert!(lost.contains("It loses 1.00 kpps now."), "{lost}");
        let flat =
            |headroom: &Headroom| super::headroom(headroom, STYLE).split_whitespace().collect::<Vec<_>>().join(" ");
        let page = flat(&example());
        let line = "Cliff of one CPU: 216 kpps (191-242, 93.8 % confidence) of 64-byte frames, measured (find run 3, 2025-11-24 16:00:00 \
                    UTC, 40 days ago). Do not rely on it: see CAUTION. Other frame sizes or programs have another cliff: `netcliff \
                    learn` estimates it from traffic. Counted over 2.00 s. A packet counts once for each device";
        assert!(page.contains(line), "{page}");
        let mut two = Headroom { engine: EngineKind::Model, age_s: None, cliff_valid: true, ..example() };
        two.cpus[0].packets_per_s = 20e3;
        let page = flat(&two);
        for says in [
            "by the model, not measured (find run 3",
            "from traffic. 2 CPUs process packets, 154 kpps together: each is compared with that cliff, and the first line is of CPU 1.",
            PASSES,
        ] {
            assert!(page.contains(says), "{says} in:\n{page}");
        }
        let idle = headroom(&Headroom { share: 9.86e-7, ..example() }, STYLE);
        assert!(idle.starts_with("This host is at below 0.01 % of"), "{idle}");
    }

    /// A full link, a token bucket or an exhausted CPU quota is the answer if it is closer to its limit than every CPU.
    #[test]
    fn links_and_quotas_are_named() {
        let link = |sent, held, bps, limit_bps| {
            Bound::Link(LinkFilling { interface: "eth0".into(), sent, held, bps, limit_bps })
        };
        let quota = QuotaMoment { group: "/box".into(), cpus: 0.5, used: 0.5, throttled: 0.9 };
        let first = |bounds: Vec<Bound>| {
            let share = bounds[0].share();
            let page = headroom(&Headroom { share, bounds, ..example() }, STYLE);
            page.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        for (bound, says) in [
            (link(true, false, 0.97e9, 1e9), "This host is at 97 % of a link: eth0 sends 970 Mbit/s of 1.00 Gbit/s."),
            (
                link(true, true, 19.8e6, 20e6),
                "at 99 % of the rate that a token bucket holds: eth0 sends 19.8 Mbit/s of 20.0 Mbit/s (a token bucket of tc).",
            ),
            (
                Bound::Conntrack(ConntrackMoment { entries: 950, most: 1000 }),
                "at 95 % of a table: connection tracking has 950 of 1000 entries.",
            ),
            (
                Bound::Quota(quota),
                "at 100 % of a CPU quota: cgroup /box: 0.50 of 0.50 CPUs used, its programs wait in 90 % of the periods.",
            ),
        ] {
            let page = first(vec![bound, link(false, false, 0.1e9, 1e9)]);
            assert!(page.contains(says), "{says} in:\n{page}");
            assert!(page.contains("OTHER LIMITS"), "{page}");
        }
        let page = first(vec![link(false, false, 0.5e9, 1e9)]);
        assert!(
            page.contains("of its cliff: CPU 1 is nearest, by packets.") && page.contains("receives 500 Mbit/s"),
            "{page}"
        );
    }

    /// The first sentence names the program that uses the CPU; below it are the programs of every CPU. Losses are in a
    /// list.
    #[test]
    fn programs_and_losses_are_named() {
        let mut full = example();
        let sockets = Some(vec!["udp 0.0.0.0:53".to_owned()]);
        let dnsmasq =
            ProgramMoment { cpu: 1, pid: 7, name: "dnsmasq".into(), share: 0.94, sockets, ..Default::default() };
        let client =
            ProgramMoment { cpu: 0, pid: 8, name: "dnsperf".into(), share: 0.9, elsewhere: true, ..dnsmasq.clone() };
        (full.cpus[1].by, full.cpus[1].share, full.share) = (Nearest::Programs, 0.98, 0.98);
        full.programs = vec![client, dnsmasq];
        full.lost = vec!["receive buffers of UDP sockets: 31000 a second".into()];
        full.cliff_why = Some("run 10 is not used: it is a what-if (--work 7us)".into());
        let page = headroom(&full, STYLE).split_whitespace().collect::<Vec<_>>().join(" ");
        for says in [
            "at 98 % of its limit: CPU 1 is nearest, by CPU time: a thread on it 98 % busy, most by dnsmasq (pid 7, udp 0.0.0.0:53).",
            "LOST NOW",
            "31000 a second",
            "dnsmasq (pid 7, udp 0.0.0.0:53): 94 % of CPU 1",
            "dnsperf (pid 8, in another network namespace): 90 % of CPU 0",
            "run 10 is not used",
        ] {
            assert!(page.contains(says), "{says} in:\n{page}");
        }
    }
}
