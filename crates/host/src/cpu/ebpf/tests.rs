use super::snapshot::{CELLS, CLASSES, RawCell};
use super::*;
use crate::cpu::{Counters, PollKind};

const PROGRAM: &str = include_str!("../../../bpf/cpu.bpf.c");

fn empty() -> Figures {
    Figures {
        ns: [0; CLASSES],
        entries: [0; CLASSES],
        rx_origin: [0; 3],
        polls: [0; 3],
        packets: [0; 3],
        kinds: [0; 4],
        wakes: 0,
        tail_ns: 0,
        device_hits: [0; CLASSES],
        looks: [0; 2],
        hit_looks: [0; 3],
        cells: vec![RawCell::default(); 4 * CELLS],
    }
}

fn snapshot(at_ns: u64, figures: Figures) -> Snapshot {
    Snapshot { cpus: vec![CpuSnapshot { cpu: 1, at_ns, figures }] }
}

/// The names of an enum in the C program, as CamelCase.
fn enum_names(name: &str) -> Vec<String> {
    let body = PROGRAM.split(&format!("enum {name} {{")).nth(1).unwrap();
    let body = body.split('}').next().unwrap();
    let camel = |name: &str| -> String {
        name.split('_').map(|word| word[..1].to_owned() + &word[1..].to_lowercase()).collect()
    };
    body.split(',').map(str::trim).filter(|name| !name.is_empty()).map(camel).collect()
}

#[test]
fn classes_are_those_of_the_program() {
    let rust: Vec<String> = Class::ALL.iter().map(|class| format!("{class:?}")).collect();
    assert_eq!(rust, enum_names("class"));
    for (index, class) in Class::ALL.into_iter().enumerate() {
        assert_eq!(class as usize, index);
    }
}

#[test]
fn poll_kinds_and_sizes_are_those_of_the_program() {
    let mut rust: Vec<String> = PollKind::ALL.iter().map(|kind| format!("{kind:?}")).collect();
    rust.push("Kinds".to_owned());
    assert_eq!(rust, enum_names("kind"));
    assert!(PROGRAM.contains(&format!("#define CELLS {CELLS}\n")));
    assert!(PROGRAM.contains(&format!("#define CLASSES {CLASSES}\n")));
}

#[test]
fn differences_of_snapshots() {
    let mut early = empty();
    early.ns[Class::Idle as usize] = 100;
    early.polls[0] = 3;
    let mut late = early.clone();
    late.ns[Class::Idle as usize] += 600;
    late.ns[Class::SoftNetRx as usize] += 300;
    late.ns[Class::HardTimer as usize] += 100;
    late.entries[Class::SoftNetRx as usize] += 2;
    late.entries[Class::HardTimer as usize] += 1;
    late.entries[Class::Idle as usize] += 5;
    late.polls[0] += 2;
    late.wakes += 4;
    late.packets[0] += 65 + 7;
    late.kinds[1] += 1;
    late.rx_origin = [1, 1, 0];
    let interval = &snapshot(2000, late) - &snapshot(1000, early);
    let cpu = &interval.cpus[0];
    assert_eq!(cpu.elapsed_ns, 1000);
    let shares = cpu.shares();
    assert_eq!((shares.idle, shares.protocol, shares.interrupt), (Some(0.6), Some(0.3), Some(0.1)));
    assert!((shares.sum() - 1.0).abs() < 1e-12);
    let counters = cpu.counters(Counters { time_squeezes: Some(9), ..Counters::default() });
    assert_eq!((counters.polls, counters.packets), (Some(2), Some(72)));
    assert_eq!((counters.softirqs, counters.softirqs_from_ksoftirqd), (Some(2), Some(1)));
    assert_eq!(counters.application_wakes, Some(4));
    assert_eq!((counters.full_polls, counters.time_squeezes), (Some(1), Some(9)));
    // 5 switches, 2 softirqs and 1 interrupt with two events each, 2 polls.
    assert_eq!(cpu.figures.events(), 13);
}

#[test]
fn overhead_is_counted_by_sort_of_event() {
    let mut figures = empty();
    figures.entries[Class::TaskOther as usize] = 10;
    figures.entries[Class::SoftOther as usize] = 100;
    figures.entries[Class::HardCall as usize] = 1000;
    figures.polls = [5000, 4000, 1000];
    let cost =
        Overhead { ns_per_event: 0.0, switch_ns: 1.0, softirq_ns: 2.0, interrupt_ns: 3.0, poll_ns: 4.0, runs: 1 };
    assert_eq!(figures.overhead_ns(&cost), 10.0 + 200.0 + 3000.0 + 40000.0);
}

#[test]
fn poll_tables() {
    let mut figures = empty();
    let cell = |count, packets| RawCell { count, packets, ns: 1000 * count, ns_squared: 1_000_000 * count };
    figures.cells[0] = cell(3, 0);
    figures.cells[2 * CELLS + 64] = cell(2, 128);
    figures.cells[2 * CELLS + 65] = cell(1, 100);
    figures.cells[4 * CELLS - 1] = cell(1, 300);
    let table = figures.poll_table();
    let seen: Vec<_> = table.cells.iter().map(|cell| (cell.kind, cell.work_low, cell.work_high, cell.polls)).collect();
    assert_eq!(
        seen,
        [
            (PollKind::FirstFromIdle, 0, Some(0), 3),
            (PollKind::Next, 64, Some(64), 2),
            (PollKind::Next, 65, Some(127), 1),
            (PollKind::Threaded, 256, None, 1),
        ]
    );
    assert!((table.cells[0].total_s - 3e-6).abs() < 1e-15);
    assert_eq!(table.histogram_log2(), [3, 0, 0, 0, 0, 0, 0, 3, 0, 1]);
    let sums: Vec<_> = table.by_kind().cells.iter().map(|cell| (cell.work_low, cell.work_high, cell.packets)).collect();
    assert_eq!(sums, [(0, Some(0), 0), (64, Some(127), 228), (256, None, 300)]);
}

#[cfg(have_bpf)]
#[test]
fn costs_of_programs_that_hardly_ran_are_the_mean() {
    let spent = [
        ("softirq_entry".to_owned(), (100, 5000)),
        ("softirq_exit".to_owned(), (100, 3000)),
        ("napi_poll".to_owned(), (100, 7000)),
        ("local_timer_entry".to_owned(), (2, 9000)),
    ]
    .into();
    let cost = overhead::summarise(&spent).unwrap();
    let mean = 24000.0 / 302.0;
    assert_eq!(cost.softirq_ns, 80.0);
    assert_eq!(cost.poll_ns, 70.0);
    assert_eq!(cost.interrupt_ns, 2.0 * mean);
    assert_eq!(cost.runs, 302);
    assert!(overhead::summarise(&Default::default()).is_none());
}
