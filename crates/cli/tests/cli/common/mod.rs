//! Shared by the tests of the binary: a separate home directory for each test, and the checks of every failure.

pub mod bed;
pub mod orders;
pub mod running;

use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

/// A place for everything that netcliff writes, so that nothing of the user's is touched.
pub struct Home {
    dir: TempDir,
}

impl Home {
    /// Makes an empty home directory.
    pub fn new() -> Self {
        Self { dir: TempDir::new().expect("a temporary directory") }
    }

    /// A path inside, which need not exist.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A path inside, as text.
    pub fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// Writes a file. Returns its path.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        std::fs::write(self.path(name), content).expect("the temporary directory can be written");
        self.text(name)
    }

    /// The directory of journal and lock.
    pub fn state(&self) -> PathBuf {
        self.path("state")
    }

    /// The store that is used without `--db`.
    pub fn default_db(&self) -> PathBuf {
        self.path("data/netcliff/records.db")
    }

    /// A command of the binary, with all its directories inside this home.
    pub fn command<A: AsRef<std::ffi::OsStr>>(&self, args: impl IntoIterator<Item = A>) -> std::process::Command {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_netcliff"));
        command.args(args).current_dir(self.dir.path());
        for (name, place) in [
            ("HOME", "home"),
            ("XDG_DATA_HOME", "data"),
            ("XDG_STATE_HOME", "xdg-state"),
            ("NETCLIFF_STATE_DIR", "state"),
        ] {
            command.env(name, self.path(place));
        }
        command.env("TMPDIR", self.dir.path()).env("LC_ALL", "C.UTF-8").env("COLUMNS", "100");
        command.env_remove("NETCLIFF_LOG").env_remove("NO_COLOR").env_remove("RUST_BACKTRACE");
        command
    }

    /// The binary for assertions; it must end within a minute.
    pub fn netcliff<A: AsRef<std::ffi::OsStr>>(&self, args: impl IntoIterator<Item = A>) -> assert_cmd::Command {
        let mut command = assert_cmd::Command::from_std(self.command(args));
        command.timeout(std::time::Duration::from_secs(60));
        command
    }

    /// Writes an experiment of two points of the model. Returns its path.
    pub fn experiment(&self) -> String {
        self.file(
            "points.toml",
            "title = \"One\"\nengines = [\"model\"]\nschemes = [\"interrupt\"]\n[host]\npreset = \"pentium4-2530mhz\"\n\
             [traffic]\nrates = \"1kpps..2kpps:2\"\n[figure]\ny = \"throughput_pps\"\n",
        )
    }

    /// Makes a store with the result of that experiment. Returns its path.
    pub fn stored(&self) -> String {
        let (experiment, db) = (self.experiment(), self.text("records.db"));
        self.netcliff(["run", &experiment, "--db", &db]).assert().success();
        db
    }

    /// The text that a successful call prints.
    pub fn stdout<A: AsRef<std::ffi::OsStr>>(&self, args: impl IntoIterator<Item = A>) -> String {
        let output = self.netcliff(args).assert().success();
        String::from_utf8(output.get_output().stdout.clone()).expect("UTF-8")
    }

    /// The output of a successful call as JSON, one object per line, checked against its schema.
    pub fn json_lines<A: AsRef<std::ffi::OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Vec<Value> {
        let args: Vec<String> = args.into_iter().map(|arg| arg.as_ref().to_string_lossy().into_owned()).collect();
        let lines = self.stdout(&args);
        let lines: Vec<Value> =
            lines.lines().map(|line| serde_json::from_str(line).expect("a JSON object a line")).collect();
        // All lines have one type, so the first and the last are checked.
        lines.first().into_iter().chain(lines.last()).for_each(|line| crate::schema::check(&args, line));
        lines
    }

    /// The output of a successful call, as one JSON object.
    pub fn json<A: AsRef<std::ffi::OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Value {
        let mut lines = self.json_lines(args);
        assert_eq!(lines.len(), 1, "one object");
        lines.remove(0)
    }
}

/// The commands that a help text lists, without `help`.
pub fn commands_in(help: &str) -> Vec<String> {
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // Lines with more indent continue the text of the line before.
    let names = listed.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").map(str::to_owned).collect()
}

/// Runs a call that must fail with `code`, print nothing on stdout, and print each of `says` on stderr. Returns what is
/// wrong instead of panicking, so that a table reports all its rows.
pub fn refusal(home: &Home, args: &[&str], code: i32, says: &[&str]) -> Result<String, String> {
    let output = home.command(args).stdin(std::process::Stdio::null()).output().map_err(|error| error.to_string())?;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let about = |what: String| format!("netcliff {}\n  {what}\n  stderr: {stderr}", args.join(" "));
    if output.status.code() != Some(code) {
        return Err(about(format!("{}, not {code}", output.status)));
    }
    if !output.stdout.is_empty() {
        return Err(about(format!("stdout: {}", String::from_utf8_lossy(&output.stdout))));
    }
    let absent: Vec<&str> = says.iter().copied().filter(|part| !stderr.contains(part)).collect();
    if !absent.is_empty() {
        return Err(about(format!("does not say {absent:?}")));
    }
    if stderr.contains("panicked") || stderr.contains("RUST_BACKTRACE") {
        return Err(about("panics".to_owned()));
    }
    Ok(stderr)
}

/// Checks a whole table of refusals and shows every row that is not as it should be. With NETCLIFF_SHOW_MESSAGES
/// set, shows all messages, to be read as a user would.
pub fn refusals(home: &Home, code: i32, table: &[(&[&str], &[&str])]) {
    let results: Vec<_> = table.iter().map(|(args, says)| (args, refusal(home, args, code, says))).collect();
    if std::env::var_os("NETCLIFF_SHOW_MESSAGES").is_some() {
        results
            .iter()
            .for_each(|(args, result)| say(&format!("--- {args:?}\n{}", result.as_ref().unwrap_or_else(|e| e))));
    }
    let wrong: Vec<String> = results.into_iter().filter_map(|(_, result)| result.err()).collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), table.len(), wrong.join("\n"));
}

/// A number, plain or in `{value, ...}`.
pub fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.get("value")?.as_f64())
}

/// The number at a JSON pointer; without one the test fails and names the place.
pub fn number_at(value: &Value, pointer: &str) -> f64 {
    value.pointer(pointer).and_then(number).unwrap_or_else(|| panic!("no number at {pointer} in {value}"))
}

/// Files below a directory. Empty if the directory does not exist.
pub fn entries(dir: &Path) -> Vec<String> {
    let names = std::fs::read_dir(dir).into_iter().flatten().flatten();
    names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Prints a line for readers of the test's output.
pub fn say(text: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// A capture with a resolution of a microsecond: UDP packets from these ports, with these numbers of bytes after the
/// headers, `gap_us` apart.
pub fn pcap_of_udp(gap_us: u32, packets: impl IntoIterator<Item = (u16, usize)>) -> Vec<u8> {
    let le = |value: u32| value.to_le_bytes();
    let mut bytes = [le(0xa1b2_c3d4), le(0x0004_0002), le(0), le(0), le(65_535), le(1)].concat();
    for (n, (port, payload)) in (0..).zip(packets) {
        let mut frame = Vec::new();
        let builder = etherparse::PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
        builder.udp(port, 9).write(&mut frame, &vec![0; payload]).expect("it fits");
        let length = frame.len() as u32;
        bytes.extend([le(0), le(gap_us * n), le(length), le(length)].concat());
        bytes.extend(frame);
    }
    bytes
}
