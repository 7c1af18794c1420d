//! `netcliff rfc2544 --tx --rx`: a forwarding device that the test makes (a router in a namespace between two veth
//! pairs), and what can happen to its ports.

use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::common::Home;
use crate::schema::printed;
use netcliff_host::xdp::{Facts, Mode, ToSockets};
use netcliff_packets::thread::Placement;
use netcliff_testkit::{Need, has, skip};

/// The router's port towards the generator.
const ROUTER_MAC: &str = "02:00:00:00:0a:01";

/// Namespaces of a tester (`p0`, `p1`) and a router (`r0`, `r1`); dropping it removes both.
struct Bed {
    tester: String,
    router: String,
    /// Lock that keeps the tests apart: each of them needs a CPU to send on time.
    _turn: netcliff_testkit::Turn,
}

fn ip(arguments: &str) -> Result<(), String> {
    let words = arguments.split_whitespace();
    let output = Command::new("ip").args(words).output().map_err(|error| format!("ip {arguments}: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(()) } else { Err(format!("ip {arguments}: {said}")) }
}

impl Bed {
    fn new() -> Result<Self, String> {
        static MADE: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let turn = netcliff_testkit::turn(netcliff_testkit::Shared::Cpus);
        let number = MADE.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let stem = format!("ncp{}x{number}", std::process::id());
        let bed = Self { tester: format!("{stem}t"), router: format!("{stem}r"), _turn: turn };
        bed.build()?;
        Ok(bed)
    }

    fn build(&self) -> Result<(), String> {
        let Self { tester, router, .. } = self;
        for command in [
            format!("netns add {tester}"),
            format!("netns add {router}"),
            format!("-n {tester} link add p0 type veth peer name r0 address {ROUTER_MAC} netns {router}"),
            format!("-n {tester} link add p1 type veth peer name r1 netns {router}"),
            format!("-n {router} addr add 198.18.0.1/16 dev r0"),
            format!("-n {router} addr add 198.19.0.1/16 dev r1"),
            format!("-n {router} link set r0 up"),
            format!("-n {router} link set r1 up"),
            format!("-n {tester} link set p0 up"),
            format!("-n {tester} link set p1 up"),
        ] {
            ip(&command)?;
        }
        let on = ["netns", "exec", router, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"];
        let done = Command::new("ip").args(on).status().map_err(|error| error.to_string())?;
        done.success().then_some(()).ok_or_else(|| "forwarding cannot be switched on".to_owned())
    }

    /// Runs the binary in the tester's namespace, with captured output.
    fn netcliff(&self, home: &Home, args: &[&str]) -> Command {
        self.inside(&[], home, args)
    }

    /// Runs netcliff with another test than throughput.
    fn another(&self, test: &str, home: &Home, args: &[&str]) -> Command {
        self.run(test, &[], home, args)
    }

    /// Runs netcliff behind another program, such as `setpriv`.
    fn inside(&self, before: &[&str], home: &Home, args: &[&str]) -> Command {
        self.run("throughput", before, home, args)
    }

    fn run(&self, test: &str, before: &[&str], home: &Home, args: &[&str]) -> Command {
        let base = ["rfc2544", test, "--tx", "p0", "--rx", "p1", "--device-mac", ROUTER_MAC, "--frames", "64"];
        let plain = home.command([&base[..], args].concat());
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.tester]).args(before).arg(plain.get_program()).args(plain.get_args());
        for (name, value) in plain.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).stdin(Stdio::null());
        command
    }

    /// The tester's ports as `ip` shows them, without their carrier, which follows the link late.
    fn ports(&self) -> String {
        let output = Command::new("ip").args(["-n", &self.tester, "link", "show"]).output().expect("ip runs");
        let shown = String::from_utf8_lossy(&output.stdout).into_owned();
        let lines = shown.lines().map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let changes =
                |at: usize| words[at].starts_with('<') || at.checked_sub(1).is_some_and(|at| words[at] == "state");
            let kept: Vec<&str> = (0..words.len()).filter(|at| !changes(*at)).map(|at| words[at]).collect();
            kept.join(" ")
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        for namespace in [&self.tester, &self.router] {
            let _ = ip(&format!("netns del {namespace}"));
        }
    }
}

fn bed_or_skip() -> Option<Bed> {
    has(Need::Netns).then(|| Bed::new().expect("root can make namespaces"))
}

/// Waits for the end of a process. The test fails if this takes longer than `within_s` seconds.
fn ended(mut child: Child, within_s: u64) -> Output {
    let begin = Instant::now();
    while child.try_wait().expect("it is ours").is_none() {
        if begin.elapsed().as_secs() > within_s {
            child.kill().expect("it is ours");
            panic!("still there after {within_s} s: {:?}", child.wait_with_output());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.wait_with_output().expect("it is ours")
}

/// Short trials of a few kpps.
const SHORT: [&str; 10] = ["--trial", "50ms", "--max", "20kpps", "--rest", "0s", "--width", "20%", "--json", "--cpu"];

fn short<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&SHORT[..], &["0,0"], more].concat()
}

#[test]
fn frames_go_through_a_router_between_two_ports() {
    let Some(bed) = bed_or_skip() else { return };
    let before = bed.ports();
    for (send, receive, taken_in_by) in [("packet", "packet", "packet-ring"), ("auto", "xdp", "xdp-generic")] {
        let home = Home::new();
        let args = short(&["--send-by", send, "--receive-by", receive]);
        let output = ended(bed.netcliff(&home, &args).spawn().expect("it starts"), 60);
        let found = printed(&output.stdout, &output.stderr);
        let size = &found["sizes"][0];
        assert!(
            size["seen"]["sent"].as_u64().is_some_and(|sent| sent >= 1000) && size["seen"]["corrupt"] == 0,
            "{size}"
        );
        // A loaded machine may lose frames at any load. Therefore a size has a figure or a reason why the figure is
        // missing.
        let had = size["throughput"]["found"][0]["lower_pps"].as_f64();
        assert!(had.is_some_and(|pps| pps > 0.0) || size["missing"][0].is_string(), "{size}");
        let instruments = &found["instruments"];
        assert_eq!(instruments["taken_in_by"], serde_json::json!([taken_in_by]), "{instruments}");
        assert_eq!(instruments["ports"][0]["interface"], "p1");
        assert_eq!(instruments["ports"][0]["offered"]["hardware_receive"], false, "{instruments}");
        let stamped = instruments["stamped"].as_str().expect("words");
        assert!(stamped.contains("software") && stamped.contains("not offered by p1 and p0"), "{stamped}");
        assert!(found["device"].as_str().is_some_and(|device| device.contains("p0 and p1")), "{found}");
        assert_eq!(before, bed.ports(), "the ports are not as they were");
    }
}

/// A real port is refused before it is set, and is left as it was.
#[test]
fn hardware_stamps_are_refused_with_the_port_and_what_it_offers() {
    let Some(bed) = bed_or_skip() else { return };
    let (home, before) = (Home::new(), bed.ports());
    let args = ["--stamps", "hardware"];
    let mut command = bed.another("latency", &home, &short(&args));
    let output = ended(command.spawn().expect("it starts"), 60);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("interface p0 cannot put hardware time stamps"), "{said}");
    assert_eq!(before, bed.ports(), "the ports are not as they were");
}

#[test]
fn frames_above_a_ports_mtu_are_refused() {
    let Some(bed) = bed_or_skip() else { return };
    let home = Home::new();
    let output = ended(bed.netcliff(&home, &short(&["--frames", "1519"])).spawn().expect("it starts"), 60);
    let said = String::from_utf8_lossy(&output.stderr);
    for says in ["p0 has an MTU of 1500, which frames of up to 1519 bytes do not fit", "ip link set dev p0 mtu 1501"] {
        assert!(output.status.code() == Some(2) && said.contains(says), "{said}");
    }
}

#[test]
fn another_tools_program_is_named_and_stays() {
    let Some(bed) = bed_or_skip() else { return };
    let home = Home::new();
    let netns = Some(format!("/run/netns/{}", bed.tester).into());
    std::thread::scope(|scope| {
        let (bed, home) = (&bed, &home);
        let work = scope.spawn(move || {
            Placement { netns, ..Placement::default() }.enter().expect("root may");
            let facts = Facts::of("p1").expect("it is there");
            let _other = ToSockets::attach(facts.index, 1, Mode::Generic).expect("XDP programs load here");
            let (before, id) = (bed.ports(), Facts::of("p1").expect("it is there").program.expect("it is attached"));
            let refused = ended(bed.netcliff(home, &short(&[])).spawn().expect("it starts"), 60);
            let said = String::from_utf8_lossy(&refused.stderr);
            assert_eq!(refused.status.code(), Some(2), "{said}");
            assert!(said.contains(&format!("(id {id}, \"netcliff_sink\")")) && said.contains("--i-know"), "{said}");
            let args = short(&["--i-know", "--receive-by", "xdp"]);
            let refused = ended(bed.netcliff(home, &args).spawn().expect("it starts"), 60);
            let said = String::from_utf8_lossy(&refused.stderr);
            let words = format!("(id {id}, \"netcliff_sink\") of another tool, which is left where it is");
            assert!(said.contains(&words) && said.contains("--receive-by packet"), "{said}");
            assert!(refused.status.code() == Some(2) && before == bed.ports(), "{}", bed.ports());
        });
        work.join().expect("it does not panic");
    });
}

#[test]
fn without_the_right_the_sentence_names_it() {
    let Some(bed) = bed_or_skip() else { return };
    let home = Home::new();
    let nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=-all"];
    // Journal and lock are available; the sockets are not.
    std::fs::create_dir_all(home.state()).expect("a directory");
    for place in [home.path(""), home.state()] {
        std::os::unix::fs::chown(place, Some(65534), Some(65534)).expect("it is ours");
    }
    let can = Command::new(nobody[0]).args(&nobody[1..]).args([env!("CARGO_BIN_EXE_netcliff"), "--version"]).output();
    if !can.as_ref().is_ok_and(|output| output.status.success()) {
        return skip(Need::Kernel, format!("the binary is not for others: {can:?}"));
    }
    let before = bed.ports();
    let raw = [&nobody[..6], &["--inh-caps=-all,+net_raw", "--ambient-caps=-all,+net_raw"]].concat();
    for (who, receive, word) in
        [(&nobody[..], "packet", "CAP_NET_RAW"), (&nobody, "xdp", "CAP_NET_RAW"), (&raw, "xdp", "CAP_BPF")]
    {
        let args = short(&["--receive-by", receive]);
        let output = ended(bed.inside(who, &home, &args).spawn().expect("it starts"), 60);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && output.stdout.is_empty(), "{who:?}: {said}");
        assert!(said.contains("interface p") && said.contains(word), "{who:?}: {said}");
    }
    assert_eq!(before, bed.ports());
}

/// Trials that are too long to end by themselves during a test.
const LONG: [&str; 8] = ["--trial", "60s", "--max", "5kpps", "--rest", "0s", "--json", "--settle"];

#[test]
fn a_port_that_disappears_is_named_in_a_partial_report() {
    let Some(bed) = bed_or_skip() else { return };
    let home = Home::new();
    let child = bed.netcliff(&home, &[&LONG[..], &["100ms"]].concat()).spawn().expect("it starts");
    std::thread::sleep(Duration::from_millis(2500));
    ip(&format!("-n {} link del r1", bed.router)).expect("it is there");
    let output = ended(child, 20);
    let said = String::from_utf8_lossy(&output.stderr);
    let found = printed(&output.stdout, &output.stderr);
    let partial = found["partial"].as_str().expect("why it ended");
    assert!(output.status.code() == Some(1) && partial.contains("p1 was removed"), "{partial}: {said}");
    assert!(bed.ports().contains("p0") && !bed.ports().contains("xdp"), "{}", bed.ports());
}

/// The port disappears while the sender's highest rate is measured, with either method of sending. Nothing was measured
/// by then.
#[test]
fn a_sending_port_that_disappears_at_once_is_told_in_a_partial_report() {
    for send in ["packet", "xdp"] {
        let Some(bed) = bed_or_skip() else { return };
        let home = Home::new();
        // Before the sender's highest rate is measured, there is a pause in which the sender's rings are already open.
        let args = ["--trial", "60s", "--max", "5kpps", "--rest", "3s", "--json", "--send-by", send];
        let child = bed.netcliff(&home, &args).spawn().expect("it starts");
        std::thread::sleep(Duration::from_millis(1500));
        ip(&format!("-n {} link del p0", bed.tester)).expect("it is there");
        let output = ended(child, 20);
        let said = String::from_utf8_lossy(&output.stderr);
        let found = printed(&output.stdout, &output.stderr);
        let partial = found["partial"].as_str().expect("why it ended");
        assert!(output.status.code() == Some(1) && partial.contains("interface p0 is gone"), "{partial}: {said}");
    }
}

#[test]
fn a_cable_that_is_pulled_is_told_and_nothing_is_counted_as_lost() {
    let Some(bed) = bed_or_skip() else { return };
    let home = Home::new();
    let child = bed.netcliff(&home, &[&LONG[..], &["100ms"]].concat()).spawn().expect("it starts");
    std::thread::sleep(Duration::from_millis(2500));
    // The far end of p1: p1 itself stays up, without a carrier.
    ip(&format!("-n {} link set r1 down", bed.router)).expect("it is there");
    let output = ended(child, 20);
    let said = String::from_utf8_lossy(&output.stderr);
    let found = printed(&output.stdout, &output.stderr);
    let partial = found["partial"].as_str().expect("why it ended");
    assert!(partial.contains("p1 lost its carrier"), "{partial}: {said}");
    assert!(!said.contains("loss 100 %"), "{said}");
}

/// The three likely causes are named, with what the router reported. Nothing is measured.
#[test]
fn a_device_that_forwards_nothing_is_named_with_the_causes() {
    let Some(bed) = bed_or_skip() else { return };
    let home = Home::new();
    // The router has no route to the sink any more.
    ip(&format!("-n {} addr del 198.19.0.1/16 dev r1", bed.router)).expect("it is there");
    let output = ended(bed.another("loss", &home, &short(&[])).spawn().expect("it starts"), 60);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    for needed in
        ["no frame came through from p0 to p1", "network unreachable", "1. neighbour", "2. route", "3. forwarding"]
    {
        assert!(said.contains(needed), "{needed}: {said}");
    }
    assert_eq!(output.status.code(), Some(1), "{said}");
}

/// Whether a condition becomes true within five seconds.
fn comes_true(what: &dyn Fn() -> bool) -> bool {
    (0..200).any(|_| {
        let is_so = what();
        if !is_so {
            std::thread::sleep(Duration::from_millis(25));
        }
        is_so
    })
}

#[test]
fn a_port_that_is_down_is_refused_before_a_frame_is_sent() {
    let Some(bed) = bed_or_skip() else { return };
    let home = Home::new();
    ip(&format!("-n {} link set r1 down", bed.router)).expect("it is there");
    let before = bed.ports();
    let output = ended(bed.netcliff(&home, &short(&[])).spawn().expect("it starts"), 20);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && output.stdout.is_empty(), "{said}");
    assert!(
        said.contains("interface p1 is down or has no carrier") && said.contains("ip link set dev p1 up"),
        "{said}"
    );
    assert_eq!(before, bed.ports());
}

/// The XDP program belongs to the process: the kernel removes it however the process ends.
#[test]
fn a_killed_run_leaves_no_program() {
    let Some(bed) = bed_or_skip() else { return };
    let (home, before) = (Home::new(), bed.ports());
    let args = [&LONG[..], &["100ms", "--receive-by", "xdp"]].concat();
    let mut child = bed.netcliff(&home, &args).spawn().expect("it starts");
    if !comes_true(&|| bed.ports().contains("xdp")) {
        child.kill().expect("it is ours");
        panic!("no program was attached: {:?}", child.wait_with_output());
    }
    // `ip netns exec` replaces itself by the program that it starts, so this process is netcliff.
    child.kill().expect("it is ours");
    child.wait().expect("it is ours");
    assert!(comes_true(&|| bed.ports() == before), "{}", bed.ports());
}
