//! `netcliff tune adapt`.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use netcliff_care::adapt::{self, Both, Device, Event, Forecast, Options, Thresholds};
use netcliff_core::switching::Part;
use netcliff_core::{EngineKind, Host};
use netcliff_host::inventory::Inventory;
use netcliff_host::journal::HostLock;
use netcliff_host::nic::{self, Nic};
use netcliff_host::tune::adapt::{Adapting, Levers, Receiver};
use netcliff_lab::costs::{self, Found};
use netcliff_report::format::{self, Unit};

use super::{lock, with_unit};
use crate::args::StoreArgs;
use crate::args::tune::AdaptArgs;
use crate::commands::{caution, stop_on_signal, store_path};
use crate::output;

/// Frame size if a device has not received any frame yet (bytes with FCS).
const FRAME_BYTES: f64 = 64.0;
/// Source of the default threshold.
const SOURCE: &str = "eq. (13) of Salah, El-Badawi and Khalid (2007)";
/// Loads of a forecast that the page shows, as indices.
const SHOWN: [usize; 5] = [1, 3, 4, 7, 8];

/// Follows the load until the end.
pub fn run(args: &AdaptArgs, store: &StoreArgs) -> anyhow::Result<ExitCode> {
    if let (Some(up), Some(down)) = (args.up, args.down)
        && down > up
    {
        let [up, down] = [up, down].map(netcliff_core::units::print_pps);
        return Err(output::usage(format!(
            "--down {down}: must not be above --up {up}; a tenth below it is the default"
        )));
    }
    if let Some(twice) =
        args.interfaces.iter().enumerate().find_map(|(at, name)| args.interfaces[..at].contains(name).then_some(name))
    {
        return Err(output::usage(format!("--if {twice} is named twice: expected each interface once")));
    }
    let known = known(args, store)?;
    args.wait.begin();
    let stop = stop_on_signal()?;
    let lock = if args.dry_run { None } else { Some(lock()?) };
    let inventory = Inventory::of_this_host();
    let mut devices = Vec::new();
    for interface in &args.interfaces {
        let (device, start) = begin(args, interface, known.as_ref(), &inventory, lock.as_ref())?;
        devices.push(device);
        show(args, &start)?;
    }
    let options = Options {
        window: Duration::from_secs_f64(args.window),
        hold: Duration::from_secs_f64(args.hold),
        length: args.length.map(Duration::from_secs_f64),
    };
    let well = adapt::run(&mut devices, &options, &stop, |event| show(args, &event))?;
    Ok(if well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The named or calibrated costs. `None` if the host has no calibration and the options need none.
fn known(args: &AdaptArgs, store: &StoreArgs) -> anyhow::Result<Option<Found>> {
    let path = || store_path(store).map_err(|error| error.to_string());
    match costs::cliff_of(args.host.as_deref(), path) {
        Ok(found) => {
            if let Some(caution) = caution(&found, false) {
                output::say(format!("netcliff: {caution}"));
            }
            Ok(Some(found))
        }
        Err(_) if args.host.is_none() && args.up.is_some() => Ok(None),
        Err(why) if args.host.is_none() => Err(output::usage(format!(
            "no threshold: this host is not calibrated ({why}); expected --up RATE, such as --up 300kpps, or costs: a `netcliff find` before, or --host"
        ))),
        Err(why) => Err(output::usage(why)),
    }
}

fn begin(
    args: &AdaptArgs,
    interface: &str,
    known: Option<&Found>,
    inventory: &Inventory,
    lock: Option<&HostLock>,
) -> anyhow::Result<(Device, Event)> {
    let refused = |why: String| output::usage(format!("--if {interface}: {why}"));
    let read = nic::read(interface, Path::new("/sys"));
    let nic = read.map_err(|error| refused(format!("{error}; `ip link` lists the interfaces")))?;
    without_napi(&nic).map_or(Ok(()), |why| Err(refused(why)))?;
    // Take the device first: another netcliff may be switching the settings that are read next.
    let right = lock.map(|lock| Adapting::begin(&nic).map(|right| (lock, right))).transpose();
    let right = right.map_err(anyhow::Error::msg)?;
    let levers = Levers::of(&nic, &args.interrupt, &args.poll).map_err(refused)?;
    if let Some(why) = levers.not_permitted().filter(|_| !args.dry_run) {
        return Err(anyhow::Error::msg(why));
    }
    let host: Option<&Host> = known.map(|found| &found.calibration.host);
    let thresholds = Thresholds { up_pps: args.up, down_pps: args.down, costs: host.cloned() };
    let received = Receiver::new(&nic).read().ok();
    let frame_bytes = received.and_then(|counters| counters.frame_bytes()).unwrap_or(FRAME_BYTES);
    let [up_pps, down_pps] = [thresholds.up_pps(frame_bytes), thresholds.down_pps(frame_bytes)];
    let (forecast, not_predicted) = match forecast(&nic, &levers, known, inventory, (up_pps, frame_bytes)) {
        Ok(forecast) => (Some(Box::new(forecast)), None),
        Err(why) => (None, Some(why)),
    };
    let start = Event::Start {
        interface: interface.to_owned(),
        dry_run: args.dry_run,
        up_pps,
        down_pps,
        settings: levers.all().to_vec(),
        forecast,
        not_predicted,
        notes: owners(&nic, inventory),
    };
    let hold = Duration::from_secs_f64(args.hold);
    Ok((Device::new(&nic, levers, thresholds, hold, right), start))
}

/// Why this device has no NAPI of its own to adapt. `None` if it has one, as far as the kernel shows.
fn without_napi(nic: &Nic) -> Option<String> {
    if nic.is_physical() || !nic.napis.is_empty() {
        return None;
    }
    match nic.kind.as_deref() {
        Some("veth") if nic.feature("rx-gro") == Some(true) => None,
        Some("veth") => Some(format!(
            "a veth without GRO has no NAPI of its own, and nothing to switch: `ethtool -K {} gro on` gives it one",
            nic.name
        )),
        kind => Some(format!(
            "{} has no NAPI of its own, and nothing to switch: expected a NIC, or a veth with GRO; adapt the device below it",
            kind.unwrap_or("it")
        )),
    }
}

fn forecast(
    nic: &Nic,
    levers: &Levers,
    known: Option<&Found>,
    inventory: &Inventory,
    (up_pps, frame_bytes): (f64, f64),
) -> Result<Forecast, String> {
    let found = known.ok_or("this host is not calibrated; `netcliff find` does it")?;
    let kernel = inventory.napi(false);
    let napi = |part| {
        let works = levers.in_part(nic, part).napi_scheme(&kernel);
        works.lacks.map_or(Ok(works.napi), Err)
    };
    let parts = [napi(Part::Interrupt)?, napi(Part::Poll)?];
    let name = found.name.to_string();
    let forecast = Forecast::of((name.as_str(), &found.calibration.host), parts, up_pps, frame_bytes);
    let forecast = forecast.ok_or("neither model nor simulator has these schemes at these loads")?;
    let measured_scheme = found.run.map(|_| found.finding.setup.scheme.to_string());
    let measured_scheme = measured_scheme.filter(|scheme| *scheme != forecast.interrupt);
    Ok(Forecast { measured_cliff_pps: found.cliff_pps, measured_scheme, ..forecast })
}

/// Other programs and drivers that change the same settings of a device.
fn owners(nic: &Nic, inventory: &Inventory) -> Vec<String> {
    let mut notes = Vec::new();
    if nic.coalesce.get("adaptive-rx") == Some(&1) {
        let name = &nic.name;
        notes.push(format!(
            "adaptive-rx is on: the driver of {name} moderates interrupts by the load itself (lib/dim), too; --interrupt adaptive-rx=off \
             leaves it to netcliff"
        ));
    }
    if nic.kind.as_deref() == Some("veth") {
        notes.push(
            "switching affects only packets that pass this veth's NAPI: while its far end has TSO on, they bypass it, and switching changes nothing (ethtool -K FAR tso off)"
                .to_owned(),
        );
    }
    if let Some(pid) = inventory.load.irqbalance_pid {
        notes.push(format!(
            "irqbalance (pid {pid}) moves interrupts among CPUs; it does not change what is switched here"
        ));
    }
    notes
}

fn show(args: &AdaptArgs, event: &Event) -> anyhow::Result<()> {
    if args.json {
        return output::json_line(event);
    }
    output::sentences(&text(args, event))
}

fn text(args: &AdaptArgs, event: &Event) -> String {
    let pps = |value: f64| format::quantity(value, Unit::Pps);
    match event {
        Event::Start { interface, up_pps, down_pps, settings, forecast, not_predicted, notes, .. } => {
            let source = match (args.up, forecast) {
                (Some(_), _) => String::new(),
                (None, Some(forecast)) => format!(
                    " (where interrupts saturate the CPU: {SOURCE}, with the costs of {} and frames of {:.0} bytes; default thresholds follow the frame size)",
                    forecast.costs, forecast.frame_bytes
                ),
                (None, None) => {
                    format!(" (where interrupts saturate the CPU: {SOURCE}; default thresholds follow the frame size)")
                }
            };
            let mut text =
                format!("{interface}: polling above {}, interrupts below {}{source}\n", pps(*up_pps), pps(*down_pps));
            for lever in settings {
                let [found, interrupt, poll] =
                    [&lever.found, &lever.interrupt, &lever.poll].map(|value| with_unit(&lever.setting, value));
                let when = if args.dry_run { "now" } else { "before" };
                text += &format!("  {}: interrupts {interrupt}, polling {poll} ({when}: {found})\n", lever.name);
            }
            notes.iter().for_each(|note| text += &format!("  {note}\n"));
            text += &forecast.as_ref().map_or_else(
                || format!("  not predicted: {}\n", not_predicted.as_deref().unwrap_or("no costs")),
                |forecast| expected(forecast, *up_pps),
            );
            text
        }
        Event::Switch { interface, at_s, part, measured, .. } => {
            let (what, how, threshold) = match part {
                Part::Poll => ("polls", "above", measured.up_pps),
                Part::Interrupt => ("interrupts", "below", measured.down_pps),
            };
            let verb = if args.dry_run { format!("would switch: {what}") } else { what.to_owned() };
            format!(
                "{at_s:.1} s  {interface} {verb}: load {}, frames of {:.0} bytes, {how} {}\n",
                pps(measured.pps),
                measured.frame_bytes,
                pps(threshold)
            )
        }
        Event::Lost { interface, at_s, why } => format!("{at_s:.1} s  {interface} is no longer followed: {why}\n"),
        Event::End { interface, seconds, switches, interrupt, poll, own_cpu_share, not_set_back } => {
            let spent = |spent: &adapt::Spent| match spent.mean_pps {
                Some(mean) => format!("{:.1} s at {} on average", spent.seconds, pps(mean)),
                None => "not at all".to_owned(),
            };
            let back = match (args.dry_run, not_set_back.is_empty()) {
                (true, _) => "nothing was changed".to_owned(),
                (_, true) => "everything was set back".to_owned(),
                (_, false) => {
                    format!("not set back, and written down for `netcliff tune undo`: {}", not_set_back.join("; "))
                }
            };
            format!(
                "{interface}: {} in {seconds:.1} s; interrupts {}, polling {}; netcliff took {} of a CPU; {back}\n",
                match switches {
                    1 => "1 switch".to_owned(),
                    _ => format!("{switches} switches"),
                },
                spent(interrupt),
                spent(poll),
                format::share(*own_cpu_share)
            )
        }
    }
}

/// The forecast as a table.
fn expected(forecast: &Forecast, up_pps: f64) -> String {
    let (end, application) = match forecast.has_application {
        true => ("the application reads the packet", ", protocol processing and the application leave"),
        false => ("protocol processing is done", " and protocol processing leave (the costs include no application)"),
    };
    let mut text = format!(
        "  expected at each load ({} with the costs of {}; frames of {:.0} bytes):\n",
        if forecast.engine == EngineKind::Model { "by the model" } else { "simulated" },
        forecast.costs,
        forecast.frame_bytes
    );
    text += &format!("    mean latency: from the packet's arrival until {end}\n");
    text += &format!("    CPU idle: share of the receiving CPU's time that interrupts, polls{application}\n");
    text += "    lost: share of the packets\n";
    text += &format!("    interrupts: {}\n    polling:    {}\n", forecast.interrupt, forecast.poll);
    if let Some(scheme) = &forecast.measured_scheme {
        text += &format!(
            "    {} measured with {scheme}, which `netcliff simulate` takes: its latencies differ\n",
            forecast.costs
        );
    }
    let heads = format!("{:>12} {:>9} {:>7}", "mean latency", "CPU idle", "lost");
    text += format!("    {:>9}  {:^30}  {:^30}", "", "interrupts", "polling").trim_end();
    text.push('\n');
    text += &format!("    {:>9}  {heads}  {heads}\n", "load");
    for both in SHOWN.iter().filter_map(|place| forecast.loads.get(*place)) {
        let side = |side: &adapt::Side| {
            format!(
                "{:>12} {:>9} {:>7}",
                format::quantity(side.mean_latency_s, Unit::Seconds),
                format::share(side.cpu_left.max(0.0)),
                format::loss(side.loss)
            )
        };
        let Both { load_pps, interrupt, poll } = both;
        text += &format!("    {:>9}  {}  {}\n", format::quantity(*load_pps, Unit::Pps), side(interrupt), side(poll));
    }
    text += &match forecast.poll_leaves_more_from_pps {
        Some(pps) => {
            format!("  from {} on, polling leaves more CPU time than interrupts do\n", format::quantity(pps, Unit::Pps))
        }
        None => "  at none of these loads does polling leave more CPU time: these settings gain nothing\n".to_owned(),
    };
    if let Some(cliff) = forecast.measured_cliff_pps.filter(|cliff| cliff.value < up_pps) {
        text += &format!(
            "  {} measured the cliff at {}, below the load at which polling begins: set --up a little below it\n",
            forecast.costs,
            format::with_confidence(&cliff, Unit::Pps)
        );
    }
    text
}
