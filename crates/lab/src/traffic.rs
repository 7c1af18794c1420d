//! [`OfferedTraffic`]: what arrives, before any host: load over time by source, how its bursts even out, frame sizes.

use netcliff_core::traffic::{Arrivals, OnOff};
use netcliff_core::{Figure, Point, Unsupported};
use netcliff_sim::offered_bytes;
use netcliff_stats::hurst::Hurst;
use serde::Serialize;

/// Slices of a series whose Hurst parameter is estimated: ten octaves, of which five hold a line.
const HURST_SLICES: usize = 1 << 14;
/// Independent series, as many as the replications of a simulation.
const HURST_SERIES: u64 = 10;
/// Octave from which dependence is taken for long: shorter ones have that within an ON period or a batch.
const FIRST_OCTAVE: u32 = 4;
/// Slices that are drawn.
const DRAWN_SLICES: usize = 200;
/// Sources drawn one by one at most.
const MOST_DRAWN: u32 = 8;
/// Packets of a slice at least, on average, for [`OfferedTraffic::usual_slice_s`].
const PACKETS_A_SLICE: f64 = 20.0;

/// What a traffic offers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OfferedTraffic {
    /// Width of a slice (s).
    pub slice_s: f64,
    /// Bits a second of frames in each slice, by source, then of all together; one entry where the sources are one or too many.
    pub sources: Vec<Vec<f64>>,
    /// Bits a second of frames in each slice, as they come to the host.
    pub all: Vec<f64>,
    /// Hurst parameter by aggregated variance, with its interval. `None` if counts do not vary.
    pub hurst_aggregated_variance: Option<Figure>,
    /// Hurst parameter by Haar wavelets, with its interval. `None` if counts do not vary.
    pub hurst_wavelets: Option<Figure>,
    /// What theory says of it (Taqqu, Willinger and Sherman 1997). `None` where it says nothing.
    pub hurst_theory: Option<f64>,
    /// Slices of each series that the Hurst parameter was estimated of, and how many series.
    pub hurst_slices: usize,
    /// See `hurst_slices`.
    pub hurst_series: u64,
    /// Frame sizes (bytes) with their shares of the frames, rising. Empty while a file has not been read.
    pub sizes: Vec<(u32, f64)>,
    /// Mean frame (bytes). `None` while a file has not been read.
    pub mean_bytes: Option<f64>,
}

impl OfferedTraffic {
    /// A slice for this load (s): a round time in which some tens of packets come.
    pub fn usual_slice_s(point: &Point) -> f64 {
        let mean_s = PACKETS_A_SLICE / point.rate_pps().unwrap_or(1.0);
        10_f64.powf(mean_s.log10().ceil())
    }

    /// Of a point's traffic.
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

/// Each source of its own; empty where there are not several, or too many to draw.
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

/// H of the sum of many sources: (3 - alpha)/2 by the heavier tail of their periods without a cut-off, 1/2 by independent gaps.
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

    /// Seed 7: 99 % intervals of Poisson arrivals have one half, of batches of eight too.
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

    /// Seed 7: heavy-tailed periods keep their bursts over decades of time, though eight sources in seconds are below the limit of theory;
    /// with a variance they do not.
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

    /// The sizes are shares of one with the stated mean.
    #[test]
    fn sizes_are_a_distribution() {
        let found = offered("poisson", 50e3);
        let sum: f64 = found.sizes.iter().map(|(_, share)| share).sum();
        let mean: f64 = found.sizes.iter().map(|(bytes, share)| f64::from(*bytes) * share).sum();
        assert!((sum - 1.0).abs() < 1e-9 && (mean - 557.0).abs() < 1e-6, "{sum} {mean}");
        assert!(found.sizes.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }
}
