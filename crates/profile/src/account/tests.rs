use super::*;

fn frames(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn table() -> Table {
    Table::new(Some((6, 18)), &[])
}

fn stage(names: &[&str]) -> (Stage, bool) {
    stage_of(&table(), &frames(names))
}

const SYSCALL: [&str; 2] = ["do_syscall_64", "entry_SYSCALL_64_after_hwframe"];

#[test]
fn the_innermost_function_with_a_row_decides() {
    let copying = ["_copy_to_iter", "__skb_datagram_iter", "udp_recvmsg", "sock_recvmsg", SYSCALL[0], SYSCALL[1]];
    assert_eq!(stage(&copying), (Stage::Copy, false));
    assert_eq!(stage(&copying[2..]), (Stage::Transport, false));
    assert_eq!(stage(&copying[3..]), (Stage::Syscall, false));
    // A helper's time belongs to its caller.
    let helped = ["_raw_spin_unlock_irqrestore", "try_to_wake_up", "sock_def_readable", "net_rx_action"];
    assert_eq!(stage(&helped), (Stage::Socket, false));
    assert_eq!(stage(&["memcpy", "skb_release_data", "net_rx_action"]), (Stage::Release, false));
}

#[test]
fn an_unknown_function_is_its_caller_s_unless_that_calls_everything() {
    assert_eq!(stage(&["new_function", "ip_rcv", "net_rx_action"]), (Stage::Ip, true));
    assert_eq!(stage(&["new_function", "net_rx_action", "handle_softirqs"]), (Stage::Unknown, false));
    assert_eq!(stage(&["net_rx_action", "handle_softirqs"]), (Stage::Interrupt, false));
    assert_eq!(stage(&["(unnamed)"]), (Stage::Unknown, false));
    assert_eq!(stage(&[]), (Stage::Unknown, false));
}

#[test]
fn programs_of_tracers_are_no_stage_of_a_packet() {
    let xdp = ["bpf_prog_1234_loop [bpf]", "do_xdp_generic", "__netif_receive_skb_one_core", "net_rx_action"];
    assert_eq!(stage(&xdp), (Stage::Xdp, false));
    // The trampoline of a tracer calls both the tracer's program at the function's entry, and the function itself.
    let traced = ["bpf_get_current_pid_tgid", "bpf_prog_5678_probe [bpf]", "bpf_trampoline_42 [bpf]", "udp_sendmsg"];
    assert_eq!(stage(&traced), (Stage::Tracing, false));
    assert_eq!(stage(&["ip_rcv_core", "ip_rcv", "bpf_trampoline_42 [bpf]", "process_backlog"]), (Stage::Ip, false));
    assert_eq!(stage(&["memcpy", "bpf_prog_9 [bpf]", "bpf_trace_run1", "ip_rcv"]), (Stage::Tracing, false));
}

const MS: f64 = 1e6;

fn one(pid: u32, program: &str, mode: Mode, names: &[&str], ns: [f64; 4], samples: u64) -> Stack {
    Stack { pid, program: program.to_owned(), mode, frames: frames(names), ns: ns.to_vec(), samples }
}

/// Four slices of one second with 1000 packets each. Softirqs take 300 ms per slice and interrupt any task. The server
/// takes 100 ms in its own code and 200 ms in copying. A compiler, this program and the idle task take the rest of two
/// CPUs.
fn window() -> Window {
    let each = |ms: f64| [ms * MS; 4];
    Window {
        stacks: vec![
            one(7, "server", Mode::User, &[], each(100.0), 400),
            one(7, "server", Mode::Kernel, &["_copy_to_iter", "udp_recvmsg", SYSCALL[0]], each(180.0), 720),
            one(7, "server", Mode::Kernel, &["udp_recvmsg", SYSCALL[0]], each(20.0), 80),
            one(
                8,
                "rustc",
                Mode::Kernel,
                &["ip_rcv", "net_rx_action", "handle_softirqs", "asm_common_interrupt"],
                each(250.0),
                1000,
            ),
            one(
                0,
                "idle task",
                Mode::Kernel,
                &["strange", "net_rx_action", "handle_softirqs", "do_idle"],
                each(50.0),
                200,
            ),
            one(8, "rustc", Mode::User, &[], each(400.0), 1600),
            one(9, "netcliff (this run)", Mode::User, &[], each(10.0), 40),
            one(
                0,
                "idle task",
                Mode::Kernel,
                &["pv_native_safe_halt", "do_idle", "cpu_startup_entry"],
                each(990.0),
                3960,
            ),
        ],
        slices: vec![Slice { seconds: 1.0, packets: 1000.0 }; 4],
        own: Some(9),
        watched: None,
    }
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * b.abs().max(1.0)
}

#[test]
fn the_account_is_exact_on_exact_samples() {
    let account = account(&table(), &window());
    let row =
        |stage: Stage| account.stages.iter().find(|row| row.stage == stage).unwrap_or_else(|| panic!("{stage:?}"));
    let us = |stage: Stage| row(stage).per_packet_s.expect("packets").value * 1e6;
    assert!(near(us(Stage::Application), 100.0) && near(us(Stage::Copy), 180.0), "{:?}", account.stages);
    assert!(near(us(Stage::Ip), 250.0) && near(us(Stage::Unknown), 50.0));
    assert!(near(account.per_packet_s.unwrap().value * 1e6, 600.0));
    assert_eq!(account.samples, 2400);
    let shares: f64 = account.stages.iter().map(|row| row.share.value).sum();
    assert!(near(shares, 1.0));
    let classes = account.classes;
    assert!(near(classes.softirq, 0.3) && near(classes.application, 0.3) && near(classes.others, 0.4), "{classes:?}");
    assert!(near(classes.own, 0.01) && near(classes.idle, 0.99));
    // rustc was interrupted by softirqs, which is not its own work: it does no work for the network.
    let counted: Vec<(&str, bool)> = account.programs.iter().map(|one| (one.name.as_str(), one.counted)).collect();
    assert_eq!(counted, [("rustc", false), ("server", true)]);
    assert_eq!(row(Stage::Copy).by_slice_s.len(), 4);
    assert_eq!(row(Stage::Application).functions[0].function, "server");
    // A flame graph shows the compiler, but not idle time.
    assert_eq!(account.folded.len(), 7);
}

#[test]
fn a_named_process_is_the_application_alone() {
    let account = account(&table(), &Window { watched: Some(8), ..window() });
    assert!(near(account.classes.application, 0.4) && near(account.classes.others, 0.3), "{:?}", account.classes);
    assert!(account.stages.iter().all(|row| row.stage != Stage::Copy));
}

#[test]
fn without_packets_there_are_shares() {
    let mut none = window();
    none.slices.iter_mut().for_each(|slice| slice.packets = 0.0);
    let account = account(&table(), &none);
    assert_eq!(account.per_packet_s, None);
    assert!(
        account
            .stages
            .iter()
            .all(|row| row.per_packet_s.is_none() && row.by_slice_s.is_empty() && row.share.value > 0.0)
    );
}

/// If all slices are equal, the interval is the interval of the count alone: the application has 400 of 8000 samples.
#[test]
fn an_interval_is_at_least_that_of_the_count() {
    let account = account(&table(), &window());
    let row = account.stages.iter().find(|row| row.stage == Stage::Application).unwrap();
    let interval = row.per_packet_s.unwrap().interval.unwrap();
    let half = (interval.high - interval.low) / 2.0 / 1e-4;
    let of_all: f64 = 400.0 / 8000.0;
    let expected = 1.96 / 20.0 * (1.0 - of_all).sqrt();
    assert!((half / expected - 1.0).abs() < 0.05, "{half} {expected}");
    // Different slices widen the interval.
    let mut uneven = window();
    uneven.stacks[0].ns = vec![0.0, 200.0 * MS, 0.0, 200.0 * MS];
    let wide = super::account(&table(), &uneven);
    let row = wide.stages.iter().find(|row| row.stage == Stage::Application).unwrap();
    let wide = row.per_packet_s.unwrap().interval.unwrap();
    assert!(wide.high - wide.low > 3.0 * (interval.high - interval.low), "{wide:?}");
}

#[test]
fn folded_stacks_begin_outermost_and_hold_no_space() {
    let text = folded(&account(&table(), &window()).folded);
    assert!(text.contains("server;do_syscall_64;udp_recvmsg;_copy_to_iter 720\n"), "{text}");
    assert!(text.contains("netcliff_(this_run) 40\n"), "{text}");
}

/// Stacks of a real kernel (named at the head of the file): the table has nearly all of their functions.
#[test]
fn the_table_knows_what_a_real_kernel_does() {
    let text = include_str!("../../tests/fixtures/linux-6.18-udp-tcp-nftables.txt");
    let mut stacks: Vec<Stack> = Vec::new();
    let mut path: Vec<String> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split(' ').collect();
        path.truncate(words[0].parse().expect("a depth"));
        path.push(words[1].replace("_[", " ["));
        let Some(samples) = words.get(2).map(|samples| samples.parse::<u64>().expect("a count")) else { continue };
        let program = path[0].clone();
        let mode = if path.len() == 1 { Mode::User } else { Mode::Kernel };
        let frames = path[1..].iter().rev().cloned().collect();
        stacks.push(Stack { pid: 7, program, mode, frames, ns: vec![samples as f64 * MS], samples });
    }
    let window = Window { stacks, slices: vec![Slice { seconds: 10.0, packets: 1e5 }], own: None, watched: None };
    let account = account(&table(), &window);
    let share = |stage: Stage| account.stages.iter().find(|row| row.stage == stage).map_or(0.0, |row| row.share.value);
    assert!(account.samples > 1500, "{}", account.samples);
    assert!(share(Stage::Unknown) < 0.02, "{:?}", account.stages.iter().find(|row| row.stage == Stage::Unknown));
    let by_caller: f64 = account.stages.iter().map(|row| row.share.value * row.by_caller).sum();
    assert!(by_caller < 0.08, "{by_caller}");
    for stage in [
        Stage::Interrupt,
        Stage::Allocation,
        Stage::Ip,
        Stage::Netfilter,
        Stage::Transport,
        Stage::Socket,
        Stage::Copy,
        Stage::Release,
    ] {
        assert!(share(stage) > 0.005, "{stage:?} {}", share(stage));
    }
}

/// Few samples have wide intervals, but no interval of a share ends above 1.
#[test]
fn the_interval_of_a_share_ends_at_the_whole() {
    let few = |function: &str, samples| {
        one(7, "server", Mode::Kernel, &[function, "udp_recvmsg", SYSCALL[0]], [samples as f64 * MS; 4], samples)
    };
    let window = Window {
        stacks: vec![few("_copy_to_iter", 9), few("udp_recvmsg", 2)],
        slices: vec![Slice { seconds: 1.0, packets: 1000.0 }; 4],
        ..Window::default()
    };
    let account = account(&table(), &window);
    let highs: Vec<f64> = account.stages.iter().filter_map(|row| Some(row.share.interval?.high)).collect();
    assert_eq!(highs.len(), 2, "{account:?}");
    assert!(highs.iter().all(|high| *high <= 1.0), "{highs:?}");
    assert!(highs.contains(&1.0), "nine of eleven are not all: {highs:?}");
}

/// One sample of one says little, 400 of 400 say much: the lower end is 0.025 to the power of 1 / samples.
#[test]
fn a_stage_that_has_all_samples_is_not_certain() {
    for (samples, low) in [(1, 0.025), (400, 0.990_8)] {
        let stack = one(0, "idle task", Mode::Kernel, &["net_rx_action", "handle_softirqs"], [MS; 4], samples);
        let slices = vec![Slice { seconds: 1.0, packets: 0.0 }; 4];
        let account = account(&table(), &Window { stacks: vec![stack], slices, ..Window::default() });
        let [row] = &account.stages[..] else { panic!("{account:?}") };
        let ends = row.share.interval.expect("it was sampled");
        assert!((ends.low - low).abs() < 1e-4 && ends.high == 1.0, "{samples}: {ends:?}");
    }
}
