use super::*;

#[test]
fn an_error_is_against_the_measurement_only() {
    let cliff = ByEngine { model: Some(110.0.into()), sim: Some(95.0.into()), wire: Some(Figure::exact(100.0)) };
    assert!((error_of(&cliff, EngineKind::Model).unwrap() - 0.1).abs() < 1e-12);
    assert!((error_of(&cliff, EngineKind::Sim).unwrap() + 0.05).abs() < 1e-12);
    assert_eq!(error_of(&cliff, EngineKind::Wire), None);
    assert_eq!(error_of(&ByEngine { wire: None, ..cliff.clone() }, EngineKind::Sim), None);
    assert_eq!(error_of(&ByEngine { wire: Some(0.0.into()), ..cliff }, EngineKind::Sim), None);
}

#[test]
fn a_figure_that_is_no_number_is_no_cell() {
    assert_eq!(Cell::of(&Figure::exact(f64::NAN), Unit::Pps), None);
    assert_eq!(Cell::of(&Figure::exact(1e3), Unit::Pps).unwrap().value, "1.00 kpps");
}

mod disturbed {
    use super::super::*;
    use netcliff_core::finding::{ClockJump, Disturbance, Drift, Pauses, Setup, Speed};
    use netcliff_core::{Scheme, Traffic};

    /// A finding of nothing but what disturbed it.
    fn finding(disturbance: Disturbance) -> Finding {
        let setup = Setup {
            scheme: Scheme::Ideal,
            traffic: Traffic::poisson(1.0),
            application_work_s: 0.0,
            socket_buffer_bytes: 4096,
            repeats: 1,
            trial_s: 0.4,
            quick: true,
        };
        Finding { disturbance: Some(disturbance), ..Finding::blank(setup, 1e-4) }
    }

    #[test]
    fn pauses_are_told_with_their_lengths_and_what_the_steal_clock_says() {
        let host = Pauses { steal_share: Some(2e-3), ..Pauses::of(&[3e-4, 4e-3, 1e-3], 10.0, 2.5e-4) };
        let sender = Pauses { steal_share: Some(0.0), ..Pauses::of(&[], 10.0, 2.5e-4) };
        let jump = ClockJump { at_s: 12.3, what: "the machine slept for 2.000 s".into() };
        let told = Disturbance {
            measured_s: 10.0,
            host: Some(host),
            sender: Some(sender),
            left_out: 0.03,
            clock_jumps: vec![jump],
            ..Disturbance::default()
        };
        let mut finding = finding(told);
        let facts = disturbance(&finding);
        let of =
            |name: &str| facts.iter().find(|(own, _)| *own == name).map(|(_, fact)| fact.clone()).unwrap_or_default();
        let host = of("host's CPU");
        for words in ["away 3 times for more than 250us in 10 s", "p50 1", "longest 4", "steal clock says 0.2"] {
            assert!(host.contains(words), "{words}: {host}");
        }
        assert_eq!(of("sender's CPU"), "never away for more than 250us in 10 s of trials");
        assert!(of("left out").starts_with("3"), "{}", of("left out"));
        assert_eq!(of("clocks"), "12 s into the run: the machine slept for 2.000 s");
        finding.speed = Some(Speed { packet_s: Some(Figure::exact(8e-7)), ..Speed::default() });
        finding.drift =
            Some(Drift { share: Figure::exact(-0.05), scatter: 0.01, search_over_calibration: Some(-0.02) });
        let facts = disturbance(&finding);
        let (_, speed) = facts.last().unwrap();
        assert!(speed.contains("drifted by -5") && speed.contains("-2"), "{speed}");
    }

    #[test]
    fn every_pause_is_in_a_bar_of_both_plots() {
        let host = Pauses::of(&[vec![3e-4; 100], vec![4e-3]].concat(), 10.0, 2.5e-4);
        let finding = finding(Disturbance { host: Some(host), ..Disturbance::default() });
        let plain = crate::terminal::Style { unicode: false, ..Default::default() };
        let page = crate::terminal::finding(&finding, plain);
        let bar =
            |from: &str| page.lines().find(|line| line.trim_start().starts_with(from)).unwrap_or_default().to_owned();
        assert!(bar("250us-500us").ends_with(&format!("{} 100", "#".repeat(30))), "{page}");
        assert!(bar("4ms-8ms").ends_with("# 1"), "{page}");
        let svg = crate::svg::pauses(&finding).expect("there are pauses");
        assert!(svg.contains("4ms-8ms") && svg.contains(">\n100\n<"), "{svg}");
        assert!(crate::svg::pauses(&super::disturbed::finding(Disturbance::default())).is_none());
    }
}
