//! [`Records`]: the data that a replication records: counts at evenly spaced arrivals, and latencies by segment.

use serde::{Deserialize, Serialize};

use super::SocketCounts;
use crate::tally::{CELLS, Counts, Histogram, SEGMENTS, Spare};

/// Unused lists of recorded counts from finished replications, one for each replication that runs in parallel.
static SPARE: Spare<Counts> = Spare::new(32);

/// Counts and latencies of one replication. A mark is a recording of the counts.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Records {
    /// The recorded counts; [`CELLS`] + 1 at the end.
    pub marks: Vec<Counts>,
    /// Counts by application: all applications at the first recording, then at the second, and so on. Empty with a
    /// single application.
    pub sockets: Vec<SocketCounts>,
    /// Latencies of the packets delivered in each segment; [`SEGMENTS`] at the end.
    pub segments: Vec<Histogram>,
    /// The segment being filled. After the end of the run, its content is never read.
    #[serde(skip)]
    present: Histogram,
    #[serde(skip)]
    next_mark: u64,
    #[serde(skip)]
    packets: u64,
}

impl Records {
    pub(crate) fn new(packets: u64) -> Self {
        let packets = packets.max(CELLS as u64);
        Self {
            marks: SPARE.take().unwrap_or_else(|| Vec::with_capacity(CELLS + 1)),
            sockets: Vec::new(),
            segments: Vec::with_capacity(SEGMENTS),
            present: Histogram::default(),
            next_mark: 0,
            packets,
        }
    }

    /// Number of arrivals after which the counts are recorded next.
    #[inline]
    pub(crate) fn next_mark(&self) -> u64 {
        self.next_mark
    }

    /// Records counts (adds a mark). Returns true if this was the last recording of the run.
    pub(crate) fn push(&mut self, counts: Counts, sockets: &[SocketCounts]) -> bool {
        self.marks.push(counts);
        self.sockets.extend_from_slice(sockets);
        let cell = self.marks.len() as u64;
        self.next_mark = self.packets * cell / CELLS as u64;
        let (tenths, within) = ((self.marks.len() - 1) / (CELLS / 10), (self.marks.len() - 1) % (CELLS / 10));
        let over = self.marks.len() > CELLS;
        if over || (within == 0 && (1..SEGMENTS).contains(&tenths)) {
            self.segments.push(std::mem::take(&mut self.present));
        }
        over
    }

    /// Adds the latency of a packet delivered now [ticks].
    #[inline]
    pub(crate) fn latency(&mut self, ticks: u64) {
        self.present.add(ticks);
    }

    /// The histogram that takes the latencies of packets delivered now.
    #[inline]
    pub(crate) fn present(&mut self) -> &mut Histogram {
        &mut self.present
    }
}

impl Drop for Records {
    fn drop(&mut self) {
        let mut marks = std::mem::take(&mut self.marks);
        marks.clear();
        SPARE.keep(marks);
    }
}
