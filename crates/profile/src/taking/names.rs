//! Names of the kernel's functions ([`Namer`]) and of processes ([`name`]).

use std::collections::HashMap;

use netcliff_core::profile::Stage;
use netcliff_host::drops::symbols::Symbols;
use netcliff_host::serving::Program;

use crate::table::{self, Table};

/// Returns the name of a process. All kworker threads have the same name, because they work for all programs.
pub(super) fn name(pid: u32, own: u32) -> String {
    let name = match Program::of(pid) {
        _ if pid == 0 => return "idle task".to_owned(),
        _ if pid == own => return "netcliff (this run)".to_owned(),
        Some(program) => program.name,
        None => return "(ended programs)".to_owned(),
    };
    if name.starts_with("kworker/") { "kworker".to_owned() } else { name }
}

/// Names of the kernel's functions by address; each address is looked up once.
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

    /// Returns the function that wants a lock: the innermost one that is neither a lock function nor a helper.
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

/// Addresses within the functions of a stack. All addresses except the innermost are return addresses, i.e. follow a
/// call. The call may be the last instruction of its function, so 1 is subtracted.
fn sites(stack: &[u64]) -> impl Iterator<Item = u64> {
    stack.iter().enumerate().map(|(at, address)| if at == 0 { *address } else { address - 1 })
}

fn named(symbols: &Symbols, address: u64) -> String {
    symbols.frame(address).unwrap_or_else(|| "(unnamed)".to_owned())
}
