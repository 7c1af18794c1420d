//! Sets settings back to their old values.

use super::Undone;
use crate::setting::{self, Setting};
use nix::net::if_::if_indextoname;
use std::io;

/// Where a setting was changed: inode number of its network namespace, and index of its interface in it.
type Where = (Option<u64>, Option<u32>);

/// Undoes the change of a setting.
pub(super) fn undo_setting(setting: &Setting, (namespace, ifindex): Where, old: &str, new: &str) -> Undone {
    if is_elsewhere(setting, namespace)? {
        return Ok(Some(format!("{setting}: its network namespace is gone")));
    }
    let (setting, renamed) = by_its_name(setting, ifindex);
    let held = match set_back(&setting, old)? {
        SetBack::Gone => Some(format!("{setting} is not there any more")),
        SetBack::From(current) if !setting::same(&current, new) => {
            Some(format!("{setting} held {current}, not {new}, before it was set back"))
        }
        SetBack::From(_) | SetBack::WasSo => None,
    };
    let notes: Vec<String> = renamed.into_iter().chain(held).collect();
    Ok((!notes.is_empty()).then(|| notes.join("; ")))
}

/// The setting of the interface with this index, whatever its present name; and a note if the name changed.
fn by_its_name(setting: &Setting, ifindex: Option<u32>) -> (Setting, Option<String>) {
    // For an index without an interface nix 0.30 returns an empty name.
    let now = ifindex.and_then(|index| if_indextoname(index).ok()?.into_string().ok()).filter(|now| !now.is_empty());
    match (now, setting.interface()) {
        (Some(now), Some(then)) if now != then => {
            (setting.of_interface(&now), Some(format!("{then} is called {now} now")))
        }
        _ => (setting.clone(), None),
    }
}

/// Sets the settings that a device change altered back to their old values. A setting that no longer exists is skipped.
/// The note names the settings that were set.
pub(super) fn undo_at_risk(settings: &[(Setting, String)], (namespace, ifindex): Where) -> Undone {
    let (mut moved, mut failed) = (Vec::new(), Vec::new());
    for (setting, old) in settings {
        if is_elsewhere(setting, namespace)? {
            return Ok(None);
        }
        let (setting, _) = by_its_name(setting, ifindex);
        match set_back(&setting, old) {
            Ok(SetBack::From(_)) => moved.push(setting.to_string()),
            Ok(SetBack::Gone | SetBack::WasSo) => {}
            Err(error) => failed.push(format!("{setting}: {error}")),
        }
    }
    if failed.is_empty() {
        Ok((!moved.is_empty()).then(|| moved.join(", ")))
    } else {
        Err(io::Error::other(failed.join("; ")))
    }
}

/// Whether a setting's network namespace no longer exists; an error if it exists but is not the present one.
fn is_elsewhere(setting: &Setting, namespace: Option<u64>) -> io::Result<bool> {
    match namespace.filter(|number| setting::namespace() != Some(*number)) {
        None => Ok(false),
        Some(number) => match setting::namespace_keeper(number) {
            Some(keeper) => {
                let there = keeper.inside("netcliff tune undo");
                let reason =
                    format!("{setting} is of another network namespace (net:[{number}]); `{there}` sets it back");
                Err(io::Error::other(reason))
            }
            None => Ok(true),
        },
    }
}

enum SetBack {
    /// The file or the interface does not exist.
    Gone,
    /// The setting already had the value.
    WasSo,
    /// The setting had this other value.
    From(String),
}

fn set_back(setting: &Setting, old: &str) -> io::Result<SetBack> {
    let current = match setting.read() {
        Err(error) if is_gone(&error) => return Ok(SetBack::Gone),
        other => other?,
    };
    if setting::same(&current, old) {
        return Ok(SetBack::WasSo);
    }
    setting.write(old)?;
    let after = setting.read()?;
    if !setting::same(&after, old) {
        return Err(io::Error::other(format!("{setting} was set back to {old} and holds {after}")));
    }
    Ok(SetBack::From(current))
}

/// Whether the error means that the file or the interface does not exist.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || error.raw_os_error() == Some(libc::ENODEV)
        || error.to_string().contains("No such device")
}
