//! `netcliff headroom`.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use netcliff_host::inspect::{Inspection, Port};
use netcliff_host::inventory::Inventory;
use netcliff_host::watch::Look;
use netcliff_lab::{costs, find, headroom};
use netcliff_report as report;

use super::{now_unix_s, store_path};
use crate::args::{HeadroomArgs, StoreArgs};
use crate::output;

/// Counts for a while and holds it against the calibrated cliff.
pub fn run(args: &HeadroomArgs, store: &StoreArgs) -> anyhow::Result<ExitCode> {
    super::refuse_name(store, false, "headroom keeps nothing")?;
    let path = store_path(store)?;
    let found = costs::cliff_of(args.host.as_deref(), || Ok(path.clone())).map_err(|why| match &args.host {
        Some(_) => output::usage(why),
        None => output::usage(format!("no calibrated cliff in {}: {why}; `netcliff find` measures it", path.display())),
    })?;
    let host = Inspection::of_this_host(Duration::ZERO).context("cannot ask the kernel for its interfaces")?;
    let ports = ports(&args.interfaces, &host)?;
    let before = Look::now(&ports)?;
    std::thread::sleep(args.interval);
    let moment = before.until(&before.next(&ports)?, &ports);
    let kernel = find::kernel_name(&Inventory::of_this_host());
    let now = headroom::headroom(&moment, &found, now_unix_s(), &kernel).map_err(anyhow::Error::msg)?;
    if let Some(caution) = super::caution(&found) {
        output::say(format!("netcliff: {caution}"));
    }
    if args.json {
        output::json_line(&now)?;
    } else {
        output::page(&report::terminal::headroom(&now, output::style()))?;
    }
    let failed = args.fail_above.is_some_and(|most| now.share > most || now.lost_per_s > 0.0);
    Ok(ExitCode::from(u8::from(failed)))
}

/// The named ports, or the main ones.
pub(super) fn ports<'a>(interfaces: &[String], host: &'a Inspection) -> anyhow::Result<Vec<&'a Port>> {
    if interfaces.is_empty() {
        return Ok(host.main_ports());
    }
    let find = |name: &String| {
        host.port(name)
            .ok_or_else(|| output::usage(format!("--if {name}: there is no such interface; `ip link` lists them")))
    };
    interfaces.iter().map(find).collect()
}
