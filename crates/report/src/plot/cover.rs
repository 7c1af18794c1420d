//! Finds curves that are invisible because another curve covers their whole length.

use super::{Plot, Series};

/// Curves that are closer than this look like one curve [share of the axis; 2 of 290 drawing units].
const NEAR: f64 = 0.007;

/// The series in the order of drawing: areas, guide lines, solid lines, dashed lines, points. A line below a dashed
/// line is visible through the gaps.
pub fn order(plot: &Plot) -> Vec<usize> {
    let layer = |index: &usize| {
        let series = &plot.series[*index];
        match (series.look.area, series.guide, series.look.line) {
            (true, ..) => 0,
            (_, true, _) => 1,
            (_, _, Some((0, _))) => 2,
            (_, _, Some(_)) => 3,
            (_, _, None) => 4,
        }
    };
    let mut order: Vec<usize> = (0..plot.series.len()).collect();
    order.sort_by_key(layer);
    order
}

/// For each series, the later series that covers it. `None` if some of it is visible.
pub fn hidden(plot: &Plot) -> Vec<Option<usize>> {
    let lines: Vec<Vec<(f64, f64)>> = plot.series.iter().map(|series| places(plot, series)).collect();
    let order = order(plot);
    let by = |below: usize| {
        let later = order.iter().copied().skip_while(|index| *index != below).skip(1).collect::<Vec<usize>>();
        let above = later.into_iter().rev().find(|above| {
            !plot.series[*above].guide && !plot.series[*above].look.area && lies_under(&lines[below], &lines[*above])
        });
        above.filter(|_| !plot.series[below].guide && !plot.series[below].look.area)
    };
    (0..lines.len()).map(by).collect()
}

/// Places of a drawn line, as shares of the axes. Empty for points, which leave the line below visible.
fn places(plot: &Plot, series: &Series) -> Vec<(f64, f64)> {
    if series.look.line.is_none() {
        return Vec::new();
    }
    series.dots.iter().filter_map(|dot| plot.x.place(dot.x).zip(plot.y.place(dot.y))).collect()
}

fn lies_under(below: &[(f64, f64)], above: &[(f64, f64)]) -> bool {
    below.len() > 1 && below.iter().all(|(x, y)| height(above, *x).is_some_and(|other| (other - y).abs() < NEAR))
}

/// Height of a line at `x`. `None` beyond its ends.
fn height(line: &[(f64, f64)], x: f64) -> Option<f64> {
    let two = line.windows(2).find(|two| two[0].0 - 1e-9 <= x && x <= two[1].0 + 1e-9)?;
    let ((x0, y0), (x1, y1)) = (two[0], two[1]);
    let share = if x1 > x0 { ((x - x0) / (x1 - x0)).clamp(0.0, 1.0) } else { 0.0 };
    Some(y0 + share * (y1 - y0))
}

#[cfg(test)]
mod tests {
    use crate::format::Unit;
    use crate::plot::{Dot, Key, Look, Plot, Scale, Series};

    /// A plot of straight lines, each by its height at 0 and at 1 and its dashes.
    fn plot(lines: &[(f64, f64, usize)]) -> Plot {
        let look = |dash| Look::line(dash, dash, 2.0);
        let series = lines.iter().enumerate().map(|(key, (from, to, dash))| Series {
            key,
            who: String::new(),
            label: None,
            look: look(*dash),
            guide: false,
            dots: vec![Dot::exact(0.0, *from), Dot::exact(1.0, *to)],
        });
        Plot {
            slug: String::new(),
            title: String::new(),
            origin: String::new(),
            words: String::new(),
            remarks: Vec::new(),
            x: Scale::linear("x", Unit::Number, 0.0, 1.0),
            y: Scale::linear("y", Unit::Number, 0.0, 1.0),
            keys: (0..lines.len()).map(|n| Key { name: format!("line {n}"), look: look(0) }).collect(),
            series: series.collect(),
            pointers: Vec::new(),
            levels: Vec::new(),
            stated: Vec::new(),
            forms: Vec::new(),
            notes: Vec::new(),
            empty: String::new(),
        }
    }

    #[test]
    fn a_line_under_another_is_named_and_one_beside_it_is_not() {
        let covered = plot(&[(0.2, 0.8, 0), (0.201, 0.799, 1), (0.2, 0.7, 0)]);
        assert_eq!(super::hidden(&covered), [Some(1), None, None]);
        assert_eq!(covered.entries(), ["line 0 (lies under line 1)", "line 1", "line 2"]);
        assert!(covered.document().contains("opacity=\"0.35\""), "a wider line below");
    }

    #[test]
    fn dashes_lie_on_what_is_drawn_through() {
        assert_eq!(super::order(&plot(&[(0.0, 1.0, 1), (0.0, 1.0, 0)])), [1, 0]);
        assert_eq!(super::hidden(&plot(&[(0.0, 1.0, 1), (0.0, 1.0, 0)])), [None, Some(0)]);
    }
}
