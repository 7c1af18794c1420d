use super::*;

/// Random numbers in (0, 1), good enough for averages here.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.roll().ln()
    }
}

/// Plays one random cycle by the rules in this module's description. Returns the packets announced, and whether they
/// are handled at once; adds the time at each number of packets.
fn played(nic: &Nic, dice: &mut Dice, mask_s: f64, residual_s: f64, times_s: &mut [f64]) -> (usize, bool) {
    let mut next = dice.exponential(1.0 / nic.arrival_pps);
    let mask = if mask_s > 0.0 { dice.exponential(mask_s) } else { 0.0 };
    let mut packets = 0;
    while next < mask {
        packets = (packets + 1).min(nic.places);
        next += dice.exponential(1.0 / nic.arrival_pps);
    }
    let mut now = mask;
    let timers = |now: f64| (now + nic.absolute_s.unwrap_or(f64::MAX), now + nic.packet_s.unwrap_or(f64::MAX));
    let full = |packets: usize| nic.frames.is_some_and(|frames| packets >= frames);
    let (mut absolute, mut quiet) = if packets > 0 { timers(now) } else { (f64::MAX, f64::MAX) };
    let mut fired = full(packets) && packets > 0;
    if fired && residual_s <= mask {
        return (packets, true);
    }
    loop {
        let timer = if fired { residual_s } else { absolute.min(quiet) };
        if timer <= next {
            times_s[packets] += timer.max(now) - now;
            if !fired && timer < residual_s {
                (fired, now) = (true, timer.max(now));
                continue;
            }
            return (packets, false);
        }
        times_s[packets] += next - now;
        now = next;
        next += dice.exponential(1.0 / nic.arrival_pps);
        if packets < nic.places {
            packets += 1;
            if !fired {
                let (a, q) = timers(now);
                absolute = if packets == 1 { a } else { absolute };
                quiet = q;
                if full(packets) {
                    if now >= residual_s {
                        return (packets, false);
                    }
                    fired = true;
                }
            }
        }
    }
}

fn moderation(frames: Option<u64>, times_us: [f64; 3]) -> Moderation {
    let [absolute_timer_s, packet_timer_s, min_gap_s] = times_us.map(|us| (us > 0.0).then_some(us * 1e-6));
    Moderation { frames, absolute_timer_s, packet_timer_s, min_gap_s, ..Moderation::default() }
}

/// P(n packets in an exponential time of this mean).
fn found(load: f64, places: usize) -> Vec<f64> {
    let counts = ArrivalCounts::new(&TimeShape::Exponential, load, places);
    let mut found = counts.equal.clone();
    found[places] += counts.above[places];
    found
}

#[test]
fn laws_are_those_of_cycles_that_are_played() {
    let cases = [
        (None, [0.0, 0.0, 30.0], 20.0),
        (None, [0.0, 0.0, 30.0], 0.0),
        (None, [25.0, 0.0, 0.0], 0.0),
        (Some(6), [25.0, 0.0, 0.0], 0.0),
        (None, [0.0, 4.0, 0.0], 0.0),
        (Some(6), [0.0, 4.0, 0.0], 0.0),
        (None, [20.0, 5.0, 0.0], 0.0),
        (None, [21.0, 3.0, 0.0], 0.0),
        (Some(5), [20.0, 5.0, 0.0], 0.0),
        (None, [25.0, 0.0, 30.0], 10.0),
        (None, [10.0, 0.0, 30.0], 22.0),
        (Some(6), [40.0, 0.0, 30.0], 15.0),
    ];
    for (number, (frames, times_us, residual_us)) in cases.into_iter().enumerate() {
        for (arrival_pps, places) in [(0.3e6, 64), (0.3e6, 7), (0.9e6, 12)] {
            let nic = Nic::new(&moderation(frames, times_us), arrival_pps, places);
            // With a residual and a timer only the mean of the unmasking is used, so that its length is 0 in this case.
            let mask_s = if residual_us > 0.0 && !nic.is_plain() { 0.0 } else { 1.5e-6 };
            let law = nic.after_unmask(&found(arrival_pps * mask_s, places), mask_s, residual_us * 1e-6);
            let count = 60_000;
            let mut dice = Dice(number as u64);
            let (mut announced, mut at_once, mut times_s) = (vec![0.0; places + 1], 0.0, vec![0.0; places + 1]);
            for _ in 0..count {
                let (packets, now) = played(&nic, &mut dice, mask_s, residual_us * 1e-6, &mut times_s);
                announced[packets] += 1.0 / f64::from(count);
                at_once += if now { 1.0 / f64::from(count) } else { 0.0 };
            }
            let at = |list: &[f64], n: usize| list.get(n).copied().unwrap_or(0.0);
            let sum: f64 = law.immediate.iter().chain(&law.delivered).sum();
            assert!((sum - 1.0).abs() < 1e-9, "case {number}: {sum}");
            let immediate: f64 = law.immediate.iter().sum();
            assert!((immediate - at_once).abs() < 0.01, "case {number}: at once {immediate} {at_once}");
            for n in 0..=places {
                let p = at(&law.immediate, n) + at(&law.delivered, n);
                let time_s = times_s[n] / f64::from(count);
                let near = (p - announced[n]).abs() < 0.009 && (at(&law.times_s, n) - time_s).abs() < 0.15e-6;
                assert!(
                    near,
                    "case {number} at {arrival_pps} of {places}, {n} packets: {p} {} s {} {time_s}",
                    announced[n],
                    at(&law.times_s, n)
                );
            }
        }
    }
}
