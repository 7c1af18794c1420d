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
