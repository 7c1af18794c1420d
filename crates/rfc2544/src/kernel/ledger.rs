//! The packet accounting of a trial: where the sent frames went.

use crate::tester::run::{DirectionReport, TrialReport};
use netcliff_core::ledger::{Ledger, Place as LedgerPlace, TrialLedger};
use netcliff_host::drops::ledger::{Ends, Spaces};
use netcliff_packets::port::{Receiving, Sending};

use super::sides::PORTS;
use super::{DeviceError, Kernel, Place, WireTrial};
use netcliff_trial::ledger::{self, Way, row};

/// Length of the trial (s): long enough to fill every queue on the path, as in `find`.
const LEDGER_S: f64 = 1.0;
/// Sentence on how real ports limit the packet accounting.
const BETWEEN_PORTS: &str = "what lies between the ports is not seen from here: frames that it lost are unexplained";

impl Kernel {
    /// Makes a trial at a load (pps, each way) and accounts for all its frames.
    pub(super) fn accounted(&mut self, load_pps: f64) -> Result<TrialLedger, DeviceError> {
        let way = self.way();
        let trial = WireTrial {
            load_pps,
            duration_s: LEDGER_S.min(self.settings.trial_s),
            settle_s: self.settings.settle_s,
            max_burst: crate::tester::run::MAX_BURST,
            tagged_at_s: None,
            burst: None,
            most_lost: None,
        };
        let made = ledger::of_trial(&way, |traced| {
            let report = self.run(trial)?;
            Ok::<Ends, DeviceError>(self.ends(&report, traced))
        });
        let mut ledger: Ledger = made?;
        if matches!(self.place, Place::Ports { .. }) {
            ledger.limits.push(BETWEEN_PORTS.to_owned());
        }
        Ok(TrialLedger { load_pps, ledger })
    }

    /// The data path to observe: the tester's namespaces up to their ports, and the router's whole namespace.
    fn way(&self) -> Way {
        let last = PORTS.1.saturating_add(self.settings.destination_ports.saturating_sub(1) as u16);
        let filter = format!("udp dst portrange {}-{last}", PORTS.1);
        let up_to_tap = |paths| Spaces { paths, up_to_tap: true };
        let groups = match &self.bed {
            None => vec![up_to_tap(vec!["/proc/thread-self/ns/net".into()])],
            Some(bed) => {
                let tester = (0..bed.sides().len()).map(|side| bed.netns_path(side)).collect();
                vec![Spaces { paths: vec![bed.router_netns_path()], up_to_tap: false }, up_to_tap(tester)]
            }
        };
        Way { filter, groups }
    }

    /// The counts of sender and sink.
    fn ends(&self, report: &TrialReport, traced: bool) -> Ends {
        let sum = |count: fn(&DirectionReport) -> u64| report.directions.iter().map(count).sum::<u64>();
        let tester = self.remote.as_ref().map(|remote| remote.tester());
        // If its ring is full, an AF_XDP program drops the packet itself, and the trace already contains this drop.
        let by_packet =
            tester.is_none_or(|tester| matches!(tester.receiving, Receiving::PacketRing | Receiving::Counted));
        let missed = if by_packet || !traced { sum(|one| one.missed) } else { 0 };
        // AF_XDP does not report refused frames to its sender.
        let counts_refused = tester.is_some_and(|tester| matches!(tester.sending, Sending::PacketRing | Sending::Live));
        Ends {
            sent: report.sent(),
            delivered: sum(|one| one.arrived.frames + one.arrived.duplicates + one.arrived.too_old),
            rows: vec![
                row(LedgerPlace::Sender, "its send buffer was full", sum(|one| one.kicked.sender_full), "the sender"),
                row(LedgerPlace::Transport, "not as it was sent", sum(|one| one.arrived.corrupt), "the sink"),
                row(LedgerPlace::Socket, "its ring was full", missed, "the sink"),
            ],
            refused: (!traced && counts_refused).then(|| sum(|one| one.kicked.refused)),
        }
    }
}
