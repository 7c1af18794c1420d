//! `netcliff limits`.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use netcliff_core::parts::Memory;
use netcliff_core::{Bus, Host, Provenance, units};
use netcliff_host::inventory::Inventory;
use netcliff_host::{memory, nic, testbed::ports};
use netcliff_lab::inputs;
use netcliff_lab::limits::{System, USUAL_SIZES_BYTES, curves, roofline};
use netcliff_report as report;
use netcliff_report::drawing::Drawing;

use super::{command_line, newest_calibration, now_unix_s, write};
use crate::args::{LimitsArgs, StoreArgs};
use crate::output;

/// How long memory is measured.
const MEMORY_SPAN: Duration = Duration::from_millis(200);

/// What bounds, and where each part of it is from.
struct Described {
    system: System,
    /// Where link and slot are from.
    interface: Option<String>,
    /// How the memory's bandwidth is known.
    memory_is_measured: bool,
    /// Where the CPU's costs are from.
    costs: Option<String>,
}

/// The bounds of what was described, or of this host.
pub fn run(args: &LimitsArgs, store: &StoreArgs) -> anyhow::Result<ExitCode> {
    let described = describe(args, store)?;
    let system = &described.system;
    let sizes = if args.sizes.is_empty() { USUAL_SIZES_BYTES.to_vec() } else { args.sizes.clone() };
    let found = roofline(system, &sizes, &args.offload);
    if found.parts().is_empty() {
        return Err(output::usage(format!(
            "nothing is known that bounds this host; name at least one of {}",
            found.unknown.join(", ")
        )));
    }
    let (axes, curves) = curves(system, &sizes, &args.offload);
    let drawing = Drawing {
        title: "What bounds this host, by frame size".to_owned(),
        axes,
        curves,
        marks: Vec::new(),
        not_had: Vec::new(),
        asked: asked(args, &described),
        source: String::new(),
        provenance: Provenance {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            command: command_line(),
            started_unix_s: now_unix_s(),
            ..Provenance::default()
        },
        partial: false,
    };
    match (args.json, args.csv) {
        (true, _) => output::json_line(&found)?,
        (_, true) => output::data(&report::csv::roofline(&found))?,
        _ => output::data(&report::terminal::limits(&found, &drawing, output::style()))?,
    }
    if let Some(path) = &args.svg {
        write(path, &report::svg::experiment(&drawing))?;
    }
    if let Some(path) = &args.html {
        write(path, &report::html::experiment(&drawing))?;
        output::say(format!("netcliff: the page is in {}", path.display()));
    }
    Ok(ExitCode::SUCCESS)
}

fn describe(args: &LimitsArgs, store: &StoreArgs) -> anyhow::Result<Described> {
    let interface = args.interface.clone().or_else(|| args.is_here().then(ports::default_interface).flatten());
    let (link_bps, bus) = match &interface {
        Some(name) => device(name, args)?,
        None => (args.link, args.bus),
    };
    let measured = || memory::copy_bytes_per_s(&Inventory::of_this_host(), MEMORY_SPAN);
    let memory_is_measured = args.memory.is_none() && args.is_here();
    let memory = args.memory.or_else(|| memory_is_measured.then(measured));
    let (cpu, costs) = costs(args, store)?;
    let system = System {
        link_bps,
        bus: bus.unwrap_or(Bus::None),
        memory: memory.map(|bytes_per_s| Memory { bytes_per_s, copies: args.copies }),
        cpu,
        cpus: args.cpus,
        frames_per_interrupt: f64::from(args.frames_per_interrupt),
    };
    Ok(Described { system, interface, memory_is_measured, costs })
}

/// Link speed (bit/s) and bus: those that were given, else the interface's.
fn device(name: &str, args: &LimitsArgs) -> anyhow::Result<(Option<f64>, Option<Bus>)> {
    let sys = Path::new("/sys");
    let nic = nic::read(name, sys)
        .map_err(|error| output::usage(format!("--if {name}: {error}; `ip link` lists the interfaces")))?;
    let link_bps = args.link.or(nic.speed_mbps.map(|mbps| f64::from(mbps) * 1e6));
    let slot = nic::slot::slot(name, sys);
    let bus = match (args.bus, slot) {
        (None, Some(slot)) => Some(Bus::pcie(slot.generation, slot.lanes).map_err(output::usage)?),
        (given, _) => given,
    };
    if bus.is_none() {
        output::say(format!("netcliff: {name} has no PCI Express link that sysfs shows"));
    }
    if link_bps.is_none() {
        output::say(format!("netcliff: the driver of {name} does not say its speed"));
    }
    Ok((link_bps, bus))
}

/// Costs of the CPU and where they are from.
fn costs(args: &LimitsArgs, store: &StoreArgs) -> anyhow::Result<(Option<Host>, Option<String>)> {
    let (mut host, from) = match &args.host {
        Some(name) => (inputs::host(name).map_err(output::usage)?, name.clone()),
        None if args.is_here() => match newest_calibration(store) {
            Ok((run, calibration)) => (calibration.host, format!("costs of find run {run}")),
            Err(error) if !args.set.is_empty() => {
                return Err(output::usage(format!(
                    "--set changes costs, and this host's are not known: {error}; name a --host"
                )));
            }
            Err(error) => {
                output::say(format!("netcliff: the CPU's costs are not known: {error}; `netcliff find` measures them"));
                return Ok((None, None));
            }
        },
        None if !args.set.is_empty() => return Err(output::usage("--set changes costs: name a --host, or --here")),
        None => return Ok((None, None)),
    };
    for assignment in &args.set {
        host.set(assignment).map_err(output::usage)?;
    }
    host.validate().map_err(output::usage)?;
    Ok((Some(host), Some(from)))
}

fn asked(args: &LimitsArgs, described: &Described) -> Vec<(String, String)> {
    let system = &described.system;
    let mut asked = Vec::new();
    let mut say = |name: &str, text: Option<String>| {
        asked.extend(text.map(|text| (name.to_owned(), text)));
    };
    say("interface", described.interface.clone());
    say("link", system.link_bps.map(units::print_bps));
    say("bus", (system.bus != Bus::None).then(|| system.bus.to_string()));
    let copies = match args.copies {
        1 => "1 copy".to_owned(),
        copies => format!("{copies} copies"),
    };
    let known = if described.memory_is_measured { ", what one CPU's copies get here" } else { "" };
    let rate = |memory: Memory| {
        let rate = if described.memory_is_measured { round(memory.bytes_per_s) } else { memory.bytes_per_s };
        format!("{}, {copies}{known}", units::print_byte_rate(rate))
    };
    say("memory", system.memory.map(rate));
    let set = if args.set.is_empty() { String::new() } else { format!(" with {}", args.set.join(", ")) };
    let cpus = if args.cpus == 1 { "1 CPU".to_owned() } else { format!("{} CPUs", args.cpus) };
    let frames = args.frames_per_interrupt;
    let interrupts =
        if frames == 1 { "an interrupt a frame".to_owned() } else { format!("{frames} frames an interrupt") };
    say("CPU", described.costs.as_ref().map(|costs| format!("{costs}{set}, {cpus}, {interrupts}")));
    asked
}

/// To three digits.
fn round(value: f64) -> f64 {
    let unit = 10_f64.powf(value.log10().floor() - 2.0);
    (value / unit).round() * unit
}
