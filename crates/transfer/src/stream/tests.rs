use std::net::{IpAddr, Ipv4Addr};

use crate::bulk::{self, Direction};
use netcliff_core::stream::Spread;

use super::*;

pub(super) fn options(method: Method) -> StreamOptions {
    let channel = Channel::Tcp { address: IpAddr::V4(Ipv4Addr::LOCALHOST), multipath: false };
    StreamOptions {
        template: Settings::new(channel),
        method,
        blocks_bytes: vec![16 << 10],
        read_bytes: None,
        paths: vec![Path::Stream(SendPath::Write)],
        repeats: Repeats::exactly(2),
        warm_up_s: Some(0.02),
        time_s: 0.2,
        bytes: None,
        link_bps: None,
        cpu: Preference::Only(CpuMethod::Procfs),
        probe: None,
        ledger: false,
        guest: None,
        live: None,
        stop: Arc::default(),
        command: "netcliff stream".to_owned(),
        started_unix_s: 0.0,
    }
}

fn report(options: &StreamOptions) -> StreamReport {
    run(options, &mut |_| {}).expect("something was measured")
}

#[test]
fn a_sweep_has_a_row_a_block_and_path() {
    let mut options = options(Method::Default);
    options.blocks_bytes = vec![1000, 64 << 10];
    options.paths.push(Path::Stream(SendPath::WriteV));
    options.link_bps = Some(100e9);
    let report = report(&options);
    let names: Vec<_> = report.rows.iter().map(|row| (row.path.as_str(), row.block_bytes)).collect();
    assert_eq!(names, [("write", 1000), ("write", 65_536), ("writev", 1000), ("writev", 65_536)]);
    assert!(!report.partial, "{:?}", report.not_had);
    for row in &report.rows {
        assert_eq!(row.repeats, 2);
        let goodput = row.goodput_bps.expect("bytes arrived");
        assert!(goodput.min > 0.0 && goodput.min <= goodput.median && goodput.median <= goodput.max);
        assert!(row.sender_cpu.busy.is_some_and(|busy| busy.max <= 1.2), "{row:?}");
        let tcp = row.tcp.as_ref().expect("TCP was asked");
        assert!(tcp.wire_bps.is_some_and(|wire| wire.median > 0.0) && tcp.line_share.is_some_and(|share| share > 0.0));
    }
    assert!(report.in_force.iter().any(|(name, _)| name == "congestion"));
}

#[test]
fn every_flow_is_told_by_interval() {
    let mut options = options(Method::Default);
    options.template.interval_s = Some(0.04);
    let one = report(&options).rows[0].tcp.clone().expect("TCP was asked");
    assert!(one.flows.is_empty() && one.flow_intervals.is_empty() && one.intervals.len() > 2, "{one:?}");
    options.template.flows = 3;
    let tcp = report(&options).rows[0].tcp.clone().expect("TCP was asked");
    assert_eq!((tcp.flows.len(), &tcp.flows[0].intervals), (3, &tcp.intervals));
    assert!(tcp.flow_intervals.len() > 2);
    let whole = tcp.flow_intervals.iter().filter(|interval| interval.flows == 3).count();
    assert!(whole + 1 >= tcp.flow_intervals.len(), "{:?}", tcp.flow_intervals);
    let of_flows = |flow: &netcliff_core::stream::TcpFlow| flow.intervals.len();
    assert_eq!(
        tcp.flow_intervals.iter().map(|interval| interval.flows as usize).sum::<usize>(),
        tcp.flows.iter().map(of_flows).sum::<usize>()
    );
    for interval in &tcp.flow_intervals {
        let rate = interval.flow_bps.expect("each has one");
        assert!(rate.min <= rate.median && rate.median <= rate.max && interval.sent_bps >= rate.max, "{interval:?}");
        assert!(interval.rtt_s.is_some() && interval.cwnd_segments.is_some_and(|cwnd| cwnd.min >= 1.0));
    }
    // The sum over all intervals is that of the flows.
    let sum: u64 = tcp.flow_intervals.iter().map(|interval| interval.retransmissions).sum();
    assert_eq!(sum, tcp.flows.iter().map(|flow| flow.retransmissions).sum::<u64>());
}

/// Over loopback, each datagram counts as one Ethernet frame.
#[test]
fn datagrams_have_a_rate_on_the_wire_sent_and_delivered() {
    for (address, header) in [(IpAddr::V4(Ipv4Addr::LOCALHOST), 28.0), (std::net::Ipv6Addr::LOCALHOST.into(), 48.0)] {
        let mut options = options(Method::Default);
        options.template.channel = Channel::Udp { address, path: DatagramPath::Single };
        options.paths = vec![Path::Datagram(DatagramPath::Single), Path::Datagram(DatagramPath::Segmented)];
        options.blocks_bytes = vec![1000];
        options.link_bps = Some(10e9);
        for row in &report(&options).rows {
            let udp = row.udp.expect("the kernel told the MTU");
            let factor = (1000.0 + header + 38.0) / 1000.0;
            let close = |wire: Option<Spread>, payload: Option<Spread>| {
                let (wire, payload) = (wire.expect("known"), payload.expect("measured"));
                (wire.median / payload.median / factor - 1.0).abs() < 1e-9
            };
            assert!(close(udp.wire_bps, row.sender_bps) && close(udp.delivered_wire_bps, row.receiver_bps), "{udp:?}");
            assert!(udp.frames_per_datagram == 1 && (udp.payload_share * factor - 1.0).abs() < 1e-9, "{udp:?}");
            let sent = udp.wire_bps.map(|wire| wire.median / 10e9);
            // The MTU is the largest IPv4 packet, although the device allows one byte more.
            assert!(udp.line_share == sent && udp.mtu_bytes >= 65_535, "{udp:?}");
            let sample = row.samples[0];
            assert!(sample.wire_bps >= sample.delivered_wire_bps.map(|bps| bps * 0.9) && sample.wire_bps.is_some());
            assert!(row.tcp.is_none());
        }
    }
}

#[test]
fn flows_that_share_threads_cost_no_more_than_the_threads() {
    let mut options = options(Method::Default);
    (options.template.flows, options.template.threads) = (8, Some(2));
    let report = report(&options);
    assert!(!report.partial, "{:?}", report.not_had);
    assert!(report.asked.iter().any(|(_, said)| said.contains("8 flows over 2 threads at either end")), "{report:?}");
    assert!(report.cpu_methods.iter().any(|(_, said)| said.contains("divided evenly")));
    let row = &report.rows[0];
    for cpu in [row.sender_cpu, row.receiver_cpu] {
        let busy = cpu.busy.expect("CPU time was used").max;
        assert!(busy > 0.0 && busy <= 2.3, "{cpu:?}");
        let share = cpu.kernel_share.expect("CPU time was used");
        assert!(share <= busy * 1.0001, "kernel time is CPU time: {cpu:?}");
    }
}

#[test]
fn what_the_kernel_refuses_is_named_and_the_rest_is_measured() {
    let mut options = options(Method::Default);
    options.paths.push(Path::Stream(SendPath::SendFile { file: "/nowhere/at-all".into(), cold: false }));
    let report = report(&options);
    assert_eq!(report.rows.len(), 1);
    assert!(report.partial);
    assert!(report.not_had.iter().any(|why| why.contains("sendfile") && why.contains("/nowhere/at-all")));
}

#[test]
fn nothing_measured_is_an_error() {
    let mut options = options(Method::Default);
    options.blocks_bytes = vec![0];
    let error = run(&options, &mut |_| {}).expect_err("no block of 0 bytes").to_string();
    assert!(error.contains("block_bytes is 0"), "{error}");
}

#[test]
fn the_methods_of_2003_say_who_sends_and_whose_clock_counts() {
    let settings = |method: Method| method.settings(&options(method), options(method).template);
    let (warm_up, measured) = settings(Method::Lmbench2);
    assert_eq!(measured.direction, Direction::Receive);
    assert!(warm_up.is_some_and(|warm_up| matches!(warm_up.amount, bulk::Amount::Seconds(_))));
    let (warm_up, measured) = settings(Method::Lmbench3);
    assert!(warm_up.is_none() && measured.windows == 2 && measured.warm_up_s > 0.0);
    let (_, measured) = settings(Method::Acked);
    assert!(measured.acknowledged && measured.direction == Direction::Send);
    let aligned = Method::ALL.map(|method| settings(method).1.options.page_aligned);
    assert_eq!(aligned, [false, true, false, false, true], "default, lmbench2, lmbench3, ttcp, acked");
    for method in Method::ALL {
        assert_eq!(method.name().parse(), Ok(method));
    }
    assert!("netperf".parse::<Method>().is_err_and(|accepted| accepted.contains("lmbench3")));
}

#[test]
fn each_method_measures() {
    for method in Method::ALL {
        let mut options = options(method);
        options.bytes = (method != Method::Default).then_some(4_000_000);
        if matches!(method, Method::Ttcp | Method::Acked) {
            options.warm_up_s = None;
        }
        let report = report(&options);
        assert_eq!(report.rows[0].repeats, 2, "{method}");
        assert_eq!(report.rows[0].mean_bps.is_some(), method == Method::Lmbench3);
        assert_eq!(report.clock, method.clock());
        assert!(!report.partial, "{method}: {:?}", report.not_had);
    }
}

#[test]
fn blocks_and_reads_where_none_were_chosen() {
    let udp = |address: IpAddr| Channel::Udp { address, path: DatagramPath::Single };
    let block = |method: Method, channel: &Channel| method.default_block_bytes(channel);
    assert_eq!(block(Method::Default, &Channel::Pipe), 1 << 20);
    assert_eq!(block(Method::Ttcp, &Channel::Unix), 64 << 10);
    // With IP headers of 20 or 40 bytes and the UDP header of 8 bytes, the blocks fill an MTU of 1500.
    assert_eq!(block(Method::Default, &udp(Ipv4Addr::LOCALHOST.into())) + 28, 1500);
    assert_eq!(block(Method::Default, &udp(std::net::Ipv6Addr::LOCALHOST.into())) + 48, 1500);
    assert_eq!([64, 1 << 20].map(|bytes| read_bytes(ReceivePath::Read, None, bytes)), [64, 128 << 10]);
    assert_eq!(read_bytes(ReceivePath::Read, Some(4096), 64), 128 << 10);
    assert_eq!(read_bytes(ReceivePath::Mapped, None, 64), 128 << 10);
}

#[test]
fn a_read_takes_a_block_unless_told_otherwise() {
    let mut options = StreamOptions { repeats: Repeats::exactly(1), ..options(Method::Default) };
    options.blocks_bytes = vec![64];
    let most = |options: &StreamOptions| {
        let received = report(options).rows[0].bytes_per_receive.expect("bytes arrived");
        received.max
    };
    assert!(most(&options) <= 64.0);
    options.read_bytes = Some(64 << 10);
    // TCP merges small blocks, so a larger read returns several of them.
    assert!(most(&options) > 64.0);
}

#[test]
fn repeats_end_when_the_mean_is_known_or_say_that_it_is_not() {
    let measured = |precision: f64, most: u32| {
        let repeats = Repeats::new(5, Some(precision), Some(most)).expect("they fit");
        let mut options = StreamOptions { repeats, time_s: 0.03, ..options(Method::Default) };
        options.blocks_bytes = vec![4096, 16 << 10];
        report(&options)
    };
    let rough = measured(0.99, 30);
    for row in &rough.rows {
        let known = row.known.as_ref().expect("repeats");
        // A busy machine may need more than the minimum of repeats, but not all of them for such a low precision.
        assert!((5..30).contains(&row.repeats) && known.shortfall().is_none(), "{known:?}");
        assert_eq!(known.repeats as usize, row.samples.len());
    }
    assert!(!rough.warnings.iter().any(|warning| warning.to_string().contains("asked for")), "{:?}", rough.warnings);
    let fine = measured(1e-9, 6);
    for row in &fine.rows {
        assert!(
            row.repeats == 6 && row.known.as_ref().is_some_and(|known| known.shortfall().is_some()),
            "{:?}",
            row.known
        );
    }
    assert!(fine.warnings.iter().any(|warning| warning.to_string().contains("asked for")), "{:?}", fine.warnings);
}
