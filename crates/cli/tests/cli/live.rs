//! `-i`: a line an interval while `stream` and `rr` run.

use crate::common::Home;

/// Lines of a text that tell of an interval, such as `  0.00-0.20 s ...`.
fn intervals(text: &str) -> Vec<&str> {
    let span = |line: &&str| {
        let word = line.split_whitespace().next().unwrap_or_default();
        let ends = word.split_once('-').map(|(from, to)| (from.parse::<f64>(), to.parse::<f64>()));
        line.starts_with("  ") && matches!(ends, Some((Ok(from), Ok(to))) if from < to)
    };
    text.lines().filter(span).collect()
}

const COMMANDS: [(&[&str], &str); 4] = [
    (&["stream", "--time", "600ms", "--repeats", "2"], "retr"),
    (&["stream", "--channel", "udp", "--flows", "2", "--threads", "1", "--time", "600ms", "--repeats", "2"], "lost"),
    (&["rr", "--testbed", "loopback", "--time", "600ms", "--repeats", "2"], "responses"),
    (&["rr", "--testbed", "loopback", "--rate", "500", "--time", "600ms", "--repeats", "2"], "asked for"),
];

/// On stdout before the page, as of iperf3; a heading a repeat, and no line where none was asked for.
#[test]
fn lines_come_before_the_page() {
    let home = Home::new();
    for (command, column) in COMMANDS {
        let output = home.netcliff([command, &["-i", "0.2"]].concat()).output().unwrap();
        let (page, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{command:?}: {told}");
        // Three intervals a repeat; on a loaded machine one that was seen late is one with the next.
        let lines = intervals(&page);
        assert!((2..=8).contains(&lines.len()), "{command:?}: {page}");
        assert_eq!(page.lines().filter(|line| line.starts_with("  interval ")).count(), 2, "{command:?}: {page}");
        assert!(page.contains(column) && intervals(&told).is_empty(), "{command:?}: {page}\n{told}");
        let (lines, rest) = page.split_once("netcliff 0").expect("a page");
        assert!(lines.contains("  0.00-") && intervals(rest).is_empty(), "{command:?}: {page}");
        assert!(lines.lines().all(|line| line.chars().count() <= 80), "{command:?}: {page}");
        assert!(intervals(&home.stdout(command)).is_empty(), "{command:?}");
    }
}

/// With --json stdout is JSON alone.
#[test]
fn json_stays_alone_on_stdout() {
    let home = Home::new();
    for (command, _) in [COMMANDS[0], COMMANDS[2]] {
        let output = home.netcliff([command, &["-i", "0.2", "--json"]].concat()).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        serde_json::from_slice::<serde_json::Value>(&output.stdout).expect("one object");
        assert!(intervals(&told).len() >= 2, "{command:?}: {told}");
    }
}
