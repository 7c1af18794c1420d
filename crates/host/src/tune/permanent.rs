//! A plan as files that survive a reboot: a shell script, [`sysctl_d`], [`udev`] rules, a [`tuned`] profile. The
//! functions only return the text; they read and write no files.
//!
//! The kernel renumbers interrupts at each boot, so the files name them as their driver does. A file lists the settings
//! that its format cannot express ([`File::left_out`]), and names or values that would be misread in it. All text is
//! quoted by [`netcliff_core::quote`].

use super::{Plan, Step};
use crate::{
    inspect::Inspection,
    setting::{Group, Setting, of_coalescing},
};
use netcliff_core::quote::{ini, one_line, shell, udev as udev_word};
use std::{collections::BTreeMap, path::Path};

/// A file, and the settings that it cannot express.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// The text; comments in it name the omitted settings.
    pub text: String,
    /// Names of the plan's settings that the file omits.
    pub left_out: Vec<String>,
}

/// A profile for tuned: both files belong into the directory with the profile's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// `tuned.conf`.
    pub conf: String,
    /// [`TUNED_SCRIPT`]: settings for which tuned has no plugin; it accepts `start`, `stop` or `verify`. `None` if
    /// plugins express all settings.
    pub script: Option<String>,
}

/// Name of the script of a [`Profile`].
pub const TUNED_SCRIPT: &str = "netcliff.sh";

/// Shell function that sets the CPUs of the interrupts with a name; if no interrupt has the name (device closed, driver
/// unloaded) it prints that and fails.
const INTERRUPT_FUNCTION: &str = r#"# irq NAME CPUS: the interrupt that the driver calls NAME, whatever its number is at this boot.
irq() {
    numbers=$(name="$1" awk '$NF "" == ENVIRON["name"] { sub(":", "", $1); print $1 }' /proc/interrupts)
    [ -n "$numbers" ] || { printf 'no interrupt is called %s\n' "$1" >&2; return 1; }
    for number in $numbers; do
        echo "$2" > "/proc/irq/$number/smp_affinity_list"
    done
}
"#;

/// A shell script for root.
pub fn script(plan: &Plan, inspection: &Inspection) -> String {
    let mut text = format!("#!/bin/sh\n{}set -e\n", head(plan, "Run as root."));
    if plan.steps.iter().any(|step| interrupt(step, inspection).is_some()) {
        text.push_str(INTERRUPT_FUNCTION);
    }
    for step in &plan.steps {
        text.push_str(&format!(
            "# {}\n{}\n",
            one_line(&format!("{} (was {})", step.proposal.reason, step.proposal.old)),
            command(step, inspection, &step.proposal.new)
        ));
    }
    text
}

/// A file for /etc/sysctl.d (sysctl.d(5)).
pub fn sysctl_d(plan: &Plan) -> File {
    let mut text = head(plan, "Put it into /etc/sysctl.d; `sysctl --system` reads it.");
    let mut others = Vec::new();
    for step in &plan.steps {
        match step.setting.sysctl_name().as_deref().and_then(ini).zip(ini(&step.proposal.new)) {
            Some((name, new)) => {
                text.push_str(&format!("# {}\n{name} = {new}\n", one_line(&step.proposal.reason)));
            }
            None => others.push(step),
        }
    }
    finish(text, &others)
}

/// Rules for /etc/udev/rules.d (udev(7)): interfaces are configured when they appear, CPUs at boot.
///
/// A rule matches an interface by the bus address of its device, which renaming does not change, and a software link by
/// its name.
pub fn udev(plan: &Plan, inspection: &Inspection) -> File {
    let mut text =
        head(plan, "Put it into /etc/udev/rules.d as 90-netcliff.rules; `udevadm control --reload` reads it.");
    let mut others = Vec::new();
    for step in &plan.steps {
        match rule(step, inspection) {
            Some(rule) => text.push_str(&format!("# {}\n{rule}\n", one_line(&step.proposal.reason))),
            None => others.push(step),
        }
    }
    finish(text, &others)
}

/// A profile for tuned(8), which restores settings when another profile is chosen.
pub fn tuned(plan: &Plan, inspection: &Inspection) -> Profile {
    let mut sections: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    let mut own = Vec::new();
    for step in &plan.steps {
        let Some((section, key, value)) = plugin(step, inspection).filter(is_plain) else {
            own.push(step);
            continue;
        };
        let lines = sections.entry(section).or_default();
        match lines.iter_mut().find(|(known, _)| *known == key) {
            // One line has all values of a kind: `coalesce=adaptive-rx off rx-usecs 8`.
            Some((_, values)) => *values = format!("{values} {value}"),
            None => lines.push((key, value)),
        }
    }
    let mut conf =
        head(plan, &format!("Put it and {TUNED_SCRIPT} into /etc/tuned/NAME; `tuned-adm profile NAME` chooses it."));
    conf.push_str(&format!("[main]\nsummary=Packet settings for {}\n", plan.objective));
    for (name, lines) in &sections {
        conf.push_str(&format!("\n[{name}]\n"));
        if let Some(device) = name.strip_prefix("net_") {
            conf.push_str(&format!("type=net\ndevices={device}\n"));
        }
        lines.iter().for_each(|(key, value)| conf.push_str(&format!("{key}={value}\n")));
    }
    if own.is_empty() {
        return Profile { conf, script: None };
    }
    conf.push_str(&format!("\n[script]\nscript=${{i:PROFILE_DIR}}/{TUNED_SCRIPT}\n"));
    Profile { conf, script: Some(tuned_script(plan, inspection, &own)) }
}

fn tuned_script(plan: &Plan, inspection: &Inspection, steps: &[&Step]) -> String {
    let part = |value: &dyn Fn(&Step) -> String| -> String {
        steps.iter().map(|step| format!("    {}\n", command(step, inspection, &value(step)))).collect()
    };
    let mut text = format!("#!/bin/sh\n{}", head(plan, "tuned calls it; it has no plugin for these."));
    if steps.iter().any(|step| interrupt(step, inspection).is_some()) {
        text.push_str(INTERRUPT_FUNCTION);
    }
    text.push_str(&format!(
        "case \"$1\" in\nstart)\n{}    ;;\nstop)\n{}    ;;\nesac\n",
        part(&|step| step.proposal.new.clone()),
        part(&|step| step.proposal.old.clone()),
    ));
    text
}

fn head(plan: &Plan, how: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!("# Settings for {}, by netcliff {version}.\n# {how}\n", plan.objective)
}

fn finish(mut text: String, others: &[&Step]) -> File {
    let left_out: Vec<String> = others.iter().map(|step| step.setting.to_string()).collect();
    for name in &left_out {
        text.push_str(&format!("# not here: {}\n", one_line(name)));
    }
    File { text, left_out }
}

/// Whether section, key and value have no special meaning in a profile; the script makes the settings for which this is
/// false.
fn is_plain((section, key, value): &(String, String, String)) -> bool {
    [section, key, value].into_iter().all(|text| ini(text).is_some())
        // Excludes lists of devices, negations and patterns.
        && section.strip_prefix("net_").is_none_or(|device| !device.contains([',', ' ']))
}

/// Name that the driver gives to the interrupt that a step places; `None` for other steps.
fn interrupt<'a>(step: &'a Step, inspection: &'a Inspection) -> Option<&'a str> {
    let path = match &step.setting {
        Setting::Interrupt { name, .. } => return Some(name),
        Setting::File { path } => path,
        _ => return None,
    };
    let number: u32 = path.strip_prefix("/proc/irq").ok()?.iter().next()?.to_str()?.parse().ok()?;
    let mut irqs = inspection.ports.iter().flat_map(|port| &port.irqs);
    irqs.find(|irq| irq.number == number).map(|irq| irq.name.as_str()).filter(|name| !name.is_empty())
}

fn command(step: &Step, inspection: &Inspection, value: &str) -> String {
    match interrupt(step, inspection) {
        Some(name) => format!("irq {} {}", shell(name), shell(value)),
        None => step.setting.command(value),
    }
}

/// One udev rule; `None` if udev cannot make the setting, cannot make it when the device appears, or would misread it.
fn rule(step: &Step, inspection: &Inspection) -> Option<String> {
    let new = udev_word(&step.proposal.new);
    if let Setting::File { path } = &step.setting
        && let Some((cpu, attribute)) = cpu_attribute(path)
    {
        let (attribute, new) = (attribute_name(&attribute)?, new?);
        return Some(format!(
            "ACTION==\"add\", SUBSYSTEM==\"cpu\", KERNEL==\"cpu{cpu}\", ATTR{{{attribute}}}=\"{new}\""
        ));
    }
    let name = step.setting.interface()?;
    let bus = inspection.port(name).and_then(|port| port.nic.bus.as_deref());
    let device = match bus {
        Some(bus) => format!("KERNELS==\"{}\"", udev_word(bus)?),
        None => format!("KERNEL==\"{}\"", udev_word(name)?),
    };
    let action = match &step.setting {
        Setting::File { path } => {
            let attribute = path.strip_prefix(Path::new("/sys/class/net").join(name)).ok()?;
            format!("ATTR{{{}}}=\"{}\"", attribute_name(attribute.to_str()?)?, new?)
        }
        Setting::Mtu { .. } => format!("ATTR{{mtu}}=\"{}\"", new?),
        setting => run(setting, &step.proposal.new)?,
    };
    Some(format!("ACTION==\"add\", SUBSYSTEM==\"net\", {device}, {action}"))
}

/// The path of a sysfs file as an attribute's name; `None` if it contains braces or `..`.
fn attribute_name(path: &str) -> Option<&str> {
    udev_word(path).filter(|path| !path.contains(".."))
}

/// ethtool command for the device of the rule. udev searches only its own directory for a program without a path, and
/// replaces `$name` by the device's name.
fn run(setting: &Setting, new: &str) -> Option<String> {
    const DEVICE: &str = "$name";
    let words = setting.ethtool_words(DEVICE, new)?;
    let arguments: Option<Vec<&str>> =
        words[1..].iter().map(|word| if word == DEVICE { Some(DEVICE) } else { udev_word(word) }).collect();
    Some(format!("RUN+=\"/usr/sbin/ethtool {}\"", arguments?.join(" ")))
}

/// CPU and attribute of a file below /sys/devices/system/cpu; a frequency policy counts as an attribute of the CPU with
/// its number.
fn cpu_attribute(path: &Path) -> Option<(u32, String)> {
    let below = path.strip_prefix("/sys/devices/system/cpu").ok()?.to_str()?;
    if let Some((policy, file)) = below.strip_prefix("cpufreq/policy").and_then(|rest| rest.split_once('/')) {
        return Some((policy.parse().ok()?, format!("cpufreq/{file}")));
    }
    let (cpu, attribute) = below.strip_prefix("cpu")?.split_once('/')?;
    Some((cpu.parse().ok()?, attribute.to_owned()))
}

/// Section, key and value for tuned's own plugins (sysctl, sysfs, net); `None` if the script makes the setting.
fn plugin(step: &Step, inspection: &Inspection) -> Option<(String, String, String)> {
    let new = &step.proposal.new;
    match &step.setting {
        Setting::File { path } if path.starts_with("/sys") => {
            Some(("sysfs".into(), path.display().to_string(), new.clone()))
        }
        setting @ Setting::File { .. } => Some(("sysctl".into(), setting.sysctl_name()?, new.clone())),
        setting => {
            let name = setting.interface()?;
            // tuned's net plugin accepts hardware only.
            inspection.port(name).filter(|port| port.nic.is_physical())?;
            let (key, value) = net_option(setting, new)?;
            Some((format!("net_{name}"), key.to_owned(), value))
        }
    }
}

/// Option of tuned's net plugin; `None` if the plugin has no such option. The plugin compares values with the output of
/// `ethtool -k`, so features have ethtool's short names.
fn net_option(setting: &Setting, new: &str) -> Option<(&'static str, String)> {
    let Setting::Ethtool { group, key, .. } = setting else {
        return matches!(setting, Setting::Mtu { .. }).then(|| ("mtu", new.to_owned()));
    };
    Some(match group {
        Group::Coalesce => ("coalesce", format!("{key} {}", of_coalescing(key, new))),
        Group::Rings => ("ring", format!("{key} {new}")),
        Group::Channels => ("channels", format!("{key} {new}")),
        Group::Pause => ("pause", format!("{key} {new}")),
        Group::HeaderSplit => return None,
        Group::Features => {
            let short = match key.as_str() {
                "rx-lro" => "lro",
                "rx-gro" => "gro",
                "tx-tcp-segmentation" => "tso",
                "tx-generic-segmentation" => "gso",
                "rx-checksum" => "rx",
                _ => return None,
            };
            ("features", format!("{short} {new}"))
        }
    })
}
