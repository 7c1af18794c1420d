//! `netcliff limits`.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use netcliff_care::limits::{
    Described, Interrupts, System, USUAL_SIZES_BYTES, curves, describe, measured_cliff, roofline,
};
use netcliff_core::parts::{Memory, bus};
use netcliff_core::{Bus, Provenance, Roofline, units};
use netcliff_host::inspect::Inspection;
use netcliff_host::{memory, nic};
use netcliff_lab::costs::{self, Costs, Found};
use netcliff_report as report;
use netcliff_report::drawing::Drawing;

use super::{command_line, now_unix_s, store_path, write_told};
use crate::args::{LimitsArgs, StoreArgs};
use crate::output;

/// Time for measuring memory: several passes, but no noticeable wait.
const MEMORY_TIME: Duration = Duration::from_millis(500);

/// Prints the bounds of the described host.
pub fn run(args: &LimitsArgs, store: &StoreArgs) -> anyhow::Result<ExitCode> {
    let Described { system, origins, interrupts_known, scheme } =
        if args.this_host { this_host(args, store)? } else { by_hand(args, store)? };
    let sizes = if args.sizes.is_empty() { USUAL_SIZES_BYTES.to_vec() } else { args.sizes.clone() };
    let unknown = system.cpu.as_ref().filter(|_| !interrupts_known);
    let interrupts = unknown.map(|host| match scheme {
        Some(scheme) => Interrupts::under(scheme, host, &sizes),
        None => Interrupts::of(host, &sizes),
    });
    let found = roofline(&system, &sizes, &args.offload, interrupts.as_ref());
    if found.parts().is_empty() {
        return Err(output::usage(format!(
            "no part is given that bounds frames; give --this-host for every part as this host has it, or at least one of:\n{}\nsuch as \
             `netcliff limits --link 10Gbit/s --host pentium4-2530mhz`",
            found.unknown.iter().map(|part| format!("  {part}")).collect::<Vec<_>>().join("\n")
        )));
    }
    let (axes, curves) = curves(&system, &sizes, &args.offload, interrupts.as_ref());
    let drawing = Drawing {
        title: "Upper bounds of the rate, by frame size".to_owned(),
        axes,
        curves,
        marks: Vec::new(),
        not_had: Vec::new(),
        limits: Vec::new(),
        judged: Default::default(),
        missing: Vec::new(),
        asked: asked(args, &system, origins, &found),
        source: String::new(),
        provenance: Provenance {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            command: command_line(),
            started_unix_s: now_unix_s(),
            ..Provenance::default()
        },
        partial: false,
    };
    output::csv(&args.csv, || Ok(report::csv::roofline(&found)))?;
    match (args.json, output::to_stdout(&args.csv)) {
        (true, _) => output::json_line(&found)?,
        (_, true) => output::data(&report::csv::roofline(&found))?,
        _ => {
            let page = if args.verbose { report::terminal::limits } else { report::terminal::limits_brief };
            output::page(&page(&found, &drawing, output::style()))?;
        }
    }
    if let Some(path) = &args.svg {
        write_told("figure", path, &report::svg::experiment(&drawing))?;
    }
    if let Some(path) = &args.html {
        write_told("page", path, &report::html::experiment(&drawing))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// This host as it reports itself, with the options that replace parts of it.
fn this_host(args: &LimitsArgs, store: &StoreArgs) -> anyhow::Result<Described> {
    let inspection = Inspection::of_this_host(Duration::ZERO).context("cannot ask the kernel for its interfaces")?;
    let memory_bytes_per_s = match args.memory {
        None => memory::copy_bytes_per_s(memory::buffer_bytes(&inspection.host.cpu), MEMORY_TIME),
        given => given,
    };
    let costs = match &args.host {
        Some(_) => None,
        None => store_path(store)
            .map_err(|error| error.to_string())
            .and_then(|path| costs::calibration(&path))
            .map_err(|why| output::say(format!("netcliff: CPU not calibrated ({why}); `netcliff find` calibrates")))
            .ok(),
    };
    if let Some((found, why)) = costs.as_ref().and_then(|found| Some((found, found.why.as_ref()?))) {
        output::say(format!("netcliff: costs are those of {}: {why}", found.name));
    }
    if let Some(caution) = costs.as_ref().and_then(|found| super::caution(found, false)) {
        output::say(format!("netcliff: {caution}"));
    }
    let mut found = describe(&inspection, args.interface.as_deref(), memory_bytes_per_s, costs.as_ref())
        .map_err(|error| output::usage(format!("--if: {error}")))?;
    let Described { system: given, interrupts_known, origins, .. } =
        by_hand(&LimitsArgs { interface: None, ..args.clone() }, store)?;
    found.interrupts_known |= interrupts_known;
    found.origins.extend(origins);
    let system = &mut found.system;
    system.link_bps = given.link_bps.or(system.link_bps);
    system.bus = if given.bus == Bus::None { system.bus } else { given.bus };
    system.memory = given.memory.or(system.memory.map(|memory| Memory { copies: args.copies, ..memory }));
    system.cpu = given.cpu.or(system.cpu.take());
    system.cpus = args.cpus.unwrap_or(system.cpus);
    if interrupts_known {
        system.frames_per_interrupt = given.frames_per_interrupt;
    }
    let by_hand = [
        ("link", args.link.is_some()),
        ("bus", args.bus.is_some()),
        ("memory", args.memory.is_some()),
        ("CPU", args.host.is_some() || args.cpus.is_some()),
    ];
    found.origins.retain(|(part, _)| !by_hand.contains(&(part.as_str(), true)));
    Ok(found)
}

fn by_hand(args: &LimitsArgs, store: &StoreArgs) -> anyhow::Result<Described> {
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
    let costs = args.host.as_deref().map(|name| named(name, &args.set, store)).transpose()?;
    let run = costs.as_ref().and_then(|costs| costs.origin.run());
    let measured = run.and_then(Found::packets_per_interrupt);
    let given = args.frames_per_interrupt.map(f64::from).or(measured);
    let system = System {
        link_bps,
        bus: bus.unwrap_or(Bus::None),
        memory: args.memory.map(|bytes_per_s| Memory { bytes_per_s, copies: args.copies }),
        frames_per_interrupt: given.unwrap_or(1.0),
        cpus: args.cpus.unwrap_or(1),
        cpu: costs.as_ref().map(|costs| costs.host.clone()),
    };
    Ok(Described {
        system,
        origins: run.and_then(measured_cliff).into_iter().collect(),
        interrupts_known: given.is_some(),
        scheme: None,
    })
}

fn named(name: &str, set: &[String], store: &StoreArgs) -> anyhow::Result<Costs> {
    let costs = super::origin_and_costs(Some(name), set, store, |_| false)?;
    costs.host.validate().map_err(output::usage)?;
    Ok(costs)
}

/// Each part of the host with its origin or, without one, its value.
fn asked(
    args: &LimitsArgs,
    system: &System,
    origins: Vec<(String, String)>,
    found: &Roofline,
) -> Vec<(String, String)> {
    let interrupts = match (args.frames_per_interrupt, system.frames_per_interrupt) {
        _ if found.highest_by.is_some() => "frames per interrupt not measured".to_owned(),
        (None, frames) if frames > 1.0 => format!("{frames:.1} packets an interrupt as measured near its cliff"),
        (_, 1.0) => "an interrupt a frame".to_owned(),
        (_, frames) => format!("{frames} frames an interrupt"),
    };
    let mut asked = Vec::new();
    let mut say = |name: &str, text: Option<String>| {
        let origin = origins.iter().find(|(part, _)| part == name).map(|(_, origin)| origin.clone());
        // The number of frames per interrupt belongs to the CPU's costs, whatever their origin.
        let whole = |text: String| if name == "CPU" { format!("{text}, {interrupts}") } else { text };
        asked.extend(origin.or(text).map(|text| (name.to_owned(), whole(text))));
    };
    say("link", system.link_bps.map(units::print_bps));
    let typical = bus::typical_share(&system.bus);
    let typically = match typical < 1.0 {
        true => {
            format!(
                "; its bound leaves out flow control and acknowledgements, which typically take {:.0} % of it",
                (1.0 - typical) * 100.0
            )
        }
        false => String::new(),
    };
    let batch = match system.bus {
        Bus::Pcie(pcie) => format!(" (batch: {} descriptors of received frames a transfer)", pcie.batch),
        _ => String::new(),
    };
    say("bus", (system.bus != Bus::None).then(|| format!("{}{batch}{typically}", system.bus)));
    let copies = match args.copies {
        1 => "1 copy".to_owned(),
        copies => format!("{copies} copies"),
    };
    say("memory", system.memory.map(|memory| format!("{}, {copies}", units::print_byte_rate(memory.bytes_per_s))));
    let set = if args.set.is_empty() { String::new() } else { format!(" with {}", args.set.join(", ")) };
    let cpus = if system.cpus == 1 { "1 CPU".to_owned() } else { format!("{} CPUs", system.cpus) };
    let costs = match &args.host {
        Some(host) => Some(format!("{host}{set}")),
        None => system.cpu.as_ref().map(|_| "costs of the newest find".to_owned()),
    };
    say("CPU", costs.map(|costs| format!("{costs}, {cpus}")));
    say("measured cliff", None);
    asked
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Typed {
        #[command(flatten)]
        args: LimitsArgs,
    }

    /// The text names the number of frames per interrupt also if the costs have an origin, such as a `find` run.
    #[test]
    fn frames_an_interrupt_are_told_beside_costs_that_were_found() {
        let found = vec![("CPU".to_owned(), "costs of find run 4 (eBPF), 1 CPU".to_owned())];
        for (typed, says) in
            [(&[][..], "an interrupt a frame"), (&["--frames-per-interrupt", "8"], "8 frames an interrupt")]
        {
            let Typed { args } = Typed::parse_from([&["limits", "--this-host"], typed].concat());
            let store = StoreArgs { db: None, name: None };
            let system = by_hand(&args, &store).expect("it is given").system;
            let told = asked(&args, &system, found.clone(), &roofline(&system, &[64], &[], None));
            assert_eq!(told, [("CPU".to_owned(), format!("costs of find run 4 (eBPF), 1 CPU, {says}"))]);
        }
    }
}
