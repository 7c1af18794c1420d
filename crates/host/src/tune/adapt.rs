//! A device that alternates between interrupts and polling, for `netcliff tune adapt`: the settings of the two modes
//! ([`Levers`]), its counters ([`Receiver`]), and the right to adapt it ([`Adapting`]). When to switch is decided by
//! [`netcliff_core::switching`].

use super::{
    Step,
    apply::{Applied, ApplyError, Session},
    named::{self, Named},
};
use crate::{
    nic::{Nic, netdev::NapiKey},
    rtnl::{Rtnl, missed},
    setting::{Group, Setting},
};
use netcliff_core::switching::Part;
use netcliff_core::traffic::FCS_BYTES;
use std::{fs::OpenOptions, io, os::unix::net::UnixListener, path::PathBuf};

const REASON: &str = "the load";
const SOURCE: &str = "docs/how-to/adapt.md";

/// A setting with different values in the two modes.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Lever {
    /// What is set.
    pub setting: Setting,
    /// Its usual name.
    pub name: String,
    /// Value before netcliff changed it.
    pub found: String,
    /// Value in interrupt mode.
    pub interrupt: String,
    /// Value in polling mode.
    pub poll: String,
}

impl Lever {
    /// Value in a mode.
    pub fn value(&self, part: Part) -> &str {
        match part {
            Part::Interrupt => &self.interrupt,
            Part::Poll => &self.poll,
        }
    }
}

/// The settings of a device in both modes.
#[derive(Debug, Clone)]
pub struct Levers {
    levers: Vec<Lever>,
    /// Values in force, in the order of `levers`.
    now: Vec<String>,
}

impl Levers {
    /// The settings named for each mode. A setting named for one mode only has its present value in the other.
    ///
    /// # Errors
    /// The device does not have one of the settings, or both modes are equal. The error is a sentence.
    pub fn of(nic: &Nic, interrupt: &[Named], poll: &[Named]) -> Result<Self, String> {
        let [quiet, busy] = [named::steps(nic, interrupt)?, named::steps(nic, poll)?];
        let mut levers: Vec<Lever> = Vec::new();
        for (part, step) in
            quiet.iter().map(|step| (Part::Interrupt, step)).chain(busy.iter().map(|step| (Part::Poll, step)))
        {
            let at = levers.iter().position(|lever| lever.setting == step.setting).unwrap_or_else(|| {
                let (name, old) = (step.proposal.name.clone(), &step.proposal.old);
                let [found, interrupt, poll] = [old, old, old].map(Clone::clone);
                levers.push(Lever { setting: step.setting.clone(), name, found, interrupt, poll });
                levers.len() - 1
            });
            let lever = &mut levers[at];
            let value = match part {
                Part::Interrupt => &mut lever.interrupt,
                Part::Poll => &mut lever.poll,
            };
            value.clone_from(&step.proposal.new);
        }
        if levers.iter().all(|lever| lever.interrupt == lever.poll) {
            return Err(format!(
                "{} has the same settings in both parts: expected --poll and --interrupt to differ from each other (what is not named \
                 stays as it is found)",
                nic.name
            ));
        }
        let now = levers.iter().map(|lever| lever.found.clone()).collect();
        Ok(Self { levers, now })
    }

    /// All settings with their values.
    pub fn all(&self) -> &[Lever] {
        &self.levers
    }

    /// Reason, as a sentence, why this process may not change one of the settings; `None` if it may change all, as far
    /// as this can be known before trying.
    pub fn not_permitted(&self) -> Option<String> {
        let refused = |path: &PathBuf| {
            let opened = OpenOptions::new().write(true).open(path);
            opened.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
        };
        let of = |lever: &&Lever| matches!(&lever.setting, Setting::File { path } if refused(path));
        let lever = self.levers.iter().find(of)?;
        let right = lever.setting.right();
        Some(format!("{} may not be set by this user: it takes {right} (sudo netcliff tune adapt ...)", lever.name))
    }

    /// Returns the description of the device with the settings of a mode; nothing is changed.
    pub fn in_part(&self, nic: &Nic, part: Part) -> Nic {
        let mut nic = nic.clone();
        for lever in &self.levers {
            imagine(&mut nic, &lever.setting, lever.value(part));
        }
        nic
    }

    /// Makes the settings of a mode. They are recorded in the session's journal before they are made.
    ///
    /// # Errors
    /// See [`Session::apply_steps`]; all that the session made is then restored.
    pub fn switch(&mut self, session: &mut Session, part: Part) -> Result<Vec<Applied>, ApplyError> {
        let step = |(lever, now): (&Lever, &String)| {
            (lever.value(part) != now).then(|| Step::new(lever.setting.clone(), now, lever.value(part), REASON, SOURCE))
        };
        let mut steps: Vec<Step> = self.levers.iter().zip(&self.now).filter_map(step).collect();
        if part == Part::Interrupt {
            // When the polling mode ends, the steps are made in reverse order: a setting that depends on a switch of
            // the driver must change before that switch.
            steps.reverse();
        }
        session.apply_steps(&steps)?;
        let made = |lever: &Lever| session.applied.iter().find(|one| one.setting == lever.setting);
        let mut applied = Vec::new();
        for (lever, now) in self.levers.iter().zip(&mut self.now).filter(|(lever, now)| lever.value(part) != **now) {
            // A driver may round a value; after a restore the value found before is in force again.
            let effective = made(lever).map_or(lever.value(part), |one| &one.effective).to_owned();
            applied.push(Applied {
                setting: lever.setting.clone(),
                name: lever.name.clone(),
                before: now.clone(),
                requested: lever.value(part).to_owned(),
                effective: effective.clone(),
            });
            *now = effective;
        }
        Ok(applied)
    }
}

/// Stores a value in a device's description as if it had been set, for the settings that decide between interrupts and
/// polling.
fn imagine(nic: &mut Nic, setting: &Setting, value: &str) {
    let Ok(value) = value.parse::<u32>() else { return };
    match setting {
        Setting::Ethtool { group: Group::Coalesce, key, .. } => {
            nic.coalesce.insert(key.clone(), value);
        }
        Setting::Napi { place, key, .. } => {
            if let Some(napi) = nic.napis.get_mut(*place) {
                napi.set_figure(*key, value);
            }
        }
        Setting::File { path } => {
            let Some(file) = path.file_name().and_then(|name| name.to_str()) else { return };
            if let Some(held) = nic.napi_settings.get_mut(file) {
                *held = u64::from(value);
            }
            if let Some(key) = NapiKey::of_file(file) {
                nic.napis.iter_mut().for_each(|napi| napi.set_figure(key, value));
            }
        }
        _ => {}
    }
}

/// Receive counters of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Packets that reached the host.
    pub packets: u64,
    /// Their bytes, as the driver counts them.
    pub bytes: u64,
    /// Packets lost before they reached the host, for lack of space.
    pub lost: u64,
}

impl Counters {
    /// Mean size of the received frames (bytes), including the FCS, which interfaces do not count; `None` if no packet
    /// was received.
    pub fn frame_bytes(&self) -> Option<f64> {
        (self.packets > 0).then(|| self.bytes as f64 / self.packets as f64 + FCS_BYTES)
    }
}

/// Reads a device's counters, by its interface index.
pub struct Receiver {
    index: u32,
    name: String,
    rtnl: Rtnl,
}

impl Receiver {
    /// A device of the thread's network namespace.
    pub fn new(nic: &Nic) -> Self {
        Self { index: nic.index, name: nic.name.clone(), rtnl: Rtnl::new() }
    }

    /// Present values of the counters.
    ///
    /// # Errors
    /// The device was removed, moved away or renamed. The error is a sentence.
    pub fn read(&mut self) -> Result<Counters, String> {
        let name = &self.name;
        let link = self.rtnl.link_at(self.index).map_err(|error| format!("{name} is gone ({error})"))?;
        if link.name != *name {
            return Err(format!("{name} is called {} now", link.name));
        }
        let stats = link.stats.ok_or_else(|| format!("{name} has no counters"))?;
        Ok(Counters { packets: stats.rx_packets, bytes: stats.rx_bytes, lost: missed(&stats) })
    }
}

/// The right to adapt a device: in a network namespace only one process at a time, of whatever user, has it. The kernel
/// releases it when the process ends.
#[derive(Debug)]
pub struct Adapting {
    _name: UnixListener,
}

impl Adapting {
    /// Acquires the right.
    ///
    /// # Errors
    /// Another process adapts the device. The error is a sentence.
    pub fn begin(nic: &Nic) -> Result<Self, String> {
        match crate::system::claim(&format!("netcliff-adapt-{}", nic.index)) {
            Ok(name) => Ok(Self { _name: name }),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(format!(
                "another netcliff adapts {} already, and two would work against each other: end that one first (`pgrep -af 'tune adapt'` \
                 lists it)",
                nic.name
            )),
            Err(error) => Err(format!("{} cannot be claimed: {error}", nic.name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn ice() -> Nic {
        let figures =
            |values: &[(&str, u32)]| values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        Nic {
            name: "eth0".into(),
            driver: Some("ice".into()),
            coalesce: figures(&[("adaptive-rx", 1), ("rx-usecs", 50)]),
            napi_settings: BTreeMap::from([
                ("napi_defer_hard_irqs".to_owned(), 0),
                ("gro_flush_timeout".to_owned(), 0),
            ]),
            ..Nic::default()
        }
    }

    fn named(text: &str) -> Vec<Named> {
        text.split_whitespace().map(|one| one.parse().unwrap()).collect()
    }

    fn lines(levers: &Levers) -> Vec<String> {
        let one = |lever: &Lever| format!("{}: {} {} {}", lever.setting, lever.found, lever.interrupt, lever.poll);
        levers.all().iter().map(one).collect()
    }

    /// A setting named for one mode only has its present value in the other.
    #[test]
    fn what_differs_between_the_parts() {
        let deferred = named("gro_flush_timeout=50us napi_defer_hard_irqs=2");
        let levers = Levers::of(&ice(), &[], &deferred).unwrap();
        assert_eq!(
            lines(&levers),
            ["/sys/class/net/eth0/gro_flush_timeout: 0 0 50000", "/sys/class/net/eth0/napi_defer_hard_irqs: 0 0 2"]
        );
        let poll = levers.in_part(&ice(), Part::Poll);
        assert_eq!(poll.napi_settings["gro_flush_timeout"], 50_000);
        assert_eq!(levers.in_part(&ice(), Part::Interrupt).napi_settings, ice().napi_settings);
        let levers = Levers::of(&ice(), &named("rx-usecs=8"), &named("rx-usecs=200")).unwrap();
        assert_eq!(
            lines(&levers),
            ["eth0 coalesce adaptive-rx: 1 0 0", "eth0 coalesce rx-usecs: 50 8 200"],
            "the driver does not choose in either part"
        );
        let busy = levers.in_part(&ice(), Part::Poll).coalesce;
        assert_eq!((busy["adaptive-rx"], busy["rx-usecs"]), (0, 200));
    }

    #[test]
    fn two_parts_that_are_one_are_refused() {
        for (interrupt, poll) in [("", "rx-usecs=50 adaptive-rx=on"), ("rx-usecs=8", "rx-usecs=8")] {
            let why = Levers::of(&ice(), &named(interrupt), &named(poll)).unwrap_err();
            assert!(why.contains("same settings in both parts"), "{why}");
        }
        let why = Levers::of(&ice(), &[], &named("threaded=on")).unwrap_err();
        assert!(why.contains("threaded"), "{why}");
    }
}
