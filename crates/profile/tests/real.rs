//! Profiles this host while datagrams are sent between two namespaces.

use std::fs::{self, File};
use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use netcliff_core::Profile;
use netcliff_core::profile::Stage;
use netcliff_host::cpu::Preference;
use netcliff_profile::{Options, ProfileError, profile};
use netcliff_testkit::{Need, has, has_program, not_applicable};
use nix::sched::{CloneFlags, setns};

fn options(seconds: f64) -> Options {
    Options {
        interfaces: Vec::new(),
        cpus: Vec::new(),
        pid: None,
        length: Duration::from_secs_f64(seconds),
        until_stopped: false,
        rate_hz: Some(999),
        locks: false,
        meter: None,
        own: true,
        load: None,
        command: "a test".to_owned(),
    }
}

fn ip(words: &str) {
    let status = Command::new("ip").args(words.split_whitespace()).status();
    assert!(status.is_ok_and(|status| status.success()), "ip {words}");
}

/// Only one load runs at a time.
static TURN: Mutex<()> = Mutex::new(());
static PAIRS: AtomicU32 = AtomicU32::new(0);

/// Two namespaces joined by a veth pair; dropping the value removes them.
struct Pair(String, #[expect(dead_code, reason = "held until the pair is gone")] MutexGuard<'static, ()>);

impl Pair {
    fn new() -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let name = format!("ncp{}x{}", std::process::id(), PAIRS.fetch_add(1, Ordering::Relaxed));
        let pair = Self(name.clone(), turn);
        ip(&format!("netns add {name}a"));
        ip(&format!("netns add {name}b"));
        ip(&format!("link add v0 netns {name}a type veth peer name v1 netns {name}b"));
        for (end, device, address) in [("a", "v0", 1), ("b", "v1", 2)] {
            ip(&format!("-n {name}{end} addr add 10.79.0.{address}/24 dev {device}"));
            ip(&format!("-n {name}{end} link set {device} up"));
        }
        pair
    }

    fn inside<T: Send + 'static>(&self, end: &str, work: impl FnOnce() -> T + Send + 'static) -> thread::JoinHandle<T> {
        let space = File::open(format!("/var/run/netns/{}{end}", self.0)).expect("the namespace");
        thread::spawn(move || {
            setns(space, CloneFlags::CLONE_NEWNET).expect("root may enter it");
            work()
        })
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for end in ["a", "b"] {
            let _ = Command::new("ip").args(["netns", "del", &format!("{}{end}", self.0)]).status();
        }
    }
}

/// Profiles some seconds of datagrams of 1000 bytes, sent ten at a time with a pause after them, or as fast as
/// possible. Returns the profile and the number of datagrams that were read.
fn under_load(pair: &Pair, options: Options, pause: Option<Duration>) -> (Profile, u64) {
    let stop = Arc::<AtomicBool>::default();
    let (sending, reading) = (Arc::clone(&stop), Arc::clone(&stop));
    let reader = pair.inside("b", move || {
        let socket = UdpSocket::bind("10.79.0.2:9000").expect("a socket");
        socket.set_read_timeout(Some(Duration::from_millis(100))).expect("a time-out");
        let (mut read, mut bytes) = (0, [0; 2048]);
        while !reading.load(Ordering::Relaxed) {
            read += u64::from(socket.recv(&mut bytes).is_ok());
        }
        read
    });
    let sender = pair.inside("a", move || {
        let socket = UdpSocket::bind("10.79.0.1:0").expect("a socket");
        while !sending.load(Ordering::Relaxed) {
            for _ in 0..10 {
                // Sending is refused until the reader has started.
                let _ = socket.send_to(&[7; 1000], "10.79.0.2:9000");
            }
            pause.into_iter().for_each(thread::sleep);
        }
    });
    let profiling = pair.inside("b", move || profile(&options, &AtomicBool::new(false), &mut |_| {}));
    let taken = profiling.join().expect("no panic");
    stop.store(true, Ordering::Relaxed);
    sender.join().expect("no panic");
    let read = reader.join().expect("no panic");
    (taken.expect("a profile").0, read)
}

#[test]
fn the_account_of_a_load_is_the_meter_s_time_by_known_stages() {
    if !has(Need::Netns) || !has(Need::Ebpf) {
        return;
    }
    let pair = Pair::new();
    // Another tenant of the machine may disturb an attempt; three attempts in a row fail only because of a defect.
    let mut seen = Vec::new();
    for _ in 0..3 {
        let options = Options { interfaces: vec!["v1".to_owned()], meter: Some(Preference::Best), ..options(3.0) };
        let (profile, read) = under_load(&pair, options, None);
        assert!(profile.packets.received > 1000 && read > 1000, "{:?} {read}", profile.packets);
        assert_eq!(
            (profile.packets.divisor.as_str(), &profile.packets.interfaces[..]),
            ("received", &["v1".to_owned()][..])
        );
        for stage in [
            Stage::Copy,
            Stage::Transport,
            Stage::Socket,
            Stage::Allocation,
            Stage::Release,
            Stage::Interrupt,
            Stage::Ip,
        ] {
            let row = profile.stage(stage).unwrap_or_else(|| panic!("{stage:?} is missing"));
            let figure = row.per_packet_s.expect("there were packets");
            assert!(figure.value > 1e-9 && figure.value < 1e-3 && figure.interval.is_some(), "{stage:?} {figure:?}");
        }
        let sum: f64 = profile.stages.iter().filter_map(|row| row.per_packet_s).map(|figure| figure.value).sum();
        assert!((sum / profile.per_packet_s.expect("packets").value - 1.0).abs() < 1e-9);
        let classes = profile.classes;
        let all = classes.softirq + classes.application + classes.others + classes.own + classes.idle;
        let meter = profile.meter.clone().expect("asked for");
        seen.push(format!(
            "unknown {}, all {all} of {}, {meter:?}, {classes:?}",
            profile.unknown(),
            profile.sampled.cpus.len()
        ));
        // The time by which a halted virtual CPU delays its timer belongs to no class.
        let whole = all < 1.01 * profile.sampled.cpus.len() as f64;
        let late = profile.cautions.iter().find(|caution| caution.contains("after their timer was due"));
        if let Some(late) = late.filter(|_| whole && profile.unknown() < 0.05) {
            not_applicable(format!("no comparison with the meter: {late}"));
            return;
        }
        if whole && meter.difference.abs() < 0.05 && profile.unknown() < 0.05 {
            return;
        }
    }
    panic!("{seen:#?}");
}

/// A loop that takes tens of microseconds, as source for clang.
const LOOP: &str = r#"
struct xdp_md;
__attribute__((section("xdp"), used)) int loop(struct xdp_md *context)
{
    unsigned long x = 1;
    for (int i = 0; i < 30000; i++) {
        asm volatile("%0 *= 3" : "+r"(x));
        asm volatile("%0 += 7" : "+r"(x));
    }
    return x == 0 ? 1 : 2;
}
char _license[] __attribute__((section("license"), used)) = "GPL";
"#;

/// Calls bpf(2) with `first` as the first word of the attributes and zeros after it. Returns the result (for some
/// commands a descriptor), and the second word as the kernel left it.
fn bpf(command: i32, first: u32) -> io::Result<(i64, u32)> {
    let mut words = [first, 0, 0, 0];
    // SAFETY: the attributes have the stated length and outlive the call; none of the commands used here writes beyond
    // them.
    let result = unsafe { nix::libc::syscall(nix::libc::SYS_bpf, command, words.as_mut_ptr(), size_of_val(&words)) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok((result, words[1])) }
}

fn descriptor(command: i32, first: u32) -> io::Result<OwnedFd> {
    // SAFETY: a descriptor that the kernel has just given to this process alone.
    bpf(command, first).map(|(descriptor, _)| unsafe { OwnedFd::from_raw_fd(descriptor as i32) })
}

/// Time (ns) and number of runs of the newest XDP program, as counted by the kernel.
fn newest_xdp() -> Option<(u64, u64)> {
    // BPF_PROG_GET_NEXT_ID, BPF_PROG_GET_FD_BY_ID, BPF_PROG_TYPE_XDP
    const NEXT: i32 = 11;
    const OPEN: i32 = 13;
    let (mut id, mut newest) = (0, None);
    while let Ok((_, next)) = bpf(NEXT, id) {
        id = next;
        let Ok(program) = descriptor(OPEN, id) else { continue };
        let text = fs::read_to_string(format!("/proc/self/fdinfo/{}", program.as_raw_fd())).unwrap_or_default();
        let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse::<u64>().ok());
        if value("prog_type:") == Some(6) {
            newest = value("run_time_ns:").zip(value("run_cnt:"));
        }
    }
    newest
}

/// Programs of the lowest weight, which prevent the CPUs from halting. A halted virtual CPU takes its timer late, in
/// the code that runs at its wake-up; without hardware cycles the sample is attributed to that code.
struct Awake(Vec<std::process::Child>);

impl Awake {
    fn new() -> Self {
        let spin = |cpu: usize| {
            let line =
                ["-c", &cpu.to_string(), "chrt", "--idle", "0", "timeout", "60", "sh", "-c", "while :; do :; done"];
            Command::new("taskset").args(line).spawn().expect("taskset runs")
        };
        Self((0..2).map(spin).collect())
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // `timeout` ends its own child when it gets SIGTERM.
            let _ = Command::new("kill").arg(child.id().to_string()).status();
            let _ = child.wait();
        }
    }
}

/// The profile agrees with the kernel's own count of the program's time (BPF_ENABLE_STATS). In windows of 12 s, the two
/// differed by up to 2 %; in windows of 6 s, the sampling error alone is 3 %.
#[test]
fn a_busy_loop_in_an_xdp_program_stands_in_its_stage() {
    let programs = ["clang", "taskset", "chrt", "timeout"];
    if !has(Need::Netns) || !has(Need::Xdp) || !programs.into_iter().all(has_program) {
        return;
    }
    let pair = Pair::new();
    let file = std::env::temp_dir().join(format!("ncp{}", std::process::id()));
    fs::write(file.with_extension("c"), LOOP).expect("a file");
    let (source, object) = (file.with_extension("c"), file.with_extension("o"));
    let compiled =
        Command::new("clang").args(["-O2", "-g", "-target", "bpf", "-c"]).arg(&source).arg("-o").arg(&object).status();
    let space = format!("{}b", pair.0);
    let attached = Command::new("ip")
        .args(["-n", &space, "link", "set", "dev", "v1", "xdpgeneric", "obj"])
        .arg(&object)
        .args(["sec", "xdp"])
        .output();
    let _ = (fs::remove_file(source), fs::remove_file(object));
    assert!(compiled.is_ok_and(|status| status.success()));
    let attached = attached.expect("ip runs");
    if !attached.status.success() {
        return netcliff_testkit::skip(Need::Kernel, String::from_utf8_lossy(&attached.stderr));
    }
    let counting = match descriptor(32, 0) {
        Ok(counting) => counting,
        Err(error) => return netcliff_testkit::skip(Need::Kernel, format!("BPF_ENABLE_STATS: {error}")),
    };
    let _awake = Awake::new();
    let mut seen = Vec::new();
    for _ in 0..3 {
        let before = newest_xdp().expect("the program");
        let options = Options { interfaces: vec!["v1".to_owned()], ..options(6.0) };
        let (profile, _) = under_load(&pair, options, Some(Duration::from_millis(1)));
        let after = newest_xdp().expect("the program");
        let kernel_s = (after.0 - before.0) as f64 * 1e-9 / (after.1 - before.1).max(1) as f64;
        let stage = profile.stage(Stage::Xdp).and_then(|row| row.per_packet_s).expect("the loop");
        seen.push(format!("{:.2} us by the kernel, {stage:?}", kernel_s * 1e6));
        if (stage.value / kernel_s - 1.0).abs() < 0.08 {
            return;
        }
    }
    drop(counting);
    panic!("{seen:#?}");
}

#[test]
fn what_is_not_there_is_refused_with_what_is() {
    let refused = |options: Options| match profile(&options, &AtomicBool::new(false), &mut |_| {}) {
        Err(ProfileError::Usage(why)) => why,
        other => panic!("{other:?}"),
    };
    let cpu = refused(Options { cpus: vec![8000], ..options(1.0) });
    assert!(cpu.contains("--cpu 8000") && cpu.contains("online are 0"), "{cpu}");
    let pid = refused(Options { pid: Some(4_194_303), ..options(1.0) });
    assert!(pid.contains("--pid 4194303") && pid.contains("pgrep"), "{pid}");
    let interface = refused(Options { interfaces: vec!["none0".to_owned()], ..options(1.0) });
    assert!(interface.contains("--if none0") && interface.contains("there are"), "{interface}");
}

/// Setting `stop` ends the profile at once, with the samples taken so far.
#[test]
fn a_stop_ends_it_with_what_there_is() {
    if !has(Need::Root) {
        return;
    }
    let stop = AtomicBool::new(false);
    let mut begun = false;
    let taken = profile(&options(60.0), &stop, &mut |_| {
        begun = true;
        stop.store(true, Ordering::Relaxed);
    });
    let (profile, _) = match taken {
        Ok(taken) => taken,
        // Root in a container may lack the permission for perf_event_open.
        Err(error) => return netcliff_testkit::skip(Need::Kernel, format!("perf_event_open: {error}")),
    };
    assert!(begun && profile.partial && profile.sampled.seconds < 5.0, "{:?}", profile.sampled);
}
