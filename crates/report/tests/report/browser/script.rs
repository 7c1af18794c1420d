//! The script's functions: read-out by mouse and keys, hiding curves, enlarging a part, downloads.

use std::time::{Duration, Instant};

use serde_json::json;

use super::browser;
use super::devtools::Browser;

/// The middle of an element, or a place in it as shares of its width and height.
fn place(browser: &mut Browser, selector: &str, (x, y): (f64, f64)) -> (f64, f64) {
    let found = browser.eval(&format!(
        "(() => {{ const one = document.querySelector({selector:?}); one.scrollIntoView({{block: 'center'}}); \
         const box = one.getBoundingClientRect(); return [box.left + {x} * box.width, box.top + {y} * box.height]; }})()"
    ));
    (found[0].as_f64().expect("a place"), found[1].as_f64().expect("a place"))
}

fn text(browser: &mut Browser, selector: &str) -> String {
    browser.eval(&format!("document.querySelector({selector:?}).textContent")).as_str().unwrap_or_default().to_owned()
}

const FIND: &str = "#figure-delivered";

#[test]
fn values_are_read_out_by_mouse_and_by_keys() {
    let Some((mut browser, pages)) = browser() else { return };
    for (width, drawing) in [(1200, "wide"), (420, "narrow")] {
        browser.open(&pages.file("find"), width, "light");
        let at = place(&mut browser, &format!("{FIND} svg.{drawing}"), (0.4, 0.5));
        browser.mouse("mouseMoved", at);
        let load = text(&mut browser, &format!("{FIND} .where"));
        assert!(load.starts_with("offered load ") && load.ends_with("pps"), "{load}");
        for key in 0..3 {
            let value = text(&mut browser, &format!("{FIND} .keys li[data-key='{key}'] .value"));
            assert!(value.contains("kpps"), "{width} px, {key}: {value:?}");
        }
        let measured = text(&mut browser, &format!("{FIND} .keys li[data-key='2'] .value"));
        assert!(measured.contains('(') && measured.contains('\u{2013}'), "an interval: {measured}");
        // Keys move from the first value to the second, in the order of x.
        browser.eval(&format!("document.querySelector('{FIND} .stage').focus()"));
        browser.key("Home", "", 36);
        let first = text(&mut browser, &format!("{FIND} .spoken"));
        assert!(first.starts_with("offered load 20.0 kpps: model 20.0 kpps. simulated 30.0 kpps"), "{first}");
        assert!(first.contains("at 30.0 kpps"), "what was computed elsewhere says where: {first}");
        browser.key("ArrowRight", "", 39);
        assert!(text(&mut browser, &format!("{FIND} .spoken")).starts_with("offered load 30.0 kpps"));
        browser.key("Escape", "", 27);
        assert_eq!(text(&mut browser, &format!("{FIND} .spoken")), "");
    }
    assert!(browser.complaints.is_empty(), "{:?}", browser.complaints);
}

#[test]
fn a_legend_entry_hides_its_curve_by_mouse_and_by_keys() {
    let Some((mut browser, pages)) = browser() else { return };
    browser.open(&pages.file("find"), 1200, "light");
    let shown = "[...document.querySelectorAll('#figure-latency svg.wide g.s')].sort((a, b) => a.dataset.s - b.dataset.s).map((one) => getComputedStyle(one).display !== 'none')";
    let button = "#figure-latency .keys li[data-key='1'] button";
    assert_eq!(browser.eval(shown), json!([true, true, true, true, true, true]));
    let at = place(&mut browser, button, (0.5, 0.5));
    browser.click(at);
    assert_eq!(browser.eval(shown), json!([true, false, true, true, false, true]), "both quantiles of the simulation");
    let pressed = format!("document.querySelector({button:?}).getAttribute('aria-pressed')");
    assert_eq!(browser.eval(&pressed), "false");
    browser.eval(&format!("document.querySelector({button:?}).focus()"));
    browser.key("Enter", "\r", 13);
    assert_eq!(browser.eval(&pressed), "true");
    browser.key(" ", " ", 32);
    assert_eq!(browser.eval(&pressed), "false");
    // Hidden curves are not read out.
    let at = place(&mut browser, "#figure-latency svg.wide", (0.4, 0.5));
    browser.mouse("mouseMoved", at);
    assert_eq!(text(&mut browser, "#figure-latency .keys li[data-key='1'] .value"), "");
    assert!(browser.complaints.is_empty(), "{:?}", browser.complaints);
}

#[test]
fn a_part_is_enlarged_by_dragging_and_set_back() {
    let Some((mut browser, pages)) = browser() else { return };
    for (page, figure) in [("find", "delivered"), ("find", "loss"), ("limits", "figure"), ("transfers", "figure")] {
        browser.open(&pages.file(page), 1200, "light");
        let svg = format!("#figure-{figure} svg.wide");
        let whole = browser.eval(&format!("document.querySelector('{svg}').outerHTML"));
        let labels = format!("[...document.querySelectorAll('{svg} .ticks text')].map((one) => one.textContent)");
        let before = browser.eval(&labels);
        let drag = |browser: &mut Browser, from: (f64, f64), to: (f64, f64)| {
            for (kind, share) in
                [("mouseMoved", from), ("mousePressed", from), ("mouseMoved", to), ("mouseReleased", to)]
            {
                let at = place(browser, &svg, share);
                browser.mouse(kind, at);
            }
        };
        drag(&mut browser, (0.3, 0.4), (0.5, 0.45));
        let after = browser.eval(&labels);
        assert_ne!(before, after, "{page} {figure}");
        let list = after.as_array().expect("labels");
        assert!(list.len() >= 3 && list.iter().all(|label| !label.to_string().contains("NaN")), "{page}: {after}");
        let paths = browser.eval(&format!("document.querySelector('{svg} .zoom').outerHTML")).to_string();
        assert!(!paths.contains("NaN") && !paths.contains("Infinity"), "{page}");
        browser.eval(&format!("document.querySelector('#figure-{figure} .stage').focus()"));
        browser.key("Escape", "", 27);
        assert_eq!(browser.eval(&format!("document.querySelector('{svg}').outerHTML")), whole, "{page}: as it was");
        // Dragging a rectangle enlarges both axes; a double click also resets them.
        drag(&mut browser, (0.3, 0.3), (0.6, 0.7));
        assert_ne!(browser.eval(&labels), before);
        browser.eval(&format!(
            "document.querySelector('{svg}').dispatchEvent(new MouseEvent('dblclick', {{bubbles: true}}))"
        ));
        browser.mouse("mouseMoved", (1.0, 1.0));
        assert_eq!(browser.eval(&labels), before, "{page} {figure}");
    }
    assert!(browser.complaints.is_empty(), "{:?}", browser.complaints);
}

#[test]
fn figures_are_downloaded_as_svg_png_and_csv() {
    let Some((mut browser, pages)) = browser() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    browser.open(&pages.file("transfers"), 420, "dark");
    browser.call("Browser.setDownloadBehavior", json!({"behavior": "allow", "downloadPath": folder.path()}));
    let mut files = Vec::new();
    for (figure, name) in [("figure", "netcliff-figure"), ("effects", "netcliff-effects")] {
        for ending in ["svg", "png", "csv"] {
            browser.eval(&format!(
                "[...document.querySelectorAll('#figure-{figure} .tools *')].find((one) => one.textContent === '{}').click()",
                ending.to_uppercase()
            ));
            let file = folder.path().join(format!("{name}.{ending}"));
            let until = Instant::now() + Duration::from_secs(15);
            let bytes = loop {
                match std::fs::read(&file) {
                    Ok(bytes) if !bytes.is_empty() => break bytes,
                    _ => assert!(Instant::now() < until, "{} was not downloaded", file.display()),
                }
                std::thread::sleep(Duration::from_millis(50));
            };
            files.push((format!("{figure}.{ending}"), bytes));
        }
    }
    let file = |name: &str| &files.iter().find(|(file, _)| file == name).expect("a file").1;
    for figure in ["figure", "effects"] {
        let svg = String::from_utf8(file(&format!("{figure}.svg")).clone()).expect("text");
        let document = roxmltree::Document::parse(&svg).expect("XML");
        let view = document.root_element().attribute("viewBox").expect("a view box");
        assert!(view.starts_with("0 0 640 "), "title and legend are in it: {view}");
        let title = if figure == "figure" { "What each setting does to a transfer" } else { "Effect of each setting" };
        assert!(svg.contains(&format!(">{title}</text>")), "{figure}");
        assert!(file(&format!("{figure}.png")).starts_with(b"\x89PNG\r\n\x1a\n"), "{figure}");
    }
    let csv = String::from_utf8(file("figure.csv").clone()).expect("text");
    assert!(csv.starts_with("curve,block [B],goodput [bit/s],low,high,note\nsplice,4096"), "{csv}");
    assert_eq!(csv.lines().count(), 1 + 2 * 9);
    assert!(String::from_utf8_lossy(file("effects.csv")).contains("block: 4KiB → 64KiB,0.84,"));
    assert!(browser.complaints.is_empty(), "{:?}", browser.complaints);
}

#[test]
fn without_the_script_the_figure_is_whole() {
    let Some((mut browser, pages)) = browser() else { return };
    browser.call("Emulation.setScriptExecutionDisabled", json!({"value": true}));
    browser.open(&pages.file("find"), 1200, "light");
    let count =
        |browser: &mut Browser, what: &str| browser.eval(&format!("document.querySelectorAll({what:?}).length"));
    assert_eq!(count(&mut browser, "figure button"), 0);
    assert!(count(&mut browser, "figure.plot svg.wide .s path").as_u64() > Some(40));
    assert!(count(&mut browser, "figure.plot .keys li").as_u64() > Some(8));
    assert_eq!(count(&mut browser, "figure.plot a.csv"), count(&mut browser, "figure.plot"));
}
