//! A guest of QEMU whose NIC is one that a real driver drives: the host under test of `find --testbed vm:DRIVER`, and the far host of
//! transfers.
//!
//! The guest boots a kernel of the distribution and has one program, this one, which serves one client by a virtio port as
//! `netcliff agent --stdio` does. Its NIC is joined to a tap in a network namespace of this process's own, by which the generator
//! here sends. Nothing of it has a name on this host: descriptors, a namespace and a process that the kernel ends with this one.
//!
//! | module | holds |
//! | --- | --- |
//! | `kernel` | which kernel boots, and the modules that its driver needs |
//! | `archive` | the initramfs |
//! | `image` | what is in it |
//! | `tap` | the wire, and its MTU and rate |
//! | `acts` | which settings QEMU's device follows |
//! | `machine` | QEMU |
//! | `guest` | what this program does there as the first process |

mod acts;
mod archive;
pub mod guest;
mod image;
mod kernel;
mod machine;
mod tap;

use std::fmt;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::str::FromStr;

use netcliff_core::ParseError;

use super::TestbedError;
use machine::Machine;

pub use acts::without_effect;
pub use machine::Acceleration;
pub use tap::Wire;

/// Name of the port that carries the control channel.
const PORT_NAME: &str = "netcliff";
/// Addresses of both ends: RFC 2544, section C.2.2.
const HERE: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const THERE: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
const PREFIX: u8 = 24;
/// What a guest that forwards finds in its environment: the kernel passes on what it does not know of its command line.
const ROUTER: &str = "NETCLIFF_ROUTER";

/// A NIC of the guest and the wire at it.
#[derive(Debug)]
struct Port {
    /// Name of this host's end.
    tap: &'static str,
    /// Hardware address of the guest's end (locally administered).
    mac: [u8; 6],
    /// This host's address; a tester's port has none.
    here: Option<Ipv4Addr>,
    /// The guest's address.
    there: Ipv4Addr,
}

/// The NIC of a host.
const HOST: [Port; 1] = [Port { tap: tap::NAME, mac: [0x02, 0x6e, 0x63, 0, 0, 2], here: Some(HERE), there: THERE }];
/// The NICs of a router, which is the first address of RFC 2544's two networks.
const FORWARDS: [Port; 2] = [
    Port { tap: tap::NAME, mac: HOST[0].mac, here: None, there: HERE },
    Port { tap: "vm1", mac: [0x02, 0x6e, 0x63, 0, 0, 3], here: None, there: Ipv4Addr::new(198, 19, 0, 1) },
];

fn ports(router: bool) -> &'static [Port] {
    if router { &FORWARDS } else { &HOST }
}

/// A NIC that QEMU has and Linux drives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Model {
    /// Intel 82540EM.
    E1000,
    /// Intel 82574L.
    E1000e,
    /// Intel 82576.
    Igb,
    /// virtio.
    VirtioNet,
    /// VMware's.
    Vmxnet3,
}

impl Model {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::E1000, Self::E1000e, Self::Igb, Self::VirtioNet, Self::Vmxnet3];

    /// As it is written in `vm:NAME`.
    pub fn name(self) -> &'static str {
        match self {
            Self::E1000 => "e1000",
            Self::E1000e => "e1000e",
            Self::Igb => "igb",
            Self::VirtioNet => "virtio-net",
            Self::Vmxnet3 => "vmxnet3",
        }
    }

    /// The driver's module.
    fn module(self) -> &'static str {
        if self == Self::VirtioNet { "virtio_net" } else { self.name() }
    }

    /// QEMU's name of the device.
    fn device(self) -> &'static str {
        if self == Self::VirtioNet { "virtio-net-pci" } else { self.name() }
    }
}

impl fmt::Display for Model {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl FromStr for Model {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let found = Self::ALL.into_iter().find(|model| model.name() == text || model.module() == text);
        found.ok_or_else(|| ParseError::new("vm", text, "expected e1000, e1000e, igb, virtio-net or vmxnet3"))
    }
}

/// What to boot.
#[derive(Debug, Clone)]
pub struct VmOptions {
    /// The guest's NIC.
    pub model: Model,
    /// The program; None: `qemu-system-x86_64` of the PATH.
    pub qemu: Option<PathBuf>,
    /// Abstract UNIX socket of QEMU's monitor (HMP); None: it has none.
    pub monitor: Option<String>,
    /// A bzImage; None: the newest below /boot.
    pub kernel: Option<PathBuf>,
    /// The directory of its modules; None: that of its release, beside it or of this host.
    pub modules: Option<PathBuf>,
    /// Parameters of the driver's module, with blanks or commas between them.
    pub parameters: String,
    /// CPUs of the guest.
    pub cpus: u32,
    /// The CPU of the generator here, which QEMU leaves alone where there are others.
    pub sender_cpu: Option<u32>,
    /// The wire carries TCP segments and checksums whole where both ends' offloads allow it, as between guests of one host.
    pub whole_segments: bool,
    /// It has two NICs, each at a tap without an address, and forwards between them.
    pub router: bool,
}

/// Why there is no guest.
#[derive(Debug, thiserror::Error)]
pub enum VmError {
    /// QEMU is missing or too old.
    #[error("{0}")]
    Qemu(String),
    /// No kernel, or one that lacks something.
    #[error("{0}")]
    Kernel(String),
    /// No tap.
    #[error("no tap for the guest's NIC: {why}; vm needs /dev/net/tun, readable and writable")]
    Tap {
        /// The system's answer.
        why: std::io::Error,
    },
    /// No namespace for the tap.
    #[error(transparent)]
    Testbed(#[from] TestbedError),
    /// Another step failed.
    #[error("cannot {step}: {source}")]
    Step {
        /// What was tried, as a verb and its object.
        step: String,
        /// The system's answer.
        source: std::io::Error,
    },
}

fn step<S: Into<String>>(step: S) -> impl FnOnce(std::io::Error) -> VmError {
    let step = step.into();
    move |source| VmError::Step { step, source }
}

/// A guest that boots or runs. Dropping it ends it.
#[derive(Debug)]
pub struct Vm {
    // QEMU goes before the wire.
    machine: Machine,
    wire: Wire,
    control: Option<OwnedFd>,
    model: Model,
    ports: &'static [Port],
    kernel_release: String,
    acceleration: Acceleration,
}

impl Vm {
    /// Starts QEMU; the guest answers on [`Vm::control`] once it is up. Call it on a thread that lives as long as the guest shall: QEMU
    /// is killed with it.
    ///
    /// # Errors
    /// See [`VmError`].
    pub fn boot(options: &VmOptions, acceleration: Acceleration) -> Result<Self, VmError> {
        let kernel = kernel::find(options)?;
        machine::check(options)?;
        let modules = kernel.modules(options)?;
        let image = image::of_this_program(&modules, &as_kernel_takes(&options.parameters))?;
        let wire = Wire::make(ports(options.router), options.whole_segments)?;
        let (machine, control) = Machine::start(options, &kernel, image, &wire, acceleration)?;
        Ok(Self {
            machine,
            wire,
            control: Some(control),
            model: options.model,
            ports: ports(options.router),
            kernel_release: kernel.release,
            acceleration,
        })
    }

    /// The control channel; once.
    pub fn control(&mut self) -> Option<OwnedFd> {
        self.control.take()
    }

    /// The namespace that the generator enters, as a file.
    pub fn netns(&self) -> PathBuf {
        self.wire.netns()
    }

    /// Moves the calling thread into the wire's network namespace, for good: threads that it starts from then on reach the guest.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn enter(&self) -> Result<(), VmError> {
        self.wire.enter()
    }

    /// The wire.
    pub fn wire(&self) -> &Wire {
        &self.wire
    }

    /// The guest's address on its (first) wire.
    pub fn address(&self) -> Ipv4Addr {
        self.ports[0].there
    }

    /// Names of this host's ends of a router's wires, and the hardware address that the router has at the first.
    pub fn router_ports(&self) -> Option<([&'static str; 2], [u8; 6])> {
        match self.ports {
            [from, to] => Some(([from.tap, to.tap], from.mac)),
            _ => None,
        }
    }

    /// Its NIC.
    pub fn model(&self) -> Model {
        self.model
    }

    /// The guest in words: NIC, kernel, and how it is run.
    pub fn describe(&self) -> String {
        let run = match self.acceleration {
            Acceleration::Kvm => "run by KVM",
            Acceleration::Tcg => "emulated by QEMU",
        };
        format!("a guest with {} and Linux {}, {run}", self.model, self.kernel_release)
    }

    /// The generator's interface there, and its address.
    pub fn near_end(&self) -> (String, Ipv4Addr) {
        (tap::NAME.to_owned(), HERE)
    }

    /// Places QEMU's threads for the measurement, once the guest is up.
    pub fn settle(&self) {
        self.machine.settle();
    }

    /// The generator's CPU, where QEMU's devices are served on it, too.
    pub fn shared_cpu(&self) -> Option<usize> {
        self.machine.shared_cpu()
    }

    /// The CPU on which the guest's CPU does not run; None where this process has one only.
    pub fn near_cpu(&self) -> Option<usize> {
        self.machine.near_cpu()
    }

    /// What became of QEMU, and the last lines of QEMU and of the guest's console, for the message of a failure.
    pub fn last_words(&mut self) -> String {
        self.machine.last_words()
    }
}

/// Parameters with blanks between them. A comma is for the kernel between values of one parameter: what has no name belongs to the one before.
fn as_kernel_takes(parameters: &str) -> String {
    let words = parameters.split([' ', ',']).filter(|word| !word.is_empty());
    words.fold(String::new(), |mut text, word| {
        if !text.is_empty() {
            text.push(if word.contains('=') { ' ' } else { ',' });
        }
        text + word
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `IntMode=1,RxIntDelay=0` would be two values of IntMode, and the kernel refuses the second.
    #[test]
    fn commas_between_parameters_become_blanks() {
        for (given, taken) in [
            ("", ""),
            ("IntMode=1", "IntMode=1"),
            ("IntMode=1,RxIntDelay=0", "IntMode=1 RxIntDelay=0"),
            ("IntMode=1,2 RxIntDelay=0, debug=3", "IntMode=1,2 RxIntDelay=0 debug=3"),
        ] {
            assert_eq!(as_kernel_takes(given), taken);
        }
    }

    #[test]
    fn drivers_by_qemu_s_name_and_the_kernel_s() {
        assert_eq!("virtio_net".parse::<Model>().ok(), Some(Model::VirtioNet));
        for model in Model::ALL {
            assert_eq!(model.to_string().parse::<Model>().ok(), Some(model));
        }
        let refused = "rtl8139".parse::<Model>().unwrap_err().to_string();
        assert!(refused.contains("rtl8139") && refused.contains("e1000e"), "{refused}");
    }
}
