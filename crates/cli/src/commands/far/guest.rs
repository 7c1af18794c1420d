//! An agent that is the only program of a guest.

use netcliff_find::of::{NearEnd, OfError};
use netcliff_host::testbed::vm::{Acceleration, Vm, VmError, VmOptions};
use netcliff_packets::error::ControlError;
use netcliff_packets::thread::Priority;
use netcliff_remote::control::Limits;
use netcliff_remote::control::client::Session;
use netcliff_remote::control::stream::Stream;
use netcliff_trial::rig::Sending;

use crate::output;

/// Longest time that a guest may take to answer (s): emulated, and with KVM, which runs it at full speed or not at all.
const ANSWERS_S: f64 = 60.0;
const ANSWERS_KVM_S: f64 = 15.0;
/// Silence that is permitted for an emulated guest (s), which may be silent for seconds if its CPU is busy.
const SILENCE_S: f64 = 30.0;

/// How emulation (TCG) limits results.
const EMULATED: &str = "QEMU emulates the guest's CPU (TCG; KVM does not work here): rates, costs and cliff are those of the emulation, not \
                        of this host: settings compare with each other, as ratios, and pauses of QEMU are pauses of the host under test";

/// A booted guest whose agent has answered.
#[derive(Debug)]
pub struct Guest {
    /// The control channel.
    pub session: Session,
    /// The guest.
    pub vm: Vm,
    /// What limits results measured in the guest, a sentence each.
    pub limits: Vec<String>,
}

impl Guest {
    /// Boots a guest, with KVM if that works.
    pub fn boot(options: &VmOptions) -> anyhow::Result<Self> {
        let mut limits = Vec::new();
        let mut failed = None;
        for acceleration in Acceleration::to_try() {
            let vm = Vm::boot(options, *acceleration).map_err(refused)?;
            match answered(vm, *acceleration) {
                Ok((session, vm)) => {
                    // `settle` may move the thread that serves QEMU's devices to the sender's CPU. The tester of a
                    // router uses that CPU with real-time priority, so QEMU stays on the other CPUs.
                    if !options.router {
                        vm.settle();
                    }
                    limits.extend((*acceleration == Acceleration::Tcg).then(|| EMULATED.to_owned()));
                    return Ok(Self { session, vm, limits });
                }
                Err(why) => failed = Some(why),
            }
        }
        let why = failed.unwrap_or_else(|| anyhow::anyhow!("there is no way to run a guest"));
        Err(why.context(format!("the guest with {} did not come up", options.model)))
    }

    /// This host's end of the link to the guest.
    pub fn near_end(&self) -> NearEnd {
        let (interface, address) = self.vm.near_end();
        NearEnd {
            interface,
            address: address.into(),
            netns: Some(self.vm.netns()),
            by_control_link: false,
            sending: Sending::default(),
            // If devices had to wait for a generator on their CPU, packets and timers would be late by hundreds of
            // microseconds.
            priority: self.vm.shared_cpu().map_or_else(Priority::default, Priority::behind_on),
        }
    }

    /// Converts an error of the guest's run. Adds the last messages of QEMU and the guest, unless the agent reported
    /// the error.
    pub fn of_run(&mut self, error: OfError) -> anyhow::Error {
        match error {
            error @ OfError::Failed { .. } => error.into(),
            error => self.explained(error.into()),
        }
    }

    /// Adds the last messages of QEMU and the guest to an error.
    fn explained(&mut self, error: anyhow::Error) -> anyhow::Error {
        let words = self.vm.last_words();
        anyhow::anyhow!("{error:#}; {words}")
    }
}

/// The user has to provide what the machine lacks, so such an error is one of usage.
fn refused(error: VmError) -> anyhow::Error {
    match error {
        VmError::Qemu(_) | VmError::Kernel(_) | VmError::Tap { .. } => output::usage(error),
        other => other.into(),
    }
}

fn answered(mut vm: Vm, acceleration: Acceleration) -> anyhow::Result<(Session, Vm)> {
    let handshake_s = if acceleration == Acceleration::Kvm { ANSWERS_KVM_S } else { ANSWERS_S };
    let limits = Limits { handshake_s, silence_s: SILENCE_S, ..Limits::default() };
    let session = connect(&mut vm, limits);
    session.map_err(|error| anyhow::anyhow!("{error:#}; {}", vm.last_words())).map(|session| (session, vm))
}

fn connect(vm: &mut Vm, limits: Limits) -> anyhow::Result<Session> {
    let control = vm.control().ok_or_else(|| anyhow::anyhow!("the guest has a session already"))?;
    let stream = Stream::of(control.try_clone()?, control, "the guest")?;
    Session::over(stream, None, None, env!("CARGO_PKG_VERSION"), limits).map_err(|error: ControlError| error.into())
}
