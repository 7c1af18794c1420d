//! The schemes of docs/theory/host.md as policies: the effect of an arrival or a timer, and when packets are served.

mod coalesce;
pub(crate) mod dim;
mod disable_enable;
pub(crate) mod freebsd_polling;
pub(crate) mod hybrid;
mod linux;
mod napi_2007;
mod polling;
mod soft_timers;

pub(crate) use coalesce::Moderation;
pub(crate) use linux::{Limits, Linux, ROUNDS};
use netcliff_core::{EngineKind, Host, Napi, Point, Scheme, Unsupported};
pub(crate) use polling::Ticks;

use crate::clock::{Clock, NEVER};
use crate::machine::{Machine, Watch};
use crate::tally::Account;

/// A scheme on a CPU where interrupts preempt protocol work and both preempt the application.
trait Policy<W: Watch> {
    /// Time of the scheme's next timer [ticks].
    fn timer(&self) -> u64 {
        NEVER
    }

    /// Whether the scheme reacts to an arrival now. If false, an arrival only joins the ring.
    fn hears_arrivals(&self) -> bool {
        true
    }

    /// Called when the CPU is idle and has no work: timers that will find no packets may be skipped.
    fn leave_out_idle(&mut self, _machine: &mut Machine<W>) {}

    /// Handles the arrival or the timer that is due now. The running work is delayed by the time that this takes.
    fn event(&mut self, machine: &mut Machine<W>);

    /// Whether protocol processing may serve a packet now.
    fn ready(&self, machine: &Machine<W>) -> bool;

    /// Serves one packet.
    fn serve(&mut self, machine: &mut Machine<W>);
}

/// Time of the next timer, or of the next arrival to which the policy reacts. A timer that was due during an
/// interrupt's handling is due now.
#[inline]
fn next_event<W: Watch, P: Policy<W>>(machine: &mut Machine<W>, policy: &P) -> u64 {
    machine.next_look(policy.hears_arrivals()).min(policy.timer().max(machine.now))
}

/// Runs a policy to the end of the replication.
fn drive<W: Watch, P: Policy<W>>(machine: &mut Machine<W>, policy: &mut P) {
    while !machine.done {
        if machine.transmit_interrupts() {
            continue;
        }
        if machine.is_paused() {
            wait(machine, policy, machine.given_back());
        } else if machine.completion_first() {
            complete_transmission(machine, policy);
        } else if policy.ready(machine) {
            policy.serve(machine);
        } else if machine.completion_due() {
            complete_transmission(machine, policy);
        } else if machine.application_awake() {
            run_application(machine, policy);
        } else {
            policy.leave_out_idle(machine);
            wait(machine, policy, NEVER);
        }
    }
}

/// Waits until `until` or until the next event, which it handles. No work may be ready to run before that.
#[inline]
fn wait<W: Watch, P: Policy<W>>(machine: &mut Machine<W>, policy: &mut P, until: u64) {
    let event = next_event(machine, policy);
    machine.idle(event.min(until));
    if event < until {
        machine.note_timer();
        policy.event(machine);
    }
}

/// Spends `work` on `account`. Events during that time interrupt the work and lengthen it.
#[inline]
fn preemptible<W: Watch, P: Policy<W>>(machine: &mut Machine<W>, policy: &mut P, account: Account, work: u64) {
    let mut left = work;
    loop {
        let event = next_event(machine, policy);
        let Some(rest) = machine.work(account, left, event) else { return };
        left = rest;
        machine.note_timer();
        policy.event(machine);
        machine.transmit_interrupts();
        if machine.done {
            // The run may end before the work, e.g. if pauses leave the work no time.
            return;
        }
    }
}

/// Processes a transmit completion: protocol work that interrupts preempt.
#[inline(never)]
fn complete_transmission<W: Watch, P: Policy<W>>(machine: &mut Machine<W>, policy: &mut P) {
    let work = machine.completion_work();
    preemptible(machine, policy, Account::Protocol, work);
    machine.finish_completion();
}

/// Runs the application until its piece of work is done or a packet may be served.
fn run_application<W: Watch, P: Policy<W>>(machine: &mut Machine<W>, policy: &mut P) {
    machine.application_turn();
    let Some(mut left) = machine.application_work() else { return };
    loop {
        let event = next_event(machine, policy);
        let at = event.min(machine.application_tick());
        match machine.work(Account::Application, left, at) {
            None => return machine.application_done(),
            Some(rest) => left = rest,
        }
        if at == event {
            machine.note_timer();
            policy.event(machine);
            machine.transmit_interrupts();
        }
        if machine.done || policy.ready(machine) || machine.completion_due() || machine.application_turn_is_over() {
            break;
        }
    }
    machine.keep_application_work(left);
}

/// Checks whether a scheme can be simulated; the error says why not.
pub(crate) fn supports(host: &Host, scheme: &Scheme) -> Result<(), Unsupported> {
    match scheme {
        Scheme::Napi(napi) if napi.backlog && host.transmit_s.is_some() => Err(Unsupported::new(
            EngineKind::Sim,
            "a backlog holds what another CPU's poll steered here, and completions stay with the device's own poll: leave \
             out transmit or backlog",
        )),
        Scheme::Napi(napi) => supports_napi(napi, host),
        _ => Ok(()),
    }
}

fn supports_napi(napi: &Napi, host: &Host) -> Result<(), Unsupported> {
    let decline = |reason: &str| Err(Unsupported::new(EngineKind::Sim, reason));
    if napi.defer_hard_irqs > 0 && napi.backlog {
        return decline("a backlog has no hard interrupts to defer: leave out defer_hard_irqs or backlog");
    }
    if napi.busy_poll && host.application_s.is_none() {
        return decline("busy_poll is the application's polling: give it a time, for instance --set application=1us");
    }
    if napi.busy_poll && napi.backlog {
        return decline("a backlog is no device that an application could poll: leave out busy_poll or backlog");
    }
    if napi.busy_poll && host.has_several_applications() {
        return decline(
            "busy_poll is simulated with one application, which polls the device: leave out applications or busy_poll",
        );
    }
    if napi.busy_poll && host.poll_s == 0.0 {
        return decline("busy polls that find nothing must take time: set poll above 0");
    }
    if napi.irq_suspend_timeout_s > 0.0 && !(napi.busy_poll && napi.defer_hard_irqs > 0) {
        return decline(
            "irq_suspend_timeout works with busy_poll, defer_hard_irqs and gro_flush_timeout only: set them too",
        );
    }
    Ok(())
}

/// Runs the point's scheme on `machine`. The point must be supported.
pub(crate) fn run<W: Watch>(point: &Point, clock: Clock, machine: &mut Machine<W>) {
    match &point.scheme {
        Scheme::Ideal => drive(machine, &mut ideal::Ideal),
        Scheme::Interrupt { drops_interrupt } => {
            drive(machine, &mut interrupt::Interrupt { drops_interrupt: *drops_interrupt });
        }
        Scheme::DisableEnable { merged } => drive(machine, &mut disable_enable::DisableEnable::new(*merged, machine)),
        Scheme::Polling { period_s, quota } => {
            drive(machine, &mut polling::Polling::new(*period_s, *quota, clock, machine));
        }
        Scheme::Napi2007(scheme) => drive(machine, &mut napi_2007::Napi2007::new(scheme, clock, machine)),
        Scheme::FreebsdPolling(scheme) => {
            drive(machine, &mut freebsd_polling::FreebsdPolling::new(scheme, clock, machine));
        }
        Scheme::SoftTimers(scheme) => drive(machine, &mut soft_timers::SoftTimers::new(scheme, clock, machine)),
        Scheme::Napi(napi) => linux::run(napi, &point.host, clock, machine),
        Scheme::Coalesce(scheme) => drive(machine, &mut coalesce::Coalesce::new(scheme, clock, machine)),
        Scheme::Hybrid(scheme) => drive(machine, &mut hybrid::Hybrid::new(scheme, clock, machine)),
        Scheme::Dim(scheme) => drive(machine, &mut dim::Dim::new(*scheme, clock, machine)),
    }
}

mod ideal {
    //! `ideal`: packets are served as they arrive, at no additional cost.

    use super::Policy;
    use crate::machine::{Machine, Watch};
    use crate::tally::Account;

    /// The scheme needs no state except the ring.
    pub(super) struct Ideal;

    impl<W: Watch> Policy<W> for Ideal {
        #[inline]
        fn event(&mut self, machine: &mut Machine<W>) {
            machine.take_arrival();
        }

        #[inline]
        fn ready(&self, machine: &Machine<W>) -> bool {
            !machine.ring_is_empty()
        }

        #[inline]
        fn serve(&mut self, machine: &mut Machine<W>) {
            let work = machine.protocol_work();
            machine.spend(Account::Protocol, work);
            machine.finish_packet();
        }
    }
}

mod interrupt {
    //! `interrupt`: every arrival interrupts, unless an interrupt is being handled.

    use super::{Policy, preemptible};
    use crate::machine::{Arrival, Machine, Watch};
    use crate::tally::Account;

    /// The scheme has no state: the interrupt handler runs within the event that starts it.
    pub(super) struct Interrupt {
        /// Whether a packet dropped at a full ring interrupts as well.
        pub(super) drops_interrupt: bool,
    }

    impl<W: Watch> Policy<W> for Interrupt {
        #[inline]
        fn event(&mut self, machine: &mut Machine<W>) {
            let interrupts = match machine.take_arrival() {
                Arrival::Accepted => true,
                Arrival::Dropped => self.drops_interrupt,
                Arrival::Completion | Arrival::Elsewhere | Arrival::Ended => false,
            };
            if interrupts {
                machine.counts.interrupts += 1;
                let handling = machine.times.interrupt.next();
                machine.spend(Account::Interrupt, handling);
            }
        }

        #[inline]
        fn ready(&self, machine: &Machine<W>) -> bool {
            !machine.ring_is_empty()
        }

        #[inline]
        fn serve(&mut self, machine: &mut Machine<W>) {
            let work = machine.protocol_work();
            preemptible(machine, self, Account::Protocol, work);
            machine.finish_packet();
        }
    }
}
