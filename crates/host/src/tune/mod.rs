//! Settings that serve an objective: which values ([`plan()`]), which CPUs for queues ([`affinity`]) and their packets
//! ([`work`]), applying them with undo ([`apply`]) or permanently ([`permanent`]); settings of a device by name
//! ([`device`], [`named`]); a device that alternates between interrupts and polling ([`adapt`]).

pub mod adapt;
pub mod affinity;
pub mod apply;
pub mod device;
pub mod named;
pub mod permanent;
pub mod plan;
pub mod work;

pub use plan::{Plan, PlanError, Step, Wish, plan};

mod at_risk {
    //! Settings that a device loses when its queues are recreated by a change of channels or rings: the driver resets
    //! the RSS table and the interrupts' CPUs, and new queues have default RPS, XPS and NAPI settings.

    use crate::{
        inspect::interrupts,
        nic::{self, Nic, netdev::NapiKey},
        setting::{Group, Setting, rss_table},
    };
    use netcliff_core::experiment::Coalesce;
    use std::{collections::BTreeMap, io, path::Path};

    /// Settings of an interface's queues with their present values; those that the driver does not report are omitted.
    ///
    /// # Errors
    /// There is no such interface in the thread's namespace, or interrupts cannot be read.
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
        for (place, napi) in nic.napis.iter().enumerate() {
            let values = NapiKey::ALL.into_iter().filter_map(|key| Some((key, napi.figure(key)?)));
            found.extend(
                values.map(|(key, value)| (Setting::Napi { interface: owned(), place, key }, value.to_string())),
            );
        }
        found.extend(of_each_queue(&nic));
        Ok(found)
    }

    /// Values of coalescing that the driver may change while `adaptive-rx` or `adaptive-tx` is on, and does not
    /// restore.
    ///
    /// # Errors
    /// There is no such interface in the thread's namespace.
    pub(super) fn coalescing(interface: &str) -> io::Result<Vec<(Setting, String)>> {
        let of = |key: &str| Setting::Ethtool {
            interface: interface.to_owned(),
            group: Group::Coalesce,
            key: key.to_owned(),
        };
        let nic = nic::read(interface, Path::new("/sys"))?;
        let figures = own_coalescing(&nic.coalesce).into_iter();
        Ok(figures.map(|(name, value)| (of(name), value.to_string())).chain(of_each_queue(&nic)).collect())
    }

    /// Values of single queues: a value set for the device overwrites them.
    fn of_each_queue(nic: &Nic) -> Vec<(Setting, String)> {
        let of =
            |queue: u32, key: &str| Setting::QueueCoalesce { interface: nic.name.clone(), queue, key: key.to_owned() };
        let figures = |(queue, figures): (u32, _)| {
            let own = own_coalescing(figures).into_iter();
            own.map(|(name, value)| (of(queue, name), value.to_string())).collect::<Vec<_>>()
        };
        (0..).zip(&nic.queue_coalesce).flat_map(figures).collect()
    }

    /// Values of coalescing that the driver does not adapt to the load.
    pub(super) fn own_coalescing(figures: &BTreeMap<String, u32>) -> Vec<(&'static str, u32)> {
        let is_off = |switch: Coalesce| figures.get(switch.kernel_name()).is_none_or(|on| *on == 0);
        let own = Coalesce::DIRECTIONS.into_iter().filter(|[switch, ..]| is_off(*switch));
        let names = own.flat_map(|[_, time, frames]| [time, frames]).map(Coalesce::kernel_name);
        names.filter_map(|name| Some((name, *figures.get(name)?))).collect()
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        /// Values that a switch may have changed are recorded; values that the driver chose before are not.
        #[test]
        fn figures_that_a_driver_may_move_are_known() {
            let own = |figures: &[(&str, u32)]| {
                own_coalescing(&figures.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect())
            };
            let all =
                [("adaptive-rx", 0), ("adaptive-tx", 1), ("rx-usecs", 8), ("tx-usecs", 9), ("rx-usecs-high", 100)];
            assert_eq!(own(&all), [("rx-usecs", 8)]);
            assert_eq!(own(&[("rx-usecs", 8), ("tx-frames", 2)]), [("rx-usecs", 8), ("tx-frames", 2)], "no switches");
            assert_eq!(own(&[]), []);
        }

        #[test]
        fn figures_of_single_queues_are_at_risk_with_those_of_the_device() {
            let queue = |usecs| BTreeMap::from([("adaptive-rx".to_owned(), 0), ("rx-usecs".to_owned(), usecs)]);
            let nic = Nic { name: "eth0".into(), queue_coalesce: vec![queue(8), queue(50)], ..Nic::default() };
            let of = |queue| Setting::QueueCoalesce { interface: "eth0".into(), queue, key: "rx-usecs".into() };
            assert_eq!(of_each_queue(&nic), [(of(0), "8".to_owned()), (of(1), "50".to_owned())]);
        }
    }
}
