//! JSON Schemas of the outputs of commands and of the files they read: generated from the types, stored in docs/schema,
//! and checked against every output that a test reads ([`check`], called by [`crate::common::Home`]; [`printed`],
//! called by tests that start the program themselves).
//!
//! `INSTA_UPDATE=always cargo test -p netcliff --test cli schema` regenerates the files. Without it, the test fails if
//! a file is stale.

mod made;

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::common::{Home, commands_in};
use made::made;

/// Address of the schemas of this minor version. Earlier versions stay available, because files refer to them.
const ADDRESS: &str = "https://example.org/netcliff/schema";

/// The version of the schemas, such as `v0.1`.
fn version() -> String {
    let version = env!("CARGO_PKG_VERSION");
    let minor: Vec<&str> = version.split('.').take(2).collect();
    format!("v{}", minor.join("."))
}

/// Schemas of the output of each command with `--json`. [`every_command_with_json_has_a_schema`] checks the list
/// against the help texts.
const PRINTED: [(&str, &[&str]); 25] = [
    ("find", &["find", "service", "profile"]),
    ("run", &["record", "curve", "rfc2544", "forwarding", "transfer", "profile"]),
    ("predict", &["record"]),
    ("simulate", &["record", "against"]),
    ("advise", &["advise"]),
    ("inspect", &["inspect"]),
    ("watch", &["watch"]),
    ("drops", &["drops", "drops-trace"]),
    ("headroom", &["headroom"]),
    ("learn", &["learn"]),
    ("profile", &["profile"]),
    ("tune plan", &["plan"]),
    ("tune apply", &["applied"]),
    ("tune set", &["applied"]),
    ("tune undo", &["undone"]),
    ("tune adapt", &["adapt"]),
    ("tune try", &["tried"]),
    ("limits", &["limits"]),
    ("rr", &["rr", "profile"]),
    ("stream", &["stream", "profile"]),
    ("rfc2544", &["rfc2544", "profile"]),
    ("compare", &["compare"]),
    ("results list", &["results"]),
    (
        "results show",
        &["record", "find", "service", "learn", "profile", "stream", "rr", "rfc2544", "forwarding", "transfer"],
    ),
    ("results trend", &["trend"]),
];

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema").join(version())
}

#[test]
fn the_published_schemas_are_those_of_the_types() {
    let (directory, made) = (directory(), made());
    let update = std::env::var("INSTA_UPDATE").is_ok_and(|how| how == "always");
    if update {
        std::fs::create_dir_all(&directory).expect("docs/schema can be written");
    }
    let mut stale = Vec::new();
    for (name, schema) in &made {
        let path = directory.join(format!("{name}.json"));
        let text = serde_json::to_string_pretty(schema).expect("JSON") + "\n";
        if update {
            std::fs::write(&path, &text).expect("docs/schema can be written");
        }
        if std::fs::read_to_string(&path).unwrap_or_default() != text {
            stale.push(*name);
        }
    }
    let there = std::fs::read_dir(&directory)
        .expect("docs/schema")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let known = |file: &String| file.strip_suffix(".json").is_some_and(|name| made.contains_key(name));
    let strange: Vec<String> = there.filter(|file| !known(file)).collect();
    assert!(
        stale.is_empty() && strange.is_empty(),
        "stale: {stale:?}, of no type: {strange:?}; INSTA_UPDATE=always cargo test -p netcliff --test cli schema makes them anew"
    );
}

/// The names of a command's schemas, by the first words of its line. `None` if it is not a command, or has no `--json`.
fn names_of(args: &[String]) -> Option<&'static [&'static str]> {
    let is = |command: &str| command.split(' ').eq(args.iter().map(String::as_str).take(command.split(' ').count()));
    PRINTED.iter().find(|(command, _)| is(command)).map(|(_, names)| *names)
}

/// The schema that an object belongs to, by its keys. `None` if no schema fits.
fn told_by(object: &Value) -> Option<&'static str> {
    // For each schema, a key that objects of the schemas before it do not have.
    const TELLING: [(&str, &str); 18] = [
        ("event", "adapt"),
        ("calibration", "find"),
        ("candidates", "advise"),
        ("frames_per_interrupt", "limits"),
        ("calibrated_unix_s", "headroom"),
        ("outcome", "record"),
        ("curve", "curve"),
        ("differences", "against"),
        ("flow_rates_per_s", "rr"),
        ("in_force", "stream"),
        ("schemes", "inspect"),
        ("bottleneck", "watch"),
        ("permutations", "trend"),
        ("verdict", "tried"),
        ("objective", "plan"),
        ("sampling_factor", "drops"),
        ("effective", "applied"),
        ("change", "undone"),
    ];
    match object.get("kind").and_then(Value::as_str) {
        // The kind of a comparison is that of its two runs.
        _ if object.get("only_a").is_some() => Some("compare"),
        Some("rfc2544") => Some("rfc2544"),
        Some("forwarding") => Some("forwarding"),
        Some("transfer") => Some("transfer"),
        Some("service") => Some("service"),
        Some("learn") => Some("learn"),
        Some("profile") => Some("profile"),
        _ if object.get("steps").is_some() && object.get("ended").is_some() => Some("drops-trace"),
        _ => TELLING.iter().find(|(key, _)| object.get(key).is_some()).map(|(_, name)| *name),
    }
}

/// The schema of what a command line prints.
fn name_of(args: &[String], object: &Value) -> &'static str {
    let names = names_of(args).unwrap_or_else(|| panic!("netcliff {}: PRINTED has no schema of it", args.join(" ")));
    match names {
        [only] => only,
        several => told_by(object)
            .filter(|name| several.contains(name))
            .unwrap_or_else(|| panic!("netcliff {}: none of {several:?}: {object}", args.join(" "))),
    }
}

/// Checks the single object that a command printed against the schema selected by its keys. `said` is shown if there is
/// no object.
pub fn printed(stdout: impl AsRef<[u8]>, said: impl AsRef<[u8]>) -> Value {
    let shown = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
    let (stdout, said) = (stdout.as_ref(), said.as_ref());
    let object: Value =
        serde_json::from_slice(stdout).unwrap_or_else(|error| panic!("{error}: {}\n{}", shown(stdout), shown(said)));
    let name = told_by(&object).unwrap_or_else(|| panic!("of no known schema: {object}\n{}", shown(said)));
    as_published(name, &object);
    object
}

/// Checks what a command line printed against its schema.
pub fn check(args: &[String], object: &Value) {
    as_published(name_of(args, object), object);
}

/// Keys that the schema does not name are errors, too: each is documented.
fn as_published(name: &str, object: &Value) {
    let text = std::fs::read_to_string(directory().join(format!("{name}.json"))).expect("a published schema");
    let mut schema: Value = serde_json::from_str(&text).expect("JSON");
    close(&mut schema);
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let wrong: Vec<String> =
        validator.iter_errors(object).take(5).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(wrong.is_empty(), "not as docs/schema/{}/{name}.json says:\n{}", version(), wrong.join("\n"));
}

/// Makes objects with named keys accept no other keys.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            object.values_mut().for_each(close);
            let is_composed = ["allOf", "anyOf", "oneOf", "$ref"].iter().any(|key| object.contains_key(*key));
            if is_object(object) && !object.contains_key("additionalProperties") {
                let key = if is_composed { "unevaluatedProperties" } else { "additionalProperties" };
                object.insert(key.into(), json!(false));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}

fn is_object(schema: &Map<String, Value>) -> bool {
    schema.get("type") == Some(&json!("object")) && schema.get("properties").is_some_and(Value::is_object)
}

/// The experiments that come with netcliff are valid by the schemas for editors.
#[test]
fn the_experiments_are_as_the_schemas_of_files_say() {
    let experiments = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let made = made();
    let mut seen = 0;
    for entry in std::fs::read_dir(experiments).expect("experiments") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|ending| ending != "toml") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a file");
        let table: Value = toml::from_str(&text).expect("TOML");
        let kind = table.get("kind").and_then(Value::as_str).unwrap_or("grid");
        let schema = &made[format!("experiment-{kind}").as_str()];
        let validator = jsonschema::validator_for(schema).expect("a schema");
        let wrong: Vec<String> =
            validator.iter_errors(&table).take(3).map(|error| format!("{}: {error}", error.instance_path())).collect();
        assert!(wrong.is_empty(), "{}: {}", path.display(), wrong.join("\n"));
        seen += 1;
    }
    assert!(seen > 5, "only {seen} experiments");
}

/// Commands with `--json`, as the help texts have them, from `command` on.
fn with_json(home: &Home, command: &[String], found: &mut Vec<String>) {
    let help = home.stdout([command, &["--help".to_owned()]].concat());
    let is_option = |line: &str| ["--json", "-J, --json"].iter().any(|option| line.trim_start().starts_with(option));
    if help.lines().any(is_option) {
        found.push(command.join(" "));
    }
    for name in commands_in(&help) {
        with_json(home, &[command, &[name]].concat(), found);
    }
}

#[test]
fn every_command_with_json_has_a_schema() {
    let mut found = Vec::new();
    with_json(&Home::new(), &[], &mut found);
    let mut listed: Vec<String> = PRINTED.iter().map(|(command, _)| (*command).to_owned()).collect();
    found.sort();
    listed.sort();
    assert_eq!(found, listed, "commands with --json; commands with a schema");

    let made = made();
    let without: Vec<_> =
        PRINTED.iter().flat_map(|(_, names)| *names).filter(|name| !made.contains_key(*name)).collect();
    assert!(without.is_empty(), "no such schema: {without:?}");
}
