//! How frames are sent, received and stamped, as data and as text.

use crate::tester::run::Tester;
use crate::tester::stamps::{End, PortStamps, Stamps};
use netcliff_packets::port::{Receiving, Sending};
use serde::{Deserialize, Serialize};

/// How the frames of a run were sent, received and timestamped.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Instruments {
    /// Methods of sending, in the order of first use. Long frames may need another method than short ones.
    pub sent_by: Vec<Sending>,
    /// Methods of receiving, in the order of first use. Long frames may need another method than short ones.
    pub taken_in_by: Vec<Receiving>,
    /// Which clocks timestamped the frames, and where, in words.
    pub stamped: String,
    /// Clock that measures the latency of the tagged frames.
    #[serde(default)]
    pub tagged_by: Stamps,
    /// Timestamps that each port offers: first the sink's port, then the generator's.
    pub ports: Vec<PortStamps>,
}

impl Instruments {
    /// Adds the methods of a frame size. Returns how they limit the result, a sentence each.
    pub fn note(&mut self, tester: &Tester) -> Vec<String> {
        if !self.sent_by.contains(&tester.sending) {
            self.sent_by.push(tester.sending);
        }
        if !self.taken_in_by.contains(&tester.receiving) {
            self.taken_in_by.push(tester.receiving);
        }
        self.ports.clone_from(&tester.ports);
        self.tagged_by = tester.stamps;
        self.stamped = stamped(&self.taken_in_by, self.tagged_by, &self.ports);
        let because = |what: &str, why: &Option<String>| why.as_ref().map(|why| format!("{what}, not AF_XDP: {why}"));
        let sent = because("sent by an AF_PACKET ring", &tester.not_sent_by_xdp);
        let live = tester.not_live.as_ref().map(|why| format!("sent by {}, not as live frames: {why}", tester.sending));
        live.into_iter()
            .chain(sent)
            .chain(because("received by an AF_PACKET ring", &tester.not_received_by_xdp))
            .collect()
    }

    /// Describes sender and sink on one line.
    pub fn describe(&self) -> String {
        format!("sent by {}, received by {}", either(&self.sent_by), either(&self.taken_in_by))
    }
}

fn either<T: ToString>(all: &[T]) -> String {
    let words: Vec<String> = all.iter().map(ToString::to_string).collect();
    if words.is_empty() { "nothing yet".to_owned() } else { words.join(" or ") }
}

fn stamped(taken_in_by: &[Receiving], tagged_by: Stamps, ports: &[PortStamps]) -> String {
    let received: Vec<&str> = taken_in_by.iter().map(|receiving| receiving.stamped()).collect();
    let tagged = match tagged_by {
        Stamps::Application => "",
        Stamps::Kernel => {
            "tagged frames by the kernel: as the generator's driver gets them and as the sink's hands them over, \
             CLOCK_REALTIME; all frames by "
        }
        Stamps::Hardware => {
            "tagged frames by the ports' own clocks, read against CLOCK_REALTIME before and after each trial; all frames by "
        }
    };
    format!(
        "{tagged}software: sent as the frame is written (CLOCK_MONOTONIC, by the CPU's time stamp counter), received {}; \
         hardware: {}",
        received.join(" or "),
        hardware(tagged_by, ports)
    )
}

/// Describes the hardware timestamps: the sink's port stamps frames that arrive, the generator's port frames that
/// leave.
fn hardware(tagged_by: Stamps, ports: &[PortStamps]) -> String {
    let silent: Vec<&str> =
        ports.iter().filter(|port| port.offered.is_none()).map(|port| port.interface.as_str()).collect();
    if !silent.is_empty() {
        return format!("the kernel does not say what {} offers", silent.join(" and "));
    }
    let offers = |at: usize, port: &PortStamps| {
        let end = if at == 0 { End::Far } else { End::Near };
        port.check(Stamps::Hardware, end).is_ok()
    };
    let without: Vec<&str> = ports
        .iter()
        .enumerate()
        .filter(|(at, port)| !offers(*at, port))
        .map(|(_, port)| port.interface.as_str())
        .collect();
    match (without.is_empty(), tagged_by) {
        (true, Stamps::Hardware) => "used, of tagged frames".to_owned(),
        (true, _) => "offered by both ports (--stamps hardware)".to_owned(),
        (false, _) => format!("not offered by {}", without.join(" and ")),
    }
}

#[cfg(test)]
mod tests {
    use netcliff_host::nic::ethtool::TimeStamps;

    use super::*;

    fn tester(receive: bool, transmit: bool) -> Tester {
        let port = |interface: &str| PortStamps {
            interface: interface.to_owned(),
            offered: Some(TimeStamps {
                hardware_receive: receive,
                hardware_receive_all: receive,
                hardware_transmit: transmit,
                clock: Some(0),
                ..TimeStamps::default()
            }),
        };
        Tester {
            sending: Sending::XdpCopy,
            not_sent_by_xdp: None,
            receiving: Receiving::XdpGeneric,
            not_received_by_xdp: None,
            not_live: None,
            stamps: Stamps::Application,
            ports: vec![port("eth2"), port("eth1")],
        }
    }

    #[test]
    fn who_stamps_and_who_could() {
        let mut instruments = Instruments::default();
        assert_eq!(instruments.describe(), "sent by nothing yet, received by nothing yet");
        assert!(instruments.note(&tester(false, false)).is_empty());
        assert_eq!(instruments.describe(), "sent by AF_XDP (copy), received by AF_XDP (generic)");
        assert!(instruments.stamped.ends_with("hardware: not offered by eth2 and eth1"), "{}", instruments.stamped);
        // A port that timestamps only arriving frames is sufficient for the sink, but not for the generator.
        let long = Tester {
            receiving: Receiving::PacketRing,
            not_received_by_xdp: Some("too long".to_owned()),
            ..tester(true, false)
        };
        assert_eq!(instruments.note(&long), ["received by an AF_PACKET ring, not AF_XDP: too long"]);
        assert!(instruments.stamped.contains("XDP program") && instruments.stamped.contains("CLOCK_REALTIME"));
        assert!(instruments.stamped.ends_with("hardware: not offered by eth1"), "{}", instruments.stamped);
        instruments.note(&tester(true, true));
        assert!(instruments.stamped.contains("offered by both"), "{}", instruments.stamped);
        let tagged = Tester { stamps: Stamps::Hardware, ..tester(true, true) };
        instruments.note(&tagged);
        assert!(instruments.stamped.starts_with("tagged frames by the ports' own clocks"), "{}", instruments.stamped);
        assert!(instruments.stamped.ends_with("hardware: used, of tagged frames"), "{}", instruments.stamped);
    }
}
