//! Interim reports of a running test.

use std::sync::Mutex;
use std::time::Duration;

use super::*;
use crate::rr::{Interval, Intervals};

/// The intervals cover the window without gaps, and their transactions are those of the window.
#[test]
fn intervals_cover_the_window() {
    for (flows, rate_per_s) in [(2, None), (1, Some(500.0))] {
        let settings = Settings { flows, rate_per_s, time_s: 0.4, ..settings(Transport::Tcp) };
        let stop = AtomicBool::new(false);
        let token = Token::new().expect("random");
        let listening = Server::listen(&settings, LOOPBACK, token, &Placement::default());
        let mut server = listening.expect("it listens");
        let heard = Mutex::new(Vec::<Interval>::new());
        let told = |interval| heard.lock().expect("no panic").push(interval);
        let intervals = Some(Intervals { every: Duration::from_millis(50), told: &told });
        let near = Near { intervals, ..near(targets(&settings, server.ports()), token, &stop) };
        let report = run(&settings, near, &mut || Some(server.count()), None).expect("it runs");
        let heard = heard.into_inner().expect("no panic");
        assert!((2..=9).contains(&heard.len()), "{heard:?}");
        assert!(heard[0].from_s == 0.0 && heard.windows(2).all(|pair| pair[0].to_s == pair[1].from_s), "{heard:?}");
        assert!(heard.last().is_some_and(|last| last.to_s > 0.37), "{heard:?}");
        let told: u64 = heard.iter().map(|interval| interval.transactions).sum();
        // Transactions that end in the last moments, or (open loop) after the window, are in the final report alone.
        assert!(told > 0 && told <= report.transactions, "{told} of {}: {heard:?}", report.transactions);
        let longest = report.latency.as_ref().expect("transactions").summary.max_s;
        assert!(heard.iter().filter_map(|interval| interval.max_s).all(|max_s| max_s <= longest * 1.01), "{heard:?}");
    }
}
