//! Two network namespaces that a test makes and uses like two hosts, with an agent in one and its client in the other.

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use netcliff_testkit::{Need, has, has_program};
use serde_json::Value;

use super::Home;
use super::running::Running;
use crate::schema::printed;

pub const PATIENCE: Duration = Duration::from_secs(30);
/// Address at which the agent at the far end listens.
pub const AGENT: &str = "10.99.0.2:9940";
/// Commands that start a program in a time namespace, so that it looks like another host. The second one also takes
/// rights from it.
pub const ELSEWHERE: [&str; 2] = ["unshare", "--time"];
pub const WITHOUT_METERS: [&str; 4] = ["unshare", "--time", "setpriv", "--bounding-set=-bpf,-perfmon,-sys_admin"];

/// Two namespaces joined by a veth pair, `near0` and `far0`, and those that the test adds.
pub struct Bed(Vec<String>);

impl Bed {
    /// Makes the testbed. `None` if this is not possible; a line reports it.
    pub fn new(name: &str) -> Option<Bed> {
        if !has(Need::Netns) || !has_program("ethtool") {
            return None;
        }
        let bed = Bed(["near", "far"].map(|end| format!("ncdev-{}-{name}-{end}", std::process::id())).to_vec());
        let (near, far) = (&bed.0[0], &bed.0[1]);
        let pair = ["-n", near, "link", "add", "near0", "type", "veth", "peer", "name", "far0", "netns", far];
        let made = ip(&["netns", "add", near])
            && ip(&["netns", "add", far])
            && ip(&pair)
            && bed.ends().iter().all(|(space, device, address)| {
                ip(&["-n", space, "addr", "add", address, "dev", device])
                    && ip(&["-n", space, "link", "set", "lo", "up"])
                    && ip(&["-n", space, "link", "set", device, "up"])
            });
        assert!(made && !bed.offloads(0).is_empty(), "the namespaces of the test cannot be made");
        Some(bed)
    }

    /// Adds a third namespace, without links. Its number for [`Bed::inside`] is 2.
    pub fn add_third(&mut self) {
        let name = self.third_name();
        assert!(ip(&["netns", "add", &name]) && ip(&["-n", &name, "link", "set", "lo", "up"]), "{name}");
        self.0.push(name);
    }

    /// Name of the third namespace.
    pub fn third_name(&self) -> String {
        format!("{}-third", self.0[0])
    }

    pub fn ends(&self) -> [(&str, &str, &str); 2] {
        [(&self.0[0], "near0", "10.99.0.1/24"), (&self.0[1], "far0", "10.99.0.2/24")]
    }

    /// A command that runs `netcliff` in the namespace of an end, through `program` unless that is empty.
    pub fn inside(&self, end: usize, home: &Home, program: &[&str], args: &[&str]) -> Command {
        let netcliff = home.command(args);
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &self.0[end]])
            .args(program)
            .arg(netcliff.get_program())
            .args(netcliff.get_args());
        for (name, value) in netcliff.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
    }

    /// Lines of `ethtool -k` and the MTU.
    pub fn offloads(&self, end: usize) -> String {
        let (space, device, _) = self.ends()[end];
        let said = |args: &[&str]| {
            let output = Command::new("ip").args(["netns", "exec", space]).args(args).stderr(Stdio::null()).output();
            output.map_or(String::new(), |output| String::from_utf8_lossy(&output.stdout).into_owned())
        };
        said(&["ethtool", "-k", device]) + &said(&["cat", &format!("/sys/class/net/{device}/mtu")])
    }

    /// Starts an agent at the far end.
    pub fn agent(&self, home: &Home, key: &str, more: &[&str]) -> Running {
        self.agent_by(home, &[], key, more)
    }

    /// Starts an agent at the far end by another program.
    pub fn agent_by(&self, home: &Home, program: &[&str], key: &str, more: &[&str]) -> Running {
        let args = [&["agent", "--listen", AGENT, "--key", key, "--silence", "1s"], more].concat();
        let mut agent = Running::of(self.inside(1, home, program, &args));
        agent.until("agent listens on", PATIENCE);
        agent
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.0.iter().for_each(|space| _ = ip(&["netns", "delete", space]));
    }
}

pub fn ip(args: &[&str]) -> bool {
    Command::new("ip").args(args).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

pub fn within(patience: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + patience;
    while Instant::now() < deadline {
        if is_so() {
            return true;
        }
        thread::sleep(Duration::from_millis(50));
    }
    is_so()
}

/// Makes a key file in `home`. Returns its path, which both ends can read.
pub fn key(home: &Home) -> String {
    let key = home.text("key");
    home.netcliff(["agent", "--make-key", &key]).assert().success();
    key
}

/// The result of a client at the near end, as JSON.
pub fn measured(bed: &Bed, home: &Home, args: &[&str]) -> Value {
    let ended = Running::of(bed.inside(0, home, &[], args)).end(PATIENCE);
    assert_eq!(ended.status.code(), Some(0), "{args:?}: {}", ended.stderr);
    printed(&ended.stdout, &ended.stderr)
}
