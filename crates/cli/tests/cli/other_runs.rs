//! Runs of two users on one host: which user is warned about the other, which one waits, and that nobody is blocked for
//! ever.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use netcliff_testkit::{Need, has_all, has_program};

use crate::common::Home;

/// Root and nobody, each with the usual state directory, where no other process of this machine is seen.
const SCRIPT: &str = r#"
mount -t tmpfs none /run && mkdir -p /run/lock || exit 9
cd "$T"
# Words, not functions: in the background each becomes the netcliff that is to get the signal.
as_nobody="setpriv --reuid=65534 --regid=65534 --clear-groups env -i HOME=$T/nobody LC_ALL=C.UTF-8"
as_root="env -i HOME=$T/root PATH=$PATH LC_ALL=C.UTF-8"
shown() { n=0; until grep -q 'POSIX.* 7954892287189280358 ' /proc/locks; do n=$((n+1)); [ $n -lt 600 ] || exit 8; sleep 0.05; done; }
says() { n=0; until grep -q "$1" "$2"; do n=$((n+1)); [ $n -lt 600 ] || { cat "$2"; exit 7; }; sleep 0.05; done; }

$as_nobody ./netcliff rr --testbed loopback --time 30s --repeats 1 >/dev/null 2>&1 & nobody=$!
shown
echo "== root beside"
$as_root ./netcliff rr --testbed loopback --time 100ms --repeats 1 --no-wait 2>&1; echo "ended $?"
kill -INT $nobody; wait $nobody

$as_root ./netcliff stream --time 30s --repeats 1 >/dev/null 2>&1 & root=$!
shown
echo "== nobody is refused"
$as_nobody ./netcliff rr --testbed loopback --time 100ms --save 2>&1; echo "ended $?"
$as_nobody ./netcliff results list 2>&1
echo "== nobody waits and gives up"
$as_nobody ./netcliff rr --testbed loopback --time 100ms --wait=60s >given-up 2>&1 & waits=$!
says 'waiting for another' given-up
kill -INT $waits; wait $waits; echo "ended $?"; cat given-up
echo "== nobody waits and measures"
$as_nobody ./netcliff stream --time 100ms --repeats 1 --wait=60s >waited 2>&1 & waits=$!
says 'waiting for another' waited
kill -INT $root; wait $root
wait $waits; echo "ended $?"; cat waited
"#;

#[test]
fn users_see_each_other_and_wait_or_go_on() {
    let programs = ["unshare", "setpriv"].iter().all(|program| has_program(program));
    if !has_all(&[Need::Root, Need::Tmpfs]) || !programs {
        return;
    }
    let home = Home::new();
    // Copy the binary to a place where user nobody can execute it.
    fs::copy(env!("CARGO_BIN_EXE_netcliff"), home.path("netcliff")).unwrap();
    let open = |name: &str, mode| fs::set_permissions(home.path(name), Permissions::from_mode(mode)).unwrap();
    fs::create_dir(home.path("nobody")).unwrap();
    fs::create_dir(home.path("root")).unwrap();
    std::os::unix::fs::chown(home.path("nobody"), Some(65_534), Some(65_534)).unwrap();
    open("", 0o755);
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", SCRIPT]);
    let output = command.env("T", home.path("")).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{told}\n{}", String::from_utf8_lossy(&output.stderr));
    let parts: Vec<String> =
        told.split("== ").map(|part| part.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let [_, beside, refused, given_up, waited] = &parts[..] else { panic!("{told}") };

    let nobodys = "of user nobody (65534), \"netcliff rr --testbed loopback --time 30s --repeats 1\", running for ";
    assert!(beside.contains("ended 0") && beside.contains(nobodys), "{told}");
    assert!(beside.contains("at the same time") && !beside.contains("waiting"), "{told}");

    let roots = "another netcliff run (pid ";
    let command = "of user root (0), \"netcliff stream --time 30s --repeats 1\", running for ";
    assert!(refused.contains("ended 1") && refused.contains(roots) && refused.contains(command), "{told}");
    assert!(refused.contains("--wait") && refused.contains("--no-wait"), "{told}");
    assert!(!refused.contains("partial"), "a run that never began is not kept: {told}");

    assert!(given_up.contains("ended 1") && given_up.contains("waiting for another netcliff run (pid "), "{told}");
    assert!(given_up.contains("Ctrl-C ends the wait") && given_up.contains("stopped while waiting"), "{told}");

    assert!(waited.contains("ended 0") && waited.contains(command), "{told}");
}
