use netcliff_core::Figure;
use netcliff_core::finding::CheckedSetting;
use netcliff_report::{Style, terminal};

use crate::fixture;

const PLAIN: Style = Style { width: 80, colour: false, unicode: true };

#[test]
fn the_page_of_every_variant() {
    let mut pages = String::new();
    for (name, finding) in fixture::variants() {
        pages += &format!("#### {name}\n{}\n", terminal::finding(&finding, PLAIN));
    }
    insta::assert_snapshot!("terminal", pages);
}

/// The screen after `find`: the answer first, at most 40 lines.
#[test]
fn the_brief_page_of_every_variant_fits_a_screen() {
    let mut pages = String::new();
    for (name, finding) in fixture::variants() {
        for width in [80, 120] {
            let text = terminal::brief(&finding, Style { width, ..PLAIN });
            assert!(text.lines().count() <= 40, "{name} at {width}: {} lines", text.lines().count());
            assert!(text.lines().all(|line| line.chars().count() <= width), "{name} at {width}");
            // Below the date, and that it is partial.
            assert!(
                text.lines().take(4).any(|line| line.contains("Cliff") || line.contains("No cliff")),
                "{name}: {text}"
            );
            if width == 80 || name == "livelocking" {
                pages += &format!("#### {name}, {width} columns\n{text}\n");
            }
        }
    }
    insta::assert_snapshot!("brief", pages);
}

/// Many checks: the worst are shown, and the median of all.
#[test]
fn the_brief_page_with_many_checks_fits_a_screen() {
    let mut finding = fixture::livelocking();
    let one = finding.checks[0].clone();
    finding.checks = (1..=9)
        .map(|n| {
            let mut check = one.clone();
            check.name = format!("size={}B,work={n}us", 128 * n);
            let measured = check.cliff_pps.wire.unwrap().value;
            check.cliff_pps.model = Some(Figure::exact(measured * (1.0 + 0.05 * f64::from(n))));
            check.cliff_pps.sim = Some(Figure::exact(measured * (1.0 - 0.01 * f64::from(n))));
            check
        })
        .collect();
    for width in [80, 120] {
        let text = terminal::brief(&finding, Style { width, ..PLAIN });
        assert!(text.lines().count() <= 40, "{width}: {} lines", text.lines().count());
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in ["size=1152B,work", "Shown: the 3 of 9 checks", "model 25.0 %, simulation 5.00 %"] {
            assert!(words.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("size=128B"), "{text}");
    }
    insta::assert_snapshot!("brief-many-checks", terminal::brief(&finding, PLAIN));
}

/// Every page shows the value that a driver set, and the limits of the prediction.
#[test]
fn checks_of_settings_say_what_came_of_them() {
    let mut finding = fixture::livelocking();
    let setting = |name: &str, requested: &str, effective: &str| CheckedSetting {
        name: name.to_owned(),
        found: "20".to_owned(),
        requested: requested.to_owned(),
        effective: effective.to_owned(),
    };
    finding.checks[0].settings = vec![setting("rx-usecs", "900", "902"), setting("rx-frames", "32", "32")];
    finding.checks[0].notes = vec!["gro is in neither model nor simulation".to_owned()];
    let pages = [
        terminal::finding(&finding, PLAIN),
        terminal::brief(&finding, PLAIN),
        netcliff_report::html::finding(&finding),
    ];
    for page in pages {
        let words = page.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in ["rx-usecs: 900 requested, 902 in effect.", "gro is in neither model nor simulation."] {
            assert!(words.contains(part), "{part}: {page}");
        }
        assert!(!words.contains("rx-frames: 32"), "{page}");
    }
}

#[test]
fn a_narrow_ascii_page() {
    let style = Style { width: 60, colour: false, unicode: false };
    let text = terminal::finding(&fixture::livelocking(), style);
    assert!(text.is_ascii());
    insta::assert_snapshot!("terminal-narrow-ascii", text);
}

#[test]
fn no_line_is_wider_than_asked_and_none_ends_in_a_space() {
    for (name, finding) in fixture::variants() {
        // A single long word (a path, the hostile text) cannot be broken at 48 columns.
        for width in [72, 80, 100, 132] {
            for line in terminal::finding(&finding, Style { width, ..PLAIN }).lines() {
                assert!(line.chars().count() <= width, "{name} at {width}: {line:?}");
                assert_eq!(line, line.trim_end(), "{name}");
            }
        }
    }
}

#[test]
fn colour_changes_nothing_but_escape_codes() {
    let plain = terminal::finding(&fixture::livelocking(), PLAIN);
    let coloured = terminal::finding(&fixture::livelocking(), Style { colour: true, ..PLAIN });
    assert!(coloured.contains("\u{1b}[1m"));
    let mut stripped = String::new();
    let mut rest = coloured.as_str();
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        stripped.push_str(before);
        rest = after.split_once('m').expect("a whole escape code").1;
    }
    assert_eq!(stripped + rest, plain);
}

#[test]
fn text_from_the_host_cannot_steer_the_terminal() {
    assert!(!terminal::finding(&fixture::hostile(), PLAIN).contains('\u{1b}'));
}

#[test]
fn the_order_is_that_of_the_contract() {
    let text = terminal::finding(&fixture::no_wire(), PLAIN);
    let headings = [
        "CLIFF",
        "PEAK THROUGHPUT",
        "AT TWICE THE CLIFF",
        "LATENCY",
        "CPU AT THE CLIFF",
        "LOST",
        "BOTTLENECK",
        "SUGGESTIONS",
        "HOST",
        "CONFIGURATION",
        "GENERATOR",
        "COSTS",
        "MISSING FIGURES",
    ];
    let places: Vec<usize> = headings
        .iter()
        .map(|heading| text.find(&format!("\n{heading}")).unwrap_or_else(|| panic!("{heading} is missing")))
        .collect();
    assert!(places.is_sorted(), "{places:?}");
}

#[test]
fn a_livelock_is_named_with_the_split_that_shows_why() {
    let page = |finding| terminal::finding(&finding, PLAIN);
    let livelocking = page(fixture::livelocking());
    assert!(livelocking.contains("Receive livelock") && livelocking.contains("CPU at twice the cliff"));
    assert!(!page(fixture::flat()).contains("Receive livelock"));
    assert!(page(fixture::no_wire()).contains("(simulated, not measured)"));
    assert!(!page(fixture::nothing()).contains("livelock:"));
}

/// If several settings work together and have one effect, the page prints the effect only with the first setting.
#[test]
fn an_effect_of_several_settings_is_told_once() {
    let effect =
        "the packets of eth0 are worked on by 1 -> 2 CPUs, which serve at most 136 -> 273 kpps (an upper bound)";
    let proposal = |name: &str, effect: &str| netcliff_core::tuning::Proposal {
        name: name.to_owned(),
        old: "0-7".to_owned(),
        new: "1".to_owned(),
        reason: "one core a queue".to_owned(),
        source: "a test".to_owned(),
        command: format!("echo 1 > /proc/irq/{name}"),
        effect: Some(effect.to_owned()),
    };
    let sheet = netcliff_core::tuning::PlanSheet {
        objective: netcliff_core::inspection::Objective::Throughput,
        proposals: vec![
            proposal("eth0 interrupt 40", effect),
            proposal("eth0 interrupt 41", effect),
            proposal("a", "not predicted: short"),
            proposal("b", "not predicted: short"),
        ],
        notes: Vec::new(),
    };
    let page = terminal::plan(&sheet, Some("--objective throughput --if eth0"), PLAIN);
    assert!(page.contains("  apply           netcliff tune apply --objective throughput --if eth0\n"), "{page}");
    assert!(!terminal::plan(&sheet, None, PLAIN).contains("netcliff tune"));
    assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
    let words = page.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(words.matches("at most 136 -> 273").count(), 1, "{page}");
    assert!(page.contains("expected: as for eth0 interrupt 40"), "{page}");
    assert_eq!(page.matches("expected: not predicted: short").count(), 2, "{page}");
}
