//! The results of each repeat.

use crate::bulk::{End, Flow, TcpSample};
use netcliff_core::stream::{CpuTimes, StreamSample, kernel_share};
use netcliff_host::cpu::system::SystemShares;

use super::cpu::{Ticks, far_ticks, near_ticks, us_per_kib_of};
use super::wire::wire_bps_of;
use crate::stream::{Repeat, StreamOptions};

/// One sample for each measured window, in order. Host-wide values belong to a whole transfer, so they are `None` in
/// the samples of a transfer with several windows.
pub(in crate::stream) fn samples(options: &StreamOptions, block_bytes: usize, repeats: &[Repeat]) -> Vec<StreamSample> {
    repeats.iter().flat_map(|repeat| of_repeat(options, block_bytes, repeat)).collect()
}

fn of_repeat(options: &StreamOptions, block_bytes: usize, repeat: &Repeat) -> Vec<StreamSample> {
    let flows = &repeat.transfer.flows;
    // An end may have no window of its own, if one of its calls lasted for the whole window.
    let of_flow = |flow: &Flow| flow.sender.windows.len().max(flow.receiver.windows.len());
    let windows = flows.iter().map(of_flow).max().unwrap_or(0);
    let mut samples: Vec<StreamSample> = (0..windows).map(|place| of_window(options, flows, place)).collect();
    if let [sample] = &mut samples[..] {
        let host: Ticks = if options.guest.is_some() { far_ticks } else { near_ticks };
        let ticks = host(repeat);
        sample.system_us_per_kib = us_per_kib_of(repeat, host).filter(|us| us.is_finite());
        sample.system_cpus = (!ticks.is_empty()).then(|| ticks.iter().map(SystemShares::busy).sum());
        let pairs: Vec<(&TcpSample, &TcpSample)> =
            flows.iter().filter_map(|flow| Some((flow.tcp.first()?, flow.tcp.last()?))).collect();
        let increase = |count: fn(&TcpSample) -> u64| -> u64 {
            pairs.iter().map(|(from, to)| count(to).saturating_sub(count(from))).sum()
        };
        if !pairs.is_empty() {
            sample.retransmissions = Some(increase(|tcp| tcp.retransmissions));
            let segment = increase(|tcp| tcp.bytes_sent) as f64 / increase(|tcp| tcp.data_segments) as f64;
            sample.bytes_per_segment = Some(segment).filter(|bytes| bytes.is_finite());
        }
        (sample.wire_bps, sample.delivered_wire_bps) = wire_bps_of(options, block_bytes, repeat);
    }
    samples
}

/// The results of both ends in one window, all flows together.
fn of_window(options: &StreamOptions, flows: &[Flow], place: usize) -> StreamSample {
    let (sender, receiver) =
        (EndSum::of(flows, place, |flow| &flow.sender), EndSum::of(flows, place, |flow| &flow.receiver));
    let by_clock = if options.method.clock() == "sender" { &sender } else { &receiver };
    StreamSample {
        goodput_bps: by_clock.as_ref().map(|sum| sum.bps),
        sender_cpu: sender.as_ref().map(EndSum::cpus),
        receiver_cpu: receiver.as_ref().map(EndSum::cpus),
        sender_us_per_kib: sender.as_ref().and_then(EndSum::us_per_kib),
        receiver_us_per_kib: receiver.as_ref().and_then(EndSum::us_per_kib),
        sender_kernel_share: sender.as_ref().and_then(EndSum::kernel_share),
        receiver_kernel_share: receiver.as_ref().and_then(EndSum::kernel_share),
        ..StreamSample::default()
    }
}

/// Sums over one end of all flows in one window.
#[derive(Default)]
struct EndSum {
    bps: f64,
    used_s: f64,
    bytes: f64,
    user_cpus: f64,
    system_cpus: f64,
    flows: u32,
}

impl EndSum {
    /// The sums of a window. `None` if no flow has it.
    fn of(flows: &[Flow], place: usize, end: fn(&Flow) -> &End) -> Option<Self> {
        let mut sum = Self::default();
        for window in flows.iter().filter_map(|flow| end(flow).windows.get(place)) {
            let (wall_s, used_s) = (window.cpu_wall_s(), window.cpu.user_s + window.cpu.system_s);
            if wall_s <= 0.0 {
                continue;
            }
            sum.bps += window.goodput_bps().unwrap_or(0.0);
            sum.used_s += used_s;
            sum.bytes += window.bytes as f64;
            sum.user_cpus += window.cpu.user_s / wall_s;
            sum.system_cpus += window.cpu.system_s / wall_s;
            sum.flows += 1;
        }
        (sum.flows > 0).then_some(sum)
    }

    fn cpus(&self) -> f64 {
        self.user_cpus + self.system_cpus
    }

    fn kernel_share(&self) -> Option<f64> {
        kernel_share(&[CpuTimes { user_s: self.user_cpus, system_s: self.system_cpus, wall_s: 1.0 }])
    }

    fn us_per_kib(&self) -> Option<f64> {
        (self.bytes > 0.0).then(|| self.used_s * 1e6 * 1024.0 / self.bytes)
    }
}
