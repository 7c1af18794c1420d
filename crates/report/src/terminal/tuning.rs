//! [`plan`]: what `netcliff tune plan` prints.

use netcliff_core::tuning::{PlanSheet, in_short};

use super::Style;
use super::page::{Page, Tone};

/// An effect longer than this is given once (bytes): more than a line.
const LONG: usize = 80;

/// Each setting with its reason, its source and what it is expected to change; then what the plan does not do.
pub fn plan(plan: &PlanSheet, style: Style) -> String {
    let mut page = Page::new(style);
    let count = plan.proposals.len();
    let settings = if count == 1 { "1 setting".to_owned() } else { format!("{count} settings") };
    let objective = plan.objective.name();
    let then = match count {
        0 => "what this host has and the planner knows is set for it already".to_owned(),
        _ => format!(
            "`netcliff tune try --objective {objective}` measures them, `tune apply` makes them, `tune undo` takes them back"
        ),
    };
    page.paragraph(0, Tone::Strong, &format!("For {objective}: {settings} to change; {then}."));
    for (place, one) in plan.proposals.iter().enumerate() {
        page.paragraph(2, Tone::Strong, &format!("{}: {} -> {}", one.name, in_short(&one.old), in_short(&one.new)));
        page.paragraph(4, Tone::Plain, &format!("why: {} [{}]", one.reason, one.source));
        if let Some(effect) = &one.effect {
            // Several settings that work as one are explained once.
            let said = plan.proposals[..place]
                .iter()
                .find(|before| before.effect.as_ref() == Some(effect) && effect.len() > LONG);
            let told = said.map_or_else(|| effect.clone(), |before| format!("as for {}", before.name));
            page.paragraph(4, Tone::Plain, &format!("expected: {told}"));
        }
        page.paragraph(4, Tone::Plain, &format!("do:  {}", one.command));
    }
    if !plan.notes.is_empty() {
        page.heading("NOTES");
        plan.notes.iter().for_each(|note| page.item("- ", note));
    }
    page.finish()
}
