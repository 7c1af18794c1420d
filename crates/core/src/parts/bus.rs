//! Bus time of a received frame between NIC and memory.

use super::{Bus, ParallelBus, Pcie};

/// Size of a receive descriptor, which is fetched and written back (bytes; 16 in e1000, ixgbe and most others).
const DESCRIPTOR_BYTES: f64 = 16.0;
/// Size of a doorbell, or of a message-signalled interrupt (bytes).
const WORD_BYTES: f64 = 4.0;
/// Overhead of a memory write or read request on PCI Express (bytes): framing 2, data link layer 6, TLP 4,
/// requester ID, tag, byte enables and 64-bit address 12. A completion has 8 bytes instead of the 12 (R. Neugebauer et al., SIGCOMM 2018,
/// section 3).
const REQUEST_BYTES: f64 = 24.0;
const COMPLETION_BYTES: f64 = 20.0;

/// Raw rate of the bus (bit/s), before the overhead of packets or bursts. PCI Express: of one direction, after the line
/// code; other buses: both directions together. `None` for [`Bus::None`].
pub fn raw_bps(bus: &Bus) -> Option<f64> {
    match bus {
        Bus::None => None,
        Bus::Bandwidth(bytes_per_s) => Some(8.0 * bytes_per_s),
        Bus::Parallel(bus) => Some(f64::from(bus.width_bits) * bus.clock_hz),
        Bus::Pcie(pcie) => {
            let transfers_per_s = 2.5e9 * [1.0, 2.0, 3.2, 6.4, 12.8, 25.6][(pcie.generation as usize).clamp(1, 6) - 1];
            // Line codes 8b/10b, then 128b/130b; generation 6 sends flits of 256 bytes, of which 242 carry packets.
            let code = match pcie.generation {
                1 | 2 => 8.0 / 10.0,
                6 => 242.0 / 256.0,
                _ => 128.0 / 130.0,
            };
            Some(transfers_per_s * code * f64::from(pcie.lanes))
        }
    }
}

/// Typical share of the bus's bound that flow control and acknowledgements leave: on PCI Express 57.88 of 8 x 7.87 =
/// 62.96 Gbit/s (Neugebauer et al., SIGCOMM 2018, section 3). 1 for generation 6, whose flits carry both in the 14
/// bytes that [`raw_bps`] subtracts, and for other buses. The share is not part of the bound, because devices choose
/// how often they send flow control and acknowledgements.
pub fn typical_share(bus: &Bus) -> f64 {
    match bus {
        Bus::Pcie(pcie) if pcie.generation < 6 => 57.88 / 62.96,
        _ => 1.0,
    }
}

/// Bytes that one received frame moves on PCI Express, headers included: (towards memory, towards the NIC).
///
/// The frame is written in pieces of `mps`. Descriptors are fetched and written back `batch` at a time, and one
/// doorbell (register write) frees each batch. There is one interrupt per `frames_per_interrupt` frames.
pub fn bytes_per_frame(pcie: &Pcie, frame_bytes: f64, frames_per_interrupt: f64) -> (f64, f64) {
    let (mps, mrrs, batch) = (f64::from(pcie.mps_bytes), f64::from(pcie.mrrs_bytes), f64::from(pcie.batch));
    let written = |bytes: f64| bytes + (bytes / mps).ceil() * REQUEST_BYTES;
    let descriptors = batch * DESCRIPTOR_BYTES;
    let requests = (descriptors / mrrs).ceil() * REQUEST_BYTES;
    let completions = descriptors + (descriptors / mps).ceil() * COMPLETION_BYTES;
    let up = written(frame_bytes)
        + (written(descriptors) + requests) / batch
        + written(WORD_BYTES) / frames_per_interrupt.max(1.0);
    let down = (completions + written(WORD_BYTES)) / batch;
    (up, down)
}

/// Shortest bus time of a received frame (s); 0 if the bus does not limit the rate.
pub fn seconds_per_frame(bus: &Bus, frame_bytes: f64, frames_per_interrupt: f64) -> f64 {
    let Some(raw_bps) = raw_bps(bus) else { return 0.0 };
    match bus {
        Bus::None => 0.0,
        // The descriptor is read and written; bursts and turn-around are unknown.
        Bus::Bandwidth(bytes_per_s) => (frame_bytes + 2.0 * DESCRIPTOR_BYTES) / bytes_per_s,
        Bus::Parallel(bus) => parallel_clocks(bus, frame_bytes) / bus.clock_hz,
        Bus::Pcie(pcie) => {
            let (up, down) = bytes_per_frame(pcie, frame_bytes, frames_per_interrupt);
            8.0 * up.max(down) / raw_bps
        }
    }
}

/// Clocks to move a frame in bursts, and to fetch and write back its descriptor in separate bursts, all rounded up;
/// both directions share the bus.
fn parallel_clocks(bus: &ParallelBus, frame_bytes: f64) -> f64 {
    let (width, burst) = (f64::from(bus.width_bits) / 8.0, f64::from(bus.burst_bytes));
    let clocks = |bytes: f64| (bytes / width).ceil() + (bytes / burst).ceil() * f64::from(bus.overhead_clocks);
    // A burst moves as many descriptors as fit into it.
    let together = (burst / DESCRIPTOR_BYTES).floor().max(1.0);
    clocks(frame_bytes) + 2.0 * clocks(together * DESCRIPTOR_BYTES) / together
}
