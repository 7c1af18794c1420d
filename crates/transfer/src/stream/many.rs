//! Several agents: the share of each in the transfers, and bursts.

use crate::bulk::{End, Flow, Many, Settings};
use netcliff_core::stream::{AgentRow, IncastRow, ManyRow, Spread, jain, quantile};
use netcliff_packets::clock;

use super::{Repeat, StreamOptions};

/// The results by agent of a configuration. `None` with a single far end.
pub(super) fn row(options: &StreamOptions, repeats: &[Repeat]) -> Option<ManyRow> {
    let made: Vec<(&Many, &[Flow])> = repeats
        .iter()
        .filter_map(|repeat| Some((repeat.transfer.many.as_ref()?, &repeat.transfer.flows[..])))
        .collect();
    let (first, _) = made.first()?;
    let receiver = options.method.clock() == "receiver";
    let end = move |flow: &Flow| -> End { if receiver { flow.receiver.clone() } else { flow.sender.clone() } };
    let agents: Vec<AgentRow> = (0..first.agents.len()).map(|number| agent(&made, number, &end)).collect();
    let sums: Vec<f64> = made.iter().filter_map(|(_, flows)| goodput(flows, &end)).collect();
    let means: Vec<f64> = (0..first.agents.len())
        .map(|number| {
            let of = |(many, flows): &(&Many, &[Flow])| goodput(own(many, flows, number), &end);
            let all: Vec<f64> = made.iter().filter_map(of).collect();
            all.iter().sum::<f64>() / all.len().max(1) as f64
        })
        .collect();
    let skew_s = made.iter().filter_map(|(many, _)| {
        let began = many.agents.iter().map(|agent| agent.began_ns).collect::<Option<Vec<u64>>>()?;
        Some((began.iter().max()? - began.iter().min()?) as f64 * 1e-9)
    });
    let error_ns = made.iter().flat_map(|(many, _)| many.agents.iter().map(|agent| agent.clock_error_ns)).max();
    Some(ManyRow {
        agents,
        sum_bps: Spread::of(sums),
        jain: jain(&means),
        start_skew_s: Spread::of(skew_s),
        clock_error_s: error_ns.unwrap_or(0) as f64 * 1e-9,
        incast: incast(options, &made),
    })
}

/// The flows of an agent.
fn own<'a>(many: &Many, flows: &'a [Flow], number: usize) -> &'a [Flow] {
    many.agents.get(number).and_then(|agent| flows.get(agent.flows.clone())).unwrap_or_default()
}

/// Sum of the flows' goodput in their windows (bit/s). `None` without a window.
fn goodput(flows: &[Flow], end: &impl Fn(&Flow) -> End) -> Option<f64> {
    flows.iter().filter_map(|flow| end(flow).whole()?.goodput_bps()).reduce(|sum, next| sum + next)
}

fn agent(made: &[(&Many, &[Flow])], number: usize, end: &impl Fn(&Flow) -> End) -> AgentRow {
    let flows: Vec<&Flow> = made.iter().flat_map(|(many, flows)| own(many, flows, number)).collect();
    let retransmitted = |flow: &&Flow| {
        let (from, to) = flow.tcp.first().zip(flow.tcp.last())?;
        Some(to.retransmissions.saturating_sub(from.retransmissions))
    };
    let sum = |values: Vec<u64>| (!values.is_empty()).then(|| values.iter().sum());
    let sent = |flow: &&Flow| Some(flow.sender.datagrams?.moved);
    let lost = |flow: &&Flow| {
        let (sent, received) = flow.sender.datagrams.zip(flow.receiver.datagrams)?;
        Some(sent.moved.saturating_sub(received.moved.saturating_sub(received.duplicates)))
    };
    let after_s = made.iter().filter_map(|(many, _)| {
        let first_ns = many.agents.iter().filter_map(|agent| agent.began_ns).min()?;
        Some((many.agents.get(number)?.began_ns? - first_ns) as f64 * 1e-9)
    });
    let goodputs: Vec<f64> = made.iter().filter_map(|(many, flows)| goodput(own(many, flows, number), end)).collect();
    AgentRow {
        agent: made.iter().find_map(|(many, _)| Some(many.agents.get(number)?.name.clone())).unwrap_or_default(),
        goodput_bps: Spread::of(goodputs),
        sent_bytes: flows.iter().map(|flow| flow.sender.total_bytes).sum(),
        received_bytes: flows.iter().map(|flow| flow.receiver.total_bytes).sum(),
        retransmissions: sum(flows.iter().filter_map(retransmitted).collect()),
        datagrams: sum(flows.iter().filter_map(sent).collect()),
        lost: sum(flows.iter().filter_map(lost).collect()),
        began_after_s: Spread::of(after_s).map(|spread| spread.median),
    }
}

/// Times of the bursts: from the common start of a burst until the last flow's receiver has all bytes of the burst.
fn incast(options: &StreamOptions, made: &[(&Many, &[Flow])]) -> Option<IncastRow> {
    let burst = options.template.burst?;
    let warm_up_ns = clock::ns_from_s(warm_up_s(options)).unwrap_or(0);
    let mut took_s = Vec::new();
    for (many, flows) in made {
        let whole = flows.iter().map(|flow| flow.receiver.bursts_ns.len()).min().unwrap_or(0);
        for number in 0..whole {
            let due_ns = many.start_ns + number as u64 * burst.every_ns;
            let last_ns = flows.iter().filter_map(|flow| flow.receiver.bursts_ns.get(number)).max();
            if let Some(last_ns) = last_ns.filter(|_| due_ns >= many.start_ns + warm_up_ns) {
                took_s.push(last_ns.saturating_sub(due_ns) as f64 * 1e-9);
            }
        }
    }
    took_s.sort_by(f64::total_cmp);
    let every_s = burst.every_ns as f64 * 1e-9;
    Some(IncastRow {
        burst_bytes: burst.bytes,
        every_s,
        flows: made.iter().map(|(_, flows)| flows.len()).max().unwrap_or(0) as u32,
        whole: took_s.len() as u64,
        overran: took_s.iter().filter(|took_s| **took_s > every_s).count() as u64,
        p99_s: quantile(&took_s, 0.99),
        until_last_byte_s: Spread::of(took_s),
    })
}

fn warm_up_s(options: &StreamOptions) -> f64 {
    let (_, Settings { warm_up_s, .. }) = options.method.settings(options, options.template.clone());
    warm_up_s
}
