//! An experiment's figure in text, SVG and HTML.

use netcliff_core::experiment::{Answerer, Axes, Axis, Curve, Dot, Experiment, Mark, Scale};
use netcliff_core::{EngineKind, Fidelity, Figure, Provenance};
use netcliff_report::drawing::{Drawing, NotHad};
use netcliff_report::{Style, html, svg, terminal};
use roxmltree::Document;

use crate::fixture::HOSTILE;
use crate::svg::stays_on_the_sheet;

const MODEL: Answerer = Answerer { engine: EngineKind::Model, fidelity: Some(Fidelity::Exact) };
const PAPER: Answerer = Answerer { engine: EngineKind::Model, fidelity: Some(Fidelity::Paper) };
const SIM: Answerer = Answerer { engine: EngineKind::Sim, fidelity: None };

/// The axes of an experiment whose file has this figure.
fn axes(y: &str, y_scale: &str) -> Axes {
    let text = format!(
        "engines = [\"model\"]\nschemes = [\"ideal\"]\n[host]\npreset = \"pentium4-2530mhz\"\n[traffic]\n\
         rates = \"10kpps\"\n[figure]\ny = \"{y}\"\ny_scale = \"{y_scale}\"\n"
    );
    Experiment::from_toml("f.toml", &text).unwrap().axes().unwrap()
}

fn curve(name: &str, answerer: Answerer, limit: f64) -> Curve {
    let dot = |n: u32| {
        let x = f64::from(n) * 20e3;
        let value = x.min(limit);
        let y = if answerer == SIM { Figure::sampled(value, 0.02 * value, 0.95) } else { Figure::exact(value) };
        Dot { x, y }
    };
    Curve { name: name.to_owned(), answerer: Some(answerer), dots: (1..=15).map(dot).collect() }
}

fn mark(x: Option<f64>, y: Option<f64>, label: &str, on: Option<&str>) -> Mark {
    let on = on.map(|name| (name.to_owned(), Some(0.01)));
    let (label, source) = (label.to_owned(), "section 4".to_owned());
    Mark { x, y, label, source, on, ..Mark::default() }
}

fn drawing() -> Drawing {
    Drawing {
        title: "Throughput of two schemes".to_owned(),
        axes: axes("throughput_pps", "linear"),
        curves: vec![
            curve("ideal", PAPER, 187e3),
            curve("ideal", MODEL, 187e3),
            curve("ideal", SIM, 186e3),
            curve("NAPI polling", SIM, 150e3),
        ],
        marks: vec![
            mark(None, Some(187e3), "highest throughput", Some("ideal")),
            mark(Some(127e3), Some(127e3), "cliff", Some("NAPI polling")),
            mark(Some(120e3), None, "switching point", None),
            mark(Some(200e3), Some(170e3), "elsewhere", Some("NAPI polling")),
        ],
        limits: Vec::new(),
        judged: Default::default(),
        missing: Vec::new(),
        not_had: vec![NotHad {
            curve: "NAPI polling".to_owned(),
            answerer: MODEL,
            points: 15,
            why: "this scheme has no Markov chain: use the simulator".to_owned(),
            other_fidelity: false,
        }],
        asked: vec![("host".to_owned(), "pentium4-2530mhz".to_owned()), ("frames".to_owned(), "64B".to_owned())],
        source: "title = \"x\"\n".to_owned(),
        provenance: Provenance {
            version: "0.1.0".to_owned(),
            command: "netcliff run f.toml".to_owned(),
            ..Provenance::default()
        },
        partial: false,
    }
}

fn variants() -> Vec<(&'static str, Drawing)> {
    let latency = Drawing {
        axes: axes("latency_mean_s", "log"),
        curves: drawing().curves.into_iter().map(|curve| scaled(&curve, 1e-9)).collect(),
        marks: vec![mark(Some(100e3), Some(1e-4), "stated", None), mark(None, Some(-1.0), "nowhere", None)],
        ..drawing()
    };
    let nothing = Drawing { curves: Vec::new(), marks: Vec::new(), partial: true, ..drawing() };
    let hostile = Drawing {
        title: HOSTILE.to_owned(),
        source: HOSTILE.to_owned(),
        curves: vec![curve(HOSTILE, SIM, f64::NAN), curve("infinite", SIM, f64::INFINITY)],
        asked: vec![(HOSTILE.to_owned(), HOSTILE.to_owned())],
        ..drawing()
    };
    let many = Drawing {
        curves: (0..12)
            .map(|n| curve(&format!("scheme number {n} with a long name"), SIM, 1e4 * f64::from(n)))
            .collect(),
        ..drawing()
    };
    vec![("two", drawing()), ("latency", latency), ("nothing", nothing), ("hostile", hostile), ("many", many)]
}

fn scaled(curve: &Curve, factor: f64) -> Curve {
    let dots = curve.dots.iter().map(|dot| Dot { y: dot.y.scaled(factor), ..*dot }).collect();
    Curve { dots, ..curve.clone() }
}

#[test]
fn pictures_are_xml_on_which_no_text_lies_on_another() {
    for (name, drawing) in variants() {
        let text = svg::experiment(&drawing);
        let document = Document::parse(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(document.root_element().attribute("role"), Some("img"), "{name}");
        assert!(!text.contains("NaN") && !text.contains("\"inf"), "{name}");
        assert!(!text.contains("<script") && !text.contains("<img"), "{name}");
        stays_on_the_sheet(name, &document);
    }
}

#[test]
fn the_page_needs_nothing_else_and_holds_file_marks_and_values() {
    for (name, drawing) in variants() {
        let page = html::experiment(&drawing).replace("http://www.w3.org/2000/svg", "").replace("url(#clip-", "");
        for fetch in ["http://", "https://", "//cdn", " src=", "@import", "url(", "<link", "<iframe"] {
            assert!(!page.contains(fetch) || name == "hostile", "{name}: {fetch}");
        }
        assert!(!page.contains("<img") && !page.contains('\u{1b}'), "{name}");
    }
    let page = html::experiment(&drawing());
    for part in [
        "netcliff run f.toml",
        "this scheme has no Markov chain",
        "within the tolerance",
        "CONTRADICTED, outside the tolerance",
        "section 4",
        "title = ",
    ] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn the_terminal_shows_curves_marks_and_what_was_not_had() {
    let mut pages = String::new();
    for (name, drawing) in variants().into_iter().filter(|(name, _)| *name != "hostile") {
        let page = terminal::experiment(&drawing, Style::default());
        assert!(page.lines().all(|line| line.chars().count() <= 80), "{name}: {page}");
        pages += &format!("#### {name}\n{page}\n");
    }
    insta::assert_snapshot!("terminal", pages);
    let ascii = terminal::experiment(&drawing(), Style { unicode: false, ..Style::default() });
    assert!(ascii.is_ascii(), "{ascii}");
    let narrow = terminal::experiment(&drawing(), Style { width: 60, ..Style::default() });
    assert!(!narrow.contains('└'), "no plot where there is no room for it");
}

/// The page begins with what is reproduced; a bound names its curve and the ratio to it.
#[test]
fn a_page_begins_with_what_is_reproduced_and_a_bound_names_its_curve() {
    let bound = Mark {
        bound: true,
        of_bound: Some((0.9, 1.0)),
        on: Some(("NAPI polling".to_owned(), None)),
        ..mark(None, Some(140e3), "switching point", None)
    };
    let lower = Mark { x: Some(300e3), y: Some(170e3), ..bound.clone() };
    let drawing = Drawing { marks: vec![bound.clone(), lower.clone()], ..drawing() };
    assert_eq!(drawing.claim(&bound), "throughput 140 kpps divided by the highest of NAPI polling: 0.900 to 1.00");
    assert_eq!(
        drawing.claim(&lower),
        "offered load 300 kpps, throughput 170 kpps divided by that of NAPI polling: 0.900 to 1.00"
    );
    let compared = |mark: &Mark| -> Vec<String> {
        drawing.checks(mark).iter().map(|check| drawing.compared(mark, check)).collect()
    };
    assert_eq!(compared(&bound), ["NAPI polling: sim highest 150 kpps, ratio 0.933: reproduced, as stated"]);
    assert_eq!(compared(&lower), ["NAPI polling: sim 150 kpps, ratio 1.13: CONTRADICTED, not as stated"]);
    let answer =
        "2 stated values: 1 reproduced, 1 contradicted, 0 undecided. Contradicted: number 2 (switching point).";
    assert_eq!(netcliff_report::drawing::answer(&drawing.checked()).as_deref(), Some(answer));
    assert!(html::experiment(&drawing).contains(answer));
    // An interval that crosses an end of the accepted range decides nothing.
    let crossed = Mark { y: Some(136e3), ..bound };
    let verdict = "NAPI polling: sim highest 150 kpps, ratio 0.907: undecided, the interval 147 kpps to 153 kpps reaches \
                   beyond the accepted range (136 kpps to 151 kpps)";
    assert_eq!(compared(&crossed), [verdict]);
    let undecided = Drawing { marks: vec![crossed], ..drawing.clone() };
    let answer = "1 stated value: 0 reproduced, 0 contradicted, 1 undecided. Undecided: number 1 (switching point).";
    assert_eq!(netcliff_report::drawing::answer(&undecided.checked()).as_deref(), Some(answer));
    assert_eq!(netcliff_report::drawing::answer(&[]), None);
}

#[test]
fn an_axis_ends_where_it_is_told() {
    let mut drawing = drawing();
    drawing.axes.y.range = Some((0.0, 50e3));
    assert!(terminal::experiment(&drawing, Style::default()).contains("50 │"));
    // On a logarithmic axis the ends given need no whole decades.
    drawing.axes.y = Axis { scale: Scale::Log, range: Some((2e3, 500e3)), ..drawing.axes.y };
    let page = terminal::experiment(&drawing, Style::default());
    assert!(page.contains("500 kpps │") && page.contains("2 kpps │"), "{page}");
}
