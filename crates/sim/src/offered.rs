//! [`offered_bytes`]: bytes that arrive in each slice of time, without a host.

use netcliff_core::{Point, Unsupported};

use crate::clock::Clock;
use crate::source::{self, Source};

/// Returns the bytes of frames that arrive in each of `slices` slices of `slice_s` seconds, in `replication` under
/// `seed`. The packets are the same as under every scheme.
///
/// # Errors
/// The traffic cannot be simulated.
pub fn offered_bytes(
    point: &Point,
    seed: u64,
    replication: u64,
    slice_s: f64,
    slices: usize,
) -> Result<Vec<f64>, Unsupported> {
    source::supports(&point.host, &point.traffic, Some(point.load))?;
    let length_s = slice_s * slices as f64;
    let packets = point.rate_pps().unwrap_or(1.0) * length_s;
    let clock = Clock::of(point, packets as u64);
    let slice = clock.ticks(slice_s);
    let mut source = Source::new(point, clock, seed, replication);
    let mut bytes = vec![0.0; slices];
    let mut now = 0_u64;
    loop {
        let block = source.next_block();
        for (gap, frame) in block.gaps.iter().zip(block.bytes) {
            now += gap;
            let Some(place) = bytes.get_mut((now as f64 / slice) as usize) else { return Ok(bytes) };
            *place += f64::from(*frame);
        }
    }
}

#[cfg(test)]
mod tests {
    use netcliff_core::{Host, Scheme, Traffic};

    use super::*;

    /// 64-byte frames at 100 kpps, one every 10 us: 100 frames in each millisecond, wherever the first gap falls.
    #[test]
    fn constant_arrivals_fill_slices_evenly() {
        let traffic = Traffic { arrivals: "constant".parse().unwrap(), ..Traffic::default() };
        let point = Point { traffic, ..Point::poisson(Host::pentium4_2530mhz(), Scheme::Ideal, 100e3) };
        let found = offered_bytes(&point, 1, 0, 1e-3, 50).unwrap();
        assert_eq!(found.len(), 50);
        assert!(found.iter().all(|bytes| (bytes / 64.0 - 100.0).abs() <= 1.0), "{found:?}");
    }

    /// Seed 1: the sum over all slices is the load within four standard errors.
    #[test]
    fn the_load_is_in_the_slices() {
        let traffic = Traffic { size: "imix".parse().unwrap(), ..Traffic::default() };
        let point = Point { traffic, ..Point::poisson(Host::pentium4_2530mhz(), Scheme::Ideal, 100e3) };
        let sum: f64 = offered_bytes(&point, 1, 0, 1e-3, 2000).unwrap().iter().sum();
        let mean = point.traffic.size.mean_bytes().unwrap();
        let error = 4.0 * (1.0 + 2.0_f64).sqrt() / 200e3_f64.sqrt();
        assert!((sum / (200e3 * mean) - 1.0).abs() < error, "{sum}");
        let beyond = Point {
            traffic: Traffic { arrivals: "onoff".parse().unwrap(), ..Traffic::default() },
            ..point.at_pps(2e6)
        };
        assert!(offered_bytes(&beyond, 1, 0, 1e-3, 10).is_err());
    }
}
