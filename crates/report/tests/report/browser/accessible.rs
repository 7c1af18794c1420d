//! No page has a violation of the accessibility rules of axe-core.

use sha2::{Digest, Sha256};

use super::{KINDS, browser};

const AXE: &str = include_str!("../../axe/axe.min.js");
/// Checksum of `axe.min.js` of the npm package axe-core 4.10.3.
const AXE_SHA256: &str = "880970c081707360e64f34cea25ff91892f5bc95675b0776925b9709dd8a68bb";

#[test]
fn axe_is_the_published_file() {
    assert_eq!(data_encoding::HEXLOWER.encode(&Sha256::digest(AXE.as_bytes())), AXE_SHA256);
}

#[test]
fn no_page_has_a_barrier_in_any_theme_or_width() {
    let Some((mut browser, pages)) = browser() else { return };
    for kind in KINDS {
        browser.open(&pages.file(kind), 420, "light");
        browser.eval("document.querySelectorAll('details').forEach((one) => (one.open = true))");
        // The rows of a table are alike, so that the first four of each table suffice.
        browser.eval("document.querySelectorAll('tbody tr:nth-child(n+5)').forEach((one) => one.remove())");
        browser.eval(&format!("{AXE}; 0"));
        for width in [420, 1200] {
            browser.resize(width);
            for theme in ["light", "dark", "print"] {
                browser.theme(theme);
                // A theme changes only colours. A screen reader treats a drawing as one picture, so that its parts are
                // not checked one by one.
                let rules = if theme == "light" { "" } else { ", runOnly: ['color-contrast']" };
                let found = browser.eval(&format!(
                    "axe.run({{exclude: [['.stage svg > *']]}}, {{resultTypes: ['violations']{rules}}}).then((found) => found.violations.map((one) => \
                     one.id + ': ' + one.help + ': ' + one.nodes.slice(0, 3).map((node) => node.html.slice(0, 160) + ' ' + \
                     node.failureSummary).join(' | ')))",
                ));
                assert_eq!(found, serde_json::json!([]), "{kind}, {width} px, {theme}");
                let rules = browser.eval("axe.getRules().length").as_u64().unwrap_or(0);
                assert!(rules > 80, "{rules} rules");
            }
        }
        assert!(browser.complaints.is_empty(), "{kind}: {:?}", browser.complaints);
    }
}

#[test]
fn axe_sees_a_barrier_where_there_is_one() {
    let Some((mut browser, pages)) = browser() else { return };
    browser.open(&pages.file("limits"), 420, "light");
    browser.eval(
        "document.querySelector('.stage svg.narrow').removeAttribute('aria-label'); document.documentElement.lang = ''",
    );
    browser.eval(&format!("{AXE}; 0"));
    let found = browser.eval("axe.run().then((found) => found.violations.map((one) => one.id))").to_string();
    assert!(found.contains("html-has-lang") && found.contains("svg-img-alt"), "{found}");
}
