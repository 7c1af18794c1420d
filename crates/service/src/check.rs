//! [`Check`]: another set-up of the service, which is predicted with the costs of the calibrated one and then measured.

use std::fmt;
use std::str::FromStr;

use netcliff_core::experiment::Feature;
use netcliff_core::{ParseError, units};
use netcliff_host::nic::netdev::NapiKey;
use netcliff_host::testbed::netns::Reception;
use netcliff_host::testbed::sysctl::SysctlOverrides;
use netcliff_host::tune::device::{DeviceKey, Wanted};

use crate::costs::Altered;

/// Smallest and largest receive buffer (bytes): the kernel refuses some 2 KiB.
const BUFFER_BYTES: (u64, u64) = (4096, 1 << 30);
/// Longest time of busy polling (s).
const LONGEST_BUSY_POLL_S: f64 = 1.0;

/// Settings that the testbed's interface, a veth, has.
const DEVICE_KEYS: [DeviceKey; 4] = [
    DeviceKey::Feature(Feature::Gro),
    DeviceKey::Napi(NapiKey::GroFlushTimeout),
    DeviceKey::Napi(NapiKey::DeferHardIrqs),
    DeviceKey::Napi(NapiKey::Threaded),
];

/// One difference from the calibrated set-up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Another command starts the service.
    Service(String),
    /// `net.core.rmem_default` (bytes): the receive buffer of sockets whose program does not set one.
    SocketBuffer(u32),
    /// `net.core.netdev_max_backlog` (packets).
    Backlog(u32),
    /// `net.core.netdev_budget` (packets).
    Budget(u32),
    /// `net.core.busy_poll` and `net.core.busy_read` (us).
    BusyPoll(u32),
    /// Packets are received on the CPU that sends them, not steered to the service's.
    RpsOff,
    /// A setting of the testbed's interface.
    Device(Wanted),
}

/// A set-up: its differences from the calibrated one. Text form: `socket-buffer=1MiB`, `gro=on,busy-poll=50us`,
/// `service=COMMAND`; see [`Change`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    name: String,
    changes: Vec<Change>,
}

/// Settings with which the testbed for a set-up is built.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SetUp {
    /// Values of the whole host.
    pub sysctls: SysctlOverrides,
    /// Values of the whole host while the service starts: they apply to sockets that the service opens, not to
    /// netcliff's own.
    pub at_start: SysctlOverrides,
    /// How the service's end receives.
    pub reception: Reception,
    /// True: packets are received on the CPU that sends them.
    pub without_rps: bool,
    /// Settings of the interface of the service's end.
    pub settings: Vec<Wanted>,
}

impl SetUp {
    /// True if the set-up changes the testbed's interface. Loopback has no such interface.
    pub fn needs_interface(&self) -> bool {
        self.without_rps || self.reception != Reception::default() || !self.settings.is_empty()
    }
}

/// Properties of the run that decide which changes are possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Possible {
    /// True: netcliff starts the service.
    pub starts_service: bool,
    /// True: requests travel over connections.
    pub streams: bool,
    /// True: the testbed has an interface, or may get one.
    pub interface: bool,
}

/// The accepted form, for errors.
fn form() -> String {
    let keys = DEVICE_KEYS.map(DeviceKey::name).join(", ");
    format!(
        "expected service=COMMAND, socket-buffer=1MiB, backlog=200, budget=64, busy-poll=50us, rps=off, or a setting of the testbed's interface \
         such as threaded=on ({keys}); several joined by commas, service= last"
    )
}

fn is_on(wanted: Wanted, key: DeviceKey) -> bool {
    wanted.key == key && wanted.value > 0
}

impl Change {
    /// Parses `key=value`. `whole` is the text of the whole set-up.
    fn parse(key: &str, value: &str, whole: &str) -> Result<Self, ParseError> {
        let named = |error: ParseError| error.within(&format!("--check {key}"));
        let bad = |accepted: &str| ParseError::new(format!("--check {key}"), value, accepted);
        let count = || {
            let count = units::parse_count(key, value).map_err(named)?;
            let fits = u32::try_from(count).ok().filter(|count| *count > 0);
            fits.ok_or_else(|| bad("expected a whole number above 0"))
        };
        match key {
            "service" if value.trim().is_empty() => {
                Err(bad("expected a shell command, such as \"nsd -d -c other.conf\""))
            }
            "service" => Ok(Self::Service(value.to_owned())),
            "socket-buffer" => {
                let bytes = units::parse_bytes(value).map_err(named)?;
                let fits = (BUFFER_BYTES.0..=BUFFER_BYTES.1).contains(&bytes).then_some(bytes as u32);
                Ok(Self::SocketBuffer(fits.ok_or_else(|| bad("expected 4KiB to 1GiB"))?))
            }
            "backlog" => Ok(Self::Backlog(count()?)),
            "budget" => Ok(Self::Budget(count()?)),
            "busy-poll" => {
                let time_s = units::parse_time_s(value).map_err(named)?;
                let fits = (1e-6..=LONGEST_BUSY_POLL_S).contains(&time_s).then(|| (time_s * 1e6).round() as u32);
                Ok(Self::BusyPoll(fits.ok_or_else(|| bad("expected 1us to 1s"))?))
            }
            "rps" => match value {
                "off" => Ok(Self::RpsOff),
                "on" => Err(bad("expected off: in the testbed it is on")),
                _ => Err(bad("expected off")),
            },
            "work" => Err(bad(
                "netcliff cannot change how long another program works on a request; start one that does, with service=COMMAND",
            )),
            "size" => Err(bad("requests have the sizes of --request; measure other sizes in a separate run")),
            _ => {
                let known = DeviceKey::of(key).ok_or_else(|| ParseError::new("--check", whole, form()))?;
                if !DEVICE_KEYS.contains(&known) {
                    return Err(bad(&format!("the testbed's interface, a veth, has no {key}; {}", form())));
                }
                let wanted = known.parse(value).map_err(named)?;
                let is_switch = matches!(known, DeviceKey::Feature(_) | DeviceKey::Napi(NapiKey::Threaded));
                if is_switch && wanted.value == 0 {
                    return Err(bad("expected on: in the testbed it is off"));
                }
                Ok(Self::Device(wanted))
            }
        }
    }

    /// Whether both change the same setting.
    fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Device(one), Self::Device(other)) => one.key == other.key,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

impl FromStr for Check {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut changes: Vec<Change> = Vec::new();
        let mut rest = Some(text);
        while let Some(part) = rest {
            // A service's command may contain commas.
            let (item, after) = match part.split_once(',') {
                Some((item, after)) if !part.starts_with("service=") => (item, Some(after)),
                _ => (part, None),
            };
            rest = after;
            let (key, value) = item.split_once('=').ok_or_else(|| ParseError::new("--check", text, form()))?;
            let change = Change::parse(key, value, text)?;
            if changes.iter().any(|other| other.is_like(&change)) {
                return Err(ParseError::new("--check", text, format!("expected {key} once")));
            }
            changes.push(change);
        }
        let check = Self { name: text.to_owned(), changes };
        check.conflict().map_or(Ok(check), |why| Err(ParseError::new("--check", text, why)))
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Check {
    fn has(&self, of: impl Fn(&Change) -> bool) -> bool {
        self.changes.iter().any(of)
    }

    /// Whether a kernel thread polls the interface.
    pub fn is_threaded(&self) -> bool {
        self.has(|change| matches!(change, Change::Device(one) if is_on(*one, DeviceKey::Napi(NapiKey::Threaded))))
    }

    fn has_gro(&self) -> bool {
        self.has(|change| matches!(change, Change::Device(one) if is_on(*one, DeviceKey::Feature(Feature::Gro))))
    }

    /// Why the changes of this set-up cannot be combined; `None`: they can.
    fn conflict(&self) -> Option<&'static str> {
        let polls = self.is_threaded() || self.has_gro();
        let timers = self.has(|change| {
            let Change::Device(one) = change else { return false };
            matches!(one.key, DeviceKey::Napi(NapiKey::GroFlushTimeout | NapiKey::DeferHardIrqs))
        });
        if self.is_threaded() && self.has_gro() {
            return Some("a veth with threaded=on has GRO on: leave gro=on out");
        }
        if self.is_threaded() && self.has(|change| *change == Change::RpsOff) {
            return Some("with threaded=on a thread on the service's CPU receives, without RPS: leave rps=off out");
        }
        if !polls && timers {
            return Some("a veth polls only with gro=on or threaded=on: add one of them");
        }
        (!polls && self.has(|change| matches!(change, Change::BusyPoll(_))))
            .then_some("sockets poll a veth only with gro=on or threaded=on: add one of them")
    }

    /// Refuses a set-up whose changes are not possible in this run.
    ///
    /// # Errors
    /// The reason, with what to do.
    pub fn fits(&self, possible: &Possible) -> Result<(), String> {
        let refused = |why: &str| Err(format!("--check {self}: {why}"));
        if !possible.starts_service {
            return refused(
                "a service that is already running is left as it is; let netcliff start one, with --service COMMAND",
            );
        }
        if possible.streams && self.has(|change| matches!(change, Change::SocketBuffer(_))) {
            return refused(
                "connections have buffers of their own (net.ipv4.tcp_rmem), and their peer waits where one is full; it is for requests over UDP",
            );
        }
        if !possible.interface && self.set_up().needs_interface() {
            return refused("loopback has no interface of its own to change; give --testbed netns");
        }
        Ok(())
    }

    /// The command that starts the service in this set-up; `None`: the same command as in the run.
    pub fn command(&self) -> Option<&str> {
        self.changes.iter().find_map(|change| match change {
            Change::Service(command) => Some(command.as_str()),
            _ => None,
        })
    }

    /// Returns the settings with which the testbed for this set-up is built.
    pub fn set_up(&self) -> SetUp {
        let mut set_up = SetUp::default();
        for change in &self.changes {
            let sysctls = &mut set_up.sysctls;
            match change {
                Change::Service(_) => {}
                Change::SocketBuffer(bytes) => set_up.at_start.rmem_default = Some(*bytes),
                Change::Backlog(packets) => sysctls.netdev_max_backlog = Some(*packets),
                Change::Budget(packets) => sysctls.netdev_budget = Some(*packets),
                Change::BusyPoll(usecs) => sysctls.busy_poll_usecs = Some(*usecs),
                Change::RpsOff => set_up.without_rps = true,
                Change::Device(one) if one.key == DeviceKey::Napi(NapiKey::Threaded) => {
                    set_up.reception = Reception::ThreadedNapi;
                }
                Change::Device(one) => set_up.settings.push(*one),
            }
        }
        set_up
    }

    /// The default receive buffer that this set-up sets (bytes); `None`: unchanged.
    pub fn socket_buffer_bytes(&self) -> Option<u32> {
        self.set_up().at_start.rmem_default
    }

    /// Returns the differences in the form that the model has, for the program whose costs the run measured.
    /// `socket_packets`: packets that the service's socket holds in this set-up. The error is the difference that the
    /// model cannot express.
    pub fn altered(&self, socket_packets: u64) -> Result<Altered, Unpredicted> {
        if self.command().is_some() { Err(Unpredicted::OtherProgram) } else { self.altered_host(socket_packets) }
    }

    /// Differences in the model's form, for a program whose costs are measured in this set-up.
    pub fn altered_host(&self, socket_packets: u64) -> Result<Altered, Unpredicted> {
        let mut altered = Altered { socket_packets: Some(socket_packets), ..Altered::default() };
        for change in &self.changes {
            match change {
                Change::Service(_) | Change::SocketBuffer(_) => {}
                Change::Backlog(packets) => altered.backlog = Some(u64::from(*packets)),
                Change::Budget(packets) => altered.budget = Some(u64::from(*packets)),
                Change::BusyPoll(_) => return Err(Unpredicted::BusyPoll),
                Change::RpsOff => return Err(Unpredicted::RequesterCpu),
                Change::Device(one) => match one.key {
                    DeviceKey::Napi(NapiKey::Threaded) => altered.threaded = true,
                    DeviceKey::Napi(_) => return Err(Unpredicted::Timers),
                    _ => return Err(Unpredicted::Gro),
                },
            }
        }
        Ok(altered)
    }
}

/// Why the cliff of a set-up is not predicted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unpredicted {
    /// Another command starts the service.
    #[error("this command may run another program, whose costs this run did not measure")]
    OtherProgram,
    /// Sockets poll the device (busy polling), which the model does not have.
    #[error("sockets then poll the interface (busy polling), which neither the model nor the simulator can compute")]
    BusyPoll,
    /// GRO is on, which changes the cost of a packet.
    #[error("the requester's CPU then polls the testbed's interface, and this run measured the costs without GRO")]
    Gro,
    /// Timers delay the device's polls.
    #[error("the timers delay polls of the interface, and this run measured the costs without such polls")]
    Timers,
    /// Packets are received on the requester's CPU.
    #[error("the requester's CPU then receives the packets, and this run did not measure its costs")]
    RequesterCpu,
    /// The costs of a request were not measured.
    #[error("this run did not measure what a request costs")]
    NoCosts,
    /// An engine has no answer.
    #[error("{0}")]
    Engine(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Check {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn set_ups_are_read_and_become_settings() {
        let both = check("socket-buffer=1MiB,backlog=200,service=nsd -c a,b=c");
        assert_eq!(both.command(), Some("nsd -c a,b=c"), "a command has commas");
        assert_eq!(both.set_up().sysctls.entries(), [("net.core.netdev_max_backlog", 200)]);
        assert_eq!(both.set_up().at_start.entries(), [("net.core.rmem_default", 1 << 20)]);
        assert!(!both.set_up().needs_interface());
        let polls = check("gro=on,busy-poll=50us,napi_defer_hard_irqs=2,gro_flush_timeout=20us").set_up();
        assert_eq!(polls.sysctls.entries(), [("net.core.busy_poll", 50), ("net.core.busy_read", 50)]);
        let names: Vec<&str> = polls.settings.iter().map(|one| one.key.name()).collect();
        assert_eq!(names, ["gro", "napi_defer_hard_irqs", "gro_flush_timeout"]);
        let threaded = check("threaded=on").set_up();
        assert_eq!((threaded.reception, threaded.settings.len()), (Reception::ThreadedNapi, 0));
        assert!(check("rps=off").set_up().without_rps && threaded.needs_interface());
    }

    #[test]
    fn wrong_values_are_refused_with_the_accepted_form() {
        for (text, words) in [
            ("", &["service=COMMAND", "socket-buffer=1MiB", "threaded"][..]),
            ("socket-buffer", &["\"socket-buffer\"", "socket-buffer=1MiB"]),
            ("socket-buffer=1M", &["--check socket-buffer", "\"1M\"", "MiB"]),
            ("socket-buffer=1KiB", &["\"1KiB\"", "4KiB to 1GiB"]),
            ("socket-buffer=2GiB", &["\"2GiB\"", "4KiB to 1GiB"]),
            ("backlog=0", &["--check backlog", "\"0\"", "above 0"]),
            ("budget=-1", &["\"-1\"", "whole number"]),
            ("busy-poll=50", &["--check busy-poll", "\"50\"", "20us"]),
            ("busy-poll=0us,gro=on", &["\"0us\"", "1us to 1s"]),
            ("busy-poll=50us", &["gro=on or threaded=on"]),
            ("napi_defer_hard_irqs=2", &["gro=on or threaded=on"]),
            ("rps=maybe", &["\"maybe\"", "expected off"]),
            ("rps=on", &["expected off", "it is on"]),
            ("gro=off", &["expected on", "it is off"]),
            ("threaded=1", &["--check threaded", "\"1\"", "on or off"]),
            ("threaded=on,rps=off", &["leave rps=off out"]),
            ("threaded=on,gro=on", &["leave gro=on out"]),
            ("rx-usecs=100", &["--check rx-usecs", "veth, has no rx-usecs", "gro"]),
            ("budget=64,budget=32", &["expected budget once"]),
            ("work=2us", &["--check work", "\"2us\"", "service=COMMAND"]),
            ("size=512B", &["\"512B\"", "--request"]),
            ("service=", &["--check service", "shell command"]),
            ("speed=9", &["\"speed=9\"", "busy-poll=50us"]),
            ("gro=on,", &["\"gro=on,\"", "joined by commas"]),
        ] {
            let error = text.parse::<Check>().expect_err(text).to_string();
            assert!(words.iter().all(|word| error.contains(word)), "{text}: {error}");
        }
    }

    #[test]
    fn what_a_run_cannot_change_is_refused() {
        let all = Possible { starts_service: true, streams: false, interface: true };
        let refused = |text: &str, possible: Possible| check(text).fits(&possible).expect_err(text);
        assert_eq!(check("rps=off").fits(&all), Ok(()));
        assert!(refused("budget=64", Possible { starts_service: false, ..all }).contains("--service COMMAND"));
        let streams = Possible { streams: true, ..all };
        assert!(refused("socket-buffer=1MiB", streams).contains("tcp_rmem"));
        assert_eq!(check("backlog=64").fits(&streams), Ok(()));
        let loopback = Possible { interface: false, ..all };
        assert!(refused("gro=on", loopback).starts_with("--check gro=on: loopback"));
        assert_eq!(check("service=other").fits(&loopback), Ok(()));
    }

    #[test]
    fn what_the_model_has_is_predicted_and_the_rest_has_a_reason() {
        let known = check("backlog=200,budget=64,socket-buffer=64KiB").altered(85).unwrap();
        assert_eq!((known.backlog, known.budget, known.socket_packets), (Some(200), Some(64), Some(85)));
        assert!(check("threaded=on").altered(277).unwrap().threaded);
        for (text, why) in [
            ("service=other", Unpredicted::OtherProgram),
            ("gro=on", Unpredicted::Gro),
            ("rps=off", Unpredicted::RequesterCpu),
            ("threaded=on,busy-poll=50us", Unpredicted::BusyPoll),
            ("threaded=on,napi_defer_hard_irqs=2", Unpredicted::Timers),
        ] {
            assert_eq!(check(text).altered(277), Err(why), "{text}");
        }
    }
}
