//! Rows of a trial's ledger.

use netcliff_core::ledger::Ledger;

use crate::format;

/// What became of packets, how many, their share of those sent, and what counted them: delivered first, the unexplained last.
pub fn rows(ledger: &Ledger) -> Vec<[String; 4]> {
    let share = |packets: u64| match ledger.sent {
        0 => String::new(),
        sent => format::share(packets as f64 / sent as f64),
    };
    let row = |what: String, packets: u64, by: &str| [what, packets.to_string(), share(packets), by.to_owned()];
    let dropped = ledger.dropped.iter();
    let dropped = dropped.map(|one| row(format!("{}: {}", one.place.name(), one.reason), one.packets, &one.source));
    let unexplained = ["unexplained".to_owned(), ledger.unexplained.to_string(), String::new(), ledger.method.clone()];
    [row("delivered".to_owned(), ledger.delivered, "the receiver")]
        .into_iter()
        .chain(dropped)
        .chain([row("still inside".to_owned(), ledger.inside, ""), unexplained])
        .collect()
}
