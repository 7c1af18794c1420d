//! Any file of a tuning plan is refused or read. A plan that was read is unchanged after it is written and read again,
//! its commands are words of a shell, and no page or file made from it contains a control character.

use netcliff_core::inspection::Objective;
use netcliff_host::inspect::Inspection;
use netcliff_host::tune::{Plan, permanent};
use netcliff_report::{Style, terminal};
use serde_json::{Value, json};

use super::bytes::Bytes;

/// Reads the input as a plan, or makes a plan from its values.
pub fn run(bytes: &[u8]) {
    let mut input = Bytes(bytes);
    let text = match bytes.first() {
        Some(b'{') => String::from_utf8_lossy(bytes).into_owned(),
        _ => plan(&mut input).to_string(),
    };
    let Ok(plan) = Plan::from_json(&text) else { return };
    let again = serde_json::to_string(&plan).expect("a plan is written");
    assert_eq!(Plan::from_json(&again).as_ref(), Ok(&plan), "{again}");
    for step in &plan.steps {
        let command = &step.proposal.command;
        if !command.starts_with('#') {
            assert!(shlex::split(command).is_some(), "{command:?} is not the words of a command");
        }
    }
    forms(&plan, &Inspection::default());
}

/// Makes every page and file of a plan, and checks them with [`plain`].
pub(crate) fn forms(plan: &Plan, host: &Inspection) {
    let profile = permanent::tuned(plan, host);
    let written = [
        permanent::script(plan, host),
        permanent::sysctl_d(plan).text,
        permanent::udev(plan, host).text,
        profile.conf,
        profile.script.unwrap_or_default(),
        terminal::plan(&plan.sheet(), None, Style::default()),
    ];
    written.iter().for_each(|text| plain(text));
}

/// Checks that `text` contains no control character except line feeds, so that it can neither control a terminal nor
/// return to the start of a line.
pub(crate) fn plain(text: &str) {
    let odd = text.chars().find(|c| c.is_control() && *c != '\n');
    assert!(odd.is_none(), "{odd:?} in {text}");
}

fn plan(input: &mut Bytes<'_>) -> Value {
    let objective = [Objective::Latency, Objective::Cpu, Objective::Throughput][usize::from(input.byte() % 3)];
    let steps: Vec<Value> = (0..input.byte() % 5).map(|_| step(input)).collect();
    json!({
        "objective": objective, "steps": steps, "notes": [input.text()],
        "machine": { "online": [0, input.byte()], "interfaces": { (input.text()): input.text() } },
    })
}

fn step(input: &mut Bytes<'_>) -> Value {
    let mut step = json!({
        "setting": setting(input), "name": input.text(), "old": value(input), "new": value(input),
        "reason": input.text(), "source": input.text(), "command": input.text(),
    });
    if input.byte() & 1 != 0 {
        step["effect"] = json!(input.text());
    }
    step
}

/// A value in the format of some setting, or any text.
fn value(input: &mut Bytes<'_>) -> String {
    match input.byte() % 3 {
        0 => input.text(),
        1 => input.byte().to_string(),
        _ => input
            .pick(&["on", "off", "0,1,0,1", "default", "performance", "4096 131072 6291456", "0-1", "none", "busy"])
            .to_owned(),
    }
}

fn setting(input: &mut Bytes<'_>) -> Value {
    let interface = match input.byte() % 3 {
        0 => input.text(),
        1 => input.pick(&["$(id>PWN)", "\",RUN+=\"x", "a;b", "'", "-n", "eth0.7", "ä"]).to_owned(),
        _ => "eth0".to_owned(),
    };
    let file = || format!("/sys/class/net/{interface}/queues/rx-0/rps_cpus");
    match input.byte() % 10 {
        0 => json!({ "kind": "file", "path": input.text() }),
        1 => json!({ "kind": "file", "path": format!("/proc/sys/{}", input.text()) }),
        2 => json!({ "kind": "file", "path": file() }),
        3 => json!({ "kind": "file", "path": input.pick(&[
            "/proc/sys/net/core/netdev_budget", "/proc/sys/net/ipv4/tcp_rmem", "/proc/irq/40/smp_affinity_list",
            "/sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "/sys/devices/system/cpu/cpu1/cpuidle/state1/disable",
        ]) }),
        4 => {
            json!({ "kind": "ethtool", "interface": interface, "group": input.pick(&["coalesce", "rings", "channels", "features"]),
            "key": input.pick(&["rx-usecs", "rx", "combined", "rx-gro", "tx-tcp-segmentation", "loopback", "a b"]) })
        }
        5 => json!({ "kind": "rss-table", "interface": interface }),
        6 => json!({ "kind": "interrupt", "interface": interface, "name": input.text() }),
        7 => json!({ "kind": input.pick(&["mtu", "link", "hardware-stamps"]), "interface": interface }),
        8 => json!({ "kind": "napi", "interface": interface, "place": input.byte(),
            "key": input.pick(&["defer-hard-irqs", "gro-flush-timeout", "irq-suspend-timeout", "threaded"]) }),
        _ => json!({ "kind": input.text() }),
    }
}
