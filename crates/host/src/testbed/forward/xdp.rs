//! The smallest XDP program that forwards, assembled by hand: it needs no compiler and no object file.

use std::{
    io,
    os::fd::{FromRawFd, OwnedFd},
};

/// BPF_PROG_LOAD of enum bpf_cmd and BPF_PROG_TYPE_XDP, linux/bpf.h.
const PROG_LOAD: libc::c_int = 5;
const TYPE_XDP: u32 = 6;
/// BPF_ALU64 | BPF_MOV | BPF_K, BPF_JMP | BPF_CALL, BPF_JMP | BPF_EXIT.
const MOV: u8 = 0xb7;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
/// BPF_FUNC_redirect.
const REDIRECT: u32 = 23;

/// The start of `union bpf_attr` for BPF_PROG_LOAD, up to `prog_flags`.
#[repr(C)]
struct Load {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
}

/// An instruction: code, registers (source high, destination low), offset, value.
fn instruction(code: u8, destination: u8, value: u32) -> u64 {
    u64::from_ne_bytes({
        let [a, b, c, d] = value.to_ne_bytes();
        [code, destination, 0, 0, a, b, c, d]
    })
}

/// Loads `return bpf_redirect(index, 0);`.
pub(super) fn redirect_to(index: u32) -> io::Result<OwnedFd> {
    let program =
        [instruction(MOV, 1, index), instruction(MOV, 2, 0), instruction(CALL, 0, REDIRECT), instruction(EXIT, 0, 0)];
    let load = Load {
        prog_type: TYPE_XDP,
        insn_cnt: program.len() as u32,
        insns: program.as_ptr() as u64,
        license: c"GPL".as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log_buf: 0,
        kern_version: 0,
        prog_flags: 0,
    };
    // SAFETY: `load` is laid out as the kernel reads it and its pointers are to values that outlive the call.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, PROG_LOAD, &raw const load, size_of::<Load>()) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just opened it, and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
}
