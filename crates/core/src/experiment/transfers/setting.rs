//! Settings of a transfer and of the device below it, by their keys in experiment files.

use serde::{Deserialize, Serialize};

use super::device::{Coalesce, Feature, Pause};
use crate::error::ParseError;
use crate::outcome::Dimension;
use crate::units;

/// A setting that an experiment can vary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// The measuring method.
    Method,
    /// Which channel carries the bytes.
    Channel,
    /// IP version.
    Ip,
    /// Which end sends.
    Direction,
    /// How the sender writes blocks.
    Path,
    /// TCP_NODELAY.
    NoDelay,
    /// Congestion control.
    Congestion,
    /// Number of parallel flows.
    Flows,
    /// Number of threads that serve the flows at one end.
    Threads,
    /// Bytes per repeat.
    Bytes,
    /// Link rate, limited by a token bucket.
    Rate,
    /// Full or half duplex, if the link rate is limited.
    Duplex,
    /// MTU of both ends.
    Mtu,
    /// An offload of both ends.
    Feature(Feature),
    /// Interrupt coalescing of both ends.
    Coalesce(Coalesce),
    /// SO_SNDBUF of both ends.
    SendBuffer,
    /// SO_RCVBUF of both ends.
    ReceiveBuffer,
    /// Root qdisc of both ends, with its length.
    Qdisc,
    /// The host's net.core.netdev_max_backlog.
    Backlog,
    /// Whether blocks start at page boundaries.
    Align,
    /// Flow control of both ends.
    Pause(Pause),
    /// Bytes per write call.
    Block,
}

impl Key {
    /// All settings, in the order of reports.
    pub const ALL: [Self; 35] = {
        let [[adaptive_rx, rx_usecs, rx_frames], [adaptive_tx, tx_usecs, tx_frames]] = Coalesce::DIRECTIONS;
        [
            Self::Method,
            Self::Channel,
            Self::Ip,
            Self::Direction,
            Self::Path,
            Self::NoDelay,
            Self::Congestion,
            Self::Flows,
            Self::Threads,
            Self::Bytes,
            Self::Rate,
            Self::Duplex,
            Self::Mtu,
            Self::Feature(Feature::RxChecksum),
            Self::Feature(Feature::TxChecksum),
            Self::Feature(Feature::Sg),
            Self::Feature(Feature::Tso),
            Self::Feature(Feature::Gso),
            Self::Feature(Feature::Gro),
            Self::Feature(Feature::Lro),
            Self::Coalesce(rx_usecs),
            Self::Coalesce(rx_frames),
            Self::Coalesce(tx_usecs),
            Self::Coalesce(tx_frames),
            Self::Coalesce(adaptive_rx),
            Self::Coalesce(adaptive_tx),
            Self::SendBuffer,
            Self::ReceiveBuffer,
            Self::Qdisc,
            Self::Backlog,
            Self::Align,
            Self::Pause(Pause::Autoneg),
            Self::Pause(Pause::Receive),
            Self::Pause(Pause::Transmit),
            Self::Block,
        ]
    };

    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Method => "method",
            Self::Channel => "channel",
            Self::Ip => "ip",
            Self::Direction => "direction",
            Self::Path => "path",
            Self::NoDelay => "nodelay",
            Self::Congestion => "congestion",
            Self::Flows => "flows",
            Self::Threads => "threads",
            Self::Bytes => "bytes",
            Self::Rate => "rate",
            Self::Duplex => "duplex",
            Self::Mtu => "mtu",
            Self::Feature(Feature::RxChecksum) => "rx-checksum",
            Self::Feature(Feature::TxChecksum) => "tx-checksum",
            Self::Feature(Feature::Sg) => "sg",
            Self::Feature(Feature::Tso) => "tso",
            Self::Feature(Feature::Gso) => "gso",
            Self::Feature(Feature::Gro) => "gro",
            Self::Feature(Feature::Lro) => "lro",
            Self::Coalesce(what) => what.kernel_name(),
            Self::SendBuffer => "send-buffer",
            Self::ReceiveBuffer => "receive-buffer",
            Self::Qdisc => "qdisc",
            Self::Backlog => "backlog",
            Self::Align => "align",
            Self::Pause(what) => what.key(),
            Self::Block => "block",
        }
    }

    /// The name on an axis.
    pub fn label(self) -> &'static str {
        match self {
            Self::Block => "block size",
            Self::Rate => "link rate",
            Self::Ip => "IP version",
            Self::SendBuffer => "send buffer",
            Self::ReceiveBuffer => "receive buffer",
            other => other.name(),
        }
    }

    /// Dimension of its values; None if they are not numbers.
    pub fn dimension(self) -> Option<Dimension> {
        match self {
            Self::Block | Self::Bytes | Self::Mtu | Self::SendBuffer | Self::ReceiveBuffer => Some(Dimension::Bytes),
            Self::Rate => Some(Dimension::Bps),
            Self::Flows | Self::Threads | Self::Backlog | Self::Qdisc => Some(Dimension::Number),
            Self::Coalesce(what) if !what.is_adaptive() => Some(Dimension::Number),
            _ => None,
        }
    }

    /// True for a setting of the device, false for a setting of the transfer.
    pub fn is_device(self) -> bool {
        matches!(
            self,
            Self::Rate
                | Self::Duplex
                | Self::Mtu
                | Self::Feature(_)
                | Self::Coalesce(_)
                | Self::Pause(_)
                | Self::Qdisc
                | Self::Backlog
        )
    }

    /// Reads one value.
    ///
    /// # Errors
    /// The text that cannot be read, with the accepted form.
    pub fn parse(self, text: &str) -> Result<Setting, ParseError> {
        let bad = |accepted: &str| ParseError::new(self.name(), text, accepted);
        let on = || match text {
            "on" => Ok(true),
            "off" => Ok(false),
            _ => Err(bad("expected on or off")),
        };
        let number = |accepted: &str| text.parse::<u32>().map_err(|_| bad(accepted));
        let word = || if text.is_empty() { Err(bad("expected a name")) } else { Ok(text.to_owned()) };
        Ok(match self {
            Self::Method => Setting::Method(word()?),
            Self::Channel => Setting::Channel(word()?),
            Self::Ip => match text {
                "4" => Setting::Ipv6(false),
                "6" => Setting::Ipv6(true),
                _ => return Err(bad("expected 4 or 6")),
            },
            Self::Direction => match text {
                "send" => Setting::FarSends(false),
                "receive" => Setting::FarSends(true),
                _ => return Err(bad("expected send (the near end sends), or receive (the far end does)")),
            },
            Self::Path => Setting::Path(word()?),
            Self::NoDelay => Setting::NoDelay(on()?),
            Self::Congestion => Setting::Congestion(word()?),
            Self::Flows => match number("expected a number of flows, such as \"4\"")? {
                0 => return Err(bad("expected at least 1 flow")),
                flows => Setting::Flows(flows),
            },
            Self::Threads if text == "own" => Setting::Threads(None),
            Self::Threads => match number("expected own (a thread a flow), or a number of threads, such as \"2\"")? {
                0 => return Err(bad("expected own (a thread a flow), or at least 1 thread")),
                threads => Setting::Threads(Some(threads)),
            },
            Self::Bytes => Setting::Bytes(units::parse_bytes(text)?),
            Self::Rate if text == "none" => Setting::Rate(None),
            Self::Rate => {
                let bps = units::parse_bps(text).ok().filter(|bps| (1e5..=1e10).contains(bps));
                Setting::Rate(Some(bps.ok_or_else(|| bad("expected none, or 100kbit/s to 10Gbit/s"))?))
            }
            Self::Duplex => match text {
                "full" => Setting::HalfDuplex(false),
                "half" => Setting::HalfDuplex(true),
                _ => return Err(bad("expected full or half")),
            },
            Self::Mtu => match number("expected 576 to 65535 (bytes), such as \"1500\"")? {
                mtu @ 576..=65_535 => Setting::Mtu(mtu),
                _ => return Err(bad("expected 576 to 65535 (bytes)")),
            },
            Self::Feature(feature) => Setting::Feature(feature, on()?),
            Self::Pause(what) => Setting::Pause(what, on()?),
            Self::Coalesce(what) if what.is_adaptive() => Setting::Coalesce(what, u32::from(on()?)),
            Self::Coalesce(what @ (Coalesce::RxFrames | Coalesce::TxFrames)) => {
                Setting::Coalesce(what, number("expected a number of frames, such as \"8\"")?)
            }
            Self::Coalesce(what) => Setting::Coalesce(what, number("expected microseconds, such as \"50\"")?),
            Self::SendBuffer | Self::ReceiveBuffer => {
                let bytes = match text {
                    "auto" => None,
                    _ => match units::parse_bytes(text) {
                        Ok(bytes @ 1..=0x3fff_ffff) => Some(bytes as u32),
                        _ => return Err(bad("expected auto (the kernel's own), or 1B to 1GiB, such as \"256KiB\"")),
                    },
                };
                if self == Self::SendBuffer { Setting::SendBuffer(bytes) } else { Setting::ReceiveBuffer(bytes) }
            }
            Self::Qdisc => {
                let form = "expected default (the device's own), pfifo or fq_codel, with its length in packets where it is \
                            given, such as \"pfifo:100\"";
                let (kind, length) = text.split_once(':').map_or((text, None), |(kind, length)| (kind, Some(length)));
                let kind = match kind {
                    "default" if length.is_none() => QdiscKind::Default,
                    "pfifo" => QdiscKind::Pfifo,
                    "fq_codel" => QdiscKind::FqCodel,
                    _ => return Err(bad(form)),
                };
                let length = length.map(|length| length.parse().ok().filter(|length| (1..=1_000_000).contains(length)));
                Setting::Qdisc(kind, length.map(|length| length.ok_or_else(|| bad(form))).transpose()?)
            }
            Self::Backlog => match number("expected a number of packets, such as \"1000\"")? {
                packets @ 1..=10_000_000 => Setting::Backlog(packets),
                _ => return Err(bad("expected 1 to 10000000 packets")),
            },
            Self::Align => match text {
                "page" => Setting::Align(true),
                "none" => Setting::Align(false),
                _ => return Err(bad("expected page or none")),
            },
            Self::Block => match units::parse_bytes(text)? {
                0 => return Err(bad("expected at least 1B")),
                bytes => Setting::Block(bytes),
            },
        })
    }

    /// Reads the levels in a text: one value or, for block sizes, a range such as `1B..1MiB`: the first size, then each
    /// time twice the size before, up to the last.
    ///
    /// # Errors
    /// The text that cannot be read, with the accepted form.
    pub fn levels(self, text: &str) -> Result<Vec<Setting>, ParseError> {
        let Some((from, to)) = text.split_once("..").filter(|_| self == Self::Block) else {
            return Ok(vec![self.parse(text)?]);
        };
        let (from, to) = (units::parse_bytes(from)?, units::parse_bytes(to)?);
        if from == 0 || from > to {
            return Err(ParseError::new("block", text, "expected the smaller size first, such as \"1B..1MiB\""));
        }
        let doubled = std::iter::successors(Some(from), |block| block.checked_mul(2));
        Ok(doubled.take_while(|block| *block <= to).map(Setting::Block).collect())
    }
}

impl std::str::FromStr for Key {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let names = || Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|key| key.name() == text);
        found.ok_or_else(|| ParseError::new("setting", text, format!("expected one of {}", names())))
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.name())
    }
}

crate::units::serde_as_text!(Key);

/// A requested setting or figure that is missing, with the reason. In JSON it is a sentence; what is read from JSON has
/// its setting again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Lack {
    /// No value of this setting is available, for this reason.
    Setting(Key, String),
    /// Anything else, as a sentence.
    Other(String),
}

impl std::fmt::Display for Lack {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Setting(key, why) => write!(out, "{key}: {why}"),
            Self::Other(sentence) => out.write_str(sentence),
        }
    }
}

impl From<String> for Lack {
    fn from(sentence: String) -> Self {
        let of_setting = |(key, why): (&str, &str)| Some(Self::Setting(key.parse().ok()?, why.to_owned()));
        sentence.split_once(": ").and_then(of_setting).unwrap_or(Self::Other(sentence))
    }
}

impl From<Lack> for String {
    fn from(lack: Lack) -> Self {
        lack.to_string()
    }
}

/// A setting and its value.
#[derive(Debug, Clone, PartialEq)]
pub enum Setting {
    /// The measuring method, by name.
    Method(String),
    /// Which channel carries the bytes, by name.
    Channel(String),
    /// IPv6 instead of IPv4.
    Ipv6(bool),
    /// The far end sends instead of the near end.
    FarSends(bool),
    /// How the sender writes blocks, by name.
    Path(String),
    /// TCP_NODELAY.
    NoDelay(bool),
    /// Congestion control, by name.
    Congestion(String),
    /// Number of parallel flows.
    Flows(u32),
    /// Number of threads that serve the flows at one end; None: one per flow.
    Threads(Option<u32>),
    /// Bytes per repeat.
    Bytes(u64),
    /// Link rate (bit/s); None: not limited.
    Rate(Option<f64>),
    /// Half duplex.
    HalfDuplex(bool),
    /// MTU (bytes).
    Mtu(u32),
    /// An offload, on or off.
    Feature(Feature, bool),
    /// A coalescing parameter: microseconds or frames; for an adaptive switch 1 (on) or 0 (off).
    Coalesce(Coalesce, u32),
    /// SO_SNDBUF (bytes); None: the kernel's default, which grows on demand.
    SendBuffer(Option<u32>),
    /// SO_RCVBUF (bytes); None: the kernel's default, which grows on demand.
    ReceiveBuffer(Option<u32>),
    /// Root qdisc, and its length (packets); None: the default length of the qdisc.
    Qdisc(QdiscKind, Option<u32>),
    /// net.core.netdev_max_backlog (packets).
    Backlog(u32),
    /// True: blocks start at page boundaries.
    Align(bool),
    /// Flow control, on or off.
    Pause(Pause, bool),
    /// Bytes per write call.
    Block(u64),
}

/// Root qdisc of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QdiscKind {
    /// The qdisc that the device had before the experiment.
    Default,
    /// First in, first out.
    Pfifo,
    /// Flows in turn, with controlled delay.
    FqCodel,
}

impl QdiscKind {
    /// The kernel's name; None for the qdisc that the device had.
    pub fn kernel_name(self) -> Option<&'static str> {
        match self {
            Self::Default => None,
            Self::Pfifo => Some("pfifo"),
            Self::FqCodel => Some("fq_codel"),
        }
    }
}

impl Setting {
    /// The setting without its value.
    pub fn key(&self) -> Key {
        match self {
            Self::Method(_) => Key::Method,
            Self::Channel(_) => Key::Channel,
            Self::Ipv6(_) => Key::Ip,
            Self::FarSends(_) => Key::Direction,
            Self::Path(_) => Key::Path,
            Self::NoDelay(_) => Key::NoDelay,
            Self::Congestion(_) => Key::Congestion,
            Self::Flows(_) => Key::Flows,
            Self::Threads(_) => Key::Threads,
            Self::Bytes(_) => Key::Bytes,
            Self::Rate(_) => Key::Rate,
            Self::HalfDuplex(_) => Key::Duplex,
            Self::Mtu(_) => Key::Mtu,
            Self::Feature(feature, _) => Key::Feature(*feature),
            Self::Coalesce(what, _) => Key::Coalesce(*what),
            Self::SendBuffer(_) => Key::SendBuffer,
            Self::ReceiveBuffer(_) => Key::ReceiveBuffer,
            Self::Qdisc(..) => Key::Qdisc,
            Self::Backlog(_) => Key::Backlog,
            Self::Align(_) => Key::Align,
            Self::Pause(what, _) => Key::Pause(*what),
            Self::Block(_) => Key::Block,
        }
    }

    /// Its position on an axis; None if its value is not a number.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Block(bytes) | Self::Bytes(bytes) => Some(*bytes as f64),
            Self::Mtu(number) | Self::Flows(number) => Some(f64::from(*number)),
            Self::Coalesce(what, number) => (!what.is_adaptive()).then(|| f64::from(*number)),
            Self::Threads(number) | Self::SendBuffer(number) | Self::ReceiveBuffer(number) | Self::Qdisc(_, number) => {
                number.map(f64::from)
            }
            Self::Backlog(packets) => Some(f64::from(*packets)),
            Self::Rate(bps) => *bps,
            _ => None,
        }
    }
}

impl std::fmt::Display for Setting {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Method(name) | Self::Channel(name) | Self::Path(name) | Self::Congestion(name) => out.write_str(name),
            Self::NoDelay(on) | Self::Feature(_, on) | Self::Pause(_, on) => {
                out.write_str(if *on { "on" } else { "off" })
            }
            Self::Ipv6(ipv6) => out.write_str(if *ipv6 { "6" } else { "4" }),
            Self::FarSends(far) => out.write_str(if *far { "receive" } else { "send" }),
            Self::HalfDuplex(half) => out.write_str(if *half { "half" } else { "full" }),
            Self::Threads(None) => out.write_str("own"),
            Self::Threads(Some(number)) => write!(out, "{number}"),
            Self::Rate(None) => out.write_str("none"),
            Self::Rate(Some(bps)) => out.write_str(&units::print_bps(*bps)),
            Self::Block(bytes) | Self::Bytes(bytes) => out.write_str(&units::print_bytes(*bytes)),
            Self::SendBuffer(None) | Self::ReceiveBuffer(None) => out.write_str("auto"),
            Self::SendBuffer(Some(bytes)) | Self::ReceiveBuffer(Some(bytes)) => {
                out.write_str(&units::print_bytes(u64::from(*bytes)))
            }
            Self::Qdisc(kind, length) => {
                out.write_str(kind.kernel_name().unwrap_or("default"))?;
                length.map_or(Ok(()), |length| write!(out, ":{length}"))
            }
            Self::Align(page) => out.write_str(if *page { "page" } else { "none" }),
            Self::Backlog(packets) => write!(out, "{packets}"),
            Self::Coalesce(what, number) if what.is_adaptive() => {
                out.write_str(if *number == 0 { "off" } else { "on" })
            }
            Self::Flows(number) | Self::Mtu(number) | Self::Coalesce(_, number) => write!(out, "{number}"),
        }
    }
}
