//! Several agents: each one's share.

use netcliff_lab::rr::RrRecord;

use super::{Page, Tone};
use crate::format::{self, Unit};

/// A table of the agents, and how they began.
pub(super) fn agents(page: &mut Page, record: &RrRecord) {
    let Some(together) = &record.report.together else { return };
    page.heading("AGENTS");
    let mut lines = vec![format!("  {:<30}{:>13}{:>11}{:>11}{:>9}", "agent", "rate", "p50", "p99", "lost")];
    for agent in &together.agents {
        let latency = agent.latency.as_ref().map(|latency| latency.summary);
        let [p50, p99] = [latency.map(|of| of.p50_s), latency.map(|of| of.p99_s)]
            .map(|time| time.map_or("-".to_owned(), |time| format::quantity(time, Unit::Seconds)));
        let rate = format::quantity(agent.rate_per_s, Unit::PerSecond);
        let short: String = agent.agent.chars().take(29).collect();
        lines.push(format!("  {short:<30}{rate:>13}{p50:>11}{p99:>11}{:>9}", agent.timeouts));
    }
    page.block(&lines.join("\n"));
    let fair = together.jain.map_or(String::new(), |jain| format!("Jain's index {jain:.3}. "));
    let skew = match together.start_skew_s {
        Some(skew_s) => {
            format!("First requests left within {} of each other.", format::quantity(skew_s, Unit::Seconds))
        }
        None => "When they were first asked is not known.".to_owned(),
    };
    page.paragraph(2, Tone::Plain, &format!("{fair}{skew}"));
}
