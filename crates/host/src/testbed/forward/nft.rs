//! nf_tables rules by netlink; the `nft` program is not needed.

use crate::system::NetlinkSocket;
use netlink_bindings::nftables::{
    Chained, CmpOps, CtKeys, Nfgenmsg, PayloadBase, PushExprListAttrs, PushRuleAttrs, Registers, VerdictCode,
};
use netlink_bindings::utils::RequestBuf;
use std::io;

/// First UDP port that the rules refuse: the tester does not use it.
const REFUSED_PORT: u16 = 60_000;
const TABLE: &[u8] = b"netcliff";
const CHAIN: &[u8] = b"forward";

/// Rules per transaction. The library requests an answer to each message: the answers to many more messages do not fit
/// the socket's buffer (ENOBUFS). With 64 messages or more, netlink-socket2 0.3.5 does not wait for all answers
/// (`Bits::with_len` if 64 divides the number).
const RULES_AT_ONCE: usize = 48;

/// nfnetlink.h: the resource of a batch's first and last message.
const NFNL_SUBSYS_NFTABLES: u16 = 10;
const NF_INET_FORWARD: u32 = 2;
/// nf_conntrack_common.h, NF_CT_STATE_BIT: the bits of IP_CT_ESTABLISHED and IP_CT_RELATED.
const ESTABLISHED_OR_RELATED: u32 = 0b110;

/// The expressions of a rule under construction.
type Expressions<'a> = PushExprListAttrs<PushRuleAttrs<RequestBuf<'a>>>;

/// Action of a rule, with its match.
#[derive(Clone, Copy)]
enum Rule {
    /// Drops packets to this UDP port.
    Refuse(u16),
    /// Accepts flows known to connection tracking, so that the kernel tracks every flow.
    AcceptKnown,
    /// Counts and accepts packets.
    Accept,
}

/// Loads `rules` rules that no frame of the tester matches, then one that accepts and counts, in the calling thread's
/// network namespace.
pub(super) fn filter(rules: u16) -> io::Result<()> {
    load((0..rules).map(|n| Rule::Refuse(REFUSED_PORT + n)).chain([Rule::Accept]).collect())
}

/// Loads `ct state established,related accept`, then accept, in the calling thread's network namespace.
pub(super) fn track() -> io::Result<()> {
    load(vec![Rule::AcceptKnown, Rule::Accept])
}

fn load(rules: Vec<Rule>) -> io::Result<()> {
    let socket = &mut NetlinkSocket::new();
    transact(socket, |batch| {
        batch.request().set_create().op_newtable_do(&inet()).encode().push_name_bytes(TABLE);
        let mut chain = batch.request().set_create().op_newchain_do(&inet());
        chain
            .encode()
            .push_table_bytes(TABLE)
            .push_name_bytes(CHAIN)
            .nested_hook()
            .push_num(NF_INET_FORWARD)
            .push_priority(0)
            .end_nested()
            .push_policy(VerdictCode::Accept as u32)
            .push_type(c"filter");
    })?;
    rules
        .chunks(RULES_AT_ONCE)
        .try_for_each(|rules| transact(socket, |batch| rules.iter().for_each(|rule| append(batch, *rule))))
}

/// Sends the messages that `commands` writes as one transaction, and waits for the kernel's answers.
fn transact(socket: &mut NetlinkSocket, commands: impl FnOnce(&mut Chained<'static>)) -> io::Result<()> {
    let mut edge = Nfgenmsg::new();
    edge.set_res_id(NFNL_SUBSYS_NFTABLES);
    let mut batch = Chained::new(socket.reserve_seq(64));
    batch.request().op_batch_begin_do(&edge);
    commands(&mut batch);
    batch.request().op_batch_end_do(&edge);
    let batch = batch.finalize();
    let done = socket.request_chained(&batch)?.recv_all();
    done.map_err(|error| match error.as_io_error().raw_os_error() {
        // Callers need the error code; the library's error has only a text.
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::other(error.to_string()),
    })
}

fn inet() -> Nfgenmsg {
    const NFPROTO_INET: u8 = 1;
    let mut head = Nfgenmsg::new();
    head.nfgen_family = NFPROTO_INET;
    head
}

fn append(batch: &mut Chained<'static>, rule: Rule) {
    let message = batch.request().set_create().set_append().op_newrule_do(&inet());
    let to = message.into_encoder().push_table_bytes(TABLE).push_chain_bytes(CHAIN).nested_expressions();
    match rule {
        Rule::Refuse(port) => {
            let to = to
                .nested_elem()
                .nested_data_payload()
                .push_dreg(Registers::Reg1 as u32)
                .push_base(PayloadBase::TransportHeader as u32)
                .push_offset(2)
                .push_len(2)
                .end_nested()
                .end_nested();
            verdict(compare(to, CmpOps::Eq, &port.to_be_bytes()), VerdictCode::Drop)
        }
        Rule::AcceptKnown => {
            let to = to
                .nested_elem()
                .nested_data_ct()
                .push_dreg(Registers::Reg1 as u32)
                .push_key(CtKeys::State as u32)
                .end_nested()
                .end_nested()
                .nested_elem()
                .nested_data_bitwise()
                .push_sreg(Registers::Reg1 as u32)
                .push_dreg(Registers::Reg1 as u32)
                .push_len(4)
                .nested_mask()
                .push_value(&ESTABLISHED_OR_RELATED.to_ne_bytes())
                .end_nested()
                .nested_xor()
                .push_value(&0u32.to_ne_bytes())
                .end_nested()
                .end_nested()
                .end_nested();
            verdict(compare(to, CmpOps::Neq, &0u32.to_ne_bytes()), VerdictCode::Accept)
        }
        Rule::Accept => verdict(to.nested_elem().nested_data_counter().end_nested().end_nested(), VerdictCode::Accept),
    };
}

/// Adds a comparison to a rule: the rule applies only if the register compares to `value` as `how` requires.
fn compare<'a>(to: Expressions<'a>, how: CmpOps, value: &[u8]) -> Expressions<'a> {
    to.nested_elem()
        .nested_data_cmp()
        .push_sreg(Registers::Reg1 as u32)
        .push_op(how as u32)
        .nested_data()
        .push_value(value)
        .end_nested()
        .end_nested()
        .end_nested()
}

fn verdict(to: Expressions<'_>, code: VerdictCode) -> Expressions<'_> {
    to.nested_elem()
        .nested_data_immediate()
        .push_dreg(Registers::RegVerdict as u32)
        .nested_data()
        .nested_verdict()
        .push_code(code as u32)
        .end_nested()
        .end_nested()
        .end_nested()
        .end_nested()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::namespace::Namespace;
    use netcliff_testkit::{Need, has, has_program};
    use std::process::Command;

    /// Rules that nft lists in a namespace in which `loaded` ran.
    fn listed(name: &str, loaded: impl FnOnce() -> io::Result<()> + Send) -> String {
        let space = Namespace::anonymous(name).unwrap();
        let nft = || Command::new("nft").args(["list", "ruleset"]).output().unwrap();
        let listed = space.run(|| loaded().map(|()| nft())).unwrap().unwrap();
        assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
        String::from_utf8_lossy(&listed.stdout).split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// nft lists the rules as intended: the largest number that the command line allows, in order, with the accepting
    /// rule last.
    #[test]
    fn nft_lists_what_was_loaded() {
        if !has(Need::Nftables) || !has_program("nft") {
            return;
        }
        let ruleset = listed("nft-filter", || filter(500));
        let head = "table inet netcliff { chain forward { type filter hook forward priority filter; policy accept; ";
        assert!(ruleset.starts_with(head), "{ruleset}");
        let ports: Vec<u16> = ruleset.split(" drop").take(500).map(number).collect();
        assert!(ports.iter().copied().eq((0..500).map(|n| REFUSED_PORT + n)), "{ports:?}");
        assert_eq!(ruleset.matches(" drop").count(), 500);
        assert!(ruleset.ends_with(" drop counter packets 0 bytes 0 accept } }"), "{ruleset}");
        let ruleset = listed("nft-track", track);
        let rules = "ct state established,related accept counter packets 0 bytes 0 accept } }";
        assert!(ruleset.ends_with(rules), "{ruleset}");
    }

    /// The port that ends a rule, as nft prints it: 60000, or 0xea60 if nft does not recognise the bytes as a port.
    fn number(rule: &str) -> u16 {
        let word = rule.split_whitespace().last().unwrap();
        word.strip_prefix("0x").map_or_else(|| word.parse(), |hex| u16::from_str_radix(hex, 16)).unwrap()
    }

    /// A refusal is the kernel's error: the table cannot be created twice.
    #[test]
    fn a_refusal_is_the_kernels_error() {
        if !has(Need::Nftables) {
            return;
        }
        let space = Namespace::anonymous("nft-refused").unwrap();
        let refused = space.run(|| {
            let socket = &mut NetlinkSocket::new();
            transact(socket, |batch| append(batch, Rule::Accept))
        });
        assert_eq!(refused.unwrap().unwrap_err().raw_os_error(), Some(libc::ENOENT));
    }
}
