//! A router that is an XDP program: frames of each port go to the other port.
//!
//! In native mode a veth runs the program in the NAPI poll of the router's port. The kernel starts that poll on the CPU
//! that sends; a NAPI thread bound to the router's CPU takes over the poll, so that the tester's CPU does only the
//! tester's work. Frames that a program sends to a veth go into the ring of its far end, which exists only while that
//! end receives by NAPI: GRO is on there (`veth_xdp_xmit`, drivers/net/veth.c).

use std::{io, os::fd::AsRawFd};

use nix::unistd::Pid;

use super::{ForwardOptions, Forwarding, Side, router_interface};
use crate::{
    inventory::Limitation,
    nic::ethtool,
    rtnl::Rtnl,
    testbed::{TestbedError, endpoint::thread_napi, namespace::Namespace},
    xdp::{self, Mode},
};

/// Attaches the programs, if the router forwards by XDP, and returns the mode; `None` otherwise.
pub(super) fn redirect(
    router: &Namespace,
    tester: &[Namespace; 2],
    sides: &[Side; 2],
    options: &ForwardOptions,
    limits: &mut Vec<Limitation>,
) -> Result<Option<Mode>, TestbedError> {
    if options.forwarding == Forwarding::Xdp {
        match native(router, tester, sides, options.router_cpu)? {
            Ok(()) => return Ok(Some(Mode::Native)),
            Err(error) => limits.push(Limitation::XdpGeneric { reason: error.to_string() }),
        }
        // Undoes the changes of the failed attempt.
        router.run(|| (0..2).for_each(|n| drop(detach(n))))?;
        receive_by_napi(tester, sides, false)?.map_err(TestbedError::failed("switch GRO of the veth off again"))?;
    } else if options.forwarding != Forwarding::XdpGeneric {
        return Ok(None);
    }
    let attached = router.run(|| attach(Mode::Generic))?;
    attached.map_err(TestbedError::failed("attach an XDP program (this kernel may lack it)"))?;
    Ok(Some(Mode::Generic))
}

/// Sets up native mode; the inner error is the kernel's refusal.
fn native(
    router: &Namespace,
    tester: &[Namespace; 2],
    sides: &[Side; 2],
    cpu: u32,
) -> Result<io::Result<()>, TestbedError> {
    if let Some(reason) = router.sysfs_error() {
        return Ok(Err(io::Error::other(format!("its work cannot be put on the router's CPU: {reason}"))));
    }
    if let Err(error) = receive_by_napi(tester, sides, true)? {
        return Ok(Err(error));
    }
    router.run(|| {
        attach(Mode::Native)?;
        (0..2).try_for_each(|n| thread(&router_interface(n), cpu, 1))
    })
}

/// Makes the tester's ports receive by NAPI, or restores the previous state.
fn receive_by_napi(tester: &[Namespace; 2], sides: &[Side; 2], on: bool) -> Result<io::Result<()>, TestbedError> {
    for (namespace, side) in tester.iter().zip(sides) {
        if let Err(error) = namespace.run(|| ethtool::set_feature(&side.interface, c"rx-gro", on))? {
            return Ok(Err(error));
        }
    }
    Ok(Ok(()))
}

fn attach(mode: Mode) -> io::Result<()> {
    let mut rtnl = Rtnl::new();
    let mut ports = [0; 2];
    for (n, port) in ports.iter_mut().enumerate() {
        *port = rtnl.link(&router_interface(n))?.index;
    }
    for (from, to) in [(ports[0], ports[1]), (ports[1], ports[0])] {
        let program = xdp::redirect_to(to, mode)?;
        rtnl.attach_xdp(from, program.as_raw_fd(), mode.flag())?;
    }
    Ok(())
}

fn detach(n: usize) -> io::Result<()> {
    let mut rtnl = Rtnl::new();
    let index = rtnl.link(&router_interface(n))?.index;
    rtnl.detach_xdp(index, Mode::Native.flag())
}

/// Makes a NAPI thread on this CPU poll an interface, with a real-time priority.
pub(super) fn thread(interface: &str, cpu: u32, priority: i32) -> io::Result<()> {
    thread_napi(interface, &[cpu])?.into_iter().try_for_each(|thread| before_programs(thread, priority))
}

/// Gives a NAPI thread a real-time priority above programs: it does the work of a softirq, and the ring that it empties
/// has space for only 256 frames.
fn before_programs(thread: Pid, priority: i32) -> io::Result<()> {
    crate::schedule::set(thread, libc::SCHED_FIFO, priority)
}
