//! JSON Schemas of what commands print and of the files they read: made from the types, kept in docs/schema, held against every output
//! that a test looks at ([`check`], called by [`crate::common::Home`]).
//!
//! `INSTA_UPDATE=always cargo test -p netcliff --test cli schema` makes the files anew; without it a stale one fails.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use netcliff_core::experiment::{Forwarding, Grid, Mlfrr, Roofline as RooflineFile, Transfers};
use netcliff_core::{Advice, Analysis, Detail, Difference, Finding, Host, Point, Provenance, Record, Roofline};
use netcliff_core::{headroom::Headroom, stream::StreamReport, watch::Moment};
use netcliff_host::inspect::{Inspection, scheme::PortScheme};
use netcliff_lab::compare::Comparison;
use netcliff_lab::forwarding::ForwardingReport;
use netcliff_lab::rfc2544::report::Rfc2544Report;
use netcliff_lab::rr::RrRecord;
use netcliff_lab::store::RunSummary;
use netcliff_lab::transfers::TransferReport;
use netcliff_lab::trend::Trend;
use schemars::generate::SchemaSettings;
use schemars::JsonSchema;
use serde_json::{Map, Value, json};

/// Where the schemas of this minor version are published. Those of earlier ones stay, since files name them.
const ADDRESS: &str = "https://example.org/netcliff/schema";

/// `v0.1`.
fn version() -> String {
    let version = env!("CARGO_PKG_VERSION");
    let minor: Vec<&str> = version.split('.').take(2).collect();
    format!("v{}", minor.join("."))
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema").join(version())
}

/// What is printed and read: a type's schema with a title, and the definitions that it refers to, no others.
#[derive(Default)]
struct Made {
    files: BTreeMap<&'static str, Value>,
}

impl Made {
    fn add(&mut self, name: &'static str, title: &str, schema: schemars::Schema) {
        let mut schema = serde_json::to_value(schema).expect("a schema is JSON");
        let object = schema.as_object_mut().expect("a schema of an object");
        object.insert("$id".into(), json!(format!("{ADDRESS}/{}/{name}.json", version())));
        object.insert("title".into(), json!(title));
        self.files.insert(name, schema);
    }

    fn printed<T: JsonSchema>(&mut self, name: &'static str, title: &str) {
        let settings = SchemaSettings::draft2020_12().for_serialize();
        let schema = settings.into_generator().into_root_schema_for::<T>();
        self.add(name, title, schema);
    }

    fn file<T: JsonSchema>(&mut self, name: &'static str, title: &str) {
        let settings = SchemaSettings::draft2020_12().for_deserialize();
        let schema = settings.into_generator().into_root_schema_for::<T>();
        self.add(name, title, schema);
    }
}

/// What the commands add around a type, or print in place of one: as they print it.
#[derive(serde::Serialize, JsonSchema)]
struct RecordPlus {
    #[serde(flatten)]
    record: Record,
    /// Of `predict --cliff` and `--sensitivities`.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    analysis: Option<Analysis>,
    /// Of `simulate --distributions`, `--series` and `--histogram`.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<Detail>,
}

#[derive(serde::Serialize, JsonSchema)]
struct Against {
    first: Point,
    second: Point,
    differences: Vec<Difference>,
    provenance: Provenance,
}

#[derive(serde::Serialize, JsonSchema)]
struct Inspected {
    #[serde(flatten)]
    inspection: Inspection,
    schemes: Vec<PortScheme>,
    remarks: Vec<netcliff_core::inspection::Remark>,
}

#[derive(serde::Serialize, JsonSchema)]
struct Watched {
    /// Seconds since the epoch (UTC).
    unix_s: f64,
    /// In words.
    bottleneck: String,
    #[serde(flatten)]
    moment: Moment,
}

fn made() -> BTreeMap<&'static str, Value> {
    let mut made = Made::default();
    made.printed::<RecordPlus>("record", "netcliff predict, simulate, run --json: a record");
    made.printed::<Against>("against", "netcliff simulate --against --json");
    made.printed::<Finding>("find", "netcliff find --json");
    made.printed::<Advice>("advise", "netcliff advise --json: a load a line");
    made.printed::<Roofline>("limits", "netcliff limits --json");
    made.printed::<Inspected>("inspect", "netcliff inspect --json");
    made.printed::<Watched>("watch", "netcliff watch --json: a moment a line");
    made.printed::<Headroom>("headroom", "netcliff headroom --json");
    made.printed::<RrRecord>("rr", "netcliff rr --json: a configuration a line");
    made.printed::<StreamReport>("stream", "netcliff stream --json");
    made.printed::<TransferReport>("transfer", "netcliff run --json of an experiment of transfers");
    made.printed::<ForwardingReport>("forwarding", "netcliff run --json of an experiment of forwarding");
    made.printed::<Rfc2544Report>("rfc2544", "netcliff rfc2544 --json");
    made.printed::<Comparison>("compare", "netcliff compare --json");
    made.printed::<Trend>("trend", "netcliff results trend --json");
    made.printed::<RunSummary>("results", "netcliff results list --json: a run a line");
    made.file::<Host>("host", "A host file of netcliff (TOML)");
    made.file::<Grid>("experiment-grid", "An experiment file of netcliff (TOML): points asked of engines");
    made.file::<Mlfrr>("experiment-mlfrr", "An experiment file of netcliff (TOML), kind mlfrr");
    made.file::<RooflineFile>("experiment-roofline", "An experiment file of netcliff (TOML), kind roofline");
    made.file::<Transfers>("experiment-transfer", "An experiment file of netcliff (TOML), kind transfer");
    made.file::<Forwarding>("experiment-forwarding", "An experiment file of netcliff (TOML), kind forwarding");
    made.files
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

/// The schema of what a command line prints, by its words and by what was printed; None: there is none.
fn name_of(args: &[String], object: &Value) -> Option<&'static str> {
    let has = |word: &str| args.iter().any(|arg| arg == word);
    // A line of `--live` or of an interval is no result.
    if object.get("interval").is_some() || object.get("live").is_some() {
        return None;
    }
    let of_kind = || match object.get("kind").and_then(Value::as_str) {
        Some("rfc2544") => Some("rfc2544"),
        Some("forwarding") => Some("forwarding"),
        Some("transfer") => Some("transfer"),
        _ => object.get("engine").is_some().then_some("record"),
    };
    match args.first()?.as_str() {
        "predict" => Some("record"),
        "simulate" if has("--against") => Some("against"),
        "simulate" => Some("record"),
        "run" => of_kind(),
        "find" => Some("find"),
        "advise" => Some("advise"),
        "limits" => Some("limits"),
        "inspect" => Some("inspect"),
        "watch" => Some("watch"),
        "headroom" => Some("headroom"),
        "rr" => Some("rr"),
        "stream" => Some("stream"),
        "rfc2544" => Some("rfc2544"),
        "compare" => Some("compare"),
        "results" if has("list") => Some("results"),
        "results" if has("trend") => Some("trend"),
        _ => None,
    }
}

/// Holds what was printed against its schema. Keys that the schema does not name are errors, too: each is documented.
pub fn check(args: &[String], object: &Value) {
    let Some(name) = name_of(args, object) else { return };
    let text = std::fs::read_to_string(directory().join(format!("{name}.json"))).expect("a published schema");
    let mut schema: Value = serde_json::from_str(&text).expect("JSON");
    close(&mut schema);
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let wrong: Vec<String> =
        validator.iter_errors(object).take(5).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(
        wrong.is_empty(),
        "netcliff {}: not as docs/schema/{}/{name}.json says:\n{}",
        args.join(" "),
        version(),
        wrong.join("\n")
    );
}

/// Has objects with named keys accept no others.
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

/// The files that come with netcliff are as the schemas for editors say.
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
