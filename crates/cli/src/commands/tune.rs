//! `netcliff tune`.

mod adapt;
mod measured;
mod trial;

use std::io::{BufRead, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use netcliff_care::tuning;
use netcliff_core::inspection::Objective;
use netcliff_core::quote::{is_unseen, shell_words};
use netcliff_core::tuning::{PlanSheet, Proposal, in_short};
use netcliff_host::files;
use netcliff_host::inspect::Inspection;
use netcliff_host::journal::{HostLock, ReplayReport, StateDir, UndoOutcome};
use netcliff_host::nic;
use netcliff_host::setting::Setting;
use netcliff_host::tune::apply::{self, Applied, Session};
use netcliff_host::tune::{Plan, PlanError, Step, Wish, named, permanent, plan};
use netcliff_lab::costs;
use netcliff_report as report;

use super::store_path;
use crate::args::tune::{ApplyArgs, SetArgs, WishArgs};
use crate::args::{PlanArgs, StoreArgs, TuneAction, TuneArgs};
use crate::output;

/// Runs the action of `netcliff tune`: plans, applies, undoes or tries settings.
pub fn run(args: &TuneArgs, store: &StoreArgs) -> anyhow::Result<ExitCode> {
    match &args.action {
        TuneAction::Plan(args) => show(args, store),
        TuneAction::Apply(args) => apply(args),
        TuneAction::Set(args) => set(args),
        TuneAction::Undo { json, wait } => {
            wait.begin();
            undo(*json)
        }
        TuneAction::Adapt(args) => adapt::run(args, store),
        TuneAction::Try(args) => trial::run(args, store),
    }
}

/// A setting's value for a line of text, with its unit.
fn with_unit(setting: &Setting, value: &str) -> String {
    let text = in_short(value);
    let name = match setting {
        Setting::Interrupt { .. } => return format!("CPU {text}"),
        Setting::File { path } => path.file_name().unwrap_or_default().to_string_lossy().replace('-', "_"),
        Setting::Ethtool { key, .. } | Setting::QueueCoalesce { key, .. } => key.replace('-', "_"),
        Setting::Napi { key, .. } => key.name().replace('-', "_"),
        _ => String::new(),
    };
    let unit = match name.as_str() {
        "gro_flush_timeout" | "irq_suspend_timeout" => " ns",
        "busy_read" | "busy_poll" | "netdev_budget_usecs" | "rx_usecs" | "tx_usecs" => " us",
        _ => "",
    };
    if text.parse::<u64>().is_ok() { text + unit } else { text }
}

fn look() -> anyhow::Result<Inspection> {
    Inspection::of_this_host(Duration::ZERO).context("cannot ask the kernel for its interfaces")
}

/// The plan for a host that the options ask for.
fn planned(args: &WishArgs, host: &Inspection) -> anyhow::Result<Plan> {
    if args.rtt <= 0.0 || args.rtt > 100.0 {
        return Err(output::usage(format!("--rtt {}s: must be above 0 and at most 100s", args.rtt)));
    }
    if let Some(wish) = args.wish() {
        return plan(host, &wish).map_err(|error| {
            output::usage(match &error {
                PlanError::NoInterface(_) => format!("--if: {error}; `ip link` lists them"),
                PlanError::NoCpu { .. } => format!("--spare: {error}"),
                PlanError::TakesAddresses { .. } => format!("--mtu: {error}"),
            })
        });
    }
    let path = args.plan.as_ref().ok_or_else(|| output::usage("name an --objective or a --plan"))?;
    let wrong = |error: String| output::usage(format!("{}: {error}", path.display()));
    let text = files::text(path, files::MOST_BYTES).map_err(|error| wrong(error.to_string()))?;
    let plan = Plan::from_json(&text).map_err(wrong)?;
    match plan.machine.differs(host) {
        Some(how) => Err(output::usage(format!("{}: {how}; make a new plan on this host", path.display()))),
        None => Ok(plan),
    }
}

fn show(args: &PlanArgs, store: &StoreArgs) -> anyhow::Result<ExitCode> {
    let host = match &args.from {
        Some(dir) => Inspection::of_capture(dir).map_err(output::usage)?,
        None => look()?,
    };
    let mut plan = planned(&args.wish, &host)?;
    // The costs in the store are this host's.
    if args.from.is_none() || args.host.is_some() {
        let path = store_path(store).map_err(|error| error.to_string());
        expect(&mut plan, &host, args.host.as_deref(), path).map_err(output::usage)?;
    }
    match form(args, &plan, &host)? {
        Some(text) => output::page(&text)?,
        None => {
            let options = shell_words(args.wish.words().iter().map(String::as_str));
            output::page(&report::terminal::plan(&plan.sheet(), Some(&options), output::style()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The plan in the requested format. `None` for the page.
fn form(args: &PlanArgs, plan: &Plan, host: &Inspection) -> anyhow::Result<Option<String>> {
    let text_of = |file: permanent::File| {
        if !file.left_out.is_empty() {
            output::say(format!("netcliff: not in such a file: {}; --script holds all", file.left_out.join(", ")));
        }
        file.text
    };
    if let Some(dir) = &args.tuned {
        refuse_unseen(plan)?;
        return Ok(Some(write_profile(dir, &permanent::tuned(plan, host))?));
    }
    Ok(match (args.json, args.script, args.sysctl_d, args.udev) {
        (true, ..) => Some(report::format::json(&(serde_json::to_string(plan)? + "\n"))),
        (_, true, ..) => {
            refuse_unseen(plan)?;
            Some(permanent::script(plan, host))
        }
        (.., true, _) => Some(text_of(permanent::sysctl_d(plan))),
        (.., true) => Some(text_of(permanent::udev(plan, host))),
        _ => None,
    })
}

/// Refuses a script for an interface that it could not name: it would set another one, or none.
fn refuse_unseen(plan: &Plan) -> anyhow::Result<()> {
    let unseen = |name: &&str| name.contains(|c| is_unseen(c) || c == '\u{fffd}');
    match plan.steps.iter().filter_map(|step| step.setting.interface()).find(unseen) {
        None => Ok(()),
        Some(name) => Err(output::usage(format!(
            "the name of interface {name:?} has a character that a script cannot hold; expected one that can be typed: rename it \
             (ip link set dev ... name ...), or plan for others with --if"
        ))),
    }
}

/// Writes a profile, and prints the names of its files.
fn write_profile(dir: &Path, profile: &permanent::Profile) -> anyhow::Result<String> {
    std::fs::create_dir_all(dir).map_err(|error| output::usage(format!("--tuned {}: {error}", dir.display())))?;
    let conf = dir.join("tuned.conf");
    // Our own profile is replaced, any other is refused.
    if files::text(&conf, files::MOST_BYTES).is_ok_and(|text| !text.contains("netcliff")) {
        let reason = "there is a profile that netcliff did not write; name another directory";
        return Err(output::usage(format!("--tuned {}: {reason}", dir.display())));
    }
    super::write_in(dir, "tuned.conf", &profile.conf, 0o644)?;
    let mut written = format!("{}\n", conf.display());
    if let Some(script) = &profile.script {
        let path = super::write_in(dir, permanent::TUNED_SCRIPT, script, 0o755)?;
        written.push_str(&format!("{}\n", path.display()));
    }
    Ok(written)
}

/// Adds expected effects to the plan, by the costs that `--host` names, otherwise by this host's calibration in the
/// store.
///
/// # Errors
/// There are no such costs.
fn expect(
    plan: &mut Plan,
    host: &Inspection,
    named: Option<&str>,
    store: Result<PathBuf, String>,
) -> Result<(), String> {
    match costs::cliff_of(named, || store) {
        Ok(found) => {
            tuning::effects(plan, host, &found);
            let why = found.why.as_ref().map(|why| format!("effects are by {}: {why}", found.name));
            plan.notes.splice(0..0, super::caution(&found, false).into_iter().chain(why));
        }
        Err(error) if named.is_some() => return Err(error),
        Err(error) => {
            plan.notes.push(format!("effects are not predicted: not calibrated ({error}); `netcliff find` calibrates"))
        }
    }
    Ok(())
}

/// The plan of `tune plan --objective` for this host, as data for a page.
pub fn sheet(objective: Objective, store: PathBuf) -> Result<PlanSheet, String> {
    let host = Inspection::of_this_host(Duration::ZERO).map_err(|error| error.to_string())?;
    let mut plan = plan(&host, &Wish::new(objective)).map_err(|error| error.to_string())?;
    expect(&mut plan, &host, None, Ok(store))?;
    Ok(plan.sheet())
}

/// Takes the host's lock, after restoring what a killed run left.
fn lock() -> anyhow::Result<HostLock> {
    lock_and_left().map(|(lock, _)| lock)
}

fn lock_and_left() -> anyhow::Result<(HostLock, ReplayReport)> {
    output::begin_measuring()?;
    let (lock, replayed) = HostLock::acquire_and_replay(&StateDir::default_for_user()?)?;
    for outcome in replayed.outcomes.iter().filter(|outcome| !outcome.is_silent()) {
        output::say(format!("netcliff: undoing what a killed run left: {}", described(outcome)));
    }
    tell_damaged(&replayed);
    Ok((lock, replayed))
}

/// Reports journals that could not be read, and what became of them.
fn tell_damaged(report: &ReplayReport) {
    for damaged in report.damaged() {
        output::say(format!("netcliff: {damaged}"));
    }
}

fn apply(args: &ApplyArgs) -> anyhow::Result<ExitCode> {
    args.wait.begin();
    let lock = lock()?;
    let plan = planned(&args.wish, &look()?)?;
    if plan.steps.is_empty() {
        output::say("netcliff: nothing to change");
        return Ok(ExitCode::SUCCESS);
    }
    if !args.yes && !agreed(&plan)? {
        output::say("netcliff: nothing was changed");
        return Ok(ExitCode::FAILURE);
    }
    let mut session = Session::new(&lock);
    make(&mut session, &args.wish, &plan)?;
    let applied = session.keep()?;
    // Release the lock first, because the reader of the output may be slow.
    drop(lock);
    say(&applied, args.json)?;
    if plan.changes_channels() && args.wish.plan.is_some() {
        output::say("netcliff: the queues are new: `netcliff tune plan` again says where their interrupts belong");
    }
    output::say("netcliff: `netcliff tune undo` sets this back");
    Ok(ExitCode::SUCCESS)
}

/// Prints the result of each setting.
fn say(applied: &[Applied], json: bool) -> anyhow::Result<()> {
    for one in applied {
        if json {
            output::json_line(one)?;
        } else {
            output::sentences(&(sentence(one) + "\n"))?;
        }
    }
    Ok(())
}

/// Sets settings by name.
fn set(args: &SetArgs) -> anyhow::Result<ExitCode> {
    let steps = || -> anyhow::Result<Vec<Step>> {
        let read = nic::read(&args.interface, Path::new("/sys"));
        let nic = read.map_err(|error| {
            output::usage(format!("--if {}: {error}; `ip link` lists the interfaces", args.interface))
        })?;
        named::steps(&nic, &args.settings).map_err(output::usage)
    };
    if args.dry_run {
        let steps = steps()?;
        for Proposal { name, old, new, command, .. } in steps.iter().map(|step| &step.proposal) {
            let (old, new) = (in_short(old), in_short(new));
            output::sentences(&format!("{name}: {old} -> {new}\n  {command}\n"))?;
        }
        if steps.is_empty() {
            output::say("netcliff: nothing to change");
        }
        return Ok(ExitCode::SUCCESS);
    }
    args.wait.begin();
    let lock = lock()?;
    let steps = steps()?;
    if steps.is_empty() {
        output::say("netcliff: nothing to change");
        return Ok(ExitCode::SUCCESS);
    }
    let mut session = Session::new(&lock);
    session.apply_steps(&steps)?;
    let applied = session.keep()?;
    drop(lock);
    say(&applied, args.json)?;
    output::say("netcliff: `netcliff tune undo` sets this back");
    Ok(ExitCode::SUCCESS)
}

/// Applies a plan. If it changes the number of channels, the settings of the queues are planned again for the new ones.
fn make(session: &mut Session, args: &WishArgs, plan: &Plan) -> anyhow::Result<()> {
    match args.wish() {
        Some(wish) => session.apply_wish(plan, &wish)?,
        None => session.apply(plan)?,
    }
    Ok(())
}

fn sentence(applied: &Applied) -> String {
    let [before, requested, effective] =
        [&applied.before, &applied.requested, &applied.effective].map(|it| in_short(it));
    let name = &applied.name;
    if applied.differs() {
        return format!("{name}: {before} -> {effective} ({requested} was requested; the driver set this value)");
    }
    format!("{name}: {before} -> {effective}")
}

fn agreed(plan: &Plan) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        return Err(output::usage("no terminal to confirm: look at `netcliff tune plan`, then add --yes"));
    }
    output::page(&report::terminal::plan(&plan.sheet(), None, output::style()))?;
    output::say("Make these settings? [y/N]");
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}

fn described(outcome: &UndoOutcome) -> String {
    use netcliff_host::journal::Change;
    let what = match &outcome.change {
        Change::SettingChanged { setting, old, .. } => format!("{setting} back to {}", in_short(old)),
        Change::SettingsAtRisk { interface, .. } => format!("settings of {interface} that another change had moved"),
        other => other.to_string(),
    };
    match (&outcome.error, &outcome.note) {
        (Some(error), _) => format!("{what}: not undone: {error}"),
        (None, Some(note)) => format!("{what} ({note})"),
        (None, None) => what,
    }
}

fn undo(json: bool) -> anyhow::Result<ExitCode> {
    let (lock, left) = lock_and_left()?;
    let report = apply::undo(&lock)?;
    drop(lock);
    for outcome in report.outcomes.iter().filter(|outcome| !outcome.is_silent()) {
        if json {
            output::json_line(outcome)?;
        } else {
            output::sentences(&(described(outcome) + "\n"))?;
        }
    }
    tell_damaged(&report);
    let both = [left, report];
    if both.iter().all(|report| report.outcomes.is_empty() && report.unreadable.is_empty()) {
        output::say("netcliff: nothing to set back");
    }
    let clean = both.iter().all(|report| report.is_clean() && report.unreadable.is_empty());
    Ok(if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
