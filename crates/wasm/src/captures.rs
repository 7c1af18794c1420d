//! Captures that were dropped onto the page. Each engine keeps them by name: what a question names, it finds here.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use netcliff_core::capture::{Capture, USUAL_MTU, reading};
use netcliff_core::{Arrivals, FrameSizes};
use serde::Serialize;

use crate::question::Refused;

thread_local! {
    static KEPT: RefCell<HashMap<String, Arc<Capture>>> = RefCell::default();
}

/// What a capture holds.
#[derive(Debug, Serialize)]
pub struct Taken {
    /// Packets.
    packets: usize,
    /// As recorded (pps).
    rate_pps: f64,
    /// Mean frame, FCS included (bytes).
    mean_bytes: f64,
    /// Pairs of source and destination.
    flows: usize,
    /// What of the file was left out or counted otherwise.
    notes: Vec<String>,
}

/// Reads a capture and keeps it.
///
/// # Errors
/// See [`reading::read`].
pub fn take(name: &str, bytes: &[u8]) -> Result<Taken, Refused> {
    let capture = reading::read(name, bytes, USUAL_MTU).map_err(|why| Refused::of("file", format!("{name}: {why}")))?;
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

/// The arrivals with their capture, where they name one.
///
/// # Errors
/// It was not dropped.
pub fn arrivals(asked: Arrivals) -> Result<Arrivals, Refused> {
    if let Arrivals::Trace { file, speed: Some(_), .. } = &asked {
        let why = format!("arrivals = trace:{file}: has a speed and an offered load; leave out the speed");
        return Err(Refused::of("arrivals", why));
    }
    asked.with_capture(|file| kept("arrivals", file))
}

/// The frame sizes with their capture, where they are those of the arrivals or name one.
///
/// # Errors
/// There is none, or it was not dropped.
pub fn sizes(asked: FrameSizes, arrivals: &Arrivals) -> Result<FrameSizes, Refused> {
    let lacking = || Refused::of("size", "size = trace: frame sizes `trace` need arrivals from a capture, trace:FILE");
    match asked.with_capture_of(arrivals).ok_or_else(lacking)? {
        FrameSizes::File(file) => Ok(FrameSizes::from(&*kept("size", &file)?)),
        other => Ok(other),
    }
}

fn kept(part: &str, file: &str) -> Result<Arc<Capture>, Refused> {
    KEPT.with_borrow(|kept| kept.get(file).cloned()).ok_or_else(|| {
        Refused::of(
            part,
            format!("{part} names the file {file}, which the page does not have: drop the capture onto it"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two frames of 60 bytes, 10 us apart: pcap, microseconds, Ethernet.
    fn capture() -> Vec<u8> {
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
    fn a_capture_is_known_by_its_name_once_it_was_dropped() {
        let asked = || "trace:a, b.pcap".parse::<Arrivals>().unwrap();
        let refused = arrivals(asked()).unwrap_err();
        assert_eq!((refused.part.as_str(), refused.text.contains("a, b.pcap")), ("arrivals", true), "{}", refused.text);
        let taken = take("a, b.pcap", &capture()).unwrap();
        assert_eq!((taken.packets, taken.mean_bytes, taken.flows), (2, 64.0, 0));
        assert!((taken.rate_pps - 1e5).abs() < 1e-6, "{}", taken.rate_pps);
        let with = arrivals(asked()).unwrap();
        assert!(matches!(sizes(FrameSizes::Trace(None), &with).unwrap(), FrameSizes::Trace(Some(_))));
        assert!(matches!(sizes(FrameSizes::File("a, b.pcap".into()), &Arrivals::Poisson), Ok(FrameSizes::Captured(_))));
        assert!(sizes(FrameSizes::Trace(None), &Arrivals::Poisson).is_err());
        assert!(arrivals("trace:a, b.pcap,speed=2".parse().unwrap()).is_err());
    }

    #[test]
    fn what_is_no_capture_is_refused_with_its_name() {
        let refused = take("x.pcap", b"no capture at all, but text").unwrap_err();
        assert!(refused.text.starts_with("x.pcap: is neither pcap nor pcapng"), "{}", refused.text);
        let mut cut = capture();
        cut.truncate(cut.len() - 7);
        let refused = take("cut.pcap", &cut).unwrap_err();
        assert!(refused.text.contains("1 packet over no time (the file ends"), "{}", refused.text);
    }
}
