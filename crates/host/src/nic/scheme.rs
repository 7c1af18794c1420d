//! The [scheme](netcliff_core::Scheme) of a device: its moderation and its NAPI instances, in the terms of `find`,
//! `limits` and `tune plan`.
//!
//! The meaning of `rx-usecs` for each driver is in its row in `driver`.

use super::{
    Nic,
    driver::{Emulation, Meaning},
    moderation::Moderation as Held,
    netdev::{Napi as Instance, NapiKey},
};
use crate::inventory::Inventory;
use netcliff_core::scheme::{Gap, Moderation, Napi, Quirk};

/// Longest time that VMware's hypervisor delays a counted packet: 4 ms ("Performance Best Practices for VMware
/// vSphere", virtual network interrupt coalescing, static).
const VMXNET3_STATIC_S: f64 = 4e-3;

/// Shortest time between two interrupts of QEMU's e1000 and e1000e: 500 units of 256 ns, whatever the driver sets (QEMU
/// 7.2 and 10.0: hw/net/e1000.c, `set_interrupt_cause`; e1000e_core.c, E1000E_MIN_XITR).
const QEMU_GAP_S: f64 = 128e-6;
/// Last version of QEMU whose e1000e and igb space interrupts differently from Intel's ([`Gap`]); the sources of 7.2.22
/// and 10.0.13 were checked.
const QEMU_OLD: (u32, u32) = (10, 0);
/// Time that the igb of QEMU up to [`QEMU_OLD`] waits per microsecond of rx-usecs: four units of 1024 ns
/// (hw/net/igb_core.c, `igb_intrmgr_rearm_timer`, E1000_INTR_DELAY_NS_RES; the driver's register has quarters of a
/// microsecond), four times the requested time. Also measured on the wire: docs/drivers.md.
const QEMU_IGB_UNIT_NS: f64 = 4096.0;
/// Unit of the registers RDTR and RADV (ns), and the default value of RADV in e1000 and e1000e.
const RDTR_UNIT_NS: f64 = 1024.0;
const DEFAULT_RADV: f64 = 8.0;

/// Microseconds per second, used as a divisor, because the floating-point number nearest to 50e-6 is 50 / 1e6, not 50 *
/// 1e-6, and schemes are printed exactly.
const US_PER_S: f64 = 1e6;
const NS_PER_S: f64 = 1e9;

/// How a device works, as a NAPI scheme.
#[derive(Debug, Clone, PartialEq)]
pub struct AsNapi {
    /// The scheme, as far as it can express the device's settings.
    pub napi: Napi,
    /// Settings in force that the scheme cannot express, or that are not reported; `None` if the scheme expresses all
    /// that matters.
    pub lacks: Option<String>,
    /// Further settings that may be in force and that the driver does not report; `None` if there are no such settings.
    pub beside: Option<String>,
}

impl Nic {
    /// Moderation of the device's receive interrupt.
    ///
    /// # Errors
    /// Fixed times and counts cannot express the moderation, or it is not reported. The error is a sentence.
    pub fn napi_moderation(&self) -> Result<Moderation, String> {
        let driver = self.known_driver();
        let emulated = self.qemu.map(|version| (driver.emulation, version));
        if let Some((Emulation::Vmxnet3, _)) = emulated {
            return Ok(Moderation { quirk: Gap::Reopened.into(), ..Moderation::default() });
        }
        if self.refuses_coalescing().is_some() {
            return Ok(Moderation::default());
        }
        if let (Some((Emulation::E1000, _)), Some(gap_s)) = (emulated, self.gap_of_qemus_e1000_s()) {
            return Ok(Moderation { min_gap_s: Some(gap_s), ..Moderation::default() });
        }
        if self.coalesce.is_empty() {
            return Err(driver.unreported.to_owned());
        }
        self.fixed()?;
        let value = |key: &str| self.coalesce.get(key).copied().unwrap_or(0);
        let usecs = |us: u32| (us > 0).then(|| f64::from(us) / US_PER_S);
        let frames = Some(value("rx-frames")).filter(|frames| *frames > 1).map(u64::from);
        if driver.rx_usecs == Meaning::Rate {
            return Ok(Moderation {
                frames,
                absolute_timer_s: frames.map(|_| VMXNET3_STATIC_S),
                min_gap_s: usecs(value("rx-usecs")),
                ..Moderation::default()
            });
        }
        if self.spaces_interrupts() {
            let second = if driver.rx_usecs == Meaning::TwoGaps { value("rx-usecs-high") } else { 0 };
            let gap_s = usecs(value("rx-usecs").max(second));
            if let Some((Emulation::Igb, version)) = emulated
                && version <= QEMU_OLD
            {
                // The driver writes 1 for 0 (igb_write_itr).
                let units = f64::from(value("rx-usecs").max(1));
                let min_gap_s = Some(units * QEMU_IGB_UNIT_NS / NS_PER_S);
                return Ok(Moderation { min_gap_s, quirk: Gap::Echo.into(), ..Moderation::default() });
            }
            let least_s = matches!(emulated, Some((Emulation::E1000 | Emulation::E1000e, _))).then_some(QEMU_GAP_S);
            // A gap of zero is below any least gap.
            let min_gap_s = if gap_s > least_s { gap_s } else { least_s };
            let [packet_timer_s, absolute_timer_s] = self.timers_of_qemus_e1000e_s();
            let gap = match emulated {
                Some((Emulation::E1000e, _)) if !self.has_message_vectors() => Gap::Latched,
                Some((Emulation::E1000e, version)) if version <= QEMU_OLD => Gap::Direct,
                _ => Gap::Each,
            };
            return Ok(Moderation {
                absolute_timer_s,
                packet_timer_s,
                min_gap_s,
                quirk: gap.into(),
                ..Moderation::default()
            });
        }
        // Each packet raises an interrupt, whatever the timer.
        if value("rx-frames") == 1 {
            return Ok(Moderation::default());
        }
        let timer_s = usecs(value("rx-usecs"));
        if let (Some(frames), None) = (frames, timer_s) {
            return Err(format!(
                "rx-frames {frames} without rx-usecs: nothing is reported that announces the last packets of a burst"
            ));
        }
        let from_last = value("cqe-mode-rx") > 0;
        Ok(Moderation {
            frames,
            absolute_timer_s: timer_s.filter(|_| !from_last),
            packet_timer_s: timer_s.filter(|_| from_last),
            ..Moderation::default()
        })
    }

    /// Shortest time between two interrupts of QEMU's e1000 (s): the shorter of ITR and, if RDTR is set, RADV, which
    /// QEMU treats as a second ITR (hw/net/e1000.c, `set_interrupt_cause`); at least 128 us. `None` if the parameter
    /// for ITR of the driver's module is not known.
    fn gap_of_qemus_e1000_s(&self) -> Option<f64> {
        self.qemu?;
        let per_s = self.parameters.get("InterruptThrottleRate").copied().filter(|rate| *rate == 0 || *rate >= 100)?;
        let itr_s = (per_s > 0).then(|| 1.0 / f64::from(per_s));
        let [_, radv_s] = self.timers_s();
        Some(itr_s.into_iter().chain(radv_s).reduce(f64::min).unwrap_or(0.0).max(QEMU_GAP_S))
    }

    /// RDTR and RADV (s) according to the parameters of the driver's module; both `None` if RDTR is not set.
    fn timers_s(&self) -> [Option<f64>; 2] {
        let units = |name: &str| self.parameters.get(name).map(|units| f64::from(*units) * RDTR_UNIT_NS / NS_PER_S);
        let rdtr_s = units("RxIntDelay").filter(|time_s| *time_s > 0.0);
        let radv_s = units("RxAbsIntDelay").or(Some(DEFAULT_RADV * RDTR_UNIT_NS / NS_PER_S));
        [rdtr_s, radv_s.filter(|time_s| rdtr_s.is_some() && *time_s > 0.0)]
    }

    /// The timers of QEMU's e1000e that start at the last and at the first packet (s): both `None` with MSI-X
    /// (hw/net/e1000e_core.c, `e1000e_intrmgr_delay_rx_causes`).
    fn timers_of_qemus_e1000e_s(&self) -> [Option<f64>; 2] {
        let is_qemus = self.qemu.is_some() && self.known_driver().emulation == Emulation::E1000e;
        if is_qemus && !self.has_message_vectors() { self.timers_s() } else { [None; 2] }
    }

    /// Whether the device uses MSI-X; false if the parameters of its driver's module select MSI or an interrupt line
    /// (IntMode of e1000e).
    fn has_message_vectors(&self) -> bool {
        !matches!(self.parameters.get("IntMode"), Some(0 | 1))
    }

    /// Checks that the interrupt delay is fixed. The error is a sentence that describes how the delay follows the load.
    fn fixed(&self) -> Result<(), String> {
        let driver = self.known_driver();
        let usecs = self.coalesce.get("rx-usecs").copied();
        let word = match self.moderation() {
            Some(Held::Adaptive { word, .. }) => word,
            _ => usecs.filter(|us| driver.untimed_words.contains(us)),
        };
        if let Some(word) = word {
            let name = self.driver.as_deref().unwrap_or_default();
            return Err(format!(
                "rx-usecs {word} is {name}'s word for a gap that follows the load, no number of microseconds"
            ));
        }
        if self.coalesce.get("adaptive-rx") != Some(&1) {
            return Ok(());
        }
        let instead = match (driver.dim, self.coalesce.get("cqe-mode-rx")) {
            (false, _) => "",
            (true, Some(1)) => " (lib/dim: --scheme dim:profile=cqe comes closest)",
            (true, _) => " (lib/dim: --scheme dim comes closest)",
        };
        Err(format!("adaptive-rx is on: the delay follows the load{instead}"))
    }

    /// Sentence on moderation in addition to [`Nic::napi_moderation`]; `None` if no such moderation is known.
    pub fn beside_moderation(&self) -> Option<String> {
        let moderation = self.napi_moderation().ok()?;
        let quirk = (moderation.quirk != Quirk::default()).then(|| {
            let name = self.driver.as_deref().unwrap_or_default();
            format!("how QEMU's {name} interrupts, as no hardware does (simulated in this guest)")
        });
        let all: Vec<String> = quirk.into_iter().chain(self.unread_moderation(&moderation)).collect();
        (!all.is_empty()).then(|| all.join(", and "))
    }

    /// Sentence on moderation that the driver does not report; `None` if no such moderation is known.
    fn unread_moderation(&self, moderation: &Moderation) -> Option<String> {
        let driver = self.known_driver();
        if let Some(timers) = driver.unreported_timers {
            return self.parameters.is_empty().then(|| timers.to_owned());
        }
        match driver.rx_usecs {
            Meaning::Rate if moderation.min_gap_s.is_some() => Some(
                "how the hypervisor limits the interrupt rate: min_gap is the mean time between two interrupts"
                    .to_owned(),
            ),
            Meaning::Rate if moderation.frames.is_some() => Some(
                "what else makes the hypervisor interrupt, such as an idle guest; it waits at most 4 ms".to_owned(),
            ),
            Meaning::Unread if moderation.is_on() => {
                let name = self.driver.as_deref().unwrap_or("this driver");
                Some(format!("{name}'s own reading of rx-usecs and rx-frames: they are taken as ethtool defines them"))
            }
            _ => None,
        }
    }

    /// Whether the device's packets go through a CPU's backlog: RPS steers some of its queues, or it is a veth without
    /// `rx-gro`, whose peer puts packets into the backlog.
    pub fn uses_backlog(&self) -> bool {
        let steered = self.rps_cpus.iter().any(|mask| mask.chars().any(|c| c.is_ascii_hexdigit() && c != '0'));
        let veth = self.kind.as_deref() == Some("veth") && self.feature("rx-gro") != Some(true);
        steered || veth
    }

    /// The device's NAPI instances that serve receive queues; all its instances if the driver does not report which of
    /// them do.
    fn receiving(&self) -> Vec<&Instance> {
        let receives =
            |napi: &&Instance| self.queues.iter().any(|queue| queue.receive && queue.napi_id == Some(napi.id));
        let known: Vec<&Instance> = self.napis.iter().filter(receives).collect();
        if known.is_empty() { self.napis.iter().collect() } else { known }
    }

    /// Value of a setting of the device's receiving NAPI instances; 0 if it is not reported.
    ///
    /// # Errors
    /// The instances differ. The error is a part of a sentence.
    fn of_instances(&self, key: NapiKey) -> Result<u32, String> {
        let mut own: Vec<u32> = self.receiving().iter().filter_map(|napi| napi.figure(key)).collect();
        own.sort_unstable();
        own.dedup();
        match own[..] {
            [] => Ok(key
                .file()
                .and_then(|file| self.napi_settings.get(file))
                .map_or(0, |value| u32::try_from(*value).unwrap_or(u32::MAX))),
            [one] => Ok(one),
            [first, .., last] => Err(format!("its NAPI instances differ in {}: {first} to {last}", key.name())),
        }
    }

    /// The device's NAPI scheme, given the kernel's settings for all devices ([`Inventory::napi`]).
    pub fn napi_scheme(&self, kernel: &Napi) -> AsNapi {
        if kernel.backlog {
            let beside = self.is_physical().then(|| {
                format!("what {} does before RPS hands its packets to the backlog, moderation included", self.name)
            });
            return AsNapi { napi: kernel.clone(), lacks: None, beside };
        }
        let mut lacks = Vec::new();
        let mut of_instances = |key| {
            self.of_instances(key).unwrap_or_else(|why| {
                lacks.push(why);
                0
            })
        };
        let seconds = |nanoseconds: u32| f64::from(nanoseconds) / NS_PER_S;
        let (threaded, deferred) = (of_instances(NapiKey::Threaded), of_instances(NapiKey::DeferHardIrqs));
        let gro_flush_timeout_s = seconds(of_instances(NapiKey::GroFlushTimeout));
        let irq_suspend_timeout_s = seconds(of_instances(NapiKey::IrqSuspendTimeout));
        if threaded > 1 {
            lacks.push("its NAPI threads never sleep (threaded 2), which no scheme has".to_owned());
        }
        let moderation = if self.is_physical() { self.napi_moderation() } else { Ok(Moderation::default()) };
        let moderation = moderation.unwrap_or_else(|why| {
            lacks.push(why);
            Moderation::default()
        });
        let napi = Napi {
            threaded: threaded == 1,
            // Without the timer nothing is deferred (napi_complete_done, net/core/dev.c).
            defer_hard_irqs: if gro_flush_timeout_s > 0.0 { deferred } else { 0 },
            gro_flush_timeout_s,
            irq_suspend_timeout_s,
            moderation,
            ..kernel.clone()
        };
        let lacks = (!lacks.is_empty()).then(|| lacks.join("; "));
        let beside = if self.is_physical() { self.beside_moderation() } else { None };
        AsNapi { napi, lacks, beside }
    }
}

impl Inventory {
    /// The kernel's NAPI settings for all devices: the settings of process_backlog if `backlog`, otherwise the settings
    /// of drivers, which poll NAPI_POLL_WEIGHT packets whatever net.core.dev_weight is. Defaults if the kernel does not
    /// show a sysctl.
    pub fn napi(&self, backlog: bool) -> Napi {
        let sysctl = |name: &str| self.sysctls.get(name).and_then(|text| text.parse::<u64>().ok());
        let default = Napi::default();
        let weight = sysctl("net.core.dev_weight").filter(|_| backlog);
        Napi {
            weight: weight.unwrap_or(default.weight),
            budget: sysctl("net.core.netdev_budget").unwrap_or(default.budget),
            budget_time_s: sysctl("net.core.netdev_budget_usecs")
                .map_or(default.budget_time_s, |us| us as f64 / US_PER_S),
            backlog,
            // Kernels from 5.4 on have this sysctl; they batch packets that drivers pass to napi_gro_receive.
            gro_normal_batch: sysctl("net.core.gro_normal_batch")
                .filter(|_| !backlog)
                .unwrap_or(default.gro_normal_batch),
            ksoftirqd: self.kernel.is_before(6, 5) && !self.kernel.is_before(4, 9),
            busy_poll: !backlog && sysctl("net.core.busy_read").is_some_and(|us| us > 0),
            ..default
        }
    }
}

#[cfg(test)]
mod tests;
