//! Several agents: each one's share, and bursts.

use netcliff_core::stream::{AgentRow, ManyRow, Spread, StreamReport};
use netcliff_core::units;

use super::{Page, Tone, median, name};
use crate::format::{self, Unit};

/// Adds a table of the agents, their sum and how they started.
pub(super) fn agents(page: &mut Page, report: &StreamReport) {
    for row in &report.rows {
        let Some(many) = &row.many else { continue };
        page.heading(&format!("AGENTS, {}", name(row)));
        let datagrams = many.agents.iter().any(|agent| agent.datagrams.is_some());
        let lost = if datagrams { "lost" } else { "retr" };
        let mut lines = vec![format!("  {:<24}{:>14}{:>12}{:>12}{:>9}", "agent", "goodput", "sent", "received", lost)];
        for agent in &many.agents {
            let lost = if datagrams { agent.lost } else { agent.retransmissions };
            let short: String = agent.agent.chars().take(23).collect();
            lines.push(format!(
                "  {short:<24}{:>14}{:>12}{:>12}{:>9}",
                median(agent.goodput_bps, Unit::Bps),
                format::amount(agent.sent_bytes),
                format::amount(agent.received_bytes),
                lost.map_or("-".to_owned(), |lost| lost.to_string()),
            ));
        }
        let sum = |pick: fn(&AgentRow) -> u64| format::amount(many.agents.iter().map(pick).sum());
        lines.push(format!(
            "  {:<24}{:>14}{:>12}{:>12}",
            "all",
            median(many.sum_bps, Unit::Bps),
            sum(|agent| agent.sent_bytes),
            sum(|agent| agent.received_bytes),
        ));
        page.block(&lines.join("\n"));
        page.paragraph(2, Tone::Plain, &begun(many));
        incast(page, many);
    }
}

fn begun(many: &ManyRow) -> String {
    let fair = many.jain.map_or(String::new(), |jain| format!("Jain's index {jain:.3}. "));
    let known = if many.clock_error_s > 0.0 {
        format!(" (clocks compared to ±{})", format::quantity(many.clock_error_s, Unit::Seconds))
    } else {
        String::new()
    };
    match many.start_skew_s {
        Some(Spread { median, max, .. }) => {
            let [median, max] = [median, max].map(|s| format::quantity(s, Unit::Seconds));
            format!("{fair}They started within {median} of each other, at most {max}{known}.")
        }
        None => format!("{fair}When they started is not known."),
    }
}

fn incast(page: &mut Page, many: &ManyRow) {
    let Some(incast) = &many.incast else { return };
    let each = units::print_bytes(incast.burst_bytes);
    let text = match incast.until_last_byte_s {
        Some(Spread { median, min, max }) => {
            let [median, min, max] = [median, min, max].map(|s| format::quantity(s, Unit::Seconds));
            let p99 = incast.p99_s.map_or("-".to_owned(), |s| format::quantity(s, Unit::Seconds));
            format!(
                "Incast: {} bursts of {} flows, {each} each: last byte after {median} (least {min}, p99 {p99}, greatest {max}); {} \
                 took longer than the {} to the next.",
                incast.whole,
                incast.flows,
                incast.overran,
                format::quantity(incast.every_s, Unit::Seconds)
            )
        }
        None => format!("Incast: no burst of {} flows with {each} each came whole.", incast.flows),
    };
    page.paragraph(2, Tone::Plain, &text);
}
