//! The stages of a scheme without arrivals. Stage 0 with an empty ring is idle.

use super::Work;
use crate::queue::qbd::Jump;

/// What the CPU does in a stage while packets are present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Nothing for the ring: the interrupt has not been delivered.
    Waiting,
    /// Interrupt and mask.
    Interrupt,
    /// Interrupt, mask and first packet together.
    First,
    /// Overhead of a poll, including a poll that finds no packets.
    Poll,
    /// Register write after a poll that left the ring empty; a packet that arrives during the write interrupts at its
    /// end.
    Unmask,
    /// Protocol processing.
    Serving,
}

/// Jumps between stages, and effects of arrivals.
#[derive(Debug, Clone)]
pub struct Chain {
    /// Role of each stage.
    pub roles: Vec<Role>,
    /// The stage after an accepted arrival.
    pub accepted: fn(usize) -> usize,
    /// The stage after an arrival at a full ring; `None` if the stage does not change.
    pub refused: Option<fn(usize) -> usize>,
    /// Jumps with an empty ring.
    pub nothing: Vec<Jump>,
    /// Jumps with packets present.
    pub local: Vec<Jump>,
    /// Services after which packets remain.
    pub down: Vec<Jump>,
    /// Services of the last packet.
    pub last: Vec<Jump>,
    /// Share of protocol processing in the time of [`Role::First`].
    pub first_serves: f64,
}

impl Chain {
    /// Makes stages without jumps; arrivals do not change the stage.
    pub fn new(roles: Vec<Role>) -> Self {
        let (nothing, local, down, last) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { roles, accepted: |stage| stage, refused: None, nothing, local, down, last, first_serves: 0.0 }
    }

    pub(in crate::schemes) fn ideal(work: &Work) -> Self {
        let serve = vec![(0, 0, work.service_pps())];
        Self { down: serve.clone(), last: serve, ..Self::new(vec![Role::Serving]) }
    }

    /// The chain of the scheme `interrupt`. Stage 1 is the ISR; the interrupted service continues after it.
    pub(in crate::schemes) fn interrupt(work: &Work, drops_interrupt: bool) -> Self {
        let serve = vec![(0, 0, work.service_pps())];
        Self {
            accepted: |_| 1,
            refused: if drops_interrupt { Some(|_| 1) } else { None },
            local: vec![(1, 0, work.stage_rate(work.interrupt_s))],
            down: serve.clone(),
            last: serve,
            ..Self::new(vec![Role::Serving, Role::Interrupt])
        }
    }

    pub(in crate::schemes) fn two_stage(work: &Work) -> Self {
        Self {
            local: vec![(0, 1, work.stage_rate(work.mask_s + work.interrupt_s))],
            down: vec![(1, 1, work.service_pps())],
            last: vec![(1, 0, work.service_pps())],
            ..Self::new(vec![Role::Interrupt, Role::Serving])
        }
    }

    pub(in crate::schemes) fn merged(work: &Work) -> Self {
        let first_s = work.mask_s + work.interrupt_s + work.service_s;
        Self {
            down: vec![(0, 1, 1.0 / first_s), (1, 1, work.service_pps())],
            last: vec![(0, 0, 1.0 / first_s), (1, 0, work.service_pps())],
            first_serves: work.service_s / first_s,
            ..Self::new(vec![Role::First, Role::Serving])
        }
    }
}
