//! Checks web/src/rows.ts, the page's tables of host keys and scheme parameters, which is generated from the tables in
//! core. `INSTA_UPDATE=always cargo test -p netcliff-wasm --test wasm rows` generates it; without that, a stale file
//! fails the test.

use std::fmt::Write as _;
use std::path::Path;

use netcliff_core::host::{self, Host};
use netcliff_core::scheme::{self, Scheme};

/// Shortens the documentation of a key to a hint: without the leading symbol (`s = 1/r: `), the unit `(s)`, and the
/// meaning of an absent value.
fn hint(help: &str) -> String {
    let is_symbol = |start: &str| start.len() <= "s = 1/r".len() && !start.contains("True");
    let text = match help.split_once(": ") {
        Some((start, rest)) if is_symbol(start) => rest,
        _ => help,
    };
    let text = text.split("; None: ").next().unwrap_or_default();
    let text = text.split(" None: ").next().unwrap_or_default();
    let text = text.replace(" (s)", "");
    let text = text.trim_end_matches('.');
    let mut letters = text.chars();
    match (letters.next(), letters.next()) {
        (Some(first), Some(second)) if !second.is_uppercase() && second.is_alphabetic() => {
            first.to_lowercase().chain(text.chars().skip(1)).collect()
        }
        _ => text.to_owned(),
    }
}

fn json(text: &str) -> String {
    serde_json::to_string(text).expect("JSON")
}

/// Writes a name as the key of a JavaScript object.
fn property(name: &str) -> String {
    if name.contains('-') { json(name) } else { name.to_owned() }
}

fn row(name: &str, is_time: bool, value: Option<&str>, help: &str) -> String {
    let kind = if is_time { "time" } else { "count" };
    let value = json(value.unwrap_or("none"));
    format!("{}: {{ kind: \"{kind}\", value: {value}, help: {} }},", property(name), json(&hint(help)))
}

#[test]
fn the_pages_rows_are_those_of_the_tables() {
    let preset = Host::pentium4_2530mhz();
    let mut page = "// Made by crates/wasm/tests/rows.rs from the tables of crates/core: do not edit.\n\n\
                    /** A key of a host or a parameter of a scheme. */\nexport interface Row {\n  kind: \"time\" | \"count\";\n  \
                    /** Of a key what the preset has, of a parameter its default; none: it is off. */\n  value: string;\n  \
                    help: string;\n}\n\n// prettier-ignore\nexport const HOST_KEYS = {\n"
        .to_owned();
    for key in host::TABLE.iter().filter(|key| key.unit != host::Unit::Text) {
        let row = row(key.name, key.unit == host::Unit::Time, preset.text(key.name).as_deref(), &key.help());
        let _ = writeln!(page, "  {row}");
    }
    page += "} satisfies Record<string, Row>;\n\n// prettier-ignore\nexport const SCHEME_PARAMETERS = {\n";
    for name in Scheme::names() {
        let _ = writeln!(page, "  {}: {{", property(name));
        for parameter in Scheme::parameters(name).expect("a scheme") {
            if !matches!(parameter.unit, scheme::Unit::Text | scheme::Unit::Flag) {
                let is_time = parameter.unit == scheme::Unit::Time;
                let row = row(parameter.key, is_time, parameter.default.as_deref(), &parameter.help);
                let _ = writeln!(page, "    {row}");
            }
        }
        page += "  },\n";
    }
    page += "} satisfies Record<string, Record<string, Row>>;\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/src/rows.ts");
    if std::env::var("INSTA_UPDATE").is_ok_and(|how| how == "always") {
        std::fs::write(&path, &page).expect("web/src/rows.ts can be written");
    }
    let renew = "INSTA_UPDATE=always cargo test -p netcliff-wasm --test wasm rows makes it anew, then make web";
    assert!(std::fs::read_to_string(&path).unwrap_or_default() == page, "web/src/rows.ts is stale: {renew}");
}
