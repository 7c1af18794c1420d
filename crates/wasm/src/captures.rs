//! Captures that the user dropped onto the page, stored by name, so that questions can refer to them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use netcliff_core::FrameSizes;
use netcliff_core::capture::{Capture, USUAL_MTU, reading};
use serde::Serialize;

thread_local! {
    static KEPT: RefCell<HashMap<String, Arc<Capture>>> = RefCell::default();
}

/// Summary of a capture.
#[derive(Debug, Serialize)]
pub struct Taken {
    /// Number of packets.
    packets: usize,
    /// Packet rate as recorded (pps).
    rate_pps: f64,
    /// Mean frame size, FCS included (bytes).
    mean_bytes: f64,
    /// Number of pairs of source and destination.
    flows: usize,
    /// Notes on parts of the file that were ignored or counted differently.
    notes: Vec<String>,
}

/// Reads a capture and stores it under `name`.
///
/// # Errors
/// See [`reading::read`].
pub fn take(name: &str, bytes: &[u8]) -> Result<Taken, String> {
    let capture = reading::read(name, bytes, USUAL_MTU).map_err(|why| format!("{name}: {why}"))?;
    let taken = Taken {
        packets: capture.packets.len(),
        rate_pps: capture.rate_pps(),
        mean_bytes: FrameSizes::Mixture(capture.sizes()).mean_bytes().unwrap_or_default(),
        flows: capture.flows.len(),
        notes: capture.notes.clone(),
    };
    KEPT.with_borrow_mut(|kept| kept.insert(name.to_owned(), Arc::new(capture)));
    Ok(taken)
}

/// Returns the capture of a dropped file with this name; `None` if no such file was dropped.
pub fn kept(file: &str) -> Option<Arc<Capture>> {
    KEPT.with_borrow(|kept| kept.get(file).cloned())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A capture of two frames of 60 bytes, 10 us apart: pcap, microseconds, Ethernet.
    pub(crate) fn capture() -> Vec<u8> {
        let mut bytes = Vec::new();
        for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1] {
            bytes.extend(word.to_le_bytes());
        }
        for microseconds in [5_u32, 15] {
            for word in [1, microseconds, 60, 60] {
                bytes.extend(word.to_le_bytes());
            }
            bytes.extend([0; 60]);
        }
        bytes
    }

    #[test]
    fn a_capture_says_what_it_holds() {
        let taken = take("two.pcap", &capture()).unwrap();
        assert_eq!((taken.packets, taken.mean_bytes, taken.flows), (2, 64.0, 0));
        assert!((taken.rate_pps - 1e5).abs() < 1e-6, "{}", taken.rate_pps);
    }

    #[test]
    fn what_is_no_capture_is_refused_with_its_name() {
        let refused = take("x.pcap", b"no capture at all, but text").unwrap_err();
        assert!(refused.starts_with("x.pcap: is neither pcap nor pcapng"), "{refused}");
        let mut cut = capture();
        cut.truncate(cut.len() - 7);
        let refused = take("cut.pcap", &cut).unwrap_err();
        assert!(refused.contains("1 packet over no time (the file ends"), "{refused}");
    }
}
