//! napi with times made of phases, compared with M/G/1/K, which it equals if only a packet's protocol takes time.

use netcliff_core::note::Note;
use netcliff_core::{Engine, Host, Outcome, Point};
use netcliff_model::{Fidelity, ModelEngine};

fn host(service: &str) -> Host {
    let mut host = Host {
        interrupt_s: 0.0,
        interrupt_latency_s: 0.0,
        mask_s: 0.0,
        poll_s: 0.0,
        protocol_s: 1e-6,
        per_byte_s: 0.0,
        ring: 20,
        ..Host::pentium4_2530mhz()
    };
    host.set(&format!("service={service}")).unwrap();
    host
}

fn solved(scheme: &str, host: Host, pps: f64) -> Outcome {
    let point = Point::poisson(host, scheme.parse().unwrap(), pps);
    ModelEngine::new(Fidelity::Exact).without_quantiles().evaluate(&point).unwrap()
}

#[test]
fn napi_without_overheads_is_a_queue_of_its_service() {
    for service in ["erlang:stages=2", "erlang:stages=8", "hyperexponential:cv=1.5", "hyperexponential:cv=3"] {
        for pps in [200e3, 800e3, 1e6, 1.3e6] {
            let (napi, queue) = (solved("napi", host(service), pps), solved("ideal", host(service), pps));
            let figures = |outcome: &Outcome| {
                let latency = outcome.latency_s.as_ref().unwrap().mean.unwrap().value;
                [outcome.throughput_pps.unwrap().value, outcome.loss_fraction.unwrap().value, latency]
            };
            for (found, wanted) in figures(&napi).into_iter().zip(figures(&queue)) {
                let near = (found - wanted).abs() <= 1e-8 * wanted.abs() + 1e-12;
                assert!(near, "{service} at {pps}: {:?}, {:?}", figures(&napi), figures(&queue));
            }
        }
    }
}

/// Notes state the approximations by phases: a variation that they cannot represent, and times that stay exponential.
#[test]
fn what_phases_approximate_is_named() {
    let notes = |service: &str| solved("napi", host(service), 500e3).notes;
    for service in ["deterministic", "erlang:stages=25"] {
        let notes = notes(service);
        assert!(notes.iter().any(|note| matches!(note, Note::FewerPhases(8))), "{notes:?}");
    }
    let few = notes("erlang:stages=4");
    let is_rest = |note: &Note| matches!(note, Note::ExponentialRest);
    assert!(few.iter().any(is_rest) && !few.iter().any(|note| matches!(note, Note::FewerPhases(_))), "{few:?}");
    assert!(!notes("exponential").iter().any(is_rest));
    let refused = Point::poisson(host("lognormal:cv=0.5"), "napi".parse().unwrap(), 1e3);
    let reason = ModelEngine::new(Fidelity::Exact).supports(&refused).unwrap_err().reason;
    assert!(reason.contains("hyperexponential") && reason.contains("lognormal"), "{reason}");
}
