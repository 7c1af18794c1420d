//! Times, sizes and flows of a capture, which are sent with netcliff's own headers.

use std::collections::BTreeMap;
use std::fmt;

use netcliff_core::Capture;
use netcliff_core::units::print_pps;

/// Largest number of frame kinds (combinations of size and flow). Each kind has a template.
const MOST_KINDS: usize = 4096;
/// Largest number of flows, distinguished by source port: twice the number of entries in any NIC's indirection table.
const MOST_FLOWS: u32 = 256;
/// Longest frame of a capture that is sent unchanged (bytes, FCS included): a full Ethernet frame with an MTU of 1500.
const LONGEST_REPLAYED_BYTES: u32 = 1518;

/// A kind of frame in a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    /// Frame length, including FCS (bytes).
    pub frame_bytes: usize,
    /// Number of the flow; added to the source port.
    pub flow: u16,
}

/// Returns a capture in the form in which it can be sent, and a sentence that describes this form. Frames longer than
/// 1518 bytes are cut to 1518 bytes.
pub fn replayable(mut capture: Capture) -> (Capture, String) {
    let long = capture.packets.iter().filter(|packet| packet.bytes > LONGEST_REPLAYED_BYTES).count();
    capture.packets.iter_mut().for_each(|packet| packet.bytes = packet.bytes.min(LONGEST_REPLAYED_BYTES));
    let replay = Replay::of(&capture);
    let packets = capture.packets.len();
    let cut = if long > 0 { format!(", {long} frames cut to {LONGEST_REPLAYED_BYTES} bytes") } else { String::new() };
    let text = format!(
        "the traffic is that of {}, around and around at each load: {packets} packets at {} as recorded, mean {} bytes, {} flows \
         by {} source ports{cut}",
        capture.file,
        print_pps((capture.rate_pps() / 10.0).round() * 10.0),
        replay.mean_bytes(),
        capture.flows.len(),
        replay.flows(),
    );
    let text = capture.notes.iter().fold(text, |text, note| format!("{text}; {note}"));
    (capture, text)
}

/// A capture as it is sent: repeated without end, its gaps scaled to a load.
#[derive(Clone, PartialEq, Eq)]
pub struct Replay {
    /// Time of each frame in the recording, since the first one (ns).
    at_ns: Vec<u64>,
    /// Time from the first frame to its repetition (ns).
    span_ns: u64,
    kinds: Vec<Kind>,
    /// Index of the kind of each frame.
    kind_of: Vec<u16>,
    flows: u32,
}

impl fmt::Debug for Replay {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (frames, kinds) = (self.at_ns.len(), self.kinds.len());
        out.debug_struct("Replay").field("frames", &frames).field("kinds", &kinds).field("flows", &self.flows).finish()
    }
}

impl Replay {
    /// Prepares a capture of at least two packets at different times. Flows beyond 256 (fewer if there are many sizes)
    /// share source ports.
    pub fn of(capture: &Capture) -> Self {
        let mut flows = MOST_FLOWS.min(capture.flows.len().max(1) as u32);
        let kinds_of = |flows: u32| {
            let kind = move |packet: &netcliff_core::capture::Captured| Kind {
                frame_bytes: packet.bytes as usize,
                flow: packet.flow.map_or(0, |flow| (flow % flows) as u16),
            };
            capture.packets.iter().map(kind)
        };
        let mut known: BTreeMap<Kind, u16> = BTreeMap::new();
        loop {
            known.clear();
            known.extend(kinds_of(flows).map(|kind| (kind, 0)));
            if known.len() <= MOST_KINDS || flows == 1 {
                break;
            }
            flows /= 2;
        }
        for (number, place) in known.values_mut().enumerate() {
            *place = number as u16;
        }
        let mut since_first_ns = 0;
        let at = |(place, packet): (usize, &netcliff_core::capture::Captured)| {
            since_first_ns += if place == 0 { 0 } else { packet.gap_ns };
            since_first_ns
        };
        Self {
            at_ns: capture.packets.iter().enumerate().map(at).collect(),
            span_ns: capture.packets.iter().map(|packet| packet.gap_ns).sum::<u64>().max(1),
            kind_of: kinds_of(flows).map(|kind| known[&kind]).collect(),
            kinds: known.into_keys().collect(),
            flows,
        }
    }

    /// The kinds of frames, indexed by [`Replay::kind_at`].
    pub fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// Number of source ports in use.
    pub fn flows(&self) -> u32 {
        self.flows
    }

    /// Index of the kind of the frame with this sequence number.
    #[inline]
    pub fn kind_at(&self, sequence: u64) -> usize {
        usize::from(self.kind_of[(sequence % self.kind_of.len() as u64) as usize])
    }

    /// Mean frame length, including FCS, rounded (bytes).
    pub fn mean_bytes(&self) -> usize {
        let sum: usize = self.kind_of.iter().map(|kind| self.kinds[usize::from(*kind)].frame_bytes).sum();
        (sum as f64 / self.kind_of.len().max(1) as f64).round() as usize
    }

    /// Length of the longest frame, including FCS (bytes).
    pub fn longest_bytes(&self) -> usize {
        self.kinds.iter().map(|kind| kind.frame_bytes).max().unwrap_or(0)
    }

    /// Factor by which gaps are stretched for a load of `rate_pps`.
    pub fn stretch(&self, rate_pps: f64) -> f64 {
        self.at_ns.len() as f64 / (self.span_ns as f64 * 1e-9) / rate_pps
    }

    /// Time at which the frame with this sequence number leaves, after the first frame (ns), with gaps stretched by
    /// `stretch`. It is computed from the recorded times, so that rounding errors do not add up.
    #[inline]
    pub fn at_ns(&self, sequence: u64, stretch: f64) -> u64 {
        let frames = self.at_ns.len() as u64;
        let (rounds, place) = (sequence / frames, (sequence % frames) as usize);
        let recorded_ns = rounds as f64 * self.span_ns as f64 + self.at_ns[place] as f64;
        (recorded_ns * stretch).round() as u64
    }

    /// Offsets of the frames at a load (ns), without end. They never decrease, and the first is 0.
    pub fn times(self: std::sync::Arc<Self>, rate_pps: f64) -> impl Iterator<Item = u64> + Send + 'static {
        let stretch = self.stretch(rate_pps);
        (0..).map(move |sequence| self.at_ns(sequence, stretch))
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::Arc;

    use netcliff_core::capture::{Captured, CapturedFlow};

    use super::*;

    fn capture(packets: &[(u64, u32, u32)]) -> Capture {
        let address: SocketAddr = "192.0.2.1:1".parse().expect("an address");
        let flows = packets.iter().map(|(.., flow)| *flow + 1).max().unwrap_or(0);
        let flow = |_| CapturedFlow { source: address, destination: address, packets: 1 };
        let packet =
            |(gap_ns, bytes, flow): &(u64, u32, u32)| Captured { gap_ns: *gap_ns, bytes: *bytes, flow: Some(*flow) };
        let packets = packets.iter().map(packet).collect();
        Capture { packets, flows: (0..flows).map(flow).collect(), ..Capture::default() }
    }

    #[test]
    fn times_are_the_capture_s_at_the_load_around_and_around() {
        let replay = Arc::new(Replay::of(&capture(&[(300, 64, 0), (100, 64, 0), (200, 64, 0)])));
        // The recording has a rate of 5 Mpps. At a tenth of that rate, every gap is ten times as long.
        let times: Vec<u64> = Arc::clone(&replay).times(5e5).take(7).collect();
        assert_eq!(times, [0, 1000, 3000, 6000, 7000, 9000, 12_000]);
    }

    #[test]
    fn sizes_and_flows_are_each_packet_s_own() {
        let replay = Replay::of(&capture(&[(100, 64, 0), (100, 1518, 1), (100, 64, 1), (100, 64, 0)]));
        let kinds: Vec<Kind> = (0..5).map(|sequence| replay.kinds()[replay.kind_at(sequence)]).collect();
        let kind = |frame_bytes, flow| Kind { frame_bytes, flow };
        assert_eq!(kinds, [kind(64, 0), kind(1518, 1), kind(64, 1), kind(64, 0), kind(64, 0)]);
        assert_eq!((replay.kinds().len(), replay.flows(), replay.longest_bytes()), (3, 2, 1518));
        assert_eq!(replay.mean_bytes(), 428);
    }

    #[test]
    fn many_sizes_leave_fewer_flows() {
        let packets: Vec<(u64, u32, u32)> = (0..20_000).map(|n| (100, 64 + n % 1400, n % 300)).collect();
        let replay = Replay::of(&capture(&packets));
        assert!(replay.kinds().len() <= MOST_KINDS && replay.flows() >= 1, "{replay:?}");
    }

    /// The received packets have the sizes of the capture, in its order, repeated, each with its label.
    #[test]
    fn frames_leave_as_the_capture_has_them() {
        use crate::frame::{FrameSpec, Header};
        use crate::transmit::{Batch, Transmit};
        use std::net::UdpSocket;

        let sink = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        let destination = sink.local_addr().expect("bound");
        let replay = Replay::of(&capture(&[(100, 64, 0), (100, 1518, 1), (100, 300, 0)]));
        let spec = FrameSpec {
            source_mac: [2, 0, 0, 0, 0, 1],
            destination_mac: [2, 0, 0, 0, 0, 2],
            source: "127.0.0.1:0".parse().expect("an address"),
            destination,
            more_flows: Vec::new(),
            vlan: None,
            frame_bytes: 64,
            checksum: crate::frame::Checksum::Zero,
            run_id: 7,
            replay: Some(Arc::new(replay)),
        };
        let mut batch = Batch::udp(&spec, 2).expect("a socket");
        let mut buffer = [0; 2048];
        let mut sizes = Vec::new();
        for sequence in 0..5 {
            assert!(batch.stage(&Header { sequence, intended_ns: 0 }));
            assert_eq!(batch.kick().expect("loopback").accepted, 1);
            let bytes = sink.recv(&mut buffer).expect("it came");
            assert_eq!(Header::parse(&buffer[..bytes], 7).map(|header| header.sequence), Some(sequence));
            sizes.push(bytes + 46);
        }
        assert_eq!(sizes, [64, 1518, 300, 64, 1518]);
    }
}
