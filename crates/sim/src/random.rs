//! Random numbers: one stream for each (seed, purpose, replication), drawn in blocks that vectorise.
//!
//! The generator is xoshiro256++ in [`LANES`] independent lanes. Logarithm and cosine are plain IEEE arithmetic, so a
//! stream is the same on every machine, whatever instructions the compiler chose.

use netcliff_core::math::{self, SplitMix64, ln_of_normal as ln};
use netcliff_core::wide::{Width, Work};

use crate::clock::{SHORT_TICKS, to_short_ticks, to_ticks};

/// Number of independent generators side by side.
pub(crate) const LANES: usize = 8;
/// Numbers per block.
pub(crate) const BLOCK: usize = 256;

/// The purpose of a stream. Every (purpose, replication) has its own stream, so that schemes get the same packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Purpose {
    /// Gaps between arrivals.
    Gap = 1,
    /// Frame sizes.
    Size = 2,
    /// Protocol times.
    Protocol = 3,
    /// Application times.
    Application = 4,
    /// Interrupt times.
    Interrupt = 5,
    /// Poll overheads.
    Poll = 6,
    /// Wake-ups.
    Wakeup = 7,
    /// Context switches.
    Switch = 8,
    /// States of a modulated or ON/OFF source.
    State = 10,
    /// Deliveries of interrupts.
    Delivery = 9,
    /// Selection of the packets that remain in a thinned process.
    Thinning = 11,
    /// Frame sizes of a process that is thinned.
    SkippedSize = 12,
    /// Gaps between transmissions that no packet causes.
    Transmission = 13,
    /// Transmit completions.
    Completion = 14,
    /// Selection of the application to which a packet goes.
    Socket = 15,
    /// Start of the scheduler's tick within its period.
    SchedulerTick = 16,
    /// Start of the timer of `polling` and `napi-2007` within its period.
    PollTimer = 17,
    /// Lengths of pauses.
    Pause = 18,
    /// Times between pauses.
    Up = 19,
    /// Number of packets that the first packet finds in the simpler queue of a control variate.
    Simpler = 20,
    /// Time that an interrupted application needs to continue.
    Resume = 21,
    /// Time from when a poll of `soft-timers` is due to the next state of the kernel.
    SoftTimer = 22,
}

/// A stream of 64-bit numbers.
#[derive(Debug, Clone)]
pub(crate) struct Stream {
    state: [[u64; LANES]; 4],
    width: Width,
}

impl Stream {
    /// The stream of `purpose` in `replication` under `seed`.
    pub(crate) fn new(seed: u64, purpose: Purpose, replication: u64) -> Self {
        let purposed = SplitMix64(seed).draw() ^ (purpose as u64).wrapping_mul(0xd1b5_4a32_d192_ed03);
        let key = SplitMix64(purposed).draw() ^ replication.wrapping_mul(0x8cb9_2ba7_2f3d_8dd7);
        let mut key = SplitMix64(key);
        let mut state = [[0; LANES]; 4];
        for lane in 0..LANES {
            for word in &mut state {
                word[lane] = key.draw();
            }
        }
        Self { state, width: Width::detect() }
    }

    /// The next number of every lane (xoshiro256++, Blackman and Vigna 2021).
    #[inline(always)]
    fn step(&mut self) -> [u64; LANES] {
        let [a, b, c, d] = &mut self.state;
        let mut out = [0; LANES];
        for lane in 0..LANES {
            out[lane] = a[lane].wrapping_add(d[lane]).rotate_left(23).wrapping_add(a[lane]);
            let shifted = b[lane] << 17;
            c[lane] ^= a[lane];
            d[lane] ^= b[lane];
            b[lane] ^= c[lane];
            a[lane] ^= d[lane];
            c[lane] ^= shifted;
            d[lane] = d[lane].rotate_left(45);
        }
        out
    }

    /// Fills a block with numbers uniform in (0, 1].
    pub(crate) fn uniform(&mut self, out: &mut [f64; BLOCK]) {
        for chunk in out.as_chunks_mut::<LANES>().0 {
            let bits = self.step();
            for lane in 0..LANES {
                chunk[lane] = unit(bits[lane]);
            }
        }
    }

    /// Fills a block with exponentials of mean 1.
    pub(crate) fn exponential(&mut self, out: &mut [f64; BLOCK]) {
        self.width.run(Exponentials { stream: self, out });
    }

    /// Fills a block with exponentials of mean `mean_ticks` in whole ticks: the numbers of [`Stream::exponential`],
    /// each multiplied and rounded by [`to_ticks`].
    pub(crate) fn exponential_ticks(&mut self, mean_ticks: f64, out: &mut [u64; BLOCK]) {
        self.width.run(ExponentialTicks { stream: self, mean_ticks, out });
    }

    #[inline(always)]
    fn step_exponential(&mut self) -> [f64; LANES] {
        let bits = self.step();
        let mut out = [0.0; LANES];
        for lane in 0..LANES {
            out[lane] = -ln(unit(bits[lane]));
        }
        out
    }

    /// Fills a block with standard normals (Box and Muller).
    pub(crate) fn normal(&mut self, out: &mut [f64; BLOCK]) {
        for chunk in out.as_chunks_mut::<LANES>().0 {
            let (radius, angle) = (self.step(), self.step());
            for lane in 0..LANES {
                let length = (-2.0 * ln(unit(radius[lane]))).sqrt();
                chunk[lane] = length * math::cos(std::f64::consts::TAU * unit(angle[lane]));
            }
        }
    }
}

/// Returns single numbers from a stream's blocks.
#[derive(Debug)]
pub(crate) struct Singles {
    stream: Stream,
    exponential: bool,
    block: [f64; BLOCK],
    next: usize,
}

impl Singles {
    /// Makes single numbers: exponential with mean 1 or, if not `exponential`, uniform in (0, 1].
    pub(crate) fn new(stream: Stream, exponential: bool) -> Self {
        Self { stream, exponential, block: [0.0; BLOCK], next: BLOCK }
    }

    pub(crate) fn next(&mut self) -> f64 {
        if self.next == BLOCK {
            self.next = 0;
            if self.exponential {
                self.stream.exponential(&mut self.block);
            } else {
                self.stream.uniform(&mut self.block);
            }
        }
        self.next += 1;
        self.block[self.next - 1]
    }
}

struct Exponentials<'a> {
    stream: &'a mut Stream,
    out: &'a mut [f64; BLOCK],
}

impl Work for Exponentials<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for chunk in self.out.as_chunks_mut::<LANES>().0 {
            *chunk = self.stream.step_exponential();
        }
    }
}

struct ExponentialTicks<'a> {
    stream: &'a mut Stream,
    mean_ticks: f64,
    out: &'a mut [u64; BLOCK],
}

impl Work for ExponentialTicks<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        // No exponential exceeds 52 ln 2 = 36.04, so that below this mean the short conversion works for all numbers.
        let short = self.mean_ticks * 37.0 < SHORT_TICKS;
        for chunk in self.out.as_chunks_mut::<LANES>().0 {
            let units = self.stream.step_exponential();
            for lane in 0..LANES {
                let ticks = units[lane] * self.mean_ticks;
                chunk[lane] = if short { to_short_ticks(ticks) } else { to_ticks(ticks) };
            }
        }
    }
}

/// Converts 52 bits to a number in (0, 1].
#[inline(always)]
fn unit(bits: u64) -> f64 {
    2.0 - f64::from_bits(0x3ff0_0000_0000_0000 | (bits >> 12))
}

#[cfg(test)]
mod tests;
