//! Interim reports of a running transfer.

use super::*;

/// Watch that stores all intervals.
struct Heard(Vec<Interval>);

impl Watch for Heard {
    fn interval(&self) -> Option<Duration> {
        Some(Duration::from_millis(50))
    }

    fn passed(&mut self, interval: &Interval) {
        self.0.push(*interval);
    }
}

/// The intervals cover the windows without gaps, and contain no more bytes than were moved, both with one thread per
/// flow and with shared threads.
#[test]
fn intervals_cover_the_windows() {
    for (channel, flows, threads) in [(tcp(), 1, None), (tcp(), 4, Some(2)), (udp(DatagramPath::Batch), 1, None)] {
        let asked = Settings { flows, threads, amount: Amount::Seconds(0.4), ..settings(channel, 1400) };
        let mut heard = Heard(Vec::new());
        let transfer = run(&asked, &mut heard).expect("both ends work");
        let total = |end: fn(&Flow) -> &End| transfer.flows.iter().map(|flow| end(flow).total_bytes).sum::<u64>();
        let heard = heard.0;
        assert!((2..=10).contains(&heard.len()), "{heard:?}");
        assert!(heard[0].from_s == 0.0 && heard.windows(2).all(|pair| pair[0].to_s == pair[1].from_s), "{heard:?}");
        assert!(heard.last().is_some_and(|last| last.to_s >= 0.38), "{heard:?}");
        let sum = |count: fn(&Interval) -> Option<u64>| heard.iter().filter_map(count).sum::<u64>();
        let (sent, received) = (sum(|interval| interval.sent_bytes), sum(|interval| interval.received_bytes));
        assert!(sent > 0 && sent <= total(|flow| &flow.sender), "{heard:?}");
        assert!(received > 0 && received <= total(|flow| &flow.receiver), "{heard:?}");
        let tcp = matches!(asked.channel, Channel::Tcp { .. });
        assert_eq!(heard.last().and_then(|last| last.retransmissions).is_some(), tcp, "{heard:?}");
        assert_eq!(heard.last().and_then(|last| last.rtt_s).is_some(), tcp, "{heard:?}");
    }
}
