//! Compares the built engine of the page (web/dist) with this library: the same questions must give the same answers,
//! character by character.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

const SCHEMES: [&str; 5] = ["ideal", "interrupt", "disable-enable", "napi:weight=16", "coalesce:frames=8,usecs=50us"];
fn dist() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web")
}

/// Makes 200 questions for each engine, and some for each other function.
fn questions() -> Vec<(&'static str, Value)> {
    let mut found = vec![("about", json!({}))];
    for number in 0..200_u32 {
        let setting = json!({
            "host": "pentium4-2530mhz",
            "set": [format!("ring={}", 8 + number % 7), format!("protocol={}us", 2 + number % 5)],
            "scheme": SCHEMES[number as usize % SCHEMES.len()],
            "size": if number % 2 == 0 { "64B" } else { "imix" },
        });
        let rate = format!("{}kpps", 20 + number);
        // Moderation with a timer is not supported by the model, which has no chain for it.
        if SCHEMES[number as usize % SCHEMES.len()].starts_with("coalesce") {
            found.push(("check", json!({ "setting": setting, "rates": rate })));
        }
        found.push(("predict", json!({ "setting": setting, "rates": rate })));
        found.push(("simulate", json!({ "setting": setting, "rate": rate, "seed": number, "packets": 1000 })));
    }
    let setting = json!({ "host": "pentium4-2530mhz", "set": ["ring=16"], "scheme": "interrupt" });
    found.push(("cliff", json!({ "setting": setting })));
    found.push(("sensitivities", json!({ "setting": setting })));
    found.push(("preview", json!({ "setting": setting, "rate": "150kpps", "seed": 3, "packets": 3000 })));
    found.push(("trace", json!({ "setting": setting, "rate": "150kpps", "seed": 3, "packets": 300 })));
    let wrong = json!({ "host": "pentium4-2530mhz", "set": ["ring=many"], "scheme": "interrupt" });
    found.push(("check", json!({ "setting": wrong })));
    found.push(("read", json!({ "name": "host.toml", "text": "protocol = \"5us\"\nring = 7\n" })));
    found.push(("read", json!({ "name": "cut.json", "text": "{\"calibration\": {" })));
    found
}

fn native(call: &str, question: &str) -> String {
    match call {
        "about" => netcliff_wasm::about(question),
        "check" => netcliff_wasm::check(question),
        "predict" => netcliff_wasm::predict(question),
        "cliff" => netcliff_wasm::cliff(question),
        "sensitivities" => netcliff_wasm::sensitivities(question),
        "simulate" => netcliff_wasm::simulate(question),
        "preview" => netcliff_wasm::preview(question),
        "trace" => netcliff_wasm::trace(question),
        "read" => netcliff_wasm::read(question),
        other => unreachable!("{other} is no door"),
    }
}

#[test]
fn the_page_answers_as_this_library() {
    if !netcliff_testkit::has_program("node") {
        return;
    }
    let asked = questions();
    let mut child = Command::new("node")
        .arg(dist().join("tests/engine.mjs"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("node starts");
    let mut input = child.stdin.take().expect("piped");
    let lines: String = asked.iter().map(|(call, question)| format!("{}\n", json!([call, question]))).collect();
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = child.wait_with_output().expect("node ends");
    writer.join().expect("writes").expect("node reads");
    assert!(output.status.success(), "the page's engine ended with {}", output.status);
    let replies = String::from_utf8(output.stdout).expect("text");
    assert_eq!(replies.lines().count(), asked.len(), "a reply for each question");
    for ((call, question), reply) in asked.iter().zip(replies.lines()) {
        let ours = native(call, &question.to_string());
        assert_eq!(ours, reply, "web/dist is not of this source ({call} {question}); run make web and commit web/dist");
    }
}

#[test]
fn the_engine_is_at_most_a_mebibyte_compressed() {
    let text = std::fs::read_to_string(dist().join("dist/wasm.js")).expect("web/dist/wasm.js: run make web");
    let bytes = text.len() * 3 / 4;
    assert!(bytes <= 1 << 20, "{bytes} bytes");
}

#[test]
fn what_is_wrong_is_said_in_the_words_of_the_command_line() {
    let ask = |setting: Value| netcliff_wasm::check(&json!({ "setting": setting }).to_string());
    let wrong = ask(json!({ "host": "pentium4-2530mhz", "set": ["ring=many"], "scheme": "napi" }));
    assert!(wrong.contains(r#""part":"set.0""#) && wrong.contains("--set ring: cannot read"), "{wrong}");
    let wrong = ask(json!({ "host": "pentium4-2530mhz", "scheme": "napi:wait=3" }));
    assert!(wrong.contains(r#""part":"scheme""#) && wrong.contains("weight"), "{wrong}");
    let wrong = ask(json!({ "host": "/etc/passwd", "scheme": "napi" }));
    assert!(wrong.contains(r#""part":"host""#) && wrong.contains("pentium4-2530mhz"), "{wrong}");
    let wrong = ask(json!({ "host": "pentium4-2530mhz", "scheme": "napi", "arrivals": "trace:/etc/passwd" }));
    assert!(wrong.contains(r#""part":"arrivals""#) && wrong.contains("file"), "{wrong}");
    assert!(ask(json!({ "hosts": "x" })).contains(r#""part":"question""#));
}
