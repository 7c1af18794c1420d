//! Arrivals: burstiness by time scale ([`dispersion`]), and the load at which bursts overflow a queue
//! ([`bursts_overflow_pps`]).

use netcliff_core::learned::Dispersion;

use crate::slice::Count;

/// Time scales, as multiples of a counting interval.
const MULTIPLES: [usize; 10] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];
/// Minimum number of intervals for a time scale.
const FEWEST: usize = 10;
/// Relative width of the load interval at which the search ends.
const WIDTH: f64 = 1e-3;
/// Time over which the load counts as constant (s): slower changes are treated as changes of the load, not as bursts.
const ONE_LOAD_S: f64 = 1.0;

/// Returns the index of dispersion (variance / mean of the number of packets) at the time scales that the runs of
/// counts cover, the shortest first. A run has no gaps.
pub fn dispersion(runs: &[&[Count]]) -> Vec<Dispersion> {
    let mut lengths: Vec<f64> = runs.iter().flat_map(|run| run.iter().map(|count| count.seconds)).collect();
    let each_s = crate::slice::middle(&mut lengths);
    MULTIPLES.into_iter().filter_map(|multiple| at_scale(runs, multiple, each_s)).collect()
}

fn at_scale(runs: &[&[Count]], multiple: usize, each_s: f64) -> Option<Dispersion> {
    let scale_s = multiple as f64 * each_s;
    let chunks = runs.iter().flat_map(|run| run.chunks_exact(multiple));
    // Scale to the nominal length, because an interval that was read late contains more packets.
    let at_nominal = |chunk: &[Count]| {
        let (seconds, packets) = chunk.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.seconds, sum.1 + one.packets));
        (seconds > 0.0).then(|| packets * scale_s / seconds)
    };
    let counts: Vec<f64> = chunks.filter_map(at_nominal).collect();
    let n = counts.len();
    let mean = counts.iter().sum::<f64>() / n.max(1) as f64;
    if n < FEWEST || mean <= 0.0 {
        return None;
    }
    let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
    Some(Dispersion { scale_s, index: variance / mean, intervals: n as u64 })
}

/// Searches for the load (packets/s) at which a queue for `room` packets, served at `served_pps`, drops the share
/// `loss` of the packets. The counted arrivals are accelerated, like a trace that is replayed faster; each second of
/// them is scaled to the same load. At most `served_pps`; `None` without packets.
pub fn bursts_overflow_pps(runs: &[&[Count]], served_pps: f64, room: f64, loss: f64) -> Option<f64> {
    let windows: Vec<&[Count]> =
        runs.iter().flat_map(|run| seconds_of(run)).filter(|window| sum(window).1 > 0.0).collect();
    if windows.is_empty() || served_pps <= 0.0 {
        return None;
    }
    let too_high = |load_pps: f64| {
        let lost = windows.iter().map(|window| overflow(window, load_pps, served_pps, room));
        let all: f64 = windows.iter().map(|window| sum(window).1).sum();
        lost.sum::<f64>() > loss * all
    };
    let (mut low, mut high) = (0.0, served_pps);
    if !too_high(high) {
        return Some(high);
    }
    while high - low > WIDTH * served_pps {
        let middle = 0.5 * (low + high);
        if too_high(middle) { high = middle } else { low = middle }
    }
    Some(low)
}

fn sum(window: &[Count]) -> (f64, f64) {
    window.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.seconds, sum.1 + one.packets))
}

/// Splits a run into pieces of about a second; the last piece may be shorter.
fn seconds_of(run: &[Count]) -> Vec<&[Count]> {
    let mut pieces = Vec::new();
    let (mut from, mut seconds) = (0, 0.0);
    for (at, count) in run.iter().enumerate() {
        seconds += count.seconds;
        if seconds >= ONE_LOAD_S {
            pieces.push(&run[from..=at]);
            (from, seconds) = (at + 1, 0.0);
        }
    }
    if from < run.len() {
        pieces.push(&run[from..]);
    }
    pieces
}

/// Returns the packets lost by an initially empty queue if a window of counts is scaled to this load.
fn overflow(window: &[Count], load_pps: f64, served_pps: f64, room: f64) -> f64 {
    let (seconds, packets) = sum(window);
    let pressed = packets / seconds / load_pps;
    let (mut waiting, mut lost) = (0.0, 0.0);
    for count in window {
        waiting = (waiting + count.packets - served_pps * count.seconds * pressed).max(0.0);
        let over: f64 = (waiting - room).max(0.0);
        lost += over;
        waiting -= over;
    }
    lost
}

#[cfg(test)]
mod tests {
    use super::*;
    use netcliff_core::math::SplitMix64;

    /// Makes counts in `n` intervals of `each_s`, of Poisson batches of `batch` packets at `pps`.
    fn batches(n: usize, each_s: f64, pps: f64, batch: f64, seed: u64) -> Vec<Count> {
        let mut chance = SplitMix64(seed);
        let mut next_s = 0.0;
        let interval = |at: usize| {
            let end_s = (at + 1) as f64 * each_s;
            let mut packets = 0.0;
            while next_s < end_s {
                packets += batch;
                next_s -= chance.uniform().ln() * batch / pps;
            }
            Count { seconds: each_s, packets }
        };
        (0..n).map(interval).collect()
    }

    /// At least 2000 intervals per scale: the standard error of an index is 1/sqrt(1000), 3.2 %. A limit of five
    /// standard errors gives false alarms with a probability of 6e-7 each.
    #[test]
    fn the_index_of_batches_is_their_size_at_every_scale() {
        for batch in [1.0, 16.0] {
            let run = batches(40_000, 1e-2, 1e4, batch, 7);
            let found = dispersion(&[&run]);
            for one in found.iter().filter(|one| one.intervals >= 2000) {
                assert!((one.index / batch - 1.0).abs() < 0.16, "{batch}: {one:?}");
            }
            assert_eq!(found.len(), MULTIPLES.len());
            assert!((found[0].scale_s - 1e-2).abs() < 1e-12);
        }
        assert!(dispersion(&[&[]]).is_empty() && dispersion(&[&[Count { seconds: 1.0, packets: 0.0 }; 20]]).is_empty());
    }

    #[test]
    fn bursts_need_room() {
        let smooth = vec![Count { seconds: 1e-2, packets: 1000.0 }; 1000];
        assert_eq!(bursts_overflow_pps(&[&smooth], 2e5, 100.0, 1e-4), Some(2e5), "what is smooth fits up to all");
        // Every tenth interval has the packets of ten intervals: 1000 at once.
        let burst = |at: usize| Count { seconds: 1e-3, packets: if at.is_multiple_of(10) { 1000.0 } else { 0.0 } };
        let bursty: Vec<Count> = (0..10_000).map(burst).collect();
        let roomy = bursts_overflow_pps(&[&bursty], 2e5, 2000.0, 1e-4).unwrap();
        assert!(roomy > 1.9e5, "{roomy}");
        // With room for 500 packets, the other 500 must be served while the burst arrives. At a mean load of L
        // packets/s, the burst arrives within 100/L s, and 2e5 packets/s are served.
        let tight = bursts_overflow_pps(&[&bursty], 2e5, 500.0, 1e-4).unwrap();
        assert!((tight / 4e4 - 1.0).abs() < 0.02, "{tight}");
        assert_eq!(bursts_overflow_pps(&[&[]], 2e5, 500.0, 1e-4), None);
    }

    /// A load that doubles from one second to the next counts as two loads, not as a burst.
    #[test]
    fn slow_changes_are_no_bursts() {
        let slow =
            |at: usize| Count { seconds: 1e-2, packets: if (at / 100).is_multiple_of(2) { 500.0 } else { 1000.0 } };
        let run: Vec<Count> = (0..2000).map(slow).collect();
        assert_eq!(bursts_overflow_pps(&[&run], 2e5, 100.0, 1e-4), Some(2e5));
    }
}
