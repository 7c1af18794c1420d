//! Parameters that this process gave a driver's module: e1000 and e1000e report theirs nowhere.

use std::collections::BTreeMap;
use std::sync::OnceLock;

static GIVEN: OnceLock<(String, String)> = OnceLock::new();

/// Remembers the parameters, as modprobe takes them, of a module that was loaded; the first only.
pub fn given(module: &str, parameters: &str) {
    let _ = GIVEN.set((module.to_owned(), parameters.to_owned()));
}

/// Those of a driver that are numbers; of several values the first, which is for the first device.
pub(super) fn of(driver: &str) -> BTreeMap<String, u32> {
    match GIVEN.get() {
        Some((module, parameters)) if module == driver => read(parameters),
        _ => BTreeMap::new(),
    }
}

fn read(parameters: &str) -> BTreeMap<String, u32> {
    let one = |item: &str| {
        let (name, value) = item.split_once('=')?;
        Some((name.to_owned(), value.parse().ok()?))
    };
    // modprobe takes blanks between parameters, and commas between values of one.
    parameters.split([' ', ',']).filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_as_modprobe_takes_them() {
        let read = read("RxIntDelay=32 RxAbsIntDelay=128,64 debug=y");
        assert_eq!(
            read.into_iter().collect::<Vec<_>>(),
            [("RxAbsIntDelay".to_owned(), 128), ("RxIntDelay".to_owned(), 32)]
        );
    }
}
