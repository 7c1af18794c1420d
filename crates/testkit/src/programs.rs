//! The programs that tests run, by the list from which `scripts/setup.sh` installs them.

use std::path::Path;

use crate::report;

const LIST: &str = include_str!("../../../scripts/lib/programs.txt");

/// Names of all listed programs.
pub fn listed_programs() -> impl Iterator<Item = &'static str> {
    rows().map(|(program, _)| program)
}

/// True if the program is on PATH. Otherwise reports the test as skipped, with the program and its Debian package, or
/// panics if `NETCLIFF_REQUIRE` has `programs` or `all`.
///
/// # Panics
///
/// If the list does not have the program, because setup would not install it.
pub fn has_program(name: &str) -> bool {
    let (_, package) = rows()
        .find(|(program, _)| *program == name)
        .unwrap_or_else(|| panic!("{name} is not in scripts/lib/programs.txt: add it with its Debian package"));
    let found = on_path(name);
    if !found {
        report::missing("programs", false, &format!("{name} is not installed (Debian package {package})"));
    }
    found
}

fn on_path(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Only PATH is searched, as in netcliff's own calls, although some users' PATH lacks the tools for administrators.
    std::env::split_paths(&path).any(|directory| is_executable(&directory.join(name)))
}

fn is_executable(file: &Path) -> bool {
    file.is_file() && nix::unistd::access(file, nix::unistd::AccessFlags::X_OK).is_ok()
}

fn rows() -> impl Iterator<Item = (&'static str, &'static str)> {
    LIST.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let mut words = line.split_whitespace();
        Some((words.next()?, words.next()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_names_a_program_a_package_and_a_use() {
        for line in LIST.lines().filter(|line| !line.starts_with('#')) {
            let words: Vec<_> = line.split_whitespace().collect();
            assert!(words.len() == 3 && ["build", "test", "bench", "dist"].contains(&words[2]), "{line}");
        }
        assert!(listed_programs().any(|program| program == "ethtool"));
    }

    /// `scripts/setup.sh` installs every program that a test starts by name.
    #[test]
    fn every_program_that_a_test_starts_is_listed() {
        let mut files = Vec::new();
        tests_below(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), &mut files);
        let listed: Vec<_> = listed_programs().collect();
        let mut seen = 0;
        for file in &files {
            let text = std::fs::read_to_string(file).unwrap();
            let started = text.split("Command::new(\"").skip(1).filter_map(|rest| rest.split('"').next());
            for program in started.filter(|program| program.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')) {
                seen += 1;
                let everywhere = ["kill", "sleep", "true", "cat", "mkfifo", "chown"].contains(&program);
                assert!(everywhere || listed.contains(&program), "{}: {program}", file.display());
            }
        }
        assert!(seen > 20, "{seen} in {} files", files.len());
    }

    fn tests_below(dir: &Path, found: &mut Vec<std::path::PathBuf>) {
        for entry in std::fs::read_dir(dir).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                tests_below(&path, found);
            } else if path.extension().is_some_and(|ending| ending == "rs") && path.to_string_lossy().contains("tests")
            {
                found.push(path);
            }
        }
    }

    #[test]
    #[should_panic(expected = "not in scripts/lib/programs.txt")]
    fn a_program_that_setup_does_not_install_is_a_fault_of_the_test() {
        has_program("no-such-program");
    }
}
