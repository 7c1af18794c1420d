//! Where packets of `rfc2544` and of `stream` over UDP went, with drops provoked in namespaces that the test makes.
//!
//! Every trial is exact: no packet is unexplained. Some kernels do not run the tracer's program at each drop
//! (docs/accuracy.md). These drops have a separate row. If a counter of the router counts the drops at the place, its
//! value must agree exactly with the ledger, that row included. `NETCLIFF_PROVOKED_TRIALS=60` makes 60 trials of each
//! kind and prints the counts. `NETCLIFF_PROVOKED_ONLY="no route"` runs only the kinds whose name contains these words.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use netcliff_core::ledger::{Ledger, Place as At};
use netcliff_core::repeats::Repeats;
use netcliff_host::cpu::{Method as CpuMethod, Preference};
use netcliff_host::testbed::forward::Forwarding;
use netcliff_host::testbed::netns::Side;
use netcliff_packets::thread::in_netns;
use netcliff_rfc2544::conduct::Device as _;
use netcliff_rfc2544::kernel::{Kernel, Place};
use netcliff_rfc2544::settings::{FrameSize, Settings};
use netcliff_testkit::{Need, Shared, built, has, has_namespaces, has_program, skip, turn};
use netcliff_transfer::bulk::{self, Channel, DatagramPath};
use netcliff_transfer::stream::{self, Method, Path as Way, StreamOptions};
use netcliff_trial::rig::{self, Rig, RigOptions};

fn may() -> bool {
    has(Need::Cpus) && has_namespaces() && has(Need::Root) && has(Need::Ebpf) && has_program("ip")
}

fn inside<T: Send>(netns: &Path, work: impl FnOnce() -> T + Send) -> T {
    in_netns(Some(netns), work).expect("the namespace is there")
}

fn run(netns: &Path, command: &str) {
    let mut words = command.split(' ');
    let done = inside(netns, || Command::new(words.next().unwrap()).args(words).output()).unwrap();
    assert!(done.status.success(), "{command}: {}", String::from_utf8_lossy(&done.stderr));
}

fn nft(netns: &Path, rules: &str) {
    let fed = inside(netns, || {
        let mut nft = Command::new("nft").args(["-f", "-"]).stdin(Stdio::piped()).spawn()?;
        nft.stdin.take().expect("it is piped").write_all(rules.as_bytes())?;
        nft.wait()
    });
    assert!(fed.unwrap().success(), "{rules}");
}

/// Whether a kind can be provoked by this kernel.
fn has_kind(need: Need, program: &str, what: &str) -> bool {
    let both = has(need) && has_program(program);
    if !both {
        skip(need, what);
    }
    both
}

/// Largest number of additional trials. They run while the tracer misses too many of the drops.
const MORE_TRIALS: u32 = 9;

/// Checks that each trial accounts for all packets and loses some at the expected place.
fn provoke(kind: &str, place: Option<At>, mut trial: impl FnMut() -> Ledger) {
    if std::env::var("NETCLIFF_PROVOKED_ONLY").is_ok_and(|part| !kind.contains(&part)) {
        return;
    }
    let trials: u32 = std::env::var("NETCLIFF_PROVOKED_TRIALS").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let (mut done, mut sent, mut lost, mut shown, mut not_shown, mut trials_not_shown) = (0, 0, 0, 0, 0, 0);
    // This kernel may not run the tracer's program during much of one trial. A bound on the missed drops then needs
    // more trials.
    while done < trials || (shown <= 10 * not_shown && place.is_some() && done < trials + MORE_TRIALS) {
        done += 1;
        let ledger = trial();
        assert!(ledger.sent > 0 && ledger.method.starts_with("eBPF"), "{kind}: {ledger:#?}");
        assert_eq!(ledger.unexplained, 0, "{kind}: {ledger:#?}");
        let not_traced = ledger.not_shown_packets();
        if let Some(place) = place {
            let here = ledger.dropped.iter().filter(|row| row.place == place).map(|row| row.packets).sum::<u64>();
            assert!(here + not_traced > 0, "{kind}: {ledger:#?}");
            is_counted(&ledger, place, here + not_traced);
            shown += here;
        } else {
            assert_eq!(not_traced, 0, "{kind}: {ledger:#?}");
        }
        sent += ledger.sent;
        lost += ledger.dropped_packets();
        not_shown += not_traced;
        trials_not_shown += u64::from(not_traced > 0);
    }
    assert!(place.is_none() || shown > 10 * not_shown, "{kind}: {shown} shown, {not_shown} not");
    let said = format!(
        "{kind}: {done} trials, {sent} packets sent, {lost} dropped, of which {not_shown} in {trials_not_shown} trials not shown to the tracer, \
         0 unexplained"
    );
    let _ = writeln!(std::io::stdout().lock(), "{said}");
}

/// A counter of the router's IP layer includes the drops at that place that the tracer does not see. The router routes
/// only packets of the trial.
fn is_counted(ledger: &Ledger, place: At, dropped: u64) {
    let no_route = ledger.counters.iter().find(|row| row.place == place && row.reason == "IpExt InNoRoutes");
    if let Some(counter) = no_route {
        assert_eq!(counter.packets, dropped, "{ledger:#?}");
    }
}

#[test]
fn every_frame_through_a_router_is_accounted_for() {
    if !may() {
        return;
    }
    let _turn = turn(Shared::Cpus);
    let settings = Settings { settle_s: 0.5, rest_s: 0.0, trial_s: 0.2, ..Settings::default() };
    let place = || Place::Namespaces { forwarding: Forwarding::Route, rules: 20, router_cpu: None };
    let mut device = built(|| Kernel::build(&settings, place(), None, Arc::<AtomicBool>::default()));
    device.frames(FrameSize::Fixed(64)).unwrap();
    let router = device.router_netns_path().expect("it is a router in a namespace");
    let trial = |device: &mut Kernel, load_pps: f64| device.ledger(load_pps).unwrap().expect("it can").ledger;
    provoke("rfc2544: whole", None, || trial(&mut device, 20e3));

    if has_kind(Need::Tbf, "tc", "no qdisc") {
        run(&router, "tc qdisc add dev rtr1 root tbf rate 2mbit burst 1600 limit 3000");
        provoke("rfc2544: qdisc", Some(At::Qdisc), || trial(&mut device, 20e3));
        run(&router, "tc qdisc del dev rtr1 root");
    }
    run(&router, "ip route del 198.19.0.0/17");
    provoke("rfc2544: no route", Some(At::Ip), || trial(&mut device, 20e3));
    run(&router, "ip route add 198.19.0.0/17 via 198.19.255.2");
    if !has_kind(Need::Nftables, "nft", "no netfilter and no full backlog") {
        return;
    }
    nft(&router, "table ip t { chain c { type filter hook forward priority 0; numgen inc mod 2 0 drop; }; };\n");
    provoke("rfc2544: netfilter", Some(At::Netfilter), || trial(&mut device, 20e3));
    // Enough rules to make the router slower than the sender.
    let rules = (0..6000).map(|port| format!("udp dport {} drop; ", 30_000 + port)).collect::<String>();
    let chain = format!("table ip t {{ chain c {{ type filter hook prerouting priority 0; {rules} }};\n}};\n");
    nft(&router, &format!("delete table ip t;\n{chain}"));
    provoke("rfc2544: backlog", Some(At::Backlog), || trial(&mut device, 100e3));
}

fn options(rig: &Rig, path: DatagramPath) -> StreamOptions {
    let address = rig.host_address();
    StreamOptions {
        template: bulk::Settings::new(Channel::Udp { address, path }),
        method: Method::Default,
        blocks_bytes: vec![1000],
        read_bytes: None,
        paths: vec![Way::Datagram(path)],
        repeats: Repeats::exactly(1),
        warm_up_s: Some(0.02),
        time_s: 0.1,
        bytes: None,
        link_bps: None,
        cpu: Preference::Only(CpuMethod::Procfs),
        probe: None,
        ledger: true,
        guest: None,
        live: None,
        stop: Arc::default(),
        command: "netcliff stream".to_owned(),
        started_unix_s: 0.0,
    }
}

#[test]
fn every_datagram_of_a_stream_is_accounted_for() {
    if !may() {
        return;
    }
    let _turn = turn(Shared::Cpus);
    let asked = || RigOptions { place: rig::Place::Netns, ..RigOptions::default() };
    let rig = built(|| Rig::build(&asked(), Arc::<AtomicBool>::default()));
    let [sender, host] = [Side::Sender, Side::HostUnderTest].map(|side| rig.netns(side).expect("it has namespaces"));
    let trial = |options: &StreamOptions| {
        let report = stream::in_testbed(options, &rig, &mut |_| {}).unwrap_or_else(|error| panic!("{error}"));
        let row = report.rows.into_iter().next().expect("a row");
        row.ledger.unwrap_or_else(|| panic!("{:?} {:?}", row.cut_short, report.not_had)).ledger
    };
    let paced = |path| {
        let mut options = options(&rig, path);
        options.template.options.pacing_bps = Some(80_000_000);
        options
    };
    provoke("stream: paced", None, || trial(&paced(DatagramPath::Single)));
    // A small buffer and a sender without pacing.
    for path in [DatagramPath::Single, DatagramPath::Batch, DatagramPath::Segmented, DatagramPath::SegmentedOut] {
        let mut flat_out = options(&rig, path);
        flat_out.template.options.receive_buffer_bytes = Some(4096);
        provoke(&format!("stream: socket, {path:?}"), Some(At::Socket), || trial(&flat_out));
    }
    if has_kind(Need::Tbf, "tc", "no qdisc") {
        run(&sender, "tc qdisc add dev veth0 root tbf rate 20mbit burst 3000 limit 6000");
        for path in [DatagramPath::Single, DatagramPath::Batch] {
            provoke(&format!("stream: qdisc, {path:?}"), Some(At::Qdisc), || trial(&paced(path)));
        }
        run(&sender, "tc qdisc del dev veth0 root");
    }
    if has_kind(Need::Nftables, "nft", "no netfilter") {
        nft(
            &host,
            "table ip t { chain c { type filter hook input priority 0; ip protocol udp numgen inc mod 2 0 drop; }; };\n",
        );
        provoke("stream: netfilter", Some(At::Netfilter), || trial(&paced(DatagramPath::Single)));
    }
}

/// Datagrams in fragments cannot be accounted for; the reason is reported.
#[test]
fn fragments_have_no_ledger_but_a_reason() {
    if !may() {
        return;
    }
    let asked = || RigOptions { place: rig::Place::Netns, ..RigOptions::default() };
    let rig = built(|| Rig::build(&asked(), Arc::<AtomicBool>::default()));
    let mut options = options(&rig, DatagramPath::Single);
    options.blocks_bytes = vec![40_000];
    options.template.options.pacing_bps = Some(80_000_000);
    run(&rig.netns(Side::Sender).expect("a namespace"), "ip link set dev veth0 mtu 1500");
    let report = stream::in_testbed(&options, &rig, &mut |_| {}).unwrap_or_else(|error| panic!("{error}"));
    assert!(report.rows[0].ledger.is_none());
    let why = report.not_had.iter().find(|why| why.starts_with("ledger")).expect("the reason");
    assert!(why.contains("fragments") && why.contains("1500") && why.contains("--block 1472"), "{why}");
}
