//! `netcliff limits`.

use std::path::Path;
use std::process::ExitCode;

use netcliff_core::parts::Memory;
use netcliff_core::{Bus, Host, Provenance, units};
use netcliff_host::nic;
use netcliff_lab::inputs;
use netcliff_lab::limits::{System, USUAL_SIZES_BYTES, curves, roofline};
use netcliff_report as report;
use netcliff_report::drawing::Drawing;

use super::{command_line, now_unix_s, write};
use crate::args::LimitsArgs;
use crate::output;

/// The bounds of what was described.
pub fn run(args: &LimitsArgs) -> anyhow::Result<ExitCode> {
    let system = system(args)?;
    let sizes = if args.sizes.is_empty() { USUAL_SIZES_BYTES.to_vec() } else { args.sizes.clone() };
    let found = roofline(&system, &sizes, &args.offload);
    if found.parts().is_empty() {
        return Err(output::usage(format!(
            "nothing is known that bounds this host; name at least one of {}",
            found.unknown.join(", ")
        )));
    }
    let (axes, curves) = curves(&system, &sizes, &args.offload);
    let drawing = Drawing {
        title: "What bounds this host, by frame size".to_owned(),
        axes,
        curves,
        marks: Vec::new(),
        not_had: Vec::new(),
        asked: asked(args, &system),
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

fn system(args: &LimitsArgs) -> anyhow::Result<System> {
    let (mut link_bps, mut bus) = (args.link, args.bus);
    if let Some(name) = &args.interface {
        let sys = Path::new("/sys");
        let nic = nic::read(name, sys)
            .map_err(|error| output::usage(format!("--if {name}: {error}; `ip link` lists the interfaces")))?;
        link_bps = link_bps.or(nic.speed_mbps.map(|mbps| f64::from(mbps) * 1e6));
        let slot = nic::slot::slot(name, sys);
        bus = match (bus, slot) {
            (None, Some(slot)) => Some(Bus::pcie(slot.generation, slot.lanes).map_err(output::usage)?),
            (given, _) => given,
        };
        if slot.is_none() && args.bus.is_none() {
            output::say(format!("netcliff: {name} has no PCI Express link that sysfs shows"));
        }
        if link_bps.is_none() {
            output::say(format!("netcliff: the driver of {name} does not say its speed"));
        }
    }
    Ok(System {
        link_bps,
        bus: bus.unwrap_or(Bus::None),
        memory: args.memory.map(|bytes_per_s| Memory { bytes_per_s, copies: args.copies }),
        cpu: args.host.as_deref().map(|name| host(name, &args.set)).transpose()?,
        cpus: args.cpus,
        frames_per_interrupt: f64::from(args.frames_per_interrupt),
    })
}

fn host(name: &str, set: &[String]) -> anyhow::Result<Host> {
    let mut host = inputs::host(name).map_err(output::usage)?;
    for assignment in set {
        host.set(assignment).map_err(output::usage)?;
    }
    host.validate().map_err(output::usage)?;
    Ok(host)
}

fn asked(args: &LimitsArgs, system: &System) -> Vec<(String, String)> {
    let mut asked = Vec::new();
    let mut say = |name: &str, text: Option<String>| {
        asked.extend(text.map(|text| (name.to_owned(), text)));
    };
    say("link", system.link_bps.map(units::print_bps));
    say("bus", (system.bus != Bus::None).then(|| system.bus.to_string()));
    let copies = match args.copies {
        1 => "1 copy".to_owned(),
        copies => format!("{copies} copies"),
    };
    say("memory", system.memory.map(|memory| format!("{}, {copies}", units::print_byte_rate(memory.bytes_per_s))));
    let set = if args.set.is_empty() { String::new() } else { format!(" with {}", args.set.join(", ")) };
    let cpus = if args.cpus == 1 { "1 CPU".to_owned() } else { format!("{} CPUs", args.cpus) };
    let frames = args.frames_per_interrupt;
    let interrupts =
        if frames == 1 { "an interrupt a frame".to_owned() } else { format!("{frames} frames an interrupt") };
    say("CPU", args.host.as_ref().map(|host| format!("{host}{set}, {cpus}, {interrupts}")));
    asked
}
