//! Which frames an interface's device time-stamps: [`Stamping`].
//!
//! The setting is read and made by ioctl, which every driver with time stamps supports; netlink has an equivalent only
//! since Linux 6.14.

use std::{fmt, io, str::FromStr};

use super::ioctl;

/// SIOCSHWTSTAMP and SIOCGHWTSTAMP, linux/sockios.h.
const SIOCSHWTSTAMP: u16 = 0x89b0;
const SIOCGHWTSTAMP: u16 = 0x89b1;

/// `struct hwtstamp_config`, linux/net_tstamp.h.
#[repr(C)]
struct Config {
    flags: i32,
    tx_type: i32,
    rx_filter: i32,
}

/// HWTSTAMP_TX_*, linux/net_tstamp.h, by the kernel's names for them.
const TRANSMIT: [&str; 4] = ["off", "on", "onestep-sync", "onestep-p2p"];
/// HWTSTAMP_FILTER_*, linux/net_tstamp.h, by the kernel's names for them.
const RECEIVE: [&str; 16] = [
    "none",
    "all",
    "some",
    "ptpv1-l4-event",
    "ptpv1-l4-sync",
    "ptpv1-l4-delay-req",
    "ptpv2-l4-event",
    "ptpv2-l4-sync",
    "ptpv2-l4-delay-req",
    "ptpv2-l2-event",
    "ptpv2-l2-sync",
    "ptpv2-l2-delay-req",
    "ptpv2-event",
    "ptpv2-sync",
    "ptpv2-delay-req",
    "ntp-all",
];

/// Which frames a device stamps. As text `transmit=on receive=all`; a value without a name here is printed as a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamping {
    /// HWTSTAMP_TX_*.
    pub transmit: i32,
    /// HWTSTAMP_FILTER_*.
    pub receive: i32,
    /// HWTSTAMP_FLAG_*.
    pub flags: i32,
}

impl Stamping {
    /// Stamps every received frame, and each transmitted frame whose socket requests a stamp.
    pub const ALL: Self = Self { transmit: 1, receive: 1, flags: 0 };

    /// Present setting of an interface of the thread's network namespace.
    ///
    /// # Errors
    /// There is no such interface, or its driver does not stamp frames or does not report the setting.
    pub fn of(interface: &str) -> io::Result<Self> {
        let mut config = Config { flags: 0, tx_type: 0, rx_filter: 0 };
        ioctl::request(interface, SIOCGHWTSTAMP, &mut config)?;
        Ok(Self { transmit: config.tx_type, receive: config.rx_filter, flags: config.flags })
    }

    /// Makes this setting at an interface of the thread's network namespace. [`Stamping::of`] then returns what the
    /// driver chose: it may stamp more frames than requested.
    ///
    /// # Errors
    /// The driver does not support the setting, or the right to change it is missing (CAP_NET_ADMIN).
    pub fn set(self, interface: &str) -> io::Result<()> {
        let mut config = Config { flags: self.flags, tx_type: self.transmit, rx_filter: self.receive };
        ioctl::request(interface, SIOCSHWTSTAMP, &mut config)
    }
}

impl fmt::Display for Stamping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = |names: &[&str], number: i32| {
            let name = usize::try_from(number).ok().and_then(|at| names.get(at).copied());
            name.map_or_else(|| number.to_string(), str::to_owned)
        };
        write!(f, "transmit={} receive={}", named(&TRANSMIT, self.transmit), named(&RECEIVE, self.receive))?;
        if self.flags != 0 {
            write!(f, " flags={}", self.flags)?;
        }
        Ok(())
    }
}

impl FromStr for Stamping {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not such as \"transmit=on receive=all\"");
        let number = |names: &[&str], word: &str| {
            let named = names.iter().position(|name| *name == word).and_then(|at| i32::try_from(at).ok());
            named.or_else(|| word.parse().ok()).ok_or_else(wrong)
        };
        let (mut transmit, mut receive, mut flags) = (None, None, 0);
        for (key, value) in text.split_whitespace().map(|word| word.split_once('=').unwrap_or((word, ""))) {
            match key {
                "transmit" => transmit = Some(number(&TRANSMIT, value)?),
                "receive" => receive = Some(number(&RECEIVE, value)?),
                "flags" => flags = value.parse().map_err(|_| wrong())?,
                _ => return Err(wrong()),
            }
        }
        let (transmit, receive) = transmit.zip(receive).ok_or_else(wrong)?;
        Ok(Self { transmit, receive, flags })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_text_and_back() {
        for (stamping, text) in [
            (Stamping::ALL, "transmit=on receive=all"),
            (Stamping { transmit: 0, receive: 12, flags: 0 }, "transmit=off receive=ptpv2-event"),
            (Stamping { transmit: 9, receive: 77, flags: 1 }, "transmit=9 receive=77 flags=1"),
        ] {
            assert_eq!(stamping.to_string(), text);
            assert_eq!(text.parse(), Ok(stamping));
        }
        for wrong in ["", "transmit=on", "transmit=often receive=all", "on all", "transmit=on receive=all x=1"] {
            assert!(wrong.parse::<Stamping>().unwrap_err().contains("receive=all"), "{wrong}");
        }
    }

    #[test]
    fn what_does_not_stamp_says_so() {
        for interface in ["lo", "no-such-if"] {
            assert!(Stamping::of(interface).is_err() && Stamping::ALL.set(interface).is_err(), "{interface}");
        }
    }
}
