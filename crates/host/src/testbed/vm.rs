//! A guest of QEMU with a NIC that a real driver drives: the host under test of `find --testbed vm:DRIVER`, and the far
//! host of transfers.
//!
//! The guest boots a kernel of the distribution. Its only program is netcliff, which serves one client by a virtio port
//! as `netcliff agent --stdio` does. Its NIC is connected to a tap in a network namespace of this process, through
//! which the generator on this host sends. Nothing of the guest has a name on this host: it consists of descriptors, a
//! namespace and a process, which the kernel ends together with this process.
//!
//! | module | contents |
//! | --- | --- |
//! | `kernel` | selects the kernel, and the modules that its driver needs |
//! | `archive` | format of the initramfs |
//! | `image` | contents of the initramfs |
//! | `tap` | the wire, its MTU and rate |
//! | `acts` | settings that QEMU's device ignores |
//! | `machine` | the QEMU process |
//! | `guest` | netcliff as the guest's first process |

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
/// Environment variable that marks a guest that forwards: the kernel passes unknown parameters of its command line to
/// the first process.
const ROUTER: &str = "NETCLIFF_ROUTER";

/// A NIC of the guest and the wire connected to it.
#[derive(Debug)]
struct Port {
    /// Name of this host's end.
    tap: &'static str,
    /// Hardware address of the guest's end (locally administered).
    mac: [u8; 6],
    /// This host's address; `None` for a tester's port.
    here: Option<Ipv4Addr>,
    /// The guest's address.
    there: Ipv4Addr,
}

/// The NIC of a host.
const HOST: [Port; 1] = [Port { tap: tap::NAME, mac: [0x02, 0x6e, 0x63, 0, 0, 2], here: Some(HERE), there: THERE }];
/// The NICs of a router, which has the first address of each of RFC 2544's two networks.
const FORWARDS: [Port; 2] = [
    Port { tap: tap::NAME, mac: HOST[0].mac, here: None, there: HERE },
    Port { tap: "vm1", mac: [0x02, 0x6e, 0x63, 0, 0, 3], here: None, there: Ipv4Addr::new(198, 19, 0, 1) },
];

fn ports(router: bool) -> &'static [Port] {
    if router { &FORWARDS } else { &HOST }
}

/// A NIC that QEMU emulates and Linux has a driver for.
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
    /// VMware's vmxnet3.
    Vmxnet3,
}

impl Model {
    /// All models.
    pub const ALL: [Self; 5] = [Self::E1000, Self::E1000e, Self::Igb, Self::VirtioNet, Self::Vmxnet3];

    /// Its name in `vm:NAME`.
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

/// Options of the guest.
#[derive(Debug, Clone)]
pub struct VmOptions {
    /// The guest's NIC.
    pub model: Model,
    /// QEMU's program; `None`: `qemu-system-x86_64` of the PATH.
    pub qemu: Option<PathBuf>,
    /// Abstract UNIX socket of QEMU's monitor (HMP); `None`: no monitor.
    pub monitor: Option<String>,
    /// A bzImage; `None`: the newest below /boot.
    pub kernel: Option<PathBuf>,
    /// Directory of the kernel's modules; `None`: the directory for its release, next to the kernel or on this host.
    pub modules: Option<PathBuf>,
    /// Parameters of the driver's module, separated by blanks or commas.
    pub parameters: String,
    /// CPUs of the guest.
    pub cpus: u32,
    /// CPU of the generator on this host; QEMU does not use this CPU if there are others.
    pub sender_cpu: Option<u32>,
    /// Whether the wire carries unsegmented TCP without checksums if both ends' offloads allow it, as between guests of
    /// one host.
    pub whole_segments: bool,
    /// Whether the guest has two NICs, each connected to a tap without an address, and forwards between them.
    pub router: bool,
}

/// Why a guest could not be booted.
#[derive(Debug, thiserror::Error)]
pub enum VmError {
    /// QEMU is missing or too old.
    #[error("{0}")]
    Qemu(String),
    /// The kernel is missing, or lacks a driver.
    #[error("{0}")]
    Kernel(String),
    /// The tap could not be created.
    #[error("no tap for the guest's NIC: {why}; vm needs /dev/net/tun, readable and writable")]
    Tap {
        /// The system's error.
        why: std::io::Error,
    },
    /// The namespace for the tap could not be created.
    #[error(transparent)]
    Testbed(#[from] TestbedError),
    /// Another step failed.
    #[error("cannot {step}: {source}")]
    Step {
        /// Step that was attempted, as a verb and its object.
        step: String,
        /// The system's error.
        source: std::io::Error,
    },
}

fn step<S: Into<String>>(step: S) -> impl FnOnce(std::io::Error) -> VmError {
    let step = step.into();
    move |source| VmError::Step { step, source }
}

/// A guest that boots or runs. Dropping this value ends the guest.
#[derive(Debug)]
pub struct Vm {
    // QEMU must end before the wire is removed.
    machine: Machine,
    wire: Wire,
    control: Option<OwnedFd>,
    model: Model,
    ports: &'static [Port],
    kernel_release: String,
    acceleration: Acceleration,
}

impl Vm {
    /// Starts QEMU; the guest answers on [`Vm::control`] once it is up. Must be called in a thread that lives as long
    /// as the guest: the kernel kills QEMU when that thread ends.
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

    /// Takes the control channel; `None` at a second call.
    pub fn control(&mut self) -> Option<OwnedFd> {
        self.control.take()
    }

    /// Path of the namespace that the generator enters.
    pub fn netns(&self) -> PathBuf {
        self.wire.netns()
    }

    /// Moves the calling thread into the wire's network namespace, permanently: threads that it starts afterwards reach
    /// the guest.
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

    /// The guest's address on its first wire.
    pub fn address(&self) -> Ipv4Addr {
        self.ports[0].there
    }

    /// Names of this host's ends of a router's wires, and the router's hardware address at the first; `None` if the
    /// guest is no router.
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

    /// Describes the guest: NIC, kernel, and acceleration.
    pub fn describe(&self) -> String {
        let run = match self.acceleration {
            Acceleration::Kvm => "run by KVM",
            Acceleration::Tcg => "emulated by QEMU",
        };
        format!("a guest with {} and Linux {}, {run}", self.model, self.kernel_release)
    }

    /// The generator's interface in the namespace, and its address.
    pub fn near_end(&self) -> (String, Ipv4Addr) {
        (tap::NAME.to_owned(), HERE)
    }

    /// Places QEMU's threads for the measurement, once the guest is up.
    pub fn settle(&self) {
        self.machine.settle();
    }

    /// The generator's CPU if QEMU's devices are served on it, too; `None` otherwise.
    pub fn shared_cpu(&self) -> Option<usize> {
        self.machine.shared_cpu()
    }

    /// A CPU on which the guest's CPU does not run; `None` if this process has only one CPU.
    pub fn near_cpu(&self) -> Option<usize> {
        self.machine.near_cpu()
    }

    /// Exit status of QEMU, and the last lines of QEMU and of the guest's console, for an error message.
    pub fn last_words(&mut self) -> String {
        self.machine.last_words()
    }
}

/// Puts blanks between parameters. The kernel reads a comma as a separator between values of one parameter, so a part
/// without `=` is a further value of the parameter before it.
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

    /// The kernel would read `IntMode=1,RxIntDelay=0` as two values of IntMode, and refuse the second.
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
