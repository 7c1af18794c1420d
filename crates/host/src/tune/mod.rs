//! Settings that serve an objective: what to set ([`plan()`]), where queues belong ([`affinity`]) and where their packets are worked on ([`work`]), setting it with undo
//! ([`apply`]) or for good ([`permanent`]); settings of a device by name ([`device`]).

pub mod affinity;
pub mod apply;
pub mod device;
pub mod permanent;
pub mod plan;
pub mod work;

pub use plan::{Plan, PlanError, Step, Wish, plan};

mod at_risk {
    //! What a device's settings lose when its queues are made anew, as a change of channels or rings does: the driver deals the RSS
    //! table and places interrupts as it likes, and queues that come new know nothing of RPS, XPS or their NAPI instance's settings.

    use crate::{
        device::DeviceState,
        inspect::interrupts,
        nic::{self, netdev::NapiKey},
        setting::{Group, Setting, rss_table},
    };
    use std::{io, path::Path};

    /// Settings of an interface's queues, each with the value in force; what the driver does not report is left out.
    ///
    /// # Errors
    /// When there is no such interface in the thread's namespace, or interrupts cannot be read.
    pub(super) fn of(interface: &str) -> io::Result<Vec<(Setting, String)>> {
        let nic = nic::read(interface, Path::new("/sys"))?;
        let owned = || interface.to_owned();
        let queue = |name: String| Setting::file(format!("/sys/class/net/{interface}/queues/{name}"));
        let mut found = Vec::new();
        found.extend(rss_table(&nic).map(|table| (Setting::RssTable { interface: owned() }, table)));
        let irqs = interrupts::affinities(interface)?.into_iter();
        found.extend(irqs.map(|(name, cpus)| (Setting::Interrupt { interface: owned(), name }, cpus)));
        for (number, cpus) in nic.rps_cpus.iter().enumerate() {
            found.push((queue(format!("rx-{number}/rps_cpus")), cpus.clone()));
        }
        for (number, flows) in nic.rps_flow_counts.iter().enumerate() {
            found.push((queue(format!("rx-{number}/rps_flow_cnt")), flows.to_string()));
        }
        for (number, cpus) in nic.xps_cpus.iter().enumerate().filter(|(_, cpus)| !cpus.is_empty()) {
            found.push((queue(format!("tx-{number}/xps_cpus")), cpus.clone()));
        }
        let keys = [NapiKey::DeferHardIrqs, NapiKey::GroFlushTimeout, NapiKey::IrqSuspendTimeout, NapiKey::Threaded];
        for (place, napi) in nic.napis.iter().enumerate() {
            let told = keys.iter().filter_map(|key| Some((*key, napi.figure(*key)?)));
            found
                .extend(told.map(|(key, value)| (Setting::Napi { interface: owned(), place, key }, value.to_string())));
        }
        Ok(found)
    }

    /// Figures of coalescing that the driver may choose by itself while `adaptive-rx` or `adaptive-tx` is on, and leave changed.
    ///
    /// # Errors
    /// When there is no such interface in the thread's namespace.
    pub(super) fn coalescing(interface: &str) -> io::Result<Vec<(Setting, String)>> {
        let of = |key: &str| Setting::Ethtool {
            interface: interface.to_owned(),
            group: Group::Coalesce,
            key: key.to_owned(),
        };
        let figures = DeviceState::of(&nic::read(interface, Path::new("/sys"))?).own_coalescing();
        Ok(figures.into_iter().map(|(name, value)| (of(name), value.to_string())).collect())
    }
}
