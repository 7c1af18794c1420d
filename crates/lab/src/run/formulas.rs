//! Experiments that are formulas: curves at once, without tasks.

use netcliff_core::Figure;
use netcliff_core::experiment::{BadValue, Curve, Dot, Mlfrr, Polled};
use netcliff_core::units::print_time_s;
use netcliff_model::mlfrr::{Costs, Polling, polled};

/// Delivered over offered load: nothing lost, with interrupts by eq. (1), and polled by eq. (2) corrected.
///
/// # Errors
/// Never for an experiment that was read from a file.
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

fn curve(name: String, xs: &[f64], y: impl Fn(f64) -> f64) -> Curve {
    let dots = xs.iter().map(|x| Dot { x: *x, y: Figure::exact(y(*x)) }).collect();
    Curve { name, answerer: None, dots }
}
