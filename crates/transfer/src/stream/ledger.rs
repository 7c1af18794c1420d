//! The packet accounting of a UDP configuration: where the datagrams of one additional transfer went. It is not done
//! during the repeats, because tracing each drop costs time.

use std::sync::atomic::Ordering;

use crate::bulk::{Amount, Channel, DatagramPath, Datagrams, END_MARKS, Flow, Settings, Transfer};
use netcliff_core::ledger::{Place, TrialLedger};
use netcliff_host::drops::ledger::{Ends, Spaces};
use netcliff_packets::WireError;

use super::{Config, Far, Meters, StreamOptions};
use netcliff_trial::ledger::{self, Way, row};

/// Longest transfer that is accounted for (s): one second fills every queue on the path.
const MOST_S: f64 = 1.0;
/// Length of the IP and UDP headers (bytes), for IPv4 and IPv6.
const HEADERS: [usize; 2] = [28, 48];
/// Length of the link layer's header with a VLAN tag (bytes).
const LINK: usize = 18;
/// Largest number of addresses in a filter.
const MOST_ADDRESSES: usize = 8;

/// Accounts for the datagrams of each measured configuration.
pub(super) fn account(
    options: &StreamOptions,
    far: &mut Far<'_>,
    configs: &mut [Config],
    meters: &mut Meters,
    said: &mut dyn FnMut(&str),
) {
    if !matches!(options.template.channel, Channel::Udp { .. }) {
        return;
    }
    said("accounting for the datagrams of a transfer");
    for config in configs.iter_mut().filter(|config| !config.repeats.is_empty() && config.ended.is_none()) {
        if options.stop.load(Ordering::Relaxed) {
            return meters.note(Some("ledger: the run was stopped before"));
        }
        match of_config(options, far, config) {
            Ok(ledger) => config.ledger = Some(ledger),
            Err(why) => meters.note(Some(&format!("ledger: {why}"))),
        }
    }
}

fn of_config(options: &StreamOptions, far: &mut Far<'_>, config: &Config) -> Result<TrialLedger, String> {
    let (_, settings) = config.settings(options);
    let amount = Amount::Seconds(options.time_s.min(MOST_S));
    let settings = Settings { warm_up_s: 0.0, windows: 1, amount, ..settings };
    let known = config.repeats.iter().flat_map(|repeat| &repeat.transfer.flows);
    let mtu_bytes = known.filter_map(|flow| flow.in_force.as_ref()?.mtu_bytes).min();
    let datagram_bytes = settings.block_bytes + headers(&settings);
    if let Some(mtu_bytes) = mtu_bytes.filter(|mtu_bytes| datagram_bytes > *mtu_bytes as usize) {
        return Err(format!(
            "datagrams of {} bytes travel in fragments over a path with an MTU of {mtu_bytes}, and the kernel drops those one by one: \
             --block {} is the largest that does not",
            settings.block_bytes,
            (mtu_bytes as usize).saturating_sub(headers(&settings))
        ));
    }
    let way = way(&settings, far);
    let (mut seconds, mut limits) = (0.0_f64, limits(far));
    let made = ledger::of_trial(&way, |traced| {
        let transfer = far.transfer(&settings, &mut ())?;
        if let Some(why) = transfer.cut_short {
            return Err(WireError::Changed(why));
        }
        seconds = longest_s(&transfer);
        Ok(ends(&transfer, far.is_this_host(), traced))
    });
    let mut ledger = made.map_err(|error| error.to_string())?;
    let marks = end_marks(far, &settings, ledger.unexplained);
    if marks > 0 {
        ledger.sent += marks;
        ledger.unexplained += marks as i64;
        limits.push(format!(
            "{marks} more were dropped than the sender counts: they are taken for datagrams that mark the end of a flow"
        ));
    }
    ledger.limits.append(&mut limits);
    Ok(TrialLedger { load_pps: ledger.sent as f64 / seconds.max(1e-9), ledger })
}

fn headers(settings: &Settings) -> usize {
    let ipv6 = matches!(&settings.channel, Channel::Udp { address, .. } if address.is_ipv6());
    HEADERS[usize::from(ipv6)]
}

/// Filter and namespaces of the data path: datagrams to or from the far end that are as long as the block. The
/// datagrams that open a flow have another length.
fn way(settings: &Settings, far: &Far<'_>) -> Way {
    let (address, path) = match &settings.channel {
        Channel::Udp { address, path } => (Some(*address), *path),
        _ => (None, DatagramPath::Single),
    };
    let addresses: Vec<String> = match far {
        Far::Here => address.iter().map(|address| format!("host {address}")).collect(),
        Far::Agent { address, .. } => vec![format!("host {address}")],
        Far::Agents(agents) => agents.iter().map(|agent| format!("host {}", agent.address)).collect(),
    };
    let least = settings.block_bytes + headers(settings);
    let mut filter = format!("udp and greater {least}");
    // Datagrams that the stack merges or splits are longer.
    if !path.takes_apart() && !path.puts_together() {
        filter += &format!(" and less {}", least + LINK);
    }
    if !addresses.is_empty() && addresses.len() <= MOST_ADDRESSES {
        filter += &format!(" and ({})", addresses.join(" or "));
    }
    Way { filter, groups: vec![Spaces { paths: spaces(settings, far), up_to_tap: false }] }
}

/// The namespaces of the ends in this process. Empty if an agent on this host may be in any namespace.
fn spaces(settings: &Settings, far: &Far<'_>) -> Vec<std::path::PathBuf> {
    let own = || "/proc/thread-self/ns/net".into();
    let near = settings.near.netns.clone().unwrap_or_else(own);
    match far {
        Far::Here => {
            let far = settings.far.netns.clone().unwrap_or_else(own);
            if near == far { vec![near] } else { vec![near, far] }
        }
        _ if far.is_this_host() => Vec::new(),
        _ => vec![near],
    }
}

/// Which drops are not visible from this host.
fn limits(far: &Far<'_>) -> Vec<String> {
    let elsewhere =
        "drops on the way and at the far end's host are not seen from here, but for those that its sockets report";
    if far.is_this_host() { Vec::new() } else { vec![elsewhere.to_owned()] }
}

/// Longest sending time of a flow (s).
fn longest_s(transfer: &Transfer) -> f64 {
    let wall_s = transfer.flows.iter().filter_map(|flow| Some(flow.sender.whole()?.cpu.wall_s));
    wall_s.fold(0.0, f64::max)
}

/// The counts of both ends.
fn ends(transfer: &Transfer, is_this_host: bool, traced: bool) -> Ends {
    let sum = |counts: &dyn Fn(&Flow) -> u64| transfer.flows.iter().map(counts).sum::<u64>();
    let sent = |count: fn(Datagrams) -> u64| sum(&|flow: &Flow| flow.sender.datagrams.map_or(0, count));
    let received = |count: fn(Datagrams) -> u64| sum(&|flow: &Flow| flow.receiver.datagrams.map_or(0, count));
    // The far host's kernel is not traced, so use its sockets' own drop counters.
    let at_socket = if is_this_host { 0 } else { received(|counts| counts.dropped.unwrap_or(0)) };
    // If drops are traced, the trace contains what the sending host's kernel dropped.
    let untraced = |count: fn(Datagrams) -> u64| if traced { 0 } else { sent(count) };
    Ends {
        sent: sent(|counts| counts.moved),
        delivered: received(|counts| counts.moved),
        rows: vec![
            row(Place::Socket, "SO_RXQ_OVFL", at_socket, "the receiver's socket"),
            row(Place::Qdisc, "refused", untraced(|counts| counts.refused), "the sender's send()"),
            row(Place::Netfilter, "refused", untraced(|counts| counts.denied), "the sender's send()"),
            row(Place::Sender, "its socket buffer was full", sent(|counts| counts.buffer_full), "the sender's send()"),
            row(Place::Ip, "longer than the path takes", sent(|counts| counts.too_long), "the sender's send()"),
            row(Place::Ip, "no route or neighbour", sent(|counts| counts.no_route), "the sender's send()"),
        ],
        refused: (!traced).then_some(0),
    }
}

/// Number of unexplained drops that are counted as end marks. A sender marks the end of its data by several datagrams,
/// and an agent's receiver has closed its socket when the last of these arrive.
fn end_marks(far: &Far<'_>, settings: &Settings, unexplained: i64) -> u64 {
    let most = match far {
        Far::Here => 0,
        Far::Agent { .. } => 2 * u64::from(settings.flows) * u64::from(END_MARKS),
        Far::Agents(agents) => 2 * agents.len() as u64 * u64::from(settings.flows) * u64::from(END_MARKS),
    };
    unexplained.min(0).unsigned_abs().min(most)
}
