//! `netcliff drops`.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use netcliff_core::drops::{DropRow, Drops, Method};
use netcliff_host::drops::counters::{self, symbols};
use netcliff_host::drops::owners::{Columns, Only, Owners};
use netcliff_host::drops::sources::{self, Look, Subtraction};
use netcliff_host::drops::symbols::Symbols;
use netcliff_host::drops::{Ask, BOUND_PER_S, By, Follower, Reading, Tracer, advice};
use netcliff_report::terminal;
use serde::Serialize;
use serde_json::json;

use crate::args::{DropsArgs, DropsBy, DropsMethod};
use crate::live;
use crate::output;

/// Number of packets per second that the tracer begins to follow.
const FOLLOWED_PER_S: f64 = 100.0;
/// Longest wait for the packets to follow, if no time is given.
const FOLLOWED_TIME: Duration = Duration::from_secs(10);
/// Interval between checks for a signal.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A line of JSON: a time and its content.
#[derive(Serialize)]
struct Line<'a, T> {
    unix_s: f64,
    #[serde(flatten)]
    what: &'a T,
}

/// How this run counts drops: by a tracer, or by the kernel's counters alone.
struct Counting {
    tracer: Option<Traced>,
    /// Why drops are not traced. `None` if they are.
    why: Option<String>,
    counters: Look,
    subtraction: Subtraction,
    since: Instant,
    owners: Owners,
    columns: Columns,
    only: Only,
    /// Network namespaces whose drops are counted. Empty: all.
    spaces: Vec<u64>,
    scope: String,
}

struct Traced {
    tracer: Box<Tracer>,
    ask: Ask,
    symbols: Symbols,
    before: Box<Reading>,
}

/// Shows drops until a signal, the time or the reader ends it.
pub fn run(args: &DropsArgs) -> anyhow::Result<ExitCode> {
    live::start(args.live, false, "drops")?;
    let stop = Arc::<AtomicBool>::default();
    let theirs = Arc::clone(&stop);
    output::begin_measuring()?;
    let end = move || {
        theirs.store(true, Ordering::Relaxed);
        output::end();
    };
    ctrlc::set_handler(end).context("cannot watch for signals")?;
    if let Some(packets) = args.trace {
        return follow(args, packets, &stop);
    }
    let mut counting = start(args)?;
    let clears = std::io::stdout().is_terminal() && !output::is_dumb() && !args.json && !args.live && !args.once;
    let ends = args.time.map(|time| Instant::now() + time);
    let mut next = Instant::now();
    let mut total: Option<Drops> = None;
    let mut intervals = 0;
    loop {
        next += args.interval;
        let stopped = wait(ends.map_or(next, |ends| ends.min(next)), &stop);
        let mut drops = counting.next()?;
        intervals += 1;
        if args.live {
            live::tell("drops", || json!({"drops": drops}));
            if !live::is_read() {
                return Ok(ExitCode::SUCCESS);
            }
        } else if args.json {
            output::json_line(&Line { unix_s: super::now_unix_s(), what: &drops })?;
        } else {
            let before = total.clone();
            match total.as_mut() {
                Some(total) => total.add(&drops),
                None => total = Some(drops.clone()),
            }
            if !clears {
                say_once(&mut drops, before.as_ref());
            }
            let page = terminal::drops(&drops, args.rows as usize, output::terminal_columns(), output::style());
            if clears {
                output::clear()?;
            }
            output::page(&format!("{page}{}", if clears || args.once { "" } else { "\n" }))?;
        }
        if args.once || stopped || ends.is_some_and(|ends| Instant::now() >= ends) {
            break;
        }
    }
    if let Some(mut total) = total.filter(|_| intervals > 1) {
        if !clears {
            // Earlier tables have them.
            total.advice.clear();
            total.limits.clear();
        }
        output::page(&format!(
            "TOTAL\n{}",
            terminal::drops(&total, args.rows as usize, output::terminal_columns(), output::style())
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Removes advice and limits that the previous page contained: of a page each second, people read the figures.
fn say_once(drops: &mut Drops, before: Option<&Drops>) {
    let Some(before) = before else { return };
    drops.advice.retain(|advice| !before.advice.iter().any(|known| known.meaning == advice.meaning));
    drops.limits.retain(|limit| !before.limits.contains(limit));
}

/// Waits until the time `until`. Returns true if a signal ended the wait.
fn wait(until: Instant, stop: &AtomicBool) -> bool {
    while !stop.load(Ordering::Relaxed) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        std::thread::sleep(left.min(POLL_INTERVAL));
    }
    true
}

fn start(args: &DropsArgs) -> anyhow::Result<Counting> {
    let by = |what: DropsBy| args.by.contains(&what);
    let mut owners = Owners::default();
    let (spaces, scope) = match &args.netns {
        Some(name) => (
            vec![owners.spaces.find(name).map_err(|error| output::usage(format!("--netns {error}")))?],
            format!("netns {name}"),
        ),
        None if args.all || owners.spaces.in_host() => (Vec::new(), "all network namespaces".to_owned()),
        None => {
            let own = owners.spaces.own;
            (vec![own], format!("netns {} (--all for the whole host)", owners.spaces.name(own)))
        }
    };
    if let Some(name) = args.device.as_ref().filter(|name| !owners.spaces.have_device(&spaces, name)) {
        return Err(output::usage(format!("--if {name}: no such interface in {scope}; `ip link` lists them")));
    }
    if let Some(pid) = args.pid.filter(|pid| !std::path::Path::new(&format!("/proc/{pid}")).exists()) {
        return Err(output::usage(format!("--pid {pid}: no such process; `pidof NAME` gives its number")));
    }
    let asked = [DropsBy::Netns, DropsBy::Device, DropsBy::Socket, DropsBy::Container].iter().any(|what| by(*what));
    let column = |what| !asked || by(what);
    let columns = Columns {
        netns: column(DropsBy::Netns),
        device: column(DropsBy::Device),
        socket: column(DropsBy::Socket),
        container: column(DropsBy::Container),
    };
    let ask = Ask {
        filter: args.filter.clone(),
        spaces: spaces.clone(),
        by: By {
            flow: by(DropsBy::Flow),
            process: by(DropsBy::Process),
            stack: by(DropsBy::Stack),
            owner: true,
            sender: by(DropsBy::Socket) || by(DropsBy::Container) || args.pid.is_some(),
        },
        bound_per_s: Some(BOUND_PER_S),
        ..Ask::default()
    };
    let details: Vec<&str> = [("flow", ask.by.flow), ("process", ask.by.process), ("stack", ask.by.stack)]
        .into_iter()
        .filter_map(|(name, asked)| asked.then_some(name))
        .collect();
    let needed = args.method == DropsMethod::Ebpf || args.filter.is_some() || !details.is_empty();
    if args.method == DropsMethod::Counters {
        let option = args.filter.as_ref().map(|_| "--filter".to_owned());
        let option = option.or_else(|| details.first().map(|what| format!("--by {what}")));
        if let Some(option) = option {
            return Err(output::usage(format!(
                "{option} with --method counters: counters are of all packets together; leave one out"
            )));
        }
    }
    let (tracer, why) = match args.method {
        DropsMethod::Counters => (None, None),
        _ => match Tracer::start(&ask) {
            Ok(tracer) => {
                // Reading the symbols takes a while, which must not be part of the first interval.
                let symbols = symbols();
                let before = Box::new(tracer.read()?);
                (Some(Traced { tracer: Box::new(tracer), ask, symbols, before }), None)
            }
            Err(error) if needed => {
                let tail = "leave out --filter, --by and --method to see the kernel's counters";
                return Err(anyhow::anyhow!("{error}; {tail}"));
            }
            Err(error) => (None, Some(error.to_string())),
        },
    };
    let only = Only { device: args.device.clone(), process: args.pid };
    let counters = Look::now(&mut owners.spaces, &spaces, None);
    let subtraction = Subtraction::default();
    let since = Instant::now();
    Ok(Counting { tracer, why, counters, subtraction, since, owners, columns, only, spaces, scope })
}

impl Counting {
    /// Returns the drops since the last call.
    fn next(&mut self) -> anyhow::Result<Drops> {
        // Counters first: what they count is then traced.
        let look = Look::now(&mut self.owners.spaces, &self.spaces, Some(&self.counters));
        let mut drops = match &mut self.tracer {
            Some(Traced { tracer, ask, symbols, before }) => {
                let after = tracer.read()?;
                let drops = tracer.drops(ask, before, &after, symbols);
                **before = after;
                drops
            }
            None => Drops {
                seconds: self.since.elapsed().as_secs_f64(),
                sampling_factor: 1.0,
                limits: self.why.clone().into_iter().chain([counters::limits()]).collect(),
                ..Drops::default()
            },
        };
        let counted = self.counters.rows_until(&look, self.tracer.is_some());
        self.since = Instant::now();
        drops.limits.extend(look.limits(self.tracer.is_some()));
        self.counters = look;
        let filtered = drops.filter.is_some();
        let added = match drops.method {
            Method::Counters => counted,
            Method::Ebpf => {
                sources::name_tracking(&counted, &mut drops.rows);
                self.subtraction.unseen(counted, &drops.rows, filtered)
            }
        };
        if filtered {
            drops.not_filtered = added
        } else {
            drops.rows.extend(added)
        }
        let causes = self.owners.explain(&mut drops.rows);
        for rows in [&mut drops.rows, &mut drops.not_filtered, &mut drops.at_close] {
            *rows = self.owners.tell(std::mem::take(rows), self.columns, &self.only);
        }
        drops.scope = Some(self.scope.clone());
        drops.settle();
        let unexplained: Vec<DropRow> = drops.rows.iter().filter(|row| row.cause.is_none()).cloned().collect();
        drops.advice = causes;
        drops.advice.extend(advice(&unexplained));
        drops.advice.extend(advice(&drops.not_filtered));
        Ok(drops)
    }
}

fn follow(args: &DropsArgs, packets: u32, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    let symbols = symbols();
    let mut follower = Follower::start(args.filter.as_ref(), packets, FOLLOWED_PER_S)?;
    let time = args.time.unwrap_or(FOLLOWED_TIME);
    let paths = follower.follow(time, &symbols, || stop.load(Ordering::Relaxed))?;
    let limits = follower.limits();
    if args.live {
        paths.iter().for_each(|path| live::tell("path", || json!({"path": path})));
        limits.iter().for_each(|limit| output::say(format!("netcliff: {limit}")));
    } else if args.json {
        for path in &paths {
            output::json_line(path)?;
        }
        limits.iter().for_each(|limit| output::say(format!("netcliff: {limit}")));
    } else {
        output::page(&terminal::paths(&paths, &limits, output::style()))?;
    }
    Ok(if paths.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
