//! nf_tables rules, as few netlink messages as they take: the `nft` program need not be there.

use std::{
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
};

/// First UDP port that the rules refuse: the tester does not use it.
const REFUSED_PORT: u16 = 60_000;
const TABLE: &str = "netcliff";
const CHAIN: &str = "forward";

// linux/netfilter/nfnetlink.h and nf_tables.h.
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const NF_TABLES: u16 = 10;
const NEW_TABLE: u16 = 0;
const NEW_CHAIN: u16 = 3;
const NEW_RULE: u16 = 6;
const FAMILY_INET: u8 = 1;
const HOOK_FORWARD: u32 = 2;
const ACCEPT: u32 = 1;
const DROP: u32 = 0;
const NESTED: u16 = 1 << 15;
const REGISTER_1: u32 = 1;
const TRANSPORT_HEADER: u32 = 2;

/// One message a command, wrapped in a batch. The kernel answers the commands that fail, and the last: an answer each
/// would not fit a socket's buffer.
pub(super) struct Batch {
    bytes: Vec<u8>,
    messages: u32,
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(4 + value.len() + 3);
    bytes.extend((4 + value.len() as u16).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn nested(kind: u16, parts: &[Vec<u8>]) -> Vec<u8> {
    attribute(kind | NESTED, &parts.concat())
}

fn word(kind: u16, value: u32) -> Vec<u8> {
    attribute(kind, &value.to_be_bytes())
}

fn name(kind: u16, text: &str) -> Vec<u8> {
    attribute(kind, &[text.as_bytes(), &[0]].concat())
}

fn expression(kind: &str, data: &[Vec<u8>]) -> Vec<u8> {
    nested(1, &[name(1, kind), nested(2, data)])
}

fn verdict(code: u32) -> Vec<u8> {
    expression("immediate", &[word(1, 0), nested(2, &[nested(2, &[word(1, code)])])])
}

/// Goes on only where the register holds (or, `not`, does not hold) the value.
fn compare(not: bool, value: &[u8]) -> Vec<u8> {
    expression("cmp", &[word(1, REGISTER_1), word(2, not.into()), nested(3, &[attribute(1, value)])])
}

/// Rules that no frame of the tester matches, then one that accepts and counts.
pub(super) fn filter(rules: u16) -> Batch {
    let mut batch = Batch::with_chain();
    for n in 0..rules {
        let port = expression("payload", &[word(1, REGISTER_1), word(2, TRANSPORT_HEADER), word(3, 2), word(4, 2)]);
        batch.rule(&[port, compare(false, &(REFUSED_PORT + n).to_be_bytes()), verdict(DROP)]);
    }
    batch.last_rule(&[expression("counter", &[]), verdict(ACCEPT)]);
    batch.end()
}

/// `ct state established,related accept`, then accept: it makes the kernel track every flow.
pub(super) fn track() -> Batch {
    const ESTABLISHED_OR_RELATED: u32 = 0b110;
    let mut batch = Batch::with_chain();
    let state = expression("ct", &[word(2, 0), word(1, REGISTER_1)]);
    let value = |kind, value: u32| nested(kind, &[attribute(1, &value.to_ne_bytes())]);
    let masked = expression(
        "bitwise",
        &[word(1, REGISTER_1), word(2, REGISTER_1), word(3, 4), value(4, ESTABLISHED_OR_RELATED), value(5, 0)],
    );
    batch.rule(&[state, masked, compare(true, &0u32.to_ne_bytes()), verdict(ACCEPT)]);
    batch.last_rule(&[expression("counter", &[]), verdict(ACCEPT)]);
    batch.end()
}

impl Batch {
    fn with_chain() -> Self {
        let mut batch = Self { bytes: Vec::new(), messages: 0 };
        batch.message(BATCH_BEGIN, libc::NLM_F_REQUEST, 0, NF_TABLES, &[]);
        batch.command(NEW_TABLE, &[name(1, TABLE)], 0);
        let hook = nested(4, &[word(1, HOOK_FORWARD), word(2, 0)]);
        batch.command(NEW_CHAIN, &[name(1, TABLE), name(3, CHAIN), hook, word(5, ACCEPT), name(7, "filter")], 0);
        batch
    }

    fn rule(&mut self, expressions: &[Vec<u8>]) {
        self.command(NEW_RULE, &[name(1, TABLE), name(2, CHAIN), nested(4, expressions)], 0);
    }

    fn last_rule(&mut self, expressions: &[Vec<u8>]) {
        self.command(NEW_RULE, &[name(1, TABLE), name(2, CHAIN), nested(4, expressions)], libc::NLM_F_ACK);
    }

    fn end(mut self) -> Self {
        self.message(BATCH_END, libc::NLM_F_REQUEST, 0, NF_TABLES, &[]);
        self
    }

    fn command(&mut self, kind: u16, attributes: &[Vec<u8>], ack: libc::c_int) {
        let flags = libc::NLM_F_REQUEST | libc::NLM_F_CREATE | libc::NLM_F_APPEND | ack;
        self.message(NF_TABLES << 8 | kind, flags, FAMILY_INET, 0, attributes);
        self.messages += 1;
    }

    /// struct nlmsghdr, struct nfgenmsg, attributes.
    fn message(&mut self, kind: u16, flags: libc::c_int, family: u8, resource: u16, attributes: &[Vec<u8>]) {
        let attributes = attributes.concat();
        self.bytes.extend((20 + attributes.len() as u32).to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend((flags as u16).to_ne_bytes());
        self.bytes.extend(self.messages.to_ne_bytes());
        self.bytes.extend(0u32.to_ne_bytes());
        self.bytes.extend([family, 0]);
        self.bytes.extend(resource.to_be_bytes());
        self.bytes.extend(attributes);
    }
}

/// Sends a batch in the calling thread's network namespace and waits until the kernel has answered the last command.
pub(super) fn load(batch: &Batch) -> io::Result<()> {
    // SAFETY: plain system call without pointers.
    let fd = unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_NETFILTER) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `fd` was just opened and is owned by nobody else.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: the pointer and length describe the batch, which outlives the call.
    let sent = unsafe { libc::send(fd.as_raw_fd(), batch.bytes.as_ptr().cast(), batch.bytes.len(), 0) };
    if sent < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut buffer = vec![0u8; 1 << 16];
    let mut answered = 0;
    while answered == 0 {
        // SAFETY: the pointer and length describe the buffer, which outlives the call.
        let length = unsafe { libc::recv(fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) };
        let Ok(length) = usize::try_from(length) else { return Err(io::Error::last_os_error()) };
        answered += answers(&buffer[..length])?;
    }
    Ok(())
}

/// Number of commands acknowledged; the first error else.
fn answers(mut bytes: &[u8]) -> io::Result<u32> {
    let mut count = 0;
    while let Some((head, rest)) = bytes.split_first_chunk::<16>() {
        let length = u32::from_ne_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let kind = u16::from_ne_bytes([head[4], head[5]]);
        if kind == libc::NLMSG_ERROR as u16
            && let Some(code) = rest.first_chunk::<4>()
        {
            match i32::from_ne_bytes(*code) {
                0 => count += 1,
                code => return Err(io::Error::from_raw_os_error(-code)),
            }
        }
        bytes = bytes.get(length.max(16).next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(count)
}
