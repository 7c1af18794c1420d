//! `netcliff rfc2544`.

mod progress;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use netcliff_core::{Fingerprint, Invalid, Provenance, units};
use netcliff_host::fingerprint;
use netcliff_host::inventory::Inventory;
use netcliff_host::testbed::TestbedError;
use netcliff_host::testbed::forward::{Forwarding, RULES_BY_DEFAULT};
use netcliff_host::testbed::ports::PortError;
use netcliff_host::testbed::stamping::StampingError;
use netcliff_host::testbed::vm::{Model, VmOptions};
use netcliff_lab::inputs;
use netcliff_lab::store::Store;
use netcliff_mlrsearch::Goal;
use netcliff_packets::WireError;
use netcliff_remote::fingerprint::far_fingerprint;
use netcliff_report as report;
use netcliff_report::format::{Unit, quantity};
use netcliff_rfc2544::conduct::Step;
use netcliff_rfc2544::kernel::{DeviceError, Place};
use netcliff_rfc2544::procedures::LossCurve;
use netcliff_rfc2544::report::{Rfc2544Report, SizeReport};
use netcliff_rfc2544::settings::{FrameSize, Pcap, STANDARD_BYTES, SearchBy, Settings, Tests};
use netcliff_rfc2544::tester::frame::least_bytes;
use netcliff_rfc2544::{self as rfc2544};
use netcliff_transfer::guest::{GuestHost, GuestLink};

use super::far::FarSession;
use super::profile::{Profiles, Sampled};
use super::{
    command_line, enter_user_namespace, now_unix_s, open_store, refuse_name, refuse_unwritable, stop_on_signal,
    warn_of_load, write,
};
use crate::args::{Frames, Rfc2544Args, StoreArgs, Test};
use crate::live;
use crate::output;
use progress::Progress;

/// Wait for residual frames after trials shorter than a second (s). A trial that loses a frame waits for the whole
/// time.
const SHORT_SETTLE_S: f64 = 0.2;

/// Shortest length of the profiled trial (s), and how far its load is below the throughput, as a share.
const PROFILED_S: f64 = 2.0;
const PROFILED_STEP: f64 = 0.01;

/// Tests a device and prints the results.
pub fn run(args: &Rfc2544Args, store_args: &StoreArgs) -> anyhow::Result<ExitCode> {
    live::start(args.live, args.json, "rfc2544")?;
    args.wait.begin();
    refuse_name(store_args, args.save, "add --save")?;
    let settings = settings(args)?;
    settings.check().map_err(output::usage)?;
    if let Some(rules) = args.rules.filter(|_| args.forwarding != Forwarding::Netfilter) {
        return Err(output::usage(Invalid::new("rules", rules, "only together with --forwarding netfilter")));
    }
    refuse_unwritable(args.html.as_deref())?;
    // Before any thread is started: a process with threads cannot enter a user namespace.
    let own_namespace = if args.tx.is_none() { enter_user_namespace() } else { None };
    let stop = stop_on_signal()?;
    warn_of_load();
    let started_unix_s = now_unix_s();
    // A kernel that refuses samples does so before the search.
    Profiles::new(args.profile, Sampled::default())?;
    let store = if args.save { Some(open_store(store_args)?) } else { None };
    let run_id = store.as_ref().map(|store| store.begin("rfc2544", &command_line(), started_unix_s)).transpose()?;
    let kept = store.as_ref().zip(run_id);
    let tester_cpu = args.cpu.map(|(tester, _)| tester);
    if settings.tests.throughput {
        output::say(format!("netcliff: {}", progress::expected(&settings)));
    }
    let mut progress = Progress::new(&settings);
    // If the router is a guest, it forwards as long as this value lives.
    let mut guest = args.testbed.map(|model| boot(args, model)).transpose()?;
    let far = guest.as_mut().and_then(|guest| far_fingerprint(&mut guest.session, guest.address).ok());
    let place = match guest.as_ref().and_then(FarSession::guest) {
        Some(guest) => ports_of(&guest),
        None => place(args),
    };
    let found = rfc2544::run(&settings, place, tester_cpu, &stop, &mut |step| progress.step(&step));
    progress.flush();
    if let (Err(_), Some((store, run))) = (&found, kept) {
        // Nothing was measured. An error here is ignored, because the run's own error is more important.
        let _ = store.remove(&[run]);
    }
    let mut found = found.map_err(explain)?;
    found.limits.extend(own_namespace);
    if let Some(guest) = guest.as_ref().and_then(FarSession::guest) {
        found.device = format!("{}, as a router", guest.vm.describe());
        found.limits.extend(guest.limits.iter().cloned());
    }
    let nics = netcliff_host::nic::read_all(std::path::Path::new("/sys")).unwrap_or_default();
    // The router's own kernel and driver explain differences between its results.
    let host = far.unwrap_or_else(|| fingerprint::of_host(&Inventory::of_this_host(), &nics));
    guest.map_or(Ok(()), FarSession::close)?;
    found.provenance = Provenance {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command: command_line(),
        started_unix_s,
        elapsed_s: Some(now_unix_s() - started_unix_s),
        fingerprint_id: Some(host.id()),
        ..Provenance::default()
    };
    found.fingerprint = Some(host.clone());
    let profiles = if args.profile { at_throughput(args, &settings, &found, &stop)? } else { Profiles::default() };
    // An error of the store must not prevent the output, and an error of the output must not prevent the storing.
    let kept = kept.map_or(Ok(()), |kept| keep(kept, &host, &found));
    show(args, &found)?;
    profiles.show(args.json, store.as_ref())?;
    kept?;
    let nothing =
        |size: &SizeReport| size.forwarded_pps().is_none() && size.loss.as_ref().is_none_or(LossCurve::nothing_came);
    let nothing = found.sizes.iter().all(nothing);
    Ok(ExitCode::from(u8::from(found.partial.is_some() || nothing)))
}

/// Makes trials at the throughput of each size and just below it; samples the router's CPUs during the second one.
fn at_throughput(
    args: &Rfc2544Args,
    settings: &Settings,
    found: &Rfc2544Report,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<Profiles> {
    // The tester is netcliff itself. It is not part of the device under test.
    let cpus = args.cpu.iter().map(|(_, router)| *router as usize).collect();
    let mut profiles = Profiles::new(true, Sampled { cpus, without_own: true })?;
    for size in &found.sizes {
        let Some(throughput_pps) = size.forwarded_pps() else {
            output::say(format!("netcliff: --profile: frames of {} have no throughput to profile", size.frame));
            continue;
        };
        let again = Settings {
            tests: Tests { throughput: false, latency: false, loss: true, back_to_back: false },
            frames: vec![size.frame],
            max_pps: Some(throughput_pps),
            loss_step: PROFILED_STEP,
            trial_s: settings.trial_s.max(PROFILED_S),
            stamps: Settings::default().stamps,
            ..settings.clone()
        };
        let tester_cpu = args.cpu.map(|(tester, _)| tester);
        let share = 1.0 - PROFILED_STEP;
        let load = format!(
            "frames of {} at {} of the throughput, {}",
            size.frame,
            units::print_share(share),
            quantity(share * throughput_pps, Unit::Pps)
        );
        // The measurement of the sender's highest rate is before the first trial.
        let (enough, mut ended) = (Arc::<AtomicBool>::default(), 0);
        let again = rfc2544::run(&again, place(args), tester_cpu, &enough, &mut |step| {
            if matches!(step, Step::Trial { .. }) {
                ended += 1;
                if ended == 1 {
                    profiles.begin(&load)
                } else {
                    profiles.end()
                }
                enough.store(ended > 1 || stop.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        });
        profiles.end();
        again.map_err(explain)?;
    }
    Ok(profiles)
}

fn keep((store, run): (&Store, i64), host: &Fingerprint, found: &Rfc2544Report) -> anyhow::Result<()> {
    store.set_fingerprint(run, host)?;
    store.finish_document(run, found.partial.is_some(), found)?;
    output::say(format!("netcliff: stored as run {run}"));
    Ok(())
}

/// Prints the data first, so that a page that cannot be written does not suppress it.
fn show(args: &Rfc2544Args, found: &Rfc2544Report) -> anyhow::Result<()> {
    if args.json {
        output::json_line(found)?;
    } else if args.live {
        live::result(found, found.partial.is_some())?;
    } else if output::to_stdout(&args.csv) {
        output::data(&report::csv::rfc2544(found))?;
    } else {
        let page = if args.verbose { report::terminal::rfc2544 } else { report::terminal::rfc2544_brief };
        output::page(&page(found, output::style()))?;
    }
    output::csv(&args.csv, || Ok(report::csv::rfc2544(found)))?;
    if let Some(path) = &args.html {
        write(path, &report::html::rfc2544(found))?;
        output::say(format!("netcliff: report written to {}", path.display()));
    }
    Ok(())
}

fn settings(args: &Rfc2544Args) -> anyhow::Result<Settings> {
    let tests = |throughput, latency, loss, back_to_back| Tests { throughput, latency, loss, back_to_back };
    let defaults = Settings::default();
    // The smallest frame with room for netcliff's label: with IPv6 or a VLAN tag, 64 bytes are too few.
    let least = least_bytes(args.ipv6, args.vlan.is_some());
    let standard = || STANDARD_BYTES.map(|bytes| FrameSize::Fixed(bytes.max(least as u32)));
    let trial_s = args.trial.unwrap_or(defaults.trial_s);
    let asked = if args.frames.is_empty() { &[Frames::Standard][..] } else { &args.frames };
    let frames = asked.iter().flat_map(|frames| match frames {
        Frames::Standard => standard().to_vec(),
        Frames::One(size) => vec![size.with_room_for(least)],
    });
    let pcap = args.pcap.as_deref().map(|file| captured(file, least as u32)).transpose()?;
    let frames = match pcap.as_ref().and_then(Pcap::frames) {
        Some(own) => vec![own],
        None => frames.collect(),
    };
    Ok(Settings {
        tests: match args.test {
            Test::Throughput => tests(true, false, false, false),
            Test::Latency => tests(true, true, false, false),
            Test::Loss => tests(false, false, true, false),
            Test::BackToBack => tests(true, false, false, true),
            Test::All => tests(true, true, true, true),
        },
        frames,
        pcap,
        ipv6: args.ipv6,
        both_ways: args.both_ways,
        flows: args.flows.unwrap_or(args.destinations.saturating_mul(args.destination_ports)),
        destinations: args.destinations,
        destination_ports: args.destination_ports,
        vlan: args.vlan,
        send_by: args.send_by,
        receive_by: args.receive_by,
        stamps: args.stamps,
        search: args.search,
        goals: goals(args, trial_s),
        searches: args.searches,
        trial_s,
        loss_ratio: args.loss,
        width: args.width,
        settle_s: args.settle.unwrap_or(if trial_s < 1.0 { SHORT_SETTLE_S } else { defaults.settle_s }),
        rest_s: args.rest,
        max_pps: args.max,
        loss_step: args.step,
        latency_repeats: args.repeats.unwrap_or(defaults.latency_repeats),
        burst_repeats: args.repeats.unwrap_or(defaults.burst_repeats),
    })
}

/// Reads the capture to replay.
fn captured(file: &Path, least_bytes: u32) -> anyhow::Result<Pcap> {
    let capture = inputs::capture::read(&file.display().to_string()).map_err(output::usage)?;
    Ok(Pcap::of(capture, least_bytes))
}

/// Goals that the presets do not have.
fn goals(args: &Rfc2544Args, trial_s: f64) -> Vec<Goal> {
    // The preset uses trials of the requested length up to a second. By default, it ignores the trial length of the
    // other tests.
    if args.search == SearchBy::MlrTypical && args.trial.is_some_and(|trial_s| trial_s > 1.0) {
        return vec![Goal::typical(args.loss, args.width).with_trials_of(trial_s)];
    }
    let default = Goal::rfc2544(trial_s, args.loss, args.width);
    args.goal.iter().map(|asked| asked.or(&default)).collect()
}

/// Boots a guest that forwards between two NICs; this process is in the namespace of their wires from then on.
fn boot(args: &Rfc2544Args, model: Model) -> anyhow::Result<FarSession> {
    let sender_cpu = args.cpu.map(|(tester, _)| tester);
    let options = VmOptions { router: true, sender_cpu, ..args.guest.of(model) };
    FarSession::in_guest(&options, GuestLink::default())
}

/// The ports at a guest that forwards.
fn ports_of(guest: &GuestHost<'_>) -> Place {
    let ([tx, rx], mac) = guest.vm.router_ports().unwrap_or_default();
    Place::Ports { tx: tx.to_owned(), rx: rx.to_owned(), device_mac: Some(mac), i_know: false }
}

fn place(args: &Rfc2544Args) -> Place {
    if let (Some(tx), Some(rx)) = (&args.tx, &args.rx) {
        let (tx, rx) = (tx.clone(), rx.clone());
        return Place::Ports { tx, rx, device_mac: args.device_mac, i_know: args.i_know };
    }
    Place::Namespaces {
        forwarding: args.forwarding,
        rules: args.rules.unwrap_or(RULES_BY_DEFAULT),
        router_cpu: args.cpu.map(|(_, router)| router),
    }
}

/// An error that the user can fix is wrong usage.
pub(super) fn explain(error: DeviceError) -> anyhow::Error {
    match error {
        DeviceError::Wire(WireError::Setting { .. } | WireError::OtherProgram { .. } | WireError::NoStamps { .. })
        | DeviceError::Stamping(StampingError::Unread { .. } | StampingError::Fewer { .. })
        | DeviceError::Port(
            PortError::Missing { .. } | PortError::DefaultRoute { .. } | PortError::Xdp { .. } | PortError::Mtu { .. },
        )
        | DeviceError::Testbed(
            TestbedError::NoSuchCpu { .. } | TestbedError::OutOfRange { .. } | TestbedError::NoVlan { .. },
        ) => output::usage(error),
        other => other.into(),
    }
}
