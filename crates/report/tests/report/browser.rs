//! The pages in a real browser: accessibility by axe-core, layout at the widths of phones and desks, and what the script adds.
//!
//! Chromium is asked for by name; without it the tests are reported as skipped. Screenshots are compared by the brightness of
//! coarse cells, since fonts and their smoothing differ from machine to machine by more than a plot would by a fault; where
//! text is and how large is measured by the browser itself (`layout`).

mod accessible;
mod devtools;
mod layout;
mod looks;
mod script;

use std::path::PathBuf;

use crate::pages;
use devtools::Browser;

/// Names that Chromium goes by, the package's first.
const PROGRAM: &str = "chromium";

/// A browser, and every page as a file; None, reported, where there is no browser.
fn browser() -> Option<(Browser, Pages)> {
    netcliff_testkit::has_program(PROGRAM).then(|| (Browser::start(PROGRAM), Pages::written()))
}

/// The pages as files of a folder that goes with them.
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
