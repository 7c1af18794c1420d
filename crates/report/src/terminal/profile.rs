//! [`profile`]: output of `netcliff profile`.

use netcliff_core::Figure;
use netcliff_core::profile::{LockContention, Profile, ProgramRow, Stage, StageRow};

use super::Style;
use super::headroom::columns;
use super::page::{Page, Tone};
use crate::format::{self, Unit};

/// Number of stages that the answer names.
const NAMED: usize = 3;
/// Number of functions that the row of a stage names.
const FUNCTIONS: usize = 3;
/// Largest number of programs shown, and the smallest CPU use (of one CPU) of a program that is shown.
const PROGRAMS: usize = 8;
const LEAST_PROGRAM: f64 = 0.002;
/// Largest number of locks shown.
const LOCKS: usize = 8;
/// Share of unknown time above which the page warns.
const UNKNOWN: f64 = 0.05;
/// Number of samples in the stages below which the page has no result: the count alone is then uncertain by more than a
/// third of itself.
const FEWEST: u64 = 30;
/// Share of the expected samples below which the page also gives the expected number, and share of the CPUs' time above
/// which it lists time without samples.
const EXPECTED: f64 = 0.97;
const WITHOUT: f64 = 0.01;

/// The page: the answer first, then the stages, the CPU time by class and program, and figures that are not known.
pub fn profile(profile: &Profile, style: Style) -> String {
    let mut page = Page::new(style);
    if let Some(load) = &profile.load {
        page.paragraph(0, Tone::Plain, &format!("Load: {load}."));
    }
    page.paragraph(0, Tone::Strong, &answer(profile));
    page.paragraph(0, Tone::Faint, &basis(profile));
    if profile.partial {
        page.paragraph(0, Tone::Alarm, "PARTIAL: the profile ended before its time.");
    }
    if !profile.stages.is_empty() {
        page.block(&stages(profile));
        let tone = if profile.unknown() > UNKNOWN { Tone::Alarm } else { Tone::Faint };
        page.paragraph(0, tone, &unknown(profile));
        let functions: Vec<String> = profile.stages.iter().map(functions).collect();
        page.list("FUNCTIONS BY STAGE (share of the stage's time)", &functions);
    }
    page.list("CPU TIME (100 %: one CPU)", &classes(profile));
    let programs = profile.programs.iter().filter(|program| program.cpu >= LEAST_PROGRAM).take(PROGRAMS);
    page.list("PROGRAMS (without the softirqs that ran in their threads)", &programs.map(program).collect::<Vec<_>>());
    if let Some(locks) = &profile.locks {
        page.list("WAITING FOR LOCKS", &contention(locks));
    }
    page.list("NOT MEASURED", &profile.missing.iter().map(|one| one.why.clone()).collect::<Vec<_>>());
    page.list("CAUTION", &profile.cautions);
    page.finish()
}

/// Sentence on the cost of a packet: `A received packet takes 2.31 us of CPU time (2.25-2.37 us, 95 % confidence): copy
/// 26 %, ...`. If idle time is in the stages, the time is an upper value: `takes at most`.
fn answer(profile: &Profile) -> String {
    let mut rows: Vec<&StageRow> = profile.stages.iter().collect();
    rows.sort_by(|a, b| b.share.value.total_cmp(&a.share.value));
    let most: Vec<String> = rows
        .iter()
        .take(NAMED)
        .map(|row| format!("{} {}", row.stage.title(), format::share_short(row.share.value)))
        .collect();
    let what = match of_the_stack(profile) {
        _ if profile.packets.divisor == "sent" => "A sent packet",
        true => "A packet that enters the network stack",
        false => "A received packet",
    };
    match profile.per_packet_s {
        _ if most.is_empty() => "No CPU time went to packets: no sample was in the network.".to_owned(),
        figure if has_few(profile) => {
            let samples = profile.samples_in_stages();
            let are = if samples == 1 { "is" } else { "are" };
            let (packets, remedy) = match figure {
                None => (
                    format!("No packet was counted{}, and only", on(profile)),
                    "Profile while the host has traffic, and name its interface with --if.",
                ),
                Some(_) => ("Only".to_owned(), "Profile for longer, or under more traffic."),
            };
            format!("{packets} {} {are} in the stages: no result. {remedy}", format::counted(samples, "sample"))
        }
        Some(figure) => {
            let ends = format::interval(&figure, Unit::Seconds, " to ").unwrap_or_default();
            let (bound, idle) = match profile.has_idle_in_stages() {
                true => ("at most ", " Idle time is in it: see CAUTION."),
                false => ("", ""),
            };
            format!(
                "{what} takes {bound}{} of CPU time here ({ends}, 95 % confidence): {}.{idle}",
                format::value(&figure, Unit::Seconds),
                most.join(", ")
            )
        }
        None => {
            let stages: f64 = profile.stages.iter().map(|row| row.cpu).sum();
            let (on, took) = (on(profile), format::share(stages));
            format!("No packet was counted{on}; the stages took {took} of a CPU: {}.", most.join(", "))
        }
    }
}

/// True if the stages have too few samples for a result.
fn has_few(profile: &Profile) -> bool {
    profile.samples_in_stages() < FEWEST
}

/// True if the packets of the network stack were counted, not those of interfaces.
fn of_the_stack(profile: &Profile) -> bool {
    profile.packets.interfaces == ["softnet_stat"]
}

/// Interfaces whose packets were counted: ` on eth0`. Empty if there is no interface.
fn on(profile: &Profile) -> String {
    let interfaces = &profile.packets.interfaces;
    if interfaces.is_empty() || of_the_stack(profile) {
        String::new()
    } else {
        format!(" on {}", interfaces.join(", "))
    }
}

fn basis(profile: &Profile) -> String {
    let (sampled, packets) = (&profile.sampled, &profile.packets);
    let stack = of_the_stack(profile);
    let of = if stack {
        " (all that entered the network stack, by softnet_stat)".to_owned()
    } else if packets.interfaces.is_empty() {
        String::new()
    } else {
        format!(" of {}", packets.interfaces.join(", "))
    };
    let event =
        if sampled.event == "cycles" { "of hardware cycles, with times by the CPU clock" } else { "of the CPU clock" };
    let cost = match (sampled.sample_s, sampled.overhead()) {
        (Some(sample_s), Some(overhead)) => format!(
            "Sampling took {} of the CPUs' time: {} a sample in the timer's interrupt, and the reading of samples",
            format::share(overhead),
            format::quantity(sample_s, Unit::Seconds)
        ),
        _ => format!("Reading samples took {} of a CPU", format::share(sampled.own_cpu)),
    };
    let counted = if stack {
        format!("{} packets", packets.received)
    } else {
        format!("{} received and {} sent packets", packets.received, packets.sent)
    };
    let lost = if sampled.lost > 0 { format!(", {} lost", sampled.lost) } else { String::new() };
    let missing = sampled.taken_hz() < EXPECTED * sampled.rate_hz;
    let expected = if missing { format!(", of {:.0} expected", sampled.rate_hz) } else { String::new() };
    let each = if sampled.cpus.len() == 1 { "" } else { " on each" };
    let each_packet = if stack {
        " Of TCP, a frame before segmentation (TSO, up to 64 KiB) counts as one packet, and so does an ACK. If the \
         sender runs on these CPUs, its time is included."
    } else {
        ""
    };
    format!(
        "{} {event} in {} on {}: {:.0} a second{each}{expected}{lost}; {counted}{of}, {}. {cost}.{each_packet}",
        format::counted(sampled.samples, "sample"),
        format::quantity(sampled.seconds, Unit::Seconds),
        format::cpus(&sampled.cpus),
        sampled.taken_hz(),
        format::quantity(packets.per_s, Unit::Pps),
    )
}

/// How much time has no stage, or one that is known only from the caller. If it is much: what follows, and why.
fn unknown(profile: &Profile) -> String {
    let share = format::share(profile.unknown());
    let (names, known) = (profile.sampled.names, profile.sampled.names_known);
    let mut text =
        format!("{share} of the time is in kernel functions that netcliff cannot assign to a stage (unknown)");
    if profile.unknown() > UNKNOWN {
        text.push_str(&format!(
            ": the true time of each other stage may be longer by up to that. netcliff assigns functions by their names; of its list of {names} names \
             this kernel has {known}, because kernel versions and builds differ"
        ));
    }
    let tracing = match profile.stage(Stage::Tracing) {
        Some(_) => format!(
            " {}: eBPF programs at tracepoints and functions of perf, of any program, as the samples show them.",
            Stage::Tracing.title()
        ),
        None => String::new(),
    };
    text + &format!(
        ". {} is in functions that netcliff does not know, called by functions that it knows: this time counts for the caller's stage.{tracing}",
        format::share(profile.by_caller())
    )
}

/// The table of stages, without the columns per packet if no packet was counted.
fn stages(profile: &Profile) -> String {
    let few = has_few(profile);
    let time = |figure: Option<Figure>| figure.map_or("-".to_owned(), |figure| format::value(&figure, Unit::Seconds));
    let ends = |figure: Option<Figure>, unit: Unit| {
        let ends = figure.filter(|_| !few).and_then(|figure| format::interval(&figure, unit, " to "));
        ends.unwrap_or_else(|| "-".to_owned())
    };
    let row = |row: &StageRow| {
        [
            row.stage.title().to_owned(),
            time(row.per_packet_s),
            ends(row.per_packet_s, Unit::Seconds),
            format::share(row.share.value),
            ends(Some(row.share), Unit::Share),
            format::share(row.cpu),
        ]
    };
    let total: f64 = profile.stages.iter().map(|row| row.cpu).sum();
    let sum = [
        "sum".to_owned(),
        time(profile.per_packet_s),
        ends(profile.per_packet_s, Unit::Seconds),
        "100 %".to_owned(),
        String::new(),
        format::share(total),
    ];
    let heads = ["STAGE", "a packet", "95 % interval", "share", "95 % interval", "of a CPU"];
    let rows = [heads.map(str::to_owned)].into_iter().chain(profile.stages.iter().map(row)).chain([sum]);
    match profile.per_packet_s {
        Some(_) => columns(rows),
        None => columns(rows.map(|[stage, _, _, share, ends, cpu]| [stage, share, ends, cpu])),
    }
}

fn functions(row: &StageRow) -> String {
    let names: Vec<String> = row
        .functions
        .iter()
        .take(FUNCTIONS)
        .map(|one| format!("{} {}", one.function, format::share_short(one.share)))
        .collect();
    let tail = match row.stage {
        Stage::Application => " (programs, in their own code)",
        _ => "",
    };
    format!("{}: {}{tail}", row.stage.title(), names.join(", "))
}

fn classes(profile: &Profile) -> Vec<String> {
    let classes = &profile.classes;
    let mut lines = vec![format!(
        "counted in the stages above: interrupts and softirqs {}, programs {} (own code and system calls)",
        format::share(classes.softirq),
        format::share(classes.application)
    )];
    let own =
        if classes.own > 0.0 { format!(", this netcliff run {}", format::share(classes.own)) } else { String::new() };
    let cpus = profile.sampled.cpus.len();
    let without = profile.without_samples();
    let unseen = if without > WITHOUT * cpus as f64 {
        format!(", without a sample {}", format::share(without))
    } else {
        String::new()
    };
    lines.push(format!(
        "not counted: other programs {}{own}, idle {}{unseen}; all together {} ({})",
        format::share(classes.others),
        format::share(classes.idle),
        format::share(classes.sum() + without),
        format::counted(cpus as u64, "CPU")
    ));
    if let Some(meter) = &profile.meter {
        lines.push(format!(
            "check by another meter ({}) over the same time: interrupts and softirqs {}, tasks {}; the sampled time is {} of this metered time (100 %: both agree)",
            meter.method,
            format::share(meter.softirq),
            format::share(meter.tasks),
            format::share(1.0 + meter.difference)
        ));
    }
    lines
}

fn program(program: &ProgramRow) -> String {
    let what = if program.counted { "counted in the stages above" } else { "not counted in the stages above" };
    format!(
        "{}: {} of a CPU ({} of it in user mode, the rest in the kernel); {what}",
        program.name,
        format::share(program.cpu),
        format::share_short(program.user)
    )
}

fn contention(locks: &LockContention) -> Vec<String> {
    if locks.waits == 0 {
        return vec!["no wait for a lock was measured".to_owned()];
    }
    let seconds = |value| format::quantity(value, Unit::Seconds);
    let lost = if locks.lost > 0 { format!("; {} events lost", locks.lost) } else { String::new() };
    let mut lines = vec![format!("all locks: {}{lost}", waits(locks.waits, locks.total_s))];
    lines.extend(locks.rows.iter().take(LOCKS).map(|row| {
        format!(
            "{} in {} ({}): {}, longest {}; waiting: {}",
            row.kind,
            row.function,
            row.address,
            waits(row.waits, row.total_s),
            seconds(row.longest_s),
            row.waiters.join(", ")
        )
    }));
    lines
}

fn waits(count: u64, total_s: f64) -> String {
    format!("{}, {} together", format::counted(count, "wait"), format::quantity(total_s, Unit::Seconds))
}

#[cfg(test)]
mod tests {
    use netcliff_core::profile::{
        FunctionShare, IDLE_IN_STAGES, LockRow, ProfileClasses, ProfileMeter, ProfilePackets, Sampled,
    };

    use super::*;

    pub(crate) fn example() -> Profile {
        let row = |stage, ns: f64, share: f64, function: &str| StageRow {
            stage,
            per_packet_s: Some(Figure::between(ns * 1e-9, 0.9 * ns * 1e-9, 1.1 * ns * 1e-9, 0.95)),
            share: Figure::between(share, 0.9 * share, 1.1 * share, 0.95),
            cpu: 0.5 * share,
            samples: 500,
            by_caller: 0.04,
            by_slice_s: vec![ns * 1e-9; 3],
            functions: vec![FunctionShare { function: function.to_owned(), share: 0.61 }],
        };
        let json = serde_json::json!({
            "kind": "profile", "host": {"cpu": "2 x AMD EPYC", "kernel": "Linux 6.18.44", "testbed": "none: sampled at work", "driver": "eth0: virtio_net", "limits": []},
            "sampled": Sampled { cpus: vec![0, 1], seconds: 10.0, slices: 20, event: "cpu-clock".into(), rate_hz: 999.0, samples: 19_980, lost: 0,
                sample_s: Some(2.9e-6), own_cpu: 0.004, names_known: 800, names: 1000 },
            "packets": ProfilePackets { interfaces: vec!["eth0".into()], received: 2_000_000, sent: 1000, divisor: "received".into(), per_s: 200e3 },
            "stages": [], "classes": ProfileClasses { softirq: 0.3, application: 0.2, others: 0.1, own: 0.004, idle: 1.396 },
            "programs": [], "fingerprint": {}, "provenance": {"version": "0.1.0", "command": "netcliff profile", "started_unix_s": 0.0}, "partial": false
        });
        let blank: Profile = serde_json::from_value(json).expect("a profile");
        Profile {
            per_packet_s: Some(Figure::between(2.5e-6, 2.4e-6, 2.6e-6, 0.95)),
            stages: vec![
                row(Stage::Interrupt, 650.0, 0.26, "process_backlog"),
                row(Stage::Copy, 850.0, 0.34, "_copy_to_iter"),
                row(Stage::Release, 500.0, 0.2, "kfree_skbmem"),
                row(Stage::Unknown, 500.0, 0.2, "new_function"),
            ],
            programs: vec![ProgramRow { name: "nsd".into(), cpu: 0.2, user: 0.4, counted: true }],
            meter: Some(ProfileMeter { method: "ebpf".into(), softirq: 0.297, tasks: 0.305, difference: 0.003 }),
            locks: Some(LockContention {
                waits: 12,
                total_s: 3.4e-4,
                lost: 0,
                rows: vec![LockRow {
                    kind: "spinlock".into(),
                    function: "sch_direct_xmit".into(),
                    address: "0xffff888100000000".into(),
                    waiters: vec!["nsd".into()],
                    waits: 12,
                    total_s: 3.4e-4,
                    longest_s: 9e-5,
                }],
            }),
            ..blank
        }
    }

    #[test]
    fn the_page_begins_with_the_answer() {
        let text = page(&example());
        insta::assert_snapshot!(text);
    }

    /// The page of 80 columns.
    fn page(one: &Profile) -> String {
        let text = profile(one, Style { colour: false, width: 80, unicode: false });
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
        text
    }

    /// Idle time in the stages makes the time per packet an upper value.
    #[test]
    fn idle_time_makes_an_upper_value() {
        let mut idle = example();
        idle.cautions.push(format!("{IDLE_IN_STAGES} about 26.0 % of a CPU."));
        idle.packets.interfaces = vec!["softnet_stat".into()];
        let text = page(&idle).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.starts_with("A packet that enters the network stack takes at most 2.50 us of CPU time"), "{text}");
        assert!(text.contains("buffers 20 %. Idle time is in it: see CAUTION."), "{text}");
        assert!(text.contains("counts as one packet, and so does an ACK."), "{text}");
    }

    #[test]
    fn without_packets_there_is_no_time_a_packet() {
        let none = Profile { per_packet_s: None, ..example() };
        let text = page(&none);
        assert!(
            text.starts_with("No packet was counted on eth0; the stages took 50.0 % of a CPU: copy 34 %,"),
            "{text}"
        );
        let head = text.lines().find(|line| line.starts_with("STAGE")).expect("a table");
        assert_eq!(head.split_whitespace().collect::<Vec<_>>().join(" "), "STAGE share 95 % interval of a CPU");
        let empty = Profile { stages: Vec::new(), ..none };
        assert!(page(&empty).starts_with("No CPU time"));
    }

    /// An idle host: one sample is no result, and most samples are missing.
    #[test]
    fn too_few_samples_are_no_result() {
        let mut idle = Profile { per_packet_s: None, ..example() };
        idle.stages.truncate(1);
        idle.stages[0] = StageRow {
            samples: 1,
            per_packet_s: None,
            share: Figure::between(1.0, 0.025, 1.0, 0.95),
            cpu: 0.000_582,
            ..idle.stages[0].clone()
        };
        idle.sampled = Sampled { seconds: 4.0, rate_hz: 457.0, samples: 1928, ..idle.sampled };
        idle.classes =
            ProfileClasses { softirq: 0.000_582, application: 0.0, others: 0.0086, own: 0.006_31, idle: 0.996 };
        let text = page(&idle).split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [
            "No packet was counted on eth0, and only 1 sample is in the stages: no result. Profile while the host has traffic",
            "1928 samples of the CPU clock in 4.00 s on CPUs 0-1: 241 a second on each, of 457 expected;",
            "STAGE share 95 % interval of a CPU interrupt and driver 100 % - 0.0582 %",
            "idle 99.6 %, without a sample 98.9 %; all together 200 % (2 CPUs)",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let with_packets = Profile { per_packet_s: Some(Figure::exact(1e-6)), ..idle };
        assert!(page(&with_packets).starts_with("Only 1 sample is in the stages: no result. Profile for longer"));
    }
}
