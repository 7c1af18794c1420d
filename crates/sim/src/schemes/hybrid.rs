//! `hybrid`: disable-enable at low load, polling at high load. The rate of protocol processing switches between them.

use super::Policy;
use super::disable_enable::DisableEnable;
use super::polling::Polling;
use crate::clock::{Clock, NEVER};
use crate::machine::{Machine, Watch};
use crate::source::PacketCost;
use netcliff_core::switching::{self, Averages, Part};

/// Number of packets per sample of rate and frame size.
pub(crate) const WINDOW: u64 = 64;

/// Moving averages of rate and frame size, and the switching rates.
#[derive(Debug)]
pub(crate) struct Meter {
    up_per_tick: Option<f64>,
    down_per_tick: Option<f64>,
    interrupt_ticks: f64,
    cost: PacketCost,
    packets: u64,
    bytes: u64,
    since: u64,
    /// Packets per tick and bytes per packet.
    averages: Averages,
}

impl Meter {
    pub(crate) fn new(scheme: &netcliff_core::Hybrid, clock: Clock, interrupt_ticks: f64, cost: PacketCost) -> Self {
        let per_tick = |pps: f64| pps * clock.seconds(1.0);
        Self {
            up_per_tick: scheme.up_pps.map(per_tick),
            down_per_tick: scheme.down_pps.map(per_tick),
            interrupt_ticks,
            cost,
            packets: 0,
            bytes: 0,
            since: 0,
            averages: Averages::new(scheme.ewma),
        }
    }

    /// Records that a packet of `bytes` left protocol processing at `now`. Returns the part that should run from now
    /// on; `None` if nothing changes, which is always so within a window and between the switching rates.
    pub(crate) fn processed(&mut self, bytes: u32, now: u64) -> Option<Part> {
        self.packets += 1;
        self.bytes += u64::from(bytes);
        if self.packets < WINDOW || now == self.since {
            return None;
        }
        let rate = self.packets as f64 / (now - self.since) as f64;
        let (rate, size) = self.averages.window(rate, self.bytes as f64 / self.packets as f64);
        (self.packets, self.bytes, self.since) = (0, 0, now);
        let cliff = || switching::saturation(self.cost.mean_ticks_of(size), self.interrupt_ticks);
        let up = self.up_per_tick.unwrap_or_else(cliff);
        switching::verdict(rate, up, self.down_per_tick.unwrap_or_else(|| switching::down_of(up)))
    }
}

/// The two parts and the meter.
pub(super) struct Hybrid {
    quiet: DisableEnable,
    busy: Polling,
    polling: bool,
    meter: Meter,
}

impl Hybrid {
    pub(super) fn new<W>(scheme: &netcliff_core::Hybrid, clock: Clock, machine: &Machine<W>) -> Self {
        Self {
            quiet: DisableEnable::new(scheme.merged, machine),
            busy: Polling::new(scheme.period_s, scheme.quota, clock, machine),
            polling: false,
            meter: Meter::new(scheme, clock, machine.times.interrupt.mean_ticks(), machine.cost),
        }
    }
}

impl<W: Watch> Policy<W> for Hybrid {
    #[inline]
    fn timer(&self) -> u64 {
        if self.polling { Policy::<W>::timer(&self.busy) } else { NEVER }
    }

    #[inline]
    fn leave_out_idle(&mut self, machine: &mut Machine<W>) {
        if self.polling {
            self.busy.leave_out_idle(machine);
        }
    }

    #[inline]
    fn event(&mut self, machine: &mut Machine<W>) {
        if self.polling { self.busy.event(machine) } else { self.quiet.event(machine) }
    }

    #[inline]
    fn ready(&self, machine: &Machine<W>) -> bool {
        if self.polling { self.busy.ready(machine) } else { self.quiet.ready(machine) }
    }

    fn serve(&mut self, machine: &mut Machine<W>) {
        let bytes = u32::from(machine.head().bytes);
        if self.polling {
            self.busy.serve(machine)
        } else {
            self.quiet.serve(machine)
        }
        match self.meter.processed(bytes, machine.now) {
            Some(Part::Poll) if !self.polling => {
                // Packets in the ring wait for the first tick of the polling timer.
                self.polling = true;
                self.busy.restart(machine.now);
            }
            Some(Part::Interrupt) if self.polling => {
                // Packets in the ring are served at once, with the interrupt masked.
                self.polling = false;
                self.quiet.masked = !machine.ring_is_empty();
            }
            _ => {}
        }
    }
}
