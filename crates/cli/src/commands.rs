//! What each command does with its arguments.

pub mod advise;
pub mod agent;
pub mod compare;
pub mod compute;
pub mod far;
pub mod find;
pub mod inspect;
pub mod limits;
pub mod refused;
pub mod results;
pub mod rfc2544;
pub mod rr;
pub mod run;
pub mod shell;
pub mod simulate;
pub mod stream;
pub mod tune;
pub mod watch;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use netcliff_host::testbed::{self, Permission};
use netcliff_lab::store::{self, Store};

use crate::args::{Meter, StoreArgs};
use crate::output;

/// Opens the store that was asked for.
pub fn open_store(args: &StoreArgs) -> anyhow::Result<Store> {
    Ok(Store::open(&store_path(args))?.naming(args.name.clone()))
}

/// A name for what is not kept would name nothing.
pub fn refuse_name(args: &StoreArgs, kept: bool, remedy: &str) -> anyhow::Result<()> {
    match args.name.as_ref().filter(|_| !kept) {
        None => Ok(()),
        Some(name) => Err(output::usage(format!("--name {name}: nothing is kept to be named; {remedy}"))),
    }
}

/// The store that was asked for, which need not exist.
pub fn store_path(args: &StoreArgs) -> PathBuf {
    args.db.clone().unwrap_or_else(|| store::default_path(|name| std::env::var(name).ok()))
}

/// The directory that holds the default store.
pub fn data_dir() -> PathBuf {
    let mut path = store::default_path(|name| std::env::var(name).ok());
    path.pop();
    path
}

/// The CPU of a testbed's end: reception is steered to the first of several.
fn first_cpu(cpus: &[usize]) -> Option<u32> {
    cpus.first().and_then(|cpu| u32::try_from(*cpu).ok())
}

/// A list of CPUs as such, where it has several: one alone is the CPU of all threads.
fn several(cpus: &[usize]) -> Vec<usize> {
    if cpus.len() > 1 { cpus.to_vec() } else { Vec::new() }
}

/// The command line as typed.
pub fn command_line() -> String {
    let quote = |text: String| if text.contains([' ', '"', '\'']) { format!("{text:?}") } else { text };
    let mut words: Vec<String> = std::env::args_os().map(|word| quote(word.to_string_lossy().into_owned())).collect();
    if let Some(program) = words.first_mut() {
        "netcliff".clone_into(program);
    }
    words.join(" ")
}

/// Seconds since the epoch (UTC).
pub fn now_unix_s() -> f64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// Without the host's root, namespaces need a user namespace; what that costs is said in the page.
pub fn enter_user_namespace() -> Option<String> {
    match Permission::probe() {
        Permission::MayEnterUserNamespace => testbed::enter_user_namespace().err().map(|error| error.to_string()),
        _ => None,
    }
}

/// Signals that follow the first within this time are of the same stop: `timeout` signals its child and its group, a terminal
/// the group again.
const SAME_STOP: Duration = Duration::from_millis(500);

/// Set by the first Ctrl-C or SIGTERM; another one after [`SAME_STOP`] ends the process.
pub fn stop_on_signal() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::<AtomicBool>::default();
    let theirs = Arc::clone(&stop);
    let mut first: Option<Instant> = None;
    ctrlc::set_handler(move || {
        theirs.store(true, Ordering::Relaxed);
        match first {
            None => {
                first = Some(Instant::now());
                output::say("netcliff: stopping; what was measured is kept (once more to leave at once)");
            }
            Some(first) if first.elapsed() < SAME_STOP => {}
            // Asked twice: leave at once; the journal lets the next start clean up.
            Some(_) => std::process::exit(1),
        }
    })
    .context("cannot watch for Ctrl-C")?;
    Ok(stop)
}

/// Refuses a file that could not be written in the end, before anything is measured for it.
pub fn refuse_unwritable(path: Option<&Path>) -> anyhow::Result<()> {
    let Some(path) = path else { return Ok(()) };
    let before = std::fs::metadata(path);
    // Who opens a pipe waits for its reader.
    if before.as_ref().is_ok_and(|file| !file.is_file() && !file.is_dir()) {
        return Ok(());
    }
    let opened = std::fs::OpenOptions::new().append(true).create(true).open(path);
    let refused = |error| {
        output::usage(format!(
            "cannot write {}: {error}; name a file in a directory that can be written",
            path.display()
        ))
    };
    opened.map_err(refused)?;
    if before.is_err() {
        // It is not there before it has something to say.
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}

/// Writes a file that the user named.
pub fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

impl Meter {
    /// As the host's meters are chosen.
    pub fn preference(self) -> netcliff_host::cpu::Preference {
        use netcliff_host::cpu::{Method, Preference};
        match self {
            Self::Best => Preference::Best,
            Self::Ebpf => Preference::Only(Method::Ebpf),
            Self::Procfs => Preference::Only(Method::Procfs),
            Self::Soaker => Preference::Only(Method::Soaker),
        }
    }
}
