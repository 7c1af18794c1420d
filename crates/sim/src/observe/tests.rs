use netcliff_core::{Figure, Host};

use super::*;
use crate::engine::Effort;

fn point(scheme: &str, kpps: f64, ring: u64) -> Point {
    let host = Host { ring, ..Host::pentium4_2530mhz() };
    Point::poisson(host, scheme.parse().unwrap(), kpps * 1e3)
}

fn engine() -> SimEngine {
    SimEngine { seed: 3, confidence: 0.999, effort: Effort::Exactly(400_000), ..SimEngine::default() }
}

const ALL: Wanted = Wanted { distributions: true, histogram: true, slice_s: Some(1e-3) };

/// M/M/1/B: p_n is geometric, a busy period of the infinite queue lasts 1/(mu - lambda), and lambda p_0 of them begin
/// per second. 18 comparisons at 99.9 %; rarer lengths occur in too few replications for a t interval.
#[test]
fn the_ideal_host_is_m_m_1_b() {
    let point = point("ideal", 120.0, 1024);
    let (_, detail) = engine().simulate_in_detail(&point, ALL).unwrap();
    let mu = 1.0 / point.host.service_s(64.0);
    let rho = 120e3 / mu;
    for QueueShare { packets, share } in detail.ring.iter().take(16) {
        let exact = (1.0 - rho) * rho.powi(*packets as i32);
        assert!(share.covers(exact), "{packets}: {share:?} {exact}");
    }
    let busy = detail.busy_periods.unwrap();
    assert!(busy.mean_s.unwrap().covers(1.0 / (mu - 120e3)), "{busy:?}");
    assert!(busy.per_s.covers(120e3 * (1.0 - rho)), "{busy:?}");
}

/// Shares add up to 1, their mean is the mean number present, and the slices add up to the counts of the run.
#[test]
fn shares_and_slices_add_up() {
    for scheme in ["interrupt", "polling", "napi:backlog", "coalesce:frames=8,usecs=50us,masked=true", "dim", "hybrid"]
    {
        for kpps in [60.0, 300.0] {
            let mut point = point(scheme, kpps, 64);
            point.host.application_s = Some(1e-6);
            point.host.socket_buffer = 16;
            let (simulation, detail) = engine().simulate_in_detail(&point, ALL).unwrap();
            let sum: f64 = detail.ring.iter().map(|one| one.share.value).sum();
            assert!((sum - 1.0).abs() < 1e-9, "{scheme} {kpps}: {sum}");
            assert!(detail.socket.iter().all(|one| one.packets <= 16));
            let waiting: f64 =
                detail.ring.iter().chain(&detail.socket).map(|one| one.packets as f64 * one.share.value).sum();
            let inside = simulation.outcome.packets_in_system.unwrap().value;
            // The application processes at most one more packet. A share that occurred in one replication only is
            // imprecise.
            let ends = (0.95 * waiting)..=(1.05 * waiting + 1.0);
            assert!(ends.contains(&inside), "{scheme} {kpps}: {waiting} {inside}");
            let slices = &detail.series;
            let arrived: u64 = slices.iter().map(|slice| slice.arrived).sum();
            assert_eq!(arrived, simulation.packets / simulation.replications, "{scheme} {kpps}");
            assert!(slices.windows(2).all(|pair| pair[0].to_s == pair[1].from_s));
            for slice in slices {
                let cpu = slice.cpu;
                let shares = [cpu.interrupt, cpu.poll, cpu.protocol, cpu.application, cpu.available];
                let total: f64 = shares.iter().flatten().map(|share| share.value).sum();
                assert!((total - 1.0).abs() < 1e-9, "{scheme} {kpps}: {slice:?}");
                assert!(slice.ring_mean <= slice.ring_max as f64 + 1e-9, "{slice:?}");
            }
        }
    }
}

/// In livelock the CPU is never idle: no busy period ends, and the result is absent.
#[test]
fn a_livelock_has_no_end_of_busy_periods() {
    let (_, detail) = engine().simulate_in_detail(&point("interrupt", 500.0, 64), ALL).unwrap();
    let busy = detail.busy_periods.unwrap();
    assert_eq!((busy.per_s.value, busy.mean_s), (0.0, None::<Figure>));
}

#[test]
fn slices_too_thin_are_refused() {
    let thin = Wanted { slice_s: Some(1e-9), ..ALL };
    let refused = engine().simulate_in_detail(&point("ideal", 100.0, 64), thin).unwrap_err().to_string();
    assert!(refused.contains("series slice") && refused.contains("or more"), "{refused}");
}

/// Every packet delivered after the warm-up is in the histogram, and two histograms merge to the sum of both. The
/// quantiles of M/M/1, -ln(1 - share) / (mu - lambda), agree to a cell and a few standard errors.
#[test]
fn histograms_of_two_seeds_merge() {
    let point = point("ideal", 120.0, 1024);
    let histogram = |seed| {
        let engine = SimEngine::with_packets(seed, 400_000);
        let (simulation, detail) =
            engine.simulate_in_detail(&point, Wanted { histogram: true, ..Wanted::default() }).unwrap();
        assert_eq!(detail.latency_histogram_ns.packets(), simulation.latency_ns.len());
        assert!(detail.ring.is_empty() && detail.series.is_empty(), "only what was wanted");
        detail.latency_histogram_ns
    };
    let (one, other) = (histogram(3), histogram(4));
    let mut both = one.clone();
    both.merge(&other);
    assert_eq!(both.packets(), one.packets() + other.packets());
    let rate = 1.0 / point.host.service_s(64.0) - 120e3;
    for share in [0.5, 0.9, 0.99] {
        let exact = -(1.0_f64 - share).ln() / rate;
        let got = both.quantile_s(share).unwrap();
        assert!((got / exact - 1.0).abs() < 0.05, "{share}: {got} {exact}");
        let ends = [&one, &other].map(|part| part.quantile_s(share).unwrap());
        assert!(ends[0].min(ends[1]) <= got && got <= ends[0].max(ends[1]), "{share}: {got} {ends:?}");
    }
}
