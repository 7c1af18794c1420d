//! Which settings make a device work by a scheme, if Linux has it: [`steps`].
//!
//! Linux has NAPI with its deferral, threads and busy polling, coalescing by count and timer with the interrupt masked while packets
//! are polled, and dim. What else the vocabulary of schemes has no driver offers.

use super::{Step, napi};
use crate::inspect::{Inspection, Port};
use crate::nic::netdev::NapiKey;
use crate::setting::{self, Group, Setting};
use netcliff_core::scheme::{Coalesce, Dim, DimProfile, Napi};
use netcliff_core::{Scheme, units};

const NAPI: &str = "Documentation/networking/napi.rst";
const SYSCTL: &str = "Documentation/admin-guide/sysctl/net.rst";
const ETHTOOL: &str = "include/uapi/linux/ethtool.h, struct ethtool_coalesce; lib/dim/net_dim.c";
/// How long a reader polls (us): what the kernel's documentation recommends for busy_read.
const BUSY_US: u32 = 50;
/// Packets of a poll of a driver (NAPI_POLL_WEIGHT).
const WEIGHT: u64 = 64;

/// What is to be set.
#[derive(Debug, Clone, Copy)]
pub enum Device<'a> {
    /// A device of an inspected host.
    Port(&'a Inspection, &'a Port),
    /// Some hardware by this name, whose driver offers what ethtool defines; what is in force is not known.
    Any(&'a str),
}

/// Value that is not known.
const UNKNOWN: &str = "not known";

/// The settings that make a device work by a scheme, without those in force already; empty: it does so as it is.
///
/// # Errors
/// Why the device cannot be set so, a part of a sentence.
pub fn steps(scheme: &Scheme, device: Device<'_>) -> Result<Vec<Step>, String> {
    let mut draft = Draft { device, steps: Vec::new() };
    match scheme {
        Scheme::Napi(napi) => draft.napi(napi)?,
        Scheme::Coalesce(coalesce) => draft.coalesce(coalesce)?,
        Scheme::Dim(dim) => draft.dim(*dim)?,
        Scheme::Ideal => return Err("no host works without interrupts that cost time".to_owned()),
        Scheme::Interrupt { .. } => {
            return Err("Linux masks the interrupt while it polls: napi comes closest".to_owned());
        }
        Scheme::DisableEnable { .. } => return Err("no setting turns NAPI into it: napi comes closest".to_owned()),
        Scheme::Polling { .. } | Scheme::Napi2007 { .. } | Scheme::Hybrid(_) => {
            return Err(
                "no driver polls by a timer alone: napi with defer_hard_irqs and gro_flush_timeout comes closest"
                    .to_owned(),
            );
        }
    }
    Ok(draft.steps)
}

struct Draft<'a> {
    device: Device<'a>,
    steps: Vec<Step>,
}

impl Draft<'_> {
    fn name(&self) -> &str {
        match self.device {
            Device::Port(_, port) => &port.nic.name,
            Device::Any(name) => name,
        }
    }

    fn is_hardware(&self) -> bool {
        match self.device {
            Device::Port(_, port) => port.nic.is_physical(),
            Device::Any(_) => true,
        }
    }

    fn push(&mut self, setting: Setting, old: &str, new: &str, reason: &str, source: &str) {
        if !setting::same(old, new) {
            self.steps.push(Step::new(setting, old, new, reason, source));
        }
    }

    fn sysctl(&mut self, name: &str, new: u64, reason: &str) {
        let old = match self.device {
            Device::Port(inspection, _) => inspection.host.sysctls.get(name).cloned(),
            Device::Any(_) => None,
        };
        self.push(Setting::sysctl(name), old.as_deref().unwrap_or(UNKNOWN), &new.to_string(), reason, SYSCTL);
    }

    /// One that only matters where it is not as the kernel has it: without a known value in force it is left out.
    fn back(&mut self, name: &str, new: u64, reason: &str) {
        if let Device::Port(inspection, _) = self.device
            && inspection.sysctl(name).is_some()
        {
            self.sysctl(name, new, reason);
        }
    }

    /// A figure of coalescing, where the driver tells it. False: it does not.
    fn ethtool(&mut self, key: &str, new: u64, reason: &str) -> bool {
        let old = match self.device {
            Device::Port(_, port) => match setting::figure(&port.nic, Group::Coalesce, key) {
                Some(old) => old,
                None => return false,
            },
            Device::Any(_) => UNKNOWN.to_owned(),
        };
        let setting =
            Setting::Ethtool { interface: self.name().to_owned(), group: Group::Coalesce, key: key.to_owned() };
        self.push(setting, &old, &new.to_string(), reason, ETHTOOL);
        true
    }

    /// A setting of the NAPI instances. Errors: it is not there, and 0 is not wanted.
    fn instance(&mut self, key: NapiKey, new: u32, reason: &str) -> Result<(), String> {
        let name = self.name().to_owned();
        let all = match self.device {
            Device::Port(_, port) => napi::settings(port, key),
            // What is not known is set only where it is part of the scheme.
            Device::Any(_) if new == 0 => Vec::new(),
            Device::Any(_) => {
                let by_file = |file| Setting::file(format!("/sys/class/net/{name}/{file}"));
                let by_netlink = || Setting::Napi { interface: name.clone(), place: 0, key };
                vec![(napi::file_of(key).map_or_else(by_netlink, by_file), UNKNOWN.to_owned())]
            }
        };
        if all.is_empty() && new != 0 {
            return Err(format!("{name}: this kernel does not offer {}", key.name()));
        }
        for (setting, old) in all {
            self.push(setting, &old, &new.to_string(), reason, NAPI);
        }
        Ok(())
    }

    fn napi(&mut self, napi: &Napi) -> Result<(), String> {
        let asks_for_hardware = napi.threaded
            || napi.busy_poll
            || napi.defer_hard_irqs > 0
            || napi.gro_flush_timeout_s > 0.0
            || napi.irq_suspend_timeout_s > 0.0;
        if asks_for_hardware && !self.is_hardware() {
            return Err(format!("{} is no hardware: it has no NAPI instance to set", self.name()));
        }
        self.weight(napi)?;
        if napi.budget != Napi::default().budget {
            self.sysctl("net.core.netdev_budget", napi.budget, "packets of a softirq round");
        }
        if napi.budget_time_s != Napi::default().budget_time_s {
            self.sysctl("net.core.netdev_budget_usecs", whole(napi.budget_time_s * 1e6), "time of a softirq round");
        }
        if self.is_hardware() {
            self.no_delay();
            self.deferral(napi)?;
        }
        self.busy_poll(napi)
    }

    fn weight(&mut self, napi: &Napi) -> Result<(), String> {
        let reason = "packets of a poll of the backlog, which RPS and veth use";
        match (napi.backlog || !self.is_hardware(), napi.weight) {
            (true, WEIGHT) => self.back("net.core.dev_weight", WEIGHT, reason),
            (true, weight) => self.sysctl("net.core.dev_weight", weight, reason),
            (false, WEIGHT) => {}
            (false, _) => {
                return Err(
                    "drivers poll 64 packets at a time; net.core.dev_weight is for RPS and veth only".to_owned()
                );
            }
        }
        Ok(())
    }

    /// The interrupt is not held back.
    fn no_delay(&mut self) {
        let reason = "a packet that finds nobody polling interrupts at once";
        self.ethtool("adaptive-rx", 0, reason);
        self.ethtool("rx-usecs", 0, reason);
        // Both at 0 would mean no interrupt at all.
        if matches!(self.device, Device::Port(..)) {
            self.ethtool("rx-frames", 1, reason);
        }
    }

    fn deferral(&mut self, napi: &Napi) -> Result<(), String> {
        let reason = "after an empty poll a timer polls again before the interrupt comes back";
        self.instance(NapiKey::DeferHardIrqs, napi.defer_hard_irqs, reason)?;
        let timeout_ns = u32::try_from(whole(napi.gro_flush_timeout_s * 1e9)).map_err(|_| {
            format!(
                "gro_flush_timeout {} is longer than the kernel takes",
                units::print_time_s(napi.gro_flush_timeout_s)
            )
        })?;
        self.instance(NapiKey::GroFlushTimeout, timeout_ns, reason)?;
        let reason = if napi.threaded { "a thread polls, which the scheduler places" } else { "the softirq polls" };
        self.instance(NapiKey::Threaded, u32::from(napi.threaded), reason)
    }

    fn busy_poll(&mut self, napi: &Napi) -> Result<(), String> {
        let reason = "a reader polls the device this many us before it sleeps";
        for name in ["net.core.busy_read", "net.core.busy_poll"] {
            if napi.busy_poll {
                self.sysctl(name, u64::from(BUSY_US), reason);
            } else {
                self.back(name, 0, "a reader sleeps at once");
            }
        }
        if napi.irq_suspend_timeout_s == 0.0 {
            return Ok(());
        }
        let timeout_ns = whole(napi.irq_suspend_timeout_s * 1e9) as u32;
        self.instance(NapiKey::IrqSuspendTimeout, timeout_ns, "no interrupts while an application polls")
    }

    fn coalesce(&mut self, coalesce: &Coalesce) -> Result<(), String> {
        self.needs_interrupts()?;
        if !coalesce.masked {
            return Err("Linux masks the interrupt while it polls: only with masked=true".to_owned());
        }
        if coalesce.drops_interrupt {
            return Err("no device interrupts for a frame that it dropped".to_owned());
        }
        if coalesce.packet_timer_s.is_some() {
            return Err("ethtool has no timer that starts anew with each packet".to_owned());
        }
        let usecs = self.delay_us(coalesce)?;
        let reason = "the interrupt waits for more packets";
        self.ethtool("adaptive-rx", 0, reason);
        let missing = |key: &str, name: &str| format!("the driver of {name} offers no {key}");
        let name = self.name().to_owned();
        if !self.ethtool("rx-usecs", usecs, reason) && usecs > 0 {
            return Err(missing("rx-usecs", &name));
        }
        if !self.ethtool("rx-frames", coalesce.frames.unwrap_or(0), reason) && coalesce.frames.is_some() {
            return Err(missing("rx-frames", &name));
        }
        self.instance(NapiKey::DeferHardIrqs, 0, "only the device holds back")
    }

    /// The value of `rx-usecs` for the scheme.
    fn delay_us(&self, coalesce: &Coalesce) -> Result<u64, String> {
        let given = |time: Option<f64>| time.filter(|time_s| *time_s > 0.0);
        let (timer_s, gap_s) = (given(coalesce.absolute_timer_s), given(coalesce.min_gap_s));
        let spaces = match self.device {
            Device::Port(_, port) => Some(port.nic.spaces_interrupts()),
            Device::Any(_) => None,
        };
        let delay_s = match (timer_s, gap_s, spaces) {
            (Some(_), Some(_), _) => return Err("rx-usecs is one value: a timer or a smallest gap".to_owned()),
            (Some(_), None, Some(true)) => {
                return Err("rx-usecs of this driver is the smallest gap (min_gap), no timer".to_owned());
            }
            (None, Some(_), Some(false)) => {
                return Err("rx-usecs of this driver is a timer (usecs), no smallest gap".to_owned());
            }
            (None, Some(_), None) => {
                return Err("only some drivers keep a smallest gap: name the device with --if".to_owned());
            }
            (timer_s, gap_s, _) => timer_s.or(gap_s).unwrap_or(0.0),
        };
        let usecs = whole(delay_s * 1e6);
        if let Device::Port(_, port) = self.device {
            let accepted = u64::from(port.nic.accepted_delay_us(usecs as u32));
            if accepted != usecs {
                return Err(format!("the driver of {} takes no delay below {accepted} us", port.nic.name));
            }
        }
        Ok(usecs)
    }

    fn dim(&mut self, dim: Dim) -> Result<(), String> {
        self.needs_interrupts()?;
        let reason = "the driver follows the load with lib/dim";
        let name = self.name().to_owned();
        if !self.ethtool("adaptive-rx", 1, reason) {
            return Err(format!("the driver of {name} offers no adaptive-rx"));
        }
        let by_completion = dim.profile == DimProfile::Cqe;
        let told = match self.device {
            Device::Port(_, port) => port.nic.coalesce.contains_key("cqe-mode-rx"),
            Device::Any(_) => by_completion,
        };
        if by_completion && !told {
            return Err(format!("the driver of {name} offers no cqe-mode-rx"));
        }
        if told {
            self.ethtool("cqe-mode-rx", u64::from(by_completion), "when the delay starts");
        }
        self.instance(NapiKey::DeferHardIrqs, 0, "only the device holds back")
    }

    fn needs_interrupts(&self) -> Result<(), String> {
        match self.is_hardware() {
            true => Ok(()),
            false => Err(format!("{} is no hardware: it has no interrupt to hold back", self.name())),
        }
    }
}

fn whole(value: f64) -> u64 {
    value.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nic::Nic;
    use std::collections::BTreeMap;

    fn port(driver: &str, coalesce: &[(&str, u32)]) -> Port {
        let coalesce: BTreeMap<String, u32> = coalesce.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect();
        let napi_settings = [("napi_defer_hard_irqs", 0), ("gro_flush_timeout", 0), ("threaded", 0)];
        let nic = Nic {
            name: "eth0".to_owned(),
            driver: Some(driver.to_owned()),
            bus: Some("0000:18:00.0".to_owned()),
            coalesce,
            napi_settings: napi_settings.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect(),
            ..Nic::default()
        };
        Port { nic, irqs: Vec::new(), queues: Vec::new() }
    }

    fn commands(scheme: &str, device: Device<'_>) -> Result<Vec<String>, String> {
        let steps = steps(&scheme.parse().unwrap(), device)?;
        Ok(steps.into_iter().map(|step| step.proposal.command).collect())
    }

    fn on(port: &Port, scheme: &str) -> Result<Vec<String>, String> {
        commands(scheme, Device::Port(&Inspection::default(), port))
    }

    #[test]
    fn what_linux_has_becomes_commands() {
        let mlx = port("mlx5_core", &[("rx-usecs", 8), ("rx-frames", 128), ("adaptive-rx", 1), ("cqe-mode-rx", 0)]);
        for (scheme, wanted) in [
            (
                "napi:defer_hard_irqs=2,gro_flush_timeout=50us",
                &[
                    "ethtool -C eth0 adaptive-rx off",
                    "ethtool -C eth0 rx-usecs 0",
                    "ethtool -C eth0 rx-frames 1",
                    "echo 2 > /sys/class/net/eth0/napi_defer_hard_irqs",
                    "echo 50000 > /sys/class/net/eth0/gro_flush_timeout",
                ][..],
            ),
            (
                "coalesce:frames=8,usecs=50us,masked=true",
                &["ethtool -C eth0 adaptive-rx off", "ethtool -C eth0 rx-usecs 50", "ethtool -C eth0 rx-frames 8"],
            ),
            ("dim", &[]),
            ("dim:profile=cqe", &["ethtool -C eth0 cqe-mode-rx on"]),
        ] {
            assert_eq!(on(&mlx, scheme).unwrap(), wanted, "{scheme}");
        }
        let threaded = on(&mlx, "napi:threaded,busy_poll,budget=600").unwrap();
        for command in [
            "sysctl -w net.core.netdev_budget=600",
            "echo 1 > /sys/class/net/eth0/threaded",
            "sysctl -w net.core.busy_read=50",
        ] {
            assert!(threaded.iter().any(|one| one == command), "{command}: {threaded:?}");
        }
    }

    #[test]
    fn what_no_driver_offers_is_said() {
        let mlx = port("mlx5_core", &[("rx-usecs", 8), ("adaptive-rx", 1)]);
        for (scheme, part) in [
            ("interrupt", "napi comes closest"),
            ("disable-enable", "napi comes closest"),
            ("polling", "by a timer"),
            ("hybrid", "by a timer"),
            ("napi-2007", "by a timer"),
            ("napi:weight=16", "64 packets"),
            ("coalesce:usecs=50us", "masked=true"),
            ("coalesce:packet_timer=10us,masked=true", "no timer"),
            ("coalesce:min_gap=50us,masked=true", "no smallest gap"),
            ("coalesce:frames=8,masked=true", "no rx-frames"),
            ("dim:profile=cqe", "cqe-mode-rx"),
        ] {
            let why = on(&mlx, scheme).unwrap_err();
            assert!(why.contains(part), "{scheme}: {why}");
        }
        let veth = Port { nic: Nic { kind: Some("veth".to_owned()), bus: None, ..mlx.nic.clone() }, ..mlx.clone() };
        for scheme in ["coalesce:frames=8,masked=true", "dim", "napi:threaded"] {
            assert!(on(&veth, scheme).unwrap_err().contains("no hardware"), "{scheme}");
        }
        assert_eq!(on(&veth, "napi:weight=16").unwrap(), ["sysctl -w net.core.dev_weight=16"]);
    }

    /// `rx-usecs` is a gap to the Intel drivers and a timer to the others; the first take no delay that is a word to them.
    #[test]
    fn a_delay_is_what_the_driver_means_by_it() {
        let intel = port("igb", &[("rx-usecs", 3)]);
        assert_eq!(on(&intel, "coalesce:min_gap=50us,masked=true").unwrap(), ["ethtool -C eth0 rx-usecs 50"]);
        assert!(on(&intel, "coalesce:usecs=50us,masked=true").unwrap_err().contains("min_gap"));
        assert!(on(&intel, "coalesce:min_gap=3us,masked=true").unwrap_err().contains("10 us"));
    }

    #[test]
    fn without_a_device_the_commands_name_a_placeholder() {
        let any = |scheme: &str| commands(scheme, Device::Any("DEV"));
        assert_eq!(
            any("coalesce:frames=8,masked=true").unwrap(),
            ["ethtool -C DEV adaptive-rx off", "ethtool -C DEV rx-usecs 0", "ethtool -C DEV rx-frames 8"]
        );
        assert_eq!(any("napi:threaded").unwrap().last().unwrap(), "echo 1 > /sys/class/net/DEV/threaded");
        assert!(any("coalesce:min_gap=9us,masked=true").unwrap_err().contains("--if"));
    }
}
