use super::*;

#[test]
fn a_current_line_has_fifteen_fields() {
    let text = "0000000a 00000001 00000002 00000000 00000000 00000000 00000000 00000000 00000000 \
                00000007 00000003 00000009 00000005 00000004 00000005\n";
    let stats = parse_softnet(text).unwrap();
    let expected = SoftnetStat {
        cpu: 5,
        processed: 10,
        dropped: 1,
        time_squeeze: 2,
        received_rps: 7,
        flow_limit: 3,
        backlog_len: Some(9),
        input_len: Some(4),
        process_len: Some(5),
    };
    assert_eq!(stats, [expected]);
}

#[test]
fn an_old_line_lacks_the_cpu_and_the_lengths() {
    let line = "00000001 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000\n";
    let stats = parse_softnet(&line.repeat(2)).unwrap();
    assert_eq!(stats[1].cpu, 1);
    assert_eq!(stats[1].backlog_len, None);
}

#[test]
fn malformed_lines_are_named() {
    for text in ["1 2 3\n", "zz 0 0 0 0 0 0 0 0\n", "\n"] {
        let error = parse_softnet(text).unwrap_err().to_string();
        assert!(error.contains("hexadecimal"), "{error}");
    }
}

#[test]
fn differences_survive_an_overflow() {
    let earlier = SoftnetStat { processed: u32::MAX - 4, ..Default::default() };
    let later = SoftnetStat { processed: 5, backlog_len: Some(3), ..Default::default() };
    let grown = later.since(&earlier);
    assert_eq!(grown.processed, 10);
    assert_eq!(grown.backlog_len, Some(3));
}

#[test]
fn udp_columns_are_found_by_name() {
    let text = "Tcp: A\nTcp: 1\n\
        Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors Extra MemErrors\n\
        Udp: 1 2 3 4 5 6 7 99 8\nUdpLite: InDatagrams\nUdpLite: 0\n";
    let udp = parse_snmp(text).unwrap();
    assert_eq!((udp.in_datagrams, udp.rcvbuf_errors, udp.mem_errors), (1, 5, Some(8)));
    assert!(parse_snmp("Tcp: x\n").is_err());
    assert!(parse_snmp("Udp: InDatagrams\nUdp: 1\n").is_err());
}

#[test]
fn interrupt_tables() {
    let text = "            CPU0       CPU2\n  1:          5          6   IO-APIC   1-edge      i8042\n\
                ERR:          7\n RES:         10         20   Rescheduling interrupts\n";
    let table = parse_per_cpu(text).unwrap();
    assert_eq!(table.count("RES", 2), Some(20));
    assert_eq!(table.count("RES", 1), None);
    assert_eq!(table.count("ERR", 0), Some(7));
    assert_eq!(table.count("ERR", 2), None);
    assert_eq!(table.rows["1"].description, "IO-APIC 1-edge i8042");
    assert!(parse_per_cpu("").is_err());
    assert!(parse_per_cpu("x y\n").is_err());
}

#[test]
fn this_kernel_is_understood() {
    assert!(!softnet_stats().unwrap().is_empty());
    assert!(softirqs().unwrap().rows.contains_key("NET_RX"));
    assert!(!interrupts().unwrap().cpus.is_empty());
    UdpCounters::read().unwrap();
}
