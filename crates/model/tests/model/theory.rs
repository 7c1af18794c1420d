//! Tests the numbers in docs/theory.

use netcliff_core::{Engine, Host, Outcome, Point, Scheme};
use netcliff_model::pauses::{ServiceTimes, mean_latency_s};
use netcliff_model::{Fidelity, ModelEngine};

fn solve_on(host: Host, fidelity: Fidelity, scheme: &str, pps: f64) -> Outcome {
    let point = Point::poisson(host, scheme.parse().unwrap(), pps);
    ModelEngine::new(fidelity).evaluate(&point).unwrap()
}

fn mean_us(outcome: &Outcome) -> f64 {
    outcome.latency_s.unwrap().mean.unwrap().value * 1e6
}

fn near(got: f64, want: f64, half_digit: f64) {
    assert!((got - want).abs() <= half_digit, "got {got}, docs/theory says {want}");
}

/// The preset with 1/mu = 5.34 us, as docs/theory rounds it (5.25 us + 64 / 748 MB/s = 5.3356 us).
fn rounded() -> Host {
    Host { protocol_s: 5.34e-6, per_byte_s: 0.0, ..Host::pentium4_2530mhz() }
}

#[test]
fn interrupt_latency_paper_and_exact() {
    for (pps, paper, exact) in [(10e3, 9.59, 9.81), (50e3, 13.00, 14.73), (100e3, 31.21, 41.46), (120e3, 110.5, 158.3)]
    {
        let host = Host { ring: 1_000_000, ..rounded() };
        near(mean_us(&solve_on(host.clone(), Fidelity::Paper, "interrupt:drops_interrupt=true", pps)), paper, 0.06);
        near(mean_us(&solve_on(host, Fidelity::Exact, "interrupt:drops_interrupt=true", pps)), exact, 0.06);
    }
}

#[test]
fn interrupt_overload_floor() {
    for (drops, kpps) in [(true, 39.6), (false, 116.4)] {
        let got = solve_on(rounded(), Fidelity::Exact, &format!("interrupt:drops_interrupt={drops}"), 1e6);
        near(got.throughput_pps.unwrap().value / 1e3, kpps, 0.05);
    }
}

#[test]
fn disable_enable_available_and_latency() {
    for (pps, available) in [(10e3, 0.9082), (50e3, 0.6050), (100e3, 0.3275), (150e3, 0.1217)] {
        for merged in [true, false] {
            let outcome = solve_on(rounded(), Fidelity::Exact, &format!("disable-enable:merged={merged}"), pps);
            near(outcome.cpu.unwrap().available.unwrap().value, available, 6e-5);
        }
    }
    near(mean_us(&solve_on(rounded(), Fidelity::Exact, "disable-enable:merged=true", 100e3)), 17.28, 0.006);
    near(mean_us(&solve_on(rounded(), Fidelity::Exact, "disable-enable:merged=false", 100e3)), 15.69, 0.006);
}

#[test]
fn napi_without_quota_is_disable_enable_with_a_poll() {
    let host = rounded();
    let scheme: Scheme = "napi:weight=256".parse().unwrap();
    let point = Point::poisson(host, scheme, 100e3);
    let outcome = ModelEngine::default().evaluate(&point).unwrap();
    let cpu = outcome.cpu.unwrap();
    // One interrupt per completion of a poll; the host is idle after it if no packet arrives during unmasking (m). With
    // k completions per second: k (2 m + s + o) + rho + V = 1 and V = k/(lambda (1 + lambda m)).
    let completions = 100e3 * (1.0 + 100e3 * 0.5e-6);
    near(cpu.available.unwrap().value, (1.0 - 0.534) / (1.0 + completions * 6.32e-6), 1e-9);
    near(outcome.interrupts_per_s.unwrap().value, completions * cpu.available.unwrap().value, 1e-5);
}

/// Cliffs of the paper's unmasked coalescing: no loss just below, loss just above.
#[test]
fn unmasked_coalescing_cliffs() {
    let host = Host { ring: 100_000, ..Host::pentium4_2530mhz() };
    for (frames, kpps) in [(1, 127.1), (2, 147.0), (4, 162.6), (8, 173.3), (16, 179.7)] {
        let loss = |share: f64| {
            let outcome =
                solve_on(host.clone(), Fidelity::Paper, &format!("coalesce:frames={frames}"), kpps * 1e3 * share);
            outcome.loss_fraction.unwrap().value
        };
        assert!(loss(0.998) < 1e-6 && loss(1.002) > 1e-4, "tau = {frames}: {} {}", loss(0.998), loss(1.002));
    }
}

#[test]
fn masked_coalescing_latency() {
    for (scheme, us) in [
        ("coalesce:frames=8,masked=true", 48.6),
        ("coalesce:usecs=50us,masked=true", 42.7),
        ("coalesce:frames=8,usecs=50us,masked=true", 40.1),
    ] {
        near(mean_us(&solve_on(Host { mask_s: 0.0, ..rounded() }, Fidelity::Exact, scheme, 100e3)), us, 0.06);
    }
}

/// With Q = 3 and deterministic times, the throughput in overload is Q/T_poll, 150.0 kpps.
#[test]
fn polling_overload_and_low_load() {
    let host = Host { service: netcliff_core::Service::Deterministic, ..rounded() };
    let overload = solve_on(host.clone(), Fidelity::Exact, "polling:period=20us,quota=3", 400e3);
    near(overload.throughput_pps.unwrap().value / 1e3, 150.0, 0.001);
    let low = solve_on(host.clone(), Fidelity::Exact, "polling:period=20us,quota=3", 10.0);
    near(mean_us(&low), 15.34, 0.1);
    let paper = solve_on(rounded(), Fidelity::Paper, "polling:period=20us,quota=3", 10.0);
    near(mean_us(&paper), 15.34, 0.01);
}

/// Eq. (9) to (12) as printed: Q/T_v = 3/(20 - 1.59 us) = 163.0 kpps, although three packets per 20 us are 150;
/// available CPU 1 - (U_poll + Q/(mu T)); latency at low load about 1/mu' + T_poll.
#[test]
fn polling_as_printed() {
    let polling = |pps| solve_on(rounded(), Fidelity::Printed, "polling:period=20us,quota=3", pps);
    let overload = polling(400e3);
    near(overload.throughput_pps.unwrap().value / 1e3, 3.0 / 18.41e-3, 0.001);
    near(overload.cpu.unwrap().available.unwrap().value, 1.0 - 1.59 / 20.0 - 3.0 * 5.34 / 20.0, 1e-9);
    near(mean_us(&polling(10.0)), 20.0 + 18.41 / 3.0, 0.01);
    // Q/mu does not fit into T_v: the throughput is mu (1 - o/T_poll), and no CPU is left.
    let full = solve_on(rounded(), Fidelity::Printed, "polling:period=20us,quota=4", 400e3);
    near(full.throughput_pps.unwrap().value / 1e3, (1.0 - 1.59 / 20.0) / 5.34e-3, 0.001);
    near(full.cpu.unwrap().available.unwrap().value, 0.0, 1e-12);
}

/// tau = ceil(lambda T) grows in steps: within a step the timer equals a count; at the next step the results change.
#[test]
fn coalescing_as_printed_has_steps() {
    let at = |fidelity, scheme: &str, pps| solve_on(rounded(), fidelity, scheme, pps);
    for (pps, frames) in [(5e3, 1), (19.9e3, 1), (20.1e3, 2), (59e3, 3), (99e3, 5)] {
        let timer = at(Fidelity::Printed, "coalesce:usecs=50us", pps);
        let count = at(Fidelity::Paper, &format!("coalesce:frames={frames}"), pps);
        assert_eq!((timer.cpu, timer.latency_s), (count.cpu, count.latency_s), "{pps}");
    }
    let available = |pps| at(Fidelity::Printed, "coalesce:usecs=50us", pps).cpu.unwrap().available.unwrap().value;
    assert!(available(20.1e3) > available(19.9e3) + 0.02);
}

/// There is one interrupt per period that has frames; each frame waits for half a period on average.
#[test]
fn a_free_timer_waits_half_a_period() {
    let low = solve_on(rounded(), Fidelity::Paper, "coalesce:usecs=50us,free_timer=true", 10.0);
    near(mean_us(&low), 25.0 + 3.73 + 5.34, 0.01);
    let (lambda, period) = (100e3, 50e-6_f64);
    let busy = solve_on(rounded(), Fidelity::Paper, "coalesce:usecs=50us,free_timer=true", lambda);
    let frames = lambda * period / (1.0 - (-lambda * period).exp());
    near(busy.interrupts_per_s.unwrap().value, lambda / frames / (1.0 + lambda * 3.73e-6 / frames), 1.0);
    let point = Point::poisson(rounded(), "coalesce:usecs=50us,free_timer=true".parse().unwrap(), lambda);
    let refused = ModelEngine::new(Fidelity::Exact).evaluate(&point).unwrap_err().to_string();
    assert!(refused.contains("free_timer=true") && refused.contains("simulator"), "{refused}");
}

/// Rate (pps), ring, pauses; and for each scheme: mean latency (us), loss, available CPU.
type Paused = (f64, u64, [&'static str; 3], [(&'static str, f64, f64, f64); 3]);

/// The results of the dense chains in docs/theory/pauses.md, to the printed digits.
#[test]
fn pauses_as_the_dense_chains_have_them() {
    let merged = "disable-enable:merged=true";
    let table: [Paused; 3] = [
        (
            120e3,
            100,
            ["pause=300us", "pause_every=5ms", "pause_times=exponential"],
            [
                ("ideal", 57.73, 4.9192e-3, 0.3057),
                ("interrupt", 339.03, 2.3196e-2, 0.0254),
                (merged, 63.89, 5.0468e-3, 0.2027),
            ],
        ),
        (
            120e3,
            100,
            ["pause=300us", "pause_every=5ms", "pause_times=erlang:4"],
            [
                ("ideal", 49.68, 5.1105e-4, 0.3029),
                ("interrupt", 355.94, 1.8794e-2, 0.0226),
                (merged, 56.01, 5.4382e-4, 0.2008),
            ],
        ),
        (
            60e3,
            50,
            ["pause=1ms", "pause_every=20ms", "pause_times=exponential"],
            [
                ("ideal", 40.03, 2.1303e-2, 0.6388),
                ("interrupt", 50.95, 2.1748e-2, 0.4647),
                (merged, 45.42, 2.1495e-2, 0.5095),
            ],
        ),
    ];
    for (pps, ring, pauses, schemes) in table {
        // 9.57 us for the merged stage, of which 5.34 us are the packet's: m + s = 4.23 us with s = 3.73 us.
        let mut host = Host { ring, ..rounded() };
        pauses.iter().for_each(|setting| host.set(setting).unwrap());
        for (scheme, latency_us, loss, available) in schemes {
            let outcome = solve_on(host.clone(), Fidelity::Exact, scheme, pps);
            near(mean_us(&outcome), latency_us, 0.0051);
            near(outcome.loss_fraction.unwrap().value, loss, 0.51e-4 * 10.0_f64.powf(loss.log10().floor()));
            let cpu = outcome.cpu.unwrap();
            near(cpu.available.unwrap().value, available, 0.51e-4);
            near(cpu.paused.unwrap().value, host.pauses().unwrap().share(), 1e-15);
        }
    }
}

/// Completion times of packets that pauses interrupt: 36.270 us at 100 kpps with pauses of 0.1 ms, one per 1 ms
/// (docs/theory/pauses.md). The chain with a ring that is never full agrees.
#[test]
fn pauses_with_a_ring_that_is_never_full() {
    let mut host = Host { ring: 600, ..rounded() };
    ["pause=0.1ms", "pause_every=1ms"].iter().for_each(|setting| host.set(setting).unwrap());
    let (service_s, pps) = (host.service_s(64.0), 100e3);
    let times = ServiceTimes { mean_s: service_s, squared_mean_s2: 2.0 * service_s * service_s };
    let closed_s = mean_latency_s(pps, times, &host.pauses().unwrap()).unwrap();
    near(closed_s * 1e6, 36.270, 0.0006);
    near(mean_us(&solve_on(host, Fidelity::Exact, "ideal", pps)), closed_s * 1e6, 1e-6);
}

#[test]
fn pauses_without_a_chain_are_refused() {
    for (settings, scheme, fidelity, says) in [
        (&["pause_times=constant"][..], "ideal", Fidelity::Exact, "erlang:K"),
        (&[][..], "polling", Fidelity::Exact, "not for polling: use the simulator"),
        (&[][..], "ideal", Fidelity::Paper, "the paper knows no pauses"),
        (&["application=1us"][..], "ideal", Fidelity::Exact, "without an application"),
        (&["pause_times=erlang:100"][..], "ideal", Fidelity::Exact, "fewer stages"),
        (&["service=deterministic"][..], "ideal", Fidelity::Exact, "exponential times only"),
    ] {
        let mut host = rounded();
        ["pause=1ms", "pause_every=20ms"].iter().chain(settings).for_each(|setting| host.set(setting).unwrap());
        let point = Point::poisson(host, scheme.parse().unwrap(), 100e3);
        let reason = ModelEngine::new(fidelity).supports(&point).unwrap_err().reason;
        assert!(reason.contains(says), "{reason}");
    }
}
