use super::*;

#[test]
fn line_rate_counts_preamble_and_gap() {
    let traffic = Traffic::default();
    assert!((traffic.line_rate_pps().unwrap() - 1.488e6).abs() < 100.0);
    assert!((traffic.rate_pps("50%".parse().unwrap()).unwrap() - 744e3).abs() < 100.0);
}

#[test]
fn the_reconstructed_mci_mix_has_a_mean_of_557_bytes() {
    assert!((FrameSizes::Mci1998Like.mean_bytes().unwrap() - 557.0).abs() < 1e-9);
}

#[test]
fn bits_per_second_are_frame_bits() {
    assert!((Traffic::default().rate_pps("512kbit/s".parse().unwrap()).unwrap() - 1000.0).abs() < 1e-9);
}

#[test]
fn texts_round_trip() {
    for text in [
        "poisson",
        "constant",
        "batch:size=4",
        "mmpp:peak=4,busy=10%,stay=1ms",
        "onoff:sources=8,rule=superpose",
        "onoff:off=printed,cutoff=1ms",
        "trace:a:b.pcap",
    ] {
        let arrivals: Arrivals = text.parse().unwrap();
        assert_eq!(arrivals.to_string().parse::<Arrivals>().unwrap(), arrivals, "{text}");
    }
    for text in ["64B", "1518B", "imix", "mci1998-like", "sizes.csv", "mixture:64=7,1518=1"] {
        let sizes: FrameSizes = text.parse().unwrap();
        assert_eq!(sizes.to_string().parse::<FrameSizes>().unwrap(), sizes, "{text}");
    }
}

#[test]
fn refuses_what_cannot_be() {
    for text in ["0pps", "-1kpps", "NaNpps", "100", "0%", "1e400pps"] {
        assert!(text.parse::<Load>().expect_err(text).to_string().contains("100kpps"));
    }
    assert_eq!("64".parse::<FrameSizes>().unwrap(), FrameSizes::Fixed(64));
    for text in ["63B", "70000B", "64KB", "mixture:64=0", "mixture:12=1"] {
        assert!(text.parse::<FrameSizes>().is_err(), "{text}");
    }
    let mmpp = Traffic { arrivals: "mmpp:peak=20,busy=10%".parse().unwrap(), ..Traffic::default() };
    assert!(mmpp.validate().unwrap_err().to_string().contains("peak x busy"));
}

/// b_OFF of Salah et al. (2007), section 5.1, by hand for N = 8 and a load of 0.4: E[ON] = 1.3 x 512 ns/0.3 = 2.2187
/// us, 1/rho_i - 1 = 19, (alpha - 1)/alpha = 1/3.
#[test]
fn printed_off_periods() {
    let least_s = OnOff::default().printed_least_off_s(0.4);
    assert!((least_s - 2.218_666_666_7e-6 * 19.0 / 3.0).abs() < 1e-14, "{least_s}");
    assert_eq!("onoff".parse::<Arrivals>().unwrap(), "onoff:off=scaled".parse().unwrap());
    assert!(!Arrivals::OnOff(OnOff::default()).to_string().contains(",off="));
    let error = "onoff:off=real".parse::<Arrivals>().unwrap_err().to_string();
    assert!(error.contains("scaled or printed"), "{error}");
}

/// 10 Gbit/s carry 14.88 million 64-byte frames a second, which is 7.62 Gbit/s of frames.
#[test]
fn a_load_above_the_link_is_refused_with_what_it_carries() {
    let fits = |rate: &str, link_bps: f64, named: bool| {
        Traffic { link_bps, ..Traffic::default() }.fits_link(rate.parse().unwrap(), named)
    };
    for (rate, within) in
        [("14.88Mpps", true), ("14.9Mpps", false), ("7.6Gbit/s", true), ("10Gbit/s", false), ("100%", true)]
    {
        assert_eq!(fits(rate, 10e9, true).is_ok(), within, "{rate}");
    }
    let refused = fits("10Gbit/s", 10e9, true).unwrap_err().to_string();
    assert!(
        ["10Gbit/s", "14.88", "Mpps", "64 B", "7.61", "preamble"].iter().all(|part| refused.contains(part)),
        "{refused}"
    );
    // A default link speed limits only loads given as shares of it.
    assert!(fits("2Mpps", 1e9, false).is_ok() && fits("101%", 1e9, false).is_err());
}
