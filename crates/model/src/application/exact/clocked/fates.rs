//! Computes what happens to packets: how many of the served packets the socket takes or drops, and, when a full ring
//! refuses an arrival, how many of the packets in the ring the socket will take.

use super::period::{Brings, Rows};
use super::{Clocked, RESOLVED};
use crate::application::exact::budget::Budget;
use crate::queue::uniform::Mixture;

/// Expected numbers of packets whose service ends during a given time.
#[derive(Default)]
pub struct Fates {
    /// Packets that the socket takes.
    pub taken: f64,
    /// Packets that the socket drops.
    pub dropped: f64,
    /// Number of packets that a packet leaves behind in the ring, summed over the packets that the socket takes.
    pub behind: f64,
}

impl Clocked {
    /// Computes the fates of packets whose service ends during the times `spent` (s, by state). `drops`: the socket may
    /// be full.
    pub fn fates(&self, spent: &[f64], drops: bool) -> Fates {
        let (width, most) = (self.rows.width(), self.rows.most);
        let mut fates = Fates::default();
        for service in self.rows.moves.iter().filter(|one| one.brings == Brings::Packet) {
            let row = &spent[service.from * width..(service.from + 1) * width];
            let (switching, working) = self.rows.parts(row);
            let full = |times: &[f64]| if drops { times.get(most).copied().unwrap_or(0.0) } else { 0.0 };
            let dropped = service.rate * (full(switching) + full(working));
            let taken = service.rate * row.iter().sum::<f64>() - dropped;
            fates.dropped += dropped;
            fates.taken += taken;
            fates.behind += taken * (self.packets[service.from] - 1) as f64;
        }
        fates
    }

    /// Returns true if a full ring refuses enough packets to influence the result.
    pub fn is_often_full(&self) -> bool {
        let full: f64 = self.full.iter().map(|row| self.after_tick[*row]).sum();
        full * self.packets.last().copied().unwrap_or(0) as f64 > RESOLVED
    }

    /// Expected number of packets in the ring that the socket will take later, summed over the packets that a full ring
    /// refuses in one period. From each refusal on, the packets in the ring are followed, without new arrivals, until
    /// they are served. `None` if the budget does not suffice, or if too much of the probability would reach (packets,
    /// phase) pairs that are left out.
    pub fn refused(&self, mixture: &Mixture, start: &[f64], spent: &[f64], budget: &Budget) -> Option<f64> {
        if !self.is_often_full() {
            return Some(0.0);
        }
        let moves = self.rows.moves.iter().filter(|one| self.packets[one.to] <= self.packets[one.from]).copied();
        let Rows { free, most, most_switching, pace, .. } = &self.rows;
        let (most, most_switching, pace) = (*most, *most_switching, *pace);
        let alone = Rows { free: free.clone(), moves: moves.collect(), most, most_switching, pace };
        let copies = (&self.full[..], self.arrival_pps);
        let mut later = self.rows.pass_of_copies(&alone, mixture, start, copies, budget)?;
        let width = self.rows.width();
        let full_s: f64 = self.full.iter().map(|row| spent[row * width..(row + 1) * width].iter().sum::<f64>()).sum();
        let all = self.arrival_pps * full_s;
        let (mut taken, mut astray) = (0.0, 0.0);
        loop {
            taken += self.fates(&later.spent, true).taken;
            astray += self.astray(&alone, &later.spent);
            let mut next = self.tick(&later.ended);
            let rows = next.chunks_mut(width).zip(&self.packets);
            rows.filter(|(_, packets)| **packets == 0).for_each(|(row, _)| row.fill(0.0));
            if next.iter().sum::<f64>() < RESOLVED * all {
                return (astray < RESOLVED * all).then_some(taken);
            }
            later = alone.pass(mixture, &next, true, budget)?;
        }
    }

    /// Expected number of jumps to (packets, phase) pairs that are left out.
    fn astray(&self, rows: &Rows, spent: &[f64]) -> f64 {
        let width = self.rows.width();
        let jumps = rows.moves.iter().filter(|one| one.is_astray);
        jumps.map(|one| one.rate * spent[one.from * width..(one.from + 1) * width].iter().sum::<f64>()).sum()
    }
}
