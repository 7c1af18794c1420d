//! Compares compiled filters with a direct evaluation of their expressions, and checks the errors of filters that do
//! not compile.

use super::{Filter, NO_PORT, Node, WORDS, Word, parse};
use proptest::prelude::*;
use std::net::{Ipv4Addr, Ipv6Addr};

/// An IPv4 packet with ports.
fn packet(protocol: u32, source: [u8; 4], destination: [u8; 4], ports: (u32, u32)) -> [u32; WORDS] {
    let mut header = [0; WORDS];
    header[Word::Version as usize] = 4;
    header[Word::EtherType as usize] = 0x0800;
    header[Word::Protocol as usize] = protocol;
    header[Word::Inner as usize] = protocol;
    header[Word::Source as usize] = Ipv4Addr::from(source).to_bits();
    header[Word::Destination as usize] = Ipv4Addr::from(destination).to_bits();
    header[Word::SourcePort as usize] = ports.0;
    header[Word::DestinationPort as usize] = ports.1;
    header[Word::Length as usize] = 60;
    header
}

fn packet6(protocol: u32, source: &str, destination: &str, ports: (u32, u32)) -> [u32; WORDS] {
    let mut header = packet(protocol, [0; 4], [0; 4], ports);
    header[Word::Version as usize] = 6;
    header[Word::EtherType as usize] = 0x86dd;
    for (first, address) in [(Word::Source, source), (Word::Destination, destination)] {
        let bits = address.parse::<Ipv6Addr>().unwrap().to_bits();
        for n in 0..4 {
            header[first as usize + n] = (bits >> (96 - 32 * n)) as u32;
        }
    }
    header
}

fn accepts(filter: &str, header: &[u32; WORDS]) -> bool {
    filter.parse::<Filter>().unwrap_or_else(|error| panic!("{filter}: {error}")).accepts(header)
}

#[test]
fn a_filter_means_what_it_means_in_tcpdump() {
    let dns = packet(17, [10, 0, 0, 1], [10, 0, 0, 53], (40000, 53));
    let web = packet(6, [192, 168, 1, 9], [10, 1, 2, 3], (443, 50000));
    let six = packet6(17, "2001:db8::1", "fe80::2", (53, 1234));
    let mut ping = packet(1, [10, 0, 0, 1], [10, 0, 0, 2], (NO_PORT, NO_PORT));
    ping[Word::Length as usize] = 98;
    let arp = {
        let mut header = [0; WORDS];
        (header[Word::EtherType as usize], header[Word::SourcePort as usize]) = (0x0806, NO_PORT);
        header[Word::DestinationPort as usize] = NO_PORT;
        header
    };
    for (filter, expected) in [
        ("udp port 53", [true, false, true, false, false]),
        ("udp dst port 53", [true, false, false, false, false]),
        ("port 53 or 443", [true, true, true, false, false]),
        ("not udp", [false, true, false, true, true]),
        ("! udp && ip", [false, true, false, true, false]),
        ("ip6", [false, false, true, false, false]),
        ("ip6 host 2001:db8::1", [false, false, true, false, false]),
        ("dst net fe80::/10", [false, false, true, false, false]),
        ("net 10", [true, true, false, true, false]),
        ("src net 10.0.0.0/24", [true, false, false, true, false]),
        ("net 192.168.0.0 mask 255.255.0.0", [false, true, false, false, false]),
        ("src and dst net 10", [true, false, false, true, false]),
        ("src or dst host 10.0.0.53", [true, false, false, false, false]),
        ("10.0.0.53", [true, false, false, false, false]),
        ("tcp src portrange 400-500", [false, true, false, false, false]),
        ("icmp", [false, false, false, true, false]),
        ("ip proto 1", [false, false, false, true, false]),
        ("arp or icmp", [false, false, false, true, true]),
        ("greater 90", [false, false, false, true, false]),
        ("less 60 and udp", [true, false, true, false, false]),
        // Equal precedence, from left to right: (udp or tcp) and port 443.
        ("udp or tcp and port 443", [false, true, false, false, false]),
        ("port (53 or 443)", [true, true, true, false, false]),
        ("portrange 60-50", [true, false, true, false, false]),
        ("less 074 and udp", [true, false, true, false, false]),
        ("proto 0", [false, false, false, false, false]),
        ("udp or (tcp and port 443)", [true, true, true, false, false]),
        ("ip host 10.0.0.1 and not (port 53 or icmp)", [false, false, false, false, false]),
    ] {
        let seen = [&dns, &web, &six, &ping, &arp].map(|header| accepts(filter, header));
        assert_eq!(seen, expected, "{filter}");
    }
}

#[test]
fn what_does_not_compile_is_a_sentence_with_the_place() {
    for (filter, column, part) in [
        ("", 1, "the filter ends"),
        ("udp prt 53", 5, "`prt`"),
        ("udp port domain", 10, "0 to 65535"),
        ("port 70000", 6, "`70000`"),
        ("portrange 9-x", 11, "8000-8080"),
        ("host example.org", 6, "names are not looked up"),
        ("udp and", 8, "the filter ends"),
        ("(udp or tcp", 12, "`)` is missing"),
        ("udp)", 4, "no `(` opened"),
        ("tcp[13] & 2 != 0", 4, "expressions on bytes"),
        ("ether host 00:11:22:33:44:55", 1, "`ether`"),
        ("vlan 5", 1, "`vlan`"),
        ("net 10.0.0.1/8", 5, "10.0.0.0/8"),
        ("net 10.0.0.0/33", 5, "0 to 32"),
        ("icmp port 5", 11, "`icmp port` means nothing"),
        ("proto 300", 7, "0 to 255"),
        ("less many", 6, "128"),
        ("less 08", 6, "128"),
        ("port +53", 6, "0 to 65535"),
        ("net 10.0.0.0/08", 5, "0 to 32"),
        ("ip host ::1", 9, "write ip6"),
        ("ip6 host 10.0.0.1", 10, "write ip"),
        ("ip port 53", 9, "`ip port` means nothing"),
        ("port (53 or udp)", 13, "values only"),
        ("\u{20ac} udp", 1, "is not understood"),
    ] {
        let error = filter.parse::<Filter>().unwrap_err();
        assert_eq!(error.column, column, "{filter}: {error}");
        assert!(error.reason.contains(part), "{filter}: {error}");
    }
    let deep = "(".repeat(5000) + "udp";
    assert!(deep.parse::<Filter>().unwrap_err().reason.contains("nested"));
    let long = (1..=40).map(|port| format!("port {port}")).collect::<Vec<_>>().join(" or ");
    assert!(long.parse::<Filter>().unwrap_err().reason.contains("64 comparisons"));
}

/// The definition: evaluates the expression's tree on a header.
fn holds(node: &Node, header: &[u32; WORDS]) -> bool {
    match node {
        Node::Is { word, mask, low, high } => (*low..=*high).contains(&(header[usize::from(*word)] & mask)),
        Node::Not(inner) => !holds(inner, header),
        Node::And(first, second) => holds(first, header) && holds(second, header),
        Node::Or(first, second) => holds(first, header) || holds(second, header),
    }
}

fn nodes() -> impl Strategy<Value = Node> {
    let leaf =
        (0..3u8, 0..4u32, 0..4u32).prop_map(|(word, low, more)| Node::Is { word, mask: 7, low, high: low + more });
    leaf.prop_recursive(5, 40, 2, |inner| {
        prop_oneof![
            inner.clone().prop_map(|node| Node::Not(Box::new(node))),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| a.and(b)),
            (inner.clone(), inner).prop_map(|(a, b)| a.or(b)),
        ]
    })
}

proptest! {
    #[test]
    fn steps_do_what_the_expression_says(node in nodes(), values in prop::collection::vec(0..10u32, WORDS)) {
        let header: [u32; WORDS] = values.try_into().unwrap();
        if let Some(steps) = node.steps() {
            let onwards = |(at, step): (usize, &super::Step)| [step.yes, step.no].iter().all(|to| usize::from(*to) > at);
            prop_assert!(steps.iter().enumerate().all(onwards), "the kernel's verifier wants loops that end");
            let filter = Filter { text: String::new(), steps };
            prop_assert_eq!(filter.accepts(&header), holds(&node, &header));
        }
    }

    #[test]
    fn no_text_panics(text in "[a-z0-9 ().:/!&|\\[\\]\u{e4}-]{0,60}") {
        let _ = text.parse::<Filter>();
        let _ = parse::expression(&text);
    }
}
