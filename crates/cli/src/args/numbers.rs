//! Numbers on the command line: a wrong one is told with the accepted form.

use std::net::{IpAddr, SocketAddr};

/// A whole number from `LOW` to `HIGH`.
pub fn whole<const LOW: u32, const HIGH: u32>(text: &str) -> Result<u32, String> {
    let number = text.trim().parse().ok().filter(|number| (LOW..=HIGH).contains(number));
    number.ok_or_else(|| format!("expected a whole number from {LOW} to {HIGH}, such as {}", LOW.max(1)))
}

/// A number of a byte.
pub fn byte(text: &str) -> Result<u8, String> {
    text.trim().parse().map_err(|_| "expected a whole number from 0 to 255, such as 16".to_owned())
}

/// An address, no name.
pub fn address(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| "expected an IP address such as 127.0.0.1 or ::1; a name is for --to".to_owned())
}

/// The name of a network device, such that a shell takes it for nothing else.
pub fn device(text: &str) -> Result<String, String> {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "._:@-".contains(letter);
    let fits = (1..=15).contains(&text.len()) && text.chars().all(plain) && !text.starts_with('-');
    if fits { Ok(text.to_owned()) } else { Err("expected the name of a network device, such as eth0".to_owned()) }
}

/// A name to find a run by: nothing that `compare` would take for a number, `last` or a file.
pub fn run_name(text: &str) -> Result<String, String> {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    let fits =
        (1..=60).contains(&text.len()) && text.chars().all(plain) && text.chars().any(|c| c.is_ascii_alphabetic());
    if fits && text != "last" {
        return Ok(text.to_owned());
    }
    Err("expected letters, digits, dots, dashes and underscores, not `last` and no number, such as new-kernel"
        .to_owned())
}

/// An address with a port.
pub fn listening(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| "expected an IP address and a port, such as 127.0.0.1:9940, 0.0.0.0:9940 or [::1]:9940".to_owned())
}
