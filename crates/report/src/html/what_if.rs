//! The link from a `find`'s page to the explorer, with the calibrated host in the address.

use maud::{Markup, html};
use netcliff_core::{Finding, Host};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

/// Address of the explorer if `netcliff serve` is started without `--listen`.
pub const EXPLORER: &str = "http://127.0.0.1:9941/";

/// Characters that would change the meaning of the address (web/src/state.ts).
const ESCAPED: &AsciiSet = &CONTROLS
    .add(b'%')
    .add(b'&')
    .add(b'#')
    .add(b'+')
    .add(b' ')
    .add(b'"')
    .add(b'<')
    .add(b'>')
    .add(b'`')
    .add(b'\\')
    .add(b'^')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// The address's fragment for a calibrated host. `None` if it was not calibrated.
fn fragment(finding: &Finding) -> Option<String> {
    let host = &finding.calibration.as_ref()?.host;
    let traffic = &finding.setup.traffic;
    let mut parts = vec![("host", Host::pentium4_2530mhz().name)];
    parts.extend(host.changes_from(&Host::pentium4_2530mhz()).into_iter().map(|change| ("set", change)));
    parts.push(("scheme", finding.setup.scheme.to_string()));
    parts.push(("arrivals", traffic.arrivals.to_string()));
    parts.push(("size", traffic.size.to_string()));
    parts.push(("link", netcliff_core::units::print_bps(traffic.link_bps)));
    let parts: Vec<String> =
        parts.iter().map(|(key, value)| format!("{key}={}", utf8_percent_encode(value, ESCAPED))).collect();
    Some(format!("#v1/explore?{}", parts.join("&")))
}

/// The link "Open these costs in the explorer" for the page's head; `None` if the host was not calibrated.
pub fn link(finding: &Finding) -> Option<Markup> {
    let fragment = fragment(finding)?;
    Some(html! {
        p { a href={ (EXPLORER) (fragment) } { "Open these costs in the explorer" } ", while " code { "netcliff serve" } " runs on this machine" }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_has_the_calibrated_host() {
        let text = include_str!("../../../../web/tests/data/find.json");
        let finding: Finding = serde_json::from_str(text).unwrap();
        let fragment = fragment(&finding).unwrap();
        assert!(
            fragment.starts_with("#v1/explore?host=pentium4-2530mhz&set=application=1.9069885724737677us&"),
            "{fragment}"
        );
        assert!(fragment.contains("&scheme=napi:weight=64,budget=300,budget_time=8ms,backlog=true&"), "{fragment}");
        let uncalibrated = Finding { calibration: None, ..finding };
        assert_eq!(super::fragment(&uncalibrated), None);
    }
}
