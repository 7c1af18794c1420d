//! Divides CPU time among the stages of a packet's path: [`account`] assigns each sampled stack to a stage, and divides
//! the stage's time by the packets of the same time window.
//!
//! Each 95 % interval is the wider of two. The jackknife over slices of time includes differences of traffic and
//! program between slices. The interval of a binomial count suits stages with so few samples that their slices do not
//! show chance.

use std::collections::BTreeMap;

use netcliff_core::profile::{Folded, FunctionShare, ProfileClasses, ProgramRow, Stage, StageRow};
use netcliff_core::{Figure, Interval};
use netcliff_host::perf::Mode;
use netcliff_stats::{CONFIDENCE, poisson, ratio};

use crate::table::{Kind, Table};

/// If no process is named, a program is part of the account if at least this share of its time is in stages of the
/// network.
const WORKS_FOR_NETWORK: f64 = 0.01;
/// Minimum number of samples in stages of the network for such a program, because a single sample may be chance.
const FEWEST: u64 = 2;
/// Maximum number of functions shown for a stage.
const MOST_FUNCTIONS: usize = 8;

/// Samples of one stack, with functions by name.
#[derive(Debug, Clone, PartialEq)]
pub struct Stack {
    /// Process ID; 0: the idle task.
    pub pid: u32,
    /// Name of the process.
    pub program: String,
    /// Mode in which the CPU ran (kernel, user or guest).
    pub mode: Mode,
    /// The kernel's functions, the innermost first.
    pub frames: Vec<String>,
    /// CPU time by slice (ns).
    pub ns: Vec<f64>,
    /// Number of samples.
    pub samples: u64,
}

/// A slice of time.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Slice {
    /// Length (s).
    pub seconds: f64,
    /// Number of packets by which the CPU time of the slice is divided.
    pub packets: f64,
}

/// A window of samples.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Window {
    /// The stacks.
    pub stacks: Vec<Stack>,
    /// The slices.
    pub slices: Vec<Slice>,
    /// netcliff's own process, whose work is excluded from the account; `None` if it is included.
    pub own: Option<u32>,
    /// The process whose work counts as the application's; `None`: all programs that spend enough time in stages of the
    /// network.
    pub watched: Option<u32>,
}

/// The result of [`account`] for a window.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Account {
    /// CPU time per packet (s); `None` without packets.
    pub per_packet_s: Option<Figure>,
    /// Stages with samples.
    pub stages: Vec<StageRow>,
    /// CPU time by class.
    pub classes: ProfileClasses,
    /// CPU time by program.
    pub programs: Vec<ProgramRow>,
    /// Samples in the account.
    pub samples: u64,
    /// Stacks for flame graphs, without idle ones.
    pub folded: Vec<Folded>,
}

/// Owner of the CPU time of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    Idle,
    Interrupt,
    Own,
    Task,
}

/// A stack with its owner, and its stage according to the table.
struct Placed<'a> {
    stack: &'a Stack,
    owner: Owner,
    stage: Stage,
    by_caller: bool,
    /// Name of the function that is shown for the stack.
    function: &'a str,
}

/// Returns the stage of a kernel stack. Also returns true if the stage was determined by a calling function, because
/// the table lacks the functions that it called.
pub fn stage_of(table: &Table, frames: &[String]) -> (Stage, bool) {
    if frames.iter().any(|frame| table.traces(frame)) {
        return (Stage::Tracing, false);
    }
    let mut unknown = false;
    for (at, frame) in frames.iter().enumerate() {
        match table.find(frame) {
            Some(Kind::Helper) => {}
            None => unknown = true,
            Some(Kind::Caller(_)) if unknown => return (Stage::Unknown, false),
            Some(Kind::Caller(stage)) => return (stage, false),
            Some(Kind::Work(Stage::Xdp)) if is_tracer_s_program(table, &frames[at..]) => {
                return (Stage::Tracing, unknown);
            }
            Some(Kind::Work(stage)) => return (stage, unknown),
        }
    }
    (Stage::Unknown, false)
}

/// Returns true if the BPF program at the start of `frames` was called by a tracer.
fn is_tracer_s_program(table: &Table, frames: &[String]) -> bool {
    let is_program = |frame: &&String| matches!(table.find(frame), Some(Kind::Work(Stage::Xdp) | Kind::Helper) | None);
    frames.iter().take_while(is_program).any(|frame| table.traces_by_program(frame))
}

fn place<'a>(table: &Table, stack: &'a Stack, own: Option<u32>) -> Placed<'a> {
    let interrupts = stack.frames.iter().any(|frame| table.interrupts(frame));
    let idles = || stack.frames.is_empty() || stack.frames.iter().any(|frame| table.idles(frame));
    let owner = match stack.mode {
        Mode::Kernel if interrupts => Owner::Interrupt,
        Mode::Kernel if stack.pid == 0 && idles() => Owner::Idle,
        _ if own == Some(stack.pid) => Owner::Own,
        _ => Owner::Task,
    };
    if stack.mode != Mode::Kernel {
        return Placed { stack, owner, stage: Stage::Application, by_caller: false, function: &stack.program };
    }
    let (stage, by_caller) = stage_of(table, &stack.frames);
    let shown = stack.frames.iter().find(|frame| table.find(frame) != Some(Kind::Helper)).or(stack.frames.first());
    Placed { stack, owner, stage, by_caller, function: shown.map_or("(no stack)", String::as_str) }
}

/// CPU time and samples of a program.
#[derive(Default)]
struct Worked {
    ns: f64,
    user_ns: f64,
    network_ns: f64,
    network: u64,
    watched: bool,
}

impl Worked {
    fn counts(&self, watched: Option<u32>) -> bool {
        match watched {
            Some(_) => self.watched,
            None => self.network >= FEWEST && self.network_ns >= WORKS_FOR_NETWORK * self.ns,
        }
    }
}

/// CPU time and samples of a stage.
#[derive(Default)]
struct Taken<'a> {
    by_slice_ns: Vec<f64>,
    samples: u64,
    by_caller_ns: f64,
    functions: BTreeMap<&'a str, f64>,
}

/// Computes the account of a window.
pub fn account(table: &Table, window: &Window) -> Account {
    let seconds: f64 = window.slices.iter().map(|slice| slice.seconds).sum();
    let placed: Vec<Placed> = window.stacks.iter().map(|stack| place(table, stack, window.own)).collect();
    let mut programs = BTreeMap::<&str, Worked>::new();
    for one in placed.iter().filter(|one| one.owner == Owner::Task) {
        let ns: f64 = one.stack.ns.iter().sum();
        let worked = programs.entry(&one.stack.program).or_default();
        worked.ns += ns;
        worked.watched |= window.watched == Some(one.stack.pid);
        if one.stack.mode != Mode::Kernel {
            worked.user_ns += ns;
        } else if one.stage.is_network() {
            worked.network_ns += ns;
            worked.network += one.stack.samples;
        }
    }
    let counts = |one: &Placed| match one.owner {
        Owner::Interrupt => true,
        Owner::Task if window.watched.is_some() => window.watched == Some(one.stack.pid),
        Owner::Task => programs[one.stack.program.as_str()].counts(None),
        Owner::Idle | Owner::Own => false,
    };
    let mut classes = ProfileClasses::default();
    let mut stages = BTreeMap::<Stage, Taken>::new();
    let mut folded = Vec::new();
    for one in &placed {
        let ns: f64 = one.stack.ns.iter().sum();
        let counted = counts(one);
        let class = match one.owner {
            Owner::Idle => &mut classes.idle,
            Owner::Interrupt => &mut classes.softirq,
            Owner::Own => &mut classes.own,
            Owner::Task if counted => &mut classes.application,
            Owner::Task => &mut classes.others,
        };
        *class += ns * 1e-9 / seconds.max(1e-9);
        if one.owner != Owner::Idle {
            let mut stack = vec![one.stack.program.clone()];
            stack.extend(one.stack.frames.iter().rev().cloned());
            folded.push(Folded { stack, stage: one.stage, counted, samples: one.stack.samples, seconds: ns * 1e-9 });
        }
        if counted {
            let taken = stages.entry(one.stage).or_default();
            taken.by_slice_ns.resize(window.slices.len(), 0.0);
            taken.by_slice_ns.iter_mut().zip(&one.stack.ns).for_each(|(sum, ns)| *sum += ns);
            taken.samples += one.stack.samples;
            taken.by_caller_ns += if one.by_caller { ns } else { 0.0 };
            *taken.functions.entry(one.function).or_default() += ns;
        }
    }
    let mut total = vec![0.0; window.slices.len()];
    for taken in stages.values() {
        total.iter_mut().zip(&taken.by_slice_ns).for_each(|(sum, ns)| *sum += ns);
    }
    let samples: u64 = stages.values().map(|taken| taken.samples).sum();
    let all: u64 = window.stacks.iter().map(|stack| stack.samples).sum();
    let packets: Vec<f64> = window.slices.iter().map(|slice| slice.packets).collect();
    let per_packet = |ns: &[f64], samples: u64| {
        let figure = ratio(&ns.iter().map(|ns| ns * 1e-9).collect::<Vec<_>>(), &packets)?;
        Some(widened(figure, samples, samples as f64 / all.max(1) as f64))
    };
    let total_ns: f64 = total.iter().sum();
    let row = |(stage, taken): (&Stage, &Taken)| {
        let ns: f64 = taken.by_slice_ns.iter().sum();
        let share = ratio(&taken.by_slice_ns, &total).unwrap_or(Figure::exact(0.0));
        let of_slice = |(ns, packets): (&f64, &f64)| (*packets > 0.0).then(|| ns * 1e-9 / packets);
        let mut functions: Vec<FunctionShare> = taken
            .functions
            .iter()
            .map(|(function, of)| FunctionShare { function: (*function).to_owned(), share: of / ns.max(1e-9) })
            .collect();
        functions.sort_by(|a, b| b.share.total_cmp(&a.share));
        functions.truncate(MOST_FUNCTIONS);
        StageRow {
            stage: *stage,
            per_packet_s: per_packet(&taken.by_slice_ns, taken.samples),
            share: of_whole(widened(share, taken.samples, ns / total_ns.max(1e-9)), taken.samples, samples),
            cpu: ns * 1e-9 / seconds.max(1e-9),
            samples: taken.samples,
            by_caller: taken.by_caller_ns / ns.max(1e-9),
            by_slice_s: taken.by_slice_ns.iter().zip(&packets).filter_map(of_slice).collect(),
            functions,
        }
    };
    let mut rows: Vec<ProgramRow> = programs
        .iter()
        .map(|(name, worked)| ProgramRow {
            name: (*name).to_owned(),
            cpu: worked.ns * 1e-9 / seconds.max(1e-9),
            user: worked.user_ns / worked.ns.max(1e-9),
            counted: worked.counts(window.watched),
        })
        .collect();
    rows.sort_by(|a, b| b.cpu.total_cmp(&a.cpu));
    Account {
        per_packet_s: per_packet(&total, samples),
        stages: stages.iter().map(row).collect(),
        classes,
        programs: rows,
        samples,
        folded,
    }
}

/// Widens the interval of a figure to at least the interval of a binomial count of `samples`, which are the share
/// `of_all` of all samples.
fn widened(figure: Figure, samples: u64, of_all: f64) -> Figure {
    if samples == 0 {
        return figure;
    }
    let count = poisson(samples);
    let chance = (1.0 - of_all).max(0.0).sqrt() * figure.value / samples as f64;
    let low = figure.value - (samples as f64 - count.low) * chance;
    let high = figure.value + (count.high - samples as f64) * chance;
    let own = figure.interval.unwrap_or(Interval { low, high, confidence: CONFIDENCE });
    Figure::between(figure.value, own.low.min(low).max(0.0), own.high.max(high), CONFIDENCE)
}

/// Limits the interval of a share to 1. If all samples are of one stage, the others may be rare only: the lower end is
/// then the share with which `all` samples of `all` have a probability of 2.5 % (Clopper and Pearson).
fn of_whole(share: Figure, samples: u64, all: u64) -> Figure {
    let interval = share.interval.map(|own| {
        let whole = samples == all && all > 0;
        let least = if whole { ((1.0 - CONFIDENCE) / 2.0).powf(1.0 / all as f64) } else { 1.0 };
        Interval { low: own.low.min(least), high: own.high.min(1.0), ..own }
    });
    Figure { interval, ..share }
}

/// Writes stacks in the folded format of other tools, one per line: `program;outermost;...;innermost samples`.
pub fn folded(stacks: &[Folded]) -> String {
    let mut lines = BTreeMap::<String, u64>::new();
    for one in stacks {
        // In this format a space ends the stack, and a semicolon ends a frame.
        let frames: Vec<String> =
            one.stack.iter().map(|frame| frame.replace(';', ",").replace(char::is_whitespace, "_")).collect();
        *lines.entry(frames.join(";")).or_default() += one.samples;
    }
    lines.iter().map(|(stack, samples)| format!("{stack} {samples}\n")).collect()
}

#[cfg(test)]
mod tests;
