//! What a received frame costs the bus between NIC and memory.

use super::{Bus, ParallelBus, Pcie};

/// A receive descriptor, fetched and written back (bytes; 16 in e1000, ixgbe and most others).
const DESCRIPTOR_BYTES: f64 = 16.0;
/// A doorbell or a message-signalled interrupt (bytes).
const WORD_BYTES: f64 = 4.0;
/// Bytes around the data of a memory write or a read request: framing 2, data link layer 6, TLP 4, address and byte
/// enables 12 (64-bit addresses); of a completion: the same with 8 (R. Neugebauer et al., SIGCOMM 2018, section 3).
const REQUEST_BYTES: f64 = 24.0;
const COMPLETION_BYTES: f64 = 20.0;

/// Bits a second of the bus before any packet overhead, one direction, line code taken off.
pub fn raw_bps(bus: &Bus) -> Option<f64> {
    match bus {
        Bus::None => None,
        Bus::Bandwidth(bytes_per_s) => Some(8.0 * bytes_per_s),
        Bus::Parallel(bus) => Some(f64::from(bus.width_bits) * bus.clock_hz),
        Bus::Pcie(pcie) => {
            let transfers_per_s = 2.5e9 * [1.0, 2.0, 3.2, 6.4, 12.8, 25.6][(pcie.generation as usize).clamp(1, 6) - 1];
            // 8b/10b, then 128b/130b; generation 6 sends flits of 256 bytes, 242 of them for packets.
            let code = match pcie.generation {
                1 | 2 => 8.0 / 10.0,
                6 => 242.0 / 256.0,
                _ => 128.0 / 130.0,
            };
            Some(transfers_per_s * code * f64::from(pcie.lanes))
        }
    }
}

/// Share of the bus's bound that is typically left after flow control and acknowledgements: 8 x 7.87 = 62.96 Gbit/s of PCI Express
/// leave 57.88 Gbit/s (Neugebauer, section 3); flits carry theirs in the 14 bytes already taken off. 1 for other buses. It is no part
/// of a bound: how often they are sent is the devices' choice.
pub fn typical_share(bus: &Bus) -> f64 {
    match bus {
        Bus::Pcie(pcie) if pcie.generation < 6 => 57.88 / 62.96,
        _ => 1.0,
    }
}

/// Bytes that one received frame moves on PCI Express: (towards memory, towards the NIC), headers included.
///
/// The frame is written in pieces of `mps`; descriptors are fetched and written back `batch` at a time; a doorbell
/// (register write) frees each batch; one interrupt in `frames_per_interrupt` frames.
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

/// The least bus time of one received frame (s); 0 where no bus binds.
pub fn seconds_per_frame(bus: &Bus, frame_bytes: f64, frames_per_interrupt: f64) -> f64 {
    let Some(raw_bps) = raw_bps(bus) else { return 0.0 };
    match bus {
        Bus::None => 0.0,
        // The descriptor there and back; bursts and turn-around are not known.
        Bus::Bandwidth(bytes_per_s) => (frame_bytes + 2.0 * DESCRIPTOR_BYTES) / bytes_per_s,
        Bus::Parallel(bus) => parallel_clocks(bus, frame_bytes) / bus.clock_hz,
        Bus::Pcie(pcie) => {
            let (up, down) = bytes_per_frame(pcie, frame_bytes, frames_per_interrupt);
            8.0 * up.max(down) / raw_bps
        }
    }
}

/// Clocks of a frame in bursts, and of its descriptor there and back (fetched and written back in bursts of their own
/// whole; both directions share the bus).
fn parallel_clocks(bus: &ParallelBus, frame_bytes: f64) -> f64 {
    let (width, burst) = (f64::from(bus.width_bits) / 8.0, f64::from(bus.burst_bytes));
    let clocks = |bytes: f64| (bytes / width).ceil() + (bytes / burst).ceil() * f64::from(bus.overhead_clocks);
    // As many descriptors as fit a burst travel together.
    let together = (burst / DESCRIPTOR_BYTES).floor().max(1.0);
    clocks(frame_bytes) + 2.0 * clocks(together * DESCRIPTOR_BYTES) / together
}
