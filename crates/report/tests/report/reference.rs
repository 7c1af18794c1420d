//! The reference of the book, read from the sources: keys of hosts and schemes, and the types of the JSON. The pages
//! under docs/reference include these snapshots, so that a key cannot change without them (`INSTA_UPDATE=always`
//! updates them).

use std::collections::BTreeSet;
use std::fmt::Write as _;

use netcliff_core::experiment::Key;
use netcliff_core::host::{Host, KEYS, MOST_DROP_COST, PRESETS, Preset};
use netcliff_core::scheme::Scheme;

use crate::sources::{Field, Item, items, project, read};

/// Source files of the types that commands print as JSON.
const JSON: &[(&str, &[&str])] = &[
    (
        "Records of `predict`, `simulate` and `run`",
        &["core/src/record.rs", "core/src/engine.rs", "core/src/outcome.rs", "core/src/queues/total.rs"],
    ),
    ("Details of a simulation", &["core/src/detail.rs"]),
    ("Findings of `find`", &["core/src/finding.rs", "core/src/finding"]),
    ("`predict --cliff`, `--sensitivities`", &["core/src/analysis.rs"]),
    ("`advise`", &["core/src/advice.rs"]),
    ("`limits`", &["core/src/roofline.rs"]),
    ("`inspect` and the fingerprint of a host", &["host/src/inventory", "host/src/nic", "host/src/inspect"]),
    ("`watch`", &["core/src/watch.rs"]),
    ("`drops`, and the ledger of a trial", &["core/src/drops.rs", "core/src/ledger.rs"]),
    ("`headroom`", &["core/src/headroom.rs"]),
    ("`learn`", &["core/src/learned.rs"]),
    ("`profile`", &["core/src/profile.rs"]),
    ("`tune`", &["core/src/tuning.rs", "host/src/tune", "care/src/tuning.rs"]),
    (
        "`rr`",
        &[
            "transfer/src/rr.rs",
            "transfer/src/rr",
            "transfer/src/exchange/report.rs",
            "transfer/src/exchange/settings.rs",
            "core/src/repeats.rs",
        ],
    ),
    ("`stream`", &["core/src/stream.rs", "core/src/stream", "core/src/cpus.rs"]),
    (
        "`run` of transfers and of forwarding",
        &["transfer/src/experiments/report.rs", "rfc2544/src/forwarding/report.rs"],
    ),
    (
        "`rfc2544`",
        &[
            "rfc2544/src/conduct",
            "rfc2544/src/conduct.rs",
            "rfc2544/src/cost.rs",
            "rfc2544/src/instruments.rs",
            "rfc2544/src/kernel",
            "rfc2544/src/kernel.rs",
            "rfc2544/src/procedures.rs",
            "rfc2544/src/report.rs",
            "mlrsearch/src",
            "rfc2544/src/settings",
            "rfc2544/src/settings.rs",
        ],
    ),
    ("`compare`", &["lab/src/compare.rs", "lab/src/compare"]),
    ("`results list`", &["lab/src/store.rs"]),
    ("`results trend`", &["lab/src/trend.rs"]),
];

/// Keys of schemes whose name differs from the name of the field that they set, even without its unit.
const OTHER_NAMES: &[(&str, &str)] = &[("absolute_timer", "usecs")];
/// Keys of the type Moderation, which is a part of the scheme napi.
const NIC_NAMES: &[(&str, &str)] = &[("absolute_timer", "rx_usecs"), ("frames", "rx_frames")];

#[test]
fn host_keys() {
    let host = read("core/src/host.rs").into_iter().find(|item| item.name == "Host").expect("the type of a host");
    let fields: Vec<&Field> = host.fields.iter().filter(|field| field.key != "name").collect();
    let documented: BTreeSet<&str> = fields.iter().map(|field| field.key.as_str()).collect();
    assert_eq!(documented, KEYS.iter().copied().collect(), "the keys of --set are the fields of Host");
    let mut page = "| key | meaning |\n| --- | --- |\n".to_owned();
    for field in fields {
        let _ = writeln!(page, "| `{}` | {} |", field.key, meaning(field));
    }
    let _ = writeln!(page, "\n| preset | what the document gives | what is assumed |\n| --- | --- | --- |");
    for name in PRESETS {
        let preset = Preset::named(name).expect("a preset");
        let _ = writeln!(page, "| `{name}` | {} | {} |", preset.source, preset.assumed.unwrap_or("nothing"));
    }
    insta::assert_snapshot!(page);
}

#[test]
fn scheme_keys() {
    let sources = read("core/src/scheme.rs");
    let item = |name: &str| sources.iter().find(|item| item.name == name).unwrap_or_else(|| panic!("{name}"));
    let mut page = String::new();
    for variant in &item("Scheme").fields {
        // A variant contains its fields, or has a separate type.
        let fields = if variant.fields.is_empty() && !variant.kind.is_empty() {
            &item(&variant.kind).fields
        } else {
            &variant.fields
        };
        let name = kebab(&variant.key);
        let _ = writeln!(page, "## {name}\n\n{}\n", cell(&variant.doc));
        let (nics, own): (Vec<&Field>, Vec<&Field>) = fields.iter().partition(|field| field.kind == "Moderation");
        // A quirk of an emulated NIC is no parameter.
        let written = item("Moderation").fields.iter().filter(|field| field.kind != "Quirk");
        let inside = nics.iter().flat_map(|_| written.clone()).map(|field| (scheme_key(field, NIC_NAMES), field));
        let keys: Vec<(String, &Field)> =
            own.into_iter().map(|field| (scheme_key(field, OTHER_NAMES), field)).chain(inside).collect();
        let named: BTreeSet<String> = keys.iter().map(|(key, _)| key.clone()).collect();
        assert_eq!(named, known_keys(&name), "the keys of the scheme {name} are its fields");
        if !keys.is_empty() {
            page += "| key | meaning |\n| --- | --- |\n";
            for (key, field) in keys {
                let _ = writeln!(page, "| `{key}` | {} |", meaning(field));
            }
            page += "\n";
        }
    }
    insta::assert_snapshot!(page);
}

/// Sections of experiment files: the heading, the file of the type, the type.
const EXPERIMENT: &[(&str, &str, &str)] = &[
    ("At the top, of points (`kind = \"grid\"`, the default)", "grid", "Grid"),
    ("`[host]`", "hosts", "HostSection"),
    ("`[traffic]`", "grid", "TrafficSection"),
    ("`[[device]]`, in place of `schemes` and `[host]`", "hosts", "DeviceSection"),
    ("`[figure]`", "figure", "FigureSection"),
    ("`[[mark]]`", "mark", "MarkSection"),
    ("At the top, of transfers (`kind = \"transfer\"`)", "transfers", "Transfers"),
    ("`[figure]` of transfers", "transfers", "TransferFigure"),
    ("At the top, of forwarding (`kind = \"forwarding\"`)", "forwarding", "Forwarding"),
    ("`[[set-up]]` of forwarding", "forwarding", "SetUp"),
    ("At the top, of bounds (`kind = \"roofline\"`)", "roofline", "Roofline"),
    ("At the top, of the loss-free receive rate (`kind = \"mlfrr\"`)", "mlfrr", "Mlfrr"),
    ("`[traffic]` of the loss-free receive rate", "mlfrr", "FluidTraffic"),
    ("`[polling]` of the loss-free receive rate", "mlfrr", "PollingSection"),
];

/// The keys of experiment files are the fields of the types that read them.
#[test]
fn experiment_keys() {
    let mut page = String::new();
    for (heading, file, name) in EXPERIMENT {
        let sources = read(&format!("core/src/experiment/{file}.rs"));
        let item = sources.into_iter().find(|item| item.name == *name).unwrap_or_else(|| panic!("{name}"));
        assert!(!item.fields.is_empty(), "{name} has no keys");
        let _ = writeln!(page, "## {heading}\n\n| key | value | meaning |\n| --- | --- | --- |");
        for field in item.fields {
            let kind = cell(&json_type(&field.kind));
            let key = field.key.trim_start_matches("pub(super) ");
            let _ = writeln!(page, "| `{key}` | {kind} | {} |", cell(&field.doc));
        }
        page += "\n";
    }
    page += &transfer_settings();
    insta::assert_snapshot!(page);
}

/// The values of `[fixed]` and `[vary]` of transfers: the meaning from the type's comments, the form from the program's
/// error message.
fn transfer_settings() -> String {
    let sources = read("core/src/experiment/transfers/setting.rs");
    let item = sources.into_iter().find(|item| item.name == "Key").expect("Key");
    let mut rows = "## `[fixed]` and `[vary]` of transfers\n\n`[fixed]` takes one value a key, `[vary]` a list of them; `block` takes ranges, too: the \
                    powers of two of `\"1B..1MiB\"`.\n\n| key | value | meaning |\n| --- | --- | --- |\n"
        .to_owned();
    for key in Key::ALL {
        let variant = format!("{key:?}");
        let variant = variant.split('(').next().unwrap_or_default();
        let field = item.fields.iter().find(|field| field.key.split('(').next() == Some(variant));
        let meaning = &field.unwrap_or_else(|| panic!("{variant} has no comment")).doc;
        let said = key.parse("?").err().map(|error| error.to_string());
        let form = said
            .as_ref()
            .and_then(|said| said.split_once("expected "))
            .map_or("a name that `stream` takes", |(_, form)| form);
        let _ = writeln!(rows, "| `{key}` | {} | {} |", cell(form), cell(meaning));
    }
    rows
}

/// The keys that the program itself names when it is given one that it does not know.
fn known_keys(scheme: &str) -> BTreeSet<String> {
    let said = format!("{scheme}:no-such-key=1").parse::<Scheme>().expect_err("an unknown key").to_string();
    let (_, keys) = said.split_once("the keys here are: ").unwrap_or_else(|| panic!("{said}"));
    keys.split(", ").filter(|key| *key != "none").map(str::to_owned).collect()
}

fn scheme_key(field: &Field, other_names: &[(&str, &str)]) -> String {
    let name = field.key.trim_end_matches("_s").trim_end_matches("_pps");
    other_names.iter().find(|(own, _)| *own == name).map_or(name, |(_, key)| key).to_owned()
}

#[test]
fn json_types() {
    let mut page = String::new();
    for (heading, places) in JSON {
        let found: Vec<Item> = places
            .iter()
            .flat_map(|place| read(place))
            .filter(|item| item.serialized && json_type(&item.name) != "text")
            .collect();
        assert!(!found.is_empty(), "{heading}: {places:?} hold no type that is printed");
        let _ = writeln!(page, "## {heading}\n");
        for item in found {
            let _ = writeln!(page, "### {}\n\n{}\n", item.name, cell(&item.doc));
            if item.is_enum {
                let values = item
                    .fields
                    .iter()
                    .map(|field| format!("- `{}`: {}", item.value_name(&field.key), cell(&field.doc)));
                let _ = writeln!(page, "One of\n\n{}\n", values.collect::<Vec<_>>().join("\n"));
            } else if !item.fields.is_empty() {
                page += "| key | type | meaning |\n| --- | --- | --- |\n";
                for field in &item.fields {
                    let kind = cell(&json_type(&field.kind));
                    let _ = writeln!(page, "| `{}` | {kind} | {} |", field.key, cell(&field.doc));
                }
                page += "\n";
            }
        }
    }
    insta::assert_snapshot!(page);
}

/// The JSON type of a Rust type.
fn json_type(kind: &str) -> String {
    let inside = |prefix: &str| kind.strip_prefix(prefix).and_then(|rest| rest.strip_suffix('>'));
    if let Some(inner) = inside("Option<") {
        return format!("{}, optional", json_type(inner));
    }
    if let Some(inner) = inside("Box<") {
        return json_type(inner);
    }
    if let Some(inner) = inside("Vec<").or_else(|| inside("BTreeSet<")) {
        return format!("list of {}", json_type(inner));
    }
    if let Some((_, value)) = inside("BTreeMap<").and_then(|inner| inner.split_once(", ")) {
        return format!("object of {}", json_type(value));
    }
    match kind {
        "f64" | "f32" => "number".to_owned(),
        "bool" => "true or false".to_owned(),
        "String" | "&'static str" | "PathBuf" | "Note" | "StreamWarning" | "MissingFigure" | "FigurePath" | "Lack"
        | "PartLimit" | "CliffSource" => "text".to_owned(),
        _ if kind.trim_start_matches(['u', 'i']).parse::<u32>().is_ok() || kind == "usize" || kind == "isize" => {
            "whole number".to_owned()
        }
        _ => format!("`{}`", kind.rsplit("::").next().unwrap_or(kind)),
    }
}

/// Text for a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;").replace("None", "absent")
}

/// The meaning of a key, with names of the source replaced by their values.
fn meaning(field: &Field) -> String {
    let names = [
        ("`MOST_DROP_COST`", MOST_DROP_COST.to_string()),
        ("`Host::SENDER_QUEUE`", Host::SENDER_QUEUE.to_string()),
        ("`Host::TRANSMIT_RING`", Host::TRANSMIT_RING.to_string()),
        ("`Scheme::DisableEnable`", "`disable-enable`".to_owned()),
        ("`up_pps`", "`up`".to_owned()),
    ];
    let text = names.iter().fold(field.doc.clone(), |text, (name, meaning)| text.replace(name, meaning));
    cell(&text.replace("None:", "not set:"))
}

/// A name in the form of schemes: `Napi2007` becomes `napi-2007`.
fn kebab(name: &str) -> String {
    let mut text = String::new();
    let mut last = ' ';
    for letter in name.chars() {
        let begins = letter.is_uppercase() || (letter.is_ascii_digit() && !last.is_ascii_digit());
        if begins && !text.is_empty() {
            text.push('-');
        }
        text.extend(letter.to_lowercase());
        last = letter;
    }
    text
}

#[test]
fn every_command_is_in_the_book() {
    let page = std::fs::read_to_string(project().join("docs/reference/commands.md")).expect("the page of the commands");
    assert!(
        page.contains("/crates/cli/tests/cli/snapshots/cli__surface__help.snap:5:}}"),
        "docs/reference/commands.md lacks the help"
    );
    let help = project().join("crates/cli/tests/cli/snapshots/cli__surface__help.snap");
    let sections = std::fs::read_to_string(help).expect("the snapshot").matches("\n## netcliff").count();
    assert!(sections > 20, "only {sections} commands");
}

#[test]
fn the_parser_reads_docs_names_and_types() {
    let found = items(
        "/// One.\n#[derive(Debug, Serialize)]\n#[serde(rename_all = \"kebab-case\")]\npub struct One {\n    /// First\n    /// line, see [`Two`].\n    \
         #[serde(rename = \"a\", skip_serializing_if = \"Option::is_none\")]\n    pub a_s: Option<f64>,\n    #[serde(skip)]\n    pub hidden: u8,\n}\n",
    );
    let one = &found[0];
    assert_eq!((one.name.as_str(), one.doc.as_str(), one.serialized, one.fields.len()), ("One", "One.", true, 1));
    assert_eq!((one.fields[0].key.as_str(), one.fields[0].doc.as_str()), ("a", "First line, see `Two`."));
    assert_eq!(json_type(&one.fields[0].kind), "number, optional");
    assert_eq!(json_type("Vec<(String, u64)>"), "list of `(String, u64)`");
    assert_eq!(kebab("Napi2007"), "napi-2007");
}
