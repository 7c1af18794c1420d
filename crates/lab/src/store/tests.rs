use super::*;
use netcliff_core::{EngineKind, Host, Outcome, Point, Provenance, Scheme};

fn record(pps: f64) -> Record {
    Record {
        point: Point::poisson(Host::pentium4_2530mhz(), Scheme::Ideal, pps),
        engine: EngineKind::Model,
        outcome: Outcome { throughput_pps: Some(pps.into()), ..Outcome::default() },
        provenance: Provenance { command: "netcliff predict".into(), ..Provenance::default() },
    }
}

fn open() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("deep/er/records.db")).unwrap();
    (dir, store)
}

#[test]
fn what_is_added_comes_back_in_order() {
    let (_dir, store) = open();
    let run = store.begin("predict", "netcliff predict", 1.0).unwrap();
    for pps in [1e3, 2e3, 3e3] {
        store.add(run, &record(pps)).unwrap();
    }
    assert_eq!(store.run(run).unwrap().unwrap().state, "running");
    store.set_fingerprint(run, &Fingerprint::default()).unwrap();
    store.finish(run, false, None).unwrap();
    let records = store.records(run).unwrap();
    assert_eq!(records, [record(1e3), record(2e3), record(3e3)]);
    let summary = store.run(run).unwrap().unwrap();
    assert_eq!((summary.state.as_str(), summary.records), ("done", 3));
    assert!(summary.fingerprint_id.is_some());
    assert_eq!(store.run(99).unwrap(), None);
    assert!(store.finding(run).unwrap().is_none());
}

#[test]
fn a_run_that_was_killed_keeps_its_records() {
    let (dir, store) = open();
    let run = store.begin("find", "netcliff find", 1.0).unwrap();
    store.add(run, &record(5e3)).unwrap();
    std::mem::forget(store);
    let again = Store::open(&dir.path().join("deep/er/records.db")).unwrap();
    assert_eq!(again.records(run).unwrap().len(), 1);
    assert_eq!(again.runs().unwrap()[0].state, "running");
}

#[test]
fn one_can_look_while_another_writes() {
    let (dir, store) = open();
    let run = store.begin("run", "netcliff run", 1.0).unwrap();
    store.connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    store.add(run, &record(1e3)).unwrap();
    let asked = std::time::Instant::now();
    let other = Store::open(&dir.path().join("deep/er/records.db")).unwrap();
    assert_eq!(other.runs().unwrap()[0].records, 0, "not yet");
    assert!(asked.elapsed() < std::time::Duration::from_secs(5), "it waited for the lock");
    store.connection.execute_batch("COMMIT").unwrap();
    assert_eq!(other.runs().unwrap()[0].records, 1);
}

#[test]
fn an_old_schema_is_migrated_and_a_future_one_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("records.db");
    let old = Connection::open(&path).unwrap();
    old.execute_batch(schema::FIRST).unwrap();
    old.execute("INSERT INTO record (run, engine, json) VALUES (1, 'model', '{}')", []).unwrap_err();
    old.execute("INSERT INTO run (kind, state, started_unix_s, command) VALUES ('find', 'done', 1.0, 'x')", [])
        .unwrap();
    old.pragma_update(None, "user_version", 1).unwrap();
    drop(old);
    let store = Store::open(&path).unwrap();
    assert_eq!(store.runs().unwrap().len(), 1);
    assert!(store.finding(1).unwrap().is_none());
    store.connection.pragma_update(None, "user_version", 99).unwrap();
    drop(store);
    let error = Store::open(&path).unwrap_err().to_string();
    assert!(error.contains("schema 99"), "{error}");
}

#[test]
fn a_directory_a_damaged_file_and_a_plain_file_as_parent_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let error = Store::open(dir.path()).unwrap_err().to_string();
    assert!(error.contains("it is a directory") && error.contains("--db"), "{error}");
    let file = dir.path().join("junk.db");
    std::fs::write(&file, "this is not a database, not at all, and long enough to be read as a header").unwrap();
    let error = Store::open(&file).unwrap_err().to_string();
    assert!(error.contains("not a database"), "{error}");
    assert!(Store::open(&file.join("records.db")).unwrap_err().to_string().contains("junk.db"));
}

#[test]
fn a_full_disk_is_named_and_nothing_is_half_written() {
    let (_dir, store) = open();
    let run = store.begin("find", "netcliff find", 1.0).unwrap();
    store.add(run, &record(1e3)).unwrap();
    let pages: i64 = store.connection.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
    store.connection.pragma_update(None, "max_page_count", pages).unwrap();
    let error = (0..200).find_map(|_| store.add(run, &record(2e3)).err()).expect("the store is full").to_string();
    assert!(error.contains("full"), "{error}");
    let kept = store.records(run).unwrap();
    assert!(kept.iter().all(|kept| *kept == record(1e3) || *kept == record(2e3)));
}

#[test]
fn the_default_place_follows_xdg() {
    let with = |pairs: &'static [(&str, &str)]| {
        default_path(move |name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
    };
    let at = |path: &str| Some(std::path::PathBuf::from(path));
    assert_eq!(with(&[("XDG_DATA_HOME", "/data")]), at("/data/netcliff/records.db"));
    assert_eq!(with(&[("HOME", "/home/u")]), at("/home/u/.local/share/netcliff/records.db"));
    assert_eq!(with(&[("XDG_DATA_HOME", "relative"), ("HOME", "/root")]), at("/root/.local/share/netcliff/records.db"));
    // Without a home directory there is no default path. A directory that all users can write to would not be safe.
    assert_eq!((with(&[]), with(&[("HOME", "")])), (None, None));
}

/// Other users could redirect a store through their links.
#[test]
fn links_of_other_users_are_not_followed() {
    // Only root can give a link away.
    if !netcliff_testkit::has(netcliff_testkit::Need::Root) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (target, link, own) = (dir.path().join("target"), dir.path().join("link"), dir.path().join("own"));
    std::fs::create_dir(&target).unwrap();
    for link in [&link, &own] {
        std::os::unix::fs::symlink(&target, link).unwrap();
    }
    std::os::unix::fs::lchown(&link, Some(65_534), None).unwrap();
    let told = Store::open(&link.join("records.db")).unwrap_err().to_string();
    assert!(told.contains("another user's") && told.contains("--db"), "{told}");
    assert_eq!(std::fs::read_dir(&target).unwrap().count(), 0);
    Store::open(&own.join("records.db")).unwrap();
}

#[test]
fn a_task_has_one_record_and_an_unfinished_run_waits_to_be_continued() {
    let (dir, store) = open();
    let held = store.begin_experiment("abc", "netcliff run f.toml", 1.0).unwrap();
    store.add_task(held.run, 3, &record(1e3)).unwrap();
    let twice = store.add_task(held.run, 3, &record(1e3)).unwrap_err().to_string();
    assert!(twice.contains("UNIQUE"), "{twice}");
    let other = Store::open(store.path()).unwrap();
    assert!(other.hold(held.run).unwrap().is_none(), "another process would run its points twice");
    let told = other.hold_unfinished("abc").unwrap_err().to_string();
    assert!(told.contains("run 1") && told.contains("under way"), "{told}");
    assert!(other.hold_unfinished("abd").unwrap().is_none());
    assert_eq!(other.unfinished("abc").unwrap().len(), 1);
    assert!(other.unfinished("abd").unwrap().is_empty());
    let run = held.run;
    drop(held);
    assert!(other.hold(run).unwrap().is_some());
    assert_eq!(other.hold_unfinished("abc").unwrap().map(|held| held.run), Some(run));
    assert_eq!(other.task_records(run).unwrap().into_iter().collect::<Vec<_>>(), [(3, record(1e3))]);
    store.set_state(run, RunState::Interrupted).unwrap();
    assert_eq!(other.unfinished("abc").unwrap()[0].state, "interrupted");
    store.set_state(run, RunState::Done).unwrap();
    assert!(other.unfinished("abc").unwrap().is_empty());
    let left: Vec<_> = std::fs::read_dir(dir.path().join("deep/er")).unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "no lock stays behind: {left:?}");
}

#[test]
fn runs_go_by_number_name_and_last() {
    let (dir, store) = open();
    let named = |name: &str| {
        let store = Store::open(&dir.path().join("deep/er/records.db")).unwrap().naming(Some(name.to_owned()));
        store.begin("stream", "netcliff stream", 1.0).unwrap()
    };
    let runs = [named("before"), named("after"), named("before")];
    let found = |text: &str| store.find(text).unwrap().map(|run| run.id);
    assert_eq!((found("last"), found("last~2")), (Some(runs[2]), Some(runs[0])));
    assert_eq!((found("before"), found("before~1"), found("after")), (Some(runs[2]), Some(runs[0]), Some(runs[1])));
    assert_eq!(
        (found(&runs[1].to_string()), found("9"), found("before~2"), found("later")),
        (Some(runs[1]), None, None, None)
    );
    store.rename(runs[1], Some("later")).unwrap();
    assert_eq!((found("later"), found("after")), (Some(runs[1]), None));
}

/// Removing runs removes their records, and fingerprints that no other run has. Other runs keep everything.
#[test]
fn removed_runs_leave_nothing_behind() {
    let (_dir, store) = open();
    let runs = [1.0, 2.0, 3.0].map(|at| store.begin("predict", "netcliff predict", at).unwrap());
    for run in runs {
        store.add(run, &record(1e3)).unwrap();
    }
    let other = Fingerprint { facts: [("cpu".to_owned(), "another".to_owned())].into() };
    store.set_fingerprint(runs[0], &Fingerprint::default()).unwrap();
    store.set_fingerprint(runs[1], &other).unwrap();
    store.set_fingerprint(runs[2], &Fingerprint::default()).unwrap();
    store.remove(&runs[..2]).unwrap();
    assert_eq!(store.runs().unwrap().iter().map(|run| run.id).collect::<Vec<_>>(), [runs[2]]);
    assert_eq!((store.records(runs[0]).unwrap().len(), store.records(runs[2]).unwrap().len()), (0, 1));
    assert_eq!(store.fingerprint(runs[2]).unwrap(), Some(Fingerprint::default()));
    let count = |table: &str| -> i64 {
        store.connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
    };
    assert_eq!((count("fingerprint"), count("record")), (1, 1));
    store.compact().unwrap();
}

/// A run in progress has no results yet, but is not over.
#[test]
fn empty_runs_are_those_that_are_over() {
    let (_dir, store) = open();
    let [going, failed, done] = [1.0, 2.0, 3.0].map(|at| store.begin("find", "netcliff find", at).unwrap());
    store.finish(failed, true, None).unwrap();
    store.add(done, &record(1e3)).unwrap();
    store.finish(done, false, None).unwrap();
    assert_eq!(store.empty().unwrap().iter().map(|run| run.id).collect::<Vec<_>>(), [failed], "not {going}");
}

/// The run of a killed process stays in state `running` and can be removed. A run that a process works on cannot.
#[test]
fn a_killed_run_is_told_from_one_under_way() {
    let (dir, store) = open();
    let run = store.begin("find", "netcliff find", 1.0).unwrap();
    let other = Store::open(&dir.path().join("deep/er/records.db")).unwrap();
    let summary = |id| other.run(id).unwrap().unwrap();
    assert!(other.is_under_way(&summary(run)).unwrap() && other.empty().unwrap().is_empty());
    // As after a kill: the lock is released, and the state stays.
    drop(store);
    assert_eq!(summary(run).state, "running");
    assert!(!other.is_under_way(&summary(run)).unwrap());
    assert_eq!(other.empty().unwrap().iter().map(|run| run.id).collect::<Vec<_>>(), [run]);
    let done = other.begin("find", "netcliff find", 2.0).unwrap();
    other.finish(done, false, None).unwrap();
    assert!(!other.is_under_way(&summary(done)).unwrap());
}

/// Reading a store that does not exist finds it empty, creates nothing, and removes nothing that another process
/// creates.
#[test]
fn reading_makes_and_removes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("deep/records.db");
    let reader = Store::open_to_read(&path).unwrap();
    assert!(reader.runs().unwrap().is_empty());
    assert!(!dir.path().join("deep").exists());
    assert!(reader.begin("find", "netcliff find", 1.0).is_err());

    let writer = Store::open(&path).unwrap();
    drop(reader);
    drop(Store::open_existing(&path).unwrap());
    let run = writer.begin("find", "netcliff find", 1.0).unwrap();
    writer.finish(run, false, None).unwrap();
    let reader = Store::open_to_read(&path).unwrap();
    assert_eq!(reader.runs().unwrap().len(), 1);
    assert!(reader.rename(run, Some("other")).is_err(), "only read");
}

/// A new store without content leaves neither file nor directories. One with a run or a setting stays, and so does one
/// that existed.
#[test]
fn an_empty_new_store_leaves_nothing_behind() {
    let (dir, store) = open();
    let path = dir.path().join("deep/er/records.db");
    assert!(path.exists());
    drop(store);
    assert!(!dir.path().join("deep").exists());

    let first = Store::open(&path).unwrap();
    let other = Store::open(&path).unwrap();
    drop(first);
    assert!(!path.exists(), "it was empty");
    let refused = other.begin("find", "netcliff find", 1.0).unwrap_err().to_string();
    assert!(refused.contains("removed or replaced"), "{refused}");
    drop(other);

    let store = Store::open(&path).unwrap();
    let run = store.begin("find", "netcliff find", 1.0).unwrap();
    store.finish(run, false, None).unwrap();
    drop(store);
    assert_eq!(Store::open(&path).unwrap().runs().unwrap().len(), 1);

    let kept = dir.path().join("kept.db");
    std::fs::write(&kept, "").unwrap();
    drop(Store::open(&kept).unwrap());
    assert!(kept.exists(), "it was there before");
    let named = dir.path().join("named.db");
    Store::open(&named).unwrap().set_setting("calibration", Some("3")).unwrap();
    assert!(named.exists(), "it has a setting");
}
