//! What each command does with its arguments.

pub mod compute;
pub mod find;
pub mod results;
pub mod shell;

use std::path::PathBuf;

use netcliff_lab::store::{self, Store};

use crate::args::StoreArgs;

/// Opens the store that was asked for.
pub fn open_store(args: &StoreArgs) -> anyhow::Result<Store> {
    let path = args.db.clone().unwrap_or_else(|| store::default_path(|name| std::env::var(name).ok()));
    Ok(Store::open(&path)?)
}

/// The directory that holds the default store.
pub fn data_dir() -> PathBuf {
    let mut path = store::default_path(|name| std::env::var(name).ok());
    path.pop();
    path
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
