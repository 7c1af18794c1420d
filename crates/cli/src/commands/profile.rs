//! `netcliff profile`.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use netcliff_core::Profile;
use netcliff_core::profile::Folded;
use netcliff_lab::store::Store;
use netcliff_lab::stored::Stored;
use netcliff_profile::{Options, ProfileError};
use netcliff_report as report;

use super::{open_store, refuse_name, refuse_unwritable_files, stop_on_signal, write_told};
use crate::args::{ProfileArgs, StoreArgs};
use crate::output::{self, command_line};
use crate::progress::Due;

/// Samples this host, and shows where a packet's time went.
pub fn run(args: &ProfileArgs, store: &StoreArgs) -> anyhow::Result<ExitCode> {
    refuse_name(store, !args.no_save, "leave out --no-save")?;
    refuse_unwritable_files([args.svg.as_deref(), args.folded.as_deref(), output::csv_file(&args.csv)])?;
    let kept = (!args.no_save).then(|| open_store(store)).transpose()?;
    let options = Options {
        interfaces: args.interfaces.clone(),
        cpus: args.cpu.as_ref().map(|cpus| cpus.0.clone()).unwrap_or_default(),
        pid: args.pid,
        length: args.length,
        until_stopped: false,
        rate_hz: args.rate,
        locks: args.locks,
        meter: args.meter.map(crate::args::Meter::preference),
        own: false,
        load: None,
        command: command_line(),
    };
    let stop = stop_on_signal()?;
    let mut due = Due::of_a_watch();
    let (profile, folded) = netcliff_profile::profile(&options, &stop, &mut |progress| {
        if due.is_now() {
            output::say(format!(
                "netcliff: {:.0} of {:.0} s sampled, {} samples",
                progress.elapsed_s,
                args.length.as_secs_f64(),
                progress.samples
            ));
        }
    })
    .map_err(refused)?;
    let run = kept.map(|store| Stored::Profile(Box::new(profile.clone())).keep(&store, None)).transpose()?;
    output::csv(&args.csv, || Ok(report::csv::profile(&profile)))?;
    match (args.json, output::to_stdout(&args.csv)) {
        (true, _) => output::json_line(&profile)?,
        (_, true) => output::data(&report::csv::profile(&profile))?,
        _ => output::page(&report::terminal::profile(&profile, output::style()))?,
    }
    write_stacks(args, &profile, &folded)?;
    if let Some(run) = run {
        output::say(format!(
            "netcliff: stored as run {run}; `netcliff compare {run} last` compares it with the next profile"
        ));
    }
    Ok(ExitCode::from(u8::from(profile.stages.is_empty())))
}

fn write_stacks(args: &ProfileArgs, profile: &Profile, folded: &[Folded]) -> anyhow::Result<()> {
    if let Some(path) = &args.svg {
        let title = format!(
            "{}: CPU time by stack, {:.1} s on {}, idle time left out",
            profile.host.kernel,
            profile.sampled.seconds,
            report::format::cpus(&profile.sampled.cpus)
        );
        write_told("flame graph", path, &report::svg::flame(&title, folded))?;
    }
    if let Some(path) = &args.folded {
        write_told("folded stacks", path, &netcliff_profile::folded(folded))?;
    }
    Ok(())
}

/// What is sampled by a profile of another command's load.
#[derive(Debug, Clone, Default)]
pub struct Sampled {
    /// CPUs that are sampled; empty: all.
    pub cpus: Vec<usize>,
    /// True: netcliff's own threads do not count as the application.
    pub without_own: bool,
}

/// A profile of this host while another command puts a load on it.
pub struct Sampling {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<(Profile, Vec<Folded>), ProfileError>>,
}

impl Sampling {
    /// Starts to sample under netcliff's own load, which `load` describes.
    ///
    /// # Errors
    /// The kernel refuses sampling.
    pub fn start(load: &str, sampled: &Sampled) -> anyhow::Result<Self> {
        let options = Options {
            interfaces: Vec::new(),
            cpus: sampled.cpus.clone(),
            pid: None,
            length: Duration::from_secs(3600),
            until_stopped: true,
            rate_hz: None,
            locks: false,
            meter: None,
            own: !sampled.without_own,
            load: Some(load.to_owned()),
            command: command_line(),
        };
        let stop = Arc::<AtomicBool>::default();
        let theirs = Arc::clone(&stop);
        let (tell, begun) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            netcliff_profile::profile(&options, &theirs, &mut |_| {
                let _ = tell.send(());
            })
        });
        let sampling = Self { stop, thread };
        // If sampling is refused, the thread ends without sending a message.
        if begun.recv().is_err() {
            sampling.end()?;
            anyhow::bail!("--profile: sampling ended before it began");
        }
        Ok(sampling)
    }

    /// Ends sampling and returns the profile.
    ///
    /// # Errors
    /// A counter of the kernel could not be read.
    pub fn end(self) -> anyhow::Result<Profile> {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.join().map_err(|_| anyhow::anyhow!("the thread that samples has panicked"))?;
        Ok(ended.map_err(|error| anyhow::anyhow!("--profile: {error}"))?.0)
    }
}

/// Profiles of a command's loads: one for each load, of the first time that it is offered.
#[derive(Default)]
pub struct Profiles {
    wanted: bool,
    sampled: Sampled,
    current: Option<Sampling>,
    begun: Vec<String>,
    had: Vec<Profile>,
    failure: Option<anyhow::Error>,
}

impl Profiles {
    /// A collection without profiles. If profiles are requested, samples for a moment, so that a kernel that refuses
    /// does so before the load starts.
    ///
    /// # Errors
    /// The kernel refuses sampling.
    pub fn new(wanted: bool, sampled: Sampled) -> anyhow::Result<Self> {
        if wanted {
            Sampling::start("none", &sampled)?.end()?;
        }
        Ok(Self { wanted, sampled, ..Self::default() })
    }

    /// Ends the profile of the previous load, and starts that of `load` if profiles are requested and it has none yet.
    pub fn begin(&mut self, load: &str) {
        self.end();
        if !self.wanted || self.begun.iter().any(|begun| begun == load) {
            return;
        }
        self.begun.push(load.to_owned());
        match Sampling::start(load, &self.sampled) {
            Ok(sampling) => self.current = Some(sampling),
            Err(error) => self.failure = self.failure.take().or(Some(error)),
        }
    }

    /// Ends the profile of the current load and stores it.
    pub fn end(&mut self) {
        match self.current.take().map(Sampling::end) {
            Some(Ok(profile)) => self.had.push(profile),
            Some(Err(error)) => self.failure = self.failure.take().or(Some(error)),
            None => {}
        }
    }

    /// Prints the profiles, each as a page below the command's own page or as one more line of JSON. Stores each as a
    /// separate run.
    ///
    /// # Errors
    /// The reader has stopped, the store cannot be written, or a profile failed.
    pub fn show(mut self, json: bool, store: Option<&Store>) -> anyhow::Result<()> {
        self.end();
        for profile in &self.had {
            if json {
                output::json_line(profile)?;
            } else {
                output::page(&format!("\nPROFILE\n{}", report::terminal::profile(profile, output::style())))?;
            }
            if let Some(store) = store {
                let run = Stored::Profile(Box::new(profile.clone())).keep(store, None)?;
                // The name of `--name` belongs to the command's run, not to the profile.
                store.rename(run, None)?;
                let load = profile.load.as_deref().unwrap_or_default();
                output::say(format!("netcliff: the profile of {load} is stored as run {run}"));
            }
        }
        self.failure.map_or(Ok(()), Err)
    }
}

/// An error of a profile, with its exit code.
fn refused(error: ProfileError) -> anyhow::Error {
    match error {
        ProfileError::Usage(why) => output::usage(why),
        ProfileError::Failed(why) => anyhow::Error::msg(why),
    }
}
