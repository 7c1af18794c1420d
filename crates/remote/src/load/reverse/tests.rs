//! Generator commands and their answers, without a network.

use std::net::SocketAddr;

use super::*;
use crate::load::Route;

fn desk() -> (Arc<OrderQueue>, Reverse) {
    let desk = Arc::<OrderQueue>::default();
    let fingerprint = Fingerprint::default();
    let reverse = Reverse { desk: Arc::clone(&desk), shares_clock: true, fingerprint, peer: "here".into() };
    (desk, reverse)
}

fn request() -> LoadRequest {
    LoadRequest {
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
    }
}

fn put(desk: &OrderQueue, report: &ClientReport) {
    send(desk, chunks_of(report));
}

fn send(desk: &OrderQueue, chunks: Vec<Chunk>) {
    for chunk in chunks {
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
    let request = request();
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

/// A generator in another agent that gives these answers to progress requests, and counts the calls.
#[derive(Debug, Default)]
struct Fake {
    answers: VecDeque<Result<LoadProgress, WireError>>,
    /// The generator ended by itself after its last answer.
    ends: bool,
    calls: Arc<Mutex<Vec<&'static str>>>,
}

impl Fake {
    fn called(&self, what: &'static str) {
        self.calls.lock().expect("the calls").push(what);
    }
}

impl Carrier for Fake {
    fn begin(&mut self, request: &LoadRequest) -> Result<LoadReady, WireError> {
        self.called("begin");
        let mac = [2, 0, 0, 0, 0, 1];
        let source = SocketAddr::new(request.destination.ip(), request.source_port);
        let way = Route { interface: "eth1".to_owned(), source, source_mac: mac, destination_mac: mac };
        Ok(LoadReady { window: None, way, method: Default::default(), most_pps: Some(6e4) })
    }

    fn ask(&mut self) -> Result<LoadProgress, WireError> {
        self.called("ask");
        self.answers.pop_front().expect("an answer")
    }

    fn ended(&mut self) -> Result<Option<LoadReport>, WireError> {
        let is_over = self.ends && self.answers.is_empty();
        Ok(is_over.then(|| LoadReport { sent: 9, ..LoadReport::default() }))
    }

    fn stop(&mut self) -> Result<LoadReport, WireError> {
        self.called("stop");
        Ok(LoadReport { sent: 8, ..LoadReport::default() })
    }

    fn shares_clock(&self) -> bool {
        true
    }

    fn fingerprint(&mut self) -> Option<Fingerprint> {
        None
    }

    fn peer(&self) -> String {
        "there".to_owned()
    }
}

/// A relay to this generator, after it has begun a load for `desk`; also returns the calls.
fn relayed(fake: Fake, desk: &OrderQueue) -> (Relay, Arc<Mutex<Vec<&'static str>>>) {
    let calls = Arc::clone(&fake.calls);
    let mut relay = Relay::new(Box::new(fake));
    assert!(relay.look().is_empty() && relay.obey(&GeneratorCommand::Stop).is_empty(), "nothing is sent yet");
    send(desk, relay.obey(&GeneratorCommand::Begin(Box::new(request()))));
    let ready = desk.state().ready.take().expect("an answer").expect("it is accepted");
    assert_eq!((ready.way.interface.as_str(), ready.most_pps), ("eth1", Some(6e4)));
    (relay, calls)
}

#[test]
fn a_relay_queries_a_generator_that_sends_and_reports_its_end_once() {
    let (desk, mut reverse) = desk();
    let fake = Fake { answers: [Ok(LoadProgress::Sent(5))].into(), ends: true, ..Fake::default() };
    let (mut relay, calls) = relayed(fake, &desk);
    assert!(relay.look().is_empty(), "it is not time yet");
    std::thread::sleep(REPORT_INTERVAL);
    send(&desk, relay.look());
    assert!(matches!(reverse.ask(), Ok(LoadProgress::Sent(5))));
    send(&desk, relay.look());
    assert_eq!(reverse.ended().expect("it is here").expect("it has ended").sent, 9);
    assert!(relay.look().is_empty() && relay.obey(&GeneratorCommand::Stop).is_empty(), "the end was reported");
    assert_eq!(*calls.lock().expect("the calls"), ["begin", "ask"]);
}

#[test]
fn a_relay_stops_a_generator_on_command() {
    let (desk, mut reverse) = desk();
    let (mut relay, calls) = relayed(Fake::default(), &desk);
    send(&desk, relay.obey(&GeneratorCommand::Stop));
    assert_eq!(reverse.ended().expect("it is here").expect("it has ended").sent, 8);
    assert!(relay.look().is_empty());
    assert_eq!(*calls.lock().expect("the calls"), ["begin", "stop"]);
}

#[test]
fn a_lost_generator_is_an_error_with_its_reason() {
    let (desk, mut reverse) = desk();
    let lost = Err(far_failure("there has closed the connection"));
    let (mut relay, _) = relayed(Fake { answers: [lost].into(), ..Fake::default() }, &desk);
    std::thread::sleep(REPORT_INTERVAL);
    send(&desk, relay.look());
    assert!(relay.look().is_empty(), "nothing is sent any more");
    for outcome in [reverse.ended().map(drop), reverse.begin(&request()).map(drop)] {
        let why = outcome.expect_err("it is gone").to_string();
        assert!(why.contains("there has closed the connection"), "{why}");
    }
}

#[test]
fn messages_name_their_generator_unless_it_is_the_first() {
    let chunk = || chunks_of(&ClientReport::Sent(1)).remove(0);
    let message = |place: usize| serde_json::to_value(chunk().of_generator(place)).expect("plain data");
    assert_eq!((Chunk::generator_of(&message(0)), Chunk::generator_of(&message(3))), (0, 3));
    assert!(message(0).get("generator").is_none(), "older agents know no other generator");
}
