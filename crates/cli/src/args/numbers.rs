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

/// An address with a port.
pub fn listening(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| "expected an IP address and a port, such as 127.0.0.1:9940, 0.0.0.0:9940 or [::1]:9940".to_owned())
}
