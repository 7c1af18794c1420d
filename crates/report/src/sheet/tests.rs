use super::*;
use netcliff_core::finding::{CpuMeasured, Setup};

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

/// Zero or unknown times are left out: behind a NIC no time is moved from the application, and findings of earlier
/// versions have no time of softirqs.
#[test]
fn what_stands_in_other_rows_is_said_of_each_class() {
    let said = |hidden_s: f64, hidden_softirq_s: Option<f64>| {
        let measured = CpuMeasured { hidden_s, hidden_softirq_s, poll_s: 3e-6, besides: Vec::new() };
        cpu_note(&Finding { cpu_measured: Some(measured), ..Finding::blank(setup(), 1e-4) }).unwrap()
    };
    let starts = |hidden_s, hidden_softirq_s, words: &str| {
        let said = said(hidden_s, hidden_softirq_s);
        assert!(said.starts_with(&format!("measured: {words}3.00 us of each poll are counted as")), "{said}");
    };
    starts(1e-6, Some(2e-6), "1.00 us of each interrupt (2.00 us in a softirq) and ");
    starts(2e-6, Some(2e-6), "2.00 us of each interrupt and ");
    starts(0.0, Some(2e-6), "2.00 us of each interrupt in a softirq and ");
    starts(1e-6, None, "1.00 us of each interrupt and ");
    starts(0.0, None, "");
}

/// A set-up that has no effect on the sentences tested here.
pub(super) fn setup() -> Setup {
    Setup { socket_buffer_bytes: 4096, ..Setup::default() }
}

mod disturbed {
    use super::super::*;
    use super::setup;
    use netcliff_core::finding::{Buffer, ClockJump, Disturbance, Drift, PauseBudget, Pauses, Speed, TaskTime};

    /// A finding that contains only its disturbances.
    fn finding(disturbance: Disturbance) -> Finding {
        Finding { disturbance: Some(disturbance), ..Finding::blank(setup(), 1e-4) }
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
        let host = of("CPU under test");
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
    fn other_tasks_are_named_and_a_full_socket_that_costs_more_is_told() {
        let task = |task: &str, total_s| TaskTime { task: task.into(), count: 1, total_s };
        let told = Disturbance {
            other_tasks: Some(Pauses::of(&[2e-3, 4e-3], 10.0, 2.5e-4)),
            tasks: vec![task("kdamond.0", 4e-3), task("bash", 2e-3)],
            ..Disturbance::default()
        };
        let mut finding = finding(told);
        let fact = |finding: &Finding, name: &str| {
            disturbance(finding).into_iter().find_map(|(own, fact)| (own == name).then_some(fact)).unwrap_or_default()
        };
        let others = fact(&finding, "other tasks");
        assert!(others.starts_with("had the CPU under test 2 times for more than 250us"), "{others}");
        assert!(others.ends_with("(kdamond.0 4.00 ms, bash 2.00 ms)"), "{others}");
        finding.disturbance.as_mut().unwrap().other_tasks = Some(Pauses::of(&[], 10.0, 2.5e-4));
        assert_eq!(fact(&finding, "other tasks"), "none had the CPU under test for more than 250us");
        let demand = |us: f64| Some(Figure::exact(us * 1e-6));
        let speed = Speed {
            demand_s: demand(3.2),
            demand_empty_s: demand(3.2),
            demand_full_s: demand(4.0),
            ..Speed::default()
        };
        finding.cliff_pps.wire = Some(Figure::exact(250e3));
        finding.speed = Some(speed.clone());
        let told = fact(&finding, "speed");
        for words in
            ["service demand 3.20 us", "80.0 % of the CPU at the cliff", "stays full above about 250 kpps", "up to 31"]
        {
            assert!(told.contains(words), "{words}: {told}");
        }
        finding.speed = Some(Speed { demand_full_s: demand(3.25), ..speed });
        assert!(!fact(&finding, "speed").contains("full one"), "it makes no difference");
    }

    #[test]
    fn the_longest_pauses_without_loss_are_told_with_the_queue_that_overflows() {
        let budget = |share, longest_s, first, longer| PauseBudget { share, load_pps: 1e5, longest_s, first, longer };
        let mut finding = finding(Disturbance::default());
        finding.pause_budget =
            vec![budget(0.5, 5e-3, Buffer::Ring, Some(3)), budget(0.9, 2.5e-3, Buffer::Socket, None)];
        let (name, fact) = disturbance(&finding).pop().expect("a fact");
        assert_eq!(name, "pause budget");
        let told = [
            "longest pause without loss, from empty queues: 5.00 ms at 50 % of the cliff",
            "(then the ring overflows, 3 in the searches were longer); 2.50 ms at 90 % of the cliff (then the socket overflows)",
        ];
        for part in told {
            assert!(fact.contains(part), "{fact}");
        }
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
        assert!(svg.contains("4ms-8ms") && svg.contains(">100</text>"), "{svg}");
        assert!(crate::svg::pauses(&super::disturbed::finding(Disturbance::default())).is_none());
    }
}

mod doubted;

mod planned {
    use super::super::*;
    use super::setup;
    use netcliff_core::finding::{CliffBounds, CliffSearches};

    fn planned(own: Figure, experienced: Figure, searches: Option<CliffSearches>) -> String {
        let mut finding = Finding::blank(setup(), 1e-3);
        finding.cliff_pps.wire = Some(own);
        finding.cliff_experienced_pps.wire = Some(experienced);
        finding.searches = searches;
        to_plan_with(&finding).expect("both are there")
    }

    #[test]
    fn a_lower_cliff_as_experienced_is_planned_with() {
        let (own, experienced) =
            (Figure::between(400e3, 390e3, 410e3, 0.95), Figure::between(300e3, 290e3, 310e3, 0.95));
        let said = planned(own, experienced, None);
        assert!(
            said.starts_with(
                "Upper limit to plan with: 300 kpps, the cliff with pauses; for a margin stay below 290 kpps"
            ),
            "{said}"
        );
        assert!(said.contains("lower it by 25") && said.contains("below the 400 kpps"), "{said}");
    }

    #[test]
    fn pauses_do_not_raise_a_cliff() {
        let (own, experienced) =
            (Figure::between(400e3, 380e3, 420e3, 0.95), Figure::between(404e3, 390e3, 410e3, 0.95));
        let said = planned(own, experienced, None);
        assert!(
            said.starts_with("Upper limit to plan with: 400 kpps; ") && said.contains("did not lower the cliff"),
            "{said}"
        );
        let said = planned(own, Figure::between(392e3, 385e3, 400e3, 0.95), None);
        assert!(
            said.starts_with("Upper limit to plan with: 392 kpps; ")
                && said.contains("no effect of these stalls is shown"),
            "{said}"
        );
    }

    #[test]
    fn nothing_is_lowered_by_less_than_nothing() {
        let bounds = |lower_pps, upper_pps| CliffBounds { lower_pps, upper_pps, ..CliffBounds::default() };
        let searches = |own, experienced| CliffSearches { own, experienced, trials: 9, void: Vec::new() };
        // Seen on a machine where searches of the host's own cliff were open above.
        let open = searches(bounds(Some(175e3), None), bounds(Some(175e3), None));
        let said = planned(Figure::exact(208e3), Figure::exact(212e3), Some(open));
        assert!(said.contains("within the interval"), "{said}");
        let apart = searches(bounds(Some(200e3), Some(205e3)), bounds(Some(206e3), Some(210e3)));
        let said = planned(Figure::exact(203e3), Figure::exact(208e3), Some(apart));
        assert_eq!(
            said,
            "Upper limit to plan with: 203 kpps; for a margin stay below 200 kpps, the lower end of the cliff's interval. Stalls of the sender did not \
             lower the cliff."
        );
        // Without a lower end of its own: that of the host's own cliff.
        let said = planned(Figure::between(203e3, 190e3, 210e3, 0.95), Figure::exact(203e3), None);
        assert!(said.contains("for a margin stay below 190 kpps, the lower end of the cliff's interval."), "{said}");
    }
}
