//! Real packets between namespaces and on loopback.

mod ceilings;
mod common;
mod forward;
mod offered;
mod priority;
mod veth;

mod loopback {
    //! Generator and sink over loopback, with plain sockets: no privileges needed.

    use std::sync::Arc;

    use netcliff_packets::frame::{Checksum, FrameSpec};
    use netcliff_packets::generator::GeneratorConfig;
    use netcliff_packets::run::run;
    use netcliff_packets::schedule::{Arrivals, Schedule};
    use netcliff_packets::sink::SinkConfig;
    use netcliff_packets::source::Timing;
    use netcliff_packets::transmit::Method;

    const RUN_ID: u32 = 5;

    #[test]
    fn packets_pass_and_are_accounted_for() {
        // A port for this test alone, derived from the process id, below the range of automatic ports.
        let port = 20_000 + (std::process::id() % 10_000) as u16;
        let address = format!("127.0.0.1:{port}").parse().expect("an address");
        let frame = FrameSpec {
            source_mac: [0; 6],
            destination_mac: [0; 6],
            source: "127.0.0.1:0".parse().expect("an address"),
            destination: address,
            more_flows: Vec::new(),
            vlan: None,
            frame_bytes: 64,
            checksum: Checksum::Zero,
            run_id: RUN_ID,
            replay: None,
        };
        let generator = GeneratorConfig { method: Method::Socket, ..GeneratorConfig::new("lo", frame) };
        let schedule = Schedule::new(Arrivals::Constant, 5_000.0, 1, 0).expect("legal");
        let run = run(
            generator,
            SinkConfig::new(address, RUN_ID),
            schedule,
            Timing::measured(0.2),
            &Arc::default(),
            |_, _| (),
        )
        .expect("loopback works");
        assert_eq!(run.accounting.offered, 1000);
        assert_eq!(run.accounting.run_unexplained, Some(0), "{:?}", run.accounting);
        assert_eq!(
            run.accounting.offered,
            run.accounting.delivered + run.accounting.refused + run.accounting.sender + run.accounting.elsewhere
        );
        let summary = run.sink.end_to_end.summary().expect("packets came");
        assert!(summary.min_s > 0.0 && summary.max_s < 10.0);
    }
}
