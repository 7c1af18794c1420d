//! When repeats are enough: the statistics behind [`Repeats`].

use netcliff_core::repeats::{Known, Repeats};

use crate::stats::{CONFIDENCE, mean};

/// Half width of the interval of the mean over the mean; None for fewer than two values, or where nothing bounds it.
pub fn half_width(values: &[f64]) -> Option<f64> {
    let mean = mean(values)?;
    let ends = mean.interval?;
    Some((ends.high - ends.low) / 2.0 / mean.value.abs()).filter(|width| width.is_finite())
}

/// How well `figure` is known by the values of the repeats.
pub fn known(figure: &str, values: &[f64], repeats: &Repeats) -> Known {
    Known {
        figure: figure.to_owned(),
        half_width: half_width(values),
        confidence: CONFIDENCE,
        repeats: values.len() as u32,
        asked: repeats.precision,
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
