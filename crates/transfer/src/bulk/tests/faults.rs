//! Impossible settings and failures during a transfer: the error names them, and the counts up to then are returned.

use super::*;
use netcliff_testkit::{Need, has, skip};

#[test]
fn settings_out_of_range_are_named() {
    let refused = |change: fn(&mut Settings)| {
        let mut changed = settings(Channel::Pipe, 1);
        change(&mut changed);
        run(&changed, &mut ()).expect_err("out of range").to_string()
    };
    assert!(refused(|s| s.block_bytes = 0).contains("block_bytes is 0"));
    assert!(refused(|s| s.block_bytes = 1 << 40).contains("1 to 16777216 bytes"));
    assert!(refused(|s| s.read_bytes = 0).contains("read_bytes is 0"));
    assert!(refused(|s| s.amount = Amount::Seconds(0.0)).contains("time_s is 0"));
    assert!(refused(|s| s.amount = Amount::Seconds(1e9)).contains("time_s is 1000000000"));
    assert!(refused(|s| s.amount = Amount::Bytes(0)).contains("bytes is 0"));
    assert!(refused(|s| s.warm_up_s = f64::NAN).contains("warm_up_s is NaN"));
    assert!(refused(|s| s.flows = 0).contains("flows is 0"));
    assert!(refused(|s| s.acknowledged = true).contains("number of bytes in one window"));
    assert!(refused(|s| s.channel = udp(DatagramPath::Single)).contains("8 to 65507 bytes"));
}

#[test]
fn an_address_of_another_host_is_named_and_ends_both_ends() {
    // 192.0.2.0/24 is reserved for documentation: no host has such an address.
    let elsewhere = Channel::Tcp { address: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), multipath: false };
    let error = run(&settings(elsewhere, 1), &mut ()).expect_err("not ours").to_string();
    assert!(error.contains("192.0.2.1") && error.contains("not configured"), "{error}");
}

#[test]
fn a_cpu_that_does_not_exist_ends_both_ends() {
    let mut changed = settings(tcp(), 1);
    changed.near.cpu = Some(100_000);
    let error = run(&changed, &mut ()).expect_err("no such CPU").to_string();
    assert!(error.contains("cpu is 100000"), "{error}");
}

#[test]
fn a_congestion_control_that_does_not_exist_is_refused_with_those_there_are() {
    let mut changed = settings(tcp(), 1);
    changed.options.congestion = Some("carrier-pigeon".to_owned());
    let checked = changed.check().expect_err("before anything is made").to_string();
    let error = run(&changed, &mut ()).expect_err("no such algorithm").to_string();
    assert_eq!(checked, error);
    assert!(error.contains("carrier-pigeon") && error.contains("cubic"), "{error}");
}

#[test]
fn a_path_the_channel_does_not_have_is_refused() {
    let mut changed = settings(Channel::Pipe, 4096);
    changed.path = SendPath::ZeroCopy;
    let error = run(&changed, &mut ()).expect_err("a pipe has no socket options").to_string();
    assert!(error.contains("SO_ZEROCOPY"), "{error}");
}

#[test]
fn a_file_that_shrinks_is_told_and_what_was_sent_is_kept() {
    let (path, mut file) = tempfile();
    file.write_all(&vec![7; 4 << 20]).expect("room in /tmp");
    let mut changed = settings(tcp(), 4096);
    changed.path = SendPath::SendFile { file: path.clone(), cold: false };
    changed.amount = Amount::Seconds(30.0);
    let transfer = run(&changed, &mut Shrink(file)).expect("what was sent is kept");
    std::fs::remove_file(path).expect("it was there");
    let why = transfer.cut_short.clone().expect("it was cut short");
    assert!(why.contains("it shrank while it was sent"), "{why}");
    assert!(only(&transfer).receiver.total_bytes > 0);
}

#[test]
fn a_file_that_lies_in_memory_cannot_be_read_cold() {
    let path = std::path::Path::new("/dev/shm").join(format!("netcliff-cold-{}", std::process::id()));
    let in_memory = nix::sys::statfs::statfs("/dev/shm").map(|about| about.filesystem_type());
    if in_memory != Ok(nix::sys::statfs::TMPFS_MAGIC) || std::fs::write(&path, [7; 100_000]).is_err() {
        return skip(Need::Tmpfs, "no tmpfs at /dev/shm to write to");
    }
    let mut changed = settings(tcp(), 4096);
    changed.path = SendPath::SendFile { file: path.clone(), cold: true };
    let error = run(&changed, &mut ()).map(drop);
    std::fs::remove_file(&path).expect("it was there");
    let error = error.expect_err("it cannot be dropped").to_string();
    assert!(error.contains(&path.display().to_string()) && error.contains("tmpfs"), "{error}");
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let mut changed = settings(tcp(), 4096);
    changed.path = SendPath::SendFile { file: "/nowhere/at-all".into(), cold: false };
    let error = run(&changed, &mut ()).expect_err("no such file").to_string();
    assert!(error.contains("/nowhere/at-all"), "{error}");
}

#[test]
fn a_receiver_that_leaves_ends_the_sender_which_keeps_its_count() {
    let (mine, theirs) = UnixStream::pair().expect("a pair");
    let long = settings(Channel::Unix, 4096);
    let spans = Spans { warm_up_ns: 0, ..long.spans().expect("in range") };
    let phase = meter::Phase::default();
    phase.set(1);
    let killed = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(20));
        drop(theirs);
    });
    let mover = path::mover(&SendPath::Write, mine.as_fd(), 4096, spans.stall_ns).expect("a path");
    let end = end::send(mover, mine.as_fd(), &long, &spans, (&phase, None)).expect("counted");
    killed.join().expect("it only sleeps");
    let why = end.failure.expect("the receiver left");
    assert!(why.contains("Broken pipe") || why.contains("Connection reset"), "{why}");
    assert!(end.total_bytes > 0 && end.windows.len() == 1);
}

#[test]
fn a_receiver_that_does_not_read_ends_the_sender_in_the_stated_time() {
    let (mine, _theirs) = UnixStream::pair().expect("a pair");
    let mut long = settings(Channel::Unix, 4096);
    long.stall_s = 0.1;
    let spans = long.spans().expect("in range");
    options::stall(mine.as_fd(), spans.stall_ns).expect("a socket has time-outs");
    let mover = path::mover(&SendPath::Write, mine.as_fd(), 4096, spans.stall_ns).expect("a path");
    let end = end::send(mover, mine.as_fd(), &long, &spans, (&meter::Phase::default(), None)).expect("counted");
    let why = end.failure.expect("it gave up");
    assert!(why.contains("nothing moved for 0.1 s"), "{why}");
}

#[test]
fn a_transfer_that_is_stopped_keeps_what_it_counted() {
    let stop = Arc::<AtomicBool>::default();
    let mut long = settings(tcp(), 4096);
    (long.amount, long.stop) = (Amount::Seconds(600.0), Some(Arc::clone(&stop)));
    let transfer = run(&long, &mut Raise(stop)).expect("what was counted is kept");
    assert!(transfer.cut_short.is_some_and(|why| why.contains("stopped")));
    assert!(transfer.flows[0].sender.total_bytes > 0);
}

#[test]
fn a_receiver_by_ring_that_hears_nothing_ends_in_the_stated_time() {
    let (mine, _theirs) = UnixStream::pair().expect("a pair");
    let mut long = settings(Channel::Unix, 4096);
    long.stall_s = 0.1;
    let spans = long.spans().expect("in range");
    if !has(Need::Uring) {
        return;
    }
    let mover = Box::new(linux::uring::Receiver::new(mine.as_fd(), 4096, spans.stall_ns).expect("a ring"));
    let end = end::receive(mover, mine.as_fd(), &long, &spans, (&meter::Phase::default(), None)).expect("counted");
    assert!(end.failure.is_some_and(|why| why.contains("nothing moved for 0.1 s")));
}

/// Setting the host's real-time clock during a transfer changes no result: no code here reads it.
#[test]
fn no_figure_depends_on_a_clock_that_can_be_set() {
    fn sources(room: &std::path::Path) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(room).expect("sources are beside their tests").flatten();
        let paths = entries.map(|entry| entry.path());
        paths.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
    }
    let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crates' directory");
    let rooms = ["transfer/src", "remote/src/control"];
    let single =
        ["packets/src/schedule.rs", "packets/src/latency.rs", "remote/src/far_meter.rs"].map(|name| crates.join(name));
    let files: Vec<PathBuf> = rooms.iter().flat_map(|room| sources(&crates.join(room))).chain(single).collect();
    assert!(files.len() > 50, "{}", files.len());
    for path in files.iter().filter(|path| !path.ends_with("bulk/tests/faults.rs")) {
        let text = std::fs::read_to_string(path).expect("a source file");
        for clock in ["SystemTime", "realtime_ns", "CLOCK_REALTIME", "UNIX_EPOCH"] {
            assert!(!text.contains(clock), "{} reads {clock}", path.display());
        }
    }
}

#[test]
fn a_port_that_is_unreachable_for_a_while_does_not_end_it() {
    let bind = |address: (IpAddr, u16)| std::net::UdpSocket::bind(address).expect("loopback");
    let address = bind((LOOPBACK, 0)).local_addr().expect("it is bound");
    let socket = bind((LOOPBACK, 0));
    socket.connect(address).expect("loopback");
    let over = AtomicBool::new(false);
    for path in [DatagramPath::Single, DatagramPath::Batch] {
        let mut sender =
            datagram::Sender::new(socket.as_fd(), path, 64, None, (false, &over)).expect("the options are known");
        for _ in 0..20 {
            end::DataPath::step(&mut sender).expect("nobody listens, and it goes on");
        }
        let mut counted = End::default();
        end::DataPath::finish(&mut sender, &mut counted).expect("nothing is under way");
        // No datagram reached a receiver; the ICMP answers to the last ones may still be under way.
        let counts = counted.datagrams.expect("datagrams were sent");
        assert!(counts.moved > 0 && (1..=counts.moved).contains(&counts.unreachable), "{path:?} {counts:?}");
        assert!(counts.unreachable + 2 >= counts.moved, "{path:?} {counts:?}");
        let listener = bind((address.ip(), address.port()));
        listener.set_read_timeout(Some(std::time::Duration::from_secs(5))).expect("a time");
        // The first step may only report the error of the previous datagram.
        for _ in 0..2 {
            end::DataPath::step(&mut sender).expect("it goes on");
        }
        assert_eq!(listener.recv(&mut [0; 100]).expect("it arrives"), 64);
    }
}
