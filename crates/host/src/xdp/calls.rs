//! Commands of bpf(2) that load, attach, run and describe XDP programs.

use std::{
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
};

use super::Mode;

/// Commands of enum bpf_cmd, linux/bpf.h.
const MAP_CREATE: libc::c_int = 0;
const MAP_UPDATE_ELEM: libc::c_int = 2;
const PROG_LOAD: libc::c_int = 5;
const PROG_TEST_RUN: libc::c_int = 10;
const PROG_GET_FD_BY_ID: libc::c_int = 13;
const OBJ_GET_INFO_BY_FD: libc::c_int = 15;
const LINK_CREATE: libc::c_int = 28;
/// BPF_PROG_TYPE_XDP, BPF_MAP_TYPE_XSKMAP and BPF_XDP of enum bpf_attach_type.
const TYPE_XDP: u32 = 6;
const TYPE_XSKMAP: u32 = 17;
const ATTACH_XDP: u32 = 37;

/// BPF_F_XDP_HAS_FRAGS, linux/bpf.h (Linux 5.18).
const TAKES_PIECES: u32 = 1 << 5;

/// BPF_F_TEST_XDP_LIVE_FRAMES, linux/bpf.h (Linux 5.18).
const LIVE_FRAMES: u32 = 1 << 1;

/// BPF_OBJ_NAME_LEN, including the terminating zero.
const NAME_BYTES: usize = 16;

/// The parts of `union bpf_attr` that the commands read.
#[repr(C)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
}

#[repr(C)]
struct MapUpdate {
    map_fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

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
    prog_name: [u8; NAME_BYTES],
}

#[repr(C)]
#[derive(Default)]
struct TestRun {
    prog_fd: u32,
    retval: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    ctx_sizes: [u32; 2],
    contexts: [u64; 2],
    flags: u32,
    cpu: u32,
    batch_size: u32,
    padding: u32,
}

#[repr(C)]
struct LinkCreate {
    prog_fd: u32,
    target_ifindex: u32,
    attach_type: u32,
    flags: u32,
}

#[repr(C)]
struct ById {
    id: u32,
    next_id: u32,
    open_flags: u32,
}

#[repr(C)]
struct InfoByFd {
    bpf_fd: u32,
    info_len: u32,
    info: u64,
}

/// `struct bpf_prog_info` up to `name`.
#[repr(C)]
#[derive(Default)]
struct ProgramInfo {
    kind: u32,
    id: u32,
    tag: [u8; 8],
    lengths: [u32; 2],
    programs: [u64; 2],
    load_time: u64,
    created_by_uid: u32,
    nr_map_ids: u32,
    map_ids: u64,
    name: [u8; NAME_BYTES],
}

/// Creates a map of AF_XDP sockets by queue.
pub(super) fn make_socket_map(queues: u32) -> io::Result<OwnedFd> {
    descriptor(
        MAP_CREATE,
        &MapCreate { map_type: TYPE_XSKMAP, key_size: 4, value_size: 4, max_entries: queues.max(1), map_flags: 0 },
    )
}

pub(super) fn put_socket(map: &OwnedFd, queue: u32, socket: RawFd) -> io::Result<()> {
    let (key, value) = ((&raw const queue) as u64, (&raw const socket) as u64);
    bpf(MAP_UPDATE_ELEM, &MapUpdate { map_fd: map.as_raw_fd() as u32, padding: 0, key, value, flags: 0 }).map(drop)
}

/// Loads an XDP program under a name of at most 15 letters, digits and underscores.
pub(super) fn load(program: &[u64], name: &str) -> io::Result<OwnedFd> {
    load_with(program, name, 0)
}

/// Loads, under a name, an XDP program that accepts frames in several buffers. In native mode these are frames that
/// exceed a page.
pub(super) fn load_for_pieces(program: &[u64], name: &str) -> io::Result<OwnedFd> {
    load_with(program, name, TAKES_PIECES)
}

fn load_with(program: &[u64], name: &str, prog_flags: u32) -> io::Result<OwnedFd> {
    let mut prog_name = [0; NAME_BYTES];
    prog_name.iter_mut().take(NAME_BYTES - 1).zip(name.bytes()).for_each(|(to, from)| *to = from);
    descriptor(
        PROG_LOAD,
        &Load {
            prog_type: TYPE_XDP,
            insn_cnt: program.len() as u32,
            insns: program.as_ptr() as u64,
            license: c"GPL".as_ptr() as u64,
            log_level: 0,
            log_size: 0,
            log_buf: 0,
            kern_version: 0,
            prog_flags,
            prog_name,
        },
    )
}

/// Attaches a program for as long as the link is open.
pub(crate) fn attach(program: &OwnedFd, index: u32, mode: Mode) -> io::Result<OwnedFd> {
    let flags = mode.flag();
    descriptor(
        LINK_CREATE,
        &LinkCreate { prog_fd: program.as_raw_fd() as u32, target_ifindex: index, attach_type: ATTACH_XDP, flags },
    )
}

/// Runs a program on copies of a frame in batches of `batch`, and carries out its verdict on each. The frames seem to
/// come from the loopback device of the thread's network namespace.
#[cfg_attr(not(have_bpf), allow(dead_code, reason = "the programs are compiled C"))]
pub(crate) fn run_live(program: RawFd, frame: &[u8], repeat: u32, batch: u32) -> io::Result<()> {
    let run = TestRun {
        prog_fd: program as u32,
        data_size_in: frame.len() as u32,
        data_in: frame.as_ptr() as u64,
        repeat,
        flags: LIVE_FRAMES,
        batch_size: batch,
        ..TestRun::default()
    };
    bpf(PROG_TEST_RUN, &run).map(drop)
}

/// Name under which a program was loaded; `None` if it has no name, is gone, or the right to read it is missing.
pub fn program_name(id: u32) -> Option<String> {
    let program = descriptor(PROG_GET_FD_BY_ID, &ById { id, next_id: 0, open_flags: 0 }).ok()?;
    let mut info = ProgramInfo::default();
    let ask = InfoByFd {
        bpf_fd: program.as_raw_fd() as u32,
        info_len: size_of::<ProgramInfo>() as u32,
        info: (&raw mut info) as u64,
    };
    bpf(OBJ_GET_INFO_BY_FD, &ask).ok()?;
    let name = info.name.split(|byte| *byte == 0).next().unwrap_or_default();
    (!name.is_empty()).then(|| String::from_utf8_lossy(name).into_owned())
}

fn descriptor<T>(command: libc::c_int, attributes: &T) -> io::Result<OwnedFd> {
    let fd = bpf(command, attributes)?;
    // SAFETY: the kernel just opened the descriptor, because the command is one that returns a descriptor, and nobody
    // else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
}

fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<libc::c_long> {
    // SAFETY: the attributes are laid out as the kernel reads them for this command, and their pointers are to values
    // that outlive the call, as all callers in this file ensure.
    unsafe { crate::system::bpf(command, attributes) }
}
