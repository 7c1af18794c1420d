//! Names of kernel code addresses, from /proc/kallsyms.

use std::path::Path;
use std::{fs, io};

/// The kernel's functions by address.
#[derive(Debug, Clone, Default)]
pub struct Symbols {
    /// (address, name), ascending.
    functions: Vec<(u64, Box<str>)>,
    /// (address, module) of functions in modules, ascending.
    modules: Vec<(u64, Box<str>)>,
}

impl Symbols {
    /// Symbols of the running kernel. Empty if it hides addresses (`kernel.kptr_restrict`, or missing permission): see
    /// [`Symbols::limit`].
    ///
    /// # Errors
    /// There is no /proc/kallsyms.
    pub fn read() -> io::Result<Symbols> {
        Symbols::from_file(Path::new("/proc/kallsyms"))
    }

    /// # Errors
    /// The file cannot be read.
    fn from_file(path: &Path) -> io::Result<Symbols> {
        // Larger than other files of procfs: 10 MB with debug symbols of all modules.
        Ok(Symbols::parse(&fs::read_to_string(path)?))
    }

    /// Parses lines `ffffffff81a00000 T ip_rcv<TAB>[module]`; only code counts.
    pub(super) fn parse(text: &str) -> Symbols {
        let line = |line: &str| {
            let mut words = line.split_ascii_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok().filter(|address| *address != 0)?;
            let kind = words.next()?;
            matches!(kind, "t" | "T" | "w" | "W").then(|| Some((address, words.next()?.into())))?
        };
        let mut functions: Vec<(u64, Box<str>)> = text.lines().filter_map(line).collect();
        functions.sort_by_key(|(address, _)| *address);
        let module = |line: &str| {
            let mut words = line.split_ascii_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            Some((address, words.nth(2)?.trim_matches(['[', ']']).into()))
        };
        let mut modules: Vec<(u64, Box<str>)> = text.lines().filter_map(module).collect();
        modules.sort_by_key(|(address, _)| *address);
        Symbols { functions, modules }
    }

    /// Adds the functions of another reading: programs and modules may come and go.
    #[must_use]
    pub fn and(mut self, other: Symbols) -> Symbols {
        for (own, others) in [(&mut self.functions, other.functions), (&mut self.modules, other.modules)] {
            own.extend(others);
            own.sort();
            own.dedup();
        }
        self
    }

    /// The function at an address without offset, with its module if it is in one: `veth_poll [veth]`.
    pub fn frame(&self, address: u64) -> Option<String> {
        let (start, name) = self.find(address)?;
        let module = self.modules.binary_search_by_key(&start, |(address, _)| *address);
        Some(match module.ok().map(|at| &self.modules[at].1) {
            Some(module) => format!("{name} [{module}]"),
            None => name.to_owned(),
        })
    }

    /// Number of these names that are kernel functions.
    pub fn have(&self, names: impl IntoIterator<Item = &'static str>) -> usize {
        let own: std::collections::HashSet<&str> = self.functions.iter().map(|(_, name)| &**name).collect();
        names.into_iter().filter(|name| own.contains(name)).count()
    }

    /// The function at an address and the offset in it: `ip_rcv_core+0x1a2`; the address itself if its function is
    /// unknown.
    pub fn at(&self, address: u64) -> String {
        match self.find(address) {
            Some((start, name)) => format!("{name}+{:#x}", address - start),
            None => format!("{address:#x}"),
        }
    }

    /// The function at an address without offset.
    pub fn function(&self, address: u64) -> Option<&str> {
        self.find(address).map(|(_, name)| name)
    }

    fn find(&self, address: u64) -> Option<(u64, &str)> {
        /// Longest function (bytes): after the last function of a module there may be a long gap.
        const LONGEST: u64 = 1 << 20;
        let next = self.functions.partition_point(|(start, _)| *start <= address);
        let (start, name) = self.functions.get(next.checked_sub(1)?)?;
        (address - start < LONGEST).then_some((*start, name))
    }

    /// Sentence on why places are shown as addresses; `None` if they have names.
    pub fn limit(&self) -> Option<String> {
        self.functions.is_empty().then(|| {
            "the kernel hides the addresses of its functions, so that places are numbers: run as root or with CAP_SYSLOG, and with \
             kernel.kptr_restrict of at most 1"
                .to_owned()
        })
    }
}
