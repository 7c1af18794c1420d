//! Experiments that only evaluate formulas. They give curves without tasks.

use netcliff_core::Figure;
use netcliff_core::experiment::{BadValue, Curve, Dot, Mlfrr, Polled, Roofline};
use netcliff_core::parts::bus;
use netcliff_core::units::print_time_s;
use netcliff_model::limits::{Part, Roof, System};
use netcliff_model::mlfrr::{Costs, Polling, polled};

/// Delivered load by offered load: without loss, with interrupts by eq. (1), and with polling by the corrected eq. (2)
/// of Slinkin 2018.
///
/// # Errors
/// Never for an experiment that was read from a file: its values were checked then.
pub fn mlfrr(experiment: &Mlfrr) -> Result<Vec<Curve>, BadValue> {
    let loads = experiment.loads_pps()?;
    let frame_bytes = experiment.traffic.size.mean_bytes().unwrap_or(64.0);
    let mut curves = vec![curve("nothing lost".to_owned(), &loads, |load| load)];
    for (name, host) in experiment.hosts()? {
        let costs = Costs::of(&host, frame_bytes);
        let named = |what: String| if name.is_empty() { what } else { format!("{what}, {name}") };
        let interrupts = named("interrupts, eq. (1)".to_owned());
        curves.push(curve(interrupts, &loads, |load| costs.interrupt_driven_delivered_pps(load)));
        for Polled { period_s, quota, batch } in experiment.polled()? {
            let bound_pps = polled(&costs, &Polling { period_s, quota, batch }).pps();
            let what = format!("polled, eq. (2): T = {}, Q = {quota}, k = {batch}", print_time_s(period_s));
            curves.push(curve(named(what), &loads, |load| load.min(bound_pps)));
        }
    }
    Ok(curves)
}

/// Largest payload rate of each part of the system (bit/s), by frame size.
///
/// # Errors
/// Never for an experiment that was read from a file: its values were checked then.
pub fn roofline(experiment: &Roofline) -> Result<Vec<Curve>, BadValue> {
    let (sizes, headers_bytes) = (experiment.sizes_bytes()?, experiment.headers_bytes()?);
    let link_bps = Some(experiment.link_bps()?);
    let mut curves: Vec<Curve> = Vec::new();
    for bus in &experiment.bus.0 {
        for (varied, cpu) in experiment.hosts()? {
            let system = System { link_bps, bus: *bus, memory: None, cpu, cpus: 1, frames_per_interrupt: 1.0 };
            let roofs: Vec<Roof> = sizes.iter().map(|size| system.roof(*size, &experiment.offloads)).collect();
            if let Some(raw_bps) = bus::raw_bps(bus) {
                curves.push(curve(format!("{bus}, raw"), &sizes, |_| raw_bps));
            }
            for part in Part::ALL {
                let what = match part {
                    Part::Bus => bus.to_string(),
                    Part::Link => format!("link, {}", experiment.link),
                    cpu if varied.is_empty() => cpu.name().to_owned(),
                    cpu => format!("{}, {varied}", cpu.name()),
                };
                // The link is the same for all buses, and so is the CPU: draw them once.
                if curves.iter().all(|curve| curve.name != what) {
                    curves.extend(bounds(what, part, &roofs, headers_bytes));
                }
            }
        }
    }
    Ok(curves)
}

/// The bounds of one part. `None` if the part has none.
fn bounds(name: String, part: Part, roofs: &[Roof], headers_bytes: f64) -> Option<Curve> {
    let dot = |roof: &Roof| {
        let payload_bits = 8.0 * (roof.frame_bytes - headers_bytes);
        roof.of(part).map(|pps| Dot { x: roof.frame_bytes, y: Figure::exact(payload_bits * pps) })
    };
    let dots: Vec<Dot> = roofs.iter().filter_map(dot).collect();
    (!dots.is_empty()).then_some(Curve { name, answerer: None, dots })
}

fn curve(name: String, xs: &[f64], y: impl Fn(f64) -> f64) -> Curve {
    let dots = xs.iter().map(|x| Dot { x: *x, y: Figure::exact(y(*x)) }).collect();
    Curve { name, answerer: None, dots }
}
