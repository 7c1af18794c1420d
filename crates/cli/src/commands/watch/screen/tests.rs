//! Compares the screen to the letter, and tests the keys.

use super::*;
use netcliff_core::watch::QueueMoment;

fn view() -> View {
    let cpu = |cpu, softirq| CpuMoment {
        cpu,
        user: 0.125,
        softirq,
        idle: 0.875 - softirq,
        packets_per_s: 1e6 * softirq,
        packets_per_softirq: (softirq > 0.0).then_some(42.25),
        ..CpuMoment::default()
    };
    let interrupt = |number, per_s| InterruptMoment {
        interface: "eth0".into(),
        number,
        name: format!("eth0-TxRx-{}", number - 40),
        per_s,
        cpu: (per_s > 0.0).then_some(number - 40),
    };
    let queue =
        |queue, receive| QueueMoment { queue, receive, packets_per_s: 250e3, dropped_per_s: receive.then_some(3.0) };
    let interface = InterfaceMoment {
        name: "eth0".into(),
        rx_pps: 500e3,
        rx_bps: 256e6,
        tx_pps: 12.0,
        tx_bps: 9e3,
        ring_lost_per_s: 3.0,
        link_bps: Some(1e10),
        queues: vec![queue(0, true), queue(1, true), queue(0, false)],
        ..InterfaceMoment::default()
    };
    let moment = Moment {
        seconds: 1.0,
        cpus: vec![cpu(0, 0.0), cpu(1, 0.5)],
        interrupts: vec![interrupt(40, 0.0), interrupt(41, 12_345.0)],
        interfaces: vec![interface],
        ..Moment::default()
    };
    View { moment, ..View::default() }
}

/// Views for the states of the screen, each with a name.
fn states() -> Vec<(&'static str, View)> {
    let every = View { paused: true, recording: true, by_load: true, can_record: true, all: true, ..view() };
    let mut none = view();
    none.moment.interfaces.clear();
    none.moment.interrupts.clear();
    let mut spaces = View { all: true, ..view() };
    let inside = |number: u32| InterfaceMoment {
        name: format!("veth{}", number % 2),
        namespace: Some(format!("nc-{}-{}", 4_194_303, if number.is_multiple_of(2) { "snd" } else { "host" })),
        rx_pps: 10e3 * f64::from(number),
        rx_bps: 1e9,
        dropped_per_s: 7.0,
        ring_lost_per_s: 2.0,
        ..InterfaceMoment::default()
    };
    spaces.moment.interfaces.extend((0..9).map(inside));
    let mut busy = view();
    for (number, cpu) in busy.moment.cpus.iter_mut().enumerate() {
        let share = 0.2 + 0.04 * number as f64;
        *cpu = CpuMoment { user: share, system: share, irq: 0.1, softirq: 0.3, steal: 0.05, idle: 0.0, ..*cpu };
    }
    vec![
        ("running", view()),
        ("paused", every.clone()),
        ("help", View { help: true, ..every }),
        ("no-devices", none),
        ("namespaces", spaces),
        ("busy", busy),
    ]
}

/// Each state fits a terminal of 80 columns, and uses a wide one up to 120 columns.
#[test]
fn each_state_at_80_and_120_columns() {
    let mut screens = String::new();
    for (name, view) in states() {
        for (width, height) in [(80, 24), (120, 30), (200, 30)] {
            let seen = text(&view, width, height);
            assert!(seen.lines().all(|line| line.chars().count() <= 120), "{name}\n{seen}");
            assert!(seen.lines().next().is_some_and(|head| head.ends_with("? help, q quit")), "{name}\n{seen}");
            if width < 200 {
                screens += &format!("#### {name}, {width} columns\n{seen}\n");
            }
        }
    }
    screens += &format!("#### too small, 40 columns\n{}\n", text(&view(), 40, 10));
    insta::assert_snapshot!("watch", screens);
}

#[test]
fn one_sample_has_no_keys() {
    let seen = text(&View { once: true, ..view() }, 80, 24);
    assert!(seen.starts_with("netcliff watch: one sample over 1.0 s\n"), "{seen}");
}

/// The help fits a terminal of 80x24: no line is below its end.
#[test]
fn the_help_fits() {
    let view = View { help: true, ..view() };
    assert!(help::lines(&view).len() <= 23, "{} lines", help::lines(&view).len());
    let mut view = view;
    assert!(view.press(KeyCode::Esc) && !view.help, "it closes the help, not the watch");
    assert!(view.press(KeyCode::Char('?')) && view.help);
}

/// Programs and losses of sockets have separate lines. Without interrupts and queues, there are no heads of empty
/// tables.
#[test]
fn programs_and_losses_have_lines() {
    use netcliff_core::watch::{LossMoment, ProgramMoment};
    let mut bare = view();
    bare.moment.interrupts.clear();
    bare.moment.interfaces.iter_mut().for_each(|one| one.queues.clear());
    let sockets = Some(vec!["udp 0.0.0.0:53".to_owned()]);
    let program = ProgramMoment { cpu: 1, pid: 7, name: "dnsmasq".into(), share: 0.94, sockets, ..Default::default() };
    bare.moment.programs = vec![program];
    let words = "receive buffers of UDP sockets".into();
    bare.moment.losses =
        vec![LossMoment { reason: "udp_receive_buffer".into(), words, per_s: 31e3, ..LossMoment::default() }];
    let seen = text(&bare, 100, height(&bare));
    for says in [
        "  dnsmasq (pid 7, udp 0.0.0.0:53): 94 % of CPU 1",
        "  packets lost at receive buffers of UDP sockets: 31000/s",
        "queues of eth0: not reported by this driver",
    ] {
        assert!(seen.contains(says), "{says} in:\n{seen}");
    }
    assert!(!seen.contains("irq name"), "{seen}");
    assert!(seen.lines().skip(3).all(|line| !line.is_empty()), "{seen}");
}

/// A CPU's bar is as long as it is busy, whatever it is busy with.
#[test]
fn bars_add_up() {
    let (_, busy) = states().pop().expect("states");
    let seen = text(&busy, 120, 30);
    let letters = |row: usize| {
        let line = seen.lines().nth(row).unwrap_or_default();
        let bar = line.split_whitespace().nth(1).unwrap_or_default().to_owned();
        ['u', 's', 'i', 'p', 't'].map(|letter| bar.matches(letter).count())
    };
    // 40 columns: 20 % user, 20 % system, 10 % interrupts, 30 % softirqs, 5 % stolen.
    let row = seen.lines().position(|line| line.trim_start().starts_with("0 u")).expect("CPU 0");
    assert_eq!(letters(row), [8, 8, 4, 12, 2], "{seen}");
}

#[test]
fn the_screen_of_80_by_24() {
    let many = View { moment: Moment { cpus: vec![CpuMoment::default(); 64], ..view().moment }, ..view() };
    let shown = |height| text(&many, 80, height).lines().filter(|line| line.starts_with("  0 ")).count();
    // One of the lines gives the number of hidden ones. A tall terminal shows all.
    assert_eq!((shown(24), shown(60), shown(120)), (12, 48, 64));
    assert!(text(&many, 80, 24).contains("52 more below"), "{}", text(&many, 80, 24));
    // Too small a screen shows less and does not fail.
    assert!(text(&view(), 20, 3).contains("The terminal is too"));
}

#[test]
fn what_does_not_fit_is_counted_and_reached_by_keys() {
    let mut many = view();
    let one = many.moment.interrupts[0].clone();
    many.moment.interrupts = (100..140).map(|number| InterruptMoment { number, ..one.clone() }).collect();
    let seen = text(&many, 80, 24);
    // Two CPUs, one interface and one loss leave 14 rows, the last of which counts the others.
    assert!(seen.contains(" 100 ") && seen.contains("27 more below") && !seen.contains(" 113 "), "{seen}");
    many.press(KeyCode::Down);
    many.press(KeyCode::PageDown);
    let seen = text(&many, 80, 24);
    assert!(seen.contains(" 111 ") && seen.contains("11 more above, 16 below"), "{seen}");
    assert!((0..9).all(|_| many.press(KeyCode::PageDown)));
    let seen = text(&many, 80, 24);
    assert!(seen.contains(" 139 ") && seen.contains("27 more above"), "{seen}");
    assert!((0..9).all(|_| many.press(KeyCode::PageUp)));
    assert!(text(&many, 80, 24).contains(" 100 "));
    assert!(!text(&many, 80, height(&many)).contains("more"), "all of it where there is room");
}

#[test]
fn rows_for_cpus() {
    assert_eq!((cpus_shown(4, 6, 16), cpus_shown(64, 6, 16), cpus_shown(64, 30, 17)), (4, 10, 8));
    assert_eq!((cpus_shown(64, 30, 60), cpus_shown(64, 6, 100), cpus_shown(64, 6, 2)), (30, 64, 2));
}

#[test]
fn a_driver_that_tells_no_queues_is_named() {
    let mut view = view();
    view.moment.interfaces[0].queues.clear();
    let seen = text(&view, 80, 24);
    assert!(seen.contains("eth0: not reported by this driver"), "{seen}");
}

#[test]
fn keys() {
    let mut view = View { can_record: true, ..view() };
    for key in ['p', 's', 'r'] {
        assert!(view.press(KeyCode::Char(key)));
    }
    assert!(view.paused && view.by_load && view.recording);
    assert!(text(&view, 80, 24).contains("paused, recording, by load"));
    assert_eq!((view.cpus()[0].cpu, view.interrupts()[0].number), (1, 41));
    view.press(KeyCode::Char('r'));
    assert!(!view.recording);
    let mut without = View::default();
    without.press(KeyCode::Char('r'));
    assert!(!without.recording, "there is no file");
    assert!(!without.press(KeyCode::Char('q')));
}

#[test]
fn before_the_first_sample_no_figure_is_shown() {
    let waiting = View { first_s: Some(1.0), ..view() };
    let said = text(&waiting, 80, 24);
    assert!(said.contains("measuring the first interval of 1s") && said.lines().count() < 4, "{said}");
    assert!(text(&View { first_s: None, ..waiting }, 80, 24).lines().count() > 4);
}
