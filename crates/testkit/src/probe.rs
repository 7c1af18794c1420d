//! Checks whether a need is met, by the kernel's interfaces and not by netcliff's code, so that a defect of netcliff
//! fails a test and does not skip it.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::unistd::geteuid;

use crate::{Need, programs};

/// Returns the reason why a need is not met; `None` if it is met.
pub(crate) fn missing(need: Need) -> Option<String> {
    if need.takes_rights() && std::env::var("NEXTEST_PROFILE").is_ok_and(|profile| profile == "check") {
        return Some("make check takes no rights and makes no namespaces; make test has this test".to_owned());
    }
    match need {
        Need::Root => (!geteuid().is_root()).then(|| "this user is not root".to_owned()),
        Need::Cpus => one_cpu(),
        Need::Netns => root().or_else(|| with_namespace(|_| None)),
        Need::Userns => user_namespaces(),
        Need::Ebpf => root().or_else(btf).or_else(|| bpf_program(BPF_PROG_TYPE_SOCKET_FILTER)),
        Need::Xdp => root().or_else(|| bpf_program(BPF_PROG_TYPE_XDP)),
        Need::AfXdp => root().or_else(|| bpf_program(BPF_PROG_TYPE_XDP)).or_else(af_xdp),
        Need::Uring => uring(),
        Need::Ipv6 => {
            (!std::path::Path::new("/proc/net/if_inet6").exists()).then(|| "no /proc/net/if_inet6".to_owned())
        }
        Need::Vlan => root().or_else(|| with_namespace(vlan)),
        Need::Tbf => root().or_else(|| with_namespace(token_bucket)),
        Need::Nftables => root().or_else(|| with_namespace(nftables)),
        Need::Tmpfs => root().or_else(|| listed("/proc/filesystems", "tmpfs")),
        Need::Quiet => busy_cpu(),
        Need::Kernel => None,
    }
}

/// Describes the CPU that other programs use most, by the kernel's ticks over half a second. `None` if every CPU is
/// idle for at least half of that time.
fn busy_cpu() -> Option<String> {
    const LOOKED_FOR: Duration = Duration::from_millis(500);
    let before = idle_and_all_ticks();
    std::thread::sleep(LOOKED_FOR);
    let shares = before.iter().zip(idle_and_all_ticks()).map(|(before, after)| {
        let (idle, all) = (after.0.saturating_sub(before.0), after.1.saturating_sub(before.1));
        idle as f64 / all.max(1) as f64
    });
    let (cpu, least) = shares.enumerate().min_by(|a, b| a.1.total_cmp(&b.1))?;
    (least < 0.5).then(|| format!("other programs leave {:.0} % of CPU {cpu} idle, half is needed", least * 100.0))
}

/// (Idle ticks, all ticks) of each CPU (proc(5), /proc/stat); waiting for disks counts as idle.
fn idle_and_all_ticks() -> Vec<(u64, u64)> {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let of_cpus = text.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu "));
    let ticks = of_cpus.map(|line| line.split_whitespace().skip(1).take(8).filter_map(|n| n.parse().ok()).collect());
    ticks.map(|ticks: Vec<u64>| (ticks.iter().skip(3).take(2).sum(), ticks.iter().sum())).collect()
}

fn root() -> Option<String> {
    missing(Need::Root)
}

fn one_cpu() -> Option<String> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    (cpus < 2).then(|| format!("{cpus} CPU may be used, two are needed"))
}

fn listed(file: &str, word: &str) -> Option<String> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    (!text.split_whitespace().any(|found| found == word)).then(|| format!("{file} does not have {word}"))
}

fn btf() -> Option<String> {
    let file = "/sys/kernel/btf/vmlinux";
    (!std::path::Path::new(file).exists()).then(|| format!("this kernel has no {file}"))
}

/// Runs a program. Returns the reason if it cannot be run or ends with a code other than 0; `None` if it succeeds.
fn ran(command: &mut Command) -> Option<String> {
    let shown = format!("{command:?}");
    match command.stdin(Stdio::null()).output() {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(format!("{shown}: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => Some(format!("{shown}: {error}")),
    }
}

/// Calls `ask` with the name of a temporary network namespace that has a veth pair (p0, p1). Returns its result, or the
/// reason why the namespace cannot be made.
fn with_namespace(ask: impl Fn(&str) -> Option<String>) -> Option<String> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    if !programs::has_program("ip") {
        return Some("no program ip".to_owned());
    }
    let name = format!("ncprobe-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    if let Some(reason) = ran(Command::new("ip").args(["netns", "add", &name])) {
        return Some(reason);
    }
    let answer = ran(Command::new("ip").args(["-n", &name, "link", "add", "p0", "type", "veth", "peer", "name", "p1"]))
        .or_else(|| ask(&name));
    let _ = ran(Command::new("ip").args(["netns", "delete", &name]));
    answer
}

fn vlan(space: &str) -> Option<String> {
    let add = ["-n", space, "link", "add", "link", "p0", "name", "p0.5", "type", "vlan", "id", "5"];
    ran(Command::new("ip").args(add))
}

fn token_bucket(space: &str) -> Option<String> {
    let add =
        ["-n", space, "qdisc", "add", "dev", "p0", "root", "tbf", "rate", "10mbit", "burst", "3000", "limit", "3000"];
    ran(Command::new("tc").args(add))
}

fn nftables(space: &str) -> Option<String> {
    ran(Command::new("ip").args(["netns", "exec", space, "nft", "add", "table", "inet", "probe"]))
}

fn user_namespaces() -> Option<String> {
    ran(Command::new("unshare").args(["--user", "--map-root-user", "--net", "true"]))
}

fn last_error(what: &str) -> String {
    format!("{what}: {}", std::io::Error::last_os_error())
}

fn af_xdp() -> Option<String> {
    // SAFETY: socket takes three integers; the descriptor is closed below.
    let socket = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW, 0) };
    if socket < 0 {
        return Some(last_error("socket(AF_XDP)"));
    }
    // SAFETY: the descriptor is this function's own.
    unsafe { libc::close(socket) };
    None
}

fn uring() -> Option<String> {
    // struct io_uring_params is 120 bytes, all zero for the defaults.
    let mut parameters = [0_u8; 120];
    // SAFETY: io_uring_setup(entries, params) writes within the 120 bytes of its structure.
    let ring = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, parameters.as_mut_ptr()) };
    if ring < 0 {
        return Some(last_error("io_uring_setup"));
    }
    // SAFETY: the descriptor is this function's own.
    unsafe { libc::close(ring as libc::c_int) };
    None
}

const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_PROG_TYPE_SOCKET_FILTER: u32 = 1;
const BPF_PROG_TYPE_XDP: u32 = 6;

/// The first fields of `union bpf_attr` for BPF_PROG_LOAD (linux/bpf.h); the kernel accepts a shorter structure.
#[repr(C)]
struct ProgramLoad {
    kind: u32,
    instructions: u32,
    code: u64,
    licence: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
}

/// Loads the shortest program of a type (return 0). Returns the reason if the kernel refuses it.
fn bpf_program(kind: u32) -> Option<String> {
    // mov r0, 0; exit.
    let code: [u64; 2] = [0x0000_0000_0000_00b7, 0x0000_0000_0000_0095];
    let licence = c"GPL";
    let attributes = ProgramLoad {
        kind,
        instructions: 2,
        code: code.as_ptr() as u64,
        licence: licence.as_ptr() as u64,
        log_level: 0,
        log_bytes: 0,
        log: 0,
        kernel_version: 0,
        flags: 0,
    };
    // SAFETY: the structure and the memory that it points to outlive the call, which only reads them.
    let program =
        unsafe { libc::syscall(libc::SYS_bpf, BPF_PROG_LOAD, &raw const attributes, size_of::<ProgramLoad>()) };
    if program < 0 {
        return Some(last_error("bpf(BPF_PROG_LOAD)"));
    }
    // SAFETY: the descriptor is this function's own.
    unsafe { libc::close(program as libc::c_int) };
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Probes leave no namespace behind, and a second probe gives the same answer.
    #[test]
    fn a_probe_repeats_and_leaves_nothing() {
        // Whether a CPU is busy may change between two probes.
        for need in Need::ALL.into_iter().filter(|need| *need != Need::Quiet) {
            assert_eq!(missing(need).is_some(), missing(need).is_some(), "{need}");
        }
        let prefix = format!("ncprobe-{}-", std::process::id());
        let left = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
        let left: Vec<_> =
            left.map(|entry| entry.file_name()).filter(|name| name.to_string_lossy().starts_with(&prefix)).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}
