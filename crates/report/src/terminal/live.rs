//! Lines during a measurement, one for each interval, as iperf3 prints them: [`StreamLines`], [`RrLines`].

use netcliff_core::units;
use netcliff_transfer::rr;
use netcliff_transfer::stream::{Interval, LiveEvent};

use crate::format::{self, Unit};

/// The lines of `netcliff stream -i`.
#[derive(Debug, Default)]
pub struct StreamLines {
    /// Heading for the next interval, if that is the first of a repeat. `None` otherwise.
    heading: Option<String>,
    /// True if the data are datagrams. Datagrams that were sent and not received are lost, or still on their way.
    datagrams: bool,
}

impl StreamLines {
    /// Lines for datagrams, or for a stream of bytes.
    pub fn new(datagrams: bool) -> Self {
        Self { heading: None, datagrams }
    }

    /// The lines for an event, each with its line end. Empty if the event needs no line.
    pub fn lines(&mut self, event: &LiveEvent) -> String {
        match event {
            LiveEvent::Repeat { path, block_bytes, repeat } => {
                self.heading = Some(format!("{path} {}, repeat {repeat}", units::print_bytes(*block_bytes as u64)));
                String::new()
            }
            LiveEvent::Passed(interval) => {
                let heading = self.heading.take().map(|name| format!("{name}\n{}\n", self.head(interval)));
                heading.unwrap_or_default() + &self.line(interval) + "\n"
            }
        }
    }

    fn head(&self, interval: &Interval) -> String {
        let mut head = format!("  {:<15}", "interval");
        if interval.received_bytes.is_some() {
            head += &format!("{:>9}{:>13}", "received", "rate");
        }
        if interval.sent_bytes.is_some() {
            head += &format!("{:>9}{:>13}", "sent", "rate");
        }
        if self.shows_loss(interval) {
            head += &format!("{:>9}", "lost");
        } else if !self.datagrams && interval.sent_bytes.is_some() {
            head += &format!("{:>7}{:>9}", "retr", "rtt");
        }
        head
    }

    fn line(&self, interval: &Interval) -> String {
        let mut line = format!("  {:<15}", span(interval.from_s, interval.to_s));
        for bytes in [interval.received_bytes, interval.sent_bytes].into_iter().flatten() {
            let rate = format::quantity(interval.rate_bps(bytes), Unit::Bps);
            line += &format!("{:>9}{rate:>13}", format::amount(bytes));
        }
        if self.shows_loss(interval) {
            let lost = interval.sent_bytes.zip(interval.received_bytes).filter(|(sent, _)| *sent > 0);
            // Datagrams sent before may arrive now.
            let lost = lost.map(|(sent, received)| sent.saturating_sub(received) as f64 / sent as f64);
            line += &format!("{:>9}", lost.map_or("-".to_owned(), format::loss));
        } else if !self.datagrams && interval.sent_bytes.is_some() {
            let retransmitted = interval.retransmissions.map_or("-".to_owned(), |count| count.to_string());
            let rtt = interval.rtt_s.map_or("-".to_owned(), |rtt_s| format::quantity(rtt_s, Unit::Seconds));
            line += &format!("{retransmitted:>7}{rtt:>9}");
        }
        line
    }

    fn shows_loss(&self, interval: &Interval) -> bool {
        self.datagrams && interval.sent_bytes.is_some() && interval.received_bytes.is_some()
    }
}

/// The lines of `netcliff rr -i`.
#[derive(Debug, Default)]
pub struct RrLines {
    /// The heading of the next interval, if it is the first of a repeat.
    heading: Option<String>,
}

impl RrLines {
    /// Notes that a repeat with these settings begins.
    pub fn repeat(&mut self, settings: &rr::Settings) {
        let flows = if settings.flows == 1 { "flow" } else { "flows" };
        let load = match settings.rate_per_s {
            Some(rate_per_s) => format!("{} requested", format::quantity(rate_per_s, Unit::PerSecond)),
            None => format!("{} in flight in each", settings.depth),
        };
        self.heading = Some(format!("{} {flows}, {load}", settings.flows));
    }

    /// The line of an interval, after the heading if it is the first of a repeat.
    pub fn line(&mut self, interval: &rr::Interval) -> String {
        let head = |name: String| {
            let names = ["responses", "rate", "mean rtt", "max rtt", "lost"];
            let [responses, rate, mean, max, lost] = names;
            format!("{name}\n  {:<17}{responses:>10}{rate:>12}{mean:>10}{max:>10}{lost:>8}\n", "interval")
        };
        let time =
            |time_s: Option<f64>| time_s.map_or("-".to_owned(), |time_s| format::quantity(time_s, Unit::Seconds));
        let rate = format::quantity(interval.rate_per_s(), Unit::PerSecond);
        let (mean, max) = (time(interval.mean_s), time(interval.max_s));
        let line = format!(
            "  {:<17}{:>10}{rate:>12}{mean:>10}{max:>10}{:>8}\n",
            span(interval.from_s, interval.to_s),
            interval.transactions,
            interval.timeouts
        );
        self.heading.take().map(head).unwrap_or_default() + &line
    }
}

/// A time span as text: `0.00-1.00 s`.
fn span(from_s: f64, to_s: f64) -> String {
    format!("{from_s:.2}-{to_s:.2} s")
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: Interval = Interval {
        from_s: 0.0,
        to_s: 1.0,
        sent_bytes: Some(3_125_000_000),
        received_bytes: Some(3_100_000_000),
        retransmissions: Some(12),
        rtt_s: Some(45e-6),
    };

    #[test]
    fn columns_are_those_that_are_known() {
        let begins = |repeat| LiveEvent::Repeat { path: "write", block_bytes: 1 << 20, repeat };
        let mut lines = StreamLines::new(false);
        assert_eq!(lines.lines(&begins(1)), "");
        let late =
            Interval { from_s: 1.0, to_s: 2.02, sent_bytes: Some(0), retransmissions: None, rtt_s: None, ..WHOLE };
        let mut text = lines.lines(&LiveEvent::Passed(WHOLE)) + &lines.lines(&LiveEvent::Passed(late));
        let mut near = StreamLines::new(false);
        near.lines(&begins(2));
        text += &near.lines(&LiveEvent::Passed(Interval { received_bytes: None, ..WHOLE }));
        let mut datagrams = StreamLines::new(true);
        datagrams.lines(&LiveEvent::Repeat { path: "gso", block_bytes: 1472, repeat: 3 });
        text += &datagrams.lines(&LiveEvent::Passed(WHOLE));
        text += &datagrams.lines(&LiveEvent::Passed(late));
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        insta::assert_snapshot!("live-stream", text);
    }

    #[test]
    fn responses_and_their_latency() {
        let mut lines = RrLines::default();
        lines.repeat(&rr::Settings { flows: 2, depth: 8, ..rr::Settings::default() });
        let interval = rr::Interval {
            from_s: 0.0,
            to_s: 0.5,
            transactions: 22_610,
            mean_s: Some(21.9e-6),
            max_s: Some(310e-6),
            timeouts: 0,
        };
        let mut text = lines.line(&interval);
        let silent = rr::Interval { from_s: 0.5, to_s: 1.0, transactions: 0, mean_s: None, max_s: None, timeouts: 3 };
        text += &lines.line(&silent);
        insta::assert_snapshot!(text, @r"
        2 flows, 8 in flight in each
          interval          responses        rate  mean rtt   max rtt    lost
          0.00-0.50 s           22610    45.2 k/s   21.9 us    310 us       0
          0.50-1.00 s               0        0 /s         -         -       3
        ");
    }
}
