//! Progress of runs, predictions, simulations and `advise` on stderr. `find`'s also stores the records as they come.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use netcliff_core::{Point, Record, units};
use netcliff_find::Observer;
use netcliff_lab::store::Store;
use netcliff_sim::{Executor, Filled, ReplicationRequest};
use serde_json::json;

use crate::live;
use crate::output;

/// Shows the progress of a run, and stores its records as they come.
pub struct Progress<'a> {
    bar: ProgressBar,
    terminal: bool,
    stage: String,
    /// When the remaining time is printed, if no bar is drawn.
    due: Due,
    store: Option<(&'a Store, i64)>,
    /// Number of records so far.
    pub records: u64,
    /// The first failure of the store; the run goes on without it.
    pub store_failure: Option<String>,
}

/// Parts of the bar: tenths of a percent.
const PARTS: u64 = 1000;

impl<'a> Progress<'a> {
    /// A bar for a run whose records go to `store`.
    pub fn new(store: Option<(&'a Store, i64)>) -> Self {
        let terminal = output::has_bars();
        let bar = output::bar(PARTS);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {percent:>3}% {wide_msg}") {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.enable_steady_tick(Duration::from_millis(500));
        Self {
            bar,
            terminal,
            stage: String::new(),
            due: Due::after(Duration::ZERO),
            store,
            records: 0,
            store_failure: None,
        }
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl Observer for Progress<'_> {
    fn stage(&mut self, name: &str) {
        name.clone_into(&mut self.stage);
        live::tell("stage", || json!({"stage": name}));
        self.bar.set_message(name.to_owned());
        if !self.terminal {
            output::say_plainly(&format!("netcliff: {name}"));
        }
    }

    fn trial(&mut self, load_pps: f64, elapsed_s: f64, planned_s: f64) {
        live::tell("trial", || json!({"load_pps": load_pps, "run_s": elapsed_s, "planned_s": planned_s}));
        // The plan is an estimate: the bar never claims to be done before the run is.
        let share = (elapsed_s / planned_s).min(0.99);
        self.bar.set_position((share * PARTS as f64) as u64);
        let left_s = (planned_s - elapsed_s).max(1.0).round();
        let load = units::print_pps((load_pps / 100.0).round() * 100.0);
        self.bar.set_message(format!("{} at {load}, about {left_s:.0} s left", self.stage));
        if !self.terminal && self.due.is_now() {
            output::say_plainly(&format!("netcliff: about {left_s:.0} s left"));
        }
    }

    fn record(&mut self, record: &Record) {
        self.records += 1;
        live::tell("record", || json!({"record": record}));
        let Some((store, run)) = self.store else { return };
        if let Err(error) = store.add(run, record)
            && self.store_failure.is_none()
        {
            self.bar.suspend(|| {
                output::say(format!("netcliff: {error}; the run goes on, its result will be kept elsewhere"))
            });
            self.store_failure = Some(error.to_string());
        }
    }
}

/// The progress of `run` on stderr: points done of all.
pub struct Points {
    bar: ProgressBar,
    terminal: bool,
    due: Due,
}

/// Work that takes less time than this prints nothing.
const SILENT: Duration = Duration::from_secs(2);
/// Interval between progress lines if no bar can be drawn.
const SAY_EVERY: Duration = Duration::from_secs(10);

/// When the next line on how far some work is may be printed.
pub struct Due {
    next: Instant,
    every: Duration,
}

impl Due {
    /// The first line is due after the time `first`, the others every [`SAY_EVERY`].
    fn after(first: Duration) -> Self {
        Self { next: Instant::now() + first, every: SAY_EVERY }
    }

    /// For work that waits for a stated time: the first line after [`SILENT`], then one every half a minute.
    pub fn of_a_watch() -> Self {
        Self { every: Duration::from_secs(30), ..Self::after(SILENT) }
    }

    /// True if a line is due. The next one is then an interval later.
    pub fn is_now(&mut self) -> bool {
        let now = Instant::now();
        let is_due = now >= self.next;
        if is_due {
            self.next = now + self.every;
        }
        is_due
    }
}

impl Points {
    /// Progress over `all` points, `had` of which are already done.
    pub fn new(all: usize, had: usize) -> Self {
        let terminal = output::has_bars();
        let bar = output::bar(all as u64);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos} of {len} points, {eta} left") {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_length(all as u64);
        bar.set_position(had as u64);
        bar.enable_steady_tick(Duration::from_millis(500));
        Self { bar, terminal, due: Due::after(SAY_EVERY) }
    }

    /// Counts one more point as done.
    pub fn one_more(&mut self) {
        self.bar.inc(1);
        if !self.terminal && self.due.is_now() {
            let (had, all) = (self.bar.position(), self.bar.length().unwrap_or_default());
            output::say(format!("netcliff: {had} of {all} points"));
        }
    }

    /// Prints a line without disturbing the bar.
    pub fn say(&self, text: &str) {
        self.bar.suspend(|| output::say(format!("netcliff: {text}")));
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// Progress of predictions and simulations on stderr: the work done of the expected amount, if it takes long.
pub struct Progressing {
    what: &'static str,
    /// The unit of the progress, and the number of counted items in one unit.
    unit: (&'static str, u64),
    expected: u64,
    done: u64,
    started: Instant,
    due: Due,
    bar: Option<ProgressBar>,
}

impl Progressing {
    /// Progress of some work over about `expected` loads.
    pub fn loads(what: &'static str, expected: usize) -> Self {
        Self::of(what, ("loads", 1), expected as u64)
    }

    fn of(what: &'static str, unit: (&'static str, u64), expected: u64) -> Self {
        Self { what, unit, expected, done: 0, started: Instant::now(), due: Due::after(SILENT), bar: None }
    }

    /// Counts `more` as done.
    pub fn add(&mut self, more: u64) {
        self.done += more;
        // A search may take more loads than expected.
        self.expected = self.expected.max(self.done);
        let elapsed = self.started.elapsed();
        if elapsed < SILENT || self.done == self.expected {
            return;
        }
        let left_s = (elapsed.as_secs_f64() * (self.expected - self.done) as f64 / self.done as f64).max(1.0);
        let Self { what, unit: (unit, of), expected, done, .. } = self;
        let text = format!("{what}: {} of about {} {unit}, about {left_s:.0} s left", *done / *of, *expected / *of);
        if output::has_bars() {
            let bar = self.bar.get_or_insert_with(|| {
                let bar = output::bar(self.expected);
                if let Ok(style) = ProgressStyle::with_template("{bar:30} {wide_msg}") {
                    bar.set_style(style.progress_chars("=> "));
                }
                bar
            });
            bar.set_length(self.expected);
            bar.set_position(self.done);
            bar.set_message(text);
        } else if self.due.is_now() {
            output::say(format!("netcliff: {text}"));
        }
    }
}

impl Drop for Progressing {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Simulates on this machine, and shows the number of simulated packets and of all expected packets.
pub struct ShownSimulation {
    progress: Mutex<Progressing>,
}

/// Number of packets between two updates of the progress: about a second.
const AT_ONCE: u64 = 20_000_000;
const MILLION: u64 = 1_000_000;

impl ShownSimulation {
    /// Progress of a simulation of about `packets` packets.
    pub fn of(packets: u64) -> Self {
        Self { progress: Mutex::new(Progressing::of("simulating", ("million packets", MILLION), packets)) }
    }

    /// Progress of a simulation of at most `packets` packets, which ends at a precision.
    pub fn of_at_most(packets: u64) -> Self {
        Self { progress: Mutex::new(Progressing::of("simulating", ("million packets at most", MILLION), packets)) }
    }

    /// Counts `packets` as simulated.
    pub fn add(&self, packets: u64) {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).add(packets);
    }
}

impl Executor for ShownSimulation {
    fn fetch(&self, point: &Point, seed: u64, order: &ReplicationRequest) -> Option<Vec<Filled>> {
        // A part has enough replications for all CPUs.
        let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u64);
        let part = |part: ReplicationRequest| {
            let filled = part.fill(point, seed);
            self.add(part.packets());
            filled
        };
        Some(order.parts(AT_ONCE.max(cpus.saturating_mul(order.packets_each()))).map(part).collect())
    }
}

/// The progress of `advise` on stderr: stages, and packets of those allowed.
pub struct Search {
    bar: ProgressBar,
    terminal: bool,
    prefix: String,
    /// When the number of packets is printed, if no bar is drawn.
    due: Due,
}

impl Search {
    /// Starts the progress of one search. `place`: number of its load, and number of all loads.
    pub fn new(place: Option<(usize, usize)>) -> Self {
        let terminal = output::has_bars();
        let bar = output::bar(1);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {human_pos} of at most {human_len} packets, {msg}") {
            bar.set_style(style.progress_chars("=> "));
        }
        let prefix = place.map_or(String::new(), |(place, all)| format!("load {place} of {all}: "));
        Self { bar, terminal, prefix, due: Due::after(SILENT) }
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl netcliff_lab::advise::Observer for Search {
    fn stage(&mut self, name: &str) {
        let text = format!("{}{name}", self.prefix);
        if !self.terminal {
            output::say(format!("netcliff: {text}"));
            self.due = Due::after(SILENT);
        }
        self.bar.set_message(text);
    }

    fn packets(&mut self, simulated: u64, at_most: u64) {
        self.bar.set_length(at_most);
        self.bar.set_position(simulated);
        if !self.terminal && self.due.is_now() {
            output::say(format!("netcliff: {} of at most {} million packets", simulated / MILLION, at_most / MILLION));
        }
    }
}
