//! The measurements of Linux's lib/dim (dim.c and net_dim.c), with its integer arithmetic and names. The decisions are
//! made by [`netcliff_core::net_dim`].

use netcliff_core::net_dim::{Compared, EVENTS, SIGNIFICANT_PERCENT, Walk};

/// Counters at one instant.
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

/// Kernel's struct dim: the state of the algorithm, and the sample at the start of the present measurement.
#[derive(Debug, Clone)]
pub(crate) struct NetDim {
    walk: Walk,
    previous: Stats,
    start: Option<Sample>,
}

impl NetDim {
    /// Starts in the parked state at profile `index`, like a zeroed struct dim.
    pub(crate) fn new(index: usize) -> Self {
        Self { walk: Walk::parked(index), previous: Stats::default(), start: None }
    }

    /// Kernel's net_dim. Returns the new profile index if this sample ends a measurement and the index changes.
    pub(crate) fn sample(&mut self, end: Sample) -> Option<usize> {
        let Some(start) = self.start else {
            self.start = Some(end);
            return None;
        };
        if end.events - start.events < EVENTS || end.micros == start.micros {
            return None;
        }
        let (before, current) = (self.walk.index(), stats(&start, &end));
        if self.walk.decide(|| compare(&current, &self.previous)) {
            self.previous = current;
        }
        if self.walk.index() != before {
            // DIM_APPLY_NEW_PROFILE, then DIM_START_MEASURE: the next sample is the new start.
            self.start = None;
            return Some(self.walk.index());
        }
        self.start = Some(end);
        None
    }
}

/// Kernel's dim_calc_stats: rates between two samples.
fn stats(start: &Sample, end: &Sample) -> Stats {
    let per_ms = |count: u64| (count * 1000).div_ceil(end.micros - start.micros);
    Stats {
        packets: per_ms(end.packets - start.packets),
        bytes: per_ms(end.bytes - start.bytes),
        events: per_ms(EVENTS),
    }
}

/// Kernel's IS_SIGNIFICANT_DIFF.
fn significant(value: u64, reference: u64) -> bool {
    reference != 0 && 100 * value.abs_diff(reference) / reference > SIGNIFICANT_PERCENT
}

/// Kernel's net_dim_stats_compare: compares bytes first, then packets, then events (fewer are better).
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
        dim.walk.index()
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
}
