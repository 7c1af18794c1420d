//! Names of addresses in the kernel's code, from /proc/kallsyms.

use std::path::Path;
use std::{fs, io};

/// The kernel's functions by address.
#[derive(Debug, Clone, Default)]
pub struct Symbols {
    /// Ascending.
    functions: Vec<(u64, Box<str>)>,
}

impl Symbols {
    /// Of the running kernel. Empty where it hides addresses (`kernel.kptr_restrict`, or no right): see [`Symbols::limit`].
    ///
    /// # Errors
    /// There is no /proc/kallsyms.
    pub fn read() -> io::Result<Symbols> {
        Symbols::from_file(Path::new("/proc/kallsyms"))
    }

    /// # Errors
    /// The file cannot be read.
    fn from_file(path: &Path) -> io::Result<Symbols> {
        // Larger than any file of procfs that is bounded elsewhere: 10 MB with debug symbols of all modules.
        Ok(Symbols::parse(&fs::read_to_string(path)?))
    }

    /// `ffffffff81a00000 T ip_rcv<TAB>[module]`, a line each; only code counts.
    pub(super) fn parse(text: &str) -> Symbols {
        let line = |line: &str| {
            let mut words = line.split_ascii_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok().filter(|address| *address != 0)?;
            let kind = words.next()?;
            matches!(kind, "t" | "T" | "w" | "W").then(|| Some((address, words.next()?.into())))?
        };
        let mut functions: Vec<(u64, Box<str>)> = text.lines().filter_map(line).collect();
        functions.sort_by_key(|(address, _)| *address);
        Symbols { functions }
    }

    /// The function at an address, and how far into it: `ip_rcv_core+0x1a2`; the address where it is in none that is known.
    pub fn at(&self, address: u64) -> String {
        match self.find(address) {
            Some((start, name)) => format!("{name}+{:#x}", address - start),
            None => format!("{address:#x}"),
        }
    }

    /// The function alone.
    pub fn function(&self, address: u64) -> Option<&str> {
        self.find(address).map(|(_, name)| name)
    }

    fn find(&self, address: u64) -> Option<(u64, &str)> {
        /// No function is longer: behind the last of a module there may be nothing for long.
        const LONGEST: u64 = 1 << 20;
        let next = self.functions.partition_point(|(start, _)| *start <= address);
        let (start, name) = self.functions.get(next.checked_sub(1)?)?;
        (address - start < LONGEST).then_some((*start, name))
    }

    /// Why places are numbers, if they are.
    pub fn limit(&self) -> Option<String> {
        self.functions.is_empty().then(|| {
            "the kernel hides the addresses of its functions, so that places are numbers: run as root or with CAP_SYSLOG, and with \
             kernel.kptr_restrict of at most 1"
                .to_owned()
        })
    }
}
