//! Which curves nobody would see, because another lies on them along their whole length.

use super::{Plot, Series};

/// Curves that are nearer than this are one to the eye [share of the axis; 2 of 290 pixels].
const NEAR: f64 = 0.007;

/// For each series the later one that lies on all of it; None where some of it can be seen.
pub fn hidden(plot: &Plot) -> Vec<Option<usize>> {
    let lines: Vec<Vec<(f64, f64)>> = plot.series.iter().map(|series| places(plot, series)).collect();
    let by = |below: usize| {
        let above = (below + 1..lines.len()).rev().find(|above| {
            !plot.series[*above].guide && !plot.series[*above].look.area && lies_under(&lines[below], &lines[*above])
        });
        above.filter(|_| !plot.series[below].guide && !plot.series[below].look.area)
    };
    (0..lines.len()).map(by).collect()
}

/// Where a drawn line goes, as shares of the axes; empty for points, which leave the line below to be seen.
fn places(plot: &Plot, series: &Series) -> Vec<(f64, f64)> {
    if series.look.line.is_none() {
        return Vec::new();
    }
    series.dots.iter().filter_map(|dot| plot.x.place(dot.x).zip(plot.y.place(dot.y))).collect()
}

fn lies_under(below: &[(f64, f64)], above: &[(f64, f64)]) -> bool {
    below.len() > 1 && below.iter().all(|(x, y)| height(above, *x).is_some_and(|other| (other - y).abs() < NEAR))
}

/// Height of a line at `x`; None beyond its ends.
fn height(line: &[(f64, f64)], x: f64) -> Option<f64> {
    let two = line.windows(2).find(|two| two[0].0 - 1e-9 <= x && x <= two[1].0 + 1e-9)?;
    let ((x0, y0), (x1, y1)) = (two[0], two[1]);
    let share = if x1 > x0 { ((x - x0) / (x1 - x0)).clamp(0.0, 1.0) } else { 0.0 };
    Some(y0 + share * (y1 - y0))
}
