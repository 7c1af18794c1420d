//! `--claims`: the table of what documents claim and what was found here, for one experiment or several.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::Context;
use netcliff_core::experiment::{Experiment, Mark};
use netcliff_host::{files, process};
use netcliff_lab::inputs;
use netcliff_report as report;
use netcliff_report::drawing::Drawing;

use crate::args::RunArgs;
use crate::commands::{now_unix_s, write};
use crate::{habits, output};

/// Largest page of claims (bytes).
const LARGEST_PAGE_BYTES: u64 = 16 << 20;

/// Refuses `--claims FILE` if FILE exists and is no text, before anything is run.
pub fn refuse_unreadable(args: &RunArgs) -> anyhow::Result<()> {
    let Some(path) = &args.claims else { return Ok(()) };
    read(path).map(drop).map_err(|error| output::usage(format!("--claims {error:#}")))
}

/// Writes the section of an experiment into the page at `path`, replacing its earlier section.
pub fn keep(path: &Path, file: &Path, drawing: &Drawing) -> anyhow::Result<()> {
    if drawing.marks.is_empty() {
        output::say(format!("netcliff: {} has no [[mark]]: it has no row in {}", file.display(), path.display()));
        return Ok(());
    }
    let name = inputs::experiment_name(file).unwrap_or_default();
    put(path, &name, &report::claims::section(&name, drawing, &today()))
}

fn put(path: &Path, name: &str, section: &[String]) -> anyhow::Result<()> {
    write(path, &report::claims::merged(&read(path)?, name, section))
}

/// The page's text; empty if the file does not exist.
fn read(path: &Path) -> anyhow::Result<String> {
    match files::text(path, LARGEST_PAGE_BYTES) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        read => read.with_context(|| format!("{}: cannot be read", path.display())),
    }
}

fn today() -> String {
    report::format::date_utc(now_unix_s()).chars().take(10).collect()
}

/// Runs each file in its own process, one after the other, so that process-wide changes (namespaces, threads) do not
/// affect the next one. If one fails, the table contains the reason.
pub fn several(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let Some(path) = &args.claims else {
        let words: Vec<OsString> = std::env::args_os().collect();
        let behind_csv = habits::after_csv(&words).map(|word| word.to_string_lossy());
        if let Some(file) = behind_csv.filter(|file| inputs::experiment(file).is_err() && !file.starts_with('-')) {
            return Err(output::usage(format!("{file} is taken for an experiment: {}", habits::csv_to(&file))));
        }
        return Err(output::usage(format!(
            "{} files: several are run for the table of claims alone; add --claims FILE, or give one file",
            args.files.len()
        )));
    };
    refuse_unreadable(args)?;
    // All are read before the first is run.
    let mut marks: Vec<Vec<Mark>> = Vec::new();
    for file in &args.files {
        let name = file.display().to_string();
        let text = inputs::experiment(&name).map_err(output::usage)?;
        let experiment = Experiment::from_toml(&name, &text).map_err(output::usage)?;
        marks.push(experiment.marks().map_err(output::usage)?);
    }
    let program = std::env::current_exe().context("this program's file")?;
    let is_file = |arg: &OsString| args.files.iter().any(|file| file.as_os_str() == arg);
    let options: Vec<OsString> = std::env::args_os().skip(1).filter(|arg| !is_file(arg)).collect();
    let mut failed = 0;
    for (file, marks) in args.files.iter().zip(&marks) {
        output::say(format!("netcliff: {}", file.display()));
        let before = read(path)?;
        let why = match child(Command::new(&program).args(&options).arg(file))? {
            None => continue,
            Some(why) => why,
        };
        failed += 1;
        // A run that was stopped early has written its results so far.
        if read(path)? == before {
            let name = inputs::experiment_name(file).unwrap_or_default();
            put(path, &name, &report::claims::not_run(&name, marks, &why, &today()))?;
        }
    }
    output::say(format!(
        "netcliff: the claims are in {}; {failed} of {} runs failed",
        path.display(),
        args.files.len()
    ));
    Ok(ExitCode::from(u8::from(failed > 0)))
}

/// Runs the command. `None` if it succeeded, otherwise the last line that it printed.
fn child(command: &mut Command) -> anyhow::Result<Option<String>> {
    // The child process ends when this process ends, as by Ctrl-C, and restores what it changed.
    process::end_with_this(command);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().context("start netcliff run")?;
    let mut last = String::new();
    for line in child.stderr.take().map(BufReader::new).into_iter().flat_map(BufRead::lines) {
        let Ok(line) = line else { break };
        output::say(line.clone());
        if !line.trim().is_empty() {
            last = line;
        }
    }
    let status = child.wait().context("wait for netcliff run")?;
    let said = last.trim().trim_start_matches("netcliff: ").to_owned();
    Ok((!status.success()).then_some(said))
}
