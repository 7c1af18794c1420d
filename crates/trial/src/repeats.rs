//! Statistics over the repeats of a test: the precision of a mean, by which [`Repeats`] decides whether there are
//! enough repeats, and medians of the CPU shares of both ends' hosts.

use netcliff_core::cpus::{CpuRow, ExactRow};
use netcliff_core::repeats::{Known, Repeats};
use netcliff_host::cpu::CpuSplit;
use netcliff_host::cpu::system::SystemShares;

use netcliff_stats::{CONFIDENCE, mean};

/// Half width of the mean's confidence interval, relative to the mean; `None` for fewer than two values, or if the
/// interval is unbounded.
pub fn half_width(values: &[f64]) -> Option<f64> {
    let mean = mean(values)?;
    let ends = mean.interval?;
    Some((ends.high - ends.low) / 2.0 / mean.value.abs()).filter(|width| width.is_finite())
}

/// Precision that the mean of `figure` has reached, computed from its values in the repeats.
pub fn known(figure: &str, values: &[f64], repeats: &Repeats) -> Known {
    Known {
        figure: figure.to_owned(),
        half_width: half_width(values),
        confidence: CONFIDENCE,
        repeats: values.len() as u32,
        asked: repeats.precision,
    }
}

/// Name of a group of figures in JSON, and how they were measured.
type Method = (&'static str, &'static str);

/// CPU of the near end's host by ticks.
pub const SYSTEM: Method = ("system", "/proc/stat: sampled by the timer tick");
/// CPU of the far end's host by ticks.
pub const FAR_SYSTEM: Method = ("far system", "the far host's /proc/stat over its own windows, a round trip apart");
/// CPU of the near end's host by the exact meter.
pub const EXACT: Method = ("exact", "eBPF at the kernel's transitions: exclusive of each other");
/// CPU of the far end's host by the exact meter.
pub const FAR_EXACT: Method = ("far exact", "eBPF on the far host, over its own windows; the application is the agent");

/// A method in the form used by reports.
pub fn method((name, method): Method) -> (String, String) {
    (name.to_owned(), method.to_owned())
}

/// Medians, over the repeats, of the CPU shares of one host by ticks.
pub fn by_ticks<'a>(shares: impl Iterator<Item = &'a SystemShares>) -> Vec<CpuRow> {
    CpuRow::medians(shares.map(SystemShares::row))
}

/// Medians, over the repeats, of the CPU shares of one host by the exact meter.
pub fn exactly<'a>(splits: impl Iterator<Item = &'a CpuSplit>) -> Vec<ExactRow> {
    ExactRow::medians(splits.map(exact))
}

fn exact(split: &CpuSplit) -> ExactRow {
    let known = |share: Option<f64>| share.unwrap_or(0.0);
    let shares = &split.shares;
    ExactRow {
        cpu: split.cpu,
        application: known(shares.application),
        softirq: known(shares.protocol) + known(shares.transmit) + known(shares.softirq_other),
        interrupt: known(shares.interrupt),
        other: known(shares.other) + known(shares.ksoftirqd) + known(shares.unaccounted),
        idle: known(shares.idle),
        overhead: known(split.overhead_share),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_half_width_is_students() {
        // Mean 10, deviation 1, five values: 2.776 / sqrt(5) / 10.
        let values = [9.0, 9.0, 10.0, 11.0, 11.0];
        let width = half_width(&values).expect("five values");
        assert!((width - 2.776_445 / 5f64.sqrt() / 10.0).abs() < 1e-6, "{width}");
        assert_eq!((half_width(&[1.0]), half_width(&[]), half_width(&[0.0, 0.0])), (None, None, None));
        let known = known("goodput_bps", &values, &Repeats::new(5, Some(0.1), None).expect("it fits"));
        assert!(known.shortfall().is_some_and(|said| said.contains("12.4")) && known.repeats == 5);
    }
}
