//! `finding FILE.json`: the page of `netcliff find` for a record from `find --json`. `finding FILE.json --svg`: its
//! picture. README.md and docs/cliff.svg show records of 23 November 2026.

use std::io::Write;

use netcliff_core::Finding;
use netcliff_report::{svg, terminal};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("finding FILE.json [--svg]")?;
    let finding: Finding = serde_json::from_str(&std::fs::read_to_string(path)?)?;
    let text = if arguments.next().as_deref() == Some("--svg") {
        svg::delivered(&finding)
    } else {
        terminal::brief(&finding, terminal::Style { width: 118, ..Default::default() })
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(())
}
