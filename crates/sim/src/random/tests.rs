use rand_core::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use super::*;

#[test]
fn every_lane_is_xoshiro256_plus_plus() {
    let mut stream = Stream::new(7, Purpose::Gap, 3);
    let mut lanes: Vec<Xoshiro256PlusPlus> = (0..LANES)
        .map(|lane| {
            let mut seed = [0; 32];
            for word in 0..4 {
                seed[8 * word..8 * word + 8].copy_from_slice(&stream.state[word][lane].to_le_bytes());
            }
            Xoshiro256PlusPlus::from_seed(seed)
        })
        .collect();
    for _ in 0..100 {
        let expected: Vec<u64> = lanes.iter_mut().map(|lane| lane.next_u64()).collect();
        assert_eq!(stream.step().to_vec(), expected);
    }
}

#[test]
fn streams_differ_by_seed_purpose_and_replication() {
    let first = |seed, purpose, replication| Stream::new(seed, purpose, replication).step();
    let all =
        [first(1, Purpose::Gap, 0), first(2, Purpose::Gap, 0), first(1, Purpose::Size, 0), first(1, Purpose::Gap, 1)];
    for (i, a) in all.iter().enumerate() {
        assert_eq!(all.iter().filter(|b| *b == a).count(), 1, "stream {i}");
    }
    assert_eq!(first(1, Purpose::Gap, 0), all[0]);
}

#[test]
fn the_logarithm_is_good_to_two_ulp() {
    let mut stream = Stream::new(1, Purpose::Gap, 0);
    let mut block = [0.0; BLOCK];
    for _ in 0..400 {
        stream.uniform(&mut block);
        for x in block {
            assert!(x > 0.0 && x <= 1.0);
            let (got, want) = (ln(x), x.ln());
            assert!((got - want).abs() <= 4.5e-16 * want.abs(), "ln({x}) = {got}, std says {want}");
        }
    }
    assert_eq!(ln(1.0), 0.0);
    assert!((ln(f64::MIN_POSITIVE) - f64::MIN_POSITIVE.ln()).abs() < 1e-12);
}

/// Seed 1, 256 000 numbers: mean, variance and tail are within 4 standard errors of their exact values.
#[test]
fn exponentials_and_normals_have_their_moments() {
    let blocks = 1000;
    let n = (blocks * BLOCK) as f64;
    let mut stream = Stream::new(1, Purpose::Gap, 0);
    let mut block = [0.0; BLOCK];
    let (mut sum, mut square, mut tail) = (0.0, 0.0, 0.0);
    for _ in 0..blocks {
        stream.exponential(&mut block);
        for x in block {
            sum += x;
            square += x * x;
            tail += f64::from(x > 3.0);
        }
    }
    assert!((sum / n - 1.0).abs() < 4.0 / n.sqrt());
    assert!((square / n - 2.0).abs() < 4.0 * (20.0 / n).sqrt());
    let p = (-3.0_f64).exp();
    assert!((tail / n - p).abs() < 4.0 * (p * (1.0 - p) / n).sqrt());

    (sum, square) = (0.0, 0.0);
    for _ in 0..blocks {
        stream.normal(&mut block);
        for x in block {
            sum += x;
            square += x * x;
        }
    }
    assert!((sum / n).abs() < 4.0 / n.sqrt());
    assert!((square / n - 1.0).abs() < 4.0 * (2.0 / n).sqrt());
}

/// Fills 1000 blocks of a stream with each instruction set of this machine, and compares their bits with the blocks of
/// the base version.
fn same_bits(fill: impl Fn(&mut Stream, &mut [u64; BLOCK])) {
    let of = |width| {
        let mut stream = Stream { width, ..Stream::new(3, Purpose::Gap, 0) };
        let mut block = [0; BLOCK];
        let mut bits = Vec::new();
        for _ in 0..1000 {
            fill(&mut stream, &mut block);
            bits.extend(block);
        }
        bits
    };
    let base = of(Width::BASE);
    for width in Width::all() {
        assert!(of(width) == base, "{width:?}");
    }
}

#[test]
fn exponentials_have_the_same_bits_at_all_widths() {
    same_bits(|stream, bits| {
        let mut block = [0.0; BLOCK];
        stream.exponential(&mut block);
        *bits = block.map(f64::to_bits);
    });
}

#[test]
fn ticks_are_the_same_at_all_widths() {
    for mean in [0.3, 5e6, 1e13, 1e17] {
        same_bits(|stream, ticks| stream.exponential_ticks(mean, ticks));
    }
}
