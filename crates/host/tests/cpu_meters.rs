//! The meters against work whose cost is known: a spinning thread, and datagrams that are counted.
//!
//! The figures are compared with wide margins: the machine may be shared. What must be exact (the
//! partition of the wall time, the number of packets) is compared exactly or nearly so.

use netcliff_host::cpu::{
    CpuMeter, CpuSplit, MeterError, MeterSpec, Method, Preference, Watch, choose,
    ebpf::{Class, EbpfMeter},
    soaker::SoakerMeter,
};
use std::{
    hint::black_box,
    net::UdpSocket,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

/// These tests measure the same CPUs: one at a time.
fn alone() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

#[expect(clippy::print_stderr, reason = "a test that cannot run says so")]
fn skipped(reason: impl std::fmt::Display) {
    eprintln!("SKIPPED: {reason}");
}

/// The last CPU: the first one often serves the devices.
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

/// Runs `during` while a thread spins on the measured CPU; gives it the thread's id.
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

/// Starts a meter, or says why not.
fn start(method: Method, spec: &MeterSpec) -> Option<Box<dyn CpuMeter>> {
    match choose(Preference::Only(method), spec) {
        Ok(choice) => Some(choice.meter),
        Err(error @ MeterError::Unavailable { .. }) => {
            skipped(error);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn start_ebpf(spec: MeterSpec) -> Option<EbpfMeter> {
    match EbpfMeter::start(spec) {
        Ok(meter) => Some(meter),
        Err(error @ MeterError::Unavailable { .. }) => {
            skipped(error);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn read_after(meter: &mut dyn CpuMeter, time: Duration) -> CpuSplit {
    meter.mark().unwrap();
    thread::sleep(time);
    meter.read().unwrap().remove(0)
}

/// The spinning thread's share by its own clock: on a shared machine this is below 1.
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
        let (truth, split) = thread_share(tid, || read_after(&mut *meter, Duration::from_millis(800)));
        let shares = split.shares;
        // The kernel's clock for the thread includes the interrupts on top of it.
        let on_top = shares.interrupt.unwrap() + shares.protocol.unwrap() + shares.softirq_other.unwrap();
        let application = shares.application.unwrap();
        assert!(application <= truth + 0.03, "{application} of {truth}");
        assert!(application + on_top >= truth - 0.03, "{application} + {on_top} of {truth}");
        assert!((shares.sum() - 1.0).abs() < 0.005, "{shares:?}");
        assert_eq!(split.method, Method::Ebpf);
    });
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
        let (truth, split) = thread_share(tid, || read_after(&mut *meter, Duration::from_millis(400)));
        let application = split.shares.application.unwrap();
        assert!(application > truth - 0.1, "{application} of {truth}");
    });
}

#[test]
fn procfs_sees_a_spinning_thread() {
    let _alone = alone();
    while_spinning(|tid| {
        let Some(mut meter) = start(Method::Procfs, &spec(vec![Watch::Thread(tid)])) else {
            return;
        };
        let (truth, split) = thread_share(tid, || read_after(&mut *meter, Duration::from_millis(1000)));
        // Steps of 10 ms in both readings, a sample every 4 ms.
        let application = split.shares.application.unwrap();
        assert!((application - truth).abs() < 0.1, "{application} of {truth}");
        assert!(split.shares.idle.unwrap() < 0.1, "{split:?}");
        assert!(split.notes[0].contains("timer tick"));
        assert!(split.resolution_share >= 0.009);
    });
}

#[test]
fn the_soaker_gets_what_is_left() {
    let _alone = alone();
    let mut meter = match SoakerMeter::start(spec(vec![]), Duration::from_millis(300)) {
        Ok(meter) => meter,
        Err(error @ MeterError::Unavailable { .. }) => return skipped(error),
        Err(error) => panic!("{error}"),
    };
    let busy = while_spinning(|_| read_after(&mut meter, Duration::from_millis(600)));
    let estimate = busy.available.unwrap();
    assert!(estimate.mean < 0.05, "{estimate:?}");
    assert!(estimate.half_width.is_some() && estimate.batches >= 10, "{estimate:?}");
    // What is left on the machine as it is: all that the soaker's competitors did not take.
    let (idle_before, started) = (busy_ticks(), Instant::now());
    let free = read_after(&mut meter, Duration::from_millis(600));
    let others = (busy_ticks() - idle_before) as f64 * 0.01 / started.elapsed().as_secs_f64();
    let available = free.shares.available.unwrap();
    assert!((available + others - 1.0).abs() < 0.15, "available {available}, others {others}");
}

/// Ticks of the measured CPU that were neither idle nor nice nor user time of this process; the soaker's
/// own time is user time, so it is taken from its thread.
fn busy_ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap();
    let label = format!("cpu{} ", measured_cpu());
    let line = stat.lines().find(|line| line.starts_with(&label)).unwrap();
    let ticks: Vec<u64> = line.split_whitespace().skip(1).map(|t| t.parse().unwrap()).collect();
    let all = ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6] + ticks[7];
    all.saturating_sub(soaker_ticks())
}

fn soaker_ticks() -> u64 {
    let name = format!("soaker/{}", measured_cpu());
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let mut ns = 0u64;
    for task in tasks.map(|entry| entry.path()) {
        let comm = std::fs::read_to_string(task.join("comm")).unwrap_or_default();
        if comm.trim() == name {
            let text = std::fs::read_to_string(task.join("schedstat")).unwrap();
            ns += text.split_whitespace().next().unwrap().parse::<u64>().unwrap();
        }
    }
    ns / 10_000_000
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
    // Two intervals add up to the one over both.
    let parts = [&second - &first, &third - &second].map(|part| part.cpus[0].figures.events());
    assert_eq!((&third - &first).cpus[0].figures.events(), parts[0] + parts[1]);
}

/// Sends datagrams to ourselves over loopback on the measured CPU; returns how many arrived.
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
    const SENT: usize = 5000;
    meter.mark().unwrap();
    let arrived = send_to_ourselves(SENT) as u64;
    let split = meter.read().unwrap().remove(0);
    let counters = split.counters;
    let backlog = counters.backlog_packets.unwrap();
    assert!(backlog >= arrived, "{backlog} of {arrived}");
    // Others use loopback and veth too, but not much on this CPU in this moment.
    assert!(backlog < arrived * 3 / 2, "{backlog} of {arrived}");
    // softnet_stat counts what enters the stack, the polls what they processed.
    let processed = counters.softnet_processed.unwrap();
    let packets = counters.packets.unwrap();
    assert!(processed.abs_diff(packets) <= packets / 50 + 20, "{processed} against {packets}");
    // One datagram at a time: each is delivered by a softirq of its own, run by the sender as it
    // leaves the transmit path.
    let softirqs = counters.softirqs.unwrap();
    assert!(softirqs * 10 >= arrived * 9, "{softirqs} for {arrived}");
    assert!(counters.softirqs_from_process.unwrap() * 10 >= arrived * 8, "{counters:?}");
    let origins = counters.softirqs_from_process.unwrap()
        + counters.softirqs_from_irq.unwrap()
        + counters.softirqs_from_ksoftirqd.unwrap();
    assert_eq!(origins, softirqs);

    // The table of polls holds the same polls, and the time of all of them is the softirq's.
    let table = split.polls.as_ref().unwrap();
    let polls: u64 = table.cells.iter().map(|cell| cell.polls).sum();
    assert_eq!(polls, counters.polls.unwrap());
    let total_s: f64 = table.cells.iter().map(|cell| cell.total_s).sum::<f64>() + table.tail_s;
    let protocol_s = split.shares.protocol.unwrap() * split.elapsed_s;
    assert!((total_s / protocol_s - 1.0).abs() < 0.02, "{total_s} of {protocol_s} s");
    assert_eq!(table.histogram_log2().iter().sum::<u64>(), polls);
    assert!(split.overhead_share.is_none_or(|share| share > 0.0 && share < 0.2), "{split:?}");
}

#[test]
fn the_softirq_counts_of_ebpf_and_procfs_agree() {
    let _alone = alone();
    let Some(mut exact) = start(Method::Ebpf, &spec(vec![])) else {
        return;
    };
    let mut sampled = start(Method::Procfs, &spec(vec![])).unwrap();
    exact.mark().unwrap();
    sampled.mark().unwrap();
    send_to_ourselves(5000);
    let exact = exact.read().unwrap().remove(0).counters;
    let sampled = sampled.read().unwrap().remove(0).counters;
    for (name, a, b) in [
        ("softirqs", exact.softirqs, sampled.softirqs),
        ("timer interrupts", exact.timer_interrupts, sampled.timer_interrupts),
    ] {
        let (a, b) = (a.unwrap(), b.unwrap());
        assert!(a.abs_diff(b) <= a / 50 + 10, "{name}: {a} against {b}");
    }
}

#[test]
fn the_programs_say_what_they_cost() {
    let _alone = alone();
    let Some(meter) = start_ebpf(spec(vec![])) else {
        return;
    };
    let Some(cost) = meter.overhead() else {
        return skipped("the kernel does not tell the programs' run time");
    };
    assert!(cost.ns_per_event > 1.0 && cost.ns_per_event < 5000.0, "{cost:?}");
    assert!(cost.runs > 100, "{cost:?}");
    assert_eq!(meter.missing(), [] as [String; 0]);
}
