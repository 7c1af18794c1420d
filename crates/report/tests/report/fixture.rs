//! An artificial finding with exactly known figures: a host that livelocks, with results of three engines. Also
//! variants of it that a page must handle.
//!
//! Every figure follows from two costs (protocol p, application a) by the fluid limit: delivered = min(load, (1 - load
//! x p) / a), so that the pictures have realistic shapes.

use netcliff_core::finding::{
    ByEngine, Calibration, Change, Cost, GeneratorSummary, HostSummary, LatencyAt, Missing, Setup, SetupCheck,
    Suggestion, SweepPoint, Tried,
};
use netcliff_core::{
    CpuShares, EngineKind, Figure, Finding, Fingerprint, Host, Latency, Loss, Outcome, Point, Provenance, Record,
};

/// Costs of the fluid host by one engine, and the relative half width of that engine's figures.
struct Fluid {
    engine: EngineKind,
    protocol_s: f64,
    application_s: f64,
    spread: Option<f64>,
}

const MODEL: Fluid = Fluid { engine: EngineKind::Model, protocol_s: 1.15e-6, application_s: 1.17e-6, spread: None };
const SIM: Fluid = Fluid { engine: EngineKind::Sim, protocol_s: 1.14e-6, application_s: 1.25e-6, spread: Some(0.012) };
const WIRE: Fluid = Fluid { engine: EngineKind::Wire, protocol_s: 1.15e-6, application_s: 1.28e-6, spread: Some(0.03) };

impl Fluid {
    fn figure(&self, value: f64) -> Figure {
        match self.spread {
            Some(spread) => Figure::sampled(value, spread * value, 0.95),
            None => Figure::exact(value),
        }
    }

    fn cliff_pps(&self) -> f64 {
        1.0 / (self.protocol_s + self.application_s)
    }

    fn delivered_pps(&self, load: f64) -> f64 {
        // A small rate is still delivered if protocol work could take all of the CPU.
        load.min(((1.0 - load * self.protocol_s) / self.application_s).max(0.02 / self.application_s))
    }

    fn latency(&self, load: f64) -> Latency {
        let rho = load / self.cliff_pps();
        let median = if rho < 0.98 { 9e-6 + 2.4e-6 * rho / (1.0 - rho) } else { 1.9e-3 * rho };
        let tail = |factor: f64| Some(self.figure(median * if rho < 0.98 { factor } else { 1.0 + factor / 20.0 }));
        Latency {
            mean: tail(1.2),
            p50: tail(1.0),
            p90: tail(2.0),
            p99: tail(4.5),
            p999: tail(9.0),
            max: tail(15.0),
            done_mean: None,
        }
    }

    fn cpu(&self, load: f64) -> CpuShares {
        let application = self.delivered_pps(load) * self.application_s;
        let kernel = (load * self.protocol_s).min(1.0 - application);
        let share = |value: f64| Some(self.figure(value));
        CpuShares {
            interrupt: share(0.04 * kernel),
            poll: share(0.06 * kernel),
            protocol: share(0.9 * kernel),
            application: share(application),
            paused: None,
            available: share((1.0 - application - kernel).max(0.0)),
        }
    }

    fn loss(&self, load: f64) -> (Figure, Loss) {
        let lost = 1.0 - self.delivered_pps(load) / load;
        let ring = (1.0 - 1.0 / (load * self.protocol_s)).clamp(0.0, lost);
        let figure = |value: f64| match self.spread {
            Some(_) if value == 0.0 => Figure::between(0.0, 0.0, 4e-6, 0.95),
            _ => self.figure(value),
        };
        let sender = (self.engine == EngineKind::Wire).then(|| figure(0.0));
        (figure(lost), Loss { ring: Some(figure(ring)), socket: Some(figure(lost - ring)), sender })
    }

    fn outcome(&self, load: f64) -> Outcome {
        let (loss_fraction, loss) = self.loss(load);
        Outcome {
            offered_pps: (self.engine == EngineKind::Wire).then(|| Figure::sampled(load * 0.998, load * 0.001, 0.95)),
            throughput_pps: Some(self.figure(self.delivered_pps(load))),
            goodput_bps: Some(self.figure(self.delivered_pps(load) * 512.0)),
            loss_fraction: Some(loss_fraction),
            loss: Some(loss),
            latency_s: Some(self.latency(load)),
            latency_to: Some("application".to_owned()),
            cpu: Some(self.cpu(load)),
            cpu_method: Some(if self.engine == EngineKind::Wire { "ebpf" } else { "simulated" }.to_owned()),
            packets_per_poll: Some(self.figure(1.0 + 20.0 * load / 9e5)),
            ..Outcome::default()
        }
    }

    fn sweep(&self, loads: impl Iterator<Item = f64>) -> Vec<SweepPoint> {
        loads
            .map(|load_pps| SweepPoint {
                engine: self.engine,
                load_pps,
                repeats: if self.spread.is_some() { 5 } else { 1 },
                sender_kept_up: self.engine != EngineKind::Wire || load_pps < 8.5e5,
                outcome: self.outcome(load_pps),
            })
            .collect()
    }
}

fn from_each<T>(get: impl Fn(&Fluid) -> T) -> ByEngine<T> {
    ByEngine { model: Some(get(&MODEL)), sim: Some(get(&SIM)), wire: Some(get(&WIRE)) }
}

fn steps(step: f64, count: u32) -> impl Iterator<Item = f64> {
    (1..=count).map(move |index| f64::from(index) * step)
}

/// The livelocking host with everything measured.
pub fn livelocking() -> Finding {
    let sweep = [MODEL.sweep(steps(20e3, 45)), SIM.sweep(steps(30e3, 30)), WIRE.sweep(steps(75e3, 12))].concat();
    let setup = Setup {
        scheme: "napi:backlog=true".parse().expect("a scheme"),
        application_work_s: 1e-6,
        socket_buffer_bytes: 212_992,
        repeats: 5,
        trial_s: 2.0,
        quick: false,
        ..Setup::default()
    };
    Finding {
        host: host(),
        calibration: Some(calibration()),
        generator: GeneratorSummary {
            method: "AF_PACKET transmit ring, PACKET_QDISC_BYPASS".to_owned(),
            ceiling_pps: Some(Figure::sampled(906e3, 6e3, 0.95)),
            lateness_p99_s: Some(3.2e-6),
            frame_bytes: 64,
            ..GeneratorSummary::default()
        },
        cliff_pps: from_each(|fluid| fluid.figure(fluid.cliff_pps())),
        peak_pps: from_each(|fluid| fluid.figure(1.004 * fluid.cliff_pps())),
        livelock: from_each(|fluid| fluid.figure(fluid.delivered_pps(2.0 * fluid.cliff_pps()) / fluid.cliff_pps())),
        latency: [0.5, 0.9]
            .map(|share| LatencyAt {
                share,
                load_pps: share * WIRE.cliff_pps(),
                latency_s: from_each(|fluid| fluid.latency(share * WIRE.cliff_pps())),
            })
            .to_vec(),
        cpu_at_cliff: from_each(|fluid| fluid.cpu(fluid.cliff_pps())),
        cpu_at_twice: from_each(|fluid| fluid.cpu(2.0 * fluid.cliff_pps())),
        loss_at_twice: from_each(|fluid| fluid.loss(2.0 * fluid.cliff_pps()).1),
        binding: Some(
            "The CPU is full past the cliff: at 432 kpps it is 0 % idle, and 97 % of the loss at this load is in the socket buffer. \
             Protocol processing takes 51 % of the CPU, the application 40 %, interrupts and polls 9 %."
                .to_owned(),
        ),
        suggestions: suggestions(),
        sweep,
        checks: vec![check()],
        fingerprint: fingerprint(),
        provenance: provenance("netcliff find"),
        ..Finding::blank(setup, 1e-4)
    }
}

fn host() -> HostSummary {
    HostSummary {
        cpu: "2 x Intel(R) Xeon(R) Processor".to_owned(),
        kernel: "Linux 6.18.44, preempt none, HZ 250".to_owned(),
        testbed: "netns: sender on CPU 0, host under test on CPU 1".to_owned(),
        driver: "veth, RPS to CPU 1 (process_backlog)".to_owned(),
        limits: vec![
            "Virtual machine: CPU time may be taken by the hypervisor; steal was 0.4 % in this run.".to_owned(),
            "Two CPUs: the sender shares the machine with the host under test.".to_owned(),
        ],
        at: None,
    }
}

fn calibration() -> Calibration {
    let cost = |key: &str, figure: Figure, unit: &str, how: &str| Cost {
        key: key.to_owned(),
        figure,
        unit: unit.to_owned(),
        how: how.to_owned(),
    };
    let regression = "regression of NET_RX softirq time on packets and polls";
    let mut host = Host::pentium4_2530mhz();
    host.name = "calibrated".to_owned();
    host.protocol_s = 1.15e-6;
    host.application_s = Some(1.25e-6);
    Calibration {
        costs: vec![
            cost("wakeup", Figure::sampled(1.84e-6, 0.21e-6, 0.95), "s", "wake-ups timed at low load"),
            cost("poll", Figure::sampled(412e-9, 35e-9, 0.95), "s", regression),
            cost("protocol", Figure::sampled(1.146e-6, 0.012e-6, 0.95), "s", regression),
            cost("per_byte", Figure::sampled(0.21e-9, 0.05e-9, 0.95), "s/B", "64 B against 1500 B frames"),
            cost("application", Figure::sampled(1.252e-6, 0.018e-6, 0.95), "s", "thread CPU time a packet"),
            cost("ring", Figure::exact(1000.0), "packets", "netdev_max_backlog"),
            cost(
                "socket_buffer",
                Figure::sampled(277.0, 1.0, 0.95),
                "packets",
                "packets in the socket at the first drop",
            ),
        ],
        host,
        cpu_method: "ebpf".to_owned(),
        r_squared: Some(0.9982),
        correlated: Vec::new(),
    }
}

fn suggestions() -> Vec<Suggestion> {
    vec![
        Suggestion {
            setting: "sysctl net.core.netdev_max_backlog=4000".to_owned(),
            why: "bursts then fit the backlog".to_owned(),
            expected_cliff_pps: Some(Figure::sampled(418e3, 5e3, 0.95)),
            gain: None,
            change: Some(Change::NetdevMaxBacklog(4000)),
            tried: Some(Tried {
                rounds: 3,
                without_pps: Figure::between(391e3, 380e3, 396e3, 0.75),
                with_pps: Figure::between(420e3, 410e3, 431e3, 0.75),
                gain: Figure::between(0.074, 0.021, 0.13, 0.95),
            }),
        },
        Suggestion {
            setting: "run the application on another CPU than the one that receives (taskset, or RPS/IRQ affinity)"
                .to_owned(),
            why: "the application's work then leaves the receiving CPU".to_owned(),
            expected_cliff_pps: Some(Figure::sampled(481e3, 6e3, 0.95)),
            gain: None,
            change: None,
            tried: None,
        },
        Suggestion {
            setting: "a third setting".to_owned(),
            why: "the page shows the two most promising only".to_owned(),
            expected_cliff_pps: None,
            gain: None,
            change: None,
            tried: None,
        },
    ]
}

fn check() -> SetupCheck {
    SetupCheck {
        name: "work=2us".to_owned(),
        host: calibration().host,
        scheme: "napi:backlog=true".parse().expect("a scheme"),
        frame_bytes: 64,
        cliff_pps: from_each(|fluid| fluid.figure(0.7 * fluid.cliff_pps())),
        cliff_experienced_pps: Default::default(),
        delivered_at_1_5_pps: from_each(|fluid| fluid.figure(0.4 * fluid.cliff_pps())),
        delivered_at_2_pps: ByEngine { sim: None, ..from_each(|fluid| fluid.figure(0.1 * fluid.cliff_pps())) },
        settings: Vec::new(),
        below: Vec::new(),
        notes: Vec::new(),
    }
}

fn fingerprint() -> Fingerprint {
    let facts = [
        ("cpu.model", "Intel(R) Xeon(R) Processor"),
        ("cpu.smt", "off"),
        ("kernel.cmdline", "console=ttyS0 root=/dev/vda1 mitigations=auto"),
        ("kernel.release", "6.18.44"),
        ("nic.driver", "veth"),
        ("nic.mtu", "1500"),
        ("sysctl.net.core.netdev_budget", "300"),
        ("sysctl.net.core.netdev_max_backlog", "1000"),
    ];
    Fingerprint { facts: facts.map(|(name, fact)| (name.to_owned(), fact.to_owned())).into() }
}

fn provenance(command: &str) -> Provenance {
    Provenance {
        version: "0.1.0".to_owned(),
        seed: Some(42),
        command: command.to_owned(),
        started_unix_s: 1_790_000_000.0,
        elapsed_s: Some(184.2),
        fingerprint_id: Some(fingerprint().id()),
        settings: [("generator".to_owned(), "AF_PACKET".to_owned())].into(),
    }
}

/// Namespaces were forbidden: nothing was measured, and one reason applies to all figures.
pub fn no_wire() -> Finding {
    let mut finding = livelocking();
    for engine in [&mut finding.cliff_pps, &mut finding.peak_pps, &mut finding.livelock] {
        engine.wire = None;
    }
    finding.latency.iter_mut().for_each(|at| at.latency_s.wire = None);
    finding.cpu_at_cliff.wire = None;
    finding.cpu_at_twice.wire = None;
    finding.loss_at_twice.wire = None;
    finding.generator = GeneratorSummary::default();
    finding.sweep.retain(|point| point.engine != EngineKind::Wire);
    let why = "network namespaces are forbidden here (EPERM): run as root, or allow user namespaces";
    finding.missing.push(Missing { figure: "wire".to_owned().into(), why: why.to_owned() });
    finding.missing.push(Missing { figure: "generator.ceiling_pps".to_owned().into(), why: why.to_owned() });
    finding
}

/// Ctrl-C in the middle of the sweep: no cliff was bracketed; the measured figures remain.
pub fn partial() -> Finding {
    let mut finding = livelocking();
    finding.partial = true;
    finding.sweep.retain(|point| point.engine != EngineKind::Wire || point.load_pps < 3e5);
    for engine in [&mut finding.cliff_pps, &mut finding.livelock] {
        engine.wire = None;
    }
    finding.cpu_at_cliff.wire = None;
    finding.cpu_at_twice.wire = None;
    finding.loss_at_twice.wire = None;
    finding.missing.push(Missing {
        figure: "cliff_pps.wire".to_owned().into(),
        why: "stopped before a load with loss was measured".to_owned(),
    });
    finding
}

/// A host that stays flat past its cliff.
pub fn flat() -> Finding {
    let mut finding = livelocking();
    finding.livelock = from_each(|fluid| fluid.figure(0.993));
    for point in &mut finding.sweep {
        let fluid = [&MODEL, &SIM, &WIRE].into_iter().find(|fluid| fluid.engine == point.engine).expect("an engine");
        let delivered = point.load_pps.min(fluid.cliff_pps());
        point.outcome.throughput_pps = Some(fluid.figure(delivered));
    }
    finding
}

/// Nothing could be measured, and no reason is known.
pub fn nothing() -> Finding {
    let mut finding = livelocking();
    finding.host = HostSummary::default();
    finding.calibration = None;
    finding.generator = GeneratorSummary::default();
    finding.cliff_pps = ByEngine::default();
    finding.peak_pps = ByEngine::default();
    finding.livelock = ByEngine::default();
    finding.latency.clear();
    finding.cpu_at_cliff = ByEngine::default();
    finding.cpu_at_twice = ByEngine::default();
    finding.loss_at_twice = ByEngine::default();
    finding.checks.clear();
    finding.binding = None;
    finding.suggestions.clear();
    finding.sweep.clear();
    finding.fingerprint = Fingerprint::default();
    finding.provenance = Provenance::default();
    finding
}

/// Text that HTML, XML, CSV or a terminal would interpret if it were not escaped.
pub const HOSTILE: &str = "</script><img src=x onerror=alert(1)>&\"'\u{1b}[31m";

/// The livelocking host with hostile text wherever text can be.
pub fn hostile() -> Finding {
    let mut finding = livelocking();
    let text = || HOSTILE.to_owned();
    finding.host =
        HostSummary { cpu: text(), kernel: text(), testbed: text(), driver: text(), limits: vec![text()], at: None };
    finding.binding = Some(text());
    finding.generator.method = text();
    for cost in &mut finding.calibration.as_mut().expect("calibrated").costs {
        (cost.key, cost.unit, cost.how) = (text(), text(), text());
    }
    for suggestion in &mut finding.suggestions {
        (suggestion.setting, suggestion.why) = (text(), text());
    }
    finding.missing.push(Missing { figure: text().into(), why: text() });
    finding.fingerprint.facts.insert(text(), text());
    finding.provenance.command = text();
    finding.provenance.version = text();
    finding.provenance.settings.insert(text(), text());
    finding
}

/// Every variant with its name, for tests that hold for all of them.
pub fn variants() -> Vec<(&'static str, Finding)> {
    vec![
        ("livelocking", livelocking()),
        ("no-wire", no_wire()),
        ("partial", partial()),
        ("flat", flat()),
        ("nothing", nothing()),
        ("hostile", hostile()),
    ]
}

/// Records of one scheme on three engines at a few loads.
pub fn records() -> Vec<Record> {
    let schemes = ["interrupt", "napi:backlog=true"];
    let engines = [&MODEL, &SIM];
    let mut records = Vec::new();
    for scheme in schemes {
        for fluid in engines {
            for load in [100e3, 400e3, 800e3] {
                records.push(Record {
                    point: Point::poisson(Host::pentium4_2530mhz(), scheme.parse().expect("a scheme"), load),
                    engine: fluid.engine,
                    outcome: fluid.outcome(load),
                    provenance: provenance("netcliff simulate --rates 100kpps,400kpps,800kpps"),
                });
            }
        }
    }
    records
}
