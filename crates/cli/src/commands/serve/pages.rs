//! The page's files, and the content of the store as JSON and as the pages of `results show --html` and `compare
//! --html`.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use netcliff_core::Figure;
use netcliff_core::inspection::Objective;
use netcliff_lab::compare::{Measured, Source, compare as compared};
use netcliff_lab::costs;
use netcliff_lab::store::{RunSummary, Store};
use netcliff_lab::stored::Stored;
use netcliff_report::html;
use serde::{Deserialize, Serialize};

use super::work::Weight;
use super::{Served, live};
use crate::commands::results::show;
use crate::commands::tune;

const INDEX: &str = include_str!("../../../../../web/dist/index.html");
const SCRIPT: &str = include_str!("../../../../../web/dist/app.js");
const STYLE: &str = include_str!("../../../../../web/dist/app.css");
const ENGINE: &str = include_str!("../../../../../web/dist/wasm.js");

/// Pages of the report bring their own policy for scripts and styles.
const REPORT_POLICY: &str = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

fn file(kind: &'static str, text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

/// Answers with the file index.html.
pub async fn index() -> Response {
    file("text/html; charset=utf-8", INDEX)
}

/// Answers with the file app.js.
pub async fn script() -> Response {
    file("text/javascript; charset=utf-8", SCRIPT)
}

/// Answers with the file app.css.
pub async fn style() -> Response {
    file("text/css; charset=utf-8", STYLE)
}

/// Answers with the file wasm.js.
pub async fn engine() -> Response {
    file("text/javascript; charset=utf-8", ENGINE)
}

/// Status and message of a request that is refused.
struct Refusal(StatusCode, String);

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.0, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], self.1 + "\n").into_response()
    }
}

fn broken(error: impl ToString) -> Refusal {
    Refusal(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
}

/// Makes an answer from the store.
async fn read(
    served: Arc<Served>,
    weight: Weight,
    answer: impl FnOnce(&Store) -> Result<Response, Refusal> + Send + 'static,
) -> Response {
    let theirs = Arc::clone(&served);
    let work = move || {
        if !theirs.store.exists() {
            return Err(Refusal(StatusCode::NOT_FOUND, format!("there is no store at {} yet", theirs.store.display())));
        }
        let store = Store::open_to_read(&theirs.store).map_err(broken)?;
        answer(&store)
    };
    served.work.answer(weight, move || work().into_response()).await
}

/// A run in the list of the page.
#[derive(Serialize)]
struct Run {
    id: i64,
    kind: String,
    name: Option<String>,
    state: String,
    started_unix_s: f64,
    command: String,
    host: String,
    /// Whether the run is of this machine. `None` if it is not a `find`.
    here: Option<bool>,
    cliff_pps: Option<Figure>,
}

/// Largest number of runs in the list. Older runs can be found on the command line.
const MOST_RUNS: usize = 500;

/// The runs, newest first.
pub async fn runs(State(served): State<Arc<Served>>) -> Response {
    if !served.store.exists() {
        return json("[]".to_owned());
    }
    read(served, Weight::Light, |store| {
        let cpu = costs::this_cpu();
        let row = |run: RunSummary| {
            let finding = (run.kind == "find").then(|| store.finding(run.id).ok().flatten()).flatten();
            let here = finding.as_ref().map(|finding| costs::is_of(finding, &cpu));
            let host = finding.as_ref().map_or_else(String::new, |finding| finding.host.cpu.clone());
            let cliff_pps = finding.and_then(|finding| finding.cliff_pps.wire);
            let RunSummary { id, kind, name, state, started_unix_s, command, .. } = run;
            Run { id, kind, name, state, started_unix_s, command, host, here, cliff_pps }
        };
        let rows: Vec<Run> = store.runs().map_err(broken)?.into_iter().take(MOST_RUNS).map(row).collect();
        Ok(json(serde_json::to_string(&rows).map_err(broken)?))
    })
    .await
}

/// The run on which the page opens.
#[derive(Serialize)]
struct Opening {
    /// Number of the run. `None` if no run of the store has costs.
    run: Option<i64>,
    /// Name of the run's CPUs.
    host: String,
    /// Whether the run is of this machine.
    here: bool,
    cliff_pps: Option<Figure>,
    /// Why the page opens on this run and not on the newest, or why no run can be opened.
    why: Option<String>,
}

/// The run that the page opens on: this host's calibration, as `headroom` chooses it.
pub async fn opening(State(served): State<Arc<Served>>) -> Response {
    let theirs = Arc::clone(&served);
    let work = move || {
        let opening = match costs::opening(&theirs.store) {
            Ok((found, here)) => {
                let host = found.finding.host.cpu;
                Opening { run: found.run, host, here, cliff_pps: found.cliff_pps, why: found.why }
            }
            Err(why) => Opening { run: None, host: costs::this_cpu(), here: true, cliff_pps: None, why: Some(why) },
        };
        serde_json::to_string(&opening).map(json).map_err(broken)
    };
    served.work.answer(Weight::Light, move || work().into_response()).await
}

fn json(text: String) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

/// The parts of a path by name: the token, if there is one, and the run.
type Parts = BTreeMap<String, String>;

fn number(path: &Parts) -> Result<i64, Refusal> {
    let said = path.get("id").map_or("", String::as_str);
    let wrong = || Refusal(StatusCode::BAD_REQUEST, "expected the number of a run, such as 3".to_owned());
    said.parse().map_err(|_| wrong())
}

fn picked(store: &Store, id: i64) -> Result<(RunSummary, Stored), Refusal> {
    let missing = || Refusal(StatusCode::NOT_FOUND, format!("there is no run {id}; `netcliff results list` has them"));
    let run = store.run(id).map_err(broken)?.ok_or_else(missing)?;
    let stored = Stored::of_run(store, &run).map_err(|error| Refusal(StatusCode::NOT_FOUND, error.to_string()))?;
    Ok((run, stored))
}

/// The result of a run, as `results show --json` prints it.
pub async fn result(State(served): State<Arc<Served>>, Path(path): Path<Parts>) -> Response {
    read(served, Weight::Heavy, move |store| Ok(json(picked(store, number(&path)?)?.1.json().map_err(broken)?))).await
}

/// Query of a tuning plan: its objective.
#[derive(Deserialize)]
pub struct Wished {
    objective: Objective,
}

/// The proposals of `tune plan` for this host; nothing is set. Refused during a measurement, because the plan queries
/// each interface.
pub async fn plan(State(served): State<Arc<Served>>, Query(wished): Query<Wished>) -> Response {
    let theirs = Arc::clone(&served);
    let work = move || {
        if let Some(why) = live::measuring(&theirs) {
            return Err(Refusal(StatusCode::CONFLICT, why));
        }
        let sheet = tune::sheet(wished.objective, theirs.store.clone()).map_err(broken)?;
        Ok(json(serde_json::to_string(&sheet).map_err(broken)?))
    };
    served.work.answer(Weight::Light, move || work().into_response()).await
}

/// Answers with a page of the report, which has its own policy for scripts and styles.
fn report(page: String) -> Response {
    let headers: [(HeaderName, &str); 2] =
        [(header::CONTENT_TYPE, "text/html; charset=utf-8"), (header::CONTENT_SECURITY_POLICY, REPORT_POLICY)];
    (headers, page).into_response()
}

/// The page of a run.
pub async fn run(State(served): State<Arc<Served>>, Path(path): Path<Parts>) -> Response {
    read(served, Weight::Heavy, move |store| {
        let id = number(&path)?;
        let (run, stored) = picked(store, id)?;
        // In the page, "Open these costs in the explorer" opens this run in this explorer, including its measured points.
        let here = format!("../?run={id}#");
        Ok(report(show::page(&run, &stored).replace(&format!("{}#", html::EXPLORER), &here)))
    })
    .await
}

/// Query of a comparison: the numbers of two runs.
#[derive(Deserialize)]
pub struct Pair {
    a: i64,
    b: i64,
}

/// The page of a comparison.
pub async fn compare(State(served): State<Arc<Served>>, Query(pair): Query<Pair>) -> Response {
    read(served, Weight::Heavy, move |store| {
        let refused = |error: &dyn std::fmt::Display| Refusal(StatusCode::UNPROCESSABLE_ENTITY, error.to_string());
        let read = |id| Measured::of_store(store, &Source::Run(id)).map_err(|error| refused(&error));
        let found = compared(&read(pair.a)?, &read(pair.b)?, None).map_err(|error| refused(&error))?;
        Ok(report(html::compare(&found)))
    })
    .await
}
