//! [`Sockets`]: draws the application to which each packet goes, with the shares of the applications, from a separate
//! random stream.

use netcliff_core::host::OneApplication;

use crate::random::{BLOCK, Purpose, Stream};

/// Assigns each packet to an application.
#[derive(Debug)]
pub(super) struct Sockets {
    stream: Stream,
    /// Cumulative shares of the applications.
    sums: Vec<f64>,
    uniforms: Box<[f64; BLOCK]>,
}

impl Sockets {
    /// Prepares the draws; `None` with at most one application.
    pub(super) fn new(each: &[OneApplication], seed: u64, replication: u64) -> Option<Self> {
        let sums = each.iter().scan(0.0, |sum, one| {
            *sum += one.share;
            Some(*sum)
        });
        (each.len() > 1).then(|| Self {
            stream: Stream::new(seed, Purpose::Socket, replication),
            sums: sums.collect(),
            uniforms: Box::new([0.0; BLOCK]),
        })
    }

    /// Fills a block with the numbers of applications.
    pub(super) fn fill(&mut self, out: &mut [u16; BLOCK]) {
        self.stream.uniform(&mut self.uniforms);
        let last = self.sums.len() - 1;
        for (socket, uniform) in out.iter_mut().zip(self.uniforms.iter()) {
            // Random numbers are above 0, so that a share of 0 gets no packets. Rounding may leave the last sum below
            // 1.
            *socket = self.sums.partition_point(|sum| sum < uniform).min(last) as u16;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seed 3, 512 000 packets: each share is within 4 standard errors, and a share of 0 gets no packets.
    #[test]
    fn packets_are_spread_by_the_shares() {
        let shares = [0.6, 0.0, 0.3, 0.1];
        let each: Vec<OneApplication> =
            shares.iter().map(|share| OneApplication { share: *share, time_s: 0.0, buffer: 1 }).collect();
        let mut sockets = Sockets::new(&each, 3, 0).unwrap();
        let (mut counts, mut block) = ([0_u32; 4], [0; BLOCK]);
        let count = f64::from(2000 * BLOCK as u32);
        for _ in 0..2000 {
            sockets.fill(&mut block);
            block.iter().for_each(|socket| counts[usize::from(*socket)] += 1);
        }
        for (seen, share) in counts.into_iter().zip(shares) {
            assert!((f64::from(seen) / count - share).abs() <= 4.0 * (share * (1.0 - share) / count).sqrt());
        }
    }
}
