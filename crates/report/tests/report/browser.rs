//! The pages in a real browser: accessibility by axe-core, layout at the widths of phones and desktops, and the script.
//!
//! Without Chromium the tests are reported as skipped. Screenshots are compared by the brightness of coarse cells,
//! because fonts and their smoothing differ more between machines than a plot would by an error. The browser itself
//! measures the place and size of text (`layout`).

mod accessible;
mod devtools;
mod layout;
mod looks;
mod script;

use std::path::PathBuf;

use crate::pages;
use devtools::Browser;

/// Name of the program.
const PROGRAM: &str = "chromium";

/// A browser, and every page as a file. `None`, and the test is reported as skipped, if there is no browser.
fn browser() -> Option<(Browser, Pages)> {
    netcliff_testkit::has_program(PROGRAM).then(|| (Browser::start(PROGRAM), Pages::written()))
}

/// The pages as files of a folder, which is removed with this value.
struct Pages {
    folder: tempfile::TempDir,
}

impl Pages {
    fn written() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, page) in pages::pages() {
            std::fs::write(folder.path().join(format!("{name}.html")), page).expect("a page is written");
        }
        Self { folder }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.html"))
    }
}

/// Every kind of page.
const KINDS: [&str; 7] = ["find", "experiment", "limits", "rfc2544", "transfers", "forwarding", "compare"];
