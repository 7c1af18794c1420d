//! A sink that fails in the middle of a trial.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Instant;

use super::super::{Lane, Ticker};
use super::*;
use crate::tester::frame::{Profile, Sweep, Templates};
use netcliff_packets::port::SendOutcome;
use netcliff_packets::port::{Receiver, Receiving, Sender, Sending, Stamp};

/// Frames on the path between sender and sink.
type Cable = Arc<Mutex<VecDeque<Vec<u8>>>>;

struct Plug {
    cable: Cable,
    staged: u64,
}

impl Sender for Plug {
    fn stage(&mut self, length: usize, write: &mut dyn FnMut(&mut [u8])) -> bool {
        let mut frame = vec![0; length];
        write(&mut frame);
        self.cable.lock().expect("nobody panics with it").push_back(frame);
        self.staged += 1;
        true
    }

    fn kick(&mut self) -> Result<SendOutcome, WireError> {
        Ok(SendOutcome { accepted: std::mem::take(&mut self.staged), ..SendOutcome::default() })
    }

    fn sending(&self) -> Sending {
        Sending::PacketRing
    }
}

/// How a sink fails after a number of frames.
#[derive(Clone, Copy)]
enum End {
    Panic,
    PortGone,
}

struct Socket {
    cable: Cable,
    left: usize,
    end: End,
}

impl Receiver for Socket {
    fn poll(&mut self, most: usize, take: &mut dyn FnMut(&[u8], Option<Stamp>)) -> Result<usize, WireError> {
        assert!(self.left > 0 || matches!(self.end, End::PortGone), "the sink's memory is gone");
        let mut cable = self.cable.lock().expect("nobody panics with it");
        let read = most.min(self.left).min(cable.len());
        cable.drain(..read).for_each(|frame| take(&frame, None));
        self.left -= read;
        Ok(read)
    }

    fn missed(&mut self) -> Result<u64, WireError> {
        match self.end {
            End::PortGone if self.left == 0 => {
                Err(WireError::system("receive on interface tst1", nix::Error::ENETDOWN))
            }
            End::Panic | End::PortGone => Ok(0),
        }
    }

    fn receiving(&self) -> Receiving {
        Receiving::PacketRing
    }
}

fn bench(left: usize, end: End) -> Result<Bench, WireError> {
    let profile = Profile {
        source_mac: [2; 6],
        destination_mac: [2; 6],
        vlan: None,
        source: [198, 18, 0, 2].into(),
        destination: [198, 19, 0, 2].into(),
        ports: (1, 1),
        sweep: Sweep::default(),
        sizes: vec![64],
        replay: None,
    };
    let cable = Cable::default();
    let sender = Box::new(Plug { cable: Arc::clone(&cable), staged: 0 });
    let lane = Lane {
        sender,
        receiver: Box::new(Socket { cable, left, end }),
        templates: Templates::new(&profile)?,
        tags: None,
    };
    let tester = Tester {
        sending: Sending::PacketRing,
        not_sent_by_xdp: None,
        receiving: Receiving::PacketRing,
        not_live: None,
        not_received_by_xdp: None,
        stamps: crate::tester::stamps::Stamps::Application,
        ports: Vec::new(),
    };
    Ok(Bench { lanes: vec![lane], ticker: Ticker::new(), tag: 7, tester })
}

/// A long trial, which a failing sink must end early.
const TRIAL: Trial = Trial {
    load_pps: 10_000.0,
    duration_s: 20.0,
    settle_s: 0.0,
    max_burst: 32,
    tagged_at_s: None,
    burst: None,
    most_lost: None,
};

#[test]
fn a_sink_that_dies_ends_the_trial_with_its_last_words() {
    let mut remote = Remote::of(|| bench(1000, End::Panic).map(Work::Rings), Arc::default()).expect("it starts");
    let begin = Instant::now();
    let error = remote.run(TRIAL).expect_err("the sink died").to_string();
    assert!(error.contains("sink") && error.contains("the sink's memory is gone"), "{error}");
    assert!(begin.elapsed().as_secs() < 10, "{:?}", begin.elapsed());
    let error = remote.run(TRIAL).expect_err("it stays dead").to_string();
    assert!(error.contains("it had ended"), "{error}");
}

#[test]
fn a_port_that_goes_away_ends_the_trial_at_once() {
    let mut remote = Remote::of(|| bench(1000, End::PortGone).map(Work::Rings), Arc::default()).expect("it starts");
    let begin = Instant::now();
    let error = remote.run(TRIAL).expect_err("the port is gone").to_string();
    assert!(error.contains("tst1") && error.to_lowercase().contains("network is down"), "{error}");
    assert!(begin.elapsed().as_secs() < 10, "{:?}", begin.elapsed());
}
