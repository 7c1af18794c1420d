use std::collections::BTreeMap;

use netcliff_core::{EngineKind, Finding};
use netcliff_report::svg;
use roxmltree::{Document, Node};

use crate::fixture::{self, HOSTILE};

/// A picture's name and how it is drawn.
type Picture = (&'static str, fn(&Finding) -> String);

const PICTURES: [Picture; 4] =
    [("delivered", svg::delivered), ("latency", svg::latency), ("cpu", svg::cpu), ("loss", svg::loss)];

fn each(mut check: impl FnMut(&str, &Document<'_>)) {
    for (variant, finding) in fixture::variants() {
        for (picture, draw) in PICTURES {
            let text = draw(&finding);
            let document = Document::parse(&text).unwrap_or_else(|error| panic!("{variant} {picture}: {error}"));
            check(&format!("{variant} {picture}"), &document);
        }
    }
}

fn number(node: Node<'_, '_>, name: &str) -> f64 {
    node.attribute(name).unwrap_or_else(|| panic!("{name} of {node:?}")).parse().expect("a number")
}

fn texts<'a>(document: &'a Document<'_>) -> Vec<Node<'a, 'a>> {
    document.descendants().filter(|node| node.has_tag_name(("http://www.w3.org/2000/svg", "text"))).collect()
}

/// Left, top, right, bottom of a text by a guess of 0.5 em a character; rotated text has its box turned.
fn bounds(text: Node<'_, '_>) -> [f64; 4] {
    let em = number(text, "font-size");
    let long = 0.5 * em * text.text().unwrap_or_default().trim().chars().count() as f64;
    let (x, y) = (number(text, "x"), number(text, "y"));
    let start = match text.attribute("text-anchor") {
        Some("middle") => -long / 2.0,
        Some("end") => -long,
        _ => 0.0,
    };
    if text.attribute("transform").is_some() {
        return [x, y - long / 2.0, x + em, y + long / 2.0];
    }
    let top = match text.attribute("dy") {
        Some("0.76em") => y,
        Some("-0.5ex") => y - 1.25 * em,
        _ => y - em / 2.0,
    };
    [x + start, top, x + start + long, top + em]
}

#[test]
fn every_picture_is_xml_with_words_for_those_who_cannot_see_it() {
    each(|name, document| {
        let root = document.root_element();
        assert_eq!(root.attribute("role"), Some("img"), "{name}");
        assert!(root.attribute("aria-label").is_some_and(|label| label.contains("cliff")), "{name}");
        let tags: Vec<&str> = root.children().filter(Node::is_element).map(|node| node.tag_name().name()).collect();
        assert_eq!(tags[..3], ["title", "desc", "rect"], "{name}: title, words, then an opaque background");
    });
}

#[test]
fn everything_stays_on_the_sheet_and_no_text_lies_on_another() {
    each(stays_on_the_sheet);
}

/// Every text and point within the sheet, and no text on another.
pub fn stays_on_the_sheet(name: &str, document: &Document<'_>) {
    let sheet: Vec<f64> =
        document.root_element().attribute("viewBox").unwrap().split(' ').map(|n| n.parse().unwrap()).collect();
    let boxes: Vec<([f64; 4], Node<'_, '_>)> = texts(document).into_iter().map(|t| (bounds(t), t)).collect();
    for (index, (a, text)) in boxes.iter().enumerate() {
        assert!(a[0] >= 0.0 && a[1] >= 0.0 && a[2] <= sheet[2] && a[3] <= sheet[3], "{name}: {a:?} {text:?}");
        for (b, other) in &boxes[index + 1..] {
            let apart = a[2] <= b[0] || b[2] <= a[0] || a[3] <= b[1] || b[3] <= a[1];
            assert!(apart, "{name}: {:?} lies on {:?}", text.text(), other.text());
        }
    }
    for circle in document.descendants().filter(|node| node.tag_name().name() == "circle") {
        assert!((0.0..=sheet[2]).contains(&number(circle, "cx")) && (0.0..=sheet[3]).contains(&number(circle, "cy")));
    }
}

#[test]
fn the_structure_of_the_pictures() {
    for (picture, draw) in PICTURES {
        for (variant, finding) in [("livelocking", fixture::livelocking()), ("nothing", fixture::nothing())] {
            let text = draw(&finding);
            let document = Document::parse(&text).unwrap();
            let mut tags: BTreeMap<&str, u32> = BTreeMap::new();
            for node in document.descendants().filter(Node::is_element) {
                *tags.entry(node.tag_name().name()).or_default() += 1;
            }
            let words: Vec<&str> = texts(&document).into_iter().filter_map(|node| node.text()).map(str::trim).collect();
            insta::assert_snapshot!(format!("svg-{picture}-{variant}"), format!("{tags:?}\n{}", words.join("\n")));
        }
    }
}

#[test]
fn every_measurement_is_a_point_and_those_of_a_late_sender_are_hollow() {
    let finding = fixture::livelocking();
    let measured = finding.sweep.iter().filter(|point| point.engine == EngineKind::Wire);
    let (kept_up, late): (Vec<_>, Vec<_>) = measured.partition(|point| point.sender_kept_up);
    let text = svg::delivered(&finding);
    let document = Document::parse(&text).unwrap();
    let circles = |fill| {
        let all = document.descendants().filter(|node| node.tag_name().name() == "circle");
        all.filter(|node| node.attribute("fill") == Some(fill)).count()
    };
    // One more of each in the legend.
    assert_eq!(circles("#111111"), kept_up.len() + 1);
    assert_eq!(circles("none"), late.len() + 1);
}

#[test]
fn figures_that_are_no_numbers_are_left_out() {
    let mut finding = fixture::livelocking();
    for (index, point) in finding.sweep.iter_mut().enumerate() {
        let bad = [f64::NAN, f64::INFINITY, -1.0, 0.0][index % 4];
        point.load_pps = if index % 3 == 0 { bad } else { point.load_pps };
        point.outcome.throughput_pps = Some(bad.into());
        point.outcome.loss_fraction = Some(bad.into());
        point.outcome.latency_s.as_mut().unwrap().p50 = Some(bad.into());
        point.outcome.cpu.as_mut().unwrap().protocol = Some(bad.into());
    }
    finding.cliff_pps.wire = Some(f64::NAN.into());
    finding.loss_target = 0.0;
    for (picture, draw) in PICTURES {
        let text = draw(&finding);
        assert!(!text.contains("NaN") && !text.contains("inf"), "{picture}");
        Document::parse(&text).unwrap_or_else(|error| panic!("{picture}: {error}"));
    }
}

#[test]
fn text_from_the_host_stays_text() {
    let text = svg::delivered(&fixture::hostile());
    assert!(!text.contains("<script") && !text.contains("<img") && !text.contains(HOSTILE));
}
