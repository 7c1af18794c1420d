//! [`stack`]: a table whose rows become cards on a phone, where each value carries its column's name.

use maud::{Markup, html};

/// A cell and whether it may be broken into lines.
pub enum Cell {
    /// A figure, kept on one line where there is room.
    Figure(Markup),
    /// Words, in as many lines as they need.
    Words(Markup),
}

/// A figure as it is written.
pub fn figure(text: impl AsRef<str>) -> Cell {
    Cell::Figure(html! { (text.as_ref()) })
}

/// Words as they are.
pub fn words(text: impl AsRef<str>) -> Cell {
    Cell::Words(html! { (text.as_ref()) })
}

/// A table with its columns' names; the first cell of a row names the row.
pub fn stack<'a>(heads: &[impl AsRef<str>], rows: impl IntoIterator<Item = Vec<Cell>> + 'a) -> Markup {
    html! {
        div.scroll {
            table.stack {
                thead { tr { @for head in heads { th scope="col" { (head.as_ref()) } } } }
                tbody { @for row in rows { (line(heads, row)) } }
            }
        }
    }
}

/// The same where it may be wider than any screen: it is scrolled by keys too, and has a name.
pub fn wide_stack<'a>(name: &str, heads: &[impl AsRef<str>], rows: impl IntoIterator<Item = Vec<Cell>> + 'a) -> Markup {
    html! { div.wide-table tabindex="0" role="region" aria-label=(name) { (stack(heads, rows)) } }
}

fn line(heads: &[impl AsRef<str>], row: Vec<Cell>) -> Markup {
    html! {
        tr {
            @for (at, cell) in row.into_iter().enumerate() {
                @let head = heads.get(at).map_or("", AsRef::as_ref);
                @match (at, cell) {
                    (0, Cell::Figure(content) | Cell::Words(content)) => th scope="row" { (content) },
                    (_, Cell::Figure(content)) => td data-label=(head) { (content) },
                    (_, Cell::Words(content)) => td.words data-label=(head) { (content) },
                }
            }
        }
    }
}
