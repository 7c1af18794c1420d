//! `netcliff serve`: serves the explorer, a page that predicts and simulates in the browser, and the runs of the store.

mod connections;
mod guard;
mod live;
mod pages;
mod work;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use netcliff_remote::control::agent::give_back_to_the_kernel;
use netcliff_remote::control::key::Key;

use super::{stop_on_signal, store_path, write_temporary};
use crate::args::{ServeArgs, StoreArgs};
use crate::output;

/// Time after which the kernel drops a connection whose reader takes no data (ms).
const SLOWEST_READER_MS: u32 = 10_000;
/// Time allowed for open connections to end after the server ended.
const LEAVING: Duration = Duration::from_secs(1);
/// Interval between checks of the flag that a signal sets.
const STOP_INTERVAL: Duration = Duration::from_millis(50);

/// State that every answer needs.
struct Served {
    store: PathBuf,
    key: Option<Key>,
    live: live::Live,
    work: work::Work,
}

/// Serves until a signal.
pub fn run(args: &ServeArgs, store: &StoreArgs) -> anyhow::Result<ExitCode> {
    let key = args.key.as_deref().map(Key::read).transpose().map_err(output::usage)?;
    if key.is_none() && !args.listen.ip().is_loopback() {
        return Err(output::usage(format!(
            "--listen {}: other hosts reach this address: give --key FILE (`netcliff agent --make-key FILE` makes one), or listen on \
             127.0.0.1",
            args.listen
        )));
    }
    let served =
        Arc::new(Served { store: store_path(store)?, key, live: live::Live::default(), work: work::Work::default() });
    give_back_to_the_kernel();
    let stop = stop_on_signal()?;
    // Two threads, so that a slow query of the store does not delay the streams of other readers.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    runtime.block_on(serve(args, served, stop))?;
    // Ends the reader of the kernel's counters, too.
    runtime.shutdown_timeout(LEAVING);
    Ok(ExitCode::SUCCESS)
}

async fn serve(args: &ServeArgs, served: Arc<Served>, stop: Arc<AtomicBool>) -> anyhow::Result<()> {
    let listener = tokio::net::TcpListener::bind(args.listen).await.map_err(|error| {
        output::usage(format!("--listen {}: {error}; choose another port, or 0 for a free one", args.listen))
    })?;
    let address = listener.local_addr().context("cannot tell the port")?;
    let place = address_of(address, served.key.as_ref());
    output::say(format!("netcliff: the explorer is at {place} (Ctrl-C ends it)"));
    let _redirect = if args.open { open(&place, served.key.is_some()) } else { None };
    let app = router(&served);
    connections::serve(listener, served, app, SLOWEST_READER_MS, stop).await.context("the server ended")
}

fn router(served: &Arc<Served>) -> Router {
    let inner = Router::new()
        .route("/", get(pages::index))
        .route("/index.html", get(pages::index))
        .route("/app.js", get(pages::script))
        .route("/app.css", get(pages::style))
        .route("/wasm.js", get(pages::engine))
        .route("/api/runs", get(pages::runs))
        .route("/api/opening", get(pages::opening))
        .route("/api/run/{id}", get(pages::result))
        .route("/api/plan", get(pages::plan))
        .route("/api/watch", get(live::stream))
        .route("/run/{id}", get(pages::run))
        .route("/compare", get(pages::compare))
        .with_state(Arc::clone(served));
    let app = match &served.key {
        // The token is the first part of every path, so that the page's relative addresses have it.
        Some(_) => Router::new().nest("/{token}/", inner),
        None => inner,
    };
    app.fallback(guard::nothing).layer(from_fn_with_state(Arc::clone(served), guard::guard))
}

fn address_of(address: SocketAddr, key: Option<&Key>) -> String {
    match key {
        Some(key) => format!("http://{address}/{}/", key.page_token()),
        None => format!("http://{address}/"),
    }
}

/// A file that leads the browser to the page's address, removed on drop.
struct Redirect(PathBuf);

impl Redirect {
    /// Writes a file, readable by this user only, that leads a browser to `place`.
    fn to(place: &str) -> std::io::Result<Self> {
        let page = format!(
            "<!doctype html><meta charset=\"utf-8\"><meta name=\"referrer\" content=\"no-referrer\">\
             <meta http-equiv=\"refresh\" content=\"0;url={place}\"><title>netcliff</title><a href=\"{place}\">netcliff</a>\n"
        );
        write_temporary("netcliff-open", "html", &page).map(Self)
    }
}

impl Drop for Redirect {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Opens the page in the user's browser. Without a browser, the user has the printed address.
///
/// Every user of the host can read command lines. Therefore an address with a token is passed in a file.
fn open(place: &str, is_secret: bool) -> Option<Redirect> {
    let redirect = if is_secret { Some(Redirect::to(place)) } else { None };
    let redirect = match redirect.transpose() {
        Ok(redirect) => redirect,
        Err(error) => {
            output::say(format!(
                "netcliff: --open: a file in {} that leads to the address: {error}; open the address yourself",
                std::env::temp_dir().display()
            ));
            return None;
        }
    };
    let shown = redirect.as_ref().map_or_else(|| place.into(), |redirect| redirect.0.clone().into_os_string());
    let started =
        Command::new("xdg-open").arg(shown).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    match started {
        // Wait for the browser in a separate thread, because it may stay open.
        Ok(mut browser) => drop(std::thread::spawn(move || browser.wait())),
        Err(error) => output::say(format!("netcliff: --open: xdg-open: {error}; open the address yourself")),
    }
    redirect
}
