//! Tests on this machine: namespaces, meters, the journal after kill -9, and `inspect` on captured hosts. All are one
//! binary with one module per file.

mod cpu_meters;
mod inspect;
mod kill9;
mod netns;

mod full_disk {
    //! A journal on a full disk: the change is refused, and what was written before stays readable.

    use netcliff_host::journal::{Change, Journal, StateDir};
    use netcliff_testkit::{Need, has};
    use nix::{
        mount::{MsFlags, mount},
        sched::{CloneFlags, unshare},
    };
    use std::{fs, path::Path, thread};

    /// Mounts a file system of two pages on `dir`, seen by this thread only.
    fn small_disk(dir: &Path) {
        unshare(CloneFlags::CLONE_NEWNS).unwrap();
        let none = None::<&str>;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
        mount(none, dir, Some("tmpfs"), MsFlags::empty(), Some("size=8k,mode=700")).unwrap();
    }

    fn refused_when_full(dir: &Path) {
        small_disk(dir);
        let state = StateDir::at(dir).unwrap();
        let mut journal = Journal::begin(&state).unwrap();
        let change = |n: usize| Change::LinkCreated { name: format!("nc-no-such-link-{n}") };
        let mut recorded = 0;
        let error = loop {
            match journal.record(change(recorded)) {
                Ok(_) => recorded += 1,
                Err(error) => break error.to_string(),
            }
            assert!(recorded < 1000, "the disk never filled");
        };
        assert!(error.contains("No space left") && error.contains("NETCLIFF_STATE_DIR"), "{error}");
        assert_eq!(journal.open_changes().count(), recorded);
        let text = fs::read_to_string(journal.path()).unwrap();
        assert!(text.ends_with('\n'), "half a line was left: {:?}", text.lines().last());
        assert_eq!(text.lines().count(), 1 + recorded);
    }

    #[test]
    fn a_full_disk_refuses_the_change() {
        if !has(Need::Tmpfs) {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_owned();
        thread::spawn(move || refused_when_full(&path)).join().unwrap();
    }
}
