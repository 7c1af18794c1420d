//! The default candidates, if the user names none.

use netcliff_core::{Coalesce, Dim, DimProfile, Host, Hybrid, Napi, Napi2007, Scheme, Traffic};

/// Polling periods (s): from those of soft timers (12 to 32 us; Salah et al. 2007, section 4) up to 200 us.
const PERIODS_S: [f64; 5] = [10e-6, 20e-6, 50e-6, 100e-6, 200e-6];
/// Shares of a polling period that the packets of a full quota take: 45 %, 20 % or nothing of the CPU is left.
const FILLED: [f64; 3] = [0.55, 0.8, 1.0];
/// Frame counts of coalescing: powers of two up to the weight of a NAPI poll.
const FRAMES: [u64; 5] = [4, 8, 16, 32, 64];
/// Timers of coalescing (s): values that drivers offer, below latencies that users notice.
const TIMERS_S: [f64; 5] = [10e-6, 20e-6, 50e-6, 100e-6, 250e-6];
/// Poll weights below, at and above the kernel's default of 64.
const WEIGHTS: [u64; 4] = [4, 16, 64, 256];
/// Delays of deferred polls (s), with 2 polls in a row as in the kernel's documentation.
const DEFERRED_S: [f64; 4] = [10e-6, 20e-6, 50e-6, 200e-6];

/// All schemes with a grid of parameters that suits the host's protocol time at this frame size. Omitted are `ideal`,
/// which no host has, and schemes that the model does not solve. All returned schemes are valid for `host`.
pub fn candidates(host: &Host, traffic: &Traffic) -> Vec<Scheme> {
    let service_s = host.mean_service_s(&traffic.size);
    let mut all = vec![Scheme::Interrupt { drops_interrupt: true }, Scheme::DisableEnable { merged: false }];
    for (period_s, quota) in polls(service_s) {
        all.push(Scheme::Polling { period_s, quota });
        all.push(Scheme::Napi2007(Napi2007 { period_s, quota, remember: false }));
        all.push(Scheme::Hybrid(hybrid(period_s, quota)));
    }
    all.extend(linux(host));
    for masked in [true, false] {
        all.extend(coalesce(masked));
    }
    all.extend([DimProfile::Eqe, DimProfile::Cqe].map(|profile| Scheme::Dim(Dim { profile, start: 1 })));
    let mut valid: Vec<Scheme> = Vec::new();
    for scheme in all {
        if scheme.validate(host).is_ok() && !valid.contains(&scheme) {
            valid.push(scheme);
        }
    }
    valid
}

/// Pairs of a period and a quota that fills a share of the period.
fn polls(service_s: f64) -> Vec<(f64, u64)> {
    let quota = |period_s: f64, filled: f64| ((filled * period_s / service_s).round() as u64).max(1);
    PERIODS_S.iter().flat_map(|period_s| FILLED.map(|filled| (*period_s, quota(*period_s, filled)))).collect()
}

fn hybrid(period_s: f64, quota: u64) -> Hybrid {
    Hybrid { period_s, quota, up_pps: None, down_pps: None, ewma: 0.1, merged: false }
}

fn linux(host: &Host) -> Vec<Scheme> {
    let mut all: Vec<Napi> = WEIGHTS.iter().map(|weight| Napi { weight: *weight, ..Napi::default() }).collect();
    all.extend(DEFERRED_S.map(|delay_s| Napi { defer_hard_irqs: 2, gro_flush_timeout_s: delay_s, ..Napi::default() }));
    if host.application_s.is_some() {
        all.push(Napi { threaded: true, ..Napi::default() });
        all.push(Napi { busy_poll: true, ..Napi::default() });
    }
    all.into_iter().map(Scheme::Napi).collect()
}

fn coalesce(masked: bool) -> Vec<Scheme> {
    let none = Coalesce { masked, ..Coalesce::default() };
    let mut all: Vec<Coalesce> = FRAMES.iter().map(|n| Coalesce { frames: Some(*n), ..none.clone() }).collect();
    for timer_s in TIMERS_S {
        all.push(Coalesce { absolute_timer_s: Some(timer_s), ..none.clone() });
        all.push(Coalesce { frames: Some(8), absolute_timer_s: Some(timer_s), ..none.clone() });
        all.push(Coalesce { min_gap_s: Some(timer_s), ..none.clone() });
    }
    for timer_s in [10e-6, 20e-6] {
        let packet_timer_s = Some(timer_s);
        all.push(Coalesce { packet_timer_s, absolute_timer_s: Some(5.0 * timer_s), ..none.clone() });
    }
    all.into_iter().map(Scheme::Coalesce).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_scheme_is_there_and_valid() {
        let host = Host::preset("pentium4-2530mhz").unwrap();
        let all = candidates(&host, &Traffic::default());
        let names: BTreeSet<&str> = all.iter().map(Scheme::name).collect();
        let wanted = ["coalesce", "dim", "disable-enable", "hybrid", "interrupt", "napi", "napi-2007", "polling"];
        assert!(names.iter().copied().eq(wanted));
        assert!(all.iter().all(|scheme| scheme.validate(&host).is_ok()));
        assert!(all.iter().all(|scheme| scheme.to_string().parse::<Scheme>().as_ref() == Ok(scheme)));
        // The candidates include T_poll = 20 us with quotas 2, 3 and 4, as in Salah et al. 2007.
        for quota in [2, 3, 4] {
            assert!(all.contains(&Scheme::Polling { period_s: 20e-6, quota }), "{quota}");
        }
        assert!(all.len() > 60 && all.len() < 120, "{}", all.len());
    }

    #[test]
    fn what_a_host_cannot_do_is_left_out() {
        let mut host = Host::preset("pentium4-2530mhz").unwrap();
        host.poll_s = 50e-6;
        host.ring = 16;
        let all = candidates(&host, &Traffic::default());
        assert!(!all.contains(&Scheme::Polling { period_s: 20e-6, quota: 3 }));
        assert!(!all.contains(&Scheme::Coalesce(Coalesce { frames: Some(32), ..Coalesce::default() })));
        let threaded = |all: &[Scheme]| all.iter().any(|s| matches!(s, Scheme::Napi(napi) if napi.threaded));
        assert!(!threaded(&all));
        host.application_s = Some(2e-6);
        assert!(threaded(&candidates(&host, &Traffic::default())));
    }
}
