//! Settings of a device by name, as in `netcliff tune set KEY=VALUE`: [`Named`] is one setting with its value,
//! [`steps`] plans the changes of a device.

use super::{
    Step,
    device::{self, DeviceKey, Wanted},
};
use crate::{
    nic::{
        self, Nic,
        classify::{self, HashFields, PortRule},
    },
    setting::{Group, NO_RULE, Setting, figure},
};
use netcliff_core::{ParseError, experiment::Coalesce};
use std::str::FromStr;

const REASON: &str = "as wanted";
const SOURCE: &str = "docs/tune.md, tune set";
/// The ethtool switch that enables flow rules.
const RULES_SWITCH: &str = "rx-ntuple-filter";

/// A setting and its wanted value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Named {
    /// A setting that a check of `find` can make, too.
    Device(Wanted),
    /// A value or switch of transmit coalescing.
    Transmit(Coalesce, u32),
    /// A value or switch of coalescing of one queue.
    Queue(u32, Coalesce, u32),
    /// Header split.
    HeaderSplit(bool),
    /// Header fields that RSS hashes for a kind of packets.
    Hash(String, HashFields),
    /// The key of the RSS hash, hexadecimal.
    RssKey(String),
    /// Packets of a flow type to a destination port go to this queue; `None`: to the queue that RSS chooses.
    Steer {
        /// Flow type such as `udp4`.
        flow: String,
        /// Destination port.
        port: u16,
        /// The receive queue; `None` removes the rule.
        queue: Option<u32>,
    },
}

/// Describes the accepted form.
fn form() -> String {
    let device = DeviceKey::ALL.map(DeviceKey::name).join(", ");
    let transmit = Coalesce::DIRECTIONS[1].map(Coalesce::kernel_name).join(", ");
    format!(
        "expected KEY=VALUE with one of {device}, {transmit}, a figure of one queue such as rx-usecs@2=8, header-split=on, rss-key=6d:5a:..., \
         hash-udp4=sdfn (or {}), or steer-udp4-53=2 (packets to port 53 to queue 2; off takes that back)",
        classify::flows()
    )
}

impl FromStr for Named {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let refused = || ParseError::new("setting", text, form());
        let (key, value) = text.split_once('=').ok_or_else(refused)?;
        let bad = |accepted: String| ParseError::new(key, value, accepted);
        let switch = || match value {
            "on" => Ok(true),
            "off" => Ok(false),
            _ => Err(bad("expected on or off".to_owned())),
        };
        if let Some((name, queue)) = key.split_once('@') {
            let what = coalesce(name).ok_or_else(refused)?;
            let queue = queue.parse().map_err(|_| refused())?;
            return Ok(Self::Queue(queue, what, coalesce_value(what, value)?));
        }
        if let Some(flow) = key.strip_prefix("hash-").filter(|flow| is_flow(flow)) {
            return value.parse().map(|fields| Self::Hash(flow.to_owned(), fields)).map_err(bad);
        }
        if let Some((flow, port)) = key.strip_prefix("steer-").and_then(|rest| rest.split_once('-')) {
            let port = port.parse().ok().filter(|_| is_flow(flow)).ok_or_else(refused)?;
            let queue = match value {
                "off" => None,
                queue => Some(queue.parse().map_err(|_| bad("expected a receive queue such as 2, or off".to_owned()))?),
            };
            return Ok(Self::Steer { flow: flow.to_owned(), port, queue });
        }
        match key {
            "header-split" => switch().map(Self::HeaderSplit),
            "rss-key" => nic::key_bytes(value).map(|_| Self::RssKey(plain_key(value))).map_err(bad),
            _ => match DeviceKey::of(key) {
                Some(known) => known.parse(value).map(Self::Device),
                None => {
                    let what = coalesce(key).ok_or_else(refused)?;
                    Ok(Self::Transmit(what, coalesce_value(what, value)?))
                }
            },
        }
    }
}

fn coalesce(name: &str) -> Option<Coalesce> {
    Coalesce::in_order().find(|what| what.kernel_name() == name)
}

fn coalesce_value(what: Coalesce, text: &str) -> Result<u32, ParseError> {
    use netcliff_core::experiment::{Key, Setting};
    match Key::Coalesce(what).parse(text)? {
        Setting::Coalesce(_, value) => Ok(value),
        _ => Err(ParseError::new(what.kernel_name(), text, "expected a number")),
    }
}

fn is_flow(name: &str) -> bool {
    classify::FLOWS.iter().any(|(known, _)| *known == name)
}

/// Formats a hash key as the kernel reports it.
fn plain_key(text: &str) -> String {
    text.to_ascii_lowercase().replace(':', "")
}

impl Named {
    /// Name of the setting without its value; of two settings with one name the later would replace the earlier.
    fn name(&self) -> String {
        match self {
            Self::Device(wanted) => wanted.key.name().to_owned(),
            Self::Transmit(what, _) => what.kernel_name().to_owned(),
            Self::Queue(queue, what, _) => format!("{}@{queue}", what.kernel_name()),
            Self::HeaderSplit(_) => "header-split".to_owned(),
            Self::Hash(flow, _) => format!("hash-{flow}"),
            Self::RssKey(_) => "rss-key".to_owned(),
            Self::Steer { flow, port, .. } => format!("steer-{flow}-{port}"),
        }
    }
}

/// Steps that give a device these settings, in order: a setting comes after the settings that reset it. A value already
/// in force needs no step.
///
/// # Errors
/// Why the device cannot have one of the settings, as far as this can be known before trying.
pub fn steps(nic: &Nic, wanted: &[Named]) -> Result<Vec<Step>, String> {
    for (at, one) in wanted.iter().enumerate() {
        if wanted[..at].iter().any(|other| other.name() == one.name()) {
            return Err(format!("{} is named twice: expected it once", one.name()));
        }
    }
    let of_device: Vec<Wanted> =
        wanted.iter().filter_map(|one| if let Named::Device(wanted) = one { Some(*wanted) } else { None }).collect();
    let mut planned = Vec::new();
    for one in wanted.iter().filter(|one| matches!(one, Named::HeaderSplit(_))) {
        planned.extend(of(nic, one, wanted)?);
    }
    planned.extend(device::steps(nic, &of_device)?);
    for rank in 0..5 {
        for one in wanted.iter().filter(|one| self::rank(one) == Some(rank)) {
            planned.extend(of(nic, one, wanted)?);
        }
    }
    planned.retain(|step| !crate::setting::same(&step.proposal.old, &step.proposal.new));
    for step in &mut planned {
        *step = Step::new(step.setting.clone(), &step.proposal.old, &step.proposal.new, REASON, SOURCE);
    }
    Ok(planned)
}

/// Rank among the settings made after the settings of [`device::steps`]: switches of coalescing come before its values,
/// single queues after the whole device. `None` if [`device::steps`] makes the setting.
fn rank(one: &Named) -> Option<u8> {
    match one {
        Named::Device(_) | Named::HeaderSplit(_) => None,
        Named::Transmit(what, _) => Some(u8::from(!what.is_adaptive())),
        Named::Queue(_, what, _) => Some(if what.is_adaptive() { 2 } else { 3 }),
        Named::Hash(..) | Named::RssKey(_) | Named::Steer { .. } => Some(4),
    }
}

fn step(setting: Setting, old: &str, new: &str) -> Step {
    Step::new(setting, old, new, REASON, SOURCE)
}

/// Describes why a device does not have a setting.
fn lacks(nic: &Nic, what: &str, topic: &str) -> String {
    let driver = nic.driver.as_deref().or(nic.kind.as_deref()).map_or(String::new(), |name| format!(", {name},"));
    let why = nic.missing.get(topic).map_or(String::new(), |why| format!(" ({why})"));
    format!("the driver of {}{driver} has no {what}{why}", nic.name)
}

fn of(nic: &Nic, one: &Named, all: &[Named]) -> Result<Vec<Step>, String> {
    let interface = || nic.name.clone();
    let ethtool = |group, key: &str| Setting::Ethtool { interface: interface(), group, key: key.to_owned() };
    match one {
        Named::Device(_) => Ok(Vec::new()),
        Named::Transmit(what, value) => {
            if let Some(why) = nic.refuses_coalescing() {
                return Err(why);
            }
            let asked = |switch| all.iter().any(|one| matches!(one, Named::Transmit(key, _) if *key == switch));
            let old = |what: Coalesce| figure(nic, Group::Coalesce, what.kernel_name());
            let mut steps = Vec::new();
            let switch = what.adaptive();
            if !what.is_adaptive() && !asked(switch) && old(switch).as_deref() == Some("1") {
                steps.push(step(ethtool(Group::Coalesce, switch.kernel_name()), "1", "0"));
            }
            let found = old(*what).ok_or_else(|| lacks(nic, what.kernel_name(), "coalesce"))?;
            steps.push(step(ethtool(Group::Coalesce, what.kernel_name()), &found, &value.to_string()));
            Ok(steps)
        }
        Named::Queue(queue, what, value) => of_queue(nic, *queue, *what, *value, all),
        Named::HeaderSplit(on) => {
            let old = figure(nic, Group::HeaderSplit, "tcp-data-split");
            let old = old.ok_or_else(|| lacks(nic, "header split (tcp-data-split)", "rings"))?;
            Ok(vec![step(ethtool(Group::HeaderSplit, "tcp-data-split"), &old, if *on { "on" } else { "off" })])
        }
        Named::Hash(flow, fields) => {
            let old = nic.hash_fields.get(flow).ok_or_else(|| lacks(nic, &one.name(), "hash-fields"))?;
            let setting = Setting::HashFields { interface: interface(), flow: flow.clone() };
            Ok(vec![step(setting, old, &fields.to_string())])
        }
        Named::RssKey(key) => {
            let old = nic.rss.as_ref().and_then(|rss| rss.key.as_ref()).ok_or_else(|| lacks(nic, "RSS key", "rss"))?;
            if old.len() != key.len() {
                let (given, own) = (key.len() / 2, old.len() / 2);
                return Err(format!("rss-key has {given} bytes: expected {own}, as the key of {} has", nic.name));
            }
            Ok(vec![step(Setting::RssKey { interface: interface() }, old, key)])
        }
        Named::Steer { flow, port, queue } => steer(nic, flow, *port, *queue),
    }
}

fn of_queue(nic: &Nic, queue: u32, what: Coalesce, value: u32, all: &[Named]) -> Result<Vec<Step>, String> {
    let each = &nic.queue_coalesce;
    let name = format!("{}@{queue}", what.kernel_name());
    if each.is_empty() {
        let lacks = lacks(nic, "coalescing of single queues (ethtool --per-queue)", "coalesce");
        let has = nic.coalesce.contains_key(what.kernel_name()) && nic.refuses_coalescing().is_none();
        let all = if has { format!("; {} sets all of them", what.kernel_name()) } else { String::new() };
        return Err(format!("{name}: {lacks}{all}"));
    }
    let figures =
        each.get(queue as usize).ok_or_else(|| format!("{name}: {} has queues 0 to {}", nic.name, each.len() - 1))?;
    let setting = |what: Coalesce| Setting::QueueCoalesce {
        interface: nic.name.clone(),
        queue,
        key: what.kernel_name().to_owned(),
    };
    let (switch, mut steps) = (what.adaptive(), Vec::new());
    let asked = all.iter().any(|one| matches!(one, Named::Queue(of, key, _) if *of == queue && *key == switch));
    if !what.is_adaptive() && !asked && figures.get(switch.kernel_name()) == Some(&1) {
        steps.push(step(setting(switch), "1", "0"));
    }
    let old = figures.get(what.kernel_name()).ok_or_else(|| lacks(nic, &name, "coalesce"))?;
    steps.push(step(setting(what), &old.to_string(), &value.to_string()));
    Ok(steps)
}

/// Steps for a rule at a free location, or in place of the rule for the same packets; before them the device's switch
/// for flow rules, if it is off.
fn steer(nic: &Nic, flow: &str, port: u16, queue: Option<u32>) -> Result<Vec<Step>, String> {
    let places = nic.flow_rule_places.filter(|_| nic.ntuple_rules.is_some());
    let Some(places) = places else { return Err(lacks(nic, "flow rules (ntuple)", "ntuple")) };
    let queues = nic.channels.get("combined").copied().unwrap_or(0) + nic.channels.get("rx").copied().unwrap_or(0);
    let queues = if queues > 0 { queues } else { nic.rx_queues.unwrap_or(1) };
    if let Some(queue) = queue.filter(|queue| *queue >= queues) {
        return Err(format!("steer-{flow}-{port}={queue}: {} has receive queues 0 to {}", nic.name, queues - 1));
    }
    let same = |text: &str| text.parse::<PortRule>().is_ok_and(|rule| rule.flow == flow && rule.port == port);
    let found = nic.flow_rules.iter().find(|rule| same(&rule.rule));
    let at = |location| Setting::FlowRule { interface: nic.name.clone(), location };
    let Some(queue) = queue else {
        let none = || format!("steer-{flow}-{port}=off: {} has no such rule", nic.name);
        let found = found.ok_or_else(none)?;
        return Ok(vec![step(at(found.location), &found.rule, NO_RULE)]);
    };
    let rule = PortRule { flow: flow.to_owned(), port, queue }.to_string();
    let mut steps = Vec::new();
    if nic.feature(RULES_SWITCH) == Some(false) {
        let setting =
            Setting::Ethtool { interface: nic.name.clone(), group: Group::Features, key: RULES_SWITCH.to_owned() };
        steps.push(step(setting, "off", "on"));
    }
    match found {
        Some(found) => steps.push(step(at(found.location), &found.rule, &rule)),
        None => {
            let full = || format!("steer-{flow}-{port}: all {places} places of {} are taken by other rules", nic.name);
            let free = classify::free_place(&nic.flow_rules, places).ok_or_else(full)?;
            steps.push(step(at(free), NO_RULE, &rule));
        }
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nic::{Rss, classify::FlowRule};
    use std::collections::BTreeMap;

    fn figures(values: &[(&str, u32)]) -> BTreeMap<String, u32> {
        values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    }

    /// A device with all of these settings, like ice.
    fn ice() -> Nic {
        Nic {
            name: "eth0".into(),
            driver: Some("ice".into()),
            coalesce: figures(&[("adaptive-rx", 1), ("rx-usecs", 50), ("adaptive-tx", 1), ("tx-usecs", 50)]),
            queue_coalesce: vec![
                figures(&[("adaptive-rx", 1), ("rx-usecs", 50)]),
                figures(&[("adaptive-rx", 0), ("rx-usecs", 50)]),
            ],
            channels: figures(&[("combined", 4)]),
            pause: [("autoneg", true), ("rx", true), ("tx", true)].map(|(name, on)| (name.to_owned(), on)).into(),
            features: [(RULES_SWITCH.to_owned(), false)].into(),
            hash_fields: [("udp4", "sd"), ("tcp4", "sdfn")].map(|(a, b)| (a.to_owned(), b.to_owned())).into(),
            rss: Some(Rss { key: Some("6d5a56da".into()), ..Rss::default() }),
            header_split: Some(false),
            ntuple_rules: Some(1),
            flow_rule_places: Some(16),
            flow_rules: vec![FlowRule { location: 15, rule: "tcp4 dst-port 80 action 1".into() }],
            ..Nic::default()
        }
    }

    fn planned(nic: &Nic, texts: &[&str]) -> Result<Vec<String>, String> {
        let wanted: Vec<Named> = texts.iter().map(|text| text.parse().unwrap()).collect();
        let one = |step: Step| format!("{}: {} > {}", step.setting, step.proposal.old, step.proposal.new);
        Ok(steps(nic, &wanted)?.into_iter().map(one).collect())
    }

    #[test]
    fn settings_by_name_in_the_order_in_which_they_hold() {
        let all = [
            "steer-udp4-53=2",
            "hash-udp4=fnsd",
            "rx-usecs@0=8",
            "tx-usecs=20",
            "pause-rx=off",
            "header-split=on",
            "rss-key=01:02:03:04",
        ];
        assert_eq!(
            planned(&ice(), &all).unwrap(),
            [
                "eth0 ring tcp-data-split: off > on",
                "eth0 pause autoneg: on > off",
                "eth0 pause rx: on > off",
                "eth0 coalesce adaptive-tx: 1 > 0",
                "eth0 coalesce tx-usecs: 50 > 20",
                "eth0 queue 0 coalesce adaptive-rx: 1 > 0",
                "eth0 queue 0 coalesce rx-usecs: 50 > 8",
                "eth0 offload rx-ntuple-filter: off > on",
                "eth0 flow rule 14: none > udp4 dst-port 53 action 2",
                "eth0 hashed fields udp4: sd > sdfn",
                "eth0 RSS key: 6d5a56da > 01020304",
            ]
        );
        assert_eq!(planned(&ice(), &["hash-tcp4=sdfn", "rss-key=6D:5A:56:DA"]).unwrap(), [""; 0], "in force");
        let other = planned(&ice(), &["steer-tcp4-80=3"]).unwrap();
        assert_eq!(
            other[1], "eth0 flow rule 15: tcp4 dst-port 80 action 1 > tcp4 dst-port 80 action 3",
            "in its place"
        );
        assert_eq!(
            planned(&ice(), &["steer-tcp4-80=off"]).unwrap(),
            ["eth0 flow rule 15: tcp4 dst-port 80 action 1 > none"]
        );
    }

    #[test]
    fn what_cannot_be_is_said_with_what_can() {
        let veth = Nic { name: "veth0".into(), kind: Some("veth".into()), ..Nic::default() };
        let full = Nic { flow_rule_places: Some(0), ..ice() };
        for (nic, texts, words) in [
            (&ice(), &["steer-udp4-53=9"][..], &["steer-udp4-53=9", "receive queues 0 to 3"][..]),
            (&ice(), &["steer-udp4-53=off"], &["has no such rule"]),
            (&full, &["steer-udp4-53=1"], &["all 0 places"]),
            (&ice(), &["rx-usecs@7=8"], &["rx-usecs@7", "queues 0 to 1"]),
            (&ice(), &["rss-key=01:02"], &["2 bytes: expected 4"]),
            (&ice(), &["hash-udp6=sd"], &["hash-udp6"]),
            (&ice(), &["pause-rx=on", "pause-rx=off"], &["pause-rx is named twice"]),
            (&veth, &["pause-rx=off"], &["veth0, veth, has no pause-rx"]),
            (&veth, &["rx-usecs@0=8"], &["rx-usecs@0", "single queues"]),
            (&Nic { queue_coalesce: Vec::new(), ..ice() }, &["rx-usecs@0=8"], &["single queues", "rx-usecs sets all"]),
            (&veth, &["hash-udp4=sdfn"], &["has no hash-udp4"]),
            (&veth, &["steer-udp4-53=0"], &["flow rules"]),
            (&veth, &["header-split=on"], &["header split"]),
            (&veth, &["tx-usecs=8"], &["no tx-usecs"]),
        ] {
            let why = planned(nic, texts).expect_err(&texts.join(" "));
            assert!(words.iter().all(|word| why.contains(word)), "{texts:?}: {why}");
        }
    }

    #[test]
    fn wrong_texts_are_refused_with_the_accepted_form() {
        for (text, words) in [
            ("pause-rx", &["pause-rx", "KEY=VALUE"][..]),
            ("pause-rx=maybe", &["maybe", "on or off"]),
            ("colour=red", &["colour=red", "pause-rx", "steer-udp4-53=2"]),
            ("rx-usecs@x=8", &["rx-usecs@x=8"]),
            ("rx-usecs@1=8us", &["8us", "microseconds"]),
            ("hash-udp5=sd", &["hash-udp5=sd", "udp4"]),
            ("hash-udp4=ports", &["ports", "such as sdfn"]),
            ("steer-udp4-70000=1", &["steer-udp4-70000=1"]),
            ("steer-udp4-53=-1", &["-1", "or off"]),
            ("rss-key=xyz", &["xyz", "6d:5a:56"]),
            ("header-split=1", &["on or off"]),
        ] {
            let error = text.parse::<Named>().unwrap_err().to_string();
            assert!(words.iter().all(|word| error.contains(word)), "{text}: {error}");
        }
    }
}
