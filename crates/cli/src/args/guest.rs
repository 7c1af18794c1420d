//! Options of a guest.

use std::path::PathBuf;

use clap::Args;
use netcliff_host::testbed::vm::{Model, VmOptions};

/// What a guest of QEMU is made of.
#[derive(Debug, Args)]
pub struct GuestArgs {
    /// Kernel of a guest, a bzImage [default: the newest in /boot]
    #[arg(long, value_name = "FILE", help_heading = "Testbed", hide_short_help = true)]
    pub vm_kernel: Option<PathBuf>,
    /// Directory of its modules [default: next to it, or /lib/modules/RELEASE]
    #[arg(long, value_name = "DIR", help_heading = "Testbed", hide_short_help = true)]
    pub vm_modules: Option<PathBuf>,
    /// QEMU's program, or a script that runs it [default: qemu-system-x86_64 of the PATH]
    #[arg(long, value_name = "PROGRAM", help_heading = "Testbed", hide_short_help = true)]
    pub vm_qemu: Option<PathBuf>,
}

impl GuestArgs {
    /// A guest of one CPU with this NIC.
    pub fn of(&self, model: Model) -> VmOptions {
        VmOptions {
            model,
            qemu: self.vm_qemu.clone(),
            monitor: None,
            kernel: self.vm_kernel.clone(),
            modules: self.vm_modules.clone(),
            parameters: String::new(),
            cpus: 1,
            sender_cpu: None,
        }
    }
}
