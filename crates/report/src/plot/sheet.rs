//! A drawn figure: its size, the part of it that a page shows, and the document around it.

use maud::{Markup, PreEscaped, html};

/// Width of the screens that a sheet is drawn for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For a width of 568 pixels and more: at that width the text is 12 pixels high.
    Wide,
    /// For a width below 568 pixels: on a phone of 320 pixels the text is 12 pixels high.
    Narrow,
}

impl Format {
    /// Width of the sheet in drawing units.
    pub const fn width(self) -> f64 {
        match self {
            Self::Wide => 640.0,
            Self::Narrow => 320.0,
        }
    }

    /// Height of its text in drawing units: at 568 of 640 and at 294 of 320 pixels that is 12 pixels.
    pub const fn font(self) -> f64 {
        match self {
            Self::Wide => 13.6,
            Self::Narrow => 13.1,
        }
    }

    /// Height of the plot itself.
    pub const fn plot_height(self) -> f64 {
        match self {
            Self::Wide => 290.0,
            Self::Narrow => 230.0,
        }
    }

    /// CSS class of the sheet in a page.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Wide => "wide",
            Self::Narrow => "narrow",
        }
    }
}

/// Space at the edges of a sheet in drawing units.
pub const MARGIN: f64 = 12.0;
const FONTS: &str = "Helvetica Neue, Arial, Liberation Sans, sans-serif";
/// Media query that is true if a phone opens the SVG file in portrait mode. Inside a page it is never true, because a
/// picture there has a fixed shape.
const UPRIGHT: &str = "(max-width: 599px) and (orientation: portrait)";

/// A drawn figure.
#[derive(Debug, Clone)]
pub struct Sheet {
    pub format: Format,
    pub title: String,
    pub words: String,
    pub height: f64,
    /// Upper and lower edge of the part that a page shows. Title and legend are outside.
    pub shown: (f64, f64),
    /// Left, top, width and height of the plot itself, for the script. `None` if it has no values to read out.
    pub frame: Option<[f64; 4]>,
    pub body: Markup,
}

impl Sheet {
    /// The figure in a page. Parts that the page shows itself are outside the view box; a download includes them.
    pub fn inline(&self) -> Markup {
        let (width, (top, bottom)) = (number(self.format.width()), self.shown);
        let frame = self.frame.map(|frame| frame.map(number).join(" "));
        html! {
            svg .(self.format.name()) role="img" aria-label={ (self.title) ". " (self.words) }
                viewBox={ "0 " (number(top)) " " (width) " " (number(bottom - top)) }
                data-full={ "0 0 " (width) " " (number(self.height)) } data-plot=[frame] { (self.content()) }
        }
    }

    fn content(&self) -> Markup {
        html! {
            g font-family=(FONTS) font-size=(number(self.format.font())) {
                rect.paper width=(number(self.format.width())) height=(number(self.height)) fill="#ffffff" {}
                (self.body)
            }
        }
    }

    /// The sheet within a document, scaled to the width of the wide sheet.
    fn nested(&self) -> Markup {
        let (own, across) = (self.format.width(), Format::Wide.width());
        let hidden = (self.format == Format::Narrow).then_some("none");
        html! {
            svg .(self.format.name()) display=[hidden] width=(number(across)) height=(number(self.height * across / own))
                viewBox={ "0 0 " (number(own)) " " (number(self.height)) } { (self.content()) }
        }
    }
}

/// A document with its own title and words that shows the first sheet, or the second one if a phone opens it.
pub fn document([wide, narrow]: &[Sheet; 2]) -> Markup {
    let (width, height) = (number(wide.format.width()), number(wide.height));
    let high = number(100.0 * narrow.height / narrow.format.width());
    let style = format!(
        "@media {UPRIGHT} {{ :root {{ width: 100vw; height: {high}vw; }} .wide {{ display: none; }} .narrow {{ display: inline; }} }}"
    );
    html! {
        svg xmlns="http://www.w3.org/2000/svg" width=(width) height=(height) viewBox={ "0 0 " (width) " " (height) }
            preserveAspectRatio="xMidYMin meet" overflow="visible" role="img" aria-label={ (wide.title) ". " (wide.words) } {
            title { (wide.title) }
            desc { (wide.words) }
            style { (PreEscaped(style)) }
            (wide.nested())
            (narrow.nested())
        }
    }
}

/// A coordinate with at most one decimal.
pub fn number(value: f64) -> String {
    let text = format!("{value:.1}");
    let text = text.strip_suffix(".0").unwrap_or(&text);
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}
