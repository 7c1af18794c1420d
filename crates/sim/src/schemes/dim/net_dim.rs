//! The decisions of lib/dim (dim.c and net_dim.c), in its integer arithmetic and under its names.

/// Events between two decisions (DIM_NEVENTS).
const EVENTS: u64 = 64;
/// Entries of a profile.
const PROFILES: usize = 5;

/// Counters at an instant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    pub micros: u64,
    pub events: u64,
    pub packets: u64,
    pub bytes: u64,
}

/// Rates between two samples, each per millisecond and rounded up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Stats {
    packets: u64,
    bytes: u64,
    events: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tune {
    ParkingOnTop,
    ParkingTired,
    GoingRight,
    GoingLeft,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compared {
    Better,
    Worse,
    Same,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Stepped,
    TooTired,
    OnEdge,
}

/// struct dim.
#[derive(Debug, Clone)]
pub(crate) struct NetDim {
    index: usize,
    tune: Tune,
    steps_right: u32,
    steps_left: u32,
    tired: u32,
    previous: Stats,
    start: Option<Sample>,
}

impl NetDim {
    /// Parked at `index`, as a zeroed struct dim is.
    pub(crate) fn new(index: usize) -> Self {
        Self {
            index,
            tune: Tune::ParkingOnTop,
            steps_right: 0,
            steps_left: 0,
            tired: 0,
            previous: Stats::default(),
            start: None,
        }
    }

    /// net_dim: the new index if this sample ends a measurement that changes it.
    pub(crate) fn sample(&mut self, end: Sample) -> Option<usize> {
        let Some(start) = self.start else {
            self.start = Some(end);
            return None;
        };
        if end.events - start.events < EVENTS || end.micros == start.micros {
            return None;
        }
        if self.decide(stats(&start, &end)) {
            // DIM_APPLY_NEW_PROFILE, then DIM_START_MEASURE: the next sample is the new start.
            self.start = None;
            return Some(self.index);
        }
        self.start = Some(end);
        None
    }

    /// net_dim_decision: true if the index changed.
    fn decide(&mut self, current: Stats) -> bool {
        let (tune_before, index_before) = (self.tune, self.index);
        match self.tune {
            Tune::ParkingOnTop => {
                if compare(&current, &self.previous) != Compared::Same {
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
                if compare(&current, &self.previous) != Compared::Better {
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
        if tune_before != Tune::ParkingOnTop || self.tune != Tune::ParkingOnTop {
            self.previous = current;
        }
        self.index != index_before
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

/// dim_calc_stats.
fn stats(start: &Sample, end: &Sample) -> Stats {
    let per_ms = |count: u64| (count * 1000).div_ceil(end.micros - start.micros);
    Stats {
        packets: per_ms(end.packets - start.packets),
        bytes: per_ms(end.bytes - start.bytes),
        events: per_ms(EVENTS),
    }
}

/// IS_SIGNIFICANT_DIFF.
fn significant(value: u64, reference: u64) -> bool {
    reference != 0 && 100 * value.abs_diff(reference) / reference > 10
}

/// net_dim_stats_compare: more bytes, then more packets, then fewer events.
fn compare(current: &Stats, previous: &Stats) -> Compared {
    let more = |now: u64, before: u64| if now > before { Compared::Better } else { Compared::Worse };
    if previous.bytes == 0 {
        return if current.bytes > 0 { Compared::Better } else { Compared::Same };
    }
    if significant(current.bytes, previous.bytes) {
        return more(current.bytes, previous.bytes);
    }
    if previous.packets == 0 {
        return if current.packets > 0 { Compared::Better } else { Compared::Same };
    }
    if significant(current.packets, previous.packets) {
        return more(current.packets, previous.packets);
    }
    if significant(current.events, previous.events) {
        return more(previous.events, current.events);
    }
    Compared::Same
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs one measurement: 64 events that take `micros` and bring `packets` of 100 bytes.
    fn measure(dim: &mut NetDim, at: &mut Sample, micros: u64, packets: u64) -> usize {
        at.micros += micros;
        at.events += EVENTS;
        at.packets += packets;
        at.bytes += packets * 100;
        dim.sample(*at);
        if dim.start.is_none() {
            dim.sample(*at);
        }
        dim.index
    }

    fn started(index: usize) -> (NetDim, Sample) {
        let mut dim = NetDim::new(index);
        let at = Sample::default();
        assert_eq!(dim.sample(at), None);
        (dim, at)
    }

    #[test]
    fn a_first_measurement_leaves_the_start_to_the_left() {
        let (mut dim, mut at) = started(1);
        assert_eq!(measure(&mut dim, &mut at, 1000, 1000), 0);
        assert_eq!(dim.tune, Tune::GoingLeft);
    }

    #[test]
    fn ever_better_walks_to_the_edge_and_parks() {
        let (mut dim, mut at) = started(0);
        let walk: Vec<usize> = (1..8).map(|n| measure(&mut dim, &mut at, 1000, 1000 << n)).collect();
        assert_eq!(walk, [1, 2, 3, 4, 4, 3, 2]);
    }

    #[test]
    fn no_difference_parks_after_a_turn_and_fewer_events_are_better() {
        let same = Stats { packets: 100, bytes: 1000, events: 64 };
        assert_eq!(compare(&same, &same), Compared::Same);
        assert_eq!(compare(&Stats { events: 57, ..same }, &same), Compared::Same);
        assert_eq!(compare(&Stats { events: 50, ..same }, &same), Compared::Better);
        assert_eq!(compare(&Stats { bytes: 1110, ..same }, &same), Compared::Better);
        assert_eq!(compare(&Stats { bytes: 1109, ..same }, &same), Compared::Same);
        assert_eq!(compare(&Stats { packets: 80, ..same }, &same), Compared::Worse);
    }

    #[test]
    fn ten_steps_without_a_top_are_tiring() {
        let (mut dim, mut at) = started(2);
        // Ever worse: it turns at every measurement and never makes two steps one way.
        for n in 0..20 {
            measure(&mut dim, &mut at, 1000, 1 << (30 - n));
            if dim.tune == Tune::ParkingTired {
                assert_eq!((dim.tired, n), (10, 10));
                return;
            }
        }
        panic!("never tired: {dim:?}");
    }
}
