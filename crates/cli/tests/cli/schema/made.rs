//! Generates the schemas from the types. If a command adds keys to a type, or prints another form, a type here
//! describes that. The outputs of the tests are checked against it.

use std::collections::BTreeMap;

use netcliff_care::tuning::{Trial, Verdict};
use netcliff_core::drops::{Drops, Path};
use netcliff_core::experiment::{Forwarding, Grid, Mlfrr, Roofline as RooflineFile, Transfers};
use netcliff_core::{Advice, Analysis, Detail, Difference, Finding, Host, Point, Provenance, Record, Roofline};
use netcliff_core::{ServiceFinding, headroom::Headroom, stream::StreamReport, watch::Moment};
use netcliff_host::inspect::{Inspection, scheme::PortScheme};
use netcliff_host::journal::UndoOutcome;
use netcliff_host::tune::{Plan, apply::Applied};
use netcliff_lab::compare::Comparison;
use netcliff_lab::store::RunSummary;
use netcliff_lab::trend::Trend;
use netcliff_rfc2544::forwarding::ForwardingReport;
use netcliff_rfc2544::report::Rfc2544Report;
use netcliff_transfer::experiments::TransferReport;
use netcliff_transfer::rr::RrRecord;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use super::{ADDRESS, version};

/// The schemas made so far, by name. Each is the schema of a type, with a title and only the definitions that it refers
/// to.
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

/// A record, with the keys that commands add to it.
#[derive(serde::Serialize, JsonSchema)]
struct RecordPlus {
    #[serde(flatten)]
    record: Record,
    /// Result of `predict --cliff` and `--sensitivities`.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    analysis: Option<Analysis>,
    /// Details of `simulate --distributions`, `--series` and `--histogram`.
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
    /// The bottleneck, as a sentence.
    bottleneck: String,
    #[serde(flatten)]
    moment: Moment,
}

#[derive(serde::Serialize, JsonSchema)]
struct Dropped {
    /// Seconds since the epoch (UTC).
    unix_s: f64,
    #[serde(flatten)]
    drops: Drops,
}

#[derive(serde::Serialize, JsonSchema)]
struct Tried {
    plan: Plan,
    /// Trial of the first figure. Null: no round was completed.
    trial: Option<Trial>,
    /// Trial of each figure, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    trials: Option<Vec<Trial>>,
    /// Verdict on all figures together.
    verdict: Verdict,
    /// True if the settings stay applied.
    kept: bool,
}

/// A point of an experiment that only evaluates formulas: `offered_pps` and `delivered_pps` for kind mlfrr, the other
/// two for kind roofline.
#[derive(serde::Serialize, JsonSchema)]
struct CurvePoint {
    kind: String,
    curve: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    offered_pps: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delivered_pps: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    frame_bytes: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit_bps: Option<f64>,
}

/// All schemas by name. The name is that of the file and that in [`super::PRINTED`].
pub fn made() -> BTreeMap<&'static str, Value> {
    let mut made = Made::default();
    made.printed::<RecordPlus>("record", "netcliff predict, simulate, run --json: a record");
    made.printed::<Against>("against", "netcliff simulate --against --json");
    made.printed::<Finding>("find", "netcliff find --json");
    made.printed::<ServiceFinding>("service", "netcliff find --service --json");
    made.printed::<Advice>("advise", "netcliff advise --json: a load a line");
    made.printed::<Roofline>("limits", "netcliff limits --json");
    made.printed::<Inspected>("inspect", "netcliff inspect --json");
    made.printed::<Watched>("watch", "netcliff watch --json: a moment a line");
    made.printed::<Dropped>("drops", "netcliff drops --json: an interval a line");
    made.printed::<Path>("drops-trace", "netcliff drops --trace --json: a packet a line");
    made.printed::<Headroom>("headroom", "netcliff headroom --json");
    made.printed::<netcliff_core::Learned>("learn", "netcliff learn --json");
    made.printed::<netcliff_core::Profile>("profile", "netcliff profile --json");
    made.printed::<RrRecord>("rr", "netcliff rr --json: a configuration a line");
    made.printed::<StreamReport>("stream", "netcliff stream --json");
    made.printed::<TransferReport>("transfer", "netcliff run --json of an experiment of transfers");
    made.printed::<ForwardingReport>("forwarding", "netcliff run --json of an experiment of forwarding");
    made.printed::<Rfc2544Report>("rfc2544", "netcliff rfc2544 --json");
    made.printed::<CurvePoint>("curve", "netcliff run --json of an experiment of formulas: a point of a curve a line");
    made.printed::<Plan>("plan", "netcliff tune plan --json");
    made.printed::<Applied>("applied", "netcliff tune apply --json: a setting a line");
    made.printed::<UndoOutcome>("undone", "netcliff tune undo --json: a change a line");
    made.printed::<netcliff_care::adapt::Event>("adapt", "netcliff tune adapt --json: an event a line");
    made.printed::<Tried>("tried", "netcliff tune try --json");
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
