//! [`OfferedTraffic`]: the arriving traffic, before any host: load over time by source, burstiness over time scales,
//! and frame sizes.

use netcliff_core::traffic::{Arrivals, OnOff};
use netcliff_core::{Figure, Point, Unsupported};
use netcliff_sim::offered_bytes;
use netcliff_stats::hurst::Hurst;
use serde::Serialize;

/// Number of slices in a series for estimating the Hurst parameter: ten octaves, five of which fit a line.
const HURST_SLICES: usize = 1 << 14;
/// Number of independent series, as many as a simulation has replications.
const HURST_SERIES: u64 = 10;
/// First octave that counts for long-range dependence. Shorter ones show the dependence within an ON period or a batch.
const FIRST_OCTAVE: u32 = 4;
/// Number of slices in a drawn series.
const DRAWN_SLICES: usize = 200;
/// Largest number of sources that are drawn separately.
const MOST_DRAWN: u32 = 8;
/// Smallest mean number of packets in a slice, for [`OfferedTraffic::usual_slice_s`].
const PACKETS_A_SLICE: f64 = 20.0;

/// The traffic that arrives.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OfferedTraffic {
    /// Width of a slice (s).
    pub slice_s: f64,
    /// Rate of frames in each slice (bit/s), by source. Empty if there is only one source, or too many to draw.
    pub sources: Vec<Vec<f64>>,
    /// Rate of frames in each slice (bit/s), of all sources together.
    pub all: Vec<f64>,
    /// Hurst parameter by aggregated variance, with its interval. `None` if counts do not vary.
    pub hurst_aggregated_variance: Option<Figure>,
    /// Hurst parameter by Haar wavelets, with its interval. `None` if counts do not vary.
    pub hurst_wavelets: Option<Figure>,
    /// Hurst parameter by theory: 1/2 for Poisson arrivals and batches; for ON/OFF sources without a cut-off, from
    /// their tails (Taqqu, Willinger and Sherman 1997). `None` for other arrivals: it is not computed.
    pub hurst_theory: Option<f64>,
    /// Number of slices in each series for the Hurst parameter.
    pub hurst_slices: usize,
    /// Number of series for the Hurst parameter.
    pub hurst_series: u64,
    /// Frame sizes (bytes) in ascending order, with their shares of the frames. Empty if their file has not been read.
    pub sizes: Vec<(u32, f64)>,
    /// Mean frame size (bytes). `None` if the file has not been read.
    pub mean_bytes: Option<f64>,
}

impl OfferedTraffic {
    /// Default slice width for a point (s): the power of ten in which 20 to 200 packets arrive.
    pub fn usual_slice_s(point: &Point) -> f64 {
        let mean_s = PACKETS_A_SLICE / point.rate_pps().unwrap_or(1.0);
        10_f64.powf(mean_s.log10().ceil())
    }

    /// Simulates the traffic of a point.
    ///
    /// # Errors
    /// The traffic cannot be simulated.
    pub fn of(point: &Point, seed: u64, slice_s: f64, confidence: f64) -> Result<Self, Unsupported> {
        let bps = |bytes: Vec<f64>| bytes.into_iter().map(|bytes| 8.0 * bytes / slice_s).collect::<Vec<f64>>();
        let drawn =
            |point: &Point, replication| offered_bytes(point, seed, replication, slice_s, DRAWN_SLICES).map(bps);
        let series: Result<Vec<Vec<f64>>, Unsupported> = (0..HURST_SERIES)
            .map(|replication| offered_bytes(point, seed, replication, slice_s, HURST_SLICES))
            .collect();
        let hurst = Hurst::of(&series?, FIRST_OCTAVE, confidence);
        let mut sizes = point.traffic.size.mixture().unwrap_or_default();
        sizes.sort_by_key(|(bytes, _)| *bytes);
        Ok(Self {
            slice_s,
            sources: alone(point).iter().zip(0..).map(|(one, number)| drawn(one, number)).collect::<Result<_, _>>()?,
            all: drawn(point, 0)?,
            hurst_aggregated_variance: hurst.map(|hurst| hurst.aggregated_variance),
            hurst_wavelets: hurst.map(|hurst| hurst.wavelets),
            hurst_theory: theory(&point.traffic.arrivals),
            hurst_slices: HURST_SLICES,
            hurst_series: HURST_SERIES,
            sizes,
            mean_bytes: point.traffic.size.mean_bytes(),
        })
    }
}

/// Each source as a point of its own. Empty if there are not several sources, or too many to draw.
fn alone(point: &Point) -> Vec<Point> {
    let (Arrivals::OnOff(shape), Some(pps)) = (&point.traffic.arrivals, point.rate_pps()) else {
        return Vec::new();
    };
    if !(2..=MOST_DRAWN).contains(&shape.sources) {
        return Vec::new();
    }
    let mut one = point.at_pps(pps / f64::from(shape.sources));
    one.traffic.arrivals = Arrivals::OnOff(OnOff { sources: 1, superpose: true, ..shape.clone() });
    vec![one; shape.sources as usize]
}

/// Hurst parameter of the sum of many sources: (3 - alpha)/2 for the heavier tail of their periods if there is no
/// cut-off, 1/2 for independent gaps. `None` for other arrivals.
fn theory(arrivals: &Arrivals) -> Option<f64> {
    match arrivals {
        Arrivals::Poisson | Arrivals::Batch { .. } => Some(0.5),
        Arrivals::OnOff(OnOff { cutoff_s: None, alpha_on, alpha_off, .. }) => {
            let alpha = alpha_on.min(*alpha_off);
            Some(if alpha < 2.0 { 0.5 * (3.0 - alpha) } else { 0.5 })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use netcliff_core::{Host, Scheme, Traffic};

    use super::*;

    fn offered(arrivals: &str, pps: f64) -> OfferedTraffic {
        let traffic = Traffic {
            arrivals: arrivals.parse().unwrap(),
            size: "mci1998-like".parse().unwrap(),
            ..Traffic::default()
        };
        let point = Point { traffic, ..Point::poisson(Host::pentium4_2530mhz(), Scheme::Ideal, pps) };
        OfferedTraffic::of(&point, 7, OfferedTraffic::usual_slice_s(&point), 0.99).unwrap()
    }

    fn contains(figure: Option<Figure>, value: f64) -> bool {
        figure.and_then(|figure| figure.interval).is_some_and(|ends| ends.low <= value && value <= ends.high)
    }

    /// Seed 7: the 99 % intervals contain 1/2, for Poisson arrivals and for batches of eight.
    #[test]
    fn independent_arrivals_have_a_half() {
        for arrivals in ["poisson", "batch:size=8"] {
            let found = offered(arrivals, 50e3);
            assert!(
                contains(found.hurst_aggregated_variance, 0.5),
                "{arrivals}: {:?}",
                found.hurst_aggregated_variance
            );
            assert!(contains(found.hurst_wavelets, 0.5) && found.hurst_theory == Some(0.5), "{arrivals}");
            assert!(found.sources.is_empty() && found.all.len() == DRAWN_SLICES);
        }
    }

    /// Seed 7: with heavy-tailed periods, bursts persist over decades of time (eight sources over seconds stay below
    /// the theoretical limit). With a finite variance they do not.
    #[test]
    fn heavy_tails_are_long_range_dependent() {
        let heavy = offered("onoff", 20e3);
        assert_eq!((heavy.hurst_theory, heavy.sources.len()), (Some(0.85), 8));
        for figure in [heavy.hurst_aggregated_variance, heavy.hurst_wavelets] {
            let ends = figure.unwrap().interval.unwrap();
            assert!(ends.low > 0.5 && figure.unwrap().value < 0.95, "{figure:?}");
        }
        let light = offered("onoff:alpha_on=3,alpha_off=3", 20e3);
        for figure in [light.hurst_aggregated_variance, light.hurst_wavelets] {
            assert!(figure.unwrap().value < 0.6, "{figure:?}");
        }
        assert_eq!(offered("constant", 20e3).hurst_theory, None);
    }

    /// The shares of the sizes add up to 1 and have the stated mean.
    #[test]
    fn sizes_are_a_distribution() {
        let found = offered("poisson", 50e3);
        let sum: f64 = found.sizes.iter().map(|(_, share)| share).sum();
        let mean: f64 = found.sizes.iter().map(|(bytes, share)| f64::from(*bytes) * share).sum();
        assert!((sum - 1.0).abs() < 1e-9 && (mean - 557.0).abs() < 1e-6, "{sum} {mean}");
        assert!(found.sizes.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }
}
