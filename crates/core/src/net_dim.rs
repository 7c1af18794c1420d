//! [`Walk`]: how lib/dim walks along its profiles (Linux: lib/dim/dim.c, net_dim.c), without what it measures. Names are
//! the kernel's.

use crate::scheme::DimProfile;

/// Events between two decisions (DIM_NEVENTS).
pub const EVENTS: u64 = 64;
/// Entries of a profile.
pub const PROFILES: usize = 5;
/// Percent by which a figure must differ to count: more than this, in whole percent (IS_SIGNIFICANT_DIFF).
pub const SIGNIFICANT_PERCENT: u64 = 10;

/// NET_DIM_RX_EQE_PROFILES: usecs, frames.
const EQE: [(u64, u64); PROFILES] = [(1, 256), (8, 256), (64, 256), (128, 256), (256, 256)];
/// NET_DIM_RX_CQE_PROFILES.
const CQE: [(u64, u64); PROFILES] = [(2, 256), (8, 128), (16, 64), (32, 64), (64, 64)];

/// Timer (s) and frames of a profile's entry, 0 to 4. The timer counts from the first packet with EQE, from the last with CQE.
pub fn entry(profile: DimProfile, index: usize) -> (f64, u64) {
    let (usecs, frames) = if profile == DimProfile::Eqe { EQE[index] } else { CQE[index] };
    (usecs as f64 * 1e-6, frames)
}

/// A measurement against the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compared {
    /// More bytes, or else more packets, or else fewer events.
    Better,
    /// The opposite.
    Worse,
    /// No significant difference.
    Same,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Tune {
    ParkingOnTop,
    ParkingTired,
    GoingRight,
    GoingLeft,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Stepped,
    TooTired,
    OnEdge,
}

/// struct dim without its samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Walk {
    index: usize,
    tune: Tune,
    steps_right: u32,
    steps_left: u32,
    tired: u32,
}

impl Walk {
    /// Parked at `index`, as a zeroed struct dim is.
    pub fn parked(index: usize) -> Self {
        Self { index, tune: Tune::ParkingOnTop, steps_right: 0, steps_left: 0, tired: 0 }
    }

    /// The entry of the profile that holds.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Parked where it was best: stays until a measurement differs.
    pub fn is_on_top(&self) -> bool {
        self.tune == Tune::ParkingOnTop
    }

    /// Parked for want of a best: stays for so many measurements.
    pub fn is_tired(&self) -> bool {
        self.tune == Tune::ParkingTired
    }

    /// Steps since it last parked.
    pub fn steps(&self) -> u32 {
        self.tired
    }

    /// net_dim_decision on a measurement; `compare` is asked unless it is tired. True if the measurement is the one that the
    /// next is compared with.
    pub fn decide(&mut self, compare: impl FnOnce() -> Compared) -> bool {
        let before = self.tune;
        match self.tune {
            Tune::ParkingOnTop => {
                if compare() != Compared::Same {
                    self.exit_parking();
                }
            }
            Tune::ParkingTired => {
                self.tired -= 1;
                if self.tired == 0 {
                    self.exit_parking();
                }
            }
            Tune::GoingRight | Tune::GoingLeft => {
                if compare() != Compared::Better {
                    self.turn();
                }
                if self.on_top() {
                    self.park_on_top();
                } else {
                    match self.step() {
                        Step::OnEdge => self.park_on_top(),
                        Step::TooTired => self.park_tired(),
                        Step::Stepped => {}
                    }
                }
            }
        }
        before != Tune::ParkingOnTop || self.tune != Tune::ParkingOnTop
    }

    fn exit_parking(&mut self) {
        self.tune = if self.index > 0 { Tune::GoingLeft } else { Tune::GoingRight };
        self.step();
    }

    fn turn(&mut self) {
        match self.tune {
            Tune::GoingRight => (self.tune, self.steps_left) = (Tune::GoingLeft, 0),
            Tune::GoingLeft => (self.tune, self.steps_right) = (Tune::GoingRight, 0),
            Tune::ParkingOnTop | Tune::ParkingTired => {}
        }
    }

    fn on_top(&self) -> bool {
        match self.tune {
            Tune::ParkingOnTop | Tune::ParkingTired => true,
            Tune::GoingRight => self.steps_left > 1 && self.steps_right == 1,
            Tune::GoingLeft => self.steps_right > 1 && self.steps_left == 1,
        }
    }

    fn park_on_top(&mut self) {
        (self.steps_right, self.steps_left, self.tired) = (0, 0, 0);
        self.tune = Tune::ParkingOnTop;
    }

    fn park_tired(&mut self) {
        (self.steps_right, self.steps_left) = (0, 0);
        self.tune = Tune::ParkingTired;
    }

    fn step(&mut self) -> Step {
        if self.tired == PROFILES as u32 * 2 {
            return Step::TooTired;
        }
        match self.tune {
            Tune::GoingRight if self.index == PROFILES - 1 => return Step::OnEdge,
            Tune::GoingLeft if self.index == 0 => return Step::OnEdge,
            Tune::GoingRight => (self.index, self.steps_right) = (self.index + 1, self.steps_right + 1),
            Tune::GoingLeft => (self.index, self.steps_left) = (self.index - 1, self.steps_left + 1),
            Tune::ParkingOnTop | Tune::ParkingTired => {}
        }
        self.tired += 1;
        Step::Stepped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(from: usize, compared: &[Compared]) -> Vec<usize> {
        let mut walk = Walk::parked(from);
        let step = |one: &Compared| {
            walk.decide(|| *one);
            walk.index()
        };
        compared.iter().map(step).collect()
    }

    #[test]
    fn ever_better_walks_to_the_edge_and_parks() {
        assert_eq!(walk(0, &[Compared::Better; 7]), [1, 2, 3, 4, 4, 3, 2]);
    }

    #[test]
    fn ten_steps_without_a_top_are_tiring() {
        // Ever worse: it turns at every measurement and never makes two steps one way.
        let mut dim = Walk::parked(2);
        let tired = (0..20).position(|_| {
            dim.decide(|| Compared::Worse);
            dim.is_tired()
        });
        assert_eq!((tired, dim.steps()), (Some(10), 10));
    }
}
