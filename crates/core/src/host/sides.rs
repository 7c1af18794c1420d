//! Work of a host besides receiving: 802.3 flow control and transmit completions.

use super::Host;
use crate::bounds;
use crate::error::{Invalid, ParseError};
use crate::units;

/// Most packets sent per delivered packet.
const MOST_SENT_A_PACKET: f64 = 1e6;

/// Number of packets that a host sends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TransmitLoad {
    /// A share of the delivered packets (`100%`). Each is completed when its frame has left the link.
    Share(f64),
    /// An independent Poisson stream of completions (`50kpps`) (pps).
    Pps(f64),
}

impl std::str::FromStr for TransmitLoad {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let load = if text.trim().ends_with("pps") {
            units::parse_pps(text).map(Self::Pps)
        } else {
            units::parse_share(text).map(Self::Share)
        };
        let form = "expected a share of the delivered packets such as \"100%\", or a rate such as \"50kpps\"";
        load.map_err(|_| ParseError::new("transmit_load", text, form))
    }
}

impl std::fmt::Display for TransmitLoad {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&match self {
            Self::Share(share) => units::print_share(*share),
            Self::Pps(pps) => units::print_pps(*pps),
        })
    }
}

crate::units::serde_as_text!(TransmitLoad);

/// Order of processing if both transmit completions and received packets are waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TransmitPriority {
    /// Completions first; with `napi` at the start of each poll, as Linux drivers do.
    #[default]
    Before,
    /// Received packets first; with `napi` completions follow only in a poll that took fewer packets than its weight.
    After,
    /// Completions first, each in its own interrupt handler. The handler preempts everything except another handler,
    /// and runs before waiting receive interrupts.
    Interrupt,
}

impl std::str::FromStr for TransmitPriority {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        match text.trim() {
            "before" => Ok(Self::Before),
            "after" => Ok(Self::After),
            "interrupt" => Ok(Self::Interrupt),
            _ => Err(ParseError::new(
                "transmit_priority",
                text,
                "expected before or after (received packets), or interrupt (each in an interrupt's handler)",
            )),
        }
    }
}

impl std::fmt::Display for TransmitPriority {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::Before => "before",
            Self::After => "after",
            Self::Interrupt => "interrupt",
        })
    }
}

crate::units::serde_as_text!(TransmitPriority);

impl Host {
    /// Default of `sender_queue` (packets): Linux's txqueuelen of an Ethernet device.
    pub const SENDER_QUEUE: u64 = 1000;
    /// Default of `transmit_ring` (slots).
    pub const TRANSMIT_RING: u64 = 1024;

    /// Packets in the ring at which a stopped sender may continue; None: no flow control.
    pub fn xon_packets(&self) -> Option<u64> {
        self.xoff.map(|xoff| self.xon.unwrap_or(xoff / 2))
    }

    /// Most packets that a stopped sender queues.
    pub fn sender_queue_packets(&self) -> u64 {
        self.sender_queue.unwrap_or(Self::SENDER_QUEUE)
    }

    /// Slots of the transmit ring.
    pub fn transmit_ring_slots(&self) -> u64 {
        self.transmit_ring.unwrap_or(Self::TRANSMIT_RING)
    }

    pub(super) fn validate_sides(&self) -> Result<(), Invalid> {
        self.validate_flow_control()?;
        self.validate_transmit()
    }

    fn validate_flow_control(&self) -> Result<(), Invalid> {
        let Some(xoff) = self.xoff else {
            return match (self.xon, self.sender_queue) {
                (Some(xon), _) => Err(Invalid::new("xon", xon, "needs xoff, at which the sender is stopped")),
                (_, Some(held)) => {
                    Err(Invalid::new("sender_queue", held, "needs xoff: only a stopped sender holds packets"))
                }
                _ => Ok(()),
            };
        };
        if xoff == 0 {
            return Err(Invalid::new("xoff", xoff, "must be at least 1 packet"));
        }
        if xoff > self.ring {
            return Err(Invalid::new("xoff", xoff, format!("must be at most the ring ({} slots)", self.ring)));
        }
        if let Some(xon) = self.xon
            && xon >= xoff
        {
            return Err(Invalid::new("xon", xon, format!("must be below xoff ({xoff} packets)")));
        }
        if let Some(held) = self.sender_queue {
            bounds::packets("sender_queue", held, "packets")?;
        }
        if self.queues.is_some() {
            return Err(Invalid::new("xoff", xoff, "cannot go with queues: a pause stops the link, and so all queues"));
        }
        Ok(())
    }

    fn validate_transmit(&self) -> Result<(), Invalid> {
        if self.transmit_s.is_none() {
            let set = [
                ("transmit_load", self.transmit_load.map(|load| load.to_string())),
                ("transmit_priority", self.transmit_priority.map(|priority| priority.to_string())),
                ("transmit_ring", self.transmit_ring.map(|slots| slots.to_string())),
            ];
            return match set.into_iter().find_map(|(key, value)| Some((key, value?))) {
                Some((key, value)) => Err(Invalid::new(key, value, "needs transmit, the cost of a completion")),
                None => Ok(()),
            };
        }
        if let Some(load) = self.transmit_load {
            match load {
                TransmitLoad::Share(share) if share > 0.0 && share <= MOST_SENT_A_PACKET => {}
                TransmitLoad::Share(_) => {
                    let form = format!("must be above 0 and at most {MOST_SENT_A_PACKET} times what is delivered");
                    return Err(Invalid::new("transmit_load", load, form));
                }
                TransmitLoad::Pps(pps) => bounds::rate("transmit_load", pps, load)?,
            }
        }
        if let Some(slots) = self.transmit_ring {
            bounds::packets("transmit_ring", slots, "slots")?;
        }
        if self.queues.is_some() {
            let form = "cannot go with queues, which have a transmit cost of their own: queues=4:transmit=1us";
            return Err(Invalid::new("transmit", units::print_time_s(self.transmit_s.unwrap_or(0.0)), form));
        }
        Ok(())
    }
}
