//! Names next to the ends of the curves, apart from each other.

use super::sheet::Format;
use super::{Plot, Series, text};

/// Smallest distance between two names, as a multiple of the height of their text.
const LEADING: f64 = 1.15;
/// Wider names go into the legend [drawing units].
const WIDEST: f64 = 165.0;
/// Distance from the plot to a name [drawing units].
pub const LEADER: f64 = 16.0;

/// The name at the end of a curve, with the place of the curve's end and the height of the name (0 to 1 of the plot,
/// from below).
#[derive(Debug, Clone, PartialEq)]
pub struct End {
    pub series: usize,
    pub text: String,
    /// The end of the curve, as shares of both axes.
    pub from: (f64, f64),
    /// Height of the middle of the name.
    pub at: f64,
}

/// Width that the names need. `None` if there is no space for them, so that the legend is used.
pub fn width(plot: &Plot, format: Format) -> Option<f64> {
    let named = named(plot);
    let widest = named.iter().map(|(_, name)| text::width(name, format.font())).fold(0.0, f64::max);
    let high = LEADING * format.font() * named.len() as f64;
    let fits = format == Format::Wide && !named.is_empty() && widest <= WIDEST && high <= 0.8 * format.plot_height();
    fits.then_some(text::WIDER * widest)
}

fn named(plot: &Plot) -> Vec<(usize, String)> {
    let name = |(index, series): (usize, &Series)| {
        last(plot, series)?;
        Some((index, series.label.clone()?))
    };
    plot.series.iter().enumerate().filter_map(name).collect()
}

/// The last point inside the plot, as shares of the axes. For an area: the middle between its edges.
fn last(plot: &Plot, series: &Series) -> Option<(f64, f64)> {
    series.dots.iter().rev().find_map(|dot| {
        let x = plot.x.place(dot.x)?;
        if series.look.area {
            let edges = (plot.y.clipped(dot.base), plot.y.clipped(dot.base + dot.y));
            return Some((x, (edges.0 + edges.1) / 2.0));
        }
        Some((x, plot.y.place(dot.y)?))
    })
}

/// The names, each as near to the end of its curve as the others allow.
pub fn placed(plot: &Plot, format: Format) -> Vec<End> {
    let gap = LEADING * format.font() / format.plot_height();
    let end = |(series, text): (usize, String)| {
        let from = last(plot, &plot.series[series])?;
        Some(End { series, text, from, at: from.1 })
    };
    let mut ends: Vec<End> = named(plot).into_iter().filter_map(end).collect();
    ends.sort_by(|a, b| a.from.1.total_cmp(&b.from.1));
    let wanted: Vec<f64> = ends.iter().map(|end| end.from.1).collect();
    for (end, at) in ends.iter_mut().zip(apart(&wanted, gap)) {
        end.at = at;
    }
    ends
}

/// Places in ascending order, at least `gap` apart and within 0 to 1, as close as possible to the wanted ones. Places
/// that would be too close become one block around their mean.
fn apart(wanted: &[f64], gap: f64) -> Vec<f64> {
    // A block: sum of the wanted places, each minus its offset in the block, and their number.
    let mut blocks: Vec<(f64, usize)> = Vec::new();
    let begin = |(sum, count): (f64, usize)| {
        let most = (1.0 - gap / 2.0 - gap * (count - 1) as f64).max(gap / 2.0);
        (sum / count as f64).clamp(gap / 2.0, most)
    };
    for want in wanted {
        blocks.push((*want, 1));
        while let [.., before, last] = blocks[..] {
            if begin(last) >= begin(before) + gap * before.1 as f64 - 1e-12 {
                break;
            }
            blocks.pop();
            let moved = last.0 - gap * (before.1 * last.1) as f64;
            if let Some(end) = blocks.last_mut() {
                *end = (before.0 + moved, before.1 + last.1);
            }
        }
    }
    blocks.into_iter().flat_map(|block| (0..block.1).map(move |n| begin(block) + gap * n as f64)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_apart_and_near_their_curves() {
        for wanted in [vec![0.5, 0.5, 0.5], vec![0.0, 0.01, 0.9, 0.95, 1.0], vec![0.1, 0.5, 0.9], vec![0.0; 9]] {
            let found = apart(&wanted, 0.08);
            assert_eq!(found.len(), wanted.len());
            assert!(found.windows(2).all(|two| two[1] - two[0] > 0.08 - 1e-9), "{wanted:?}: {found:?}");
            assert!(found.iter().all(|at| (0.0..=1.0).contains(at)), "{found:?}");
        }
        assert_eq!(apart(&[0.1, 0.5, 0.9], 0.08), [0.1, 0.5, 0.9]);
        let middle = apart(&[0.5, 0.5, 0.5], 0.1);
        assert!((middle[1] - 0.5).abs() < 1e-9, "{middle:?}");
    }
}
