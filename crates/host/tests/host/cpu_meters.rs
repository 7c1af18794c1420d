//! Tests the CPU meters with work whose cost is known: a spinning thread, and datagrams that are counted.
//!
//! Measured values are compared with wide margins, because the machine may be shared. Values that must be exact (the
//! partition of the wall time, the number of packets) are compared exactly or nearly so.

use netcliff_host::cpu::{
    CpuMeter, CpuSplit, MeterSpec, Method, Preference, Watch, choose,
    ebpf::{Class, EbpfMeter},
    soaker::SoakerMeter,
};
use netcliff_testkit::{HAS_TURN, Need, Shared, Turn, has, has_all, has_program, turn};
use std::{
    hint::black_box,
    net::UdpSocket,
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

/// Waits for the turn of the calling test: tests that measure the same CPUs run one at a time.
fn alone() -> Turn {
    turn(Shared::Cpus)
}

/// The last CPU, because the first CPU often serves the interrupts of devices.
fn measured_cpu() -> usize {
    thread::available_parallelism().map_or(1, usize::from) - 1
}

fn spec(watch: Vec<Watch>) -> MeterSpec {
    MeterSpec { cpus: vec![measured_cpu()], watch }
}

fn pin(cpu: usize) {
    let mut set = nix::sched::CpuSet::new();
    set.set(cpu).unwrap();
    nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &set).unwrap();
}

/// Tries up to five times: other programs and the hypervisor disturb single attempts, but a wrong meter fails all five.
fn eventually(mut attempt: impl FnMut() -> Result<(), String>) {
    let mut failures = Vec::new();
    for _ in 0..5 {
        match attempt() {
            Ok(()) => return,
            Err(failure) => failures.push(failure),
        }
    }
    panic!("no attempt succeeded: {failures:#?}");
}

/// Returns `Err` with the measured values if the condition does not hold.
fn expect(holds: bool, figures: impl std::fmt::Debug) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("{figures:?}")) }
}

/// Runs `during`, with the thread's id, while a thread spins on the measured CPU.
fn while_spinning<T>(during: impl FnOnce(u32) -> T) -> T {
    let stop = AtomicBool::new(false);
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            pin(measured_cpu());
            sender.send(nix::unistd::gettid().as_raw() as u32).unwrap();
            let (mut x, end) = (0u64, Instant::now() + Duration::from_secs(20));
            while !stop.load(Ordering::Relaxed) && Instant::now() < end {
                for _ in 0..1000 {
                    x = black_box(x.wrapping_add(1));
                }
            }
        });
        let result = during(receiver.recv().unwrap());
        stop.store(true, Ordering::Relaxed);
        result
    })
}

/// Starts a meter; `None`, with a message, if it needs eBPF and this kernel or user cannot use eBPF.
fn start(method: Method, spec: &MeterSpec) -> Option<Box<dyn CpuMeter>> {
    if method == Method::Ebpf && !has(Need::Ebpf) {
        return None;
    }
    Some(choose(Preference::Only(method), spec).unwrap_or_else(|error| panic!("{error}")).meter)
}

fn start_ebpf(spec: MeterSpec) -> Option<EbpfMeter> {
    has(Need::Ebpf).then(|| EbpfMeter::start(spec).unwrap_or_else(|error| panic!("{error}")))
}

fn read_after(meter: &mut dyn CpuMeter, time: Duration) -> CpuSplit {
    meter.mark().unwrap();
    thread::sleep(time);
    meter.read().unwrap().remove(0)
}

/// The spinning thread's share of the CPU according to its schedstat, which is below 1 on a shared machine; and the
/// meter's result for that time.
fn thread_share(tid: u32, time: impl FnOnce() -> CpuSplit) -> (f64, CpuSplit) {
    let run_ns = || -> u64 {
        let text = std::fs::read_to_string(format!("/proc/self/task/{tid}/schedstat")).unwrap();
        text.split_whitespace().next().unwrap().parse().unwrap()
    };
    let (before, started) = (run_ns(), Instant::now());
    let split = time();
    ((run_ns() - before) as f64 * 1e-9 / started.elapsed().as_secs_f64(), split)
}

#[test]
fn ebpf_sees_a_spinning_thread() {
    let _alone = alone();
    while_spinning(|tid| {
        let Some(mut meter) = start(Method::Ebpf, &spec(vec![Watch::Thread(tid)])) else {
            return;
        };
        eventually(|| {
            let (truth, split) = thread_share(tid, || read_after(&mut *meter, Duration::from_millis(500)));
            let shares = split.shares;
            assert!((shares.sum() - 1.0).abs() < 0.005, "{shares:?}");
            assert_eq!(split.method, Method::Ebpf);
            // The kernel's clock of the thread includes the interrupts that interrupted it.
            let on_top = shares.interrupt.unwrap() + shares.protocol.unwrap() + shares.softirq_other.unwrap();
            let application = shares.application.unwrap();
            expect(application <= truth + 0.03 && application + on_top >= truth - 0.03, (application, on_top, truth))
        });
    });
}

/// As in a container, where the process ids that this process sees differ from the kernel's.
#[test]
fn ebpf_sees_its_tasks_in_a_pid_namespace_of_its_own() {
    let _alone = alone();
    if !has_all(&[Need::Ebpf, Need::Root]) || !has_program("unshare") {
        return;
    }
    for test in ["cpu_meters::ebpf_sees_a_spinning_thread", "cpu_meters::ebpf_watches_a_process_that_is_named_later"] {
        let mut inside = std::process::Command::new("unshare");
        inside.args(["--pid", "--fork", "--mount-proc", "--kill-child"]);
        inside.arg(std::env::current_exe().unwrap()).args(["--exact", test]).env(HAS_TURN, "1");
        let output = inside.output().unwrap();
        let told = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && told.contains("1 passed"), "{told}");
    }
}

#[test]
fn ebpf_watches_a_process_that_is_named_later() {
    let _alone = alone();
    while_spinning(|tid| {
        let Some(mut meter) = start(Method::Ebpf, &spec(vec![])) else {
            return;
        };
        let split = read_after(&mut *meter, Duration::from_millis(100));
        assert_eq!(split.shares.application, Some(0.0));
        meter.watch(Watch::Process(std::process::id())).unwrap();
        eventually(|| {
            let (truth, split) = thread_share(tid, || read_after(&mut *meter, Duration::from_millis(300)));
            let application = split.shares.application.unwrap();
            expect(application > truth - 0.1, (application, truth))
        });
    });
}

#[test]
fn procfs_sees_a_spinning_thread() {
    let _alone = alone();
    while_spinning(|tid| {
        let Some(mut meter) = start(Method::Procfs, &spec(vec![Watch::Thread(tid)])) else {
            return;
        };
        eventually(|| {
            let (truth, split) = thread_share(tid, || read_after(&mut *meter, Duration::from_millis(1000)));
            assert!(split.notes[0].contains("timer tick"));
            assert!(split.resolution_share * split.elapsed_s >= 0.01);
            // Both readings have steps of 10 ms, and the kernel samples every 4 ms.
            let (application, idle) = (split.shares.application.unwrap(), split.shares.idle.unwrap());
            expect((application - truth).abs() < 0.1 && idle < 0.1, (application, idle, truth))
        });
    });
}

fn start_soaker() -> SoakerMeter {
    SoakerMeter::start(spec(vec![]), Duration::from_millis(300)).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn the_soaker_gets_nothing_next_to_a_spinning_thread() {
    let _alone = alone();
    if !has(Need::Quiet) {
        return;
    }
    eventually(|| {
        let mut meter = start_soaker();
        let busy = while_spinning(|_| read_after(&mut meter, Duration::from_millis(500)));
        let estimate = busy.available.unwrap();
        assert!(estimate.half_width.is_some() && estimate.batches >= 2, "{estimate:?}");
        assert!(busy.notes[0].contains("idling"), "{:?}", busy.notes);
        expect(estimate.mean < 0.05, estimate)
    });
}

#[test]
fn soaker_and_ebpf_agree_on_what_is_left() {
    let _alone = alone();
    if !has(Need::Quiet) {
        return;
    }
    eventually(|| {
        let mut soaker = start_soaker();
        let watch = soaker.threads().into_iter().map(Watch::Thread).collect();
        let Some(mut exact) = start(Method::Ebpf, &spec(watch)) else {
            return Ok(());
        };
        soaker.mark().unwrap();
        exact.mark().unwrap();
        // First idle time, then datagrams: a part of the CPU's time is available, a part is used.
        thread::sleep(Duration::from_millis(300));
        send_to_ourselves(20_000);
        let rate = soaker.read().unwrap().remove(0);
        let time = exact.read().unwrap().remove(0).shares;
        // The soaker leaves no idle time.
        assert!(time.idle.unwrap() < 0.02, "{time:?}");
        // The available share by work done, and by CPU time without interrupts: two independent measurements of the
        // same thread. They differ if the CPU does not run at the speed of the calibration (a busy SMT sibling).
        let (by_work, by_time) = (rate.shares.available.unwrap(), time.application.unwrap());
        expect((by_work - by_time).abs() < 0.1 && by_time < 0.95, (by_work, by_time, rate.notes))
    });
}

#[test]
fn classes_partition_the_wall_time() {
    let _alone = alone();
    let cpus: Vec<usize> = (0..=measured_cpu()).collect();
    let Some(meter) = start_ebpf(MeterSpec { cpus, watch: vec![] }) else {
        return;
    };
    let first = meter.snapshot().unwrap();
    send_to_ourselves(2000);
    let second = meter.snapshot().unwrap();
    thread::sleep(Duration::from_millis(200));
    let third = meter.snapshot().unwrap();
    for (later, earlier) in [(&second, &first), (&third, &second), (&third, &first)] {
        for cpu in (later - earlier).cpus {
            let sum: u64 = Class::ALL.iter().map(|class| cpu.figures.ns(*class)).sum();
            let error = sum.abs_diff(cpu.elapsed_ns) as f64 / cpu.elapsed_ns as f64;
            assert!(error < 0.005, "CPU {}: {sum} of {} ns", cpu.cpu, cpu.elapsed_ns);
            assert!(cpu.share(Class::Unknown) < 0.001, "CPU {} was not visited", cpu.cpu);
        }
    }
    // The counts of two successive intervals add up to the counts of the whole interval.
    let parts = [&second - &first, &third - &second].map(|part| part.cpus[0].figures.events());
    assert_eq!((&third - &first).cpus[0].figures.events(), parts[0] + parts[1]);
}

/// Sends datagrams to this process over loopback on the measured CPU; returns the number that arrived.
fn send_to_ourselves(count: usize) -> usize {
    thread::scope(|scope| {
        let sender = scope.spawn(|| {
            pin(measured_cpu());
            let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
            receiver.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
            let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
            sender.connect(receiver.local_addr().unwrap()).unwrap();
            let mut buffer = [0; 64];
            (0..count).filter(|_| sender.send(&[7; 18]).is_ok() && receiver.recv(&mut buffer).is_ok()).count()
        });
        sender.join().unwrap()
    })
}

#[test]
fn ebpf_counts_packets_and_softirqs() {
    let _alone = alone();
    let Some(mut meter) = start(Method::Ebpf, &spec(vec![])) else {
        return;
    };
    eventually(|| {
        meter.mark().unwrap();
        let arrived = send_to_ourselves(5000) as u64;
        let split = meter.read().unwrap().remove(0);
        check_table(&split);
        let counters = split.counters;
        let backlog = counters.backlog_packets.unwrap();
        assert!(backlog >= arrived, "{backlog} of {arrived}");
        let softirqs = counters.softirqs.unwrap();
        let from_process = counters.softirqs_from_process.unwrap();
        let origins = from_process + counters.softirqs_from_irq.unwrap() + counters.softirqs_from_ksoftirqd.unwrap();
        assert_eq!(origins, softirqs);
        assert!(split.overhead_share.is_none_or(|share| share > 0.0 && share < 0.5), "{split:?}");
        // softnet_stat counts the packets that enter the stack; the polls count the packets that they processed.
        let (processed, packets) = (counters.softnet_processed.unwrap(), counters.packets.unwrap());
        expect(
            processed.abs_diff(packets) <= packets / 50 + 20
                // Other programs use loopback and veth, too, but not much on this CPU during this test.
                && backlog < arrived * 3 / 2
                // Datagrams are sent one at a time, so each is delivered by a separate softirq, which the sender runs
                // as it leaves the transmit path.
                && softirqs * 10 >= arrived * 9
                && from_process * 10 >= arrived * 8,
            (arrived, counters),
        )
    });
}

/// The table has as many polls as the counter, and its times, with the tails, add up to the time of the NET_RX
/// softirqs.
fn check_table(split: &CpuSplit) {
    let table = split.polls.as_ref().unwrap();
    let polls: u64 = table.cells.iter().map(|cell| cell.polls).sum();
    assert!(polls.abs_diff(split.counters.polls.unwrap()) <= 1);
    assert_eq!(table.histogram_log2().iter().sum::<u64>(), polls);
    let total_s: f64 = table.cells.iter().map(|cell| cell.total_s).sum::<f64>() + table.tail_s;
    let protocol_s = split.shares.protocol.unwrap() * split.elapsed_s;
    assert!((total_s / protocol_s - 1.0).abs() < 0.02, "{total_s} of {protocol_s} s");
}

#[test]
fn the_softirq_counts_of_ebpf_and_procfs_agree() {
    let _alone = alone();
    let Some(mut exact) = start(Method::Ebpf, &spec(vec![])) else {
        return;
    };
    let mut sampled = start(Method::Procfs, &spec(vec![])).unwrap();
    eventually(|| {
        exact.mark().unwrap();
        sampled.mark().unwrap();
        send_to_ourselves(5000);
        let exact = exact.read().unwrap().remove(0).counters;
        let sampled = sampled.read().unwrap().remove(0).counters;
        let close = |a: Option<u64>, b: Option<u64>| a.unwrap().abs_diff(b.unwrap()) <= a.unwrap() / 50 + 10;
        expect(
            close(exact.softirqs, sampled.softirqs)
                && close(exact.timer_interrupts, sampled.timer_interrupts)
                && close(exact.ipis, sampled.ipis),
            (exact, sampled),
        )
    });
}

#[test]
fn the_programs_say_what_they_cost() {
    let _alone = alone();
    let Some(meter) = start_ebpf(spec(vec![])) else {
        return;
    };
    let cost = meter.overhead().expect("the kernel tells the programs' run time (BPF_ENABLE_STATS, Linux 5.8)");
    assert!(cost.ns_per_event > 1.0 && cost.ns_per_event < 5000.0, "{cost:?}");
    assert!(cost.runs > 100, "{cost:?}");
    assert_eq!(meter.missing(), [] as [String; 0]);
}

/// If a watched thread stops beating, this looks as if its CPU had been taken away: the silence is recorded as a pause.
/// Time that a switch to another task explains is not recorded.
#[test]
fn silence_of_a_beating_thread_is_a_pause_and_its_sleep_is_none() {
    if !has(Need::Ebpf) {
        return;
    }
    const SILENT_NS: u64 = 3_000_000;
    let _alone = alone();
    let cpu = measured_cpu();
    let meter = EbpfMeter::start(spec(vec![Watch::Process(std::process::id())])).expect("eBPF");
    let heart = meter.heartbeat(cpu).expect("shared memory");
    let now = || {
        nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC)
            .map(|t| Duration::from(t).as_nanos() as u64)
            .unwrap()
    };
    let spin = |until_ns: u64, beats: bool| {
        while now() < until_ns {
            if beats {
                heart.beat(now());
            }
        }
    };
    eventually(|| {
        let (silent, asleep) = thread::scope(|scope| {
            let thread = scope.spawn(|| {
                pin(cpu);
                spin(now() + 2_000_000, true);
                let begin = now();
                spin(begin + SILENT_NS, false);
                let end = now();
                spin(end + 2_000_000, true);
                let sleep = now();
                thread::sleep(Duration::from_millis(5));
                let awake = now();
                spin(awake + 2_000_000, true);
                ((begin, end), (sleep, awake))
            });
            thread.join().unwrap()
        });
        let away_ns = |(from_ns, to_ns): (u64, u64)| {
            let pauses = heart.pauses(from_ns, to_ns);
            pauses.iter().map(|p| p.to_ns.min(to_ns).saturating_sub(p.from_ns.max(from_ns))).sum::<u64>()
        };
        // A tick or an interrupt during the silence is a heartbeat: the silence before and after it is recorded if it
        // is long enough.
        expect(away_ns(silent) > SILENT_NS / 2, (silent, away_ns(silent), heart.pauses(silent.0, silent.1)))?;
        expect(away_ns(asleep) < 500_000, (asleep, away_ns(asleep), heart.pauses(asleep.0, asleep.1)))
    });
}

/// Another program that runs on the CPU of a watched thread for milliseconds at a time is recorded with its name; once
/// the program has ended, nothing is recorded.
#[test]
fn another_task_on_the_cpu_is_told_with_its_name() {
    if !has(Need::Ebpf) {
        return;
    }
    let _alone = alone();
    let cpu = measured_cpu();
    let meter = EbpfMeter::start(spec(vec![Watch::Process(std::process::id())])).expect("eBPF");
    let heart = meter.heartbeat(cpu).expect("shared memory");
    let now = || {
        let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).unwrap();
        Duration::from(now).as_nanos() as u64
    };
    eventually(|| {
        let mut visitor = std::process::Command::new("sh");
        // The program ends after its loop, even if this test is killed.
        visitor.args(["-c", "i=0; while [ $i -lt 3000000 ]; do i=$((i+1)); done"]);
        let pinned = move || {
            pin(cpu);
            Ok(())
        };
        // SAFETY: between fork and exec the closure makes one system call, which uses only memory of its own stack.
        let mut visitor =
            unsafe { std::os::unix::process::CommandExt::pre_exec(&mut visitor, pinned) }.spawn().unwrap();
        let from_ns = now();
        while_spinning(|_| thread::sleep(Duration::from_millis(200)));
        let to_ns = now();
        visitor.kill().unwrap();
        visitor.wait().unwrap();
        let visits = heart.visits(from_ns, to_ns).expect("programs tell");
        let of_sh: u64 = visits
            .iter()
            .filter(|visit| visit.task == "sh")
            .map(|visit| visit.time.to_ns.min(to_ns) - visit.time.from_ns.max(from_ns))
            .sum();
        // Two spinning programs share the CPU; the last visit may not be recorded yet.
        expect((40_000_000..180_000_000).contains(&of_sh), (of_sh, visits))?;
        let alone_ns = now();
        while_spinning(|_| thread::sleep(Duration::from_millis(50)));
        let visits = heart.visits(alone_ns, now()).expect("programs tell");
        expect(visits.iter().all(|visit| visit.task != "sh"), visits)
    });
}
