//! CPU time of the programs, from the kernel's statistics of their run time.

use super::{Overhead, load::Programs};
use libbpf_rs::libbpf_sys;
use std::{
    collections::BTreeMap,
    io,
    mem::size_of,
    net::UdpSocket,
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
    time::{Duration, Instant},
};

/// Number of datagrams that this process sends to itself, so that the programs run with warm caches; about 20 ms.
const DATAGRAMS: usize = 3000;
/// Time to wait for the machine's usual activity if there is no loopback.
const WAIT: Duration = Duration::from_millis(100);
/// Fewest runs from which a program's cost is computed.
const LEAST_RUNS: u64 = 20;

/// (runs, time (ns)) of each program.
type Costs = BTreeMap<String, (u64, u64)>;

/// Enables the statistics briefly, exercises the programs, and reads their cost. `None` if the kernel does not permit
/// it (before 5.8), or if no program ran.
pub(super) fn measure(programs: &Programs) -> Option<Overhead> {
    measure_while(programs, || {
        if exercise().is_err() {
            std::thread::sleep(WAIT);
        }
    })
}

/// As [`measure`], over the machine's usual activity.
pub(super) fn measure_silently(programs: &Programs) -> Option<Overhead> {
    measure_while(programs, || std::thread::sleep(WAIT))
}

fn measure_while(programs: &Programs, exercise: impl FnOnce()) -> Option<Overhead> {
    // SAFETY: the call takes no pointer; it returns a new descriptor that we own, or a negative error.
    let statistics = unsafe {
        let fd = libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME);
        (fd >= 0).then(|| OwnedFd::from_raw_fd(fd))?
    };
    let before = costs(programs);
    exercise();
    let after = costs(programs);
    drop(statistics);
    let spent: Costs = after
        .into_iter()
        .map(|(name, (runs, ns))| {
            let (runs_before, ns_before) = before.get(&name).copied().unwrap_or_default();
            (name, (runs - runs_before, ns - ns_before))
        })
        .collect();
    summarise(&spent)
}

pub(super) fn summarise(spent: &Costs) -> Option<Overhead> {
    let (runs, ns) = spent.values().fold((0, 0), |(r, n), (runs, ns)| (r + runs, n + ns));
    if runs == 0 {
        return None;
    }
    let mean = ns as f64 / runs as f64;
    let of = |matches: &dyn Fn(&str) -> bool| {
        let (runs, ns) =
            spent.iter().filter(|(name, _)| matches(name)).fold((0, 0), |(r, n), (_, (runs, ns))| (r + runs, n + ns));
        if runs >= LEAST_RUNS { ns as f64 / runs as f64 } else { mean }
    };
    let hard = |name: &str, end: &str| name.ends_with(end) && !name.starts_with("softirq");
    Some(Overhead {
        ns_per_event: mean,
        switch_ns: of(&|name| name == "sched_switch"),
        softirq_ns: of(&|name| name == "softirq_entry") + of(&|name| name == "softirq_exit"),
        interrupt_ns: of(&|name| hard(name, "_entry")) + of(&|name| hard(name, "_exit")),
        poll_ns: of(&|name| name == "napi_poll"),
        runs,
    })
}

fn costs(programs: &Programs) -> Costs {
    programs
        .descriptors()
        .into_iter()
        .filter_map(|(name, fd)| {
            let mut info = libbpf_sys::bpf_prog_info::default();
            let mut length = size_of::<libbpf_sys::bpf_prog_info>() as u32;
            // SAFETY: `info` and `length` are valid for the call, which writes at most `length` bytes.
            let result = unsafe { libbpf_sys::bpf_prog_get_info_by_fd(fd.as_raw_fd(), &mut info, &mut length) };
            (result == 0).then_some((name, (info.run_cnt, info.run_time_ns)))
        })
        .collect()
}

/// Sends datagrams from this process to itself over loopback, which causes softirqs, polls and (by short sleeps) task
/// switches.
fn exercise() -> io::Result<()> {
    let receiver = UdpSocket::bind("127.0.0.1:0")?;
    receiver.set_read_timeout(Some(Duration::from_millis(10)))?;
    let sender = UdpSocket::bind("127.0.0.1:0")?;
    sender.connect(receiver.local_addr()?)?;
    let end = Instant::now() + WAIT;
    let mut buffer = [0; 64];
    for count in 0..DATAGRAMS {
        sender.send(&[0; 18])?;
        receiver.recv(&mut buffer)?;
        if count % 16 == 0 {
            std::thread::sleep(Duration::from_micros(20));
        }
        if Instant::now() > end {
            break;
        }
    }
    Ok(())
}
