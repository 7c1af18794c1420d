//! `find` for an agent's host: the agent runs the stages there, and its client, on the host of the generator, sends the
//! load, or forwards the commands to generators in other agents.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use netcliff_core::{Finding, Fingerprint, Record, quote};
use netcliff_host::cpu::{Method, Preference};
use netcliff_host::nic::neighbour;
use netcliff_packets::error::Refusal;
use netcliff_remote::control::far::{Context, FarEnd, Kind};
use netcliff_remote::control::message::ClockId;
use netcliff_remote::load::{
    Carrier, Chunk, GeneratorCommand, LONGEST_BYTES, OrderQueue, Permission, Reverse, is_first,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{CheckSetup, Elsewhere, FindOptions, Idle, Observer, Settings, find};
use netcliff_trial::rig::{BetweenOptions, LinkOptions, MOST_QUEUES, RigOptions, Sending, SharedCarrier};

/// Name of this service of an agent on the control channel.
pub const FIND: &str = "find";
/// Feature of this service in an agent's hello: the load may come from other agents.
pub const FROM_AGENTS: &str = "load from other agents";
/// Largest number of generators: the agent has a buffer for the reports of each.
const MOST_GENERATORS: usize = 64;
/// Memory that a run needs: the simulator's packets and the meter's tables (bytes). Each generator in another agent
/// needs [`LONGEST_BYTES`] more, for its reports.
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
    /// How the load is sent.
    #[serde(flatten)]
    sending: Sending,
    /// True: the client computes the engines' results.
    #[serde(default)]
    computes: bool,
    /// Where the load comes from.
    #[serde(flatten)]
    senders: Senders,
}

/// Where the load comes from; a key of the request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Senders {
    /// The client.
    #[serde(rename = "sender")]
    Client(SenderEnd),
    /// Other agents, to which the client forwards commands.
    #[serde(rename = "agents")]
    Agents(FarSenders),
}

/// Generators in other agents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FarSenders {
    /// Interface under test. `None`: the one that leads to `address`.
    pub interface: Option<String>,
    /// Address of the first generator's host. `None` if the client does not know it.
    pub address: Option<IpAddr>,
    /// Interface by which the generators send. `None`: by their routes.
    pub their_interface: Option<String>,
    /// True: the control connections may use the link of the load, too.
    pub by_control_link: bool,
    /// The generators, in the order of the client's messages about them.
    pub generators: Vec<FarGenerator>,
}

/// A generator in another agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FarGenerator {
    /// Name of its agent.
    pub peer: String,
    /// Clock of the frames' timestamps.
    pub clock: Option<ClockId>,
    /// Properties of its host that explain why results differ between hosts.
    pub fingerprint: Fingerprint,
}

/// The sending end of the link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SenderEnd {
    /// Interface of the sender.
    pub interface: String,
    /// Address of the sender's interface.
    pub address: IpAddr,
    /// True: the control connection may use this link, too.
    pub by_control_link: bool,
    /// Clock of the frames' timestamps.
    pub clock: Option<ClockId>,
    /// Properties of the sender's host that explain why results differ between hosts.
    pub fingerprint: Fingerprint,
}

impl FindRequest {
    /// Returns the request for these options; `sending`: how the load is sent.
    pub fn of(options: &FindOptions, sending: Sending, senders: Senders) -> Self {
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
            senders,
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
                link: LinkOptions { ipv6: self.settings.ipv6, ..LinkOptions::default() },
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
    /// Next command for a generator of the client.
    pub order: Option<GeneratorCommand>,
    /// Place of the generator that the command is for.
    #[serde(skip_serializing_if = "is_first")]
    pub generator: usize,
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

    fn features(&self) -> &'static [&'static str] {
        &[FROM_AGENTS]
    }

    fn memory_bytes(&self, settings: &Value) -> u64 {
        let generators = settings.pointer("/agents/generators").and_then(Value::as_array).map_or(0, Vec::len);
        MEMORY_BYTES + generators as u64 * LONGEST_BYTES as u64
    }

    fn start(&self, settings: &Value, context: &Context) -> Result<Box<dyn FarEnd>, Refusal> {
        let request: FindRequest = serde_json::from_value(settings.clone()).map_err(|e| format!("{FIND}: {e}"))?;
        let interface = self.interface(&request, context.local)?;
        let (desks, carriers): (Vec<_>, Vec<_>) = request.senders.carriers()?.into_iter().unzip();
        let (their_interface, by_control_link) = match &request.senders {
            Senders::Client(sender) => (Some(sender.interface.clone()), sender.by_control_link),
            Senders::Agents(far) => (far.their_interface.clone(), far.by_control_link),
        };
        let between = BetweenOptions {
            interface,
            carriers,
            their_interface,
            by_control_link,
            sending: Sending {
                most_pps: request.sending.most_pps.into_iter().chain(self.most_pps).reduce(f64::min),
                queues: request.sending.queues.min(MOST_QUEUES),
                ..request.sending
            },
        };
        let computes = desks.first().filter(|_| request.computes);
        let engines = computes.map_or_else(Elsewhere::default, |desk| Elsewhere::client_of(Arc::clone(desk)));
        let options = request.options(between, engines)?;
        self.allows(&options.checks, &options.rig)?;
        Ok(Box::new(FarFind::start(options, desks)?))
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

    /// The interface of this host on the link of the load.
    fn interface(&self, request: &FindRequest, control: Option<IpAddr>) -> Result<String, String> {
        let (named, address, by_control_link) = match &request.senders {
            Senders::Client(sender) => (None, Some(sender.address), sender.by_control_link),
            Senders::Agents(far) => (far.interface.as_ref(), far.address, far.by_control_link),
        };
        let name = match (named, address) {
            (Some(name), _) => neighbour::own_end(name, request.settings.ipv6).map(|_| name.clone()),
            (None, Some(address)) => neighbour::find(address, None).map(|found| found.interface),
            (None, None) => {
                return Err("the address of the generator is unknown: name the interface by --if".to_owned());
            }
        };
        let name = name.map_err(|error| error.to_string())?;
        if let Permission::Interfaces(allowed) = &self.permission
            && !allowed.contains(&name)
        {
            let given = if allowed.is_empty() { "none".to_owned() } else { allowed.join(", ") };
            let load = address.filter(|_| named.is_none()).map_or_else(|| "the load".to_owned(), |at| at.to_string());
            return Err(format!(
                "{load} comes in by {name}, and this agent lets clients load {given}: start it with --allow-find {name}"
            ));
        }
        if control.is_some_and(|control| neighbour::carries(&name, control)) && !by_control_link {
            return Err(format!(
                "{name} also carries the control connection, which the load would cut off: connect to the agent by another \
                 network, or give --i-know"
            ));
        }
        Ok(name)
    }
}

impl Senders {
    /// The generators, each with the queue of its commands.
    fn carriers(&self) -> Result<Vec<(Arc<OrderQueue>, SharedCarrier)>, String> {
        let one = |peer: String, clock: &Option<ClockId>, fingerprint: &Fingerprint| {
            let desk = Arc::<OrderQueue>::default();
            let carrier: Box<dyn Carrier> = Box::new(Reverse {
                desk: Arc::clone(&desk),
                shares_clock: clock.is_some() && *clock == ClockId::of_this_process(),
                fingerprint: fingerprint.clone(),
                peer,
            });
            (desk, Arc::new(Mutex::new(carrier)))
        };
        match self {
            Self::Client(sender) => {
                let peer = format!("{} of {}", sender.interface, sender.address);
                Ok(vec![one(peer, &sender.clock, &sender.fingerprint)])
            }
            Self::Agents(far) if (1..=MOST_GENERATORS).contains(&far.generators.len()) => {
                Ok(far.generators.iter().map(|each| one(each.peer.clone(), &each.clock, &each.fingerprint)).collect())
            }
            Self::Agents(far) => {
                Err(format!("{} generators: expected 1 to {MOST_GENERATORS} of them", far.generators.len()))
            }
        }
    }
}

/// A run, and its unreported progress.
struct FarFind {
    /// The commands for each generator.
    desks: Vec<Arc<OrderQueue>>,
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
    fn start(options: FindOptions, desks: Vec<Arc<OrderQueue>>) -> Result<Self, String> {
        let (stop, said) = (Arc::<AtomicBool>::default(), Arc::<Mutex<FindProgress>>::default());
        let (theirs, mut gathered) = (Arc::clone(&stop), Gathered(Arc::clone(&said)));
        let run = move || find(&options, theirs, &mut gathered).map_err(|error| error.to_string());
        let run = std::thread::Builder::new().name("netcliff-find".into()).spawn(run);
        let run = run.map_err(|error| format!("no thread for the run: {error}"))?;
        Ok(Self { desks, said, stop, run: Some(run) })
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
        self.desks.iter().for_each(|desk| desk.leave());
    }
}

impl FarEnd for FarFind {
    fn ports(&self) -> Vec<u16> {
        Vec::new()
    }

    fn report(&mut self) -> Result<Value, String> {
        let waiting = self.desks.iter().enumerate().find_map(|(place, desk)| Some((place, desk.next()?)));
        let (generator, order) = waiting.map_or((0, None), |(place, order)| (place, Some(order)));
        let progress = FindProgress { order, generator, ..std::mem::take(&mut *lock(&self.said)) };
        serde_json::to_value(progress).map_err(|e| e.to_string())
    }

    fn tell(&mut self, said: Value) -> Result<(), String> {
        let place = Chunk::generator_of(&said);
        let desk = self.desks.get(place).ok_or_else(|| format!("generator {place} is not part of this run"))?;
        desk.take(said)
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

    #[test]
    fn each_generator_needs_memory_for_its_reports() {
        let kind = FindKind { permission: Permission::Any, settings: Permission::Any, most_pps: None };
        let of = |settings: Value| kind.memory_bytes(&settings);
        let two = of(serde_json::json!({"agents": {"generators": [{}, {}]}}));
        assert_eq!(two - of(serde_json::json!({"sender": {}})), 2 * LONGEST_BYTES as u64);
    }

    #[test]
    fn a_request_names_the_family_only_if_it_is_ipv6() {
        let request = |settings: Settings| {
            let sender = SenderEnd {
                interface: "eth0".to_owned(),
                address: "2001:2::1".parse().expect("an address"),
                by_control_link: false,
                clock: None,
                fingerprint: Fingerprint::default(),
            };
            FindRequest::of(
                &FindOptions { settings, ..FindOptions::default() },
                Sending::default(),
                Senders::Client(sender),
            )
        };
        let of = |request: &FindRequest| serde_json::to_value(request).expect("it is plain");
        assert!(of(&request(Settings::default())).get("ipv6").is_none(), "older agents take the request");
        let six = request(Settings { ipv6: true, frame_bytes: 84, ..Settings::default() });
        assert_eq!((&of(&six)["ipv6"], &of(&six)["sender"]["address"]), (&true.into(), &"2001:2::1".into()));
        assert_eq!(serde_json::from_value::<FindRequest>(of(&six)).expect("what was written"), six);
        let between = || BetweenOptions {
            interface: "eth1".to_owned(),
            carriers: Vec::new(),
            their_interface: None,
            by_control_link: false,
            sending: Sending::default(),
        };
        let options = six.options(between(), Elsewhere::default()).expect("84 bytes are enough");
        assert!(options.rig.link.ipv6 && options.settings.ipv6);
        let short = request(Settings { ipv6: true, ..Settings::default() });
        let why = short.options(between(), Elsewhere::default()).expect_err("64 bytes are not");
        assert!(why.contains("frame_bytes 64: expected 84 bytes or more"), "{why}");
    }

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

    /// A request as a client of `--of` writes it.
    fn of_client(senders: Senders) -> Value {
        let request = FindRequest::of(&FindOptions::default(), Sending::default(), senders);
        serde_json::to_value(request).expect("plain data")
    }

    fn from_agents(interface: Option<&str>, generators: usize) -> FarSenders {
        let one = |place: usize| FarGenerator {
            peer: format!("10.0.0.{place}:9940"),
            clock: None,
            fingerprint: Fingerprint::default(),
        };
        FarSenders {
            interface: interface.map(str::to_owned),
            address: None,
            their_interface: None,
            by_control_link: false,
            generators: (1..=generators).map(one).collect(),
        }
    }

    #[test]
    fn a_client_that_sends_writes_the_request_that_older_agents_read() {
        let sender = SenderEnd {
            interface: "eth0".to_owned(),
            address: [10, 0, 0, 1].into(),
            by_control_link: true,
            clock: None,
            fingerprint: Fingerprint::default(),
        };
        let request = of_client(Senders::Client(sender.clone()));
        assert_eq!(request["sender"], serde_json::to_value(&sender).expect("plain data"));
        assert!(request.get("agents").is_none(), "{request}");
        let read: FindRequest = serde_json::from_value(request).expect("a request");
        assert_eq!(read.senders, Senders::Client(sender));
        let progress = serde_json::to_value(FindProgress::default()).expect("plain data");
        assert!(progress.get("generator").is_none(), "{progress}");
    }

    #[test]
    fn load_from_agents_is_refused_without_an_interface_a_permission_or_a_generator() {
        let kind = |permission| FindKind { permission, settings: Permission::Any, most_pps: None };
        let only = Permission::Interfaces(vec!["eth9".to_owned()]);
        let context = Context {
            local: None,
            token: netcliff_remote::control::key::Token::new().expect("random bytes"),
            settings: false,
        };
        for (permission, far, words) in [
            (Permission::Any, from_agents(None, 1), "name the interface by --if"),
            (only, from_agents(Some("none0"), 1), "none0 does not exist here"),
        ] {
            let request = of_client(Senders::Agents(far));
            let why = kind(permission).start(&request, &context).err().expect("it is refused").to_string();
            assert!(why.contains(words), "{why}");
        }
        for (number, is_accepted) in [(0, false), (1, true), (MOST_GENERATORS, true), (MOST_GENERATORS + 1, false)] {
            let all = Senders::Agents(from_agents(Some("eth1"), number)).carriers();
            assert_eq!(all.ok().map(|all| all.len()), is_accepted.then_some(number));
        }
    }

    #[test]
    fn commands_and_reports_go_to_their_generator() {
        let desks: Vec<Arc<OrderQueue>> = vec![Arc::default(), Arc::default()];
        let mut far = FarFind { desks: desks.clone(), said: Arc::default(), stop: Arc::default(), run: None };
        let theirs = Arc::clone(&desks[1]);
        let asker = std::thread::spawn(move || theirs.compute(serde_json::json!(7)));
        let progress: FindProgress = loop {
            let progress = serde_json::from_value(far.report().expect("progress")).expect("progress");
            if let FindProgress { order: Some(_), .. } = progress {
                break progress;
            }
        };
        assert_eq!(progress.generator, 1);
        let Some(GeneratorCommand::Compute { id, .. }) = progress.order else { panic!("{progress:?}") };
        for piece in netcliff_remote::load::computed(id, serde_json::json!(49)) {
            let message = |place| serde_json::to_value(piece.clone().of_generator(place)).expect("plain data");
            let why = far.tell(message(2)).expect_err("it has two");
            assert!(why.contains("generator 2"), "{why}");
            assert!(far.tell(message(0)).is_err(), "the other one computes");
            far.tell(message(1)).expect("it is taken");
        }
        assert_eq!(asker.join().expect("it ends").expect("an answer"), serde_json::json!(49));
        far.halt();
        assert!(desks.iter().all(|desk| desk.compute(Value::Null).is_err()), "all generators are left");
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
