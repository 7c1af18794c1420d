//! Cost of a packet on one CPU, by regression over time slices with different loads: [`fit`].

use netcliff_core::math::SplitMix64;
use netcliff_find::calibrate::poll_line;
use netcliff_stats::few::{FewFit, Row, robust};
use netcliff_trial::bench::PollTime;

use crate::slice::CpuSlice;

/// Number of fits to resampled slices; ten of them form the 5 % at each end of the interval.
const DRAWS: usize = 200;
/// Minimum number of slices for a fit.
pub const FEWEST: usize = 4;
/// If the highest load of the slices is at most this multiple of the lowest, constant time cannot be separated from
/// time per packet: at equal load, times differ by some percent from slice to slice.
const HARDLY_MOVED: f64 = 1.2;
/// If the packets per context switch have at most this standard deviation / mean, the cost of reading a packet cannot
/// be separated from the cost of a context switch.
const HARDLY_DIFFER: f64 = 0.03;
/// Largest share of a CPU that other tasks can use if the program needs it, because the scheduler shares the CPU
/// equally with one such task.
const MOST_OF_OTHERS: f64 = 0.5;
/// F statistic above which constant time of the program is significant: 0.1 % of false alarms at 20 degrees of freedom
/// and more.
const REAL_F: f64 = 15.0;

/// Costs of a CPU (s), and the share of its time that is constant.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Costs {
    /// Protocol processing of a packet.
    pub packet_s: f64,
    /// A poll.
    pub poll_s: f64,
    /// Wake-up of the program.
    pub wakeup_s: f64,
    /// An interrupt.
    pub interrupt_s: f64,
    /// Processing of a packet in the program.
    pub application_s: f64,
    /// Context switch to the program.
    pub switch_s: f64,
    /// Other costs that grow with the packets, per packet.
    pub other_s: f64,
    /// Share of the CPU's time that does not grow with the load.
    pub fixed: f64,
}

/// Costs that cannot be separated with this traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Doubt {
    /// The cost of a packet and the cost of a poll: polls took one packet each, or there were too few polls.
    Polls,
    /// The cost of reading a packet and the cost of a context switch to the program.
    Switches,
    /// Time per packet and constant time: the load hardly changed.
    Fixed,
    /// Times are from the kernel's ticks: the cost of a packet includes costs that packets share near the cliff.
    Ticks,
}

/// The costs of a CPU, and their uncertainty.
#[derive(Debug, Clone, PartialEq)]
pub struct Fitted {
    /// The costs.
    pub costs: Costs,
    /// Costs from resampled slices. Costs that cannot be separated are divided at random in each draw.
    pub draws: Vec<Costs>,
    /// Costs that could not be separated.
    pub doubts: Vec<Doubt>,
    /// Highest load of the slices divided by the lowest.
    pub moved: f64,
    /// True: times are exact (eBPF); false: from the kernel's ticks.
    pub exact: bool,
}

/// A slice of the CPU, and the packets to which its program's time is attributed.
pub type Piece<'a> = (&'a CpuSlice, f64);

/// Fits the costs to slices of one CPU. `None` if there are too few slices, or no packets.
pub fn fit(pieces: &[Piece<'_>], seed: u64) -> Option<Fitted> {
    let total: f64 = pieces.iter().map(|(_, load)| load).sum();
    if pieces.len() < FEWEST || total <= 0.0 {
        return None;
    }
    let exact = pieces.iter().all(|(slice, _)| slice.exact);
    let moved = moved(pieces);
    let mut doubts = Vec::new();
    let costs = once(pieces, exact, moved, &mut || 0.5, &mut doubts)?;
    doubts.sort_unstable();
    doubts.dedup();
    let mut chance = SplitMix64(seed);
    let draws = (0..DRAWS).filter_map(|_| {
        let drawn = blocks(pieces, &mut chance);
        once(&drawn, exact, moved, &mut || chance.uniform(), &mut Vec::new())
    });
    Some(Fitted { costs, draws: draws.collect(), doubts, moved, exact })
}

/// Highest load / lowest load. Each is a mean over a tenth of the slices, so that chance has little influence.
fn moved(pieces: &[Piece<'_>]) -> f64 {
    let mut rates: Vec<f64> = pieces.iter().map(|(slice, load)| load / slice.seconds).collect();
    rates.sort_by(f64::total_cmp);
    let tenth = (rates.len() / 10).max(1);
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    let (lowest, highest) = (mean(&rates[..tenth]), mean(&rates[rates.len() - tenth..]));
    if lowest > 0.0 { highest / lowest } else { f64::INFINITY }
}

/// Draws slices with replacement, in runs of neighbouring slices, because these are correlated (moving blocks, Kuensch
/// 1989).
fn blocks<'a>(pieces: &[Piece<'a>], chance: &mut SplitMix64) -> Vec<Piece<'a>> {
    let length = (pieces.len() as f64).cbrt().ceil() as usize;
    let mut drawn = Vec::with_capacity(pieces.len() + length);
    while drawn.len() < pieces.len() {
        let from = (chance.uniform() * (pieces.len() - length + 1) as f64) as usize;
        drawn.extend_from_slice(&pieces[from..from + length]);
    }
    drawn.truncate(pieces.len());
    drawn
}

/// Makes one fit. `share` returns the division (0 to 1) between costs that cannot be separated. `None` without packets.
fn once(
    pieces: &[Piece<'_>],
    exact: bool,
    moved: f64,
    share: &mut dyn FnMut() -> f64,
    doubts: &mut Vec<Doubt>,
) -> Option<Costs> {
    let sum = |of: &dyn Fn(&Piece<'_>) -> f64| pieces.iter().map(of).sum::<f64>();
    let (seconds, load) = (sum(&|(slice, _)| slice.seconds), sum(&|(_, load)| *load));
    if load <= 0.0 || seconds <= 0.0 {
        return None;
    }
    let mut by_clock = |of: &dyn Fn(&CpuSlice) -> f64, most_fixed: f64, doubts: &mut Vec<Doubt>| {
        by_packet_or_clock(pieces, of, moved).unwrap_or_else(|| {
            doubts.push(Doubt::Fixed);
            let total_s = sum(&|(slice, _)| of(slice));
            let fixed = most_fixed * share();
            ((1.0 - fixed) * total_s / load, fixed * total_s / seconds)
        })
    };
    if !exact {
        doubts.push(Doubt::Ticks);
        // Ticks: softirq time is mostly per packet; up to half of the programs' time may belong to other programs.
        let (packet_s, softirq_fixed) = by_clock(&|slice| slice.interrupt_s + slice.protocol_s, 0.1, doubts);
        let (application_s, program_fixed) = by_clock(&|slice| slice.other_s + slice.application_s, 0.5, doubts);
        let fixed = (softirq_fixed + program_fixed).min(0.95);
        return Some(Costs { packet_s, application_s, fixed, ..Costs::default() });
    }
    let packets = sum(&|(slice, _)| slice.packets);
    let (packet_s, poll_s, wakeup_s) = if packets > 0.0 { softirq(pieces, doubts) } else { (0.0, 0.0, 0.0) };
    let (interrupt_s, timer_share) = interrupts(pieces, seconds);
    let (other_s, other_fixed) = by_clock(&|slice| slice.softirq_other_s + slice.other_s, 1.0, doubts);
    let (application_s, switch_s, program_fixed) = program(pieces, load, share, doubts);
    let fixed = (timer_share + other_fixed.min(MOST_OF_OTHERS) + program_fixed).min(0.95);
    Some(Costs { packet_s, poll_s, wakeup_s, interrupt_s, application_s, switch_s, other_s, fixed })
}

/// Fits the time that `of` selects. Returns the time per packet (s), and the constant time as a share of the elapsed
/// time. `None` if the load hardly changed.
fn by_packet_or_clock(pieces: &[Piece<'_>], of: &dyn Fn(&CpuSlice) -> f64, moved: f64) -> Option<(f64, f64)> {
    if pieces.iter().map(|(slice, _)| of(slice)).sum::<f64>() <= 0.0 {
        return Some((0.0, 0.0));
    }
    if moved < HARDLY_MOVED {
        return None;
    }
    let row = |(slice, load): &Piece<'_>| Row {
        x: [*load, slice.seconds, 0.0],
        y: of(slice),
        weight: slice.seconds.powi(-2),
    };
    let fit = robust(&pieces.iter().map(row).collect::<Vec<_>>(), 2)?;
    Some((fit.coefficients[0], fit.coefficients[1]))
}

/// Returns the costs of (packet, poll, wake-up). Fits the time of polls to their packets over all slices, then scales
/// the costs so that their sum is the whole softirq time.
fn softirq(pieces: &[Piece<'_>], doubts: &mut Vec<Doubt>) -> (f64, f64, f64) {
    let sum = |of: fn(&CpuSlice) -> f64| pieces.iter().map(|(slice, _)| of(slice)).sum::<f64>();
    let (protocol_s, packets, polls) =
        (sum(|slice| slice.protocol_s), sum(|slice| slice.packets), sum(|slice| slice.polls));
    let times = pooled(pieces.iter().map(|(slice, _)| *slice));
    let woken: f64 = times.iter().filter(|time| time.from_idle).map(|time| time.polls).sum();
    if let Some([packet_s, poll_s, wakeup_s]) = poll_line(&times, polls, sum(|slice| slice.tail_s))
        && packet_s > 0.0
    {
        let expected_s = packet_s * packets + poll_s * polls + wakeup_s * woken;
        let scale = protocol_s / expected_s;
        return (scale * packet_s, scale * poll_s, scale * wakeup_s);
    }
    doubts.push(Doubt::Polls);
    (protocol_s / packets, 0.0, 0.0)
}

/// Merges the poll times of several slices into one list.
pub fn pooled<'a>(slices: impl Iterator<Item = &'a CpuSlice>) -> Vec<PollTime> {
    // [polls, sum of times, sum of squares] by number of packets, and by whether the CPU was idle before.
    let mut sums: Vec<[f64; 3]> = Vec::new();
    for time in slices.flat_map(|slice| &slice.poll_times) {
        let place = 2 * time.packets as usize + usize::from(time.from_idle);
        if sums.len() <= place {
            sums.resize(place + 1, [0.0; 3]);
        }
        let [polls, total_s, squared_s2] = &mut sums[place];
        *polls += time.polls;
        *total_s += time.polls * time.mean_s;
        *squared_s2 += time.polls * (time.variance_s2 + time.mean_s.powi(2));
    }
    let time = |(place, [polls, total_s, squared_s2]): (usize, [f64; 3])| {
        let mean_s = total_s / polls;
        let variance_s2 = (squared_s2 / polls - mean_s.powi(2)).max(0.0);
        PollTime { packets: (place / 2) as f64, polls, mean_s, variance_s2, from_idle: place % 2 == 1 }
    };
    sums.into_iter().enumerate().filter(|(_, sum)| sum[0] > 0.0).map(time).collect()
}

/// Returns the cost of an interrupt that announces packets, and the time of all other interrupts (such as the timer's)
/// as a share.
fn interrupts(pieces: &[Piece<'_>], seconds: f64) -> (f64, f64) {
    let sum = |of: fn(&CpuSlice) -> f64| pieces.iter().map(|(slice, _)| of(slice)).sum::<f64>();
    let (time_s, count) = (sum(|slice| slice.interrupt_s), sum(|slice| slice.interrupts));
    let row = |(slice, _): &Piece<'_>| Row {
        x: [slice.interrupts, slice.seconds, 0.0],
        y: slice.interrupt_s,
        weight: slice.seconds.powi(-2),
    };
    match robust(&pieces.iter().map(row).collect::<Vec<_>>(), 2) {
        // If all slices have nearly the same rate of interrupts, a regression line has no meaning.
        Some(fit) if fit.r_squared > 0.5 => (fit.coefficients[0], fit.coefficients[1]),
        _ if count > 0.0 => (time_s / count, 0.0),
        _ => (0.0, time_s / seconds),
    }
}

/// Returns the cost of a packet in the program, the cost of a switch to it, and its constant time as a share.
fn program(
    pieces: &[Piece<'_>],
    load: f64,
    share: &mut dyn FnMut() -> f64,
    doubts: &mut Vec<Doubt>,
) -> (f64, f64, f64) {
    let sum = |of: fn(&CpuSlice) -> f64| pieces.iter().map(|(slice, _)| of(slice)).sum::<f64>();
    let (time_s, switches) = (sum(|slice| slice.application_s), sum(|slice| slice.wakeups));
    if time_s <= 0.0 {
        return (0.0, 0.0, 0.0);
    }
    // Weighted so that a packet's cost counts equally in each slice.
    let row = |(slice, load): &Piece<'_>| Row {
        x: [*load, slice.wakeups, slice.seconds],
        y: slice.application_s,
        weight: load.max(1.0).powi(-2),
    };
    let rows: Vec<Row> = pieces.iter().map(row).collect();
    if differ(pieces) >= HARDLY_DIFFER
        && let Some(FewFit { coefficients: two, left: left_two, .. }) = robust(&rows, 2)
        && two[0] > 0.0
    {
        let degrees = pieces.len().saturating_sub(3).max(1) as f64;
        let real = |fit: &FewFit| (left_two - fit.left) * degrees > REAL_F * fit.left && fit.coefficients[0] > 0.0;
        return match robust(&rows, 3).filter(real) {
            Some(FewFit { coefficients: [packet_s, switch_s, fixed], .. }) => (packet_s, switch_s, fixed),
            None => (two[0], two[1], 0.0),
        };
    }
    doubts.push(Doubt::Switches);
    // Up to half of the time may be switching.
    let of_switches = if switches > 0.0 { 0.5 * share() } else { 0.0 };
    ((1.0 - of_switches) * time_s / load, of_switches * time_s / switches.max(1.0), 0.0)
}

/// Standard deviation / mean, over the slices, of the switches per packet.
fn differ(pieces: &[Piece<'_>]) -> f64 {
    let ratios: Vec<f64> =
        pieces.iter().filter(|(_, load)| *load > 0.0).map(|(slice, load)| slice.wakeups / load).collect();
    let mean = ratios.iter().sum::<f64>() / ratios.len().max(1) as f64;
    let variance =
        ratios.iter().map(|ratio| (ratio - mean).powi(2)).sum::<f64>() / ratios.len().saturating_sub(1).max(1) as f64;
    if mean > 0.0 { variance.sqrt() / mean } else { 0.0 }
}
