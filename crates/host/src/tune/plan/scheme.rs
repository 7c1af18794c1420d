//! Which settings make a device work by a scheme, if Linux supports it: [`steps`].
//!
//! Linux has NAPI with deferral, threads and busy polling, coalescing by count and timer with the interrupt masked
//! while packets are polled, and dim. No driver supports other schemes.

use super::{Step, napi};
use crate::inspect::{Inspection, Port};
use crate::nic::netdev::NapiKey;
use crate::setting::{self, Group, Setting};
use netcliff_core::scheme::{Coalesce, Dim, DimProfile, Moderation, Napi, Quirk};
use netcliff_core::{Scheme, units};

const NAPI: &str = "Documentation/networking/napi.rst";
const SYSCTL: &str = "Documentation/admin-guide/sysctl/net.rst";
const ETHTOOL: &str = "include/uapi/linux/ethtool.h, struct ethtool_coalesce; lib/dim/net_dim.c";
/// Duration of a reader's polling (us): the kernel documentation's recommendation for busy_read.
const BUSY_US: u32 = 50;
const NS_PER_S: f64 = 1e9;
const US_PER_S: f64 = 1e6;
/// Packets per poll of a driver (NAPI_POLL_WEIGHT).
const WEIGHT: u64 = 64;

/// The device to be set.
#[derive(Debug, Clone, Copy)]
pub enum Device<'a> {
    /// A device of an inspected host.
    Port(&'a Inspection, &'a Port),
    /// Hardware with this name, whose driver supports all that ethtool defines; its present values are unknown.
    Any(&'a str),
}

/// Alternative settings for a device that refuses coalescing, with the reason; `None` if it does not refuse coalescing.
pub fn without_coalescing(device: Device<'_>) -> Option<String> {
    let Device::Port(_, port) = device else { return None };
    let why = port.nic.refuses_coalescing()?;
    Some(format!("{why}; it takes napi_defer_hard_irqs, gro_flush_timeout and threaded (schemes of napi)"))
}

/// Placeholder for an unknown present value.
const UNKNOWN: &str = "not known";

/// The settings that make a device work by a scheme, without those already in force; empty if it already does.
///
/// # Errors
/// Why the device cannot work by the scheme. The error is a part of a sentence.
pub fn steps(scheme: &Scheme, device: Device<'_>) -> Result<Vec<Step>, String> {
    let mut draft = Draft { device, steps: Vec::new() };
    match scheme {
        Scheme::Napi(napi) => draft.napi(napi)?,
        Scheme::Coalesce(coalesce) => draft.coalesce(coalesce)?,
        Scheme::Dim(dim) => draft.dim(*dim)?,
        other => return Err(other.properties().not_on_linux.unwrap_or("no Linux setting is known for it").to_owned()),
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

    /// Resets a sysctl to the kernel's default; omitted if its present value is unknown.
    fn back(&mut self, name: &str, new: u64, reason: &str) {
        if let Device::Port(inspection, _) = self.device
            && inspection.sysctl(name).is_some()
        {
            self.sysctl(name, new, reason);
        }
    }

    /// Sets a value of coalescing; returns false if the driver does not report it.
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

    /// Sets a setting of the NAPI instances. Errors: the setting does not exist, and the wanted value is not 0.
    fn instance(&mut self, key: NapiKey, new: u32, reason: &str) -> Result<(), String> {
        let name = self.name().to_owned();
        let all = match self.device {
            Device::Port(_, port) => napi::settings(&port.nic, key),
            // An unknown value is set only if it is part of the scheme.
            Device::Any(_) if new == 0 => Vec::new(),
            Device::Any(_) => {
                let by_file = |file| Setting::file(format!("/sys/class/net/{name}/{file}"));
                let by_netlink = || Setting::Napi { interface: name.clone(), place: 0, key };
                vec![(key.file().map_or_else(by_netlink, by_file), UNKNOWN.to_owned())]
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
            || napi.irq_suspend_timeout_s > 0.0
            || napi.moderation.is_on();
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
        if napi.gro_normal_batch > 1 {
            self.sysctl("net.core.gro_normal_batch", napi.gro_normal_batch, "packets that a poll gathers");
        }
        if self.is_hardware() {
            if napi.moderation.is_on() {
                self.moderation(&napi.moderation)?
            } else {
                self.no_delay()
            }
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

    /// Switches delays of the interrupt off.
    fn no_delay(&mut self) {
        let reason = "a packet that finds nobody polling interrupts at once";
        self.ethtool("adaptive-rx", 0, reason);
        self.ethtool("rx-usecs", 0, reason);
        // Delay and count of 0 together would mean no interrupt at all.
        if matches!(self.device, Device::Port(..)) {
            self.ethtool("rx-frames", 1, reason);
        }
    }

    fn deferral(&mut self, napi: &Napi) -> Result<(), String> {
        let reason = "after an empty poll a timer polls again before the interrupt comes back";
        self.instance(NapiKey::DeferHardIrqs, napi.defer_hard_irqs, reason)?;
        let timeout_ns = in_u32("gro_flush_timeout", napi.gro_flush_timeout_s, NS_PER_S)?;
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
        let timeout_ns = in_u32("irq_suspend_timeout", napi.irq_suspend_timeout_s, NS_PER_S)?;
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
        if coalesce.free_timer {
            return Err("a NIC's timer starts with a packet (rx-usecs): only with free_timer=false".to_owned());
        }
        self.moderation(&Moderation {
            frames: coalesce.frames,
            absolute_timer_s: coalesce.absolute_timer_s,
            packet_timer_s: coalesce.packet_timer_s,
            min_gap_s: coalesce.min_gap_s,
            quirk: Quirk::default(),
        })?;
        self.instance(NapiKey::DeferHardIrqs, 0, "only the device holds back")
    }

    /// Sets the device's moderation of interrupts.
    fn moderation(&mut self, moderation: &Moderation) -> Result<(), String> {
        if moderation.packet_timer_s.is_some_and(|timer_s| timer_s > 0.0) {
            return Err("ethtool has no timer that starts anew with each packet".to_owned());
        }
        let usecs = self.delay_us(moderation)?;
        let reason = "the interrupt waits for more packets";
        self.ethtool("adaptive-rx", 0, reason);
        let missing = |key: &str, name: &str| format!("the driver of {name} offers no {key}");
        let name = self.name().to_owned();
        if !self.ethtool("rx-usecs", usecs, reason) && usecs > 0 {
            return Err(missing("rx-usecs", &name));
        }
        if !self.ethtool("rx-frames", moderation.frames.unwrap_or(0), reason) && moderation.frames.is_some() {
            return Err(missing("rx-frames", &name));
        }
        Ok(())
    }

    /// The value of `rx-usecs` for the scheme.
    fn delay_us(&self, moderation: &Moderation) -> Result<u64, String> {
        let given = |time: Option<f64>| time.filter(|time_s| *time_s > 0.0);
        let (timer_s, gap_s) = (given(moderation.absolute_timer_s), given(moderation.min_gap_s));
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
        let usecs = in_u32("rx-usecs", delay_s, US_PER_S)?;
        if let Device::Port(_, port) = self.device {
            let accepted = port.nic.accepted_delay_us(usecs);
            if accepted != usecs {
                return Err(format!("the driver of {} takes no delay below {accepted} us", port.nic.name));
            }
        }
        Ok(u64::from(usecs))
    }

    fn dim(&mut self, dim: Dim) -> Result<(), String> {
        self.needs_interrupts()?;
        let reason = "the driver follows the load with lib/dim";
        let name = self.name().to_owned();
        if !self.ethtool("adaptive-rx", 1, reason) {
            return Err(format!("the driver of {name} offers no adaptive-rx"));
        }
        let by_completion = dim.profile == DimProfile::Cqe;
        let has_mode = match self.device {
            Device::Port(_, port) => port.nic.coalesce.contains_key("cqe-mode-rx"),
            Device::Any(_) => by_completion,
        };
        if by_completion && !has_mode {
            return Err(format!("the driver of {name} offers no cqe-mode-rx"));
        }
        if has_mode {
            self.ethtool("cqe-mode-rx", u64::from(by_completion), "when the delay starts");
        }
        self.instance(NapiKey::DeferHardIrqs, 0, "only the device holds back")
    }

    fn needs_interrupts(&self) -> Result<(), String> {
        match self.is_hardware() {
            true => without_coalescing(self.device).map_or(Ok(()), Err),
            false => Err(format!("{} is no hardware: it has no interrupt to hold back", self.name())),
        }
    }
}

fn whole(value: f64) -> u64 {
    value.round() as u64
}

/// Converts a time to the kernel's unit, `per_s` of which are one second. Errors: it does not fit the kernel's 32 bits.
fn in_u32(name: &str, time_s: f64, per_s: f64) -> Result<u32, String> {
    u32::try_from(whole(time_s * per_s)).map_err(|_| {
        let longest = units::print_time_s(f64::from(u32::MAX) / per_s);
        format!("{name} {} is longer than the kernel takes: at most {longest}", units::print_time_s(time_s))
    })
}

#[cfg(test)]
mod tests;
