//! XDP programs of a few instructions.

use std::{io, os::fd::OwnedFd};

use super::{
    Mode,
    assembler::{Assembler, BYTE, HALF, Reg, WORD},
    calls,
};

/// Functions of enum bpf_func_id, linux/bpf.h.
const KTIME_GET_NS: i32 = 5;
const REDIRECT: i32 = 23;
const REDIRECT_MAP: i32 = 51;
const XDP_ADJUST_META: i32 = 54;
/// XDP_PASS: the kernel continues with the frame.
const PASS: i32 = 2;
/// Offsets of `struct xdp_md`.
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const DATA_META: i16 = 8;
const RX_QUEUE_INDEX: i16 = 16;
/// Offsets in a frame of the EtherType, the protocol of IPv4 and the next header of IPv6.
const ETHER_TYPE: i16 = 12;
const IPV4_PROTOCOL: i16 = 14 + 9;
const IPV6_PROTOCOL: i16 = 14 + 6;
const VLAN_BYTES: i32 = 4;
/// Bytes read of a tagged frame: up to the protocol of IPv4.
const READ_BYTES: i32 = IPV4_PROTOCOL as i32 + VLAN_BYTES + 1;
const UDP: i32 = 17;

/// Loads the program `return bpf_redirect(index, 0);`. In native mode it accepts frames in several buffers.
pub(crate) fn redirect_to(index: u32, mode: Mode) -> io::Result<OwnedFd> {
    let mut program = Assembler::default();
    program.set(Reg(1), index as i32);
    program.set(Reg(2), 0);
    program.call(REDIRECT);
    program.exit();
    match mode {
        Mode::Native => calls::load_for_pieces(&program.finish(), "netcliff_pass"),
        Mode::Generic => calls::load(&program.finish(), "netcliff_pass"),
    }
}

/// Loads the program `return XDP_DROP;`.
#[cfg(test)]
pub(crate) fn drop_all() -> io::Result<OwnedFd> {
    const DROP: i32 = 1;
    let mut program = Assembler::default();
    program.set(Reg(0), DROP);
    program.exit();
    calls::load(&program.finish(), "netcliff_drop")
}

/// Assembles a program that passes frames of UDP over IPv4 or IPv6, with or without a VLAN tag, to the socket of their
/// queue, with the time before each frame. All other frames, and frames of queues without a socket, go to the kernel,
/// which still answers ARP and neighbour solicitations.
pub(super) fn to_sockets(map: i32) -> Vec<u64> {
    let (context, frame, end, probe, field, time) = (Reg(6), Reg(2), Reg(3), Reg(4), Reg(5), Reg(7));
    let mut program = Assembler::default();
    program.copy(context, Reg(1));
    program.read(WORD, frame, context, DATA);
    program.read(WORD, end, context, DATA_END);
    program.copy(probe, frame);
    program.increase(probe, READ_BYTES);
    program.go_if_above(probe, end, "pass");
    program.read(HALF, field, frame, ETHER_TYPE);
    program.go_unless_equal(field, on_the_wire(0x8100), "untagged");
    program.increase(frame, VLAN_BYTES);
    program.read(HALF, field, frame, ETHER_TYPE);
    program.place("untagged");
    program.go_if_equal(field, on_the_wire(0x0800), "ipv4");
    program.go_unless_equal(field, on_the_wire(0x86dd), "pass");
    program.read(BYTE, field, frame, IPV6_PROTOCOL);
    program.go("protocol");
    program.place("ipv4");
    program.read(BYTE, field, frame, IPV4_PROTOCOL);
    program.place("protocol");
    program.go_unless_equal(field, UDP, "pass");
    program.call(KTIME_GET_NS);
    program.copy(time, Reg(0));
    program.copy(Reg(1), context);
    program.set(Reg(2), -8);
    program.call(XDP_ADJUST_META);
    program.go_unless_equal(Reg(0), 0, "redirect");
    program.read(WORD, frame, context, DATA_META);
    program.read(WORD, end, context, DATA);
    program.copy(probe, frame);
    program.increase(probe, 8);
    program.go_if_above(probe, end, "redirect");
    program.store(frame, time);
    program.place("redirect");
    program.read(WORD, Reg(2), context, RX_QUEUE_INDEX);
    program.set_map(Reg(1), map);
    program.set(Reg(3), PASS);
    program.call(REDIRECT_MAP);
    program.exit();
    program.place("pass");
    program.set(Reg(0), PASS);
    program.exit();
    program.finish()
}

/// A 16-bit field in the byte order in which a program reads it.
fn on_the_wire(value: u16) -> i32 {
    u16::from_ne_bytes(value.to_be_bytes()).into()
}
