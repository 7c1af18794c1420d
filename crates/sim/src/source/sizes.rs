//! Frame sizes: drawn from a mixture by Walker's alias method, or read from a capture ([`Around`]).

use std::sync::Arc;

use netcliff_core::capture::Captured;
use netcliff_core::{Capture, FrameSizes};

use crate::random::{BLOCK, Stream};

/// A stream of frame sizes.
#[derive(Debug)]
pub(super) enum Sizes {
    /// The sizes of a capture, packet by packet.
    Trace(Around),
    /// One size; no random numbers are drawn.
    Fixed(u32),
    /// A mixture with its alias table: (bytes, share of the cell with this size, bytes of the alias).
    Mixture { stream: Box<Stream>, cells: Vec<(u32, f64, u32)> },
}

impl Sizes {
    /// The sizes of a traffic. A size file that was not read counts as 64 bytes (such a point is refused earlier).
    pub(super) fn new(sizes: &FrameSizes, stream: Stream, replication: u64) -> Self {
        if let FrameSizes::Trace(Some(capture)) = sizes {
            return Self::Trace(Around::new(Arc::clone(capture), replication));
        }
        let mixture = sizes.mixture().unwrap_or_else(|| vec![(64, 1.0)]);
        match mixture.as_slice() {
            [(bytes, _)] => Self::Fixed(*bytes),
            _ => Self::Mixture { stream: Box::new(stream), cells: alias_table(&mixture) },
        }
    }

    /// The size of all packets. `None` if there are several sizes.
    pub(super) fn fixed(&self) -> Option<u32> {
        match self {
            Self::Fixed(bytes) => Some(*bytes),
            _ => None,
        }
    }

    pub(super) fn fill(&mut self, out: &mut [u32; BLOCK]) {
        match self {
            Self::Trace(around) => out.iter_mut().for_each(|bytes| *bytes = around.next().bytes),
            Self::Fixed(bytes) => out.fill(*bytes),
            Self::Mixture { stream, cells } => {
                let mut units = [0.0; BLOCK];
                stream.uniform(&mut units);
                for (bytes, unit) in out.iter_mut().zip(&units) {
                    let place = (1.0 - unit) * cells.len() as f64;
                    let cell = (place as usize).min(cells.len() - 1);
                    let (own, kept, alias) = cells[cell];
                    *bytes = if place - (cell as f64) < kept { own } else { alias };
                }
            }
        }
    }
}

/// A capture that is read repeatedly. Replication 0 starts at its beginning, the other replications at evenly spread
/// positions (multiples of the golden ratio). Sizes and gaps of a replication start at the same position.
#[derive(Debug)]
pub(super) struct Around {
    capture: Arc<Capture>,
    next: usize,
}

impl Around {
    pub(super) fn new(capture: Arc<Capture>, replication: u64) -> Self {
        const GOLDEN: f64 = 0.618_033_988_749_895;
        let place = (replication as f64 * GOLDEN).fract() * capture.packets.len() as f64;
        Self { next: place as usize % capture.packets.len(), capture }
    }

    pub(super) fn next(&mut self) -> Captured {
        let packet = self.capture.packets[self.next];
        self.next = (self.next + 1) % self.capture.packets.len();
        packet
    }
}

/// Builds the alias table by Vose's method.
fn alias_table(mixture: &[(u32, f64)]) -> Vec<(u32, f64, u32)> {
    let count = mixture.len() as f64;
    let mut cells: Vec<(u32, f64, u32)> =
        mixture.iter().map(|(bytes, share)| (*bytes, share * count, *bytes)).collect();
    let (mut small, mut large): (Vec<usize>, Vec<usize>) = (0..cells.len()).partition(|&i| cells[i].1 < 1.0);
    while let (Some(&poor), Some(&rich)) = (small.last(), large.last()) {
        small.pop();
        cells[poor].2 = cells[rich].0;
        cells[rich].1 -= 1.0 - cells[poor].1;
        if cells[rich].1 < 1.0 {
            large.pop();
            small.push(rich);
        }
    }
    for left in small.into_iter().chain(large) {
        cells[left].1 = 1.0;
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Purpose;

    /// Seed 5, 256 000 draws: each share of IMIX, and the mean of the 1998 mixture, are within 4 standard errors.
    #[test]
    fn sizes_come_in_their_shares() {
        let draws = |sizes: &FrameSizes| {
            let mut sizes = Sizes::new(sizes, Stream::new(5, Purpose::Size, 0), 0);
            let mut all = Vec::new();
            let mut block = [0; BLOCK];
            for _ in 0..1000 {
                sizes.fill(&mut block);
                all.extend_from_slice(&block);
            }
            all
        };
        let imix = draws(&FrameSizes::Imix);
        let n = imix.len() as f64;
        for (bytes, share) in FrameSizes::Imix.mixture().unwrap() {
            let seen = imix.iter().filter(|b| **b == bytes).count() as f64 / n;
            assert!((seen - share).abs() < 4.0 * (share * (1.0 - share) / n).sqrt(), "{bytes}: {seen}");
        }
        let mci = draws(&FrameSizes::Mci1998Like);
        let mean = mci.iter().map(|b| f64::from(*b)).sum::<f64>() / n;
        assert!((mean - 557.0).abs() < 4.0 * 560.0 / n.sqrt(), "{mean}");
    }
}
