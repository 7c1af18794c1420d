//! A capture as the traffic of `find`.

use netcliff_core::Capture;
use netcliff_core::units::print_pps;
use netcliff_packets::replay::Replay;

/// The longest frame of a capture that is sent as it is: one of Ethernet's MTU of 1500, FCS included (bytes).
const LONGEST_REPLAYED_BYTES: u32 = 1518;

/// A capture as it can be sent, and how it is: longer frames are cut to 1518 bytes.
pub fn replayable(mut capture: Capture) -> (Capture, String) {
    let long = capture.packets.iter().filter(|packet| packet.bytes > LONGEST_REPLAYED_BYTES).count();
    capture.packets.iter_mut().for_each(|packet| packet.bytes = packet.bytes.min(LONGEST_REPLAYED_BYTES));
    let replay = Replay::of(&capture);
    let packets = capture.packets.len();
    let cut = if long > 0 { format!(", {long} frames cut to {LONGEST_REPLAYED_BYTES} bytes") } else { String::new() };
    let told = format!(
        "the traffic is that of {}, around and around at each load: {packets} packets at {} as recorded, mean {} bytes, {} flows \
         by {} source ports{cut}",
        capture.file,
        print_pps((capture.rate_pps() / 10.0).round() * 10.0),
        mean_bytes(&capture),
        capture.flows.len(),
        replay.flows(),
    );
    let told = capture.notes.iter().fold(told, |told, note| format!("{told}; {note}"));
    (capture, told)
}

/// Mean frame of a capture, rounded (bytes).
pub fn mean_bytes(capture: &Capture) -> u32 {
    Replay::of(capture).mean_bytes() as u32
}
