//! Files that cannot be read, understood or written: one clear sentence that names the file.

use std::process::Stdio;

use crate::common::{Home, pcap_of_udp, refusal, refusals};
use netcliff_core::Finding;
use netcliff_core::finding::Setup;
use netcliff_lab::store::Store;

#[test]
fn host_files() {
    let home = Home::new();
    let predict = |file: &str, says: &[&str]| {
        let path = home.path(file).display().to_string();
        let says: Vec<&str> = says.iter().copied().chain([path.as_str()]).collect();
        refusal(&home, &["predict", "--rate", "1kpps", "--host", &path], 2, &says)
            .unwrap_or_else(|wrong| panic!("{wrong}"));
    };
    for (name, text, says) in [
        ("unit.toml", "protocol = \"5us\"\nring = 16\ninterrupt = \"3 kpps\"\n", &["line 3", "3 kpps", "20us"][..]),
        ("negative.toml", "protocol = \"-5us\"\n", &["line 1", "-5us", "20us"]),
        ("key.toml", "protocol = \"5us\"\nprotocl = \"5us\"\n", &["line 2", "protocl", "`protocol`"]),
        ("bare.toml", "ring = 16\nprotocol = 5\n", &["line 2", "protocol = 5", "20us", "in quotes"]),
        ("none.toml", "", &["protocol"]),
        ("prose.toml", "hello there\n", &["line 1", "hello there"]),
        ("ring.toml", "protocol = \"5us\"\nring = 0\n", &["ring = 0", "at least 1"]),
        ("service.toml", "protocol = \"5us\"\nservice = \"gaussian\"\n", &["line 2", "gaussian", "exponential"]),
    ] {
        home.file(name, text);
        predict(name, says);
    }
    home.file("binary.toml", [0xff, 0xfe, 0, 1]);
    predict("binary.toml", &["cannot be read", "UTF-8"]);
    predict("missing.toml", &["No such file", "pentium4-2530mhz", "TOML file"]);
    std::fs::create_dir(home.path("dir.toml")).unwrap();
    predict("dir.toml", &["is a directory"]);
}

#[test]
fn experiment_files() {
    let home = Home::new();
    let good = "engines = [\"model\"]\nschemes = [\"ideal\"]\n[host]\npreset = \"pentium4-2530mhz\"\n\
                [traffic]\nrates = \"10kpps,20kpps\"\n[figure]\ny = \"throughput_pps\"\n";
    for (name, from, to, says) in [
        ("engine", "\"model\"", "\"modle\"", &["line 1", "modle", "model", "sim", "wire"][..]),
        ("scheme", "ideal", "idael", &["line 2", "idael", "napi-2007"]),
        ("key", "[host]", "presition = \"5%\"\n[host]", &["line 3", "presition", "precision"]),
        ("kind", "[host]", "kind = \"spiral\"\n[host]", &["line 3", "spiral", "grid"]),
        ("preset", "pentium4-2530mhz", "pentium5", &["line 4", "pentium5", "pentium4-2530mhz"]),
        ("rate", "20kpps", "20", &["line 6", "10kpps,20", "10kpps..300kpps:30"]),
        ("measure", "throughput_pps", "speed", &["line 8", "speed", "latency_p99_s"]),
        ("scale", "throughput_pps\"", "throughput_pps\"\ny_scale = \"cubic\"", &["line 9", "cubic", "linear", "log"]),
        ("range", "throughput_pps\"", "throughput_pps\"\ny_range = \"3us..9us\"", &["line 9", "3us", "kpps"]),
        (
            "mark",
            "throughput_pps\"",
            "throughput_pps\"\n[[mark]]\nlabel = \"m\"\nsource = \"s\"",
            &["line 10", "x, y or both"],
        ),
        ("section", "[figure]", "[figrue]", &["line 7", "figrue", "figure"]),
        ("text", "engines = [\"model\"]", "engines: model", &["line 1"]),
    ] {
        let text = good.replacen(from, to, 1);
        assert_ne!(text, good, "{name}");
        let path = home.file(&format!("{name}.toml"), text);
        let says: Vec<&str> = says.iter().copied().chain([path.as_str()]).collect();
        refusal(&home, &["run", &path], 2, &says).unwrap_or_else(|wrong| panic!("{wrong}"));
    }
    let formulas = home.file(
        "mlfrr.toml",
        "kind = \"mlfrr\"\n[host]\npreset = \"pentium4-2530mhz\"\n[traffic]\nrates = \"1kpps..200kpps:5\"\n",
    );
    let binary = home.file("binary.toml", [0xff, 0xfe, 0, 1]);
    let fine = home.file("fine.toml", good);
    std::fs::create_dir(home.path("dir.toml")).unwrap();
    refusals(
        &home,
        2,
        &[
            (&["run", "missing.toml"], &["missing.toml", "No such file"]),
            (&["run", "dir.toml"], &["dir.toml", "is a directory"]),
            (&["run", &binary], &["cannot be read", "UTF-8"]),
            (&["run"], &["FILE"]),
            (&["run", &fine, "--engine", "paper"], &["paper", "model, sim or wire"]),
            (&["run", &fine, "--packets", "10"], &["'10'", "1000"]),
            (&["run", &fine, "--precision", "0%"], &["0%", "5%"]),
            (&["run", &fine, "--threads", "0"], &["'0'", "1..=1024"]),
            (&["run", &fine, "--json", "--csv"], &["--csv"]),
            (&["run", &formulas, "--seed", "1"], &["--seed", "formulas", "mlfrr.toml"]),
            (&["run", &formulas, "--resume"], &["--resume", "formulas"]),
        ],
    );
}

#[test]
fn size_tables() {
    let home = Home::new();
    let tables = [
        ("columns.csv", "64,7\n594;4\n", &["line 2", "594;4", "BYTES,WEIGHT"][..]),
        ("small.csv", "64,7\n12,1\n", &["line 2", "12,1", "64 to 65535"]),
        ("negative.csv", "64,-7\n", &["line 1", "64,-7", "at least 0"]),
        ("nan.csv", "bytes,weight\n64,NaN\n", &["line 2", "64,NaN", "at least 0"]),
        ("weightless.csv", "64,0\n", &["above 0", "64,7"]),
        ("empty.csv", "", &["BYTES,WEIGHT"]),
    ];
    for (name, text, says) in tables {
        let path = home.file(name, text);
        let says: Vec<&str> = says.iter().copied().chain([path.as_str()]).collect();
        refusal(&home, &["predict", "--rate", "1kpps", "--size", &path], 2, &says)
            .unwrap_or_else(|wrong| panic!("{wrong}"));
    }
    std::fs::create_dir(home.path("dir.csv")).unwrap();
    refusals(
        &home,
        2,
        &[
            (&["predict", "--rate", "1kpps", "--size", "missing.csv"], &["missing.csv", "No such file"]),
            (&["predict", "--rate", "1kpps", "--size", "dir.csv"], &["dir.csv", "is a directory"]),
            (&["predict", "--rate", "1kpps", "--size", "12B"], &["12B", "64B to 65535B"]),
            (&["predict", "--rate", "1kpps", "--size", "64KB"], &["64KB", "64B to 65535B"]),
            (&["predict", "--rate", "1kpps", "--size", "70000B"], &["70000B", "64B to 65535B"]),
        ],
    );
}

#[test]
fn stores_that_cannot_be() {
    let home = Home::new();
    let prose = home.file("prose.db", "this is no database, but long enough to be looked at: ".repeat(40));
    let dir = home.text("");
    let nowhere = "/proc/netcliff/records.db";
    for (db, why) in [(nowhere, "/proc/netcliff"), (dir.as_str(), "directory"), (&prose, "not a database")] {
        let reading = [&["results", "list"][..], &["results", "show"]];
        let writing = [&["predict", "--rate", "1kpps", "--host", "pentium4-2530mhz"][..], &["find"]];
        // A command that only reads does not make a store. A store that does not exist has no runs.
        for command in reading.into_iter().filter(|_| db != nowhere).chain(writing) {
            let args: Vec<&str> = command.iter().copied().chain(["--db", db]).collect();
            let said = refusal(&home, &args, 1, &[db, why, "--db FILE"]).unwrap_or_else(|wrong| panic!("{wrong}"));
            assert_eq!(said.lines().count(), 1, "one sentence: {said}");
        }
    }
    let listed = home.netcliff(["results", "list", "--db", nowhere]).assert().success().get_output().clone();
    assert!(String::from_utf8_lossy(&listed.stderr).contains("no runs in /proc/netcliff/records.db"));
    assert!(std::fs::read_to_string(&prose).unwrap().starts_with("this is no database"), "it is left as it was");
}

#[test]
fn a_page_that_cannot_be_written() {
    let home = Home::new();
    let db = home.text("found.db");
    let store = Store::open(std::path::Path::new(&db)).unwrap();
    let run = store.begin("find", "netcliff find", 0.0).unwrap();
    store.finish(run, true, Some(&nothing())).unwrap();
    drop(store);
    home.stdout(["results", "show", "--db", &db, "--html", &home.text("page.html")]);
    assert!(std::fs::read_to_string(home.path("page.html")).unwrap().contains("</html>"));
    let full = ["results", "show", "--db", &db, "--html", "/dev/full"];
    let said = refusal(&home, &full, 1, &["/dev/full", "No space left"]).unwrap_or_else(|wrong| panic!("{wrong}"));
    assert_eq!(said.lines().count(), 1, "{said}");
    refusal(
        &home,
        &["results", "show", "--db", &db, "--html", "no/such/dir.html"],
        2,
        &["no/such/dir.html", "No such file"],
    )
    .unwrap_or_else(|wrong| panic!("{wrong}"));
}

#[test]
fn a_full_stdout_is_told() {
    let home = Home::new();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
    let output = home.command(["predict", "--rate", "1kpps"]).stdout(full).stderr(Stdio::piped()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("stdout") && said.contains("No space left"), "{said}");
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let home = Home::new();
    let sweep = ["predict", "--host", "pentium4-2530mhz", "--scheme", "ideal", "--rates", "1kpps..100kpps:200"];
    for args in [
        [&sweep[..], &["--json"]].concat(),
        sweep.to_vec(),
        vec!["results", "list", "--json"],
        vec!["completions", "bash"],
        vec!["man"],
        vec!["--help"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = home.command(&args).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {said}");
        assert!(said.is_empty() || args[0] == "results", "{args:?}: {said}");
    }
}

/// The finding of a run that was stopped before it measured anything.
fn nothing() -> Finding {
    let setup = Setup { socket_buffer_bytes: 4096, trial_s: 0.1, ..Setup::default() };
    Finding { partial: true, ..Finding::blank(setup, 1e-4) }
}

/// 1000 UDP packets of 60 and 1000 bytes from two ports, 10 us apart.
fn capture() -> Vec<u8> {
    pcap_of_udp(10, (0..1000).map(|n| if n % 4 == 0 { (1000, 958) } else { (1001, 18) }))
}

#[test]
fn a_capture_is_traffic_sizes_and_flows() {
    let home = Home::new();
    let file = home.text("t.pcap");
    std::fs::write(&file, capture()).unwrap();
    let trace = format!("trace:{file}");
    let simulate = |more: &[&str]| {
        home.json(
            [&["simulate", "--scheme", "ideal", "--packets", "20000", "--json", "--arrivals", &trace], more].concat(),
        )
    };
    let throughput = |record: &serde_json::Value| crate::common::number(&record["outcome"]["throughput_pps"]).unwrap();
    let recorded = simulate(&[]);
    assert!((throughput(&recorded) / 100e3 - 1.0).abs() < 1e-3, "{recorded}");
    assert_eq!(
        (&recorded["point"]["traffic"]["size"], &recorded["point"]["traffic"]["arrivals"]),
        (&"trace".into(), &trace.clone().into())
    );
    let bits = crate::common::number(&recorded["outcome"]["goodput_bps"]).unwrap() / throughput(&recorded);
    assert!((bits / (8.0 * (0.25 * 1004.0 + 0.75 * 64.0)) - 1.0).abs() < 0.01, "{bits}");
    assert!((throughput(&simulate(&["--rate", "50kpps"])) / 50e3 - 1.0).abs() < 1e-3);
    let faster = format!("{trace},speed=1.5");
    let fast = home.json(["simulate", "--scheme", "ideal", "--packets", "20000", "--json", "--arrivals", &faster]);
    assert!((throughput(&fast) / 150e3 - 1.0).abs() < 5e-3, "{fast}");
    let sizes = home.json(["predict", "--scheme", "ideal", "--rate", "50kpps", "--json", "--size", &file]);
    assert!(sizes["point"]["traffic"]["size"].as_str().unwrap().starts_with("mixture:64="), "{sizes}");
    let queues = home.json(["predict", "--rate", "50kpps", "--json", "--queues", "64", "--flows", &file]);
    let shares = queues["outcome"]["queues"].as_array().unwrap().iter();
    let shares: Vec<f64> = shares.map(|queue| queue["share"].as_f64().unwrap()).filter(|share| *share > 0.0).collect();
    assert!(shares == [0.25, 0.75] || shares == [0.75, 0.25], "{shares:?}");
}

#[test]
fn captures_that_cannot_be_used() {
    let home = Home::new();
    let (bad, good) = (home.text("bad.pcap"), home.text("good.pcap"));
    std::fs::write(&bad, "no capture").unwrap();
    std::fs::write(&good, capture()).unwrap();
    let [bad, good, fast] =
        [&format!("trace:{bad}"), &format!("trace:{good}"), &format!("trace:{good},speed=2")].map(String::clone);
    for (args, parts) in [
        (vec!["simulate", "--arrivals", "trace:/no/such.pcap"], vec!["/no/such.pcap", "No such file"]),
        (vec!["simulate", "--arrivals", &bad], vec!["bad.pcap", "neither pcap nor pcapng"]),
        (vec!["simulate", "--arrivals", &fast, "--rate", "9kpps"], vec!["speed and an offered load", "only one"]),
        (vec!["simulate", "--arrivals", "trace:x,speed=0"], vec!["speed", "above 0"]),
        (vec!["simulate", "--size", "trace", "--rate", "9kpps"], vec!["--arrivals trace:FILE"]),
        (vec!["predict", "--arrivals", &good], vec!["only Poisson and mmpp", "simulator"]),
    ] {
        crate::common::refusals(&home, 2, &[(&args, &parts)]);
    }
}
