//! [`Walk`]: how lib/dim moves between its profiles (Linux: lib/dim/dim.c, net_dim.c), without its measurements. Names
//! are the kernel's.

use crate::scheme::DimProfile;

/// Events between two decisions (DIM_NEVENTS).
pub const EVENTS: u64 = 64;
/// Entries of a profile (NET_DIM_PARAMS_NUM_PROFILES).
pub const PROFILES: usize = 5;
/// Difference above which two values count as different, in whole percent (IS_SIGNIFICANT_DIFF).
pub const SIGNIFICANT_PERCENT: u64 = 10;

/// NET_DIM_RX_EQE_PROFILES: (usecs, frames).
const EQE: [(u64, u64); PROFILES] = [(1, 256), (8, 256), (64, 256), (128, 256), (256, 256)];
/// NET_DIM_RX_CQE_PROFILES: (usecs, frames).
const CQE: [(u64, u64); PROFILES] = [(2, 256), (8, 128), (16, 64), (32, 64), (64, 64)];

/// Timer (s) and frames of a profile's entry, 0 to 4. The timer starts at the first packet with EQE, at the last packet
/// with CQE.
pub fn entry(profile: DimProfile, index: usize) -> (f64, u64) {
    let (usecs, frames) = if profile == DimProfile::Eqe { EQE[index] } else { CQE[index] };
    (usecs as f64 * 1e-6, frames)
}

/// Result of comparing a measurement with the previous one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compared {
    /// The measurement has more bytes than the previous one; with equal bytes more packets; with equal packets fewer
    /// events.
    Better,
    /// The opposite of `Better`.
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

/// State of the algorithm: the kernel's struct dim without its samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Walk {
    index: usize,
    tune: Tune,
    steps_right: u32,
    steps_left: u32,
    tired: u32,
}

impl Walk {
    /// Initial state: parked on top at `index`, as a zeroed struct dim.
    pub fn parked(index: usize) -> Self {
        Self { index, tune: Tune::ParkingOnTop, steps_right: 0, steps_left: 0, tired: 0 }
    }

    /// Index of the profile's present entry.
    pub fn index(&self) -> usize {
        self.index
    }

    /// True in DIM_PARKING_ON_TOP: the algorithm found a best entry and stays until a measurement differs.
    pub fn is_on_top(&self) -> bool {
        self.tune == Tune::ParkingOnTop
    }

    /// True in DIM_PARKING_TIRED: the algorithm found no best entry and stays for a number of measurements.
    pub fn is_tired(&self) -> bool {
        self.tune == Tune::ParkingTired
    }

    /// Number of steps since the algorithm last parked; in DIM_PARKING_TIRED: measurements left until it moves again.
    pub fn steps(&self) -> u32 {
        self.tired
    }

    /// Makes the decision of the kernel's net_dim_decision after a measurement. `compare` compares this measurement
    /// with the previous one; it is not called in DIM_PARKING_TIRED. Returns true if the next measurement is to be
    /// compared with this one.
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
        // Every measurement is worse: the algorithm turns each time and never makes two steps in one direction.
        let mut dim = Walk::parked(2);
        let tired = (0..20).position(|_| {
            dim.decide(|| Compared::Worse);
            dim.is_tired()
        });
        assert_eq!((tired, dim.steps()), (Some(10), 10));
    }
}
