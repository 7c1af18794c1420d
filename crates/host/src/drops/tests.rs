//! Names, symbols, counters and advice; drops provoked in namespaces are in `provoked`.

#[cfg(have_bpf)]
mod bounds;
mod filters;
mod provoked;

use super::{By, Reading, Site, Tally, all_rules, counters::Counters, symbols::Symbols};
use netcliff_core::drops::DropRow;
use std::collections::{BTreeMap, BTreeSet};

#[test]
fn an_address_is_named_by_the_function_it_is_in() {
    let text = "ffffffff81000100 T ip_rcv\nffffffff81000000 t helper\nffffffff81000200 D table\nffffffffc0000010 t mine\t[module]\n";
    let symbols = Symbols::parse(text);
    assert_eq!(symbols.at(0xffff_ffff_8100_0142), "ip_rcv+0x42");
    assert_eq!(symbols.function(0xffff_ffff_8100_0001), Some("helper"));
    // Data symbols are not places where packets are dropped; nothing is before the first or far after the last symbol.
    assert_eq!(symbols.at(0xffff_ffff_8100_0210), "ip_rcv+0x110");
    assert_eq!(symbols.at(0x1000), "0x1000");
    assert_eq!(symbols.at(0xffff_ffff_ff00_0010), "0xffffffffff000010");
    assert_eq!(symbols.limit(), None);
    // The symbols that a kernel shows without the right to see addresses.
    let hidden = Symbols::parse("0000000000000000 T ip_rcv\n");
    assert_eq!(hidden.at(0x42), "0x42");
    assert!(hidden.limit().is_some_and(|limit| limit.contains("kptr_restrict")));
}

/// `drops` examined drops of one place and reason, of `seen` in all.
fn reading(drops: u64, seen: u64) -> Reading {
    Reading {
        at: std::time::Instant::now(),
        forgotten: 0,
        seen,
        looked_at: drops,
        full_places: 0,
        full_details: 0,
        full_stacks: 0,
        in_first: 0,
        nested: 0,
        timed: 0,
        timed_ns: 0,
        sites: BTreeMap::from([(Site { location: 1, reason: 2 }, Tally { drops, packets: drops, bytes: 60 * drops })]),
        details: BTreeMap::new(),
    }
}

#[test]
fn a_reading_grows_to_a_later_one() {
    let grown = reading(10, 10).until(&reading(30, 110));
    assert_eq!(grown.sites[&Site { location: 1, reason: 2 }], Tally { drops: 20, packets: 20, bytes: 1200 });
    assert_eq!(grown.factor(), 5.0);
    assert!(grown.limits()[0].starts_with("sampled: 20 of 100 drops"), "{:?}", grown.limits());
    let full = Reading { full_places: 3, full_details: 4, full_stacks: 5, nested: 6, ..reading(1, 1) };
    let limits = full.limits();
    assert_eq!(limits.len(), 4, "{limits:?}");
    assert!(
        limits.iter().zip(["3 drops", "4 drops", "5 drops", "6 drops"]).all(|(limit, begin)| limit.starts_with(begin))
    );
    assert!(reading(10, 10).until(&reading(10, 10)).sites.is_empty());
}

/// The tables of places and of details are read one after the other. Drops that come in between are in the details of one
/// reading, and count once.
#[test]
fn drops_between_the_two_tables_count_once() {
    let site = Site { location: 1, reason: 2 };
    let key = super::Key {
        site,
        flow: ([0; 8], 0, 0, 0, 0),
        process: 7,
        stack: -1,
        name: [0; 16],
        owner: super::Owner::default(),
    };
    let tally = |drops: u64| Tally { drops, packets: drops, bytes: 60 * drops };
    let with_details = |details: u64, full_details: u64| Reading {
        full_details,
        details: BTreeMap::from([(key.clone(), tally(details))]),
        ..reading(100, 100)
    };
    assert!(with_details(97, 0).without_details().is_empty());
    assert_eq!(with_details(60, 40).without_details()[&site], tally(40), "the table of details was full");
    assert_eq!(reading(100, 100).without_details()[&site], tally(100), "details were not requested");
}

#[test]
fn reasons_have_one_rule_each_and_the_rules_their_source() {
    let mut reasons = BTreeSet::new();
    for rule in all_rules() {
        assert!(rule.reasons.iter().all(|reason| reasons.insert(*reason)), "{:?}", rule.reasons);
        assert!(!rule.remedies.is_empty() && !rule.source.is_empty() && !rule.meaning.is_empty());
    }
    assert!(all_rules().len() >= 20);
    let row = |reason: &str| DropRow { reason: reason.to_owned(), ..DropRow::default() };
    let advice = super::advice(&[row("TCP_CSUM"), row("no such"), row("CPU_BACKLOG"), row("UDP_CSUM")]);
    let about: Vec<&str> = advice.iter().map(|one| one.reason.as_str()).collect();
    assert_eq!(about, ["UDP_CSUM, TCP_CSUM", "CPU_BACKLOG"]);
}

#[test]
fn commands_enter_the_namespace_of_the_drops() {
    let row = |netns: &str| DropRow {
        reason: "SOCKET_RCVBUFF".to_owned(),
        netns: Some(netns.to_owned()),
        ..DropRow::default()
    };
    let remedies = |rows: &[DropRow]| super::advice(rows)[0].remedies.clone();
    let named = remedies(&[row("dns")]);
    assert!(named[0].contains("`ip netns exec dns ss -uamp`"), "{named:?}");
    // The host's namespace alone has this setting.
    assert!(named[2].contains("`sysctl -w net.core.rmem_max=8388608`"), "{named:?}");
    let of_process = remedies(&[row("dnsmasq (42)")]);
    assert!(of_process[0].contains("`nsenter -t 42 -n ss -uamp`"), "{of_process:?}");
    for rows in [&[row("dns"), row("web")][..], &[row("netns 4026531840")]] {
        let unknown = remedies(rows);
        assert!(unknown[0].contains("`ss -uamp`") && unknown[0].ends_with("(in the network namespace of the row)"));
    }
    assert!(remedies(&[row("this")])[0].contains("`ss -uamp`"));
}

#[test]
fn the_rules_speak_of_reasons_that_kernels_have() {
    #[cfg(have_bpf)]
    if let Some(names) = crate::bpf::types()
        .ok()
        .map(|types| super::names::Names::from_types(&types))
        .filter(super::names::Names::has_reasons)
    {
        assert!(names.count() > 50, "{}", names.count());
        let of_kernel: BTreeSet<String> = (0..400).map(|number| names.of(number)).collect();
        let known =
            all_rules().iter().filter(|rule| rule.reasons.iter().any(|reason| of_kernel.contains(*reason))).count();
        assert!(known >= 20, "{known} rules are of reasons of this kernel");
        // Reasons of Linux 6.18; a later kernel may have a few more. Reasons of subsystems (Wi-Fi, Open vSwitch) have
        // no rules.
        let with_rule = |reason: &&String| all_rules().iter().any(|rule| rule.reasons.contains(&reason.as_str()));
        let is_core = |reason: &&String| {
            !reason.starts_with("reason ")
                && !reason.contains("_DROP_")
                && !["CONSUMED", "NOT_DROPPED_YET"].contains(&reason.as_str())
        };
        let without: Vec<&String> = of_kernel.iter().filter(is_core).filter(|reason| !with_rule(reason)).collect();
        assert!(without.len() <= 10, "no rule for {without:?}");
        assert_eq!(names.of(0x7fff_0001), "reason 2147418113");
    }
}

#[test]
fn counters_are_read_and_grow() {
    let before = Counters::now();
    // Port 1 of loopback normally has no listener; the sentence about what counters cannot show stays in any case.
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    for _ in 0..5 {
        let _ = socket.send_to(b"x", "127.0.0.1:1");
    }
    std::thread::sleep(std::time::Duration::from_millis(20));
    let drops = before.drops(&Counters::now(), Some("no right"));
    let row = drops.rows.iter().find(|row| row.reason == "Udp NoPorts").expect("nobody listens at port 1");
    assert!(row.drops >= 5 && row.place == "/proc/net/snmp", "{row:?}");
    assert!(drops.advice.iter().any(|advice| advice.reason.contains("NoPorts")));
    assert_eq!(drops.limits[0], "no right");
    assert!(drops.limits[1].contains("neither flow nor process"));
}

#[test]
fn what_is_asked_beyond_places() {
    assert!(!By::default().any());
    assert!(By { stack: true, ..By::default() }.any());
}
