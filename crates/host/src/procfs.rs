//! Reads small files of procfs and sysfs, and their tables. A file that is absent or unreadable gives `None`: the
//! kernel does not offer the value, or not to this process.

use crate::files;
use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};

/// The file's text without surrounding white space; `None` if it cannot be read or is empty.
pub(crate) fn text(path: impl AsRef<Path>) -> Option<String> {
    let text = lossy(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// Text of a file of at most a kilobyte, by one read; `None` if it cannot be read.
pub(crate) fn small(path: impl AsRef<Path>) -> Option<String> {
    let mut bytes = [0; 1024];
    let length = File::open(path).ok()?.read(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(bytes.get(..length)?).into_owned())
}

/// The file's text parsed as `T`; `None` if it cannot be read or parsed.
pub(crate) fn number<T: std::str::FromStr>(path: impl AsRef<Path>) -> Option<T> {
    text(path)?.parse().ok()
}

/// The file's text unchanged; empty if it cannot be read.
pub(crate) fn whole(path: impl AsRef<Path>) -> String {
    lossy(path).unwrap_or_default()
}

/// The file's text unchanged, or the reason why it cannot be read. Bytes that are not UTF-8 become U+FFFD: names of
/// interfaces and programs are bytes, and one of them must not hide the rest of a table.
pub(crate) fn lossy(path: impl AsRef<Path>) -> io::Result<String> {
    let bytes = files::bytes(path.as_ref(), files::MOST_BYTES)?;
    Ok(String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// The sysfs directory of an interface. Its name may be one that [`lossy`] changed.
pub(crate) fn interface(class_net: &Path, name: &str) -> PathBuf {
    let entries = || fs::read_dir(class_net).into_iter().flatten().flatten();
    let changed = name.contains(char::REPLACEMENT_CHARACTER);
    let entry = changed.then(|| entries().find(|entry| entry.file_name().to_string_lossy() == name)).flatten();
    entry.map_or_else(|| class_net.join(name), |entry| entry.path())
}

/// The names in a directory, sorted; empty if it cannot be read.
pub(crate) fn names(path: impl AsRef<Path>) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(path)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

/// Entries of a directory named `prefix` plus a number, in order of the numbers: `rx-2` before `rx-10`.
pub(crate) fn numbered(path: impl AsRef<Path>, prefix: &str) -> Vec<(u32, PathBuf)> {
    let path = path.as_ref();
    let mut entries: Vec<(u32, PathBuf)> = names(path)
        .iter()
        .filter_map(|name| Some((name.strip_prefix(prefix)?.parse().ok()?, path.join(name))))
        .collect();
    entries.sort();
    entries
}

/// Parses the kernel's CPU list form, for example `0-3,8,10-11`; `None` if it is malformed.
pub(crate) fn cpu_list(list: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for part in list.trim().split(',').filter(|part| !part.is_empty()) {
        match part.split_once('-') {
            Some((first, last)) => {
                let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
                // The kernel supports at most 8192 CPUs (CONFIG_NR_CPUS on x86), so a number above 65,535 is not a CPU.
                if last < first || last > 65_535 {
                    return None;
                }
                cpus.extend(first..=last);
            }
            None => cpus.push(part.parse().ok()?),
        }
    }
    Some(cpus)
}

/// Formats a set of CPUs as the kernel's hexadecimal mask (`00000003`, `000000ff,00000000`).
pub(crate) fn cpu_mask(cpus: &[u32]) -> String {
    let words = cpus.iter().max().map_or(1, |max| *max as usize / 32 + 1);
    let mut mask = vec![0u32; words];
    for cpu in cpus {
        mask[*cpu as usize / 32] |= 1 << (cpu % 32);
    }
    let words: Vec<String> = mask.iter().rev().map(|word| format!("{word:08x}")).collect();
    words.join(",")
}

/// Parses the kernel's hexadecimal CPU mask form; `None` if it is malformed.
pub(crate) fn cpus_of_mask(mask: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for (place, word) in mask.trim().rsplit(',').enumerate() {
        let word = u32::from_str_radix(word, 16).ok()?;
        let first = u32::try_from(place).ok()? * 32;
        cpus.extend((0..32).filter(|bit| word & (1 << bit) != 0).map(|bit| first + bit));
    }
    Some(cpus)
}

/// Numbers of CPUs as the kernel lists them.
pub(crate) use netcliff_core::units::print_cpus as list_of_cpus;

/// Counters of /proc/net/stat/nf_conntrack: a line of names, then a line of hexadecimal numbers per CPU. Returns each
/// name once per CPU.
pub(crate) fn by_cpu(text: &str) -> impl Iterator<Item = (&str, u64)> {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap_or_default().split_whitespace().collect();
    lines.flat_map(move |line| {
        let values = line.split_whitespace().map(|value| u64::from_str_radix(value, 16).unwrap_or(0));
        names.clone().into_iter().zip(values)
    })
}

/// A value of a table with a line of names and a line of values per row, such as `Udp:` in the texts of /proc/net/snmp
/// and /proc/net/netstat; `None` if row or column is missing.
pub fn titled(table: &str, row: &str, column: &str) -> Option<u64> {
    let mut lines = table.lines().filter(|line| line.starts_with(row));
    let (names, values) = (lines.next()?, lines.next()?);
    let place = names.split_ascii_whitespace().position(|name| name == column)?;
    values.split_ascii_whitespace().nth(place)?.parse().ok()
}

/// A value of a table with lines `NAME VALUE`, such as the text of /proc/net/snmp6; `None` if the name is missing.
pub fn valued(table: &str, name: &str) -> Option<u64> {
    let mut lines = table.lines().map(str::split_ascii_whitespace);
    lines.find_map(|mut words| words.next().filter(|word| *word == name).and(words.next()))?.parse().ok()
}

/// Writes a file of a fake procfs or sysfs tree for a test.
#[cfg(test)]
pub(crate) fn lay(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().expect("below the root")).expect("room");
    fs::write(path, text).expect("room");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists() {
        assert_eq!(cpu_list("0-1"), Some(vec![0, 1]));
        assert_eq!(cpu_list("0,2-4,9\n"), Some(vec![0, 2, 3, 4, 9]));
        assert_eq!(cpu_list(""), Some(vec![]));
        assert_eq!(cpu_list("3-1"), None);
        assert_eq!(cpu_list("a"), None);
        assert_eq!(cpu_list("0-4000000000"), None);
    }

    #[test]
    fn cpu_masks() {
        assert_eq!(cpu_mask(&[]), "00000000");
        assert_eq!(cpu_mask(&[0, 1]), "00000003");
        assert_eq!(cpu_mask(&[33]), "00000002,00000000");
        for cpus in [vec![], vec![0, 1], vec![3, 31, 32, 64]] {
            assert_eq!(cpus_of_mask(&cpu_mask(&cpus)), Some(cpus));
        }
        assert_eq!(cpus_of_mask("x"), None);
    }

    #[test]
    fn lists_come_back() {
        for list in ["", "0", "0-3,8", "1,3,5-6"] {
            assert_eq!(list_of_cpus(&cpu_list(list).unwrap()), list);
        }
    }
}
