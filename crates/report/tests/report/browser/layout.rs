//! The layout: no horizontal scroll, and no text that is smaller than 12 pixels, cut, or on top of other text.

use super::{KINDS, browser};

/// Every text of a figure that is shown: its words, its height in CSS pixels, and its box.
const TEXTS: &str = "[...document.querySelectorAll('.stage svg')].filter((svg) => svg.getBoundingClientRect().width > 0).flatMap((svg) => {
    const scale = svg.getScreenCTM().a, outer = svg.getBoundingClientRect();
    return [...svg.querySelectorAll('text')].map((text) => {
        const box = text.getBoundingClientRect();
        return {words: text.textContent, size: parseFloat(getComputedStyle(text).fontSize) * scale, figure: svg.parentElement.parentElement.id,
            box: [box.left - outer.left, box.top - outer.top, box.right - outer.left, box.bottom - outer.top],
            outer: [outer.width, outer.height]};
    });
})";

#[test]
fn text_is_12_pixels_high_within_its_figure_and_apart_at_every_width() {
    let Some((mut browser, pages)) = browser() else { return };
    for kind in KINDS {
        browser.open(&pages.file(kind), 360, "light");
        for width in [360, 420, 599, 600, 800, 1200] {
            browser.resize(width);
            let texts = browser.eval(TEXTS);
            let texts = texts.as_array().expect("a list");
            // A comparison has no figure.
            assert!(texts.len() > 8 || kind == "compare", "{kind}, {width} px: {} texts", texts.len());
            let number = |value: &serde_json::Value| value.as_f64().expect("a number");
            let mut shown: Vec<(&str, [f64; 4], &str)> = Vec::new();
            for text in texts {
                let words = text["words"].as_str().expect("words");
                let what = format!("{kind}, {width} px: {words:?}: {text}");
                assert!(number(&text["size"]) >= 12.0, "{what}");
                let edges = [0, 1, 2, 3].map(|at| number(&text["box"][at]));
                let outer = [0, 1].map(|at| number(&text["outer"][at]));
                // Title and legend are outside the view box, for downloads.
                if edges[3] < 1.0 || edges[1] > outer[1] - 1.0 {
                    continue;
                }
                assert!(edges[0] > -1.0 && edges[2] < outer[0] + 1.0, "beyond the figure: {what}");
                assert!(edges[1] > -4.0 && edges[3] < outer[1] + 4.0, "cut: {what}");
                shown.push((words, edges, text["figure"].as_str().expect("an id")));
            }
            for (at, (words, a, figure)) in shown.iter().enumerate() {
                for (other, b, of) in &shown[at + 1..] {
                    // A box has the height of the font's tallest letters, so that boxes of adjacent lines may overlap
                    // slightly.
                    let touch = a[0] < b[2] - 1.0 && b[0] < a[2] - 1.0 && a[1] < b[3] - 4.0 && b[1] < a[3] - 4.0;
                    assert!(figure != of || !touch, "{kind}, {width} px, {figure}: {words:?} lies on {other:?}");
                }
            }
        }
    }
}

#[test]
fn nothing_scrolls_sideways_and_no_table_is_cut() {
    let Some((mut browser, pages)) = browser() else { return };
    for kind in KINDS {
        browser.open(&pages.file(kind), 320, "light");
        for width in [320, 360, 420, 800, 1200] {
            browser.resize(width);
            let page = browser.eval("document.documentElement.scrollWidth - document.documentElement.clientWidth");
            let wide = browser.eval(
                "[...document.body.querySelectorAll('*')].filter((one) => one.getBoundingClientRect().right > \
                 document.documentElement.clientWidth + 1).map((one) => one.outerHTML.slice(0, 120)).slice(0, 3)",
            );
            assert_eq!(page, 0, "{kind}, {width} px: the page is wider than the screen: {wide}");
            let cut = browser.eval(
                "[...document.querySelectorAll('.scroll')].filter((one) => one.scrollWidth > one.clientWidth + 1 && \
                 !one.closest('details')).map((one) => one.parentElement.id + ': ' + one.scrollWidth + ' of ' + one.clientWidth)",
            );
            assert_eq!(cut, serde_json::json!([]), "{kind}, {width} px");
        }
    }
}
