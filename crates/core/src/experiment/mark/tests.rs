use super::*;
use crate::Experiment;
use crate::experiment::{Curve, Dot};
use crate::outcome::Figure;

fn curve(name: &str, y: f64) -> Curve {
    let dots = [1.0, 3.0].map(|x| Dot { x, y: Figure::exact(y) });
    Curve { name: name.to_owned(), answerer: None, dots: dots.to_vec() }
}

/// A mark (a published value that curves are compared with) that names no curve is compared with every curve if there
/// are at most two names of curves, and then by its interval. A mark that names a curve is compared by its tolerance.
#[test]
fn every_stated_number_has_its_distance() {
    let mark = Mark {
        x: Some(2.0),
        y: Some(10.0),
        interval: Some((9.0, 12.0)),
        label: "a number".to_owned(),
        source: "a table".to_owned(),
        ..Mark::default()
    };
    let found = checks(&mark, &[curve("one", 11.0), curve("other", 13.0)]);
    let verdicts: Vec<_> = found.iter().map(|check| (check.curve.as_deref(), check.within)).collect();
    assert_eq!(verdicts, [(Some("one"), Some(true)), (Some("other"), Some(false))]);
    assert!((found[1].error.unwrap() - 0.3).abs() < 1e-12);
    assert_eq!(checks(&mark, &[curve("alone", 13.0)])[0].curve, None);
    // With more than two curves, a mark without `on` is compared with none of them.
    assert!(checks(&mark, &[curve("one", 11.0), curve("other", 13.0), curve("third", 13.0)]).is_empty());
    let named = Mark { on: Some(("other".to_owned(), Some(0.5))), ..mark };
    let found = checks(&named, &[curve("one", 11.0), curve("other", 13.0), curve("third", 13.0)]);
    assert_eq!(found.iter().map(|check| check.within).collect::<Vec<_>>(), [Some(true)], "the tolerance counts");
}

fn line(name: &str, points: &[(f64, f64)]) -> Curve {
    let dots = points.iter().map(|(x, y)| Dot { x: *x, y: Figure::exact(*y) }).collect();
    Curve { name: name.to_owned(), answerer: None, dots }
}

fn at(x: Option<f64>, y: Option<f64>, on: &str, tolerance: Option<f64>) -> Mark {
    let on = Some((on.to_owned(), tolerance));
    let (label, source) = ("a number".to_owned(), "a paper".to_owned());
    Mark { x, y, label, source, on, ..Mark::default() }
}

/// A mark with x but no value is compared with the x where the curve is steepest, or where it leaves the curve that the
/// mark's `leaves` names.
#[test]
fn a_stated_place_has_its_distance() {
    let curves = [
        line("one", &[(1.0, 10.0), (2.0, 9.0), (3.0, 4.0), (4.0, 4.0)]),
        line("other", &[(1.0, 10.1), (2.0, 9.1), (3.0, 8.0), (4.0, 7.0)]),
    ];
    let steep = checks(&at(Some(2.4), None, "one", Some(0.05)), &curves);
    assert_eq!(steep.iter().map(|check| (check.value, check.within)).collect::<Vec<_>>(), [(2.5, Some(true))]);
    assert_eq!(steep[0].of, Compared::Steepest);
    let leaving = Mark { leaves: Some("other".to_owned()), ..at(Some(2.0), None, "one", Some(0.1)) };
    let found = checks(&leaving, &curves);
    assert_eq!((found[0].value, found[0].within, found[0].of), (3.0, Some(false), Compared::Leaves));
    // A curve that differs from the other one already at its first point does not leave it.
    assert!(checks(&leaving, &[line("one", &[(1.0, 1.0)]), line("other", &[(1.0, 2.0)])]).is_empty());
}

/// The scheme's name finds all curves that `vary` makes of it; a curve's own name finds that curve.
#[test]
fn a_varied_curve_is_found_by_the_name_of_its_scheme() {
    let varied = ["interrupt, ring 64", "interrupt, ring 256", "napi, ring 64"].map(|name| curve(name, 11.0));
    let named = |on: &str| {
        let found = checks(&at(Some(2.0), Some(10.0), on, None), &varied);
        found.into_iter().map(|check| check.curve).collect::<Vec<_>>()
    };
    let both = ["interrupt, ring 64", "interrupt, ring 256"].map(|name| Some(name.to_owned()));
    assert_eq!(named("interrupt"), both);
    assert_eq!(named("interrupt, ring 256"), [None]);
    assert_eq!(named("ring 256"), [None]);
    assert!(named("inter").is_empty() && named("interrupt, ring 25").is_empty());
    // A scheme is printed with its parameters.
    let full = "napi:weight=64,budget=300, ring 64";
    assert!(["napi", "napi:weight=64", "napi, ring 64", full].iter().all(|on| is_called(full, on)));
    assert!(!is_called(full, "napi:weight=6") && !is_called("napi-2007:quota=3", "napi"));
    // If a curve has exactly this name, only it is meant.
    let exact = [curve("interrupt", 11.0), curve("interrupt, ring 64", 11.0)];
    assert_eq!(checks(&at(Some(2.0), Some(10.0), "interrupt", None), &exact).len(), 1);
}

#[test]
fn a_bound_is_kept_below_it() {
    let under = |y| {
        let mark = Mark { bound: true, of_bound: Some((0.7, 1.0)), ..at(Some(2.0), Some(y), "roof", None) };
        checks(&mark, &[curve("roof", 5.0)])
    };
    assert_eq!((under(4.0)[0].within, under(4.0)[0].of), (Some(true), Compared::Bound));
    assert_eq!((under(6.0)[0].within, under(3.0)[0].within), (Some(false), Some(false)), "above it, and far below it");
}

fn sampled(name: &str, points: &[(f64, f64, f64)]) -> Curve {
    let dots = points.iter().map(|(x, y, half)| Dot { x: *x, y: Figure::sampled(*y, *half, 0.95) }).collect();
    Curve { name: name.to_owned(), answerer: None, dots }
}

fn compared(mark: &Mark, curves: &[Curve]) -> (f64, Option<bool>, Option<bool>) {
    let found = checks(mark, curves);
    assert_eq!(found.len(), 1, "{found:?}");
    ((found[0].value * 1e6).round() / 1e6, found[0].within, found[0].sure)
}

/// Two points of curves by their ratio and by their difference. An interval that crosses a stated end proves nothing.
#[test]
fn a_stated_ratio_compares_two_points() {
    let curves = [
        sampled("mtu 9000", &[(1.0, 8.0, 0.4), (2.0, 12.0, 0.3)]),
        sampled("mtu 1500", &[(1.0, 8.0, 0.4), (2.0, 10.0, 0.4)]),
    ];
    let mark = |x, than: &str, than_x, is_ratio, range| {
        let than = Some(Than { curve: than.to_owned(), x: than_x, is_ratio, range });
        Mark { than, ..at(x, None, "mtu 9000", None) }
    };
    let open = f64::INFINITY;
    let more = |least| mark(Some(2.0), "mtu 1500", Some(2.0), true, (least, open));
    assert_eq!(compared(&more(1.1), &curves), (1.2, Some(true), Some(true)));
    assert_eq!(compared(&more(1.19), &curves), (1.2, Some(true), Some(false)));
    assert_eq!(compared(&more(1.3), &curves), (1.2, Some(false), Some(true)));
    // An interval that contains more than the whole stated range proves nothing.
    let wide = [sampled("mtu 9000", &[(2.0, 13.0, 9.0)]), sampled("mtu 1500", &[(2.0, 10.0, 0.4)])];
    let equal = mark(Some(2.0), "mtu 1500", Some(2.0), true, (0.9, 1.1));
    assert_eq!(compared(&equal, &wide), (1.3, Some(false), Some(false)));
    // First a ratio of two points of one curve, then the ratio of the highest values of two curves (no x given).
    assert_eq!(compared(&mark(Some(2.0), "mtu 9000", Some(1.0), true, (1.4, 1.6)), &curves).1, Some(true));
    assert_eq!(compared(&mark(None, "mtu 1500", None, true, (1.1, open)), &curves).0, 1.2);
    let apart = |range| compared(&mark(Some(2.0), "mtu 1500", Some(2.0), false, range), &curves);
    assert_eq!(apart((1.0, open)), (2.0, Some(true), Some(true)));
    assert_eq!(apart((-open, 1.0)), (2.0, Some(false), Some(true)));
    // Without a curve to compare with there is no result.
    assert!(checks(&more(1.1), &curves[..1]).is_empty());
    assert!(checks(&mark(Some(5.0), "mtu 1500", Some(2.0), true, (1.1, open)), &curves).is_empty());
}

const GRID: &str = r#"
engines = ["model"]
schemes = ["interrupt", "hybrid:period=20us,quota=3,up=120kpps,down=110kpps"]
names = ["interruption", "hybrid"]
[host]
preset = "pentium4-2530mhz"
[traffic]
rates = "10kpps..300kpps:30"
[figure]
y = "FIGURE"
[[mark]]
label = "a claim"
source = "a paper"
"#;

fn refused(figure: &str, mark: &str) -> String {
    let text = GRID.replace("FIGURE", figure) + mark;
    Experiment::from_toml("f.toml", &text).expect_err(mark).to_string()
}

/// A mark that every outcome satisfies is refused when the file is read.
#[test]
fn a_mark_that_cannot_fail_is_an_error() {
    for (figure, mark, words) in [
        ("throughput_pps", "y = \"127kpps\"\non = \"interruption\"", "nothing says how near"),
        ("throughput_pps", "x = \"120kpps\"\ny = \"120kpps\"\non = \"hybrid\"\ntolerance = \"5%\"", "what is offered"),
        ("throughput_pps", "y_interval = \"0pps..\"\non = \"hybrid\"", "every value"),
        ("cpu_available", "x = \"20kpps\"\ny_interval = \"0%..100%\"\non = \"hybrid\"", "every value"),
        ("cpu_available", "x = \"20kpps\"\nratio = \"0..\"\non = \"hybrid\"\nthan = \"interruption\"", "every ratio"),
        ("cpu_available", "x = \"20kpps\"\nratio = \"0.9..\"\non = \"hybrid\"", "with itself"),
        (
            "cpu_available",
            "x = \"20kpps\"\ndifference = \"..100%\"\non = \"hybrid\"\nthan = \"interruption\"",
            "every difference",
        ),
        (
            "cpu_available",
            "x = \"120kpps\"\non = \"hybrid\"\nleaves = \"interruption\"\ntolerance = \"10%\"",
            "up=120kpps",
        ),
        (
            "cpu_available",
            "x = \"20kpps\"\ny = \"5%\"\non = \"polling\"\ntolerance = \"10%\"",
            "there is no curve `polling`",
        ),
        ("cpu_available", "x = \"900kpps\"\ny = \"5%\"\non = \"hybrid\"\ntolerance = \"10%\"", "does not reach"),
        ("cpu_available", "y = \"5%\"\non = \"hybrid\"\nbound = true", "how near"),
        ("cpu_available", "y = \"5%\"\non = \"hybrid\"\nbound = true\nratio = \"0..1\"", "below the bound"),
        ("cpu_available", "x = \"20kpps\"\non = \"hybrid\"\nthan = \"interruption\"", "need `ratio`"),
        (
            "cpu_available",
            "x = \"20kpps\"\nratio = \"1.2..1.1\"\non = \"hybrid\"\nthan = \"interruption\"",
            "LOW below HIGH",
        ),
        ("cpu_available", "x = \"20kpps\"\nof = \"speed\"\nratio = \"1.1..\"\non = \"hybrid\"", "latency_mean_s"),
    ] {
        let said = refused(figure, mark);
        assert!(said.contains(words) && said.contains("a claim") && said.contains("line "), "{mark}: {said}");
    }
}

#[test]
fn marks_that_can_fail_are_read() {
    for mark in [
        "y = \"127kpps\"\non = \"interruption\"\ntolerance = \"1%\"",
        "x = \"300kpps\"\ny_interval = \"..90kpps\"\non = \"interruption\"",
        "x = \"300kpps\"\nratio = \"1.1..\"\non = \"hybrid\"\nthan = \"interruption\"",
        "x = \"20kpps\"\nof = \"latency_mean_s\"\nthan_x = \"120kpps\"\nratio = \"..0.5\"\non = \"interruption\"",
        "x = \"20kpps\"\nof = \"cpu_available\"\ndifference = \"5%..\"\non = \"hybrid\"\nthan = \"interruption\"",
        "y = \"110kpps\"\nbound = true\nratio = \"0.9..1\"\non = \"interruption\"",
    ] {
        let text = GRID.replace("FIGURE", "throughput_pps") + mark;
        Experiment::from_toml("f.toml", &text).unwrap_or_else(|error| panic!("{mark}: {error}"));
    }
}
