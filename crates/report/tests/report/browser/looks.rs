//! The appearance of figures: brightness of coarse cells, compared with looks.txt. `INSTA_UPDATE=always` writes the
//! current figures there.
//!
//! Text is hidden: fonts differ between machines, and `layout` measures the place and size of text. The rest of a
//! drawing does not depend on fonts.

use std::collections::BTreeMap;

use serde_json::json;

use super::browser;
use super::devtools::Browser;

/// Cells along and down. The brightness of a cell is one digit of sixteen.
const CELLS: (usize, usize) = (64, 40);
/// Largest accepted mean and largest accepted difference of cells, in steps of brightness. Other versions of the
/// browser smooth edges slightly differently. A test below shows that a missing curve makes a larger difference.
const MEAN_STEPS: f64 = 0.05;
const MOST_STEPS: u32 = 2;

/// A figure of a page at a width and in a theme, as brightness by cells.
fn cells(browser: &mut Browser, figure: &str) -> Vec<String> {
    browser.eval("document.head.append(Object.assign(document.createElement('style'), {textContent: '.stage text { visibility: hidden; }'}))");
    let clip = browser.eval(&format!(
        "(() => {{ const svg = [...document.querySelectorAll('#figure-{figure} .stage svg')].find((one) => one.getBoundingClientRect().width > 0); \
         const box = svg.getBoundingClientRect(); \
         return {{x: box.left + scrollX, y: box.top + scrollY, width: box.width, height: box.height, scale: 1}}; }})()"
    ));
    let shot =
        browser.call("Page.captureScreenshot", json!({"format": "png", "clip": clip, "captureBeyondViewport": true}));
    let data = shot["data"].as_str().expect("a picture");
    // The browser itself averages the cells.
    let (across, down) = CELLS;
    let rows = browser.eval(&format!(
        "new Promise((resolve) => {{ const image = new Image(); image.onload = () => {{
            const canvas = document.createElement('canvas'); canvas.width = image.width; canvas.height = image.height;
            const context = canvas.getContext('2d'); context.drawImage(image, 0, 0);
            const data = context.getImageData(0, 0, image.width, image.height).data, rows = [];
            for (let row = 0; row < {down}; row++) {{ let line = '';
                for (let column = 0; column < {across}; column++) {{ let sum = 0, count = 0;
                    for (let y = Math.floor(row * image.height / {down}); y < Math.floor((row + 1) * image.height / {down}); y++)
                        for (let x = Math.floor(column * image.width / {across}); x < Math.floor((column + 1) * image.width / {across}); x++) {{
                            const at = 4 * (y * image.width + x);
                            sum += 0.2126 * data[at] + 0.7152 * data[at + 1] + 0.0722 * data[at + 2]; count++; }}
                    line += Math.round(15 * sum / count / 255).toString(16); }}
                rows.push(line); }}
            resolve(rows); }}; image.src = 'data:image/png;base64,{data}'; }})"
    ));
    rows.as_array().expect("rows").iter().map(|row| row.as_str().expect("a row").to_owned()).collect()
}

/// Mean and greatest difference of two pictures, in steps.
fn apart(a: &[String], b: &[String]) -> (f64, u32) {
    let digits = |rows: &[String]| -> Vec<u32> { rows.concat().chars().filter_map(|c| c.to_digit(16)).collect() };
    let differences: Vec<u32> = digits(a).iter().zip(digits(b)).map(|(a, b)| a.abs_diff(b)).collect();
    (differences.iter().sum::<u32>() as f64 / differences.len() as f64, differences.into_iter().max().unwrap_or(99))
}

#[test]
fn figures_look_as_they_did() {
    let Some((mut browser, pages)) = browser() else { return };
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/report/browser/looks.txt");
    let keep = std::env::var("INSTA_UPDATE").is_ok_and(|value| value == "always");
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    let pictures = text.split("# ").filter_map(|picture| picture.split_once('\n'));
    let kept: BTreeMap<&str, Vec<String>> =
        pictures.map(|(name, rows)| (name, rows.lines().map(str::to_owned).collect())).collect();
    let (mut drawn, mut failures) = (BTreeMap::new(), Vec::new());
    for (page, figure) in [
        ("find", "delivered"),
        ("find", "latency"),
        ("find", "loss"),
        ("find", "cpu-wire"),
        ("experiment", "figure"),
        ("limits", "figure"),
        ("rfc2544", "throughput"),
        ("transfers", "effects"),
    ] {
        for (width, theme) in [(1200, "light"), (420, "dark")] {
            browser.open(&pages.file(page), width, theme);
            let now = cells(&mut browser, figure);
            let name = format!("{page}-{figure}-{width}-{theme}");
            if !keep {
                let (mean, most) = apart(kept.get(name.as_str()).expect("a picture of this name"), &now);
                if mean > MEAN_STEPS || most > MOST_STEPS {
                    failures.push(format!("{name}: off by {mean:.2} in the mean, {most} at most\n{}", now.join("\n")));
                }
            }
            drawn.insert(name, now);
        }
    }
    if keep {
        let whole: Vec<String> = drawn.iter().map(|(name, rows)| format!("# {name}\n{}\n", rows.join("\n"))).collect();
        std::fs::write(&file, whole.concat()).expect("the pictures can be written");
    }
    let names: Vec<&str> = drawn.keys().map(String::as_str).collect();
    assert!(
        keep || kept.keys().copied().eq(names.iter().copied()),
        "looks.txt has {:?}, drawn are {names:?}",
        kept.keys()
    );
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn a_missing_curve_and_a_missing_axis_are_seen() {
    let Some((mut browser, pages)) = browser() else { return };
    browser.open(&pages.file("experiment"), 1200, "light");
    let whole = cells(&mut browser, "figure");
    assert_eq!(apart(&whole, &cells(&mut browser, "figure")), (0.0, 0));
    for part in ["g.s.t1", "g.s.t3", ".ends, #figure-figure svg.wide .zoom path[stroke-dasharray]"] {
        let every = format!(
            "document.querySelectorAll('#figure-figure svg.wide {part}').forEach((one) => (one.style.display = "
        );
        browser.eval(&format!("{every} 'none'))"));
        let (mean, most) = apart(&whole, &cells(&mut browser, "figure"));
        browser.eval(&format!("{every} ''))"));
        assert!(mean > MEAN_STEPS || most > MOST_STEPS, "{part}: {mean:.2}, {most}");
    }
}
