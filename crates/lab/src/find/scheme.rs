//! The scheme of what is under test, as its kernel and its device are set.

use netcliff_core::Scheme;
use netcliff_host::inventory::Inventory;
use netcliff_host::nic::Nic;
use netcliff_host::nic::moderation::Word;
use netcliff_host::nic::scheme::AsNapi;

use crate::rig::Between;

/// The scheme that process_backlog is, or else a device's NAPI, with this kernel's weight and budget.
pub fn of_kernel(inventory: &Inventory, backlog: bool) -> Scheme {
    Scheme::Napi(inventory.napi(backlog))
}

/// The scheme of reception by a device, its moderation included, and what is to be known of it, a sentence each. `frame_bytes`: of all frames, where they have
/// one length, to which a word of `rx-usecs` may come.
pub(super) fn of_device(
    inventory: &Inventory,
    device: &Nic,
    backlog: bool,
    frame_bytes: Option<u32>,
) -> (Scheme, Vec<String>) {
    let AsNapi { napi, lacks, beside } = under(device, frame_bytes).napi_scheme(&inventory.napi(backlog));
    let word = frame_bytes.filter(|_| !backlog).and_then(|bytes| word_of(device, bytes));
    let lacks = lacks.map(|why| format!("the scheme lacks a setting of {}: {why}", device.name));
    let beside = beside.map(|what| format!("the scheme of {} leaves out {what}", device.name));
    (Scheme::Napi(napi), word.into_iter().chain(lacks).chain(beside).collect())
}

/// Whether the scheme has all that the device does before it interrupts.
pub(super) fn has_known_moderation(between: &Between, frame_bytes: Option<u32>) -> bool {
    !between.is_backlog() && under(between.nic(), frame_bytes).napi_moderation().is_ok()
}

/// The device with the figure to which a word of `rx-usecs` comes under these frames.
pub(super) fn under(nic: &Nic, frame_bytes: Option<u32>) -> Nic {
    frame_bytes.map_or_else(|| nic.clone(), |bytes| nic.under(bytes))
}

/// What a word of `rx-usecs` comes to under frames of this length.
fn word_of(device: &Nic, frame_bytes: u32) -> Option<String> {
    let Word { word, usecs } = device.word_under(frame_bytes)?;
    let driver = device.driver.as_deref().unwrap_or("its driver");
    Some(format!(
        "rx-usecs {word} is {driver}'s word for a gap that it chooses: where all frames have {frame_bytes} bytes it comes to rx-usecs {usecs}, which the scheme has"
    ))
}
