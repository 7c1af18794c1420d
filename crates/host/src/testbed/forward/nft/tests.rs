use super::*;
use crate::testbed::namespace::Namespace;
use netcliff_testkit::{Need, has, has_program};
use std::process::Command;

/// What nft lists of a namespace where `loaded` ran.
fn listed(name: &str, loaded: impl FnOnce() -> io::Result<()> + Send) -> String {
    let space = Namespace::anonymous(name).unwrap();
    let nft = || Command::new("nft").args(["list", "ruleset"]).output().unwrap();
    let listed = space.run(|| loaded().map(|()| nft())).unwrap().unwrap();
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    String::from_utf8_lossy(&listed.stdout).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// nft reads the rules as they were meant: the most that the command line allows, in their order, and the one that accepts last.
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

/// The port that ends a rule, as nft prints it: 60000, or 0xea60 where it does not know that these bytes are one.
fn number(rule: &str) -> u16 {
    let word = rule.split_whitespace().last().unwrap();
    word.strip_prefix("0x").map_or_else(|| word.parse(), |hex| u16::from_str_radix(hex, 16)).unwrap()
}

/// The kernel's refusal comes back as its error: nothing is loaded twice.
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
