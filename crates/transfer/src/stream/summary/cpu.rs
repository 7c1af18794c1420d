//! CPU time of both ends and of their hosts.

use crate::bulk::hardware::Hardware;
use crate::bulk::{End, Flow, Window};
use netcliff_core::cpus::{CpuRow, ExactRow};
use netcliff_core::stream::{CpuTimes, EndCpu, Spread, kernel_share};
use netcliff_host::cpu::CpuSplit;
use netcliff_host::cpu::system::SystemShares;
use netcliff_remote::FarCpu;

use super::{Repeat, summed};
use netcliff_trial::repeats;

pub(super) fn end_cpu(repeats: &[Repeat], end: fn(&Flow) -> &End) -> EndCpu {
    let used_s = |window: &Window| window.cpu.user_s + window.cpu.system_s;
    let bytes = summed(repeats, end, |window| window.bytes as f64);
    let us = summed(repeats, end, |window| used_s(window) * 1e6);
    let user = summed(repeats, end, |window| window.cpu.user_s / window.cpu_wall_s());
    let system = summed(repeats, end, |window| window.cpu.system_s / window.cpu_wall_s());
    let of_a_second = |(user_s, system_s)| CpuTimes { user_s, system_s, wall_s: 1.0 };
    let times: Vec<CpuTimes> = user.into_iter().zip(system).map(of_a_second).collect();
    EndCpu {
        busy: Spread::of(summed(repeats, end, Window::busy)),
        us_per_kib: Spread::of(us.iter().zip(bytes).map(|(us, bytes)| us * 1024.0 / bytes)),
        kernel_share: kernel_share(&times),
        cycles_per_byte: counted(repeats, end, |hardware| hardware.cycles),
        instructions_per_byte: counted(repeats, end, |hardware| hardware.instructions),
    }
}

/// A hardware count per byte. `None` if a window lacks it.
fn counted(repeats: &[Repeat], end: fn(&Flow) -> &End, count: fn(&Hardware) -> u64) -> Option<Spread> {
    let of = |window: &Window| window.hardware.as_ref().map_or(f64::NAN, |hardware| count(hardware) as f64);
    let bytes = summed(repeats, end, |window| window.bytes as f64);
    Spread::of(summed(repeats, end, of).iter().zip(bytes).map(|(count, bytes)| count / bytes))
}

fn received_bytes(repeat: &Repeat) -> f64 {
    repeat.transfer.flows.iter().filter_map(|flow| flow.receiver.whole()).map(|window| window.bytes as f64).sum()
}

/// Selects the ticks of a host in one repeat.
pub(super) type Ticks = fn(&Repeat) -> &[SystemShares];

pub(super) fn near_ticks(repeat: &Repeat) -> &[SystemShares] {
    &repeat.ticks
}

pub(super) fn far_ticks(repeat: &Repeat) -> &[SystemShares] {
    repeat.transfer.far.as_ref().map_or(&[], |far| &far.ticks)
}

pub(super) fn system_us_per_kib(repeats: &[Repeat], ticks: Ticks) -> Option<Spread> {
    Spread::of(repeats.iter().filter_map(|repeat| us_per_kib_of(repeat, ticks)))
}

/// CPU time of a host per KiB received in one repeat (us), by the kernel's ticks.
pub(super) fn us_per_kib_of(repeat: &Repeat, ticks: Ticks) -> Option<f64> {
    let used_s: f64 = ticks(repeat).iter().map(SystemShares::used_s).sum();
    (!ticks(repeat).is_empty()).then(|| used_s * 1e6 * 1024.0 / received_bytes(repeat))
}

pub(super) fn system(repeats: &[Repeat], ticks: Ticks) -> Vec<CpuRow> {
    repeats::by_ticks(repeats.iter().flat_map(ticks))
}

/// Selects the exact split of a host in one repeat.
pub(super) type Splits = fn(&Repeat) -> &[CpuSplit];

pub(super) fn near_splits(repeat: &Repeat) -> &[CpuSplit] {
    &repeat.exact
}

pub(super) fn far_splits(repeat: &Repeat) -> &[CpuSplit] {
    repeat.transfer.far.as_ref().and_then(|far| far.cpu.as_ref()).map_or(&[], FarCpu::splits)
}

pub(super) fn exact(repeats: &[Repeat], splits: Splits) -> Vec<ExactRow> {
    repeats::exactly(repeats.iter().flat_map(splits))
}
