//! Names: [`Namer`] of the kernel's functions, [`name`] of processes.

use std::collections::HashMap;

use netcliff_core::profile::Stage;
use netcliff_host::drops::symbols::Symbols;
use netcliff_host::serving::Program;

use crate::table::{self, Table};

/// The name of a process; kernel threads that work for everybody have one.
pub(super) fn name(pid: u32, own: u32) -> String {
    let name = match Program::of(pid) {
        _ if pid == 0 => return "idle task".to_owned(),
        _ if pid == own => return "netcliff (this run)".to_owned(),
        Some(program) => program.name,
        None => return "(ended programs)".to_owned(),
    };
    if name.starts_with("kworker/") { "kworker".to_owned() } else { name }
}

/// Names of the kernel's functions by address, each looked up once.
pub(super) struct Namer<'a> {
    pub(super) symbols: &'a Symbols,
    pub(super) known: HashMap<u64, String>,
}

impl Namer<'_> {
    pub(super) fn learn(&mut self, stack: &[u64]) {
        let symbols = self.symbols;
        for address in sites(stack) {
            self.known.entry(address).or_insert_with(|| named(symbols, address));
        }
    }

    pub(super) fn frames(&self, stack: &[u64]) -> Vec<String> {
        let name = |address| self.known.get(&address).cloned().unwrap_or_else(|| named(self.symbols, address));
        sites(stack).map(name).collect()
    }

    /// The function that wants a lock: the innermost that is neither the lock's nor a helper.
    pub(super) fn wants(&self, stack: &[u64], table: &Table) -> String {
        let frames = self.frames(stack);
        let is_lock = |frame: &str| {
            matches!(table.find(frame), Some(table::Kind::Helper | table::Kind::Work(Stage::Locks)))
                || table.traces(frame)
        };
        let wanted = frames.iter().find(|frame| !is_lock(frame) && !frame.starts_with("trace_contention"));
        wanted.or(frames.last()).cloned().unwrap_or_else(|| "(no stack)".to_owned())
    }
}

/// Addresses within the functions of a stack. All but the innermost address are return addresses, after a call that may
/// be the last instruction of its function.
fn sites(stack: &[u64]) -> impl Iterator<Item = u64> {
    stack.iter().enumerate().map(|(at, address)| if at == 0 { *address } else { address - 1 })
}

fn named(symbols: &Symbols, address: u64) -> String {
    symbols.frame(address).unwrap_or_else(|| "(unnamed)".to_owned())
}
