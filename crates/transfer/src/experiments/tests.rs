use proptest::prelude::*;

use super::Config;
use super::effects::effects;
use super::report::{beyond, carries_bps, of_both_ends};
use netcliff_core::math::SplitMix64;

use super::rounds::RandomOrder;
use netcliff_core::experiment::{Design, Factor, Key, Setting};
use netcliff_core::stream::{FullThreads, StreamSample, StreamWarning};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// In each design, effects that were put into the values (with a little noise) are estimated again.
    #[test]
    fn effects_are_found_again(
        truth in proptest::collection::vec(-0.5..1.0f64, 1..6),
        noise in proptest::collection::vec(-0.001..0.001f64, 400),
    ) {
        let levels = vec![2; truth.len()];
        for design in [Design::Full, Design::OneAtATime, Design::Fractional] {
            let configs = design.configurations(&levels).expect("few factors");
            let value = |config: &[usize], noise: f64| {
                let ratio = |(at, effect): (&usize, &f64)| if *at == 1 { 1.0 + effect } else { 1.0 };
                1e9 * config.iter().zip(&truth).map(ratio).product::<f64>() * (1.0 + noise)
            };
            let mut noise = noise.iter().copied().cycle();
            let observed: Vec<_> = configs
                .iter()
                .map(|config| (config.as_slice(), (0..5).map(|_| value(config, noise.next().unwrap_or(0.0))).collect()))
                .collect();
            let found = effects(&levels, &observed);
            prop_assert_eq!(found.len(), truth.len());
            for (effect, truth) in found.iter().zip(&truth) {
                prop_assert!((effect.change.value - truth).abs() < 0.004, "{:?}: {:?} is not {}", design, effect, truth);
                prop_assert!(truth.abs() < 0.01 || effect.p_corrected < 0.05, "{:?}: {:?}", design, effect);
            }
        }
    }
}

#[test]
fn in_a_balanced_design_an_effect_is_the_ratio_of_geometric_means() {
    let (a, b, c, d) = ([0, 0], [0, 1], [1, 0], [1, 1]);
    let observed: Vec<(&[usize], Vec<f64>)> =
        vec![(&a, vec![1.0, 1.1]), (&b, vec![2.0, 2.1]), (&c, vec![4.0, 4.4]), (&d, vec![16.0, 15.0])];
    let geometric = |values: &[f64]| (values.iter().map(|v| v.ln()).sum::<f64>() / values.len() as f64).exp();
    let found = effects(&[2, 2], &observed);
    let ratio = geometric(&[4.0, 4.4, 16.0, 15.0]) / geometric(&[1.0, 1.1, 2.0, 2.1]) - 1.0;
    assert!((found[0].change.value - ratio).abs() < 1e-12);
    let means = (geometric(&[1.0, 1.1, 2.0, 2.1]), geometric(&[4.0, 4.4, 16.0, 15.0]));
    assert!((found[0].means.0 - means.0).abs() < 1e-9 && (found[0].means.1 - means.1).abs() < 1e-9);
    let ends = found[0].change.interval.expect("two repeats each");
    assert!(ends.low < ratio && ratio < ends.high);
}

#[test]
fn one_at_a_time_the_others_stay_at_their_first_level() {
    let (base, limited, jumbo) = ([0, 0], [1, 0], [0, 1]);
    let observed: Vec<(&[usize], Vec<f64>)> =
        vec![(&base, vec![40.0, 40.0]), (&limited, vec![1.0, 1.0]), (&jumbo, vec![90.0, 90.0])];
    let means: Vec<(f64, f64)> = effects(&[2, 2], &observed).iter().map(|effect| effect.means).collect();
    for (found, truth) in means.iter().zip([(40.0, 1.0), (40.0, 90.0)]) {
        assert!((found.0 / truth.0 - 1.0).abs() < 1e-9 && (found.1 / truth.1 - 1.0).abs() < 1e-9, "{means:?}");
    }
}

#[test]
fn no_effect_is_seldom_called_one() {
    // 1000 experiments of 4 factors without any effect, 8 configurations, 3 repeats, 3 % of noise. At most 5 % plus 3.1
    // standard errors of them may report an effect.
    let configs = Design::Fractional.configurations(&[2; 4]).expect("few factors");
    let mut random = RandomOrder(SplitMix64(7));
    let mut uniform = move || (random.next() >> 11) as f64 / (1u64 << 53) as f64;
    let mut named = 0;
    for _ in 0..1000 {
        let mut noise = || 100.0 * (1.0 + 0.03 * ((0..12).map(|_| uniform()).sum::<f64>() - 6.0));
        let observed: Vec<_> =
            configs.iter().map(|config| (config.as_slice(), (0..3).map(|_| noise()).collect())).collect();
        named += u32::from(effects(&[2; 4], &observed).iter().any(|effect| effect.p_corrected < 0.05));
    }
    assert!(named < 72, "{named} of 1000");
}

#[test]
fn what_gives_no_effects() {
    let (a, b) = ([0], [1]);
    let once: Vec<(&[usize], Vec<f64>)> = vec![(&a, vec![1.0]), (&b, vec![2.0])];
    assert!(effects(&[2], &once).is_empty(), "no repeats, no error");
    let zero: Vec<(&[usize], Vec<f64>)> = vec![(&a, vec![0.0, 1.0]), (&b, vec![2.0, 3.0])];
    assert!(effects(&[2], &zero).is_empty(), "0 has no logarithm");
    let one_sided: Vec<(&[usize], Vec<f64>)> = vec![(&a, vec![1.0, 1.1])];
    assert!(effects(&[2], &one_sided).is_empty(), "level 1 was never measured");
}

#[test]
fn orders_are_permutations_and_differ() {
    let mut order = RandomOrder(SplitMix64(1));
    let (first, second) = (order.shuffled(20), order.shuffled(20));
    assert_ne!(first, second);
    for mut order in [first, second] {
        order.sort_unstable();
        assert_eq!(order, (0..20).collect::<Vec<_>>());
    }
    assert!(order.shuffled(0).is_empty());
}

fn on_a_link(settings: Vec<Setting>, goodputs_bps: &[f64]) -> (Config, Vec<Factor>) {
    let sample = |bps: &f64| StreamSample { goodput_bps: Some(*bps), ..StreamSample::default() };
    let factors = vec![Factor { key: Key::Rate, levels: vec![settings[0].clone()] }];
    (Config { levels: vec![0], settings, samples: goodputs_bps.iter().map(sample).collect(), ended: None }, factors)
}

#[test]
fn more_than_a_link_carries_is_told_with_the_reason() {
    let rate = Setting::Rate(Some(10e6));
    // A rate of 10 Mbit/s carries 9.415 Mbit/s of payload. In 300 ms, the bucket's two frames are 0.85 % more.
    let (within, factors) = on_a_link(vec![rate.clone()], &[9.4e6, 9.49e6]);
    assert_eq!(beyond(&within, &factors, 0.3), None);
    let (more, factors) = on_a_link(vec![rate.clone()], &[9.4e6, 11.36e6]);
    let told = beyond(&more, &factors, 0.3).expect("it is more than can be");
    assert!(told.contains("10Mbit/s: a repeat had 120.7 %") && told.contains("100.8 % in such a window"), "{told}");
    // In a longer window, the bucket's frames are a smaller share.
    assert!(beyond(&within, &factors, 10.0).is_some());
    let (free, factors) = on_a_link(vec![Setting::Rate(None)], &[9e9]);
    assert_eq!(beyond(&free, &factors, 0.3), None);
}

#[test]
fn a_link_carries_datagrams_of_their_size() {
    let carries = |more: Vec<Setting>| {
        let (config, _) = on_a_link([vec![Setting::Rate(Some(100e6))], more].concat(), &[]);
        carries_bps(&config).expect("its rate is limited")
    };
    assert!((carries(vec![]) - 100e6 * 1448.0 / 1538.0).abs() < 1.0);
    let udp = Setting::Channel("udp".into());
    assert!((carries(vec![udp.clone()]) - 100e6 * 1472.0 / 1538.0).abs() < 1.0);
    assert!((carries(vec![udp.clone(), Setting::Block(18)]) - 100e6 * 18.0 / 84.0).abs() < 1.0);
    // One more byte needs a second fragment.
    assert!((carries(vec![udp, Setting::Block(1473)]) - 100e6 * 1473.0 / (1538.0 + 84.0)).abs() < 1.0);
}

/// Threads of both ends that were full in different transfers of the same blocks are one warning.
#[test]
fn full_threads_of_both_ends_are_one_warning() {
    let full = |blocks: &str, sends: bool| {
        StreamWarning::FullThreads(FullThreads { row: blocks.to_owned(), sends, several: false })
    };
    let (large, small) = ("write of 1MiB", "write of 4KiB");
    let few = StreamWarning::Other("few CPUs".to_owned());
    let warnings = [full(large, true), full(large, false), full(small, true), few.clone()];
    let found = of_both_ends(&warnings.into());
    let both = "write of 1MiB: in some transfers the sender's thread used its CPU to the full, in some the receiver's; \
                the fully busy end limits the rate";
    assert_eq!(found, [few.to_string(), both.to_owned(), full(small, true).to_string()]);
}
