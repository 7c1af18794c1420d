//! Accounts for each frame of a trial: lost, duplicated, reordered or corrupted.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::frame::{Parsed, Templates};
use netcliff_packets::latency::Latency;
use netcliff_packets::tracker::{SequenceClass, Tracker};

/// Number of sequence numbers remembered: four seconds at 1 Mpps, longer than any queue on the path delays a frame.
const TRACKED: usize = 1 << 22;

/// Counts of frames at the sink.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Arrived {
    /// Different frames of the trial that arrived intact.
    pub frames: u64,
    /// Frames that had arrived before.
    pub duplicates: u64,
    /// Frames that arrived after a later one of their stream (RFC 4737).
    pub reordered: u64,
    /// Frames of the run that were modified on the path. They also count as lost.
    pub corrupt: u64,
    /// Frames so late that duplicates cannot be recognised.
    pub too_old: u64,
    /// Frames of other runs or programs.
    pub foreign: u64,
}

/// The number of frames sent up to some time, and the number of these frames that have arrived.
#[derive(Debug)]
struct Mark {
    /// The time \[ns\].
    at_ns: u64,
    /// Frames sent by then.
    sent: u64,
    /// Number of these frames that have arrived, before or after that time.
    arrived: u64,
}

/// Accounts for the frames of one trial in one direction.
#[derive(Debug)]
pub struct Account {
    tag: u16,
    tracker: Tracker,
    /// One more than the highest sequence number of each stream.
    streams: Vec<u64>,
    /// Sequence number of the tagged frame of RFC 2544 26.2.
    tagged: Option<u64>,
    /// Marks in order of time that are not yet old enough for counting lost frames.
    marks: VecDeque<Mark>,
    /// Counts of received frames.
    pub arrived: Arrived,
    /// Latency from sending to the sink's timestamp.
    pub latency: Latency,
    /// Latency of the tagged frame \[ns\].
    pub tagged_ns: Option<u64>,
    /// Arrival of the last frame [ns of `CLOCK_MONOTONIC`].
    pub last_ns: Option<u64>,
}

impl Account {
    /// Starts the account of a trial with this tag.
    pub fn new(tag: u16, streams: usize, tagged: Option<u64>) -> Self {
        Self {
            tag,
            tracker: Tracker::new(TRACKED),
            streams: vec![0; streams],
            tagged,
            marks: VecDeque::new(),
            arrived: Arrived::default(),
            latency: Latency::new(),
            tagged_ns: None,
            last_ns: None,
        }
    }

    /// Counts a frame that arrived at `at_ns` [ns of `CLOCK_MONOTONIC`].
    #[inline]
    pub fn take(&mut self, templates: &Templates, frame: &[u8], at_ns: u64) {
        let label = match templates.parse(frame, self.tag, at_ns) {
            Parsed::Ours(label) => label,
            Parsed::Corrupt => return self.arrived.corrupt += 1,
            Parsed::Foreign => return self.arrived.foreign += 1,
        };
        match self.tracker.observe(label.sequence) {
            SequenceClass::InOrder | SequenceClass::Late => self.arrived.frames += 1,
            SequenceClass::Duplicate => return self.arrived.duplicates += 1,
            SequenceClass::TooOld => return self.arrived.too_old += 1,
        }
        for mark in self.marks.iter_mut().rev().take_while(|mark| label.sequence < mark.sent) {
            mark.arrived += 1;
        }
        let next = &mut self.streams[usize::from(label.stream)];
        if label.sequence < *next {
            self.arrived.reordered += 1;
        }
        *next = (*next).max(label.sequence + 1);
        let latency_ns = at_ns.saturating_sub(label.sent_ns);
        self.latency.record_ns(latency_ns);
        if self.tagged == Some(label.sequence) {
            self.tagged_ns = Some(latency_ns);
        }
        self.last_ns = Some(at_ns);
    }

    /// Records that `sent` frames have been sent by `now_ns`. Returns the number of frames that were sent at least
    /// `settle_ns` ago and have not arrived: they are lost. 0 if no record is that old.
    pub fn lost(&mut self, now_ns: u64, sent: u64, settle_ns: u64) -> u64 {
        self.marks.push_back(Mark { at_ns: now_ns, sent, arrived: self.arrived.frames });
        let mut lost = 0;
        while let Some(mark) = self.marks.front().filter(|mark| now_ns.saturating_sub(mark.at_ns) >= settle_ns) {
            lost = mark.sent.saturating_sub(mark.arrived);
            self.marks.pop_front();
        }
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::{Profile, Sweep};
    use super::*;

    fn templates() -> Templates {
        let profile = Profile {
            source_mac: [2; 6],
            destination_mac: [2; 6],
            vlan: None,
            source: [198, 18, 0, 2].into(),
            destination: [198, 19, 0, 2].into(),
            ports: (1, 1),
            sweep: Sweep { source_ports: 2, ..Sweep::default() },
            sizes: vec![64],
            replay: None,
        };
        Templates::new(&profile).expect("legal")
    }

    /// Frame 1 is late, frame 2 is lost; neither counts as lost before the wait is over.
    #[test]
    fn a_frame_is_lost_once_its_wait_is_over() {
        let templates = templates();
        let mut account = Account::new(7, 2, None);
        let mut frame = templates.filler().to_vec();
        let mut take = |account: &mut Account, sequence| {
            templates.write(&mut frame, 7, sequence, 1000);
            account.take(&templates, &frame, 2000);
        };
        take(&mut account, 0);
        assert_eq!(account.lost(1000, 3, 500), 0);
        for sequence in [3, 4, 1] {
            take(&mut account, sequence);
        }
        assert_eq!(account.lost(1400, 6, 500), 0);
        assert_eq!(account.lost(1500, 6, 500), 1);
        take(&mut account, 5);
        assert_eq!(account.lost(1900, 7, 500), 1);
        take(&mut account, 2);
        assert_eq!(account.lost(2000, 7, 500), 0, "very late, but there");
    }

    #[test]
    fn each_fate_is_told_from_the_others() {
        let templates = templates();
        let mut account = Account::new(7, 2, Some(4));
        let mut frame = templates.filler().to_vec();
        // The streams alternate: 3 after 4 is in another stream, but 2 after 4 is reordered within its stream.
        for (tag, sequence) in [(7, 0), (7, 1), (7, 4), (7, 3), (7, 2), (7, 4), (8, 5), (7, 6)] {
            templates.write(&mut frame, tag, sequence, 1000);
            if sequence == 6 {
                frame[50] ^= 1;
            }
            account.take(&templates, &frame, 1000 + 100 * (sequence + 1));
        }
        let expected = Arrived { frames: 5, duplicates: 1, reordered: 1, corrupt: 1, too_old: 0, foreign: 1 };
        assert_eq!(account.arrived, expected);
        assert_eq!((account.tagged_ns, account.latency.count()), (Some(500), 5));
    }
}
