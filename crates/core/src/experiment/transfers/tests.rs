use super::*;
use crate::Experiment;

const FILE: &str = r#"
title = "t"
kind = "transfer"
time = "200ms"

[fixed]
congestion = "cubic"

[vary]
block = ["1B..4B", "64KiB"]
nodelay = ["off", "on"]
tso = ["on", "off"]
"#;

fn read(text: &str) -> Result<Box<Transfers>, String> {
    match Experiment::from_toml("t.toml", text) {
        Ok(Experiment::Transfers(transfers)) => Ok(transfers),
        Ok(other) => panic!("not transfers: {other:?}"),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn a_file_comes_to_factors() {
    let transfers = read(FILE).expect("it is right");
    let factors = transfers.factors().expect("checked");
    let names: Vec<_> =
        factors.iter().map(|f| (f.key.name(), f.levels.iter().map(ToString::to_string).collect())).collect();
    let texts = |levels: &[&str]| levels.iter().map(|level| (*level).to_owned()).collect::<Vec<_>>();
    assert_eq!(
        names,
        [
            ("nodelay", texts(&["off", "on"])),
            ("tso", texts(&["on", "off"])),
            ("block", texts(&["1B", "2B", "4B", "64KiB"]))
        ]
    );
    assert_eq!(transfers.fixed(), Ok(vec![Setting::Congestion("cubic".to_owned())]));
    let precise = read(&FILE.replacen("time =", "precision = \"2%\"\ntime =", 1)).expect("it is right").repeats();
    assert_eq!(precise.map(|repeats| (repeats.least, repeats.most, repeats.precision)), Ok((5, 25, Some(0.02))));
    assert_eq!((transfers.repeats, transfers.time_s()), (5, Ok(0.2)));
}

#[test]
fn every_key_reads_what_it_writes() {
    for key in Key::ALL {
        assert_eq!(key.name().parse::<Key>(), Ok(key));
        let text = ["on", "full", "1500", "6", "10Mbit/s", "64KiB", "pfifo:100", "page", "receive", "word"]
            .into_iter()
            .find(|text| key.parse(text).is_ok());
        let setting = key.parse(text.expect("some form is accepted")).expect("as found");
        assert_eq!(setting.key(), key);
        assert_eq!(key.parse(&setting.to_string()), Ok(setting));
    }
    assert_eq!(Key::Threads.parse("own").map(|own| own.to_string()), Ok("own".to_owned()));
    for measure in TransferMeasure::ALL {
        assert_eq!(measure.name().parse::<TransferMeasure>(), Ok(measure));
    }
}

#[test]
fn what_cannot_be_is_named_with_its_line() {
    for (from, to, words) in [
        ("\"off\", \"on\"", "\"off\", \"yes\"", &["line 11", "\"yes\"", "on or off"][..]),
        ("nodelay", "nodeley", &["nodeley", "expected one of", "rx-checksum"]),
        ("1B..4B", "4B..1B", &["line 10", "smaller size first"]),
        ("200ms", "0s", &["line 4", "above 0"]),
        ("congestion", "tso", &["line 7", "fixed and varies"]),
        ("[\"on\", \"off\"]", "[\"on\", \"on\"]", &["line 12", "twice"]),
        ("time =", "design = \"fractional\"\ntime =", &["line 4", "two levels, not 4"]),
        ("tso = [\"on\", \"off\"]", "threads = [\"own\", \"0\"]", &["line 12", "\"0\"", "own (a thread a flow)"]),
        ("title", "x = 1\ntitle", &["line 2", "unknown field"]),
        ("tso = [\"on\", \"off\"]", "qdisc = [\"red:9\"]", &["line 12", "\"red:9\"", "pfifo:100"]),
        ("tso = [\"on\", \"off\"]", "receive-buffer = [\"0B\"]", &["line 12", "\"0B\"", "auto"]),
        ("tso = [\"on\", \"off\"]", "align = [\"4096\"]", &["line 12", "\"4096\"", "page or none"]),
        ("[vary]", "[figure]\nx = \"block\"\nalso = [\"link_share\"]\n[vary]", &["line 11", "link_share", "unit of y"]),
        ("time =", "repeats = 3\nprecision = \"2%\"\ntime =", &["line 4", "at least 5"]),
        ("time =", "max_repeats = 9\ntime =", &["without a precision"]),
    ] {
        let said = read(&FILE.replacen(from, to, 1)).expect_err(to);
        assert!(words.iter().all(|word| said.contains(word)), "{to}: {said}");
    }
}

#[test]
fn a_lack_is_read_with_its_setting() {
    let other = Lack::Other("mtu 100: IPv6 needs 1280 at least".to_owned());
    for (lack, sentence) in [
        (Lack::Setting(Key::Mtu, "no device has it".to_owned()), "mtu: no device has it"),
        (other, "mtu 100: IPv6 needs 1280 at least"),
    ] {
        assert_eq!(lack.to_string(), sentence);
        assert_eq!(Lack::from(sentence.to_owned()), lack);
    }
}
