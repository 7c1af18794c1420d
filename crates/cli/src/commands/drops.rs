//! `netcliff drops`.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use netcliff_core::drops::Drops;
use netcliff_host::drops::counters::{Counters, symbols};
use netcliff_host::drops::symbols::Symbols;
use netcliff_host::drops::{Ask, BOUND_PER_S, By, Follower, Reading, Tracer};
use netcliff_report::terminal;
use serde::Serialize;
use serde_json::json;

use crate::args::{DropsArgs, DropsBy, DropsMethod};
use crate::live;
use crate::output;

/// Packets that begin to be followed a second.
const FOLLOWED_PER_S: f64 = 100.0;
/// How long packets are waited for.
const FOLLOWED_TIME: Duration = Duration::from_secs(10);
/// Interval between checks for a signal.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// What a line of JSON holds.
#[derive(Serialize)]
struct Line<'a, T> {
    unix_s: f64,
    #[serde(flatten)]
    what: &'a T,
}

/// How this run counts.
enum Counting {
    Traced { tracer: Box<Tracer>, ask: Ask, symbols: Symbols, before: Box<Reading> },
    Counted { before: Counters, why: Option<String> },
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
    let clears = std::io::stdout().is_terminal() && !args.json && !args.live && !args.once;
    let ends = args.time.map(|time| Instant::now() + time);
    let mut next = Instant::now();
    loop {
        next += args.interval;
        let stopped = wait(ends.map_or(next, |ends| ends.min(next)), &stop);
        let drops = counting.next()?;
        if args.live {
            live::tell("drops", || json!({"drops": drops}));
            if !live::is_read() {
                return Ok(ExitCode::SUCCESS);
            }
        } else if args.json {
            output::json_line(&Line { unix_s: super::now_unix_s(), what: &drops })?;
        } else {
            let page = terminal::drops(&drops, args.rows as usize, output::style());
            if clears {
                output::clear()?;
            }
            output::page(&format!("{page}{}", if clears || args.once { "" } else { "\n" }))?;
        }
        if args.once || stopped || ends.is_some_and(|ends| Instant::now() >= ends) {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// True if a signal ended it.
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
    let ask = Ask {
        filter: args.filter.clone(),
        by: By { flow: by(DropsBy::Flow), process: by(DropsBy::Process), stack: by(DropsBy::Stack) },
        bound_per_s: Some(BOUND_PER_S),
        ..Ask::default()
    };
    let needed = args.method == DropsMethod::Ebpf || args.filter.is_some() || !args.by.is_empty();
    if args.method == DropsMethod::Counters {
        let option = args.filter.as_ref().map(|_| "--filter").or((!args.by.is_empty()).then_some("--by"));
        if let Some(option) = option {
            return Err(output::usage(format!(
                "{option} with --method counters: counters are of all packets together; leave one out"
            )));
        }
        return Ok(Counting::Counted { before: Counters::now(), why: None });
    }
    match Tracer::start(&ask) {
        Ok(tracer) => {
            // It takes a while, which is no part of the first interval.
            let symbols = symbols();
            let before = Box::new(tracer.read()?);
            Ok(Counting::Traced { tracer: Box::new(tracer), ask, symbols, before })
        }
        Err(error) if needed => {
            let tail = "leave out --filter, --by and --method to see the kernel's counters";
            Err(anyhow::anyhow!("{error}; {tail}"))
        }
        Err(error) => Ok(Counting::Counted { before: Counters::now(), why: Some(error.to_string()) }),
    }
}

impl Counting {
    /// What was dropped since the last call.
    fn next(&mut self) -> anyhow::Result<Drops> {
        match self {
            Counting::Traced { tracer, ask, symbols, before } => {
                let after = tracer.read()?;
                let drops = tracer.drops(ask, before, &after, symbols);
                **before = after;
                Ok(drops)
            }
            Counting::Counted { before, why } => {
                let after = Counters::now();
                let drops = before.drops(&after, why.as_deref());
                *before = after;
                Ok(drops)
            }
        }
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
