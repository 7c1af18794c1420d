//! Runs each command with its arguments.

pub mod advise;
pub mod agent;
pub mod compare;
pub mod compute;
pub mod drops;
pub mod far;
pub mod find;
pub mod inspect;
pub mod learn;
pub mod limits;
pub mod linux_only;
pub mod metrics;
pub mod profile;
pub mod refused;
pub mod results;
pub mod rfc2544;
pub mod rr;
pub mod run;
pub mod serve;
#[cfg(target_os = "linux")]
pub mod service;
pub mod simulate;
pub mod stream;
pub mod tune;
pub mod watch;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use netcliff_core::Host;
use netcliff_core::note::Note;
use netcliff_core::units::print_pps;
use netcliff_core::warning::Warning;
use netcliff_host::files::{self, Form};
use netcliff_host::inventory::Load;
use netcliff_host::journal::HostLock;
use netcliff_host::process;
use netcliff_host::testbed::{self, Permission};
use netcliff_lab::costs::{self, Costs, Found, Origin};
use netcliff_lab::inputs;
use netcliff_lab::store::{self, Store};
use netcliff_report as report;
use netcliff_trial::rig::LEAST_MOST_PPS;

use crate::args::StoreArgs;
use crate::output;
pub use crate::output::{command_line, now_unix_s, write, write_as, write_temporary, write_told};

/// Opens the store that the options name.
pub fn open_store(args: &StoreArgs) -> anyhow::Result<Store> {
    Ok(Store::open(&store_path(args)?)?.naming(args.name.clone()))
}

/// Opens the store that the options name, to read it. A store that does not exist reads as empty and is not made.
pub fn open_store_to_read(args: &StoreArgs) -> anyhow::Result<Store> {
    Ok(Store::open_to_read(&store_path(args)?)?)
}

/// Refuses `--name` if the command stores nothing.
pub fn refuse_name(args: &StoreArgs, kept: bool, remedy: &str) -> anyhow::Result<()> {
    match args.name.as_ref().filter(|_| !kept) {
        None => Ok(()),
        Some(name) => Err(output::usage(format!("--name {name}: nothing is kept to be named; {remedy}"))),
    }
}

/// Refuses a `--max-rate` below the load of the trial that checks whether packets arrive.
pub fn refuse_low_rate(rate_pps: Option<f64>) -> anyhow::Result<()> {
    let Some(rate_pps) = rate_pps.filter(|rate_pps| *rate_pps < LEAST_MOST_PPS) else { return Ok(()) };
    let (rate, least) = (print_pps(rate_pps), print_pps(LEAST_MOST_PPS));
    Err(output::usage(format!(
        "--max-rate {rate}: expected {least} or more, the load of the trial that looks whether packets arrive"
    )))
}

/// Path of the store that the options name, which need not exist.
pub fn store_path(args: &StoreArgs) -> anyhow::Result<PathBuf> {
    args.db.clone().map_or_else(default_store, Ok)
}

/// The host that `--host` names, with the changes of `--set`.
///
/// If people read the output, it also reports the run that the costs are from, with its measured cliff. For a preset
/// that is used because there is no run, [`preset_caution`] is at the top of the page. `has_p99`: whether the command
/// computes a p99 for this host.
pub fn costs(
    name: Option<&str>,
    set: &[String],
    store: &StoreArgs,
    for_people: bool,
    has_p99: impl Fn(&Host) -> bool,
) -> anyhow::Result<Costs> {
    let costs = origin_and_costs(name, set, store, has_p99)?;
    if for_people && matches!(costs.origin, Origin::Found(_)) {
        output::say(format!("netcliff: costs: {}", costs.origin));
    }
    Ok(costs)
}

/// Costs with their origin. If the costs come from a disturbed run, a line on stderr says so. `has_p99`: whether the
/// command computes a p99 for this host.
pub fn origin_and_costs(
    name: Option<&str>,
    set: &[String],
    store: &StoreArgs,
    has_p99: impl Fn(&Host) -> bool,
) -> anyhow::Result<Costs> {
    let path = || store_path(store).map_err(|error| error.to_string());
    let mut costs = costs::named(name, path).map_err(output::usage)?;
    for assignment in set {
        costs.host.set(assignment).map_err(output::usage)?;
    }
    inputs::measured_times([&mut costs.host]).map_err(output::usage)?;
    let has_p99 = has_p99(&costs.host);
    let cautioned = match &costs.origin {
        Origin::Found(found) => caution(found, has_p99),
        Origin::Named(file) => {
            inputs::finding(file).and_then(|finding| report::sheet::caution(&finding, file, has_p99))
        }
        Origin::Preset(_) => None,
    };
    if let Some(caution) = cautioned {
        output::say(format!("netcliff: {caution}"));
    }
    Ok(costs)
}

/// Warns before a measurement that other programs use the CPUs.
fn warn_of_load() {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    if let Some(warning) = Load::of_this_host().warning(cpus) {
        output::say(format!("netcliff: {warning}"));
    }
}

/// The reasons against relying on a `find`, in the words of its own page. `None` if nothing speaks against it. `has_p99`:
/// the command computes a p99 from its costs.
pub fn caution(found: &Found, has_p99: bool) -> Option<String> {
    // Costs that the user gave have no measurement that could be doubted.
    if found.run.is_none() && found.finding.provenance.started_unix_s == 0.0 {
        return None;
    }
    report::sheet::caution(&found.finding, &found.name.to_string(), has_p99)
}

/// A caution for the top of a page, if the costs are a preset's because this machine has none of its own; otherwise
/// empty.
pub fn preset_caution(name: Option<&str>, store: &StoreArgs) -> String {
    let path = || store_path(store).map_err(|error| error.to_string());
    match costs::named(name, path).map(|costs| costs.origin) {
        Ok(origin @ Origin::Preset(_)) => {
            let text = format!("Caution: these are the costs of {origin}.\n");
            let width = output::columns(&std::io::stdout()).unwrap_or(output::style().width);
            report::format::sentences(&text, width) + "\n"
        }
        _ => String::new(),
    }
}

/// Path of this user's store. If HOME is not set, as in a systemd unit, the home directory is that of /etc/passwd.
fn default_store() -> anyhow::Result<PathBuf> {
    let home = || process::home_directory().map(|home| home.display().to_string());
    let environment = |name: &str| match std::env::var(name).ok().filter(|value| !value.is_empty()) {
        None if name == "HOME" => home(),
        value => value,
    };
    store::default_path(environment).ok_or_else(|| {
        output::usage("neither HOME nor XDG_DATA_HOME names a directory: say with --db FILE where runs are kept")
    })
}

/// The directory of the default store.
pub fn data_dir() -> anyhow::Result<PathBuf> {
    let mut path = default_store()?;
    path.pop();
    Ok(path)
}

/// The CPU of one end of a testbed. Of several CPUs, the first: received packets are steered to it.
fn first_cpu(cpus: &[usize]) -> Option<u32> {
    cpus.first().and_then(|cpu| u32::try_from(*cpu).ok())
}

/// The list of CPUs if there are several. Empty for a single CPU, which is the CPU of all threads.
fn several(cpus: &[usize]) -> Vec<usize> {
    if cpus.len() > 1 { cpus.to_vec() } else { Vec::new() }
}

/// Without root on the host, network namespaces need a user namespace. The page reports how that limits the result.
pub fn enter_user_namespace() -> Option<String> {
    match Permission::probe() {
        Permission::MayEnterUserNamespace => testbed::enter_user_namespace().err().map(|error| error.to_string()),
        _ => None,
    }
}

/// Signals within this time after the first one belong to the same stop: `timeout` signals its child and then its
/// group, and a terminal signals the group again.
const SAME_STOP: Duration = Duration::from_millis(500);

/// Prepares a measurement: from now on, output does not wait for a slow reader. The first Ctrl-C, Ctrl-\, SIGTERM or
/// SIGHUP sets the returned flag. Another one after [`SAME_STOP`] ends the process.
pub fn stop_on_signal() -> anyhow::Result<Arc<AtomicBool>> {
    output::begin_measuring()?;
    let stop = Arc::<AtomicBool>::default();
    let theirs = Arc::clone(&stop);
    let mut first: Option<Instant> = None;
    process::quit_as_interrupt().context("cannot watch for Ctrl-\\")?;
    ctrlc::set_handler(move || {
        theirs.store(true, Ordering::Relaxed);
        output::end();
        HostLock::end_wait();
        match first {
            None => {
                first = Some(Instant::now());
                output::say("netcliff: stopping; press Ctrl-C again to exit at once, without results");
            }
            Some(first) if first.elapsed() < SAME_STOP => {}
            // After the second signal, exit at once. The next start undoes changes by the journal.
            Some(_) => std::process::exit(1),
        }
    })
    .context("cannot watch for Ctrl-C")?;
    Ok(stop)
}

/// Refuses a file that cannot be written, before anything is measured.
pub fn refuse_unwritable(path: Option<&Path>) -> anyhow::Result<()> {
    let Some(path) = path else { return Ok(()) };
    if path == Path::new("-") {
        return Err(output::usage("cannot write -: it is no file's name; /dev/stdout is stdout, ./- a file called so"));
    }
    files::check(path).map_err(|error| {
        output::usage(format!(
            "cannot write {}: {error}; name a file in a directory that can be written",
            path.display()
        ))
    })
}

/// Like [`refuse_unwritable`], for several files. Also refuses two paths to one file, because only the last output
/// would remain.
pub fn refuse_unwritable_files<'a>(paths: impl IntoIterator<Item = Option<&'a Path>>) -> anyhow::Result<()> {
    let mut files: Vec<PathBuf> = Vec::new();
    for path in paths.into_iter().flatten() {
        refuse_unwritable(Some(path))?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let whole =
            path.canonicalize().or_else(|_| Ok(parent.canonicalize()?.join(path.file_name().unwrap_or_default())));
        let whole = whole.unwrap_or_else(|_: std::io::Error| path.to_owned());
        // A pipe or device can take several outputs, one after the other.
        if whole.metadata().is_ok_and(|there| !there.is_file()) {
            continue;
        }
        if files.contains(&whole) {
            let path = path.display();
            return Err(output::usage(format!(
                "{path} is named for two outputs, of which one would be lost; name two files"
            )));
        }
        files.push(whole);
    }
    Ok(())
}

/// Prints the notes on captures that traffic is read from, each note once.
pub fn warn_of_captures<'a>(traffic: impl IntoIterator<Item = &'a netcliff_core::Traffic>) {
    let mut said = std::collections::BTreeSet::new();
    for traffic in traffic {
        let notes = traffic.capture_notes();
        notes
            .into_iter()
            .filter(|note| said.insert(note.clone()))
            .for_each(|note| output::say(Note::Warning(Warning::Capture(note))));
    }
}

/// Writes one of netcliff's own files into a directory that the user named.
pub fn write_in(dir: &Path, name: &str, text: &str, mode: u32) -> anyhow::Result<PathBuf> {
    let path = dir.join(name);
    let form = Form { mode: Some(mode), is_own_name: true, ..Form::default() };
    write_as(&path, text, form).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

pub mod guest {
    //! This program as the only one of a guest: it serves the program that booted the guest, and powers off.

    use std::process::ExitCode;

    use clap::Parser;
    use netcliff_host::testbed::vm::guest;

    use super::agent;
    use crate::args::{Cli, Command};
    use crate::output;

    /// An emulated guest may be silent for seconds if its CPU is busy.
    const AGENT: [&str; 6] = ["netcliff", "agent", "--stdio", "--silence=30s", "--longest=86400s", "--clients=1"];
    /// Listen on any address: without an address an agent listens on IPv6, which the guest does not have.
    const DATA_AT: &str = "--data-at=0.0.0.0";

    /// Serves one client; does not return.
    pub fn run() -> anyhow::Result<ExitCode> {
        if !guest::is_first_process() {
            return Err(output::usage(
                "guest is for the first process of a guest: `netcliff find --testbed vm:e1000e` boots one",
            ));
        }
        if let Err(error) = serve() {
            output::say(format!("netcliff: {error:#}"));
        }
        guest::power_off();
        Ok(ExitCode::FAILURE)
    }

    fn serve() -> anyhow::Result<()> {
        let (control, device) = guest::prepare().map_err(anyhow::Error::msg)?;
        let allowed = format!("--allow-settings={device}");
        let words = AGENT.into_iter().chain([DATA_AT, &allowed]);
        let Command::Agent(args) = Cli::try_parse_from(words)?.command else { unreachable!("it is the agent") };
        agent::serve_one(&args, &control, &control)
    }
}

pub mod headroom {
    //! `netcliff headroom`.

    use std::process::ExitCode;
    use std::time::Duration;

    use anyhow::Context;
    use netcliff_care::headroom;
    use netcliff_find as find;
    use netcliff_host::inspect::{Inspection, Port};
    use netcliff_host::inventory::Inventory;
    use netcliff_host::watch::Look;
    use netcliff_lab::costs;
    use netcliff_report as report;

    use super::{now_unix_s, store_path};
    use crate::args::{HeadroomArgs, StoreArgs};
    use crate::output;

    /// Counts for a while and compares the load with the calibrated cliff.
    pub fn run(args: &HeadroomArgs, store: &StoreArgs) -> anyhow::Result<ExitCode> {
        super::refuse_name(store, false, "headroom keeps nothing")?;
        let path = store_path(store)?;
        let found = match costs::cliff_of(args.host.as_deref(), || Ok(path.clone())) {
            Ok(found) => found,
            Err(why) if args.host.is_some() => return Err(output::usage(why)),
            Err(why) => {
                let why = format!("no calibrated cliff in {}: {why}", path.display());
                super::learn::instead(&args.interfaces, &why)?.0
            }
        };
        let host = Inspection::of_this_host(Duration::ZERO).context("cannot ask the kernel for its interfaces")?;
        let ports = ports(&args.interfaces, &host)?;
        let before = Look::now(&ports)?;
        std::thread::sleep(args.interval);
        let moment = before.until(&before.next(&ports)?, &ports);
        let (kernel, cpu) = (find::kernel_name(&Inventory::of_this_host()), costs::this_cpu());
        let here = headroom::Here { unix_s: now_unix_s(), kernel: &kernel, cpu: &cpu };
        let now = headroom::headroom(&moment, &found, here).map_err(anyhow::Error::msg)?;
        let has_p99 = now.cpus.iter().any(|cpu| cpu.latency_s.is_some_and(|latency| latency.p99.is_some()));
        if let Some(caution) = super::caution(&found, has_p99) {
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

    /// The ports with these names. Without names, the host's main ports.
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
}

pub mod live {
    //! Lines while a measurement runs (`-i`). A separate thread makes them, so that neither formatting nor a slow
    //! reader delays the measurement.

    use std::sync::mpsc;
    use std::thread::{self, JoinHandle};

    use anyhow::Context;
    use netcliff_report::format;

    use crate::output;

    /// Makes lines until all senders are dropped.
    pub struct Lines {
        thread: JoinHandle<()>,
    }

    impl Lines {
        /// The sender for reports, and the thread that turns them into lines by `text`.
        ///
        /// Lines go to stdout, like iperf3's, or to stderr if stdout is one JSON object. Lines that their reader does
        /// not take are dropped and counted.
        pub fn start<T: Send + 'static>(
            json: bool,
            mut text: impl FnMut(&T) -> String + Send + 'static,
        ) -> anyhow::Result<(mpsc::Sender<T>, Self)> {
            let (to, heard) = mpsc::channel::<T>();
            let write = move || {
                for interval in heard {
                    let text = format::printable(&text(&interval));
                    if !text.is_empty() {
                        output::line(json, text, output::missing);
                    }
                }
            };
            let thread = thread::Builder::new().name("lines".into()).spawn(write);
            Ok((to, Self { thread: thread.context("cannot start a thread that makes lines")? }))
        }

        /// Waits until all lines are made; all senders must be dropped before.
        pub fn end(self) {
            // The page matters more than lines that could not be made.
            let _ = self.thread.join();
        }
    }
}

pub mod shell {
    //! Completions and manual pages, generated from the command line's own definition.

    use std::path::Path;
    use std::process::ExitCode;

    use anyhow::Context;
    use clap::CommandFactory;

    use crate::args::Cli;
    use crate::output;

    /// Prints a completion script.
    pub fn completions(shell: clap_complete::Shell) -> anyhow::Result<ExitCode> {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Cli::command(), "netcliff", &mut script);
        output::data(&String::from_utf8(script)?)?;
        Ok(ExitCode::SUCCESS)
    }

    /// Prints the main manual page, or writes all of them into `dir`.
    pub fn man(dir: Option<&Path>) -> anyhow::Result<ExitCode> {
        match dir {
            Some(dir) => {
                std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
                clap_mangen::generate_to(Cli::command(), dir)
                    .with_context(|| format!("cannot write manual pages into {}", dir.display()))?;
            }
            None => {
                let mut page = Vec::new();
                clap_mangen::Man::new(Cli::command()).render(&mut page)?;
                output::data(&String::from_utf8(page)?)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
