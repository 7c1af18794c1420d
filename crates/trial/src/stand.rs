//! Conditions that must not change while a measurement runs: the devices and addresses on its data's path, and the CPUs
//! of its threads. A change is reported and makes the result partial, because the measurement no longer has the
//! requested conditions.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use netcliff_host::ground::{self, Cpus, Ground, Scope};
use netcliff_host::nic::path::{is_own, source_towards, with_address};
use netcliff_packets::thread::{self, in_netns};

/// A network namespace, and the devices and addresses that are watched in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Path of the namespace; `None`: this process's.
    pub netns: Option<PathBuf>,
    /// Devices and addresses that are watched.
    pub scope: Scope,
}

impl Place {
    /// Makes a place that watches all devices of a testbed's namespace that are up, and their addresses.
    pub fn whole(netns: PathBuf) -> Self {
        Self { netns: Some(netns), scope: Scope::default() }
    }

    /// Watches the named devices of a namespace.
    pub fn devices(netns: Option<PathBuf>, names: impl IntoIterator<Item = String>) -> Self {
        let interfaces = Some(names.into_iter().collect());
        Self { netns, scope: Scope { interfaces, addresses: Some(Vec::new()) } }
    }

    /// Watches the devices and addresses of this host on the path to an address.
    pub fn towards(address: IpAddr) -> Self {
        let source = source_towards(address);
        let interfaces = if is_own(address) {
            vec!["lo".to_owned()]
        } else {
            let nics = source.as_ref().ok().and_then(|source| with_address(*source, Path::new("/sys")).ok());
            nics.unwrap_or_default().into_iter().map(|nic| nic.name).collect()
        };
        let addresses = source.ok().into_iter().chain(is_own(address).then_some(address)).collect();
        Self { netns: None, scope: Scope { interfaces: Some(interfaces), addresses: Some(addresses) } }
    }

    fn watch(&self) -> Option<Ground> {
        let scope = self.scope.clone();
        // A socket stays in the namespace in which it was created.
        let watch = || Ground::watch(scope).map_err(|error| tracing::debug!(%error, "devices are not watched")).ok();
        in_netns(self.netns.as_deref(), watch).ok().flatten()
    }
}

/// Watches devices, addresses and CPUs for changes, from its creation on.
#[derive(Debug)]
pub struct Stand {
    places: Vec<Ground>,
    cpus: Cpus,
}

impl Stand {
    /// Watches these namespaces, each once, and all CPUs of this host.
    pub fn on(places: &[Place]) -> Self {
        Self::on_host(places, Path::new("/"))
    }

    /// Watches a host whose procfs and sysfs are below `root`.
    fn on_host(places: &[Place], root: &Path) -> Self {
        let mut different: Vec<&Place> = Vec::new();
        for place in places {
            if !different.contains(&place) {
                different.push(place);
            }
        }
        // Discards earlier reports of moved threads: they belong to another measurement.
        thread::astray();
        Self { places: different.into_iter().filter_map(Place::watch).collect(), cpus: Cpus::watch(root) }
    }

    /// A sentence that describes the changes since the last call; `None` if nothing changed. To be called after the
    /// measuring threads have ended.
    pub fn changed(&mut self) -> Option<String> {
        let mut said: Vec<String> = self.places.iter_mut().flat_map(Ground::changes).collect();
        said.extend(self.cpus.changes());
        said.extend(thread::astray());
        ground::sentence(said).map(|changes| format!("the host changed during the measurement: {changes}"))
    }
}

/// Combines the changes here and at the far end into one sentence; `None` if nothing changed.
pub fn both(here: Option<String>, far: Option<String>) -> Option<String> {
    match (here, far) {
        (Some(here), Some(far)) => Some(format!("{here}; {far}")),
        (here, far) => here.or(far),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_that_is_offline_in_the_end_is_named() {
        let dir = tempfile::tempdir().expect("room");
        let file = dir.path().join("sys/devices/system/cpu/online");
        std::fs::create_dir_all(file.parent().expect("below the root")).expect("room");
        std::fs::write(&file, "0-3\n").expect("room");
        let mut stand = Stand::on_host(&[], dir.path());
        assert_eq!(stand.changed(), None);
        std::fs::write(&file, "0,2-3\n").expect("room");
        let told = stand.changed().expect("one has gone");
        assert!(told.contains("CPU 1 was taken offline") && !told.contains("CPU 2"), "{told}");
        assert_eq!(stand.changed(), None, "it is told once");
    }

    #[test]
    fn loopback_is_watched_for_own_addresses() {
        let place = Place::towards([127, 0, 0, 1].into());
        assert_eq!(place.scope.interfaces.as_deref(), Some(&["lo".to_owned()][..]));
        let mut stand = Stand::on(&[place.clone(), place]);
        assert_eq!(stand.places.len(), 1);
        assert_eq!(stand.changed(), None);
    }
}
