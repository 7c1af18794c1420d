//! Numbers on the command line: a wrong one is refused with the accepted form.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

use netcliff_core::{endpoint, units};

/// A whole number from `LOW` to `HIGH`.
pub fn whole<const LOW: u32, const HIGH: u32>(text: &str) -> Result<u32, String> {
    let number = text.trim().parse().ok().filter(|number| (LOW..=HIGH).contains(number));
    number.ok_or_else(|| format!("expected a whole number from {LOW} to {HIGH}, such as {}", LOW.max(1)))
}

/// A size in a range (bytes), written as for [`bytes`].
pub fn size(text: &str, range: RangeInclusive<u32>, example: &str) -> Result<u32, String> {
    let bytes = bytes(text).ok().and_then(|bytes| u32::try_from(bytes).ok());
    bytes.filter(|bytes| range.contains(bytes)).ok_or_else(|| {
        let [least, most] = [range.start(), range.end()].map(|bytes| units::print_bytes(u64::from(*bytes)));
        format!("expected a size in bytes or with a unit (KiB, MiB or GiB), {least} to {most}, such as {example}")
    })
}

/// Highest accepted number of a CPU. Linux has at most 8192 CPUs, so a higher number is a typing mistake.
const MOST_CPUS: usize = 8192;

/// Parses the CPUs of two ends. Each end is a CPU or a list of CPUs.
pub fn cpu_lists(text: &str) -> Result<(Vec<usize>, Vec<usize>), String> {
    let pair = text.split_once(',').and_then(|(a, b)| Some((cpu_list(a)?, cpu_list(b)?)));
    pair.ok_or("expected two CPU numbers, such as 0,1, or lists of them, such as 0-3,4-7 or 0+2,1+3".to_owned())
}

/// Parses the CPUs of two ends, or `any`, which gives two empty lists: no CPU is chosen.
pub fn cpu_lists_or_any(text: &str) -> Result<(Vec<usize>, Vec<usize>), String> {
    if text.trim() == "any" {
        Ok((Vec::new(), Vec::new()))
    } else {
        cpu_lists(text).map_err(|error| error + "; or any")
    }
}

/// CPUs of an end's threads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cpus {
    /// These CPUs. Empty: any CPU.
    List(Vec<usize>),
    /// Distance in CPUs from the one that handles the flow's packets.
    Rx(u32),
}

impl Cpus {
    /// The list. Empty for any CPU, and for [`Self::Rx`].
    pub fn list(&self) -> &[usize] {
        if let Self::List(cpus) = self { cpus } else { &[] }
    }

    /// The distance from the CPU that handles the packets. `None` for a list.
    pub fn rx(&self) -> Option<u32> {
        if let Self::Rx(distance) = self { Some(*distance) } else { None }
    }
}

/// Parses the CPUs of sender and receiver: lists, `rx+N`, or `any` for both.
pub fn cpus_or_any(text: &str) -> Result<(Cpus, Cpus), String> {
    let rx = |text: &str| -> Option<Result<Cpus, String>> {
        let rest = text.trim().strip_prefix("rx")?;
        let number =
            if rest.is_empty() { Some(0) } else { rest.strip_prefix('+').and_then(|number| number.parse().ok()) };
        let fits = number.filter(|number| *number as usize <= MOST_CPUS);
        Some(fits.map(Cpus::Rx).ok_or_else(|| format!("'{text}': expected rx or rx+N, such as rx+1")))
    };
    if !text.split(',').any(|end| end.trim().starts_with("rx")) {
        return cpu_lists_or_any(text).map(|(sender, receiver)| (Cpus::List(sender), Cpus::List(receiver)));
    }
    let accepted = || "expected sender and receiver, such as 0,rx+1 or rx+1,rx+1".to_owned();
    let (sender, receiver) =
        text.split_once(',').filter(|(_, receiver)| !receiver.contains(',')).ok_or_else(accepted)?;
    let end = |text: &str| match rx(text) {
        Some(rx) => rx,
        None if text.trim() == "any" => Ok(Cpus::List(Vec::new())),
        None => cpu_list(text).map(Cpus::List).ok_or_else(accepted),
    };
    Ok((end(sender)?, end(receiver)?))
}

/// Several CPUs of this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuSet(pub Vec<usize>);

/// Parses a set of CPUs, such as `2` or `0,4-7`.
pub fn cpu_set(text: &str) -> Result<CpuSet, String> {
    let lists: Option<Vec<Vec<usize>>> = text.split(',').map(cpu_list).collect();
    let cpus: Option<Vec<usize>> = lists.map(|lists| lists.concat()).filter(|cpus| cpus.len() <= MOST_CPUS);
    cpus.map(CpuSet).ok_or_else(|| "expected numbers of CPUs, such as 2 or 0,4-7".to_owned())
}

/// Parses the CPUs of one end, such as `0`, `0-3` or `0+2`. `None` if the text is invalid or the list too long.
fn cpu_list(text: &str) -> Option<Vec<usize>> {
    let number = |text: &str| text.trim().parse::<usize>().ok().filter(|cpu| *cpu <= MOST_CPUS);
    let run = |text: &str| match text.split_once('-') {
        None => number(text).map(|cpu| cpu..=cpu),
        Some((from, to)) => Some(number(from)?..=number(to)?).filter(|run| !run.is_empty()),
    };
    let runs: Option<Vec<_>> = text.split('+').map(run).collect();
    let cpus: Vec<usize> = runs?.into_iter().flatten().take(MOST_CPUS + 1).collect();
    // A CPU may be named twice, but the list may not be longer than the largest number of CPUs.
    (cpus.len() <= MOST_CPUS).then_some(cpus)
}

/// Parses the value of a byte, decimal or hexadecimal with the prefix 0x.
pub fn byte(text: &str) -> Result<u8, String> {
    let text = text.trim();
    let number = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) if !digits.starts_with('+') => u8::from_str_radix(digits, 16).ok(),
        _ => text.parse().ok(),
    };
    number.ok_or_else(|| "expected a whole number from 0 to 255, such as 16 or 0x10".to_owned())
}

/// Parses an IP address. Refuses names.
pub fn address(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| "expected an IP address such as 127.0.0.1 or ::1; a name is for --to".to_owned())
}

/// Parses the name of a network device. Refuses characters that a shell would interpret.
pub fn device(text: &str) -> Result<String, String> {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "._:@-".contains(letter);
    let fits = (1..=15).contains(&text.len()) && text.chars().all(plain) && !text.starts_with('-');
    if fits { Ok(text.to_owned()) } else { Err("expected the name of a network device, such as eth0".to_owned()) }
}

/// Parses a name for a run. Refuses numbers, `last` and paths, which `compare` would not read as a name.
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

/// Parses an IP address with a port.
pub fn listening(text: &str) -> Result<SocketAddr, String> {
    endpoint::socket_address(text).map_err(|error| error.to_string())
}

/// Parses a time (s). As in iperf3 and ping, a number without a unit is in seconds.
pub fn seconds(text: &str) -> Result<f64, String> {
    let text = text.trim();
    match text.parse::<f64>() {
        Ok(seconds) if seconds.is_finite() && seconds >= 0.0 => Ok(seconds),
        Ok(_) => Err(format!("{text}: expected a time of at least 0, such as 10 (seconds) or 500ms")),
        Err(_) => netcliff_core::units::parse_time_s(text).map_err(|error| error.to_string()),
    }
}

/// Interval between lines (s). `None`: no lines.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LineInterval(pub Option<f64>);

/// Parses an interval between lines of at most a day. As in iperf3, 0 means no lines.
pub fn line_interval(text: &str) -> Result<LineInterval, String> {
    let seconds = seconds(text)?;
    if seconds > 86_400.0 {
        return Err("expected at most a day, such as 1".into());
    }
    Ok(LineInterval((seconds > 0.0).then_some(seconds)))
}

/// Parses a size in bytes. As in iperf3, a number without a suffix is in bytes, and K, M and G without a B, in upper or
/// lower case, are powers of 1024.
pub fn bytes(text: &str) -> Result<u64, String> {
    let with_unit = with_unit(text, "B", &[('K', "KiB"), ('M', "MiB"), ('G', "GiB")]);
    netcliff_core::units::parse_bytes(&with_unit).map_err(|error| error.to_string())
}

/// Parses a bit rate (bit/s). As in iperf3, a number without a suffix is in bit/s, and K, M, G and T, in upper or lower
/// case, are powers of 1000. As in tc, Mbit means Mbit/s.
pub fn bit_rate_bps(text: &str) -> Result<f64, String> {
    if let Some((rate, packets)) = text.split_once('/')
        && packets.parse::<u32>().is_ok()
    {
        return Err(format!("{text}: bursts are of one block here; leave /{packets} out: {rate}"));
    }
    let with_unit = match text.trim() {
        text if text.ends_with("bit") => format!("{text}/s"),
        text => with_unit(text, "bit/s", &[('K', "kbit/s"), ('M', "Mbit/s"), ('G', "Gbit/s"), ('T', "Tbit/s")]),
    };
    netcliff_core::units::parse_bps(&with_unit).map_err(|error| error.to_string())
}

/// Completes the unit of a number: appends `unit` to a number without a suffix, and replaces a suffix that is one of
/// `prefixes`, in upper or lower case, by its unit. Returns any other text unchanged.
fn with_unit(text: &str, unit: &str, prefixes: &[(char, &str)]) -> String {
    let is_number = |text: &str| text.parse::<f64>().is_ok_and(|number| number.is_finite() && number >= 0.0);
    let prefixed = prefixes.iter().find_map(|(prefix, unit)| {
        let number = text.strip_suffix([*prefix, prefix.to_ascii_lowercase()]).filter(|number| is_number(number))?;
        Some(format!("{number}{unit}"))
    });
    prefixed.unwrap_or_else(|| if is_number(text) { format!("{text}{unit}") } else { text.to_owned() })
}

/// Earliest start of the runs that are listed.
#[derive(Debug, Clone, PartialEq)]
pub enum Since {
    /// A UTC date, with or without a time, in the form that `results list` prints.
    Date(String),
    /// This long before now (s).
    Ago(f64),
}

/// Reads `--since`.
pub fn since(text: &str) -> Result<Since, String> {
    let form = || {
        "expected a UTC date such as 2026-11-22 or \"2026-11-22 10:00\", or a time before now, such as 90m, 12h or 7d"
            .to_owned()
    };
    let unit_s = [("min", 60.0), ("m", 60.0), ("h", 3600.0), ("d", 86400.0)];
    let ago = |(unit, seconds): (&str, f64)| {
        let count: f64 = text.strip_suffix(unit)?.parse().ok()?;
        (count.is_finite() && count >= 0.0).then_some(Since::Ago(count * seconds))
    };
    if let Some(ago) = unit_s.into_iter().find_map(ago) {
        return Ok(ago);
    }
    let pattern = "dddd-dd-dd dd:dd:dd";
    let fits = |(c, p): (char, char)| if p == 'd' { c.is_ascii_digit() } else { c == p };
    let whole = matches!(text.len(), 10 | 16 | 19) && text.chars().zip(pattern.chars()).all(fits);
    if whole { Ok(Since::Date(text.to_owned())) } else { Err(form()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A list is not longer than the largest number of CPUs, even if it names CPUs several times.
    #[test]
    fn lists_of_cpus_have_a_bound() {
        assert_eq!(cpu_lists("0-2+1,3"), Ok((vec![0, 1, 2, 1], vec![3])));
        assert_eq!(cpu_lists("0-8191,0").map(|(near, _)| near.len()), Ok(MOST_CPUS));
        let many = vec!["0-8191"; 10_000].join("+");
        for wrong in ["0-8191+0,1", "0-8193,1", "3-1,0", "0-18446744073709551615,1", "1", "0,", &format!("{many},0")] {
            assert!(cpu_lists(wrong).is_err(), "{}", &wrong[..wrong.len().min(20)]);
        }
    }

    #[test]
    fn so_long_ago_in_each_unit() {
        let ago = ["90m", "90min", "12h", "7d"].map(|text| since(text).unwrap());
        assert_eq!(ago, [5400.0, 5400.0, 43_200.0, 604_800.0].map(Since::Ago));
        assert!(["90", "90s", "-1h", "min"].iter().all(|text| since(text).is_err()));
    }

    #[test]
    fn numbers_as_users_of_iperf3_write_them() {
        assert_eq!((seconds("10"), seconds("0.5"), seconds("500ms")), (Ok(10.0), Ok(0.5), Ok(0.5)));
        assert_eq!((seconds("5min"), seconds("1h")), (Ok(300.0), Ok(3600.0)));
        assert_eq!(
            (bytes("1400"), bytes("64K"), bytes("1M"), bytes("64KiB")),
            (Ok(1400), Ok(65536), Ok(1 << 20), Ok(65536))
        );
        assert_eq!((bit_rate_bps("1G"), bit_rate_bps("100M")), (Ok(1e9), Ok(1e8)));
        assert_eq!((bytes("256k"), bytes("1m"), bytes("1g")), (Ok(256 << 10), Ok(1 << 20), Ok(1 << 30)));
        assert_eq!(["10m", "1g", "1T", "10Mbit"].map(bit_rate_bps), [Ok(1e7), Ok(1e9), Ok(1e12), Ok(1e7)]);
        assert!(bit_rate_bps("10M/100").is_err_and(|error| error.contains("leave /100 out")));
        assert_eq!((seconds(" 1"), byte("0x10"), byte("0xFF")), (Ok(1.0), Ok(16), Ok(255)));
        assert!(["0x", "0x100", "0x+1", "256", "-1"].iter().all(|wrong| byte(wrong).is_err()));
        assert_eq!((bit_rate_bps("64K"), bit_rate_bps("1Gbit/s"), bit_rate_bps("5000")), (Ok(64e3), Ok(1e9), Ok(5e3)));
        for wrong in ["-1", "inf", "NaN", "ten", "K", ""] {
            assert!(seconds(wrong).is_err() && bytes(wrong).is_err() && bit_rate_bps(wrong).is_err(), "{wrong}");
        }
    }
}
