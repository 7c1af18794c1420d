//! The applications on the machine: packets for their sockets, their work, and the order in which they run.

use super::application::Application;
use super::{Applications, Machine, PacketOutcome, Watch};
use crate::clock::NEVER;
use crate::fifo::Packet;

impl<W: Watch> Machine<W> {
    /// Moves the processed packet from the head of the ring to its socket. Returns true if that woke the application.
    #[inline(never)]
    pub(super) fn hand_on(&mut self) -> bool {
        let packet = self.leave_ring();
        let Some(applications) = &mut self.applications else { return false };
        let application = applications.of(packet.socket);
        if application.full() {
            self.counts.lost_latency += u128::from(self.now - packet.arrived);
            if let Some(counts) = applications.counts_of(packet.socket) {
                counts.dropped_socket += 1;
            }
            self.counts.dropped_socket += 1;
            self.watch.outcome(packet.number, PacketOutcome::DroppedSocket, self.now);
            return false;
        }
        application.socket.push(packet);
        let woken = std::mem::take(&mut application.asleep);
        if woken {
            applications.wake(packet.socket);
        }
        self.watch.outcome(packet.number, PacketOutcome::Processed, self.now);
        woken
    }

    #[inline]
    fn deliver(&mut self, packet: Packet) {
        let latency = self.now - packet.arrived;
        self.counts.delivered += 1;
        self.counts.delivered_bytes += u64::from(packet.bytes);
        self.counts.latency += u128::from(latency);
        if let Some(counts) = self.counts_of(packet.socket) {
            counts.delivered += 1;
            counts.delivered_bytes += u64::from(packet.bytes);
            counts.latency += u128::from(latency);
        }
        self.records.latency(latency);
        if self.side_load.is_some() {
            self.forward(u32::from(packet.bytes));
        }
    }

    /// Returns the rest of the running application's present piece of work, or starts its next piece [ticks]. `None` if
    /// the application fell asleep, or if none runs.
    pub(crate) fn application_work(&mut self) -> Option<u64> {
        let application = self.applications.as_mut()?.running()?;
        if std::mem::take(&mut application.owes_switch) {
            application.remaining += self.times.switch.next();
        } else if application.remaining == 0 && !self.take_packet() {
            return None;
        }
        Some(std::mem::take(&mut self.applications.as_mut()?.running()?.remaining))
    }

    /// The running application takes the oldest packet of its socket. Returns false if it fell asleep.
    fn take_packet(&mut self) -> bool {
        let Some(applications) = &mut self.applications else { return false };
        // The packet being taken still counts as in the socket.
        let occupied = applications.application_ticks(0);
        let Some(application) = applications.running() else { return false };
        if application.socket.is_empty() {
            applications.fall_asleep();
            return false;
        }
        let packet = application.socket.pop();
        application.remaining = packet.application + occupied;
        applications.took(self.now);
        self.watch.outcome(packet.number, PacketOutcome::Taken, self.now);
        self.deliver(packet);
        if self.applications.as_mut().and_then(Applications::running).is_some_and(|one| one.remaining == 0) {
            self.application_done();
        }
        true
    }

    /// Records that the running application has finished its piece of work and the packet it processed, if any.
    #[inline]
    pub(crate) fn application_done(&mut self) {
        if let Some(taken) = self.applications.as_mut().and_then(Applications::done) {
            self.counts.application_area += u128::from(self.now - taken);
        }
    }

    /// Stores the rest of the running application's piece of work, until it continues [ticks].
    #[inline]
    pub(crate) fn keep_application_work(&mut self, left: u64) {
        if let Some(application) = self.applications.as_mut().and_then(Applications::running) {
            application.remaining = left;
        }
    }

    /// Whether the running application is between two packets.
    #[inline]
    pub(crate) fn between_packets(&self) -> bool {
        let running = self.applications.as_ref().and_then(Applications::now_running);
        running.is_some_and(|application| application.remaining == 0 && !application.owes_switch)
    }

    /// Whether the running application is awake and has nothing to do.
    #[inline]
    pub(crate) fn application_idles(&self) -> bool {
        self.applications.as_ref().and_then(Applications::now_running).is_some_and(Application::idles)
    }

    /// Whether an application is modelled and has not fallen asleep.
    #[inline]
    pub(crate) fn application_awake(&self) -> bool {
        self.applications.as_ref().is_some_and(Applications::awake)
    }

    /// Number of applications that wait for the CPU while another one has it.
    #[inline]
    pub(crate) fn applications_waiting(&self) -> usize {
        self.applications.as_ref().map_or(0, Applications::waiting)
    }

    /// Moves the running application, if any, behind the waiting ones.
    pub(crate) fn application_yields(&mut self) {
        if let Some(applications) = &mut self.applications {
            applications.yield_cpu();
        }
    }

    /// Gives the CPU to the application that has waited longest.
    pub(crate) fn application_takes_turn(&mut self) {
        let now = self.now;
        if let Some(applications) = &mut self.applications {
            applications.take_turn(now);
        }
    }

    /// Chooses the next application without a kernel's scheduler: the running application continues; if its turn is
    /// over or it sleeps, the next application gets the CPU.
    #[inline]
    pub(crate) fn application_turn(&mut self) {
        if self.application_turn_is_over() {
            self.application_yields();
        }
        if self.applications.as_ref().is_some_and(|applications| applications.now_running().is_none()) {
            self.application_takes_turn();
        }
    }

    /// Whether another application waits and the running one's slice is used up.
    #[inline]
    pub(crate) fn application_turn_is_over(&self) -> bool {
        self.applications.as_ref().is_some_and(|applications| applications.turn_is_over(self.now))
    }

    /// The next time at which the running application's turn may be over [ticks].
    #[inline]
    pub(crate) fn application_tick(&self) -> u64 {
        self.applications.as_ref().map_or(NEVER, |applications| applications.next_tick(self.now))
    }
}
