use super::*;

#[test]
fn goals_that_cannot_be_are_refused() {
    let goal = Goal::rfc2544(60.0, 0.0, 0.005);
    let with = |goals: &[Goal]| Settings { goals: goals.to_vec(), ..Settings::default() };
    let only_loss = Tests { throughput: false, loss: true, ..Settings::default().tests };
    for (settings, what) in [
        (with(&[goal, Goal { duration_sum_s: 1.0, ..goal }]), "goal 2, duration sum = 1s: at least the final trial"),
        (with(&[Goal { exceed_ratio: 1.0, ..goal }]), "goal 1, exceed ratio = 100%"),
        (with(&[Goal { loss_ratio: 0.7, ..goal }]), "loss=70%"),
        (with(&[goal, goal]), "twice: each goal once"),
        (Settings { search: SearchBy::Binary, ..with(&[goal]) }, "only with MLRsearch"),
        (Settings { tests: only_loss, ..with(&[goal]) }, "only with throughput"),
    ] {
        let error = settings.check().unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    }
}

#[test]
fn a_mix_has_room_for_what_names_each_frame() {
    let mix = FrameSize::Imix.with_room_for(84);
    assert_eq!((mix.to_string().as_str(), mix.sizes()[..2].to_vec(), mix.sizes()[6]), ("imix-84", vec![84, 594], 1518));
    assert_eq!("imix-84".parse::<FrameSize>().unwrap(), mix);
    assert!((mix.mean_bytes() - (7.0 * 84.0 + 4.0 * 594.0 + 1518.0) / 12.0).abs() < 1e-9);
    assert!((Settings { frames: vec![mix], ipv6: true, ..Settings::default() }).check().is_ok());
    assert_eq!(FrameSize::Imix.with_room_for(64), FrameSize::Imix);
    assert!(["imix-64", "imix-595", "imix-"].iter().all(|text| text.parse::<FrameSize>().is_err()));
}
