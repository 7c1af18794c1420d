//! Busy polling: the application itself polls the device while its socket is empty (napi_busy_loop,
//! SO_PREFER_BUSY_POLL).

use super::Linux;
use crate::clock::NEVER;
use crate::machine::{Machine, Watch};

/// BUSY_POLL_BUDGET: largest number of packets per busy poll.
const BUDGET: u64 = 8;
/// Number of idle busy polls before an arrival that are simulated; earlier ones are skipped. After this number, the
/// time at which polling began no longer matters, unless all times are multiples of one value. If times are constant,
/// polls are computed exactly.
const KEPT: u64 = 100;
/// Skipping fewer polls than this would save little, and would change the random numbers of every run.
const WORTHWHILE: u64 = 1000;

/// Skips consecutive polls that find no packets, except the last ones before the next event.
fn leave_out_idle<W: Watch>(machine: &mut Machine<W>) {
    let each = machine.times.poll.mean_ticks();
    let nothing_due = machine.ring_is_empty() && !machine.completion_due();
    if W::SEES || !nothing_due || machine.next_arrival() == NEVER {
        return;
    }
    let passed = ((machine.undisturbed_until() - machine.now) as f64 / each) as u64;
    let passed = passed.saturating_sub(KEPT);
    if passed >= WORTHWHILE {
        machine.leave_out_polls(passed, each);
    }
}

impl Linux {
    /// Whether the application polls instead of sleeping: if neither a softirq nor the NAPI thread owns the instance. A
    /// timer of deferred interrupts does not own it.
    pub(super) fn may_busy_poll<W: Watch>(&self, machine: &Machine<W>) -> bool {
        self.busy_poll && (!self.scheduled || self.deferring) && machine.application_idles()
    }

    /// napi_busy_loop: polls until a poll delivers a packet to the application, or another thread must run.
    pub(super) fn napi_busy_loop<W: Watch>(&mut self, machine: &mut Machine<W>) {
        self.scheduled = true;
        self.nic.mask();
        (self.deferring, self.interrupt_due) = (false, NEVER);
        loop {
            leave_out_idle(machine);
            self.poll_once(machine, BUDGET);
            if machine.done || !machine.application_idles() || self.need_resched(machine) {
                break;
            }
        }
        self.busy_poll_stop(machine);
    }

    /// busy_poll_stop. If hard interrupts are deferred, the NIC stays masked, with a timer in case the application does
    /// not come back: irq_suspend_timeout after a poll with packets, otherwise gro_flush_timeout. If they are not
    /// deferred, the NIC is unmasked.
    fn busy_poll_stop<W: Watch>(&mut self, machine: &mut Machine<W>) {
        if self.defer_hard_irqs == 0 {
            return self.unmask(machine);
        }
        let suspended = self.irq_suspend_timeout.filter(|_| !machine.application_idles());
        self.defers_left = self.defer_hard_irqs;
        self.deferring = true;
        self.interrupt_due = machine.now + suspended.unwrap_or(self.gro_flush_timeout);
    }
}
