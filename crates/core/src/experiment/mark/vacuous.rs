//! Refuses marks that cannot fail or cannot hold, whatever the outcome of the experiment.

use super::Mark;
use super::check::{FEW, is_called};
use crate::experiment::figure::Axes;
use crate::outcome::Dimension;

/// A curve that an experiment will give.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Its name.
    pub name: String,
    /// Lowest and highest x; `None` if the experiment has no x axis.
    pub reach: Option<(f64, f64)>,
    /// Parameter values of its scheme, as `key=value`.
    pub settings: Vec<String>,
}

/// Facts of an experiment that are known before it runs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ruled {
    /// The curves; `None` if their names are not known before the run.
    pub lines: Option<Vec<Line>>,
    /// Values that the file sets for all curves, as `key=value`.
    pub settings: Vec<String>,
    /// True if x is the offered load and y the delivered load.
    pub delivers: bool,
}

/// Refuses a mark that cannot fail or cannot hold, whatever the outcome; the error names the key to change.
pub(super) fn refuse(mark: &Mark, axes: &Axes, ruled: &Ruled) -> Result<(), (&'static str, String)> {
    let dimension = mark.of.as_ref().map_or(axes.y.dimension, |of| of.dimension);
    verdict(mark)?;
    open_ends(mark, dimension)?;
    if ruled.delivers && mark.of.is_none() && mark.than.is_none() && mark.x.is_some() && mark.x == mark.y {
        let why = "cannot fail from above: below its cliff every curve delivers what is offered. Leave x out, and the \
                   curve's highest value is compared";
        return Err(("x", why.to_owned()));
    }
    if let Some(lines) = &ruled.lines {
        curves(mark, lines)?;
        own_setting(mark, dimension, axes.x.dimension, lines, &ruled.settings)?;
    }
    Ok(())
}

/// Refuses a mark that states no tolerance, interval, bound or comparison.
fn verdict(mark: &Mark) -> Result<(), (&'static str, String)> {
    let tolerance = mark.on.as_ref().and_then(|(_, tolerance)| *tolerance);
    if mark.than.is_none() && !mark.bound && mark.interval.is_none() && tolerance.is_none() {
        let why = "cannot fail: nothing says how near it must come; add tolerance = \"5%\" with on = \"CURVE\", or y_interval";
        return Err(("label", why.to_owned()));
    }
    Ok(())
}

/// Refuses ranges that contain all possible values (no value is below 0, no share above 1), and comparisons of a point
/// with itself.
fn open_ends(mark: &Mark, dimension: Dimension) -> Result<(), (&'static str, String)> {
    let most = if dimension == Dimension::Share { 1.0 } else { f64::INFINITY };
    let all = |(low, high): (f64, f64), most: f64| low <= 0.0 && high >= most;
    let cannot = |key, what: &str| Err((key, format!("cannot fail: every {what} is within it")));
    match (&mark.than, mark.interval, mark.of_bound) {
        (Some(than), ..) => {
            let key = if than.is_ratio { "ratio" } else { "difference" };
            if mark.on.as_ref().is_some_and(|(on, _)| *on == than.curve) && mark.x == than.x {
                let why = "compares a point with itself; name another curve by `than`, or another place by `than_x`";
                return Err((key, why.to_owned()));
            }
            match than.range {
                range if than.is_ratio && all(range, f64::INFINITY) => cannot(key, "ratio"),
                (low, high) if low <= -most && high >= most => cannot(key, "difference"),
                (_, high) if than.is_ratio && high <= 0.0 => Err((key, "cannot hold: no ratio is 0".to_owned())),
                _ => Ok(()),
            }
        }
        (None, Some(interval), _) if all(interval, most) => cannot("y_interval", "value"),
        (None, _, Some(range)) if all(range, 1.0) => cannot("ratio", "value below the bound"),
        _ => Ok(()),
    }
}

/// Refuses a mark that no curve matches.
fn curves(mark: &Mark, lines: &[Line]) -> Result<(), (&'static str, String)> {
    let names: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
    let Some((on, _)) = &mark.on else {
        if names.len() <= FEW && (mark.y.is_some() || mark.interval.is_some()) {
            return Ok(());
        }
        let why = format!("cannot fail: it names no curve; add on = \"CURVE\", one of {}", names.join("; "));
        return Err(("label", why));
    };
    let than = mark.than.as_ref();
    let wanted = [
        ("on", Some(on.as_str()), mark.x.filter(|_| mark.leaves.is_none())),
        ("than", than.map(|than| than.curve.as_str()), than.and_then(|than| than.x)),
        ("leaves", mark.leaves.as_deref(), None),
    ];
    for (key, name, x) in wanted {
        let Some(name) = name else { continue };
        let called: Vec<&Line> = match lines.iter().find(|line| line.name == name) {
            Some(line) => vec![line],
            None => lines.iter().filter(|line| is_called(&line.name, name)).collect(),
        };
        if called.is_empty() {
            return Err((key, format!("cannot fail: there is no curve `{name}`; there are {}", names.join("; "))));
        }
        let reaches = |line: &&Line| match (x, line.reach) {
            (Some(x), Some((low, high))) => (low..=high).contains(&x),
            (Some(_), None) => false,
            (None, _) => true,
        };
        if !called.iter().any(reaches) {
            let key = if key == "than" { "than_x" } else { "x" };
            return Err((key, format!("cannot fail: the curve `{name}` does not reach that place")));
        }
    }
    Ok(())
}

/// Refuses a stated number that equals a setting of the file: it would be compared with itself.
fn own_setting(
    mark: &Mark,
    y: Dimension,
    x: Dimension,
    lines: &[Line],
    of_all: &[String],
) -> Result<(), (&'static str, String)> {
    let is_place = mark.y.is_none() && mark.interval.is_none() && mark.than.is_none();
    let (key, dimension, stated) = if is_place { ("x", x, mark.x) } else { ("y", y, mark.y) };
    let Some(stated) = stated.filter(|stated| *stated != 0.0 && !mark.bound) else { return Ok(()) };
    let on = mark.on.as_ref().map(|(on, _)| on.as_str());
    let own = lines.iter().filter(|line| on.is_none_or(|on| line.name == on || is_called(&line.name, on)));
    let mut settings = own.flat_map(|line| &line.settings).chain(of_all);
    let is_it = |text: &&String| {
        let value = text.split_once('=').map_or("", |(_, value)| value);
        dimension != Dimension::Number && dimension.parse(value) == Ok(stated)
    };
    match settings.find(is_it) {
        Some(setting) => {
            let why = format!("cannot fail: {setting} is the file's own setting, so that it is compared with itself");
            Err((key, why))
        }
        None => Ok(()),
    }
}
