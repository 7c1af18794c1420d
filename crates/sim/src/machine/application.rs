//! [`Application`]: a thread that takes packets from its socket, one at a time, and sleeps when there are none.

use netcliff_core::Host;

use crate::clock::Clock;
use crate::draw::to_ticks;
use crate::fifo::Fifo;

/// The application and its socket.
#[derive(Debug)]
pub(crate) struct Application {
    /// Packets that wait to be taken.
    pub socket: Fifo,
    /// True while blocked on an empty socket.
    pub asleep: bool,
    /// Rest of the work in hand [ticks].
    pub remaining: u64,
    /// True from falling asleep until the switch back has been paid.
    pub owes_switch: bool,
    /// Latencies of packets dropped at the socket, added up [ticks].
    pub lost_latency: u128,
    limit: usize,
    drop_cost: f64,
    /// What a full socket adds to the protocol time and to the application's time of a packet [ticks].
    cold_ticks: (f64, f64),
}

impl Application {
    /// The application of `host`, asleep; None if it models none.
    pub(super) fn new(host: &Host, clock: Clock) -> Option<Self> {
        host.application_s?;
        Some(Self {
            socket: Fifo::new(),
            asleep: true,
            remaining: 0,
            owes_switch: true,
            lost_latency: 0,
            limit: usize::try_from(host.socket_buffer).unwrap_or(usize::MAX),
            drop_cost: host.socket_drop_cost,
            cold_ticks: (clock.ticks(host.cold_protocol_s), clock.ticks(host.cold_application_s)),
        })
    }

    /// True if the next packet would be dropped at the socket.
    #[inline]
    pub(super) fn full(&self) -> bool {
        self.socket.len() >= self.limit
    }

    /// `own` and what the socket's occupancy adds to it when a full socket adds `cold_ticks` [ticks].
    #[inline]
    fn colder(&self, own: u64, cold_ticks: f64) -> u64 {
        if cold_ticks == 0.0 {
            return own;
        }
        own + to_ticks(cold_ticks * self.socket.len() as f64 / self.limit as f64)
    }

    /// Protocol time of a packet that `own` would take with an empty socket [ticks].
    #[inline]
    pub(super) fn protocol_ticks(&self, own: u64) -> u64 {
        self.colder(own, self.cold_ticks.0)
    }

    /// The application's time for a packet that `own` would take as the only one in the socket [ticks].
    #[inline]
    pub(super) fn application_ticks(&self, own: u64) -> u64 {
        self.colder(own, self.cold_ticks.1)
    }

    /// Protocol time of a packet that finds the socket full [ticks].
    pub(super) fn dropped_work(&self, own: u64) -> u64 {
        if self.drop_cost == 1.0 { own } else { to_ticks(own as f64 * self.drop_cost) }
    }

    /// Blocks until the next packet.
    pub(super) fn fall_asleep(&mut self) {
        self.asleep = true;
        self.owes_switch = true;
    }
}
