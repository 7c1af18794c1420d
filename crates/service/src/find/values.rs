//! [`Found`]: values of the whole host before a check changed them.

use netcliff_core::finding::CheckedSetting;
use netcliff_host::setting::Setting;
use netcliff_host::testbed::sysctl::SysctlOverrides;

/// The value of each override before it was set. Values that cannot be read are omitted.
pub(super) struct Found(Vec<(&'static str, u32, String)>);

impl Found {
    pub(super) fn read(overrides: &SysctlOverrides) -> Self {
        let read = |(name, requested)| Some((name, requested, Setting::sysctl(name).read().ok()?));
        Self(overrides.entries().into_iter().filter_map(read).collect())
    }

    /// Returns each value with its requested value and the present value read back from the kernel.
    pub(super) fn changed(self) -> Vec<CheckedSetting> {
        let changed = |(name, requested, found): (&str, u32, String)| {
            let effective = Setting::sysctl(name).read().ok()?;
            Some(CheckedSetting { name: name.to_owned(), found, requested: requested.to_string(), effective })
        };
        self.0.into_iter().filter_map(changed).collect()
    }
}
