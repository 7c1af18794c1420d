//! `netcliff find`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use anyhow::Context;
use netcliff_core::endpoint::Endpoint;
use netcliff_core::finding::FigurePath;
use netcliff_core::{Capture, EngineKind, Finding};
use netcliff_find::of::{Generator, Generators, NearEnd, find_from, find_of};
use netcliff_find::{CheckSetup, FindError, FindOptions, check, check_frames, find};
use netcliff_host::cpu::{self, Preference};
use netcliff_host::files;
use netcliff_host::nic::neighbour;
use netcliff_host::testbed::vm::VmOptions;
use netcliff_lab::inputs;
use netcliff_lab::store::Store;
use netcliff_packets::replay::{Replay, replayable};
use netcliff_packets::thread::Priority;
use netcliff_packets::transmit::Method;
use netcliff_remote::control::PORT;
use netcliff_report as report;
use netcliff_report::format::{Unit, quantity};
use netcliff_trial::bench::Bench;
use netcliff_trial::rig::{BetweenOptions, Rig, RigError, Sending, SharedCarrier};
use netcliff_trial::wire_bench::WireBench;

use super::far::{FIND_S, FarSession, Guest};
use super::profile::{Profiles, Sampled};
use super::{
    data_dir, enter_user_namespace, open_store, refuse_low_rate, refuse_name, refuse_unwritable_files, stop_on_signal,
    warn_of_load, write, write_temporary, write_told,
};
use crate::args::{FindArgs, StoreArgs, Testbed};
use crate::live;
use crate::output;
use crate::progress::Progress;

/// Length of the profiled trial (s): 4000 samples of its CPU at the default rate.
const PROFILED_S: f64 = 4.0;

/// Finds the cliff and prints the result.
pub fn run(args: &FindArgs, store_args: &StoreArgs) -> anyhow::Result<ExitCode> {
    refuse_profile(args)?;
    #[cfg(target_os = "linux")]
    if args.service.is_asked() {
        return super::service::run(args, store_args);
    }
    live::start(args.live, args.json, "find")?;
    args.wait.begin();
    refuse_name(store_args, !args.no_store, "leave --no-store out")?;
    refuse_unwritable_files([args.html.as_deref(), args.svg.as_deref()])?;
    let checks: Result<Vec<CheckSetup>, _> = args.check.iter().map(|text| text.parse()).collect();
    let checks = checks.map_err(output::usage)?;
    // Before any thread is started: a process with threads cannot enter a user namespace.
    let own_namespace = if args.is_between_hosts() { None } else { enter_user_namespace() };
    refuse_ipv6_of_guest(args)?;
    let given = checked(args, &checks);
    if args.is_between_hosts() { check_frames(&given) } else { check(&given) }.map_err(explain)?;
    let capture = args.traffic.as_deref().map(captured).transpose()?;
    let store = if args.no_store { None } else { Some(open_store(store_args)?) };
    let stop = stop_on_signal()?;
    let hosts = Hosts::of(args)?;
    // A kernel that refuses samples does so before the search.
    Profiles::new(args.profile, Sampled::default())?;
    warn_of_load();
    let options = options(args, &checks, capture.as_ref().map(|(capture, _)| capture), hosts.between());
    let run_id = store
        .as_ref()
        .map(|s| s.begin("find", &options.settings.command, options.settings.started_unix_s))
        .transpose()?;
    let kept = store.as_ref().zip(run_id);
    let mut progress = Progress::new(kept);
    let found = hosts.find(&options, Arc::clone(&stop), &mut progress);
    progress.finish();
    if let (Err(_), Some((store, run))) = (&found, kept) {
        // A refused run is removed. What an agent measured before it was lost is stored. An error here is ignored,
        // because the run's own error is more important.
        let _ = if progress.records == 0 { store.remove(&[run]).map(drop) } else { store.finish(run, true, None) };
    }
    let mut finding = found?;
    finding.host.limits.extend(own_namespace.into_iter().chain(capture.map(|(_, how)| how)));
    let lost = progress.store_failure.take().or_else(|| kept.and_then(|kept| keep(kept, &finding).err()));
    show(args, &finding, run_id)?;
    if args.profile {
        at_the_cliff(&options, &finding, Arc::clone(&stop))?.show(args.json, store.as_ref())?;
    }
    if let Some(why) = lost {
        let place = rescue(&finding)?;
        output::say(format!("netcliff: {why}\nnetcliff: the whole finding is in {}", place.display()));
        return Ok(ExitCode::from(1));
    }
    let failed = finding.missing.iter().any(|missing| missing.figure == FigurePath::Engine(EngineKind::Wire));
    if let Some(why) = report::sheet::no_cliff(&finding).filter(|_| !finding.partial || failed) {
        output::say(format!("netcliff: {why}"));
    }
    Ok(ExitCode::from(u8::from(finding.partial || finding.cliff_pps.wire.is_none())))
}

/// Refuses `--profile` if this host's kernel does not receive the packets.
fn refuse_profile(args: &FindArgs) -> anyhow::Result<()> {
    let elsewhere = match (&args.of, args.testbed) {
        _ if !args.profile => return Ok(()),
        #[cfg(target_os = "linux")]
        _ if args.service.is_asked() => {
            "--profile: a service is a process of its own; run `netcliff profile --pid PID` during the search"
        }
        (Some(_), _) => {
            "--profile samples this host, and --of has another one under test: run `netcliff profile` there during the search"
        }
        (None, Testbed::Vm(_)) => {
            "--profile samples this host, and a guest is under test: leave it out, or use --testbed netns"
        }
        _ => return Ok(()),
    };
    Err(output::usage(elsewhere))
}

/// Refuses `--ipv6` with a guest, whose link has IPv4 addresses only.
fn refuse_ipv6_of_guest(args: &FindArgs) -> anyhow::Result<()> {
    match args.testbed {
        Testbed::Vm(_) if args.ipv6 => {
            Err(output::usage("--ipv6: a guest has IPv4 only; leave it out, or give --testbed netns"))
        }
        _ => Ok(()),
    }
}

/// Makes a trial at the measured cliff, and samples the host's CPU during it.
fn at_the_cliff(options: &FindOptions, finding: &Finding, stop: Arc<AtomicBool>) -> anyhow::Result<Profiles> {
    let Some(cliff) = finding.cliff_pps.wire.or(finding.cliff_experienced_pps.wire) else {
        output::say("netcliff: --profile: no cliff was measured, so that there is no load to profile".to_owned());
        return Ok(Profiles::default());
    };
    let rig = Rig::build(&options.rig, stop)?;
    let mut profiles = Profiles::new(true, Sampled { cpus: vec![rig.host_cpu as usize], without_own: false })?;
    let mut bench = WireBench::new(&rig, Preference::Only(cpu::Method::Procfs), Box::new(|_, _, _| ()));
    let shape = options.shape(PROFILED_S);
    profiles.begin(&format!("a trial of {PROFILED_S} s at the measured cliff, {}", quantity(cliff.value, Unit::Pps)));
    let trial = bench.observe(&shape.at(cliff.value), false);
    profiles.end();
    trial.context("--profile: the trial at the cliff")?;
    Ok(profiles)
}

/// Reads the capture to replay. Also returns how it is replayed, in a sentence.
fn captured(file: &Path) -> anyhow::Result<(Arc<Capture>, String)> {
    let capture = inputs::capture::read(&file.display().to_string()).map_err(output::usage)?;
    let (capture, how) = replayable(capture);
    Ok((Arc::new(capture), how))
}

/// The hosts of a run.
enum Hosts {
    /// This host, in a testbed.
    This,
    /// This host, while another host sends.
    From(BetweenOptions),
    /// Another host, while this one sends.
    Of(Box<FarSession>, NearEnd),
    /// Another host, while further ones send.
    OfFrom(Box<FarSession>, Generators),
    /// A guest of this host.
    Vm(Box<Guest>),
}

impl Hosts {
    fn of(args: &FindArgs) -> anyhow::Result<Self> {
        if let Some(options) = guest_options(args) {
            return Ok(Self::Vm(Box::new(Guest::boot(&options)?)));
        }
        if !args.is_between_hosts() {
            return Ok(Self::This);
        }
        let open = |host: &str| FarSession::of_host(host, args.ssh, args.key.as_deref(), FIND_S);
        let sending = sending(args)?;
        match (&args.from[..], &args.of, &args.interface) {
            (from @ [_, ..], Some(host), interface) => {
                refuse_own_load(host, from)?;
                let under_test = open(host)?;
                let generator = |host: &String| -> anyhow::Result<Generator> {
                    let far = open(host)?;
                    let (clock, address) = (far.session.hello.clock.clone(), far.session.address);
                    Ok(Generator { carrier: Box::new(far), clock, address })
                };
                let generators = Generators {
                    interface: interface.clone(),
                    their_interface: args.their_if.clone(),
                    by_control_link: args.i_know,
                    sending,
                    each: from.iter().map(generator).collect::<Result<_, _>>()?,
                };
                Ok(Self::OfFrom(Box::new(under_test), generators))
            }
            ([_, ..], None, Some(interface)) => {
                let carrier = |host: &String| -> anyhow::Result<SharedCarrier> {
                    Ok(Arc::new(Mutex::new(Box::new(open(host)?))))
                };
                Ok(Self::From(BetweenOptions {
                    interface: interface.clone(),
                    carriers: args.from.iter().map(carrier).collect::<Result<_, _>>()?,
                    their_interface: args.their_if.clone(),
                    by_control_link: args.i_know,
                    sending,
                }))
            }
            ([], Some(host), Some(interface)) => {
                let own = neighbour::own_end(interface, args.ipv6).map_err(output::usage)?;
                let (interface, by_control_link) = (interface.clone(), args.i_know);
                let near = NearEnd {
                    interface,
                    address: own.address,
                    netns: None,
                    by_control_link,
                    sending,
                    priority: Priority::default(),
                };
                Ok(Self::Of(Box::new(open(host)?), near))
            }
            (_, _, interface) => Err(output::usage(format!(
                "--if {}: --from HOST says which host sends to this one, --of HOST which one this one sends to; \
                 `netcliff agent --allow-find IF` runs there",
                interface.as_deref().unwrap_or("IF")
            ))),
        }
    }

    /// Options of the link between two hosts, if another host sends to this one. `None` otherwise.
    fn between(&self) -> Option<BetweenOptions> {
        if let Self::From(between) = self { Some(between.clone()) } else { None }
    }

    fn find(
        self,
        options: &FindOptions,
        stop: Arc<AtomicBool>,
        observer: &mut Progress<'_>,
    ) -> anyhow::Result<Finding> {
        match self {
            Self::This | Self::From(_) => find(options, stop, observer).map_err(explain),
            Self::Of(mut far, near) => Ok(find_of(&mut far.session, options, &near, &stop, observer)?),
            Self::OfFrom(mut far, generators) => Ok(find_from(&mut far.session, options, generators, &stop, observer)?),
            Self::Vm(guest) => find_in(*guest, options, &stop, observer),
        }
    }
}

/// Refuses a host under test that sends its own load.
fn refuse_own_load(of: &str, from: &[String]) -> anyhow::Result<()> {
    let agent = |host: &str| host.parse::<Endpoint>().map(|at| (at.host, at.port.unwrap_or(PORT)));
    let own = from.iter().find(|host| agent(host).is_ok_and(|at| agent(of).is_ok_and(|of| of == at)));
    own.map_or(Ok(()), |host| {
        Err(output::usage(format!(
            "--from {host}: the host under test (--of {of}) cannot send its own load: name the agent of another host"
        )))
    })
}

/// How the load is sent between two hosts; refuses what a method cannot do.
fn sending(args: &FindArgs) -> anyhow::Result<Sending> {
    let sending = args.sending();
    let queues = sending.queues;
    if sending.method == Some(Method::Socket) && (queues > 1 || sending.vlan.is_some()) {
        let what = if queues > 1 { format!("--queues {queues}") } else { "--vlan".to_owned() };
        return Err(output::usage(format!(
            "{what} takes frames that netcliff makes itself: leave --send-by socket out, or give --send-by xdp"
        )));
    }
    refuse_low_rate(args.max_rate)?;
    Ok(sending)
}

/// The options of the requested guest. `None` if no guest is requested.
fn guest_options(args: &FindArgs) -> Option<VmOptions> {
    let Testbed::Vm(model) = args.testbed else { return None };
    Some(VmOptions {
        monitor: args.vm_monitor.clone(),
        parameters: args.vm_driver.clone(),
        cpus: args.vm_cpus,
        sender_cpu: args.sender_cpu,
        ..args.guest.of(model)
    })
}

fn find_in(
    mut guest: Guest,
    options: &FindOptions,
    stop: &AtomicBool,
    observer: &mut Progress<'_>,
) -> anyhow::Result<Finding> {
    let near = guest.near_end();
    let found = find_of(&mut guest.session, options, &near, stop, observer);
    let mut finding = found.map_err(|error| guest.of_run(error))?;
    finding.host.limits.append(&mut guest.limits);
    Ok(finding)
}

/// The options as far as this host can check them. A guest has its own CPUs and NIC, so those are not checked.
fn checked(args: &FindArgs, checks: &[CheckSetup]) -> FindOptions {
    let mut options = options(args, checks, None, None);
    if matches!(args.testbed, Testbed::Vm(_)) {
        options.rig.host_cpu = None;
        options.checks.retain(|setup| setup.settings().is_empty());
    }
    options
}

fn options(
    args: &FindArgs,
    checks: &[CheckSetup],
    capture: Option<&Arc<Capture>>,
    between: Option<BetweenOptions>,
) -> FindOptions {
    let mut options = args.options();
    if let Some(capture) = capture {
        options.settings.frame_bytes = Replay::of(capture).mean_bytes() as u32;
    }
    options.capture = capture.cloned();
    options.rig.between = between;
    options.checks = checks.to_vec();
    options
}

/// A CPU that does not exist, an invalid goal, or a check without its device is the user's mistake. Any other error is
/// a failed measurement.
fn explain(error: FindError) -> anyhow::Error {
    match error {
        FindError::Rig(RigError::NoSuchCpu { .. })
        | FindError::Unresolved(_)
        | FindError::Goal(_)
        | FindError::Short { .. }
        | FindError::NoDevice { .. } => output::usage(error),
        other => other.into(),
    }
}

fn keep((store, run): (&Store, i64), finding: &Finding) -> Result<(), String> {
    store.set_fingerprint(run, &finding.fingerprint).map_err(|error| error.to_string())?;
    store.finish(run, finding.partial, Some(finding)).map_err(|error| error.to_string())
}

/// Writes the finding to a file in the temporary directory, or else to stdout, if nothing else can be written.
fn rescue(finding: &Finding) -> anyhow::Result<PathBuf> {
    if let Ok(path) = write_temporary("netcliff-find", "json", &report::format::json(&serde_json::to_string(finding)?))
    {
        return Ok(path);
    }
    output::json_line(finding)?;
    Ok(PathBuf::from("stdout"))
}

fn show(args: &FindArgs, finding: &Finding, run_id: Option<i64>) -> anyhow::Result<()> {
    if args.json {
        output::json_line(finding)?;
    } else if args.live {
        live::result(finding, finding.partial)?;
    } else {
        let page = if args.verbose { report::terminal::finding } else { report::terminal::brief };
        output::page(&page(finding, output::style()))?;
    }
    if let Some(path) = &args.svg {
        write_told("figure", path, &report::svg::delivered(finding))?;
    }
    let page = report::html::finding(finding);
    let path = match &args.html {
        Some(path) => {
            write(path, &page)?;
            path.clone()
        }
        None if args.no_store => return Ok(()),
        None => write_default(&page, finding, run_id)?,
    };
    let line = format!("Report: {}", path.display());
    if args.json || args.live {
        output::say(line)
    } else {
        output::sentences(&(line + "\n"))?
    }
    Ok(())
}

/// Writes the page into the data directory, or, if that cannot be written, into the temporary one.
fn write_default(page: &str, finding: &Finding, run_id: Option<i64>) -> anyhow::Result<PathBuf> {
    let number = run_id.map_or_else(|| format!("p{}", std::process::id()), |id| id.to_string());
    let stem = format!("find-{number}-{:.0}", finding.provenance.started_unix_s);
    if let Ok(dir) = data_dir().map(|dir| dir.join("reports")) {
        let path = dir.join(format!("{stem}.html"));
        if files::private_directory(&dir).is_ok() && write(&path, page).is_ok() {
            return Ok(path);
        }
    }
    write_temporary(&stem, "html", page).context("cannot write the report to the temporary directory")
}
