//! The roofline of a host: for each frame size, the upper bounds that link, bus, memory and CPU set to the rate, and
//! the lowest of these bounds.
//!
//! The bounds are fluid: they count bits, bytes and seconds, but no queues. Measured rates lie below the lowest bound.
//! Derivations and sources: `docs/theory/limits.md`.

mod offload;

use netcliff_core::parts::{Memory, bus};
use netcliff_core::{Bus, Host, Offload};

pub use netcliff_core::parts::bus::{bytes_per_frame, raw_bps};
pub use offload::{EFFECTS, Effect, JUMBO_FRAME_BYTES, Load};

/// Preamble, start delimiter and gap between frames: 7 + 1 + 12 bytes (IEEE 802.3, 3.1.1 and 4.4.2).
pub const GAP_BYTES: f64 = 20.0;

/// Parts of a host that limit the rate; an unknown part (`None`) sets no bound.
#[derive(Debug, Clone, PartialEq)]
pub struct System {
    /// Link speed (bit/s).
    pub link_bps: Option<f64>,
    /// Bus between NIC and memory.
    pub bus: Bus,
    /// Main memory.
    pub memory: Option<Memory>,
    /// Costs of one CPU.
    pub cpu: Option<Host>,
    /// Number of CPUs that share the frames evenly.
    pub cpus: u32,
    /// Frames per interrupt (coalescing); at least 1.
    pub frames_per_interrupt: f64,
}

/// Parts that can be the bottleneck.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The link, with preamble and gap.
    Link,
    /// PCI, PCI-X or PCI Express.
    Bus,
    /// Memory bandwidth.
    Memory,
    /// CPU time per packet.
    PacketCpu,
    /// CPU time per byte.
    ByteCpu,
    /// CPU time of interrupts.
    Interrupts,
    /// The sum of packet, byte and interrupt costs on the same CPU.
    Cpu,
}

impl Part {
    /// All parts, in the order of the path.
    pub const ALL: [Self; 7] =
        [Self::Link, Self::Bus, Self::Memory, Self::Interrupts, Self::PacketCpu, Self::ByteCpu, Self::Cpu];

    /// Name of the part in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Link => "link",
            Self::Bus => "bus",
            Self::Memory => "memory",
            Self::PacketCpu => "packet CPU",
            Self::ByteCpu => "byte CPU",
            Self::Interrupts => "interrupts",
            Self::Cpu => "CPU",
        }
    }
}

/// One part's bound at one frame size (pps).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    /// The part.
    pub part: Part,
    /// Highest rate (frames/s).
    pub pps: f64,
}

/// All bounds at one frame size.
#[derive(Debug, Clone, PartialEq)]
pub struct Roof {
    /// Frame with FCS (bytes).
    pub frame_bytes: f64,
    /// Bounds in the order of the path, without parts that are unknown or cost nothing.
    pub bounds: Vec<Bound>,
}

impl Roof {
    /// Returns the lowest bound; `None` if no part is known. For the CPU this is the bound by the sum of its costs.
    pub fn lowest(&self) -> Option<Bound> {
        self.bounds.iter().copied().reduce(|low, next| if next.pps <= low.pps { next } else { low })
    }

    /// Returns the part with the lowest bound. If that is the CPU, returns its largest cost. `None` if no part is
    /// known.
    pub fn binding(&self) -> Option<Part> {
        let lowest = self.lowest()?;
        if lowest.part != Part::Cpu {
            return Some(lowest.part);
        }
        let own = |bound: &&Bound| matches!(bound.part, Part::PacketCpu | Part::ByteCpu | Part::Interrupts);
        let items = self.bounds.iter().filter(own);
        items.copied().reduce(|low, next| if next.pps < low.pps { next } else { low }).map(|bound| bound.part)
    }

    /// Returns the bound by one part (pps); `None` if the part is unknown or costs nothing.
    pub fn of(&self, part: Part) -> Option<f64> {
        self.bounds.iter().find(|bound| bound.part == part).map(|bound| bound.pps)
    }

    /// Frame bits per second at this packet rate.
    pub fn bps(&self, pps: f64) -> f64 {
        8.0 * self.frame_bytes * pps
    }
}

impl System {
    /// Computes the bounds for frames of this length (bytes, FCS included). [`Offload::Jumbo`] lengthens frames of 1518
    /// bytes, the longest without it, to 9018; shorter frames stay as they are.
    pub fn roof(&self, frame_bytes: f64, offloads: &[Offload]) -> Roof {
        let load = Load::new(frame_bytes, offloads);
        let frame_bytes = load.frame_bytes;
        let finite = |part: Part, seconds: f64| (seconds > 0.0).then(|| Bound { part, pps: 1.0 / seconds });
        let mut bounds = Vec::new();
        bounds.extend(self.link_bps.and_then(|bps| finite(Part::Link, 8.0 * (frame_bytes + GAP_BYTES) / bps)));
        bounds.extend(finite(Part::Bus, bus::seconds_per_frame(&self.bus, frame_bytes, self.frames_per_interrupt)));
        bounds.extend(
            self.memory.and_then(|memory| {
                finite(Part::Memory, frame_bytes * load.crossings(memory.copies) / memory.bytes_per_s)
            }),
        );
        if let Some(host) = &self.cpu {
            let items = self.cpu_items(host, &load);
            bounds.extend(items.iter().filter_map(|(part, seconds)| finite(*part, *seconds)));
            bounds.extend(finite(Part::Cpu, items.iter().map(|(_, seconds)| seconds).sum()));
        }
        Roof { frame_bytes, bounds }
    }

    /// Computes the CPU time per frame for packets, bytes and interrupts (s), shared by the CPUs and lengthened by
    /// their pauses.
    fn cpu_items(&self, host: &Host, load: &Load) -> [(Part, f64); 3] {
        let share = |seconds: f64| seconds / (f64::from(self.cpus.max(1)) * host.up_share());
        let packet_s = (host.packet_s() + host.mean_application_s().unwrap_or(0.0)) * load.packets_per_frame;
        [
            (Part::Interrupts, share((host.interrupt_s + host.mask_s) / self.frames_per_interrupt.max(1.0))),
            (Part::PacketCpu, share(packet_s)),
            (Part::ByteCpu, share(host.bytes_s(load.passes(), load.frame_bytes))),
        ]
    }
}

#[cfg(test)]
mod tests;
