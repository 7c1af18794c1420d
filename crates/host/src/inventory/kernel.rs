//! The kernel and how it was started.

use crate::{files, procfs};
use flate2::read::GzDecoder;
use serde::{Deserialize, Serialize};
use std::{io::Read, path::Path};

/// The kernel and how it was started.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Kernel {
    /// Release, as `uname -r`.
    pub release: Option<String>,
    /// Version, as `uname -v`.
    pub version: Option<String>,
    /// Command line of the kernel.
    pub command_line: Option<String>,
    /// Timer frequency (Hz), from the kernel's configuration.
    pub hz: Option<u32>,
    /// Preemption model: `none`, `voluntary`, `lazy`, `full` or `rt`.
    pub preemption: Option<String>,
    /// Clock source in use.
    pub clocksource: Option<String>,
    /// CPUs that `isolcpus=` takes from the scheduler.
    pub isolated_cpus: Option<String>,
    /// CPUs without a periodic tick.
    pub nohz_full_cpus: Option<String>,
    /// Whether the kernel has BTF type information, which CO-RE eBPF needs.
    pub btf: bool,
}

impl Kernel {
    /// Whether the release is known and older than `major.minor`.
    pub fn is_before(&self, major: u32, minor: u32) -> bool {
        let release = self.release.as_deref().unwrap_or_default();
        let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(found_major)), Some(Ok(found_minor))) => (found_major, found_minor) < (major, minor),
            _ => false,
        }
    }

    pub(super) fn read(root: &Path) -> Kernel {
        let file = |path: &str| procfs::text(root.join(path));
        let release = file("proc/sys/kernel/osrelease");
        let version = file("proc/sys/kernel/version");
        let command_line = file("proc/cmdline");
        let config = configuration(root, release.as_deref());
        let clocks = "sys/devices/system/clocksource/clocksource0/current_clocksource";
        Kernel {
            hz: option(&config, "CONFIG_HZ").and_then(|hz| hz.parse().ok()),
            preemption: preemption(root, version.as_deref(), command_line.as_deref(), &config),
            clocksource: file(clocks),
            isolated_cpus: file("sys/devices/system/cpu/isolated"),
            nohz_full_cpus: file("sys/devices/system/cpu/nohz_full").filter(|cpus| cpus != "(null)"),
            btf: root.join("sys/kernel/btf/vmlinux").exists(),
            release,
            version,
            command_line,
        }
    }
}

/// The build configuration from /proc/config.gz or /boot/config-RELEASE; empty without either.
pub(crate) fn configuration(root: &Path, release: Option<&str>) -> String {
    let mut text = String::new();
    // The file of a capture may be crafted to unpack to more bytes than memory holds, so the read is limited.
    if let Ok(file) = files::open(&root.join("proc/config.gz"))
        && GzDecoder::new(file).take(files::MOST_BYTES).read_to_string(&mut text).is_ok()
    {
        return text;
    }
    let path = root.join(format!("boot/config-{}", release.unwrap_or_default()));
    procfs::whole(path)
}

fn option<'a>(config: &'a str, name: &str) -> Option<&'a str> {
    config.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
}

/// The preemption model from the scheduler's report, otherwise from the command line, otherwise from the build
/// configuration.
fn preemption(root: &Path, version: Option<&str>, command_line: Option<&str>, config: &str) -> Option<String> {
    if version.is_some_and(|version| version.contains("PREEMPT_RT")) {
        return Some("rt".to_owned());
    }
    // The file reads like "none voluntary (full)"; the model in use is in parentheses.
    let scheduler = procfs::text(root.join("sys/kernel/debug/sched/preempt"));
    let in_use = scheduler.as_deref().and_then(|modes| {
        let mode = modes.split_whitespace().find(|mode| mode.starts_with('('))?;
        Some(mode.trim_matches(['(', ')']).to_owned())
    });
    let chosen = || {
        let words = command_line?.split_whitespace();
        words.filter_map(|word| word.strip_prefix("preempt=")).next_back().map(str::to_owned)
    };
    let built = || {
        let modes = [
            ("CONFIG_PREEMPT_NONE", "none"),
            ("CONFIG_PREEMPT_VOLUNTARY", "voluntary"),
            ("CONFIG_PREEMPT_LAZY", "lazy"),
            ("CONFIG_PREEMPT", "full"),
        ];
        let built_in = |name: &str| option(config, name) == Some("y");
        modes.iter().find(|(name, _)| built_in(name)).map(|(_, mode)| (*mode).to_owned())
    };
    in_use.or_else(chosen).or_else(built)
}
