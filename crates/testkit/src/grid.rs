//! Selects points of statistical grids: `make test` takes a quarter of the points of each grid, another quarter every
//! day, so that four successive days take all points. `make measure` (and [`GRID`]` = whole`) takes all points at once.
//!
//! A point always has the same seed: a point that fails does so on each day that takes it, and with the whole grid.

use std::time::{SystemTime, UNIX_EPOCH};

/// Environment variable that selects the part of the grids that tests take: `whole`, or the number of a day since 1970.
/// Unset: today's part.
pub const GRID: &str = "NETCLIFF_GRID";

/// Each day takes one of this number of points.
const DAYS: u64 = 4;

/// The part of the grids that a run of the tests takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grid {
    /// Every point.
    Whole,
    /// The part of a day, in days since 1970.
    Day(u64),
}

impl Grid {
    /// Returns the part that [`GRID`] selects; today's part if it is unset.
    ///
    /// # Panics
    /// [`GRID`] is neither `whole` nor a number.
    pub fn of_today() -> Self {
        match std::env::var(GRID).ok().as_deref() {
            None | Some("") => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
                Self::Day(since / 86_400)
            }
            Some("whole") => Self::Whole,
            Some(day) => Self::Day(day.parse().unwrap_or_else(|_| {
                panic!("{GRID} is {day:?}: expected `whole`, or the number of a day since 1970 (unset: today's)")
            })),
        }
    }

    /// True if this part includes a random case. `drawn`: a random number of the case, which belongs to one day in
    /// four.
    pub fn takes(self, drawn: u64) -> bool {
        match self {
            Self::Whole => true,
            Self::Day(day) => (drawn % DAYS + day % DAYS).is_multiple_of(DAYS),
        }
    }

    /// Returns the points of this part, each with its index in the whole grid: one of every four successive points, at
    /// a position that varies from group to group.
    pub fn part<T>(self, points: impl IntoIterator<Item = T>) -> Vec<(usize, T)> {
        let all = points.into_iter().enumerate();
        match self {
            Self::Whole => all.collect(),
            Self::Day(day) => all
                .filter(|(nth, _)| {
                    let (group, place) = (*nth as u64 / DAYS, *nth as u64 % DAYS);
                    // Fractional parts of multiples of the golden ratio, so that the positions do not repeat with a
                    // period of the grid.
                    let turn = (group.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % DAYS;
                    (place + turn + day).is_multiple_of(DAYS)
                })
                .collect(),
        }
    }
}

/// Writes the setting that repeats this part, for the message of a failure: `NETCLIFF_GRID=20420`.
impl std::fmt::Display for Grid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Whole => write!(f, "{GRID}=whole"),
            Self::Day(day) => write!(f, "{GRID}={day}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_days_in_a_row_take_every_point_once() {
        let mut taken: Vec<usize> =
            (20_420..20_424).flat_map(|day| Grid::Day(day).part(0..181)).map(|(nth, point)| nth.min(point)).collect();
        taken.sort_unstable();
        assert_eq!(taken, (0..181).collect::<Vec<_>>());
        assert_eq!(Grid::Whole.part(0..181).len(), 181);
        for drawn in [0, 7, u64::MAX] {
            assert_eq!((20_420..20_424).filter(|day| Grid::Day(*day).takes(drawn)).count(), 1);
            assert!(Grid::Whole.takes(drawn));
        }
    }

    #[test]
    fn a_day_takes_a_quarter_from_every_column_of_a_grid() {
        // A grid of twelve points per scheme (loads x rings): the part has each load and each ring.
        let part = Grid::Day(20_420).part(0..180);
        assert_eq!(part.len(), 45);
        for columns in [3, 4, 12] {
            let met: std::collections::BTreeSet<usize> = part.iter().map(|(nth, _)| nth % columns).collect();
            assert_eq!(met.len(), columns, "{met:?}");
        }
    }
}
