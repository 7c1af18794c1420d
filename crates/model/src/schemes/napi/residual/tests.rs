use super::*;
use crate::queue::arrivals::TimeShape;

fn work(arrival_pps: f64, poll_s: f64, delivery_s: f64, places: u64) -> Work {
    Work {
        arrival_pps,
        service_s: 1e-6,
        interrupt_s: 2e-6,
        delivery_s,
        mask_s: 0.0,
        poll_s,
        places,
        shape: TimeShape::Exponential,
        frame_bytes: 64.0,
        mixture: Vec::new(),
        quantiles: false,
        left_out: 0.0,
    }
}

/// From one packet and with practically no arrivals: the time until unmasking is delivery, ISR, overhead and one
/// service.
#[test]
fn one_packet_takes_its_stages() {
    let (gap_s, steps) = (60e-6, 400);
    for (poll_s, delivery_s) in [(0.5e-6, 3e-6), (0.0, 0.0), (1.5e-6, 0.0)] {
        let work = work(1.0, poll_s, delivery_s, 16);
        let [delivered, immediate] = Busy::new(&work, 4, 0.0, gap_s, 3).unwrap().ends(steps);
        let mean_s = |row: &[f64]| {
            row.iter().enumerate().map(|(step, share)| share * step as f64 * gap_s / steps as f64).sum::<f64>()
        };
        for (row, expected_s) in [(&delivered[1], 3e-6 + poll_s + delivery_s), (&immediate[1], 3e-6 + poll_s)] {
            assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-6, "{}", row.iter().sum::<f64>());
            assert!((mean_s(row) / expected_s - 1.0).abs() < 1e-4, "{} {expected_s}", mean_s(row));
        }
        // Three packets: one poll with weight 4; with weight 3 another poll finds nothing.
        let three_s = mean_s(&immediate[3]);
        assert!((three_s / (5e-6 + poll_s) - 1.0).abs() < 1e-4, "{three_s}");
        let [_, full] = Busy::new(&work, 3, 0.0, gap_s, 3).unwrap().ends(steps);
        assert!((mean_s(&full[3]) / (5e-6 + 2.0 * poll_s) - 1.0).abs() < 1e-4, "{}", mean_s(&full[3]));
    }
}

/// On the grid, the times of events have the correct total probability and mean.
#[test]
fn the_grid_keeps_means() {
    let erlang = Erlang::new(3e6, 100e-6, 50);
    for events in [1, 2, 7, 60] {
        let (first, shares) = erlang.steps(events);
        let mass: f64 = shares.iter().sum();
        let mean_s: f64 = shares.iter().enumerate().map(|(n, share)| share * (first + n) as f64 * 2e-6).sum();
        assert!((mass - 1.0).abs() < 1e-9, "{events}: {mass}");
        assert!((mean_s * 3e6 / events as f64 - 1.0).abs() < 1e-6, "{events}: {mean_s}");
    }
}

/// A very short gap has no effect; a very long gap determines the rate of interrupts.
#[test]
fn gaps_from_nothing_to_the_pace() {
    let of = |gap_s: f64, arrival_pps: f64| {
        let work = work(arrival_pps, 0.2e-6, 1e-6, 256);
        let moderation = netcliff_core::scheme::Moderation { min_gap_s: Some(gap_s), ..Default::default() };
        let nic = Nic::new(&moderation, arrival_pps, 256);
        mean_cycle(&work, 64, 0.0, &nic, &|residual_s| nic.after_unmask(&[1.0], 0.0, residual_s)).unwrap()
    };
    let none = of(1e-12, 100e3);
    assert!((none.delivered[1] - 1.0).abs() < 1e-6, "{none:?}");
    // At 0.3 of saturation and a gap of 200 us: 60 packets per interrupt.
    let paced = of(200e-6, 300e3);
    let announced: f64 = paced.delivered.iter().enumerate().map(|(n, share)| n as f64 * share).sum();
    assert!((35.0..60.0).contains(&announced), "{announced}");
    assert!(paced.immediate.iter().sum::<f64>() == 0.0);
}
