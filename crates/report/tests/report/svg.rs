use std::collections::BTreeMap;

use netcliff_core::{EngineKind, Finding};
use netcliff_report::svg;
use roxmltree::{Document, Node};

use crate::fixture::{self, HOSTILE};

/// A picture's name and how it is drawn.
type Picture = (&'static str, fn(&Finding) -> String);

const PICTURES: [Picture; 4] =
    [("delivered", svg::delivered), ("latency", svg::latency), ("cpu", cpu), ("loss", svg::loss)];

fn cpu(finding: &Finding) -> String {
    svg::cpu(finding, EngineKind::Wire)
}

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

fn is_named(node: &Node<'_, '_>, name: &str) -> bool {
    node.has_tag_name(("http://www.w3.org/2000/svg", name))
}

fn texts<'a>(sheet: Node<'a, 'a>) -> Vec<Node<'a, 'a>> {
    sheet.descendants().filter(|node| is_named(node, "text")).collect()
}

/// The drawings of a document: one for wide screens, one for phones.
fn sheets<'a>(document: &'a Document<'a>) -> [Node<'a, 'a>; 2] {
    let nested: Vec<Node<'a, 'a>> = document.root_element().children().filter(|node| is_named(node, "svg")).collect();
    assert_eq!(nested.iter().map(|node| node.attribute("class")).collect::<Vec<_>>(), [Some("wide"), Some("narrow")]);
    [nested[0], nested[1]]
}

/// A node's font size: its own or its parent's.
fn font_size(text: Node<'_, '_>) -> f64 {
    let sized = text.ancestors().find(|node| node.has_attribute("font-size")).expect("a font size");
    number(sized, "font-size")
}

/// Left, top, right, bottom of a text by a guess of 0.45 em a character.
fn bounds(text: Node<'_, '_>) -> [f64; 4] {
    let em = font_size(text);
    let long = 0.45 * em * text.text().unwrap_or_default().trim().chars().count() as f64;
    let (x, y) = (number(text, "x"), number(text, "y"));
    let start = match text.attribute("text-anchor") {
        Some("middle") => -long / 2.0,
        Some("end") => -long,
        _ => 0.0,
    };
    [x + start, y - 0.74 * em, x + start + long, y + 0.22 * em]
}

#[test]
fn every_picture_is_xml_with_words_for_those_who_cannot_see_it() {
    each(|name, document| {
        let root = document.root_element();
        assert_eq!(root.attribute("role"), Some("img"), "{name}");
        assert!(root.attribute("aria-label").is_some_and(|label| label.contains("cliff")), "{name}");
        let tags: Vec<&str> = root.children().filter(Node::is_element).map(|node| node.tag_name().name()).collect();
        assert_eq!(tags, ["title", "desc", "style", "svg", "svg"], "{name}: title, words, then a sheet for each width");
        for sheet in sheets(document) {
            let first = sheet.descendants().find(|node| node.is_element() && node.tag_name().name() == "rect");
            let size = |name| first.and_then(|rect| rect.attribute(name)).map(str::to_owned);
            let whole: Vec<&str> = sheet.attribute("viewBox").unwrap().split(' ').collect();
            assert_eq!(
                [size("width"), size("height")],
                [Some(whole[2].into()), Some(whole[3].into())],
                "{name}: paper"
            );
        }
    });
}

#[test]
fn everything_stays_on_the_sheet_and_no_text_lies_on_another() {
    each(stays_on_the_sheet);
}

/// Every text and point within each sheet, and no text on another.
pub fn stays_on_the_sheet(name: &str, document: &Document<'_>) {
    for sheet in sheets(document) {
        let name = format!("{name}, {}", sheet.attribute("class").unwrap());
        let size: Vec<f64> = sheet.attribute("viewBox").unwrap().split(' ').map(|n| n.parse().unwrap()).collect();
        let boxes: Vec<([f64; 4], Node<'_, '_>)> = texts(sheet).into_iter().map(|t| (bounds(t), t)).collect();
        for (index, (a, text)) in boxes.iter().enumerate() {
            assert!(a[0] >= 0.0 && a[1] >= 0.0 && a[2] <= size[2] && a[3] <= size[3], "{name}: {a:?} {text:?}");
            for (b, other) in &boxes[index + 1..] {
                let apart = a[2] <= b[0] || b[2] <= a[0] || a[3] <= b[1] || b[3] <= a[1];
                assert!(apart, "{name}: {:?} lies on {:?}", text.text(), other.text());
            }
        }
        for place in sheet.descendants().filter_map(|node| node.attribute("transform")) {
            let (x, y) =
                place.strip_prefix("translate(").and_then(|text| text.strip_suffix(')')?.split_once(' ')).unwrap();
            let (x, y): (f64, f64) = (x.parse().unwrap(), y.parse().unwrap());
            assert!((0.0..=size[2]).contains(&x) && (0.0..=size[3]).contains(&y), "{name}: {place}");
        }
    }
}

#[test]
fn text_is_never_smaller_than_12_pixels() {
    // The smallest widths at which the two sheets are shown: in a column of a finding's page, and on a phone of 320
    // pixels.
    each(|name, document| {
        for (sheet, shown) in sheets(document).into_iter().zip([568.0, 294.0]) {
            let width: f64 = sheet.attribute("viewBox").unwrap().split(' ').nth(2).unwrap().parse().unwrap();
            for text in texts(sheet) {
                let pixels = font_size(text) * shown / width;
                assert!(pixels >= 12.0, "{name}: {pixels} pixels: {:?}", text.text());
            }
        }
    });
}

#[test]
fn the_structure_of_the_pictures() {
    let mut structure = String::new();
    for (picture, draw) in PICTURES {
        for (variant, finding) in [("livelocking", fixture::livelocking()), ("nothing", fixture::nothing())] {
            let text = draw(&finding);
            let document = Document::parse(&text).unwrap();
            let mut tags: BTreeMap<&str, u32> = BTreeMap::new();
            for node in document.descendants().filter(Node::is_element) {
                *tags.entry(node.tag_name().name()).or_default() += 1;
            }
            let words: Vec<&str> =
                texts(document.root_element()).into_iter().filter_map(|node| node.text()).map(str::trim).collect();
            structure += &format!("#### {picture}, {variant}\n{tags:?}\n{}\n", words.join("\n"));
        }
    }
    insta::assert_snapshot!("svg", structure);
}

#[test]
fn every_measurement_is_a_point_and_those_of_a_late_sender_are_hollow() {
    let finding = fixture::livelocking();
    let measured = finding.sweep.iter().filter(|point| point.engine == EngineKind::Wire);
    let (kept_up, late): (Vec<_>, Vec<_>) = measured.partition(|point| point.sender_kept_up);
    let text = svg::delivered(&finding);
    let document = Document::parse(&text).unwrap();
    for sheet in sheets(&document) {
        let measured = sheet.descendants().find(|node| node.attribute("class") == Some("s t0")).expect("the series");
        let points = |class| {
            measured.children().filter(move |node| node.has_attribute("transform") && node.attribute("class") == class)
        };
        assert_eq!(points(None).count(), kept_up.len());
        assert_eq!(points(Some("paper")).count(), late.len());
    }
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
