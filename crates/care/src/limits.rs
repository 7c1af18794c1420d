//! `netcliff limits`: the roofline of a host at the requested frame sizes, without and with offloads.

mod highest;
mod this_host;

use netcliff_core::experiment::{Axes, Axis, Curve, Dot, Scale};
use netcliff_core::roofline::{RoofRow, Roofline};
use netcliff_core::{Dimension, Offload};
use netcliff_model::limits::{Part, Roof};

pub use highest::Interrupts;
pub use netcliff_model::limits::System;
pub use this_host::{Described, describe, measured_cliff};

/// Frame sizes of RFC 2544, section 9.1, and a jumbo frame (bytes with FCS).
pub const USUAL_SIZES_BYTES: [u32; 8] = [64, 128, 256, 512, 1024, 1280, 1518, 9018];
/// Number of points of a curve per factor of ten in frame size.
const POINTS_A_DECADE: f64 = 40.0;

/// Computes the roofline at `sizes_bytes`: first without offloads, then with `offloads` if there are any. `interrupts`
/// is the model's number of frames per interrupt, for systems in which it was not measured; the system's own number is
/// then a minimum.
pub fn roofline(
    system: &System,
    sizes_bytes: &[u32],
    offloads: &[Offload],
    interrupts: Option<&Interrupts>,
) -> Roofline {
    let sets: Vec<&[Offload]> = if offloads.is_empty() { vec![&[]] } else { vec![&[], offloads] };
    let rows = sets
        .iter()
        .flat_map(|offloads| sizes_bytes.iter().map(|bytes| row(system, f64::from(*bytes), offloads, interrupts)))
        .collect();
    Roofline {
        link_bps: system.link_bps,
        bus: system.bus,
        memory_bytes_per_s: system.memory.map(|memory| memory.bytes_per_s),
        copies: system.memory.map_or(1, |memory| memory.copies),
        host: system.cpu.clone(),
        cpus: system.cpus,
        frames_per_interrupt: system.frames_per_interrupt,
        highest_by: interrupts.map(|interrupts| interrupts.scheme.clone()),
        rows,
        unknown: unknown(system),
    }
}

fn row(system: &System, asked_bytes: f64, offloads: &[Offload], interrupts: Option<&Interrupts>) -> RoofRow {
    let roof = system.roof(asked_bytes, offloads);
    let pps = roof.lowest().map(|bound| bound.pps);
    RoofRow {
        asked_bytes,
        frame_bytes: roof.frame_bytes,
        offloads: offloads.to_vec(),
        bounds_pps: roof.bounds.iter().map(|bound| (bound.part.name().to_owned(), bound.pps)).collect(),
        pps,
        bps: pps.map(|pps| roof.bps(pps)),
        binding: roof.binding().map(|part| part.name().to_owned()),
        highest: interrupts.map(|interrupts| interrupts.highest(system, asked_bytes, offloads)),
    }
}

fn unknown(system: &System) -> Vec<String> {
    let missing = [
        (system.link_bps.is_none(), "the link's speed: give --link, such as 10Gbit/s"),
        (system.bus == netcliff_core::Bus::None, "the bus: give --bus, such as pcie-3x8 (a veth pair has no bus)"),
        (system.memory.is_none(), "memory bandwidth: give --memory, such as 10GB/s"),
        (
            system.cpu.is_none(),
            "the CPU's costs: give --host PRESET|FILE.toml (netcliff find --json has those of this host)",
        ),
    ];
    missing.into_iter().filter(|(absent, _)| *absent).map(|(_, what)| what.to_owned()).collect()
}

/// Computes the curves over frame size (bit/s): each part's bound without offloads, the lowest of these bounds, and the
/// lowest bound with `offloads`. With `interrupts`, each lowest bound comes twice: for one interrupt per frame, and for
/// the model's number of frames per interrupt.
pub fn curves(
    system: &System,
    sizes_bytes: &[u32],
    offloads: &[Offload],
    interrupts: Option<&Interrupts>,
) -> (Axes, Vec<Curve>) {
    let low = f64::from(sizes_bytes.iter().copied().min().unwrap_or(64));
    let high = f64::from(sizes_bytes.iter().copied().max().unwrap_or(1518)).max(low * 1.5);
    let steps = (POINTS_A_DECADE * (high / low).log10()).ceil().max(1.0);
    let places: Vec<f64> =
        (0..=steps as u32).map(|n| (low * (high / low).powf(f64::from(n) / steps)).round()).collect();
    let curve = |name: String, roof: &dyn Fn(f64) -> Roof, pick: &dyn Fn(&Roof) -> Option<f64>| Curve {
        name,
        answerer: None,
        dots: places
            .iter()
            .filter_map(|bytes| {
                let roof = roof(*bytes);
                Some(Dot { x: *bytes, y: roof.bps(pick(&roof)?).into() })
            })
            .collect(),
    };
    let lowest = |roof: &Roof| roof.lowest().map(|bound| bound.pps);
    let bare = |bytes: f64| system.roof(bytes, &[]);
    let shown = Part::ALL.into_iter().map(|part| curve(part.name().to_owned(), &bare, &move |roof| roof.of(part)));
    let mut curves: Vec<Curve> = shown.collect();
    let mut add_lowest = |with: &str, offloads: &[Offload]| match interrupts {
        None => curves.push(curve(format!("lowest{with}"), &|bytes| system.roof(bytes, offloads), &lowest)),
        Some(interrupts) => {
            let single = format!("lowest{with}, interrupt a frame");
            curves.push(curve(single, &|bytes| system.roof(bytes, offloads), &lowest));
            let shared = |bytes: f64| interrupts.applied(system, bytes).roof(bytes, offloads);
            curves.push(curve(format!("lowest{with}, model's interrupts"), &shared, &lowest));
        }
    };
    add_lowest("", &[]);
    if !offloads.is_empty() {
        let names: Vec<&str> = offloads.iter().map(|offload| offload.name()).collect();
        add_lowest(&format!(" with {}", names.join(", ")), offloads);
    }
    curves.retain(|curve| !curve.dots.is_empty());
    let axis = |name: &str, dimension| Axis { name: name.to_owned(), dimension, scale: Scale::Log, range: None };
    (Axes { x: axis("frame size", Dimension::Bytes), y: axis("upper bound of frame bits", Dimension::Bps) }, curves)
}

#[cfg(test)]
mod tests {
    use netcliff_core::parts::Memory;
    use netcliff_core::{Bus, Host};

    use super::*;

    fn system() -> System {
        System {
            link_bps: Some(10e9),
            bus: Bus::pcie(3, 8).unwrap(),
            memory: Some(Memory { bytes_per_s: 10e9, copies: 1 }),
            cpu: Some(Host::pentium4_2530mhz()),
            cpus: 1,
            frames_per_interrupt: 1.0,
        }
    }

    #[test]
    fn rows_without_and_with_offloads() {
        let found = roofline(&system(), &[64, 1518], &[Offload::Jumbo, Offload::Gro], None);
        assert_eq!(found.rows.len(), 4);
        assert!(found.unknown.is_empty());
        assert_eq!((found.rows[1].frame_bytes, found.rows[3].frame_bytes), (1518.0, 9018.0));
        assert_eq!(found.parts(), ["link", "bus", "memory", "interrupts", "packet CPU", "byte CPU", "CPU"]);
        for row in &found.rows {
            let lowest = row.bounds_pps.values().copied().fold(f64::INFINITY, f64::min);
            assert_eq!(row.pps, Some(lowest));
        }
        assert!(found.rows[3].bps > found.rows[1].bps, "offloads carry more");
        let text = serde_json::to_string(&found).unwrap();
        let back: Roofline = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&back).unwrap(), text);
    }

    #[test]
    fn curves_meet_the_rows() {
        let system = system();
        let (_, curves) = curves(&system, &[64, 1518], &[], None);
        assert_eq!(curves.len(), 8);
        let lowest = curves.last().unwrap();
        let roof = system.roof(64.0, &[]);
        assert_eq!(lowest.dots[0].y.value, roof.bps(roof.lowest().unwrap().pps));
        assert_eq!(lowest.dots.last().unwrap().x, 1518.0);
    }

    #[test]
    fn unknown_interrupts_make_every_row_a_range() {
        let system = System { cpu: Some(Host { ring: 64, ..Host::pentium4_2530mhz() }), ..system() };
        let interrupts = Interrupts::of(system.cpu.as_ref().unwrap(), &[64, 1518]);
        let found = roofline(&system, &[64, 1518], &[Offload::Jumbo], Some(&interrupts));
        assert_eq!(found.highest_by, Some(interrupts.scheme.clone()));
        for row in &found.rows {
            let highest = row.highest.as_ref().expect("a range");
            assert!(highest.pps > row.pps && highest.bps > row.bps, "{row:?}");
        }
        let (_, curves) = curves(&system, &[64, 1518], &[], Some(&interrupts));
        let names: Vec<&str> = curves.iter().map(|curve| curve.name.as_str()).collect();
        assert_eq!(names[7..], ["lowest, interrupt a frame", "lowest, model's interrupts"]);
        for (single, shared) in curves[7].dots.iter().zip(&curves[8].dots) {
            assert!(shared.y.value > single.y.value, "{single:?} {shared:?}");
        }
        assert_eq!(Some(curves[8].dots[0].y.value), found.rows[0].highest.as_ref().unwrap().bps);
    }

    #[test]
    fn what_is_not_known_is_said() {
        let nothing =
            System { link_bps: None, bus: Bus::None, memory: None, cpu: None, cpus: 1, frames_per_interrupt: 1.0 };
        let found = roofline(&nothing, &[64], &[], None);
        assert_eq!(found.unknown.len(), 4);
        assert_eq!((found.rows[0].pps, &found.rows[0].binding), (None, &None));
        assert!(curves(&nothing, &[64], &[], None).1.is_empty());
    }
}
