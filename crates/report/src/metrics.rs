//! [`metrics`]: the answer of `--metrics`, in Prometheus' text format 0.0.4 or in OpenMetrics 1.0
//! (github.com/prometheus/OpenMetrics, specification/OpenMetrics.md). Both have the same samples; they differ in how
//! counters are declared and in the last line.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use netcliff_core::headroom::{Bound, Headroom, Nearest};
use netcliff_core::metrics::{AgentCounters, Counters};
use netcliff_core::watch::Moment;

use crate::format::printable;

/// The source of the samples. Rates and shares are for the interval between the last two readings. Counters are totals
/// since boot, since an interface was created, or since an agent was started.
#[derive(Debug, Clone, Copy)]
pub struct MetricsSource<'a> {
    /// Version of the program.
    pub version: &'a str,
    /// Counters.
    pub counters: &'a Counters,
    /// Activity between the last two readings. `None` if there was only one.
    pub moment: Option<&'a Moment>,
    /// Distance to the calibrated cliff; `None` without a calibration.
    pub headroom: Option<&'a Headroom>,
    /// Counters of an agent. `None` if another command answers.
    pub agent: Option<&'a AgentCounters>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
}

/// The text of an answer while it is written.
struct Text {
    text: String,
    open_metrics: bool,
}

type Labels<'a> = &'a [(&'a str, String)];

impl Text {
    /// Writes a family (the samples of one metric), each sample with its labels and value. A family without samples is
    /// left out. Names of counters end in `_total`.
    fn family<'a>(
        &mut self,
        name: &str,
        kind: Kind,
        help: &str,
        samples: impl IntoIterator<Item = (Vec<(&'a str, String)>, f64)>,
    ) {
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_none() {
            return;
        }
        let (declared, kind) = match kind {
            Kind::Counter if self.open_metrics => (name.strip_suffix("_total").unwrap_or(name), "counter"),
            Kind::Counter => (name, "counter"),
            Kind::Gauge => (name, "gauge"),
        };
        let _ = writeln!(self.text, "# HELP {declared} {help}\n# TYPE {declared} {kind}");
        // Replacing invisible characters may make names of interfaces equal, and a duplicate sample makes the whole
        // answer invalid.
        let mut seen: BTreeMap<String, u32> = BTreeMap::new();
        for (mut labels, value) in samples {
            labels.iter_mut().for_each(|(_, value)| *value = printable(value));
            let times = seen.entry(written(&labels)).or_default();
            *times += 1;
            if *times > 1 {
                let replaced = |value: &str| value.contains('\u{fffd}');
                labels
                    .iter_mut()
                    .filter(|(_, value)| replaced(value))
                    .for_each(|(_, value)| *value += &format!("~{times}"));
            }
            let _ = writeln!(self.text, "{name}{} {value}", written(&labels));
        }
    }
}

fn written(labels: Labels<'_>) -> String {
    if labels.is_empty() {
        return String::new();
    }
    // The name of an interface may contain almost any character.
    let escaped = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let each: Vec<String> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    format!("{{{}}}", each.join(","))
}

/// The text of an answer.
pub fn metrics(source: MetricsSource<'_>, open_metrics: bool) -> String {
    let mut text = Text { text: String::new(), open_metrics };
    let version = vec![("version", source.version.to_owned())];
    text.family("netcliff_build_info", Kind::Gauge, "Version of netcliff.", [(version, 1.0)]);
    cpus(&mut text, source.counters);
    drops(&mut text, source.counters);
    interfaces(&mut text, source.counters);
    source.moment.into_iter().for_each(|moment| shares(&mut text, moment));
    source.headroom.into_iter().for_each(|headroom| cliff(&mut text, headroom));
    source.agent.into_iter().for_each(|agent| of_agent(&mut text, agent));
    if open_metrics {
        text.text.push_str("# EOF\n");
    }
    text.text
}

fn of_cpu(cpu: u32) -> Vec<(&'static str, String)> {
    vec![("cpu", cpu.to_string())]
}

fn cpus(text: &mut Text, counters: &Counters) {
    let by_mode = counters.cpus.iter().flat_map(|cpu| {
        let labels = move |mode: &str| vec![("cpu", cpu.cpu.to_string()), ("mode", mode.to_owned())];
        cpu.seconds.iter().map(move |(mode, seconds)| (labels(mode), *seconds))
    });
    text.family("netcliff_cpu_seconds_total", Kind::Counter, "Time of each CPU by mode, from /proc/stat.", by_mode);
    let packets = counters.cpus.iter().map(|cpu| (of_cpu(cpu.cpu), cpu.packets as f64));
    text.family(
        "netcliff_cpu_packets_total",
        Kind::Counter,
        "Packets that each CPU processed, once for each device that received them (32 bits in the kernel).",
        packets,
    );
    let raised = counters.cpus.iter().filter_map(|cpu| Some((of_cpu(cpu.cpu), cpu.receive_softirqs? as f64)));
    text.family("netcliff_cpu_receive_softirqs_total", Kind::Counter, "Receive softirqs of each CPU.", raised);
    let squeezed = counters.cpus.iter().map(|cpu| (of_cpu(cpu.cpu), cpu.squeezed as f64));
    let help = "Softirq rounds that ended with work left: budget or time used up.";
    text.family("netcliff_cpu_squeezed_rounds_total", Kind::Counter, help, squeezed);
    let backlog = counters.cpus.iter().filter_map(|cpu| Some((of_cpu(cpu.cpu), cpu.backlog? as f64)));
    text.family("netcliff_cpu_backlog_packets", Kind::Gauge, "Packets in the backlog of each CPU now.", backlog);
}

fn drops(text: &mut Text, counters: &Counters) {
    let mut samples = Vec::new();
    let mut lost = |reason: &str, place: String, count: u64| {
        samples.push((vec![("reason", reason.to_owned()), ("place", place)], count as f64));
    };
    for cpu in &counters.cpus {
        lost("backlog", format!("cpu{}", cpu.cpu), cpu.dropped_backlog);
        lost("flow_limit", format!("cpu{}", cpu.cpu), cpu.dropped_flow_limit);
    }
    for interface in &counters.interfaces {
        lost("ring", interface.name.clone(), interface.dropped_ring);
        lost("qdisc", interface.name.clone(), interface.dropped_qdisc);
        for (reason, count) in ["receive", "transmit"].into_iter().zip(interface.dropped) {
            lost(reason, interface.name.clone(), count);
        }
        for (queue, _, dropped) in &interface.queues {
            dropped.iter().for_each(|count| lost("queue", format!("{}-rx-{queue}", interface.name), *count));
        }
    }
    for (reason, count) in &counters.sockets_lost {
        let place = reason.split_once('_').map_or(*reason, |(place, _)| place);
        lost(reason, if place == "listen" { "tcp" } else { place }.to_owned(), *count);
    }
    counters.udp_checksum.into_iter().for_each(|count| lost("udp_checksum", "udp".to_owned(), count));
    let help = "Packets dropped by reason and place. A loss may be counted at several: do not add reasons.";
    text.family("netcliff_dropped_packets_total", Kind::Counter, help, samples);
}

fn interfaces(text: &mut Text, counters: &Counters) {
    let both = |pick: fn(&netcliff_core::metrics::InterfaceCounters) -> [u64; 2]| {
        counters.interfaces.iter().flat_map(move |one| {
            let labels = move |way: &str| vec![("interface", one.name.clone()), ("direction", way.to_owned())];
            ["receive", "transmit"].into_iter().zip(pick(one)).map(move |(way, count)| (labels(way), count as f64))
        })
    };
    text.family(
        "netcliff_interface_packets_total",
        Kind::Counter,
        "Packets of each interface.",
        both(|one| one.packets),
    );
    text.family("netcliff_interface_bytes_total", Kind::Counter, "Bytes of each interface.", both(|one| one.bytes));
    let queues = counters.interfaces.iter().flat_map(|one| {
        let labels = move |queue: u32| vec![("interface", one.name.clone()), ("queue", queue.to_string())];
        one.queues.iter().map(move |(queue, packets, _)| (labels(*queue), *packets as f64))
    });
    text.family(
        "netcliff_queue_packets_total",
        Kind::Counter,
        "Packets of each receive queue, where drivers count them.",
        queues,
    );
}

fn shares(text: &mut Text, moment: &Moment) {
    let softirq = moment.cpus.iter().map(|cpu| (of_cpu(cpu.cpu), cpu.irq + cpu.softirq));
    let help = "Share of each CPU in interrupts and softirqs since the reading before.";
    text.family("netcliff_softirq_ratio", Kind::Gauge, help, softirq);
    let packets = moment.cpus.iter().filter_map(|cpu| Some((of_cpu(cpu.cpu), cpu.packets_per_softirq?)));
    let help = "Packets a receive softirq, mean since the reading before.";
    text.family("netcliff_packets_per_softirq", Kind::Gauge, help, packets);
    let help = "Time between the two readings that shares are of.";
    text.family("netcliff_window_seconds", Kind::Gauge, help, [(Vec::new(), moment.seconds)]);
}

fn cliff(text: &mut Text, headroom: &Headroom) {
    let help = "The largest of the ratios of CPUs (load over that at the calibrated cliff), links and CPU quotas: 0.62 is at 62 %.";
    text.family("netcliff_host_cliff_ratio", Kind::Gauge, help, [(Vec::new(), headroom.share)]);
    let by = |by: Nearest| match by {
        Nearest::Packets => "packets",
        Nearest::Softirq => "softirq",
        Nearest::Programs => "programs",
    };
    let shares = headroom.cpus.iter().map(|cpu| {
        let labels = vec![("cpu", cpu.cpu.to_string()), ("by", by(cpu.by).to_owned())];
        (labels, 1.0)
    });
    let help =
        "Which of three ratios is the largest of each CPU: packets, softirq (softirq time) or programs (CPU time).";
    text.family("netcliff_cpu_nearest_info", Kind::Gauge, help, shares);
    let programs = headroom.programs.iter().map(|program| {
        let labels = vec![
            ("cpu", program.cpu.to_string()),
            ("pid", program.pid.to_string()),
            ("program", program.name.clone()),
            ("sockets", program.sockets.as_deref().unwrap_or_default().join(", ")),
        ];
        (labels, program.share)
    });
    let help = "Share of each CPU that its three busiest programs had.";
    text.family("netcliff_program_cpu_ratio", Kind::Gauge, help, programs);
    let help = "Packets and connections lost a second by sockets, protocols, backlogs, devices and rings, each once.";
    text.family("netcliff_lost_per_second", Kind::Gauge, help, [(Vec::new(), headroom.lost_per_s)]);
    let cpus = headroom.cpus.iter().map(|cpu| (of_cpu(cpu.cpu), cpu.share));
    text.family("netcliff_cpu_cliff_ratio", Kind::Gauge, "Load of each CPU over that at the calibrated cliff.", cpus);
    let links = headroom.bounds.iter().filter_map(|bound| match bound {
        Bound::Link(link) => {
            let direction = if link.sent { "transmit" } else { "receive" };
            let limit = if link.held { "token bucket" } else { "link" };
            let labels = vec![
                ("interface", link.interface.clone()),
                ("direction", direction.to_owned()),
                ("limit", limit.to_owned()),
            ];
            Some((labels, link.share()))
        }
        _ => None,
    });
    let help = "What each interface carries over what its link, or a token bucket (tc-tbf), lets through.";
    text.family("netcliff_link_ratio", Kind::Gauge, help, links);
    let quotas = headroom.bounds.iter().filter_map(|bound| match bound {
        Bound::Quota(quota) => Some((vec![("cgroup", quota.group.clone())], quota.share())),
        _ => None,
    });
    let help =
        "CPU time of each cgroup over its limit (cpu.max), or the share of periods in which it waits, the larger.";
    text.family("netcliff_cpu_quota_ratio", Kind::Gauge, help, quotas);
    let tables = headroom.bounds.iter().filter_map(|bound| match bound {
        Bound::Conntrack(table) => Some((Vec::new(), table.share())),
        _ => None,
    });
    let help = "Connections that the kernel tracks over the most that it can (nf_conntrack_max).";
    text.family("netcliff_conntrack_ratio", Kind::Gauge, help, tables);
    let queues = headroom
        .queues
        .iter()
        .map(|queue| (vec![("interface", queue.interface.clone()), ("queue", queue.queue.to_string())], queue.share));
    let help = "Packets of each receive queue over those of one CPU at the calibrated cliff.";
    text.family("netcliff_queue_cliff_ratio", Kind::Gauge, help, queues);
    let latency = headroom.cpus.iter().filter_map(|cpu| Some((cpu.cpu, cpu.latency_s?))).flat_map(|(cpu, latency)| {
        let figures = [("mean", latency.mean), ("p99", latency.p99)];
        let labels = move |which: &str| vec![("cpu", cpu.to_string()), ("statistic", which.to_owned())];
        figures.into_iter().filter_map(move |(which, figure)| Some((labels(which), figure?.value)))
    });
    let help = "Latency of calibrated packets at each CPU's packets a second, by the model, which has no interruptions: a real p99 may be many times longer.";
    text.family("netcliff_model_latency_seconds", Kind::Gauge, help, latency);
    let help = "The calibrated cliff of one CPU (packets a second).";
    text.family("netcliff_cliff_packets_per_second", Kind::Gauge, help, [(Vec::new(), headroom.cliff_pps.value)]);
    let help = "When the cliff was calibrated.";
    // Costs that were given have no date.
    let date = Some(headroom.calibrated_unix_s).filter(|date| *date > 0.0).map(|date| (Vec::new(), date));
    text.family("netcliff_cliff_calibrated_timestamp_seconds", Kind::Gauge, help, date);
    let labels = vec![
        ("engine", headroom.engine.name().to_owned()),
        ("calibration", headroom.cliff_of.to_string()),
        ("why", headroom.cliff_why.clone().unwrap_or_default()),
    ];
    let help = "Which calibration the cliff is of, which engine answered for it (wire: measured), and why it is not the newest.";
    text.family("netcliff_cliff_info", Kind::Gauge, help, [(labels, 1.0)]);
    let help = "1: nothing speaks against relying on the cliff. 0: `netcliff headroom` says what does.";
    text.family("netcliff_cliff_valid", Kind::Gauge, help, [(Vec::new(), f64::from(headroom.cliff_valid))]);
}

fn of_agent(text: &mut Text, agent: &AgentCounters) {
    let started = agent.started.iter().map(|(kind, count)| (vec![("kind", kind.clone())], *count as f64));
    text.family("netcliff_agent_tests_total", Kind::Counter, "Tests that clients began, by kind.", started);
    let running = agent.started.values().sum::<u64>().saturating_sub(agent.ended);
    text.family("netcliff_agent_tests_running", Kind::Gauge, "Tests that run now.", [(Vec::new(), running as f64)]);
    let now = |count: u64| [(Vec::new(), count as f64)];
    text.family("netcliff_agent_clients", Kind::Gauge, "Clients now.", now(agent.clients));
    text.family("netcliff_agent_clients_most", Kind::Gauge, "The most clients at once.", now(agent.most_clients));
    let help = "Connections that were refused or ended by an error.";
    text.family("netcliff_agent_refused_connections_total", Kind::Counter, help, [(Vec::new(), agent.refused as f64)]);
}

#[cfg(test)]
mod tests {
    use netcliff_core::metrics::{CpuCounters, InterfaceCounters};

    use super::*;

    fn counters() -> Counters {
        let cpu = |cpu| CpuCounters {
            cpu,
            seconds: vec![("softirq", 1.5), ("idle", 98.0)],
            packets: 7,
            receive_softirqs: Some(3),
            dropped_backlog: 2,
            backlog: (cpu == 0).then_some(5),
            ..CpuCounters::default()
        };
        let interface = InterfaceCounters {
            name: "odd\"name\\".into(),
            packets: [10, 20],
            dropped_ring: 4,
            queues: vec![(0, 10, Some(1)), (1, 0, None)],
            ..InterfaceCounters::default()
        };
        Counters {
            cpus: vec![cpu(0), cpu(1)],
            interfaces: vec![interface],
            sockets_lost: vec![("udp_receive_buffer", 9), ("listen_queue", 4)],
            udp_checksum: None,
        }
    }

    fn text(open_metrics: bool) -> String {
        let started = [("rr".to_owned(), 3)].into();
        let agent = AgentCounters { clients: 2, most_clients: 10, started, ended: 2, refused: 1 };
        let counters = counters();
        let source =
            MetricsSource { version: "0.1.0", counters: &counters, moment: None, headroom: None, agent: Some(&agent) };
        metrics(source, open_metrics)
    }

    #[test]
    fn samples_are_those_of_both_formats() {
        let (plain, open) = (text(false), text(true));
        for line in [
            "netcliff_cpu_seconds_total{cpu=\"1\",mode=\"softirq\"} 1.5",
            "netcliff_cpu_backlog_packets{cpu=\"0\"} 5",
            "netcliff_dropped_packets_total{reason=\"backlog\",place=\"cpu1\"} 2",
            "netcliff_dropped_packets_total{reason=\"ring\",place=\"odd\\\"name\\\\\"} 4",
            "netcliff_dropped_packets_total{reason=\"udp_receive_buffer\",place=\"udp\"} 9",
            "netcliff_dropped_packets_total{reason=\"listen_queue\",place=\"tcp\"} 4",
            "netcliff_agent_tests_running 1",
            "netcliff_agent_clients 2",
            "netcliff_agent_clients_most 10",
        ] {
            assert!(plain.lines().any(|one| one == line) && open.lines().any(|one| one == line), "{line}\n{plain}");
        }
        assert!(plain.contains("# TYPE netcliff_cpu_packets_total counter\n"), "{plain}");
        assert!(open.contains("# TYPE netcliff_cpu_packets counter\n") && open.ends_with("# EOF\n"), "{open}");
        assert!(!plain.contains("# EOF") && !plain.contains("cliff_ratio"), "{plain}");
    }

    /// A family is declared once, directly before all its samples: parsers require this.
    #[test]
    fn families_are_declared_once_and_samples_are_unique() {
        let text = text(false);
        let (mut families, mut samples) = (std::collections::BTreeSet::new(), std::collections::BTreeSet::new());
        let mut family = String::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                family = rest.split(' ').next().unwrap_or_default().to_owned();
                assert!(families.insert(family.clone()), "{family} is declared twice");
            } else if !line.starts_with('#') {
                let name = line.split(['{', ' ']).next().unwrap_or_default();
                assert_eq!(name, family, "{line}");
                assert!(samples.insert(line.rsplit_once(' ').expect("a value").0.to_owned()), "{line} twice");
            }
        }
    }

    /// Names that differ only in invisible characters do not become duplicate samples, for which Prometheus would
    /// refuse the whole answer.
    #[test]
    fn samples_are_unique_whatever_interfaces_are_called() {
        let interface = |name: &str| InterfaceCounters { name: name.into(), ..InterfaceCounters::default() };
        let interfaces = vec![interface("z\u{1b}"), interface("z\u{202e}"), interface("z\u{fffd}"), interface("z")];
        let counters = Counters { interfaces, ..Counters::default() };
        let source = MetricsSource { version: "0.1.0", counters: &counters, moment: None, headroom: None, agent: None };
        let text = metrics(source, false);
        let samples: Vec<&str> = text.lines().filter_map(|line| Some(line.rsplit_once(' ')?.0)).collect();
        let unique: std::collections::BTreeSet<&&str> = samples.iter().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(unique.len(), samples.iter().filter(|line| !line.starts_with('#')).count(), "{text}");
        for name in ["z\u{fffd}", "z\u{fffd}~2", "z\u{fffd}~3", "z"] {
            assert!(
                text.contains(&format!("interface_packets_total{{interface=\"{name}\",direction=\"receive\"}}")),
                "{text}"
            );
        }
        assert_eq!(text, printable(&text));
    }

    /// Alert rules and dashboard name no metric that is missing from the output.
    #[test]
    fn contrib_names_only_metrics_that_exist() {
        let headroom = serde_json::json!({
            "seconds": 1.0, "run": 1, "cliff_of": "find run 1", "cliff_valid": true, "calibrated_unix_s": 1e9, "cliff_pps": 1e5, "engine": "wire", "share": 0.62, "cpu": 0,
            "cpus": [{"cpu": 0, "packets_per_s": 6.2e4, "softirq": 0.5, "share": 0.62, "by": "packets", "dropped_per_s": 0.0,
                "latency_s": {"mean": 2e-5}}],
            "queues": [{"interface": "eth0", "queue": 0, "packets_per_s": 6.2e4, "share": 0.62}], "lost_per_s": 0.0,
        });
        let headroom: Headroom = serde_json::from_value(headroom).expect("a headroom");
        let (counters, moment) = (counters(), Moment::default());
        let agent = AgentCounters::default();
        let source = MetricsSource {
            version: "0.1.0",
            counters: &counters,
            moment: Some(&moment),
            headroom: Some(&headroom),
            agent: Some(&agent),
        };
        let text = metrics(source, false);
        let is_told = |name: &str| text.contains(&format!("# TYPE {name} "));
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        for (file, contrib) in [
            ("alerts.yml", include_str!("../../../contrib/prometheus/alerts.yml")),
            ("netcliff.json", include_str!("../../../contrib/grafana/netcliff.json")),
        ] {
            let names = contrib.split(|letter| !is_part(letter)).filter(|word| word.starts_with("netcliff_"));
            let (source, untold): (Vec<_>, Vec<_>) = names.partition(|name| is_told(name));
            assert!(untold.is_empty() && source.len() > 3, "{file}: {untold:?}\n{text}");
        }
    }
}
