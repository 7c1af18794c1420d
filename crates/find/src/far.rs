//! `find` for an agent's host: the agent runs the stages there, and its client, on the host of the generator, sends the
//! load.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use netcliff_core::{Finding, Fingerprint, Record, quote};
use netcliff_host::cpu::{Method, Preference};
use netcliff_host::nic::neighbour;
use netcliff_packets::error::Refusal;
use netcliff_remote::control::far::{Context, FarEnd, Kind};
use netcliff_remote::control::message::ClockId;
use netcliff_remote::load::{GeneratorCommand, OrderQueue, Permission, Reverse};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{CheckSetup, Elsewhere, FindOptions, Idle, Observer, Settings, find};
use netcliff_trial::rig::{BetweenOptions, MOST_QUEUES, RigOptions, Sending};

/// Name of this service of an agent on the control channel.
pub const FIND: &str = "find";
/// Memory that a run needs: the simulator's packets and the meter's tables (bytes).
const MEMORY_BYTES: u64 = 256 << 20;

/// A client's request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FindRequest {
    #[serde(flatten)]
    settings: Settings,
    awake: bool,
    meter: Option<Method>,
    sender_cpu: Option<u32>,
    host_cpu: Option<u32>,
    checks: Vec<String>,
    /// How the client sends the load.
    #[serde(flatten)]
    sending: Sending,
    /// True: the client computes the engines' results.
    #[serde(default)]
    computes: bool,
    /// The client's end of the link.
    sender: SenderEnd,
}

/// The sending end of the link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SenderEnd {
    /// Interface of the sender.
    pub interface: String,
    /// Address of the sender's interface.
    pub address: Ipv4Addr,
    /// True: the control connection may use this link, too.
    pub by_control_link: bool,
    /// Clock of the frames' timestamps.
    pub clock: Option<ClockId>,
    /// Properties of the sender's host that explain why results differ between hosts.
    pub fingerprint: Fingerprint,
}

impl FindRequest {
    /// Returns the request for these options; `sending`: how the client sends the load.
    pub fn of(options: &FindOptions, sending: Sending, sender: SenderEnd) -> Self {
        Self {
            settings: options.settings.clone(),
            awake: options.idle == Idle::Awake,
            meter: match options.cpu {
                Preference::Best => None,
                Preference::Only(method) => Some(method),
            },
            sender_cpu: options.rig.sender_cpu,
            host_cpu: options.rig.host_cpu,
            checks: options.checks.iter().map(|check| check.name().to_owned()).collect(),
            sending,
            computes: true,
            sender,
        }
    }

    fn options(&self, between: BetweenOptions, engines: Elsewhere) -> Result<FindOptions, String> {
        let checks = self.checks.iter().map(|check| check.parse());
        self.settings.check().map_err(|why| format!("{FIND}: {why}"))?;
        Ok(FindOptions {
            settings: self.settings.clone(),
            capture: None,
            idle: if self.awake { Idle::Awake } else { Idle::AsConfigured },
            cpu: self.meter.map_or(Preference::Best, Preference::Only),
            rig: RigOptions {
                sender_cpu: self.sender_cpu,
                host_cpu: self.host_cpu,
                between: Some(between),
                ..RigOptions::default()
            },
            checks: checks.collect::<Result<_, _>>().map_err(|error: netcliff_core::ParseError| error.to_string())?,
            engines,
        })
    }
}

/// Progress of a run since the last report.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FindProgress {
    /// Stages begun since the last report.
    pub stages: Vec<String>,
    /// The present trial: (load (pps), time since the start (s), planned time (s)).
    pub trial: Option<(f64, f64, f64)>,
    /// Records completed since the last report.
    pub records: Vec<Record>,
    /// Next command for the client's generator.
    pub order: Option<GeneratorCommand>,
}

/// Final report of a run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FindReport {
    /// Progress that has not been reported yet.
    pub progress: FindProgress,
    /// The result; `None`: see `failed`.
    pub finding: Option<Box<Finding>>,
    /// Why there is no result.
    pub failed: Option<String>,
}

/// `find` as a service of an agent.
#[derive(Debug, Clone)]
pub struct FindKind {
    /// Interfaces that may receive load.
    pub permission: Permission,
    /// Interfaces whose settings checks may change.
    pub settings: Permission,
    /// Highest load that clients may request (pps); `None`: no limit.
    pub most_pps: Option<f64>,
}

impl Kind for FindKind {
    fn name(&self) -> &'static str {
        FIND
    }

    fn memory_bytes(&self, _settings: &Value) -> u64 {
        MEMORY_BYTES
    }

    fn start(&self, settings: &Value, context: &Context) -> Result<Box<dyn FarEnd>, Refusal> {
        let request: FindRequest = serde_json::from_value(settings.clone()).map_err(|e| format!("{FIND}: {e}"))?;
        let interface = self.interface(&request.sender, context.local)?;
        let desk = Arc::<OrderQueue>::default();
        let sender = &request.sender;
        let carrier = Reverse {
            desk: Arc::clone(&desk),
            shares_clock: sender.clock.is_some() && sender.clock == ClockId::of_this_process(),
            fingerprint: sender.fingerprint.clone(),
            peer: format!("{} of {}", sender.interface, sender.address),
        };
        let between = BetweenOptions {
            interface,
            carriers: vec![Arc::new(Mutex::new(Box::new(carrier)))],
            their_interface: Some(sender.interface.clone()),
            by_control_link: sender.by_control_link,
            sending: Sending {
                most_pps: request.sending.most_pps.into_iter().chain(self.most_pps).reduce(f64::min),
                queues: request.sending.queues.min(MOST_QUEUES),
                ..request.sending
            },
        };
        let engines = if request.computes { Elsewhere::client_of(Arc::clone(&desk)) } else { Elsewhere::default() };
        let options = request.options(between, engines)?;
        self.allows(&options.checks, &options.rig)?;
        Ok(Box::new(FarFind::start(options, desk)?))
    }

    fn summary(&self, report: &Value) -> Option<String> {
        let cliff_pps = report.pointer("/finding/cliff_pps/wire/value")?.as_f64()?;
        Some(format!("the cliff was at {cliff_pps:.0} pps"))
    }
}

impl FindKind {
    /// Refuses checks that change an interface which clients must not change.
    fn allows(&self, checks: &[CheckSetup], rig: &RigOptions) -> Result<(), String> {
        let Permission::Interfaces(allowed) = &self.settings else { return Ok(()) };
        let name = rig.between.as_ref().map_or("", |between| &between.interface);
        match checks.iter().find(|check| !check.settings().is_empty()) {
            Some(check) if !allowed.iter().any(|allowed| allowed == name) => {
                let given = if allowed.is_empty() { "none".to_owned() } else { allowed.join(", ") };
                Err(format!(
                    "--check {} changes {name}, and this agent lets clients change {given}: start it with --allow-settings {name}",
                    quote::in_short(check.name())
                ))
            }
            _ => Ok(()),
        }
    }

    /// The interface of this host on the sender's link.
    fn interface(&self, sender: &SenderEnd, control: Option<IpAddr>) -> Result<String, String> {
        let found = neighbour::find(sender.address, None).map_err(|error| error.to_string())?;
        let name = found.interface;
        if let Permission::Interfaces(allowed) = &self.permission
            && !allowed.contains(&name)
        {
            let given = if allowed.is_empty() { "none".to_owned() } else { allowed.join(", ") };
            return Err(format!(
                "{} comes in by {name}, and this agent lets clients load {given}: start it with --allow-find {name}",
                sender.address
            ));
        }
        if control == Some(found.source.into()) && !sender.by_control_link {
            return Err(format!(
                "{name} also carries the control connection, which the load would cut off: connect to the agent by another \
                 network, or give --i-know"
            ));
        }
        Ok(name)
    }
}

/// A run, and its unreported progress.
struct FarFind {
    desk: Arc<OrderQueue>,
    said: Arc<Mutex<FindProgress>>,
    stop: Arc<AtomicBool>,
    run: Option<JoinHandle<Result<Finding, String>>>,
}

/// Collects the progress of a run until it is reported.
struct Gathered(Arc<Mutex<FindProgress>>);

fn lock(said: &Mutex<FindProgress>) -> MutexGuard<'_, FindProgress> {
    said.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Observer for Gathered {
    fn stage(&mut self, name: &str) {
        lock(&self.0).stages.push(name.to_owned());
    }

    fn trial(&mut self, load_pps: f64, elapsed_s: f64, planned_s: f64) {
        lock(&self.0).trial = Some((load_pps, elapsed_s, planned_s));
    }

    fn record(&mut self, record: &Record) {
        lock(&self.0).records.push(record.clone());
    }
}

impl FarFind {
    fn start(options: FindOptions, desk: Arc<OrderQueue>) -> Result<Self, String> {
        let (stop, said) = (Arc::<AtomicBool>::default(), Arc::<Mutex<FindProgress>>::default());
        let (theirs, mut gathered) = (Arc::clone(&stop), Gathered(Arc::clone(&said)));
        let run = move || find(&options, theirs, &mut gathered).map_err(|error| error.to_string());
        let run = std::thread::Builder::new().name("netcliff-find".into()).spawn(run);
        let run = run.map_err(|error| format!("no thread for the run: {error}"))?;
        Ok(Self { desk, said, stop, run: Some(run) })
    }

    fn end(&mut self) -> FindReport {
        self.halt();
        let outcome = self.run.take().map(JoinHandle::join);
        let progress = std::mem::take(&mut *lock(&self.said));
        let (finding, failed) = match outcome {
            Some(Ok(Ok(finding))) => (Some(Box::new(finding)), None),
            Some(Ok(Err(why))) => (None, Some(why)),
            Some(Err(_)) => {
                (None, Some("its thread died, which is an error of netcliff: the agent's stderr has it".to_owned()))
            }
            None => (None, None),
        };
        FindReport { progress, finding, failed }
    }

    /// Sets the stop flag, and ends every wait for the client.
    fn halt(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.desk.leave();
    }
}

impl FarEnd for FarFind {
    fn ports(&self) -> Vec<u16> {
        Vec::new()
    }

    fn report(&mut self) -> Result<Value, String> {
        let progress = FindProgress { order: self.desk.next(), ..std::mem::take(&mut *lock(&self.said)) };
        serde_json::to_value(progress).map_err(|e| e.to_string())
    }

    fn tell(&mut self, said: Value) -> Result<(), String> {
        self.desk.take(said)
    }

    fn finished(&mut self) -> bool {
        self.run.as_ref().is_none_or(JoinHandle::is_finished)
    }

    fn stop(mut self: Box<Self>) -> Value {
        serde_json::to_value(self.end()).unwrap_or_default()
    }
}

impl Drop for FarFind {
    fn drop(&mut self) {
        self.halt();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netcliff_remote::load::Carrier;

    /// Returns whether an agent with `settings` (interfaces whose settings clients may change) accepts these checks at
    /// eth1.
    fn allowed(settings: Permission, checks: &[&str]) -> Result<(), String> {
        let checks: Vec<CheckSetup> = checks.iter().map(|text| text.parse().expect("a check")).collect();
        let desk = Arc::<OrderQueue>::default();
        let carrier: Box<dyn Carrier> = Box::new(Reverse {
            desk,
            shares_clock: false,
            fingerprint: Fingerprint::default(),
            peer: "a test".to_owned(),
        });
        let between = BetweenOptions {
            interface: "eth1".to_owned(),
            carriers: vec![Arc::new(Mutex::new(carrier))],
            their_interface: None,
            by_control_link: false,
            sending: Sending::default(),
        };
        let rig = RigOptions { between: Some(between), ..RigOptions::default() };
        FindKind { permission: Permission::Any, settings, most_pps: None }.allows(&checks, &rig)
    }

    #[test]
    fn checks_change_only_what_the_agent_lets_clients_change() {
        let only = |name: &str| Permission::Interfaces(vec![name.to_owned()]);
        assert_eq!(allowed(Permission::Interfaces(Vec::new()), &["size=512B", "backlog=200"]), Ok(()));
        assert_eq!(allowed(only("eth1"), &["rx-usecs=100"]), Ok(()));
        assert_eq!(allowed(Permission::Any, &["rx-usecs=100"]), Ok(()));
        let none =
            allowed(Permission::Interfaces(Vec::new()), &["size=512B", "rx-usecs=100"]).expect_err("none is allowed");
        let other = allowed(only("eth0"), &["gro=off"]).expect_err("another is allowed");
        for (why, words) in [
            (none, ["--check rx-usecs=100 changes eth1", "change none", "--allow-settings eth1"]),
            (other, ["--check gro=off changes eth1", "change eth0", "--allow-settings eth1"]),
        ] {
            assert!(words.iter().all(|word| why.contains(word)), "{why}");
        }
    }
}
