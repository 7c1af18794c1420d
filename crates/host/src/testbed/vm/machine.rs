//! The QEMU process.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::unistd::{Pid, getppid};

use super::kernel::Kernel;
use super::tap::Wire;
use super::{Model, PORT_NAME, Port, ROUTER, VmError, VmOptions, ports, step};
use crate::system;

const QEMU: &str = "qemu-system-x86_64";
const MEMORY_MIB: u32 = 1024;
/// Environment variable with the filter of the log.
const LOG: &str = "NETCLIFF_LOG";
/// Number of last lines stored for an error message.
const LINES: usize = 8;
/// Nice value of the thread that serves the devices.
const FIRST_IN_LINE: i32 = -10;
/// Longest wait for the output of an ended QEMU.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// How the guest's instructions are executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acceleration {
    /// By this host's processor (KVM).
    Kvm,
    /// By translation, many times slower (TCG).
    Tcg,
}

impl Acceleration {
    /// Accelerations to try, in order: /dev/kvm may exist and still not work.
    pub fn to_try() -> &'static [Self] {
        let kvm = File::options().read(true).write(true).open("/dev/kvm").is_ok();
        if kvm { &[Self::Kvm, Self::Tcg] } else { &[Self::Tcg] }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Tcg => "tcg",
        }
    }
}

/// Path of QEMU's program.
fn program(options: &VmOptions) -> &OsStr {
    options.qemu.as_ref().map_or(OsStr::new(QEMU), |path| path.as_os_str())
}

/// Refuses a QEMU that is missing or does not emulate the device.
pub(super) fn check(options: &VmOptions) -> Result<(), VmError> {
    let (model, qemu) = (options.model, program(options).display());
    let asked = Command::new(program(options))
        .args(["-device", &format!("{},help", model.device())])
        .stdin(Stdio::null())
        .output();
    let output = asked.map_err(|error| {
        VmError::Qemu(format!(
            "{qemu} cannot be run ({error}): install it (Debian: qemu-system-x86), name another with --vm-qemu PATH, or choose --testbed netns"
        ))
    })?;
    // The exit code is the same for known and unknown devices.
    if String::from_utf8_lossy(&output.stdout).contains(&format!("{} options", model.device())) {
        return Ok(());
    }
    let since = if model == Model::Igb { "; igb came with QEMU 8.0, and --vm-qemu PATH names another" } else { "" };
    Err(VmError::Qemu(format!("this {qemu} has no {}{since}", model.device())))
}

/// A running QEMU; it ends when this value is dropped, or when the thread that started it ends.
#[derive(Debug)]
pub(super) struct Machine {
    child: Child,
    /// The generator's CPU, if this process has only one other CPU: QEMU's devices are then served on the generator's
    /// CPU.
    shared_cpu: Option<Vec<usize>>,
    /// The generator's CPU, if other CPUs are left.
    near_cpu: Option<usize>,
    said: Arc<Mutex<VecDeque<String>>>,
}

impl Machine {
    /// Starts QEMU; also returns this process's end of the control channel.
    pub(super) fn start(
        options: &VmOptions,
        kernel: &Kernel,
        image: Vec<u8>,
        wire: &Wire,
        acceleration: Acceleration,
    ) -> Result<(Self, OwnedFd), VmError> {
        let image = in_memory(&image).map_err(step("keep the guest's initramfs in memory"))?;
        let pair = || UnixStream::pair().map_err(step("make a pair of sockets"));
        let ((control, control_there), (console, console_there)) = (pair()?, pair()?);
        let own = [image.as_raw_fd(), control_there.as_raw_fd(), console_there.as_raw_fd()];
        let taps: Vec<RawFd> = wire.fds().map(|fd| fd.as_raw_fd()).collect();
        let mut command = Command::new(program(options));
        command.args(arguments(options, acceleration, own, &taps)).arg("-kernel").arg(&kernel.path);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        // Ctrl-C must reach only netcliff, which ends QEMU itself, after the last values are read from the guest.
        command.process_group(0);
        let (parent, cpus) = (Pid::this(), cpus_beside(options.sender_cpu));
        let (bound, inherited) = (cpus.clone(), [&own[..], &taps].concat());
        // SAFETY: only system calls follow the fork, on values made before it.
        unsafe { command.pre_exec(move || prepare(parent, bound.as_deref(), &inherited)) };
        let mut child = command.spawn().map_err(step(format!("run {}", program(options).display())))?;
        let said = Arc::<Mutex<VecDeque<String>>>::default();
        if let Some(stderr) = child.stderr.take() {
            listen(stderr, "QEMU", Arc::clone(&said));
        }
        listen(console, "guest", Arc::clone(&said));
        let others = cpus.as_deref().and_then(others);
        let near_cpu = others.as_ref().and_then(|others| others.first().copied());
        let shared_cpu = others.filter(|_| cpus.is_some_and(|cpus| cpus.len() == 1));
        Ok((Self { child, shared_cpu, near_cpu, said }, control.into()))
    }

    /// Moves the thread that serves QEMU's devices to the generator's CPU if the guest runs on the only other CPU: on
    /// the guest's CPU each run of this thread would interrupt the guest.
    pub(super) fn settle(&self) {
        let Some(cpus) = &self.shared_cpu else { return };
        // The first thread serves the devices. Without the right to raise its priority, the generator sends late at
        // times, and reports this.
        let main = self.child.id();
        let _ = system::bind_thread(main as i32, cpus);
        // SAFETY: setpriority takes numbers.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, main as _, FIRST_IN_LINE) };
    }

    pub(super) fn shared_cpu(&self) -> Option<usize> {
        self.shared_cpu.as_ref()?.first().copied()
    }

    pub(super) fn near_cpu(&self) -> Option<usize> {
        self.near_cpu
    }

    pub(super) fn last_words(&mut self) -> String {
        let deadline = Instant::now() + LAST_WORDS;
        let mut ended = self.child.try_wait().ok().flatten();
        while ended.is_none() && Instant::now() < deadline {
            std::thread::sleep(LAST_WORDS / 20);
            ended = self.child.try_wait().ok().flatten();
        }
        let state = ended.map_or_else(|| "QEMU still runs".to_owned(), |status| format!("QEMU ended ({status})"));
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.is_empty() {
            return format!("{state} and said nothing");
        }
        format!("{state}; the last lines: {}", said.iter().cloned().collect::<Vec<_>>().join(" | "))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn in_memory(bytes: &[u8]) -> std::io::Result<OwnedFd> {
    let mut file = File::from(system::memory_file(c"netcliff-guest")?);
    file.write_all(bytes)?;
    Ok(file.into())
}

fn arguments(
    options: &VmOptions,
    acceleration: Acceleration,
    [image, control, console]: [RawFd; 3],
    taps: &[RawFd],
) -> Vec<String> {
    let (device, accelerator, cpus) = (options.model.device(), acceleration.name(), options.cpus);
    let cpu = if acceleration == Acceleration::Kvm { "host" } else { "max" };
    // The guest uses the processor's clock: any other clock is an emulated device, whose access costs more than a
    // packet's protocol work.
    let append =
        "console=ttyS0 quiet panic=-1 no_timer_check tsc=reliable net.ifnames=0 ipv6.disable=1 rdinit=/netcliff";
    // The kernel passes unknown parameters to its first program as environment: the guest logs with this program's
    // filter.
    let log = std::env::var(LOG).ok().filter(|filter| !filter.is_empty() && !filter.contains(['"', ' ']));
    let log = log.map_or_else(String::new, |filter| format!(" {LOG}={filter}"));
    let router = if options.router { format!(" {ROUTER}=1") } else { String::new() };
    let append = format!("{append}{log}{router} -- guest");
    let nic = |(at, (tap, port)): (usize, (&RawFd, &Port))| {
        let mac = port.mac.map(|byte| format!("{byte:02x}")).join(":");
        let id = if at == 0 { "wire".to_owned() } else { format!("wire{at}") };
        format!("-netdev tap,id={id},fd={tap} -device {device},netdev={id},mac={mac},romfile=")
    };
    let nics: Vec<String> = taps.iter().zip(ports(options.router)).enumerate().map(nic).collect();
    let all = [
        format!(
            "-accel {accelerator} -M q35 -cpu {cpu} -smp {cpus} -m {MEMORY_MIB} -nodefaults -no-user-config -no-reboot"
        ),
        format!("-name netcliff,debug-threads=on -display none -initrd /proc/self/fd/{image}"),
        format!("-chardev socket,id=console,fd={console} -serial chardev:console"),
        format!("-device virtio-serial-pci -chardev socket,id=control,fd={control}"),
        format!("-device virtserialport,chardev=control,name={PORT_NAME}"),
    ];
    let monitor = options.monitor.as_ref().map(|name| {
        format!("-chardev socket,id=monitor,path={name},abstract=on,server=on,wait=off -mon chardev=monitor")
    });
    let mut words: Vec<String> =
        all.iter().chain(&nics).chain(&monitor).flat_map(|part| part.split(' ').map(str::to_owned)).collect();
    words.extend(["-append".to_owned(), append]);
    words
}

/// CPUs of this process except the generator's; `None` if that is the only one.
fn cpus_beside(sender: Option<u32>) -> Option<Vec<usize>> {
    let own = system::cpus_of_thread(0).ok()?;
    let of_sender = sender.map_or(*own.first()?, |cpu| cpu as usize);
    let cpus: Vec<usize> = own.into_iter().filter(|cpu| *cpu != of_sender).collect();
    (!cpus.is_empty()).then_some(cpus)
}

/// CPUs of this process except these; `None` if the CPUs of this process cannot be read.
fn others(cpus: &[usize]) -> Option<Vec<usize>> {
    Some(system::cpus_of_thread(0).ok()?.into_iter().filter(|cpu| !cpus.contains(cpu)).collect())
}

/// Runs in the child process before it executes QEMU.
fn prepare(parent: Pid, cpus: Option<&[usize]>, inherited: &[RawFd]) -> std::io::Result<()> {
    system::end_with_parent(Signal::SIGKILL)?;
    if getppid() != parent {
        return Err(std::io::Error::other("netcliff has gone"));
    }
    if let Some(cpus) = cpus {
        system::bind_thread(0, cpus)?;
    }
    for fd in inherited {
        // SAFETY: a descriptor of this process stays open over exec.
        if unsafe { libc::fcntl(*fd, libc::F_SETFD, 0) } != 0 {
            return Err(std::io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Collects the last lines of an output until it ends.
fn listen(from: impl Read + Send + 'static, who: &'static str, said: Arc<Mutex<VecDeque<String>>>) {
    std::thread::spawn(move || {
        let mut lines = BufReader::new(from);
        let mut line = Vec::new();
        while lines.by_ref().take(4096).read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
            let text: String = String::from_utf8_lossy(&line).chars().filter(|c| !c.is_control()).collect();
            line.clear();
            if text.trim().is_empty() {
                continue;
            }
            tracing::debug!("{who}: {text}");
            let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
            said.push_back(format!("{who}: {}", text.trim()));
            if said.len() > LINES {
                said.pop_front();
            }
        }
    });
}
