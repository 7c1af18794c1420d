//! `netcliff inspect`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use netcliff_core::inspection::{Remark, Sheet};
use netcliff_host::inspect::scheme::{self, PortScheme};
use netcliff_host::inspect::{Inspection, capture, page, rules};
use netcliff_host::nic;
use netcliff_report as report;
use serde::Serialize;

use crate::args::InspectArgs;
use crate::output;

/// The object that `--json` prints.
#[derive(Serialize)]
struct Whole<'a> {
    #[serde(flatten)]
    inspection: &'a Inspection,
    schemes: Vec<PortScheme>,
    remarks: &'a [Remark],
}

/// Inspects this host or a capture.
pub fn run(args: &InspectArgs) -> anyhow::Result<ExitCode> {
    if let Some(dir) = &args.capture {
        return capture(args, dir);
    }
    let mut inspection = match &args.from {
        Some(dir) => Inspection::of_capture(dir).map_err(output::usage)?,
        None => Inspection::of_this_host(args.watch).context("cannot ask the kernel for its interfaces")?,
    };
    if let Some(name) = args.interface() {
        inspection.only(name).map_err(|error| output::usage(format!("--if: {error}")))?;
    }
    let aim = rules::Aim { objective: args.objective, rtt_s: args.rtt };
    let remarks = rules::check(&inspection, &aim);
    if args.json {
        output::json_line(&Whole { inspection: &inspection, schemes: scheme::of(&inspection), remarks: &remarks })?;
    } else {
        let sheet: Sheet = page::sheet(&inspection, remarks);
        let page = if args.verbose { report::terminal::inspection } else { report::terminal::inspection_brief };
        output::page(&page(&sheet, output::style()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn capture(args: &InspectArgs, dir: &Path) -> anyhow::Result<ExitCode> {
    let mut nics = nic::ask_all().context("cannot ask the kernel for its interfaces")?;
    if let Some(name) = args.interface() {
        nics.retain(|nic| nic.name == name);
        if nics.is_empty() {
            return Err(output::usage(format!("--if {name}: there is no such interface; `ip link` lists them")));
        }
    }
    let root = Path::new("/");
    let failed = || format!("cannot capture into {}", dir.display());
    let mut files = capture::write(root, &nics, dir).with_context(failed)?;
    // Inspect all interfaces, because a path crosses several.
    let host = Inspection::of_this_host(std::time::Duration::ZERO).with_context(failed)?;
    files += capture::write_paths(&host.network.narrow_paths, dir).with_context(failed)?;
    if !args.watch.is_zero() {
        std::thread::sleep(args.watch);
        files += capture::write_later(root, &nics, dir).with_context(failed)?;
    }
    output::say(format!("netcliff: {files} files in {}; look at them with --from {0}", dir.display()));
    Ok(ExitCode::SUCCESS)
}
