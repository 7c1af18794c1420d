//! Renders findings to files, to look at: `cargo run -p netcliff-report --example render -- OUTDIR [FINDING.json]`.
//! Without a JSON file: the artificial findings of the tests. README.md and docs/cliff.svg show `brief.txt` and
//! `delivered.svg` of a record.

#[path = "../tests/report/fixture.rs"]
#[allow(dead_code)]
mod fixture;
#[path = "../tests/report/pages.rs"]
mod pages;
#[path = "../tests/report/routers.rs"]
#[allow(dead_code)]
mod routers;

use std::path::Path;

use netcliff_core::{EngineKind, Finding};
use netcliff_report::{Style, html, svg, terminal};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let out = args.next().ok_or("which directory? usage: render OUTDIR [FINDING.json]")?;
    match args.next() {
        Some(path) => write(Path::new(&out), &serde_json::from_str(&std::fs::read_to_string(path)?)?)?,
        None => {
            for (name, finding) in fixture::variants() {
                write(&Path::new(&out).join(name), &finding)?;
            }
            for (name, page) in pages::pages() {
                std::fs::write(Path::new(&out).join(format!("{name}.html")), page)?;
            }
        }
    }
    Ok(())
}

fn write(folder: &Path, finding: &Finding) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join("terminal.txt"), terminal::finding(finding, Style::default()))?;
    let wide = Style { width: 118, ..Style::default() };
    std::fs::write(folder.join("brief.txt"), terminal::brief(finding, wide))?;
    std::fs::write(folder.join("finding.html"), html::finding(finding))?;
    std::fs::write(folder.join("delivered.svg"), svg::delivered(finding))?;
    std::fs::write(folder.join("latency.svg"), svg::latency(finding))?;
    std::fs::write(folder.join("cpu.svg"), svg::cpu(finding, EngineKind::Wire))?;
    std::fs::write(folder.join("loss.svg"), svg::loss(finding))
}
