//! [`describe`]: the parts of a host, from its inventory and its calibration.

use std::collections::BTreeSet;

use netcliff_core::finding::without_confidence;
use netcliff_core::parts::Memory;
use netcliff_core::{Bus, Figure, Scheme, units};
use netcliff_host::inspect::{Direction, Inspection, Port};

use super::System;
use netcliff_lab::costs::Found;

/// The known parts of a host, with the origin of each.
#[derive(Debug, Clone, PartialEq)]
pub struct Described {
    /// The system for the roofline; unknown parts are `None`.
    pub system: System,
    /// Each part with its origin, a sentence each.
    pub origins: Vec<(String, String)>,
    /// Whether the number of frames per interrupt was given or measured; if not, it is assumed to be 1.
    pub interrupts_known: bool,
    /// The scheme of the interface with its moderation. `None` without an interface, or if no scheme describes its
    /// settings.
    pub scheme: Option<Scheme>,
}

/// Describes the parts of an inspected host: link and PCI slot of an interface (by default the first hardware interface
/// that is up), the CPUs that handle its receive interrupts, the measured memory bandwidth (byte/s), and the CPU costs
/// from a `find`, with the number of packets per interrupt that was measured near its cliff.
///
/// # Errors
/// A sentence: the interface does not exist, or its slot does not report values of PCI Express.
pub fn describe(
    inspection: &Inspection,
    interface: Option<&str>,
    memory_bytes_per_s: Option<f64>,
    found: Option<&Found>,
) -> Result<Described, String> {
    let port = match interface {
        Some(name) => {
            Some(inspection.port(name).ok_or_else(|| format!("there is no interface {name:?}; `ip link` lists them"))?)
        }
        None => inspection.main_ports().into_iter().next(),
    };
    let mut origins = Vec::new();
    let mut say = |part: &str, origin: String| origins.push((part.to_owned(), origin));
    let link_bps = port.and_then(Port::link_bps);
    if let (Some(port), Some(bps)) = (port, link_bps) {
        say("link", format!("{}, as {} has negotiated", units::print_bps(bps), port.nic.name));
    }
    let slot = port.and_then(|port| port.nic.pcie.map(|slot| (port, slot)));
    let bus = match slot {
        Some((port, slot)) => {
            say("bus", format!("PCIe generation {} x{}, the slot of {}", slot.generation, slot.lanes, port.nic.name));
            Bus::pcie(slot.generation, slot.lanes).map_err(|error| error.to_string())?
        }
        None => Bus::None,
    };
    if let Some(rate) = memory_bytes_per_s {
        let rate = units::print_byte_rate(units::three_digits(rate));
        say("memory", format!("{rate}, a copy by one CPU just now (more CPUs may move more)"));
    }
    let cpus = port.map_or(1, takers);
    if let Some(Found { name, calibration, .. }) = found {
        let of = if cpus == 1 { "1 CPU".to_owned() } else { format!("{cpus} CPUs that take its interrupts") };
        say("CPU", format!("costs of {name} ({}), {of}", calibration.cpu_method));
    }
    let works = port.filter(|port| port.nic.is_physical());
    let works = works.map(|port| port.nic.napi_scheme(&inspection.host.napi(port.nic.uses_backlog())));
    let scheme = works.filter(|works| works.lacks.is_none()).map(|works| Scheme::Napi(works.napi));
    origins.extend(found.and_then(measured_cliff));
    let system = System {
        link_bps,
        bus,
        memory: memory_bytes_per_s.map(|bytes_per_s| Memory { bytes_per_s, copies: 1 }),
        cpu: found.map(|found| found.calibration.host.clone()),
        cpus,
        frames_per_interrupt: found.and_then(Found::packets_per_interrupt).unwrap_or(1.0),
    };
    let interrupts_known = found.is_some_and(|found| found.packets_per_interrupt.is_some());
    Ok(Described { system, origins, interrupts_known, scheme })
}

/// The measured cliff of a `find`, as a fact in addition to the bounds.
pub fn measured_cliff(found: &Found) -> Option<(String, String)> {
    let searches = found.finding.searches.as_ref().map_or(0, |searches| searches.own.searches.len());
    Some(("measured cliff".to_owned(), measured(found.cliff_pps?, found.frame_bytes, searches)))
}

/// Formats a cliff with its interval, to three digits, and the number of searches if there were few.
fn measured(cliff: Figure, frame_bytes: Option<u32>, searches: usize) -> String {
    let pps = |pps: f64| units::print_pps(units::three_digits(pps));
    let ends = cliff.interval.map_or(String::new(), |ends| {
        let sure = match ends.confidence > 0.0 {
            true => format!("{:.0} % confidence", 100.0 * ends.confidence),
            false => without_confidence(searches),
        };
        format!(" ({} to {}, {sure})", pps(ends.low), pps(ends.high))
    });
    let frames = frame_bytes.map_or("frames of several sizes".to_owned(), |bytes| format!("{bytes}-byte frames"));
    format!("{}{ends}, {frames}, 1 CPU", pps(cliff.value))
}

/// Number of CPUs that handle the interrupts of a port's receive queues, at least one.
fn takers(port: &Port) -> u32 {
    let receive = port.queues.iter().filter(|path| path.direction == Direction::Receive);
    // If an interrupt may be handled by several CPUs, only one handles it at a time.
    let cpus: BTreeSet<u32> = receive.filter_map(|path| path.cpus.first().copied()).collect();
    (cpus.len() as u32).max(1)
}

#[cfg(test)]
mod tests {
    use netcliff_core::Host;
    use netcliff_core::finding::{Calibration, CliffBounds, CliffSearches, SearchBounds};
    use netcliff_host::nic::slot::Slot;

    use super::*;

    fn inspection() -> Inspection {
        let mut inspection = Inspection::default();
        let nic = netcliff_host::nic::Nic {
            name: "eth0".into(),
            up: true,
            bus: Some("0000:18:00.0".into()),
            speed_mbps: Some(10_000),
            pcie: Some(Slot { generation: 2, lanes: 8 }),
            ..Default::default()
        };
        let path = |queue, cpu| netcliff_host::inspect::QueuePath {
            direction: Direction::Receive,
            queue,
            napi_id: None,
            irq: Some(40 + queue),
            cpus: vec![cpu],
        };
        inspection.ports = vec![Port { nic, queues: vec![path(0, 0), path(1, 1), path(2, 1)], ..Port::default() }];
        inspection
    }

    #[test]
    fn each_part_and_where_it_is_from() {
        let host = Host::pentium4_2530mhz();
        let calibration =
            Calibration { costs: Vec::new(), host, cpu_method: "ebpf".into(), r_squared: None, correlated: Vec::new() };
        let mut run = Found {
            packets_per_interrupt: Some((4.0, 9.0)),
            cliff_pps: Some(Figure::between(223.4e3, 188e3, 236e3, 0.9375)),
            ..Found::bare(3, calibration.clone())
        };
        let found = describe(&inspection(), None, Some(8.1234e9), Some(&run)).unwrap();
        assert_eq!((found.system.link_bps, found.system.cpus), (Some(10e9), 2));
        // The number of frames per interrupt was measured near the cliff, where it is above one.
        assert!(found.interrupts_known);
        assert!((found.system.frames_per_interrupt - 6.0).abs() < 1e-9);
        assert_eq!(found.system.bus, Bus::pcie(2, 8).unwrap());
        assert_eq!(found.system.cpu, Some(calibration.host));
        let told: Vec<&str> = found.origins.iter().map(|(part, _)| part.as_str()).collect();
        assert_eq!(told, ["link", "bus", "memory", "CPU", "measured cliff"]);
        assert_eq!(found.origins[4].1, "223kpps (188kpps to 236kpps, 94 % confidence), 64-byte frames, 1 CPU");
        assert!(found.origins[2].1.starts_with("8.12GB/s"), "{found:?}");
        // A single search gives an interval without a confidence.
        run.cliff_pps = Some(Figure::between(223.4e3, 188e3, 236e3, 0.0));
        let search =
            SearchBounds { start_pps: 2e5, lower_pps: None, upper_pps: None, end: String::new(), demand_s: None };
        let bounds = CliffBounds { searches: vec![search], ..CliffBounds::default() };
        run.finding.searches =
            Some(CliffSearches { own: bounds.clone(), experienced: bounds, trials: 9, void: Vec::new() });
        let (_, said) = measured_cliff(&run).unwrap();
        assert_eq!(said, "223kpps (188kpps to 236kpps, from 1 search), 64-byte frames, 1 CPU");
        assert!(found.origins[3].1.contains("find run 3") && found.origins[3].1.contains("2 CPUs"), "{found:?}");
        let error = describe(&inspection(), Some("eth9"), None, None).unwrap_err();
        assert!(error.contains("eth9"), "{error}");
    }

    /// A NIC's fixed moderation is part of the scheme. No scheme describes moderation that follows the load.
    #[test]
    fn the_scheme_is_the_interfaces() {
        let mut moderated = inspection();
        moderated.ports[0].nic.driver = Some("igb".into());
        moderated.ports[0].nic.coalesce = [("rx-usecs".to_owned(), 100)].into();
        let scheme = |inspection: &Inspection| describe(inspection, None, None, None).unwrap().scheme;
        let told = scheme(&moderated).expect("a scheme").to_string();
        assert!(told.contains("min_gap=100us"), "{told}");
        moderated.ports[0].nic.coalesce = [("rx-usecs".to_owned(), 3)].into();
        assert_eq!(scheme(&moderated), None);
    }

    #[test]
    fn what_nothing_tells_stays_unknown() {
        let mut bare = inspection();
        bare.ports[0].nic.speed_mbps = None;
        bare.ports[0].nic.pcie = None;
        let found = describe(&bare, None, None, None).unwrap();
        assert_eq!((found.system.link_bps, found.system.bus, found.system.memory), (None, Bus::None, None));
        assert!(found.origins.is_empty());
        let nothing = describe(&Inspection::default(), None, None, None).unwrap();
        assert_eq!((nothing.system.cpus, nothing.interrupts_known), (1, false));
    }
}
