//! `--metrics` of `watch` and `agent`, and `watch --metrics-file`.

use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use netcliff_care::monitor::{Calibration, Monitor};
use netcliff_core::metrics::AgentCounters;
use netcliff_host::inspect::Inspection;
use netcliff_remote::scrape::{Format, Scrapes, Source};
use netcliff_report::metrics::{MetricsSource, metrics};

use super::{now_unix_s, stop_on_signal, store_path};
use crate::args::{StoreArgs, WatchArgs};
use crate::output;

/// Interval between checks whether to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The counters of an agent while it serves.
pub type Counts = Arc<Mutex<AgentCounters>>;

/// A monitor of this host, with the cliff of the store that the options name.
fn monitor(interfaces: &[String], named: Option<&str>, store: &StoreArgs) -> anyhow::Result<Monitor> {
    let host = Inspection::of_this_host(Duration::ZERO).context("cannot ask the kernel for its interfaces")?;
    // A name that does not exist is refused before anything is served.
    super::headroom::ports(interfaces, &host)?;
    let calibration = Calibration { named: named.map(str::to_owned), store: store_path(store).ok() };
    // A host that the user named must exist. Without a named host, metrics may lack the cliff.
    let found = calibration.read();
    match (&found, named) {
        (Err(why), Some(_)) => return Err(output::usage(why)),
        (Err(why), None) => output::say(format!("netcliff: metrics without the distance to the cliff: {why}")),
        (Ok(found), _) => {
            let why = found.why.as_ref().map_or(String::new(), |why| format!(" ({why})"));
            output::say(format!("netcliff: against the cliff of {}{why}", found.name));
            super::caution(found, true).into_iter().for_each(|caution| output::say(format!("netcliff: {caution}")));
        }
    }
    let monitor = Monitor::new(host, interfaces.to_vec(), calibration, found.ok())?;
    Ok(monitor)
}

fn text(monitor: &Monitor, agent: Option<&Counts>, format: Format) -> Result<String, String> {
    let read = monitor.read(now_unix_s()).map_err(|error| error.to_string())?;
    let agent = agent.map(|counts| counts.lock().unwrap_or_else(PoisonError::into_inner).clone());
    let source = MetricsSource {
        version: env!("CARGO_PKG_VERSION"),
        counters: &read.counters,
        moment: read.moment.as_ref(),
        headroom: read.headroom.as_ref(),
        agent: agent.as_ref(),
    };
    Ok(metrics(source, format == Format::OpenMetrics))
}

/// Opens a port that answers requests with this host's metrics.
pub fn scrapes(
    address: SocketAddr,
    interfaces: &[String],
    host: Option<&str>,
    store: &StoreArgs,
    agent: Option<Counts>,
) -> anyhow::Result<Scrapes> {
    let monitor = monitor(interfaces, host, store)?;
    let source: Source = Arc::new(move |format| text(&monitor, agent.as_ref(), format));
    let scrapes =
        Scrapes::bind(address, source).map_err(|error| output::usage(format!("--metrics {address}: {error}")))?;
    output::say(format!("netcliff: metrics at http://{}/metrics", scrapes.address()?));
    Ok(scrapes)
}

/// Answers requests for metrics until a signal.
pub fn serve(address: SocketAddr, args: &WatchArgs, store: &StoreArgs) -> anyhow::Result<ExitCode> {
    let scrapes = scrapes(address, &args.interfaces, args.host.as_deref(), store, None)?;
    scrapes.run(&*stop_on_signal()?);
    Ok(ExitCode::SUCCESS)
}

/// Writes the file at each interval until a signal, or once.
pub fn write_file(path: &Path, args: &WatchArgs, store: &StoreArgs) -> anyhow::Result<ExitCode> {
    super::refuse_unwritable(Some(path))?;
    let monitor = monitor(&args.interfaces, args.host.as_deref(), store)?;
    let stop = stop_on_signal()?;
    // Shares are computed over at least a second.
    let interval = args.interval.max(Duration::from_secs(1));
    loop {
        let next = Instant::now() + interval;
        while Instant::now() < next {
            if stop.load(Ordering::Relaxed) {
                return Ok(ExitCode::SUCCESS);
            }
            std::thread::sleep(POLL_INTERVAL.min(next.saturating_duration_since(Instant::now())));
        }
        let text = text(&monitor, None, Format::Prometheus).map_err(anyhow::Error::msg)?;
        // A collector, which may be another user, never reads half a file.
        super::write(path, &text)?;
        if args.once {
            return Ok(ExitCode::SUCCESS);
        }
    }
}
