//! [`Series`]: counts in each slice of time.

use netcliff_core::{CpuShares, Figure, Slice};

use crate::clock::Clock;
use crate::tally::{ACCOUNTS, Account};

/// Slices of equal width, from time zero.
#[derive(Debug)]
pub(super) struct Series {
    width: u64,
    slices: Vec<Slice>,
    /// For each slice: CPU time by account, and the integral of the packets in the ring [packet ticks].
    cpu: Vec<[u64; ACCOUNTS]>,
    area: Vec<u128>,
    present: u64,
    since: u64,
    /// The end of the run [ticks]. `None` while it is not known.
    end: Option<u64>,
}

impl Series {
    pub(super) fn new(width: u64) -> Self {
        Self { width, slices: Vec::new(), cpu: Vec::new(), area: Vec::new(), present: 0, since: 0, end: None }
    }

    /// Returns the slice of an instant. Events after the end go to an additional slice, which is dropped.
    pub(super) fn slice(&mut self, at: u64) -> &mut Slice {
        let index = self.index(at);
        &mut self.slices[index]
    }

    /// Records that from `at` on `present` packets are in the ring.
    pub(super) fn ring(&mut self, at: u64, present: u64) {
        self.reach(at);
        self.present = present;
        let most = &mut self.slice(at).ring_max;
        *most = present.max(*most);
    }

    /// Records that the CPU was on `account`.
    pub(super) fn spent(&mut self, account: Account, from: u64, to: u64) {
        for (slice, ticks) in self.parts(from, to) {
            self.index(slice * self.width);
            self.cpu[slice as usize][account as usize] += ticks;
        }
    }

    /// Ends the run at `at`: later events do not count.
    pub(super) fn end(&mut self, at: u64) {
        self.reach(at);
        self.end = Some(at);
    }

    fn index(&mut self, at: u64) -> usize {
        // After the end of the run, all events go to one additional slice.
        let index = self.end.map_or(at / self.width, |end| end / self.width + 1) as usize;
        while self.slices.len() <= index {
            // The slice starts with the present number of packets in the ring.
            self.slices.push(Slice { ring_max: self.present, ..Slice::default() });
            self.cpu.push([0; ACCOUNTS]);
            self.area.push(0);
        }
        index
    }

    /// Extends the integral of the packets in the ring, whose number has not changed, up to `at`.
    fn reach(&mut self, at: u64) {
        for (slice, ticks) in self.parts(self.since, at) {
            self.index(slice * self.width);
            self.area[slice as usize] += u128::from(ticks) * u128::from(self.present);
        }
        self.since = at;
    }

    /// Splits a time into (slice, ticks in it). Empty after the end.
    fn parts(&self, from: u64, to: u64) -> Vec<(u64, u64)> {
        if self.end.is_some() {
            return Vec::new();
        }
        let width = self.width;
        (from / width..=to / width)
            .map(|slice| (slice, to.min((slice + 1) * width) - from.max(slice * width)))
            .filter(|(_, ticks)| *ticks > 0)
            .collect()
    }

    /// The slices up to the end of the run.
    pub(super) fn slices(mut self, clock: Clock) -> Vec<Slice> {
        let end = self.end.unwrap_or(self.since);
        let count = end.div_ceil(self.width) as usize;
        self.slices.truncate(count);
        let pauses = self.cpu.iter().any(|cpu| cpu[Account::Paused as usize] > 0);
        for (nth, slice) in self.slices.iter_mut().enumerate() {
            let (from, to) = (nth as u64 * self.width, end.min((nth as u64 + 1) * self.width));
            let ticks = (to - from) as f64;
            let share = |account: Account| Some(Figure::exact(self.cpu[nth][account as usize] as f64 / ticks));
            (slice.from_s, slice.to_s) = (clock.seconds(from as f64), clock.seconds(to as f64));
            slice.ring_mean = self.area[nth] as f64 / ticks;
            slice.cpu = CpuShares {
                interrupt: share(Account::Interrupt),
                poll: share(Account::Poll),
                protocol: share(Account::Protocol),
                application: share(Account::Application),
                paused: share(Account::Paused).filter(|_| pauses),
                available: share(Account::Available),
            };
        }
        self.slices
    }
}
