//! The measurements and decisions of `hybrid` and `dim`, implemented a second time: `hybrid` from docs/theory/host.md,
//! `dim` line by line from Linux's lib/dim (dim.c, net_dim.c) and include/linux/dim.h, with its tables.

use netcliff_core::{DimProfile, Host, Hybrid};

/// Measures the packet rate and frame size for `hybrid`, in seconds and bytes.
pub(super) struct RateMeter {
    scheme: Hybrid,
    interrupt_s: f64,
    fixed_s: f64,
    per_byte_s: f64,
    /// Frame sizes of the packets in the present window.
    window: Vec<u32>,
    /// Start of the window (s).
    began: f64,
    /// Moving averages: rate (pps) and frame size (bytes).
    averages: Option<[f64; 2]>,
}

impl RateMeter {
    pub(super) fn new(scheme: &Hybrid, host: &Host) -> Self {
        Self {
            scheme: scheme.clone(),
            interrupt_s: host.interrupt_s,
            fixed_s: host.packet_s(),
            per_byte_s: host.per_byte_s,
            window: Vec::new(),
            began: 0.0,
            averages: None,
        }
    }

    /// Records a packet processed at `now` (s). Returns Some(true) to switch to polling, Some(false) to switch to
    /// interrupts.
    pub(super) fn processed(&mut self, bytes: u32, now: f64) -> Option<bool> {
        self.window.push(bytes);
        if self.window.len() < 64 || now <= self.began {
            return None;
        }
        let count = self.window.len() as f64;
        let sum: f64 = self.window.iter().map(|bytes| f64::from(*bytes)).sum();
        let sample = [count / (now - self.began), sum / count];
        let weight = self.scheme.ewma;
        let average = |old: f64, new: f64| (1.0 - weight) * old + weight * new;
        let averages = match self.averages {
            None => sample,
            Some(old) => [average(old[0], sample[0]), average(old[1], sample[1])],
        };
        (self.averages, self.began) = (Some(averages), now);
        self.window.clear();
        let [rate, size] = averages;
        let up = self.scheme.up_pps.unwrap_or_else(|| self.cliff(size));
        let down = self.scheme.down_pps.unwrap_or(0.9 * up);
        if rate > up { Some(true) } else { (rate < down).then_some(false) }
    }

    /// Eq. (13), with its limit for interrupts that take no time.
    fn cliff(&self, size: f64) -> f64 {
        let mu = 1.0 / (self.fixed_s + self.per_byte_s * size);
        if self.interrupt_s == 0.0 {
            return mu;
        }
        let r = 1.0 / self.interrupt_s;
        r / 2.0 * ((1.0 + 4.0 * mu / r).sqrt() - 1.0)
    }
}

/// struct dim_sample.
#[derive(Clone, Copy, Default)]
pub(super) struct DimSample {
    pub time_us: u64,
    pub pkt_ctr: u64,
    pub byte_ctr: u64,
    pub event_ctr: u64,
}

/// struct dim_stats.
#[derive(Clone, Copy, Default)]
struct DimStats {
    ppms: u64,
    bpms: u64,
    epms: u64,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    StartMeasure,
    MeasureInProgress,
    ApplyNewProfile,
}

#[derive(Clone, Copy, PartialEq)]
enum Tune {
    ParkingOnTop,
    ParkingTired,
    GoingRight,
    GoingLeft,
}

#[derive(PartialEq)]
enum Stats {
    Worse,
    Same,
    Better,
}

enum Step {
    Stepped,
    TooTired,
    OnEdge,
}

/// struct dim.
pub(super) struct DimState {
    state: State,
    prev_stats: DimStats,
    start_sample: DimSample,
    profile_ix: usize,
    tune_state: Tune,
    steps_right: u8,
    steps_left: u8,
    tired: u8,
}

/// Entry `ix` of the profile: timer (us) and number of frames.
pub(super) fn moderation(profile: DimProfile, ix: usize) -> (u64, u64) {
    match profile {
        DimProfile::Eqe => [(1, 256), (8, 256), (64, 256), (128, 256), (256, 256)][ix],
        DimProfile::Cqe => [(2, 256), (8, 128), (16, 64), (32, 64), (64, 64)][ix],
    }
}

/// IS_SIGNIFICANT_DIFF.
fn significant(val: u64, reference: u64) -> bool {
    reference != 0 && 100 * val.abs_diff(reference) / reference > 10
}

/// net_dim_stats_compare.
fn stats_compare(curr: &DimStats, prev: &DimStats) -> Stats {
    if prev.bpms == 0 {
        return if curr.bpms != 0 { Stats::Better } else { Stats::Same };
    }
    if significant(curr.bpms, prev.bpms) {
        return if curr.bpms > prev.bpms { Stats::Better } else { Stats::Worse };
    }
    if prev.ppms == 0 {
        return if curr.ppms != 0 { Stats::Better } else { Stats::Same };
    }
    if significant(curr.ppms, prev.ppms) {
        return if curr.ppms > prev.ppms { Stats::Better } else { Stats::Worse };
    }
    if prev.epms != 0 && significant(curr.epms, prev.epms) {
        return if curr.epms < prev.epms { Stats::Better } else { Stats::Worse };
    }
    Stats::Same
}

impl DimState {
    pub(super) fn new(profile_ix: usize) -> Self {
        Self {
            state: State::StartMeasure,
            prev_stats: DimStats::default(),
            start_sample: DimSample::default(),
            profile_ix,
            tune_state: Tune::ParkingOnTop,
            steps_right: 0,
            steps_left: 0,
            tired: 0,
        }
    }

    /// net_dim and the work that it schedules, done at once. Returns the entry to apply. `None` if it does not change.
    pub(super) fn net_dim(&mut self, end: DimSample) -> Option<usize> {
        if self.state == State::MeasureInProgress {
            if end.event_ctr - self.start_sample.event_ctr < 64 {
                return None;
            }
            // dim_calc_stats
            let start = self.start_sample;
            let delta_us = end.time_us - start.time_us;
            if delta_us == 0 {
                return None;
            }
            let curr = DimStats {
                ppms: ((end.pkt_ctr - start.pkt_ctr) * 1000).div_ceil(delta_us),
                bpms: ((end.byte_ctr - start.byte_ctr) * 1000).div_ceil(delta_us),
                epms: (64 * 1000_u64).div_ceil(delta_us),
            };
            if self.decision(curr) {
                self.state = State::ApplyNewProfile;
            }
        }
        if self.state == State::ApplyNewProfile {
            self.state = State::StartMeasure;
            return Some(self.profile_ix);
        }
        self.start_sample = end;
        self.state = State::MeasureInProgress;
        None
    }

    /// net_dim_decision.
    fn decision(&mut self, curr: DimStats) -> bool {
        let (prev_state, prev_ix) = (self.tune_state, self.profile_ix);
        match prev_state {
            Tune::ParkingOnTop => {
                if stats_compare(&curr, &self.prev_stats) != Stats::Same {
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
                if stats_compare(&curr, &self.prev_stats) != Stats::Better {
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
        if prev_state != Tune::ParkingOnTop || self.tune_state != Tune::ParkingOnTop {
            self.prev_stats = curr;
        }
        self.profile_ix != prev_ix
    }

    fn exit_parking(&mut self) {
        self.tune_state = if self.profile_ix != 0 { Tune::GoingLeft } else { Tune::GoingRight };
        self.step();
    }

    fn on_top(&self) -> bool {
        match self.tune_state {
            Tune::ParkingOnTop | Tune::ParkingTired => true,
            Tune::GoingRight => self.steps_left > 1 && self.steps_right == 1,
            Tune::GoingLeft => self.steps_right > 1 && self.steps_left == 1,
        }
    }

    fn turn(&mut self) {
        match self.tune_state {
            Tune::ParkingOnTop | Tune::ParkingTired => {}
            Tune::GoingRight => (self.tune_state, self.steps_left) = (Tune::GoingLeft, 0),
            Tune::GoingLeft => (self.tune_state, self.steps_right) = (Tune::GoingRight, 0),
        }
    }

    fn park_on_top(&mut self) {
        (self.steps_right, self.steps_left, self.tired) = (0, 0, 0);
        self.tune_state = Tune::ParkingOnTop;
    }

    fn park_tired(&mut self) {
        (self.steps_right, self.steps_left) = (0, 0);
        self.tune_state = Tune::ParkingTired;
    }

    fn step(&mut self) -> Step {
        if self.tired == 10 {
            return Step::TooTired;
        }
        match self.tune_state {
            Tune::ParkingOnTop | Tune::ParkingTired => {}
            Tune::GoingRight => {
                if self.profile_ix == 4 {
                    return Step::OnEdge;
                }
                self.profile_ix += 1;
                self.steps_right += 1;
            }
            Tune::GoingLeft => {
                if self.profile_ix == 0 {
                    return Step::OnEdge;
                }
                self.profile_ix -= 1;
                self.steps_left += 1;
            }
        }
        self.tired += 1;
        Step::Stepped
    }
}
