//! Generator commands and their answers, without a network.

use super::*;

fn desk() -> (Arc<OrderQueue>, Reverse) {
    let desk = Arc::<OrderQueue>::default();
    let fingerprint = Fingerprint::default();
    let reverse = Reverse { desk: Arc::clone(&desk), shares_clock: true, fingerprint, peer: "here".into() };
    (desk, reverse)
}

fn put(desk: &OrderQueue, report: &ClientReport) {
    for chunk in chunks_of(report) {
        let chunk = serde_json::to_value(chunk).expect("plain data");
        assert!(chunk.to_string().len() < 40 << 10, "a message is bounded");
        assert!(chunk.to_string().bytes().filter(|byte| b"[{,".contains(byte)).count() < 10, "and so are its values");
        desk.take(chunk).expect("a part of it");
    }
}

#[test]
fn a_long_report_arrives_in_pieces() {
    let (desk, mut reverse) = desk();
    put(&desk, &ClientReport::Sent(7));
    assert!(matches!(reverse.ask(), Ok(LoadProgress::Sent(7))));
    let failed = Some("[{,".repeat(30_000));
    put(&desk, &ClientReport::Ended(Box::new(LoadReport { sent: 9, failed: failed.clone(), ..LoadReport::default() })));
    let report = reverse.ended().expect("it is here").expect("it has ended");
    assert_eq!((report.sent, report.failed), (9, failed));
}

#[test]
fn orders_wait_for_their_answer_and_end_with_the_client() {
    let (desk, mut reverse) = desk();
    let theirs = Arc::clone(&desk);
    let client = std::thread::spawn(move || {
        loop {
            match theirs.next() {
                Some(GeneratorCommand::Stop) => return put(&theirs, &ClientReport::Ended(Box::default())),
                Some(GeneratorCommand::Begin(_)) => put(&theirs, &ClientReport::Refused("no link".into())),
                Some(GeneratorCommand::Compute { id, job }) => {
                    put(&theirs, &ClientReport::Computed(id, serde_json::json!([job])))
                }
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        }
    });
    let request = LoadRequest {
        destination: "10.0.0.1:9000".parse().expect("an address"),
        destination_mac: None,
        interface: None,
        source_port: 9001,
        more_flows: Vec::new(),
        vlan: None,
        method: None,
        most_pps: None,
        frame_bytes: 64,
        run_id: 1,
        max_burst: 32,
        cpu: None,
        by_control_link: false,
        round_trips: false,
        load: crate::load::Load::FlatOut { seconds: 0.1 },
    };
    let refused = reverse.begin(&request).expect_err("it was refused");
    assert!(refused.to_string().contains("no link"), "{refused}");
    assert_eq!(desk.compute(serde_json::json!(7)).expect("an answer"), serde_json::json!([7]));
    assert_eq!(reverse.stop().expect("an empty report").sent, 0);
    client.join().expect("it ends");
    desk.leave();
    assert!(reverse.begin(&request).is_err() && reverse.ended().is_err());
    assert!(desk.compute(serde_json::json!(7)).is_err());
    assert!(desk.take(serde_json::json!({ "text": "zz", "last": true })).is_err());
    assert!(desk.take(serde_json::json!({ "text": "00" })).is_err());
    let unasked = chunks_of(&ClientReport::Computed(9, serde_json::Value::Null));
    assert!(desk.take(serde_json::to_value(&unasked[0]).expect("plain data")).is_err(), "nobody ordered it");
}
