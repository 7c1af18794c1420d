//! A veth pair between two network namespaces, made for one test and removed after it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use netcliff_packets::frame::{Checksum, FrameSpec};
use netcliff_packets::generator::GeneratorConfig;
use netcliff_packets::sink::SinkConfig;
use netcliff_packets::thread::Placement;
use netcliff_testkit::{Need, has_all};

const SENDER: &str = "10.199.7.1";
const RECEIVER: &str = "10.199.7.2";
const PORT: u16 = 9000;
const RUN_ID: u32 = 77;

/// The veth pair. Dropping it removes both namespaces and with them the interfaces.
pub struct Pair {
    name: String,
    receiver_mac: [u8; 6],
    sender_mac: [u8; 6],
    /// Lock among tests, because they pin threads to the same two CPUs.
    _turn: netcliff_testkit::Turn,
}

fn ip(arguments: &str) -> Result<(), String> {
    let output =
        Command::new("ip").args(arguments.split_whitespace()).output().map_err(|e| format!("ip {arguments}: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("ip {arguments}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

impl Pair {
    /// Makes the pair and steers reception to `receive_cpu` by RPS. `Err` contains the reason if it is not available.
    pub fn new(receive_cpu: usize) -> Result<Self, String> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let name = format!("ncw{}x{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let pair = Self {
            name,
            receiver_mac: [2, 0, 0, 0, 7, 2],
            sender_mac: [2, 0, 0, 0, 7, 1],
            _turn: netcliff_testkit::turn(netcliff_testkit::Shared::Cpus),
        };
        pair.build(receive_cpu)?;
        // Wait until address resolution and IPv6 autoconfiguration settle; their packets count as foreign anyway.
        std::thread::sleep(std::time::Duration::from_millis(20));
        Ok(pair)
    }

    fn build(&self, receive_cpu: usize) -> Result<(), String> {
        let (a, b) = (format!("{}a", self.name), format!("{}b", self.name));
        ip(&format!("netns add {a}"))?;
        ip(&format!("netns add {b}"))?;
        self.join()?;
        let mask = format!("echo {:x} > /sys/class/net/v1/queues/rx-0/rps_cpus", 1u64 << receive_cpu);
        let steered =
            Command::new("ip").args(["netns", "exec", &b, "sh", "-c", &mask]).status().map_err(|e| e.to_string())?;
        steered.success().then_some(()).ok_or_else(|| "RPS can not be set".to_owned())
    }

    fn join(&self) -> Result<(), String> {
        let (a, b) = (format!("{}a", self.name), format!("{}b", self.name));
        ip(&format!(
            "-n {a} link add v0 address 02:00:00:00:07:01 type veth peer name v1 address 02:00:00:00:07:02 netns {b}"
        ))?;
        ip(&format!("-n {a} addr add {SENDER}/24 dev v0"))?;
        ip(&format!("-n {b} addr add {RECEIVER}/24 dev v1"))?;
        ip(&format!("-n {a} link set v0 up"))?;
        ip(&format!("-n {b} link set v1 up"))
    }

    /// A generator in the sender's namespace.
    #[allow(dead_code, reason = "each test binary uses its own part of the fixture")]
    pub fn generator(&self, cpu: usize, frame_bytes: usize) -> GeneratorConfig {
        let frame = FrameSpec {
            source_mac: self.sender_mac,
            destination_mac: self.receiver_mac,
            source: SocketAddr::new(SENDER.parse().expect("an address"), 1024),
            destination: SocketAddr::new(RECEIVER.parse().expect("an address"), PORT),
            more_flows: Vec::new(),
            vlan: None,
            frame_bytes,
            checksum: Checksum::Computed,
            run_id: RUN_ID,
            replay: None,
        };
        let mut config = GeneratorConfig::new("v0", frame);
        config.placement = self.place("a", cpu);
        config
    }

    /// A sink in the receiver's namespace.
    #[allow(dead_code, reason = "each test binary uses its own part of the fixture")]
    pub fn sink(&self, cpu: usize) -> SinkConfig {
        let bind = SocketAddr::new(RECEIVER.parse().expect("an address"), PORT);
        let mut config = SinkConfig::new(bind, RUN_ID);
        config.placement = self.place("b", cpu);
        config
    }

    #[allow(dead_code, reason = "each test binary uses its own part of the fixture")]
    fn place(&self, end: &str, cpu: usize) -> Placement {
        Placement { netns: Some(self.netns(end)), cpu: Some(cpu), ..Placement::default() }
    }

    /// The namespace of an end, `a` (sender) or `b` (receiver).
    pub fn netns(&self, end: &str) -> PathBuf {
        format!("/run/netns/{}{end}", self.name).into()
    }

    /// Number of frames that the receiving interface has received.
    #[allow(dead_code, reason = "each test binary uses its own part of the fixture")]
    pub fn received(&self) -> u64 {
        let space = format!("{}b", self.name);
        let output = Command::new("ip").args(["-n", &space, "-s", "-j", "link", "show", "v1"]).output().expect("ip");
        let links: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        links[0]["stats64"]["rx"]["packets"].as_u64().expect("a counter")
    }

    /// Sets the sending interface `down` or `up`.
    #[allow(dead_code, reason = "each test binary uses its own part of the fixture")]
    pub fn set_sender(&self, state: &str) {
        ip(&format!("-n {}a link set v0 {state}", self.name)).expect("the pair exists");
    }

    /// Sets the MTU, so that longer frames pass.
    #[allow(dead_code, reason = "each test binary uses its own part of the fixture")]
    pub fn set_mtu(&self, bytes: u32) {
        for end in ["a link set v0", "b link set v1"] {
            ip(&format!("-n {}{end} mtu {bytes}", self.name)).expect("the pair exists");
        }
    }

    /// Removes both interfaces.
    #[allow(dead_code, reason = "each test binary uses its own part of the fixture")]
    pub fn remove_links(&self) {
        ip(&format!("-n {}a link del v0", self.name)).expect("the pair exists");
    }

    /// Makes the interfaces again, without RPS.
    #[allow(dead_code, reason = "each test binary uses its own part of the fixture")]
    pub fn add_links(&self) {
        self.join().expect("the namespaces exist");
    }

    /// Sets the receiving interface `down` or `up`.
    #[allow(dead_code, reason = "each test binary uses its own part of the fixture")]
    pub fn set_receiver(&self, state: &str) {
        ip(&format!("-n {}b link set v1 {state}", self.name)).expect("the pair exists");
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for end in ["a", "b"] {
            let _ = ip(&format!("netns del {}{end}", self.name));
        }
    }
}

/// Makes the pair. `None` if it is not available; the reason is reported.
pub fn pair_or_skip() -> Option<Pair> {
    has_all(&[Need::Cpus, Need::Netns]).then(|| Pair::new(1).expect("root can make a veth pair"))
}
