//! The page of an experiment of forwarding.

use netcliff_report::{Style, csv, html, terminal};
use netcliff_rfc2544::forwarding::GainLimit;

use crate::routers::{drawing, report};

#[test]
fn the_terminal_says_what_bounds_each_figure_and_what_was_set() {
    let page = terminal::forwarding(&report(), Style { width: 80, ..Style::default() });
    for part in [
        "A router",
        ">= 700",
        "shared CPU",
        "960 kpps",
        "AGAINST PLAIN",
        "+100 %",
        "netfilter: not measured",
        "rps_cpus 0 -> 2",
        "xdp: this kernel may lack it",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
}

#[test]
fn gains_of_lower_limits_are_marked() {
    let mut report = report();
    for (limit, marked) in
        [(GainLimit::AtLeast, ">= +100 %"), (GainLimit::AtMost, "<= +100 %"), (GainLimit::Open, "open")]
    {
        report.rows[3].gain_limit = Some(limit);
        let page = terminal::forwarding(&report, Style { width: 80, ..Style::default() });
        let mut against = page.lines().skip_while(|line| !line.starts_with("AGAINST"));
        let row = against.find(|line| line.trim().starts_with("1518B")).expect("a row");
        assert!(row.contains(marked), "{page}");
        assert_eq!(page.contains("the tester limits both"), limit == GainLimit::Open, "{page}");
        assert!(html::forwarding(&report, &drawing(&report)).contains(&marked.replace(['<', '>'], "")[..4]));
    }
}

#[test]
fn the_page_has_a_picture_of_each_line() {
    let report = report();
    let page = html::forwarding(&report, &drawing(&report));
    assert_eq!(page.matches("<figure").count(), 4, "frame rates, and shares of three lines");
    for part in [
        "as figure 11 of Gasparakis and Waskiewicz 2010",
        "as figure 12 of Gasparakis and Waskiewicz 2010",
        "25.0 Gbit/s",
        "shared CPU",
    ] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn csv_has_a_row_a_search() {
    let text = csv::forwarding(&report());
    let rows: Vec<&str> = text.lines().collect();
    assert_eq!(rows.len(), 9, "{text}");
    assert!(rows[0].starts_with("frame_bytes,set_up,round,throughput_pps"), "{text}");
    assert_eq!(rows[3], "64.0,tuned,1,800000.0,840000.0,router,1200000.0,960000.0,970000.0,1e-6,2e-6,60,3.0");
    assert_eq!(rows[0].split(',').count(), rows[3].split(',').count());
}
