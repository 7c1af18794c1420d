//! Output of `limits` and `compare` without `-v`: the answer first, on a screen of 40 lines, at 80 and at 120 columns.

use netcliff_care::limits::{Interrupts, System, USUAL_SIZES_BYTES, curves, roofline};
use netcliff_core::parts::Memory;
use netcliff_core::{Bus, Host, Provenance};
use netcliff_lab::compare::{Change, Measured, compare};
use netcliff_report::drawing::Drawing;
use netcliff_report::{Style, terminal};

use crate::routers::compared;

/// Every line fits, all fit a screen, and the answer begins with these words.
fn screen(page: &str, width: usize, begins: &str) {
    assert!(page.lines().all(|line| line.chars().count() <= width), "{width}: {page}");
    assert!(page.lines().count() <= 40, "{} lines: {page}", page.lines().count());
    assert!(page.starts_with(begins), "{begins}: {page}");
}

fn style(width: usize) -> Style {
    Style { width, ..Style::default() }
}

#[test]
fn limits_says_the_bound_and_what_was_measured_first() {
    let system = System {
        link_bps: Some(1e10),
        bus: Bus::None,
        memory: Some(Memory { bytes_per_s: 6.4e9, copies: 1 }),
        cpu: Host::preset("pentium4-2530mhz"),
        cpus: 1,
        frames_per_interrupt: 4.0,
    };
    let found = roofline(&system, &USUAL_SIZES_BYTES, &[], None);
    let (axes, curves) = curves(&system, &USUAL_SIZES_BYTES, &[], None);
    let measured = ("measured cliff".to_owned(), "142 kpps (138-147, 95 % confidence) of 64B, find run 3".to_owned());
    let drawing = Drawing {
        title: "Upper bounds of the rate, by frame size".to_owned(),
        axes,
        curves,
        marks: Vec::new(),
        not_had: Vec::new(),
        limits: Vec::new(),
        judged: Default::default(),
        missing: Vec::new(),
        asked: vec![("link".to_owned(), "10Gbit/s".to_owned()), measured],
        source: String::new(),
        provenance: Provenance::default(),
        partial: false,
    };
    let mut pages = String::new();
    for width in [80, 120] {
        let page = terminal::limits_brief(&found, &drawing, style(width));
        screen(&page, width, "About ");
        let words = page.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("measured cliff: 142 kpps") && words.contains("bound by"), "{page}");
        pages += &format!("#### {width} columns\n{page}\n");
    }
    insta::assert_snapshot!("limits", pages);
}

/// Fast parts next to a slow CPU, and units that differ at both ends.
#[test]
fn limits_of_unknown_interrupts_are_ranges_that_fit() {
    let cpu = Host { ring: 64, ..Host::pentium4_2530mhz() };
    let system = System {
        link_bps: Some(1e10),
        bus: Bus::pcie(3, 8).expect("a bus"),
        memory: Some(Memory { bytes_per_s: 6.4e9, copies: 1 }),
        cpu: Some(cpu.clone()),
        cpus: 1,
        frames_per_interrupt: 1.0,
    };
    let interrupts = Interrupts::of(&cpu, &[64, 1280, 9018]);
    let found = roofline(&system, &[64, 1280, 9018], &[], Some(&interrupts));
    let (axes, curves) = curves(&system, &[64, 1280, 9018], &[], Some(&interrupts));
    let drawing = Drawing {
        title: "Upper bounds of the rate, by frame size".to_owned(),
        axes,
        curves,
        marks: Vec::new(),
        not_had: Vec::new(),
        limits: Vec::new(),
        judged: Default::default(),
        missing: Vec::new(),
        asked: Vec::new(),
        source: String::new(),
        provenance: Provenance::default(),
        partial: false,
    };
    let page = terminal::limits_brief(&found, &drawing, style(80));
    screen(&page, 80, "Upper bound ");
    insta::assert_snapshot!("limits_ranges", page);
}

/// Two quick runs have one repeat each: the page says that nothing was tested and how to repeat them, has no column of p
/// values, and calls the engine `wire` measured. Shares change in points.
/// A `find` with one search and one sweep.
fn single(name: &str) -> Measured {
    let text = include_str!("../../../../web/tests/data/find.json");
    let mut finding: serde_json::Value = serde_json::from_str(text).expect("JSON");
    finding["searches"]["own"]["searches"].as_array_mut().expect("searches").truncate(1);
    Measured::of_json(name, &finding.to_string()).expect("a run")
}

#[test]
fn compare_of_single_repeats_says_how_to_repeat_them() {
    let [a, b] = ["a", "b"].map(single);
    let comparison = compare(&a, &b, None).expect("the same kind");
    let page = terminal::compare_brief(&comparison, style(80));
    screen(&page, 80, "Not enough repeats to tell whether ");
    let words = page.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "`netcliff find --json --no-store --quick --seed 7 --searches 5 --repeats 5` for A, for B and for A again",
        "CHANGES FROM A TO B (WITHOUT A TEST)",
        "cliff measured",
        "left at 2x 64.2 % 64.2 % +0.00 points",
        "left at 2x: rate delivered at twice the cliff",
    ] {
        assert!(words.contains(part), "{part}: {page}");
    }
    assert!(!words.contains("wire") && !words.contains("no test"), "{page}");
    let html = netcliff_report::html::compare(&comparison);
    assert!(html.contains("cliff measured") && html.contains("left at 2x") && !html.contains("cliff wire"), "{html}");
}

#[test]
fn compare_says_what_is_shown_first() {
    let mut pages = String::new();
    for width in [80, 120] {
        let worse = compared([0.799, 0.801], None);
        let page = terminal::compare_brief(&worse, style(width));
        screen(&page, width, "B is worse in ");
        pages += &format!("#### {width} columns\n{page}\n");
    }
    insta::assert_snapshot!("compare", pages);
    let same = terminal::compare_brief(&compared([1.001, 0.999], None), style(80));
    screen(&same, 80, "No difference is shown in ");
    for (page, begins) in [
        (compared([0.799, 0.801], Some(0.05)), "FAILED: "),
        (compared([1.001, 0.999], Some(0.05)), "PASSED: "),
        (compared([0.7, 1.3], Some(0.05)), "INCONCLUSIVE: "),
    ] {
        let page = terminal::compare_brief(&page, style(80));
        screen(&page, 80, begins);
        let words = page.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            begins == "FAILED: " || words.contains("probability of 80 %") || words.contains("however large"),
            "{page}"
        );
    }
}

/// The screen shows the largest changes, says what it hides and where to read it, and shows the interval that a run
/// has without repeats.
#[test]
fn compare_shows_the_largest_changes_first() {
    let [a, b] = ["a", "b"].map(single);
    let mut comparison = compare(&a, &b, None).expect("the same kind");
    let change = |name: &str, change| Change {
        name: format!("calibration.{name}"),
        a: Some("1".to_owned()),
        b: Some("2".to_owned()),
        change: Some(change),
    };
    let names = ["a", "b", "c", "d", "e", "f", "g"];
    comparison.changed = names.iter().enumerate().map(|(at, name)| change(name, 0.01 * at as f64)).collect();
    let page = terminal::compare_brief(&comparison, style(80));
    screen(&page, 80, "Not enough repeats to tell whether ");
    let words = page.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "OTHER DIFFERENCES - calibration.g: 1 -> 2 (+6 %) - calibration.f: 1 -> 2 (+5 %)",
        "and 4 costs more, with smaller changes: -v shows all",
        "interval of A 196-308 kpps (87.5 %), of B 196-308 kpps (87.5 %)",
        "Measured changes have an interval if both runs have --repeats and --searches 2 or more.",
    ] {
        assert!(words.contains(part), "{part}: {page}");
    }
}
