//! [`Counts`]: counts up to an instant, in whole packets and ticks. [`Histogram`]: latencies in ticks.

use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

/// The activities of the CPU, in the order of [`Counts::cpu`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Account {
    /// Interrupt handling.
    Interrupt = 0,
    /// Poll overhead.
    Poll = 1,
    /// Protocol processing.
    Protocol = 2,
    /// The application and the context switches to it.
    Application = 3,
    /// Idle.
    Available = 4,
    /// Taken away by other programs.
    Paused = 5,
}

/// Number of accounts.
pub(crate) const ACCOUNTS: usize = 6;

/// Number of cells of a replication; all cells have the same number of arrivals. The counts are recorded (a mark is
/// set) before the first cell, between cells, and after the last. Each cell is an observation for MSER-5, which
/// therefore always has a hundred batches of five.
pub(crate) const CELLS: usize = 500;
/// Number of segments of the latency histogram: five tenths of the run that may be cut off as warm-up, and the rest.
pub(crate) const SEGMENTS: usize = 6;

/// Counts of transmissions up to an instant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct TransmitCounts {
    /// Transmissions that needed a slot.
    pub started: u64,
    /// Transmissions that found no free slot.
    pub refused: u64,
    /// Completions processed.
    pub completed: u64,
    /// Occupied slots; up to date only in recorded counts.
    pub inside: u64,
    /// Sum of the times from the end of a transmission to the end of its completion [ticks].
    pub waited: u128,
    /// Integral of the number of waiting completions over time [completion ticks]; up to date only in recorded counts.
    pub area: u128,
}

impl TransmitCounts {
    fn since(&self, earlier: &Self) -> Self {
        Self {
            started: self.started - earlier.started,
            refused: self.refused - earlier.refused,
            completed: self.completed - earlier.completed,
            inside: self.inside,
            waited: self.waited - earlier.waited,
            area: self.area - earlier.area,
        }
    }
}

/// All counts from the start of a replication to an instant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Counts {
    /// The instant [ticks].
    pub at: u64,
    /// Number of arrivals.
    pub offered: u64,
    /// Packets delivered: by protocol processing or, with an application, taken by it.
    pub delivered: u64,
    /// Frame bytes of the delivered packets.
    pub delivered_bytes: u64,
    /// Packets lost at the ring.
    pub dropped_ring: u64,
    /// Packets lost at the socket.
    pub dropped_socket: u64,
    /// Packets lost at the sender.
    pub dropped_sender: u64,
    /// Packets queued at the sender.
    pub inside_sender: u64,
    /// Packets in the ring or in protocol processing.
    pub inside_ring: u64,
    /// Packets in the socket.
    pub inside_socket: u64,
    /// Number of interrupts.
    pub interrupts: u64,
    /// Number of polls.
    pub polls: u64,
    /// Packets that left protocol processing.
    pub processed: u64,
    /// Sum of the processed packets' times from arrival to the end of protocol processing [ticks].
    pub processed_latency: u128,
    /// Sum of the latencies of the delivered packets [ticks].
    pub latency: u128,
    /// Sum of the times from arrival to loss of the packets lost at the socket [ticks].
    pub lost_latency: u128,
    /// Integral of the number of packets in ring and protocol processing over time [packet ticks]; up to date only in
    /// recorded counts.
    pub ring_area: u128,
    /// Integral of the number of packets in sender, ring, protocol processing and socket over time [packet ticks]; up
    /// to date only in recorded counts.
    pub system_area: u128,
    /// Integral of the number of packets that the application has taken and not finished [packet ticks]; up to date
    /// only in recorded counts.
    pub application_area: u128,
    /// Integral of the number of packets queued at the sender [packet ticks]; up to date only in recorded counts.
    pub sender_area: u128,
    /// CPU time by [`Account`] [ticks].
    pub cpu: [u64; ACCOUNTS],
    /// Counts of transmissions; up to date only in recorded counts.
    pub transmit: TransmitCounts,
}

impl Counts {
    /// The counts since `earlier`. The numbers of packets inside are taken from `self` unchanged.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let mut cpu = self.cpu;
        cpu.iter_mut().zip(earlier.cpu).for_each(|(time, before)| *time -= before);
        Self {
            at: self.at - earlier.at,
            offered: self.offered - earlier.offered,
            delivered: self.delivered - earlier.delivered,
            delivered_bytes: self.delivered_bytes - earlier.delivered_bytes,
            dropped_ring: self.dropped_ring - earlier.dropped_ring,
            dropped_socket: self.dropped_socket - earlier.dropped_socket,
            dropped_sender: self.dropped_sender - earlier.dropped_sender,
            inside_sender: self.inside_sender,
            inside_ring: self.inside_ring,
            inside_socket: self.inside_socket,
            interrupts: self.interrupts - earlier.interrupts,
            polls: self.polls - earlier.polls,
            processed: self.processed - earlier.processed,
            processed_latency: self.processed_latency - earlier.processed_latency,
            latency: self.latency - earlier.latency,
            lost_latency: self.lost_latency - earlier.lost_latency,
            ring_area: self.ring_area - earlier.ring_area,
            system_area: self.system_area - earlier.system_area,
            application_area: self.application_area - earlier.application_area,
            sender_area: self.sender_area - earlier.sender_area,
            cpu,
            transmit: self.transmit.since(&earlier.transmit),
        }
    }

    /// Sum of the ages of the packets inside [packet ticks], for counts at a mark: the part of the integral of the
    /// number inside that belongs to packets which have not left.
    pub(crate) fn ages(&self) -> u128 {
        self.system_area - self.latency - self.lost_latency
    }

    /// Integral of the number of packets in the host: ring, protocol processing, socket and application [packet ticks].
    pub(crate) fn host_area(&self) -> u128 {
        self.system_area - self.sender_area + self.application_area
    }

    /// Packets lost, at any place.
    pub(crate) fn lost(&self) -> u64 {
        self.dropped_sender + self.dropped_ring + self.dropped_socket
    }

    /// Packets delivered or lost. In a window, this can exceed the number of arrivals.
    pub(crate) fn fated(&self) -> u64 {
        self.delivered + self.lost()
    }

    /// Whether offered = delivered + dropped + still inside, and every tick is on one account. Holds only for counts
    /// from time zero.
    pub(crate) fn conserved(&self) -> bool {
        let packets = self.delivered + self.lost() + self.inside_sender + self.inside_ring + self.inside_socket;
        let sent = self.transmit.refused + self.transmit.completed + self.transmit.inside;
        packets == self.offered && sent == self.transmit.started && self.cpu.iter().sum::<u64>() == self.at
    }
}

/// Significant bits of a latency in the histogram: 2^8 cells per octave, at most 0.4 % wide.
const KEPT_BITS: u32 = 8;

/// Latencies in cells whose width grows with the value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(into = "Filled<u32>", from = "Filled<u32>")]
pub(crate) struct Histogram {
    cells: Vec<u32>,
    max: u64,
}

/// The filled cells by number, in serialised form, and the largest latency [ticks].
#[derive(Serialize, Deserialize)]
struct Filled<T> {
    cells: Vec<(u32, T)>,
    max: u64,
}

impl<T: Copy + Default + PartialEq> Filled<T> {
    fn of(cells: &[T], max: u64) -> Self {
        let numbered = (0..).zip(cells.iter().copied());
        Self { cells: numbered.filter(|(_, count)| *count != T::default()).collect(), max }
    }

    /// Writes the counts into empty cells. Ignores numbers beyond the last cell, which no latency has.
    fn spread(&self, cells: &mut [T]) {
        for (cell, count) in &self.cells {
            if let Some(place) = cells.get_mut(*cell as usize) {
                *place = *count;
            }
        }
    }
}

impl From<Histogram> for Filled<u32> {
    fn from(histogram: Histogram) -> Self {
        Self::of(&histogram.cells[..=Histogram::cell(histogram.max)], histogram.max)
    }
}

impl From<Filled<u32>> for Histogram {
    fn from(filled: Filled<u32>) -> Self {
        let mut histogram = Self::default();
        histogram.max = filled.max;
        filled.spread(&mut histogram.cells);
        histogram
    }
}

impl From<Pool> for Filled<u64> {
    fn from(pool: Pool) -> Self {
        Self::of(&pool.cells, pool.max)
    }
}

impl From<Filled<u64>> for Pool {
    fn from(filled: Filled<u64>) -> Self {
        let mut pool = Self { max: filled.max, ..Self::default() };
        pool.reach(Histogram::cell(filled.max) + 1);
        filled.spread(&mut pool.cells);
        pool.total = pool.cells.iter().sum();
        pool
    }
}

/// Emptied cells of dropped histograms, for reuse.
static SPARE: Spare<u32> = Spare::new(256);

impl Default for Histogram {
    /// An empty histogram.
    fn default() -> Self {
        let cells = SPARE.take().unwrap_or_else(|| vec![0; ((64 - KEPT_BITS as usize) + 1) << KEPT_BITS]);
        Self { cells, max: 0 }
    }
}

impl Drop for Histogram {
    fn drop(&mut self) {
        let mut cells = std::mem::take(&mut self.cells);
        cells[..=Self::cell(self.max)].fill(0);
        SPARE.keep(cells);
    }
}

impl Histogram {
    /// Adds one latency [ticks].
    #[inline]
    pub(crate) fn add(&mut self, ticks: u64) {
        self.cells[Self::cell(ticks)] += 1;
        self.max = self.max.max(ticks);
    }

    /// Number of the cell of a latency [ticks].
    #[inline]
    fn cell(ticks: u64) -> usize {
        let octave = 63 - (ticks | (1 << KEPT_BITS)).leading_zeros();
        let shift = octave - KEPT_BITS;
        ((shift as usize) << KEPT_BITS) + (ticks >> shift) as usize
    }

    /// First value and width of a cell [ticks].
    fn cell_range(cell: usize) -> (u64, u64) {
        let row = cell >> KEPT_BITS;
        if row < 2 {
            return (cell as u64, 1);
        }
        let shift = row as u32 - 1;
        let within = (cell & ((1 << KEPT_BITS) - 1)) as u64 + (1 << KEPT_BITS);
        (within << shift, 1 << shift)
    }
}

/// Largest relative half width of a cell.
pub(crate) const QUANTILE_HALF_WIDTH: f64 = 0.5 / (1 << KEPT_BITS) as f64;

/// Returns the ends of the cell that contains a quantile [ticks]. The histogram does not resolve latencies within a
/// cell, so that the quantile of a sample with many equal latencies is known only to a cell.
pub(crate) fn cell_ends(quantile: f64) -> (f64, f64) {
    let (first, width) = Histogram::cell_range(Histogram::cell(quantile as u64));
    (first as f64, (first + (width - 1)) as f64)
}

/// Latencies of several histograms, added up.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(into = "Filled<u64>", from = "Filled<u64>")]
pub(crate) struct Pool {
    cells: Vec<u64>,
    total: u64,
    max: u64,
}

impl Pool {
    /// Adds a histogram.
    pub(crate) fn add(&mut self, part: &Histogram) {
        let filled = &part.cells[..=Histogram::cell(part.max)];
        self.reach(filled.len());
        for (sum, count) in self.cells.iter_mut().zip(filled) {
            *sum += u64::from(*count);
            self.total += u64::from(*count);
        }
        self.max = self.max.max(part.max);
    }

    fn reach(&mut self, cells: usize) {
        if self.cells.len() < cells {
            self.cells.resize(cells, 0);
        }
    }

    /// Adds another pool.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.reach(other.cells.len());
        self.cells.iter_mut().zip(&other.cells).for_each(|(sum, count)| *sum += count);
        self.total += other.total;
        self.max = self.max.max(other.max);
    }

    /// Largest latency [ticks].
    pub(crate) fn max(&self) -> u64 {
        self.max
    }

    /// The filled cells: (middle of the cell [ticks], number of latencies in it).
    pub(crate) fn filled(&self) -> impl Iterator<Item = (f64, u64)> {
        self.cells.iter().enumerate().filter(|(_, count)| **count > 0).map(|(cell, count)| {
            let (first, width) = Histogram::cell_range(cell);
            (first as f64 + (width - 1) as f64 / 2.0, *count)
        })
    }

    /// The quantiles `shares` (in rising order) [ticks], interpolated within a cell. `None` without latencies.
    pub(crate) fn quantiles<const N: usize>(&self, shares: [f64; N]) -> Option<[f64; N]> {
        if self.total == 0 {
            return None;
        }
        let mut found = [self.max as f64; N];
        let (mut seen, mut next) = (0.0, 0);
        for (cell, count) in self.cells.iter().enumerate().filter(|(_, count)| **count > 0) {
            let (first, width) = Histogram::cell_range(cell);
            while next < N && shares[next] * self.total as f64 <= seen + *count as f64 {
                let within = (shares[next] * self.total as f64 - seen) / *count as f64;
                found[next] = (first as f64 + within * width as f64).min(self.max as f64);
                next += 1;
            }
            seen += *count as f64;
        }
        Some(found)
    }
}

/// Unused lists of one kind from any thread, in limited number, so that one replication reuses the memory of another.
/// New memory pages for each replication would take a noticeable part of the time of a short one (measured on figure 7
/// as a whole: tests/sim/speed.rs).
#[derive(Debug)]
pub(crate) struct Spare<T> {
    kept: Mutex<Vec<Vec<T>>>,
    most: usize,
}

impl<T> Spare<T> {
    pub(crate) const fn new(most: usize) -> Self {
        Self { kept: Mutex::new(Vec::new()), most }
    }

    /// Takes a list; its content is as it was when it was returned.
    pub(crate) fn take(&self) -> Option<Vec<T>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Returns a list with the content that the next user expects.
    pub(crate) fn keep(&self, list: Vec<T>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < self.most {
            kept.push(list);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_lies_in_its_cell() {
        let mut histogram = Histogram::default();
        for ticks in (0..2000).chain([4095, 4096, 4097, 3_730_000, 1 << 40, (1 << 40) + 12_345, u64::MAX]) {
            histogram.cells.fill(0);
            histogram.add(ticks);
            let cell = histogram.cells.iter().position(|count| *count == 1).unwrap();
            let (first, width) = Histogram::cell_range(cell);
            assert!(first <= ticks && ticks - first < width, "{ticks} in {first}+{width}");
            assert!(width == 1 || width as f64 / first as f64 <= 1.0 / 256.0);
        }
    }

    /// The memory that a dropped histogram leaves for reuse is empty.
    #[test]
    fn what_a_histogram_leaves_is_empty() {
        for latest in [0, 77, 1 << 20, u64::MAX] {
            let mut full = Histogram::default();
            (0..3000).chain([latest]).for_each(|ticks| full.add(ticks));
            drop(full);
            let many: Vec<Histogram> = (0..50).map(|_| Histogram::default()).collect();
            assert!(many.iter().all(|one| one.max == 0 && one.cells.iter().all(|count| *count == 0)));
        }
    }

    #[test]
    fn quantiles_are_within_a_cell_of_the_sorted_sample() {
        let mut histogram = Histogram::default();
        let values: Vec<u64> = (1..=100_000_u64).map(|i| i * i).collect();
        values.iter().for_each(|v| histogram.add(*v));
        let shares = [0.1, 0.5, 0.9, 0.999, 1.0];
        let mut pool = Pool::default();
        pool.add(&histogram);
        for (got, share) in pool.quantiles(shares).unwrap().iter().zip(shares) {
            let want = values[(share * 1e5) as usize - 1] as f64;
            assert!((got / want - 1.0).abs() < 0.004, "{share}: {got} {want}");
        }
        assert_eq!(Pool::default().quantiles([0.5]), None);
    }
}
