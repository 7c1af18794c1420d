//! [`Unpredicted`]: why a set-up is measured without a prediction.

/// Why the cliff of a set-up is not predicted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unpredicted {
    /// Another command starts the service.
    #[error("another command may run another program, whose costs were not calibrated")]
    OtherProgram,
    /// Sockets poll the device (busy polling), which the model does not have.
    #[error("neither model nor simulator has sockets of other programs that poll")]
    BusyPoll,
    /// GRO is on, which changes the cost of a packet.
    #[error("the testbed's interface then polls on the requester's CPU, and costs were calibrated without GRO")]
    Gro,
    /// Timers delay the device's polls.
    #[error("the timers act on polls of the interface, and costs were calibrated without these")]
    Timers,
    /// Packets are received on the requester's CPU.
    #[error("packets are then received on the requester's CPU, whose time was not calibrated")]
    RequesterCpu,
    /// The costs of a request were not measured.
    #[error("a request's costs were not calibrated")]
    NoCosts,
    /// An engine has no answer.
    #[error("{0}")]
    Engine(String),
}
