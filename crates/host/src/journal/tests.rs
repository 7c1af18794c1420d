use super::{undo::Parsed, *};
use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown, symlink},
};

fn state() -> (tempfile::TempDir, StateDir) {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let state = StateDir::at(dir.path()).unwrap();
    (dir, state)
}

fn dead() -> ProcessId {
    let me = ProcessId::current().unwrap();
    ProcessId { start_time: me.start_time + 1, ..me }
}

fn line(line: &Line) -> String {
    serde_json::to_string(line).unwrap() + "\n"
}

fn owner(owner: ProcessId, boot_id: Option<String>) -> String {
    line(&Line::Owner { version: 1, owner, boot_id })
}

fn made(id: u64, path: &Path) -> String {
    fs::create_dir_all(path).unwrap();
    line(&Line::Change { id, change: Change::DirectoryCreated { path: path.to_owned() } })
}

fn write(state: &StateDir, name: &str, text: &str) -> PathBuf {
    written(state.journal_dir().unwrap().join(name), text)
}

fn write_kept(state: &StateDir, text: &str) -> PathBuf {
    written(state.kept_dir().unwrap().join("000001.jsonl"), text)
}

fn written(path: PathBuf, text: &str) -> PathBuf {
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn a_clean_end_removes_the_file_and_the_change() {
    let (dir, state) = state();
    let made = dir.path().join("made");
    let mut journal = Journal::begin(&state).unwrap();
    journal.record(Change::DirectoryCreated { path: made.clone() }).unwrap();
    fs::create_dir(&made).unwrap();
    let file = journal.path().to_owned();
    assert!(file.exists());
    drop(journal);
    assert!(!file.exists() && !made.exists());
}

#[test]
fn changes_that_were_ticked_off_are_not_undone_again() {
    let (dir, state) = state();
    let kept = dir.path().join("kept");
    fs::create_dir(&kept).unwrap();
    let mut journal = Journal::begin(&state).unwrap();
    let id = journal.record(Change::DirectoryCreated { path: kept.clone() }).unwrap();
    journal.undone(id).unwrap();
    assert_eq!(journal.open_changes().count(), 0);
    let Parsed { open, .. } = Parsed::of(&fs::read(journal.path()).unwrap());
    assert!(open.is_empty());
    drop(journal);
    assert!(kept.exists());
}

#[test]
fn two_journals_of_one_process_do_not_collide() {
    let (_dir, state) = state();
    let (a, b) = (Journal::begin(&state).unwrap(), Journal::begin(&state).unwrap());
    assert_ne!(a.path(), b.path());
}

#[test]
fn a_dead_owner_is_undone_newest_first_and_once() {
    let (dir, state) = state();
    let (outer, inner) = (dir.path().join("outer"), dir.path().join("outer/inner"));
    let text = owner(dead(), boot_id()) + &made(0, &outer) + &made(1, &inner);
    let file = write(&state, "a.jsonl", &text);
    let report = replay(&state).unwrap();
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(report.outcomes.len(), 2);
    assert!(!outer.exists() && !file.exists());
    assert_eq!(replay(&state).unwrap(), ReplayReport::default());
}

#[test]
fn a_torn_last_line_is_ignored_wherever_it_tears() {
    let (dir, state) = state();
    let path = dir.path().join("made");
    let head = owner(dead(), boot_id()) + &made(0, &path);
    let last = made(1, &dir.path().join("never"));
    for cut in 0..last.len() {
        fs::create_dir_all(&path).unwrap();
        let file = write(&state, "a.jsonl", &(head.clone() + &last[..cut]));
        let report = replay(&state).unwrap();
        assert!(report.is_clean() && !path.exists() && !file.exists(), "cut at {cut}: {report:?}");
    }
}

#[test]
fn a_torn_owner_line_is_removed_once_the_process_of_its_name_is_gone() {
    let (_dir, state) = state();
    let text = owner(dead(), boot_id());
    let name = |process: ProcessId| format!("{}-{}.jsonl", process.pid, process.start_time);
    let gone = write(&state, &name(dead()), &text[..text.len() / 2]);
    let alive = write(&state, &name(ProcessId::current().unwrap()), "");
    let foreign = write(&state, "foreign.jsonl", "not ours\n");
    let report = replay(&state).unwrap();
    assert!(!gone.exists() && alive.exists() && foreign.exists());
    assert_eq!(report.unreadable, [foreign]);
    assert_eq!(report.alive.len(), 1);
}

#[test]
fn after_a_reboot_there_is_nothing_to_undo() {
    let (dir, state) = state();
    let path = dir.path().join("made");
    let text = owner(ProcessId::current().unwrap(), Some("another boot".into())) + &made(0, &path);
    let file = write(&state, "a.jsonl", &text);
    assert_eq!(replay(&state).unwrap().outcomes, []);
    assert!(path.exists() && !file.exists());
}

#[test]
fn what_cannot_be_undone_stays_in_the_journal() {
    let (_dir, state) = state();
    let outside = Change::SysctlChanged { path: "/etc/hostname".into(), old: "x".into(), new: "y".into() };
    let text = owner(dead(), boot_id()) + &line(&Line::Change { id: 0, change: outside });
    let file = write(&state, "a.jsonl", &text);
    let report = replay(&state).unwrap();
    assert!(!report.is_clean() && file.exists());
    let error = report.outcomes[0].error.as_deref().unwrap();
    assert!(error.contains("/etc/hostname"), "{error}");
}

/// A failed undo is remembered until the next start, even if the journal's end fails, too.
#[test]
fn what_an_end_cannot_undo_is_left_for_the_next_start() {
    let (dir, state) = state();
    let made = dir.path().join("made");
    let outside = Change::SysctlChanged { path: "/etc/hostname".into(), old: "x".into(), new: "y".into() };
    let mut journal = Journal::begin(&state).unwrap();
    journal.record(outside.clone()).unwrap();
    journal.record(Change::DirectoryCreated { path: made.clone() }).unwrap();
    fs::create_dir(&made).unwrap();
    let outcomes = journal.undo_all();
    assert_eq!(outcomes.iter().filter(|outcome| outcome.error.is_some()).count(), 1);
    let file = journal.path().to_owned();
    drop(journal);
    let Parsed { open, .. } = Parsed::of(&fs::read(&file).unwrap());
    assert_eq!(open, [outside]);
    assert!(!made.exists());
}

#[test]
fn a_process_knows_its_parent() {
    let own = std::process::id();
    let parent = crate::process::parent_of(own).unwrap();
    assert_eq!(parent, std::os::unix::process::parent_id());
    assert!(who::is_ancestor(&parent.to_string()) && !who::is_ancestor(&own.to_string()) && !who::is_ancestor("x"));
}

#[test]
fn paths_that_climb_out_of_proc_sys_are_refused() {
    let path = PathBuf::from("/proc/sys/../../etc/hostname");
    let change = Change::SysctlChanged { path, old: "x".into(), new: "y".into() };
    assert!(undo_change(&change).error.is_some());
}

#[test]
fn a_directory_in_use_stays_with_a_note() {
    let dir = tempfile::tempdir().unwrap();
    let used = dir.path().join("used");
    fs::create_dir(&used).unwrap();
    fs::write(used.join("file"), "").unwrap();
    let outcome = undo::undo_within(&Change::DirectoryCreated { path: used }, dir.path());
    assert_eq!(outcome.error, None);
    assert!(outcome.note.unwrap().contains("in use"));
}

#[test]
fn an_unwritable_state_directory_is_a_clear_error() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let error = StateDir::at(&file).unwrap_err().to_string();
    assert!(error.contains("NETCLIFF_STATE_DIR"), "{error}");
}

/// Only the last line can be torn by a crash. Damage before it may have hidden a change: the rest is undone, and the
/// damage is reported.
#[test]
fn damage_before_the_last_line_is_told_and_the_rest_undone() {
    let (dir, state) = state();
    let (first, second) = (dir.path().join("first"), dir.path().join("second"));
    fs::create_dir_all(&first).unwrap();
    fs::create_dir_all(&second).unwrap();
    let text = owner(dead(), boot_id()) + &made(0, &first) + "{\"line\":\"chan\n" + &made(1, &second);
    let path = write(&state, "1-1.jsonl", &text);
    let report = replay(&state).unwrap();
    assert!(!first.exists() && !second.exists());
    assert_eq!(report.unreadable, [path.with_extension("damaged")]);
    assert!(report.unreadable[0].exists() && !path.exists());
    assert!(report.left_over().iter().any(|told| told.contains("is damaged") && told.contains("put aside as")));
    assert_eq!(replay(&state).unwrap(), ReplayReport::default(), "told once");
}

/// Everything readable in a damaged journal of tuning is undone, the damage is reported, and the file is renamed.
#[test]
fn a_damaged_kept_journal_is_undone_as_far_as_it_can_be_read() {
    let (dir, state) = state();
    let made_in = dir.path().join("made");
    let head = owner(dead(), boot_id());
    let last = made(1, &dir.path().join("never"));
    let texts = [
        (format!("X{head}") + &made(0, &made_in), true),
        (made(0, &made_in), true),
        (head.clone() + &made(0, &made_in) + &last[..last.len() - 5], true),
        (String::new(), false),
    ];
    for (n, (text, has_change)) in texts.iter().enumerate() {
        fs::create_dir_all(&made_in).unwrap();
        let path = write_kept(&state, text);
        assert_eq!(kept(&state).unwrap().len(), usize::from(*has_change), "{text}");
        let report = undo_kept(&state).unwrap();
        assert_eq!(!made_in.exists(), *has_change, "{text}");
        let aside = if n == 0 { "damaged".to_owned() } else { format!("{}.damaged", n + 1) };
        assert_eq!(report.unreadable, [path.with_extension(aside)], "{text}");
        assert!(report.unreadable[0].exists() && !path.exists());
        assert_eq!(undo_kept(&state).unwrap(), ReplayReport::default(), "told once");
    }
}

#[test]
fn an_open_journal_without_its_first_line_is_undone_once_the_process_of_its_name_is_gone() {
    let (dir, state) = state();
    let (first, second) = (dir.path().join("first"), dir.path().join("second"));
    let text = format!("X{}", owner(dead(), boot_id())) + &made(0, &first);
    let path = write(&state, &format!("{}-{}.jsonl", dead().pid, dead().start_time), &text);
    let me = ProcessId::current().unwrap();
    write(&state, &format!("{}-{}.jsonl", me.pid, me.start_time), &("X\n".to_owned() + &made(0, &second)));
    let report = replay(&state).unwrap();
    assert!(!first.exists() && second.exists());
    assert_eq!(report.unreadable, [path.with_extension("damaged")]);
    assert_eq!(report.alive, [me]);
}

/// Settings of an earlier boot are not in force in this one.
#[test]
fn a_journal_without_its_first_line_from_before_the_boot_is_void() {
    let (dir, state) = state();
    let made_in = dir.path().join("made");
    let path = write_kept(&state, &made(0, &made_in));
    let file = fs::File::options().append(true).open(&path).unwrap();
    file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1)).unwrap();
    assert_eq!(undo_kept(&state).unwrap(), ReplayReport::default());
    assert!(made_in.exists() && !path.exists());
}

/// Root's start must not remove a file, write a setting or end a process on another user's request.
#[test]
fn a_journal_of_another_users_is_not_obeyed() {
    let (dir, state) = state();
    let made_in = dir.path().join("made");
    let text = owner(dead(), boot_id()) + &made(0, &made_in);
    let path = write(&state, "1-1.jsonl", &text);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    let elsewhere = written(dir.path().join("elsewhere"), &text);
    symlink(&elsewhere, state.journal_dir().unwrap().join("2-2.jsonl")).unwrap();
    let mut refused = 2;
    if nix::unistd::geteuid().is_root() {
        chown(write(&state, "3-3.jsonl", &text), Some(65_534), None).unwrap();
        refused += 1;
    }
    let report = replay(&state).unwrap();
    assert_eq!((report.outcomes.len(), report.refused.len()), (0, refused), "{report:?}");
    assert!(made_in.exists() && path.exists());
    assert!(report.left_over().iter().all(|told| told.contains("was not obeyed")), "{report:?}");
}

#[test]
fn what_a_journal_names_beside_netcliffs_own_is_left_alone() {
    let (dir, state) = state();
    let file = written(dir.path().join("a file of root's"), "x");
    let changes = [
        Change::NamespaceCreated { path: file.clone() },
        Change::SysctlChanged { path: "/proc/sys/kernel/core_pattern".into(), old: "core".into(), new: "x".into() },
        Change::SettingChanged {
            setting: Setting::file("/proc/sys/kernel/core_pattern"),
            namespace: None,
            ifindex: None,
            old: "core".into(),
            new: "x".into(),
        },
        Change::LinkCreated { name: "lo".into() },
    ];
    let lines: String =
        (0..).zip(&changes).map(|(id, change)| line(&Line::Change { id, change: change.clone() })).collect();
    let before = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap();
    write(&state, "1-1.jsonl", &(owner(dead(), boot_id()) + &lines));
    let report = replay(&state).unwrap();
    assert!(report.outcomes.len() == changes.len() && report.outcomes.iter().all(|outcome| outcome.error.is_some()));
    assert!(file.exists() && fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap() == before, "{report:?}");
}

/// Namespaces that another mount covers are one sentence, which says how to remove them; every other failure is one of
/// its own.
#[test]
fn what_is_left_is_named_with_what_to_do() {
    let outcome = |change: Change, error: &str| UndoOutcome { change, note: None, error: Some(error.to_owned()) };
    let covered = |name: &str| {
        let path = Path::new("/run/netns").join(name);
        outcome(Change::NamespaceCreated { path }, "another mount on /run/netns covers it")
    };
    let left = |outcomes: Vec<UndoOutcome>| ReplayReport { outcomes, ..ReplayReport::default() }.left_over();
    let one = left(vec![covered("nc-7-snd")]);
    assert_eq!(
        one,
        [
            "a killed run left the network namespace nc-7-snd: another mount on /run/netns covers it, so that it cannot be \
          removed; it changes no setting of this host; a reboot removes it, or the next run after `umount /run/netns`"
        ]
    );
    let link = outcome(Change::LinkCreated { name: "nc-9".to_owned() }, "Operation not permitted (os error 1)");
    let several = left(vec![covered("nc-7-snd"), link, covered("nc-7-hut")]);
    let [link, namespaces] = &several[..] else { panic!("{several:?}") };
    assert_eq!(
        link,
        "a killed run left interface nc-9, which could not be undone: Operation not permitted (os error 1)"
    );
    assert!(
        namespaces.contains("namespaces nc-7-snd, nc-7-hut: another") && namespaces.contains("they change no setting")
    );
    let many = left((0..6).map(|n| covered(&format!("nc-{n}-snd"))).collect());
    assert!(many[0].contains("nc-3-snd and 2 more: another"), "{many:?}");
}

/// The lock file is private, whatever the umask of the process that creates it.
#[test]
fn nobody_else_can_open_the_lock() {
    let (dir, state) = state();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    fs::write(state.lock_path(), "").unwrap();
    fs::set_permissions(state.lock_path(), fs::Permissions::from_mode(0o644)).unwrap();
    let lock = HostLock::acquire(&state).unwrap();
    let journal = Journal::begin(&state).unwrap();
    assert_eq!([mode(dir.path()), mode(&state.lock_path()), mode(journal.path())], [0o700, 0o600, 0o600]);
    drop((journal, lock));
    let target = written(dir.path().join("target"), "precious");
    fs::remove_file(state.lock_path()).unwrap();
    symlink(&target, state.lock_path()).unwrap();
    assert!(HostLock::acquire(&state).is_err());
    assert_eq!(fs::read_to_string(target).unwrap(), "precious");
}
