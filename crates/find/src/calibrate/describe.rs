//! Converts the fitted costs to the costs in the report, and to a host for the engines.

use netcliff_core::finding::{Calibration, Cost};
use netcliff_core::{Figure, Host};

use super::fit::Fits;
use super::{LARGE_FRAME_BYTES, Seen};
use netcliff_trial::trial::TrialShape;

/// Key of the cost that is the coefficient of variation of a packet's time.
pub const VARIATION: &str = "protocol_variation";

/// The costs, how each was measured, and the calibrated host.
pub fn calibration(fits: &Fits, seen: &Seen, base: &TrialShape, method: &str) -> Calibration {
    Calibration {
        costs: costs(fits, seen, base, method),
        host: host(fits, seen, base, tick_s()),
        cpu_method: method.to_owned(),
        r_squared: Some(fits.r_squared),
        correlated: Vec::new(),
    }
}

fn per_byte_s(fits: &Fits) -> f64 {
    fits.per_byte.map_or(0.0, |figure| figure.value)
}

/// Protocol cost of a packet without its bytes.
fn own_protocol(fits: &Fits, base: &TrialShape) -> Figure {
    fits.protocol.mapped(|cost_s| cost_s - per_byte_s(fits) * f64::from(base.frame_bytes))
}

/// Cost of a NIC's interrupt that arrives while NAPI polls, so that the handler masks nothing. `None` with a backlog,
/// which has no NIC.
fn polling(fits: &Fits, seen: &Seen) -> Option<Figure> {
    let hidden_s = fits.hidden_polling_s;
    fits.handled.filter(|_| !seen.backlog).map(|figure| figure.mapped(|handled_s| handled_s + hidden_s))
}

/// Cost of an interrupt to the application when it continues afterwards. `None` with a backlog, where the interrupt's
/// cost includes it.
fn resume(fits: &Fits, seen: &Seen) -> Option<Figure> {
    fits.hidden.filter(|_| !seen.backlog)
}

/// Cost of an interrupt or poll without the NIC's masking.
fn unmasked(figure: Option<Figure>, fits: &Fits) -> Option<Figure> {
    let mask_s = fits.mask.map_or(0.0, |mask| mask.value);
    figure.map(|figure| figure.mapped(|cost_s| cost_s - mask_s))
}

fn costs(fits: &Fits, seen: &Seen, base: &TrialShape, method: &str) -> Vec<Cost> {
    let own = own_protocol(fits, base);
    let polls = match fits.by_totals {
        false => format!("poll times by packets a poll, mean over trials ({method})"),
        true => format!("regression of softirq time over trials on packets, polls and wake-ups ({method})"),
    };
    let task = format!("regression of the application's time on packets, wake-ups and interrupts ({method})");
    let frames = format!("{LARGE_FRAME_BYTES}-byte frames against {}-byte frames", base.frame_bytes);
    let cold = "a socket kept full by 1.4 times the rough cliff, against the trial before it, median over pairs";
    let handled =
        format!("interrupt handler time, and the time added to the application that it interrupts ({method})");
    let resumed =
        format!("part of the interrupt cost: time added to the interrupted application beyond the handler ({method})");
    let in_polls = format!(
        "interrupt handler time, and the time added to a poll that it interrupts: polls interrupted before their first packet against others ({method})"
    );
    let mask = format!(
        "softirq time of a poll after the time until it finds its first packet; masking in an interrupt is assumed to take as long ({method})"
    );
    let drop = "protocol time with a full socket over that of a delivered packet";
    let variation = match seen.backlog {
        true => {
            "coefficient of variation (standard deviation over mean) of protocol times, from polls of equal size, median over trials; both engines use it"
        }
        false => {
            "coefficient of variation (standard deviation over mean) of protocol times, from polls of equal size, median over trials; the engines use the value for polls of 8"
        }
    };
    let ring = if seen.backlog {
        "net.core.netdev_max_backlog"
    } else {
        "descriptors of the receive ring, as the driver reports"
    };
    let rows = [
        ("interrupt", unmasked(fits.interrupt, fits), "s", handled.as_str()),
        ("interrupt_polling", polling(fits, seen), "s", in_polls.as_str()),
        ("interrupt_resume", resume(fits, seen), "s", resumed.as_str()),
        ("interrupt_latency", fits.latency, "s", "from the packets a poll finds, median over trials"),
        ("mask", fits.mask, "s", mask.as_str()),
        ("poll", unmasked(Some(fits.poll), fits), "s", &polls),
        ("protocol", Some(own), "s", &polls),
        (VARIATION, fits.variation, "", variation),
        ("per_byte", fits.per_byte, "s/B", &frames),
        ("wakeup", Some(fits.wakeup), "s", &polls),
        ("application", Some(fits.application), "s", &task),
        ("context_switch", Some(fits.context_switch), "s", &task),
        ("cold_protocol", fits.cold_protocol, "s", cold),
        ("cold_application", fits.cold_application, "s", cold),
        ("socket_drop_cost", fits.socket_drop_cost.map(Figure::exact), "", drop),
        ("ring", seen.ring.map(|slots| Figure::exact(slots as f64)), "packets", ring),
        ("socket_buffer", seen.capacity.map(Figure::exact), "packets", "packets taken by a socket that nobody reads"),
    ];
    rows.into_iter()
        .filter_map(|(key, figure, unit, how)| {
            let figure = figure?.not_negative();
            Some(Cost { key: key.to_owned(), figure, unit: unit.to_owned(), how: how.to_owned() })
        })
        .collect()
}

/// The host for the engines, with the scheduler's period `tick_s`.
pub fn host(fits: &Fits, seen: &Seen, base: &TrialShape, tick_s: f64) -> Host {
    let seconds = |figure: Option<Figure>| figure.map_or(0.0, |figure| figure.value.max(0.0));
    Host {
        name: "calibrated".to_owned(),
        interrupt_s: seconds(unmasked(fits.interrupt, fits)),
        interrupt_polling_s: polling(fits, seen).map(|figure| figure.value),
        interrupt_resume_s: resume(fits, seen).map(|figure| figure.value),
        interrupt_latency_s: seconds(fits.latency),
        protocol_s: own_protocol(fits, base).value.max(1e-9),
        per_byte_s: per_byte_s(fits),
        mask_s: seconds(fits.mask),
        poll_s: seconds(unmasked(Some(fits.poll), fits)),
        application_s: Some(fits.application.value),
        context_switch_s: fits.context_switch.value,
        wakeup_s: fits.wakeup.value,
        cold_protocol_s: seconds(fits.cold_protocol),
        cold_application_s: seconds(fits.cold_application),
        socket_drop_cost: fits.socket_drop_cost.unwrap_or(1.0),
        ring: seen.ring.unwrap_or(1000).max(1),
        socket_buffer: seen.capacity.map_or(256, |packets| packets.round().max(1.0) as u64),
        tick_s,
        ..Host::default()
    }
}

/// Period of the scheduler's tick (s): CONFIG_HZ, 250 if the kernel does not report it.
fn tick_s() -> f64 {
    let inventory = netcliff_host::inventory::Inventory::read(std::path::Path::new("/"));
    inventory.kernel.hz.map_or(4e-3, |hz| 1.0 / f64::from(hz))
}
