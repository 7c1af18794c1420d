//! Hosts that papers measured: the paper's numbers, where in the paper they are, and assumptions for the numbers it
//! lacks.

use super::Host;

/// Names of the presets, for help texts.
pub const PRESETS: &[&str] = &["pentium4-2530mhz", "pentium3-450mhz", "pentium3-500mhz", "komdiv64-800mhz"];

/// A host that a paper measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Preset {
    /// Costs and sizes.
    pub host: Host,
    /// The numbers that the paper gives, and their place in it.
    pub source: &'static str,
    /// Values that are assumed because the paper does not state them. `None` if the paper states all values.
    pub assumed: Option<&'static str>,
    /// True if the paper gives only the whole time of a packet: costs of other stages are 0 because they are unknown.
    pub is_whole: bool,
}

/// Factor by which Salah, El-Badawi and Khalid (2007) scale an interrupt's overhead from 500 MHz to 2.53 GHz, "roughly
/// 60 %".
const PAPER_SCALE: f64 = 0.6;
/// TCP payload of a full Ethernet frame with timestamps (bytes).
const TCP_PAYLOAD_BYTES: f64 = 1448.0;

impl Preset {
    /// Returns the preset with this name; `None` if no preset has it.
    pub fn named(name: &str) -> Option<Self> {
        let slower = |name: &str, interrupt_s: f64| {
            let fast = Host::pentium4_2530mhz();
            Host {
                name: name.to_owned(),
                interrupt_s,
                protocol_s: fast.protocol_s / PAPER_SCALE,
                per_byte_s: fast.per_byte_s / PAPER_SCALE,
                poll_s: fast.poll_s / PAPER_SCALE,
                ..fast
            }
        };
        let protocol = "protocol, per_byte and poll are those of pentium4-2530mhz divided by 0.6, by which the paper scales an interrupt's overhead \
                        from 500 MHz; mask and ring are that preset's";
        Some(match name {
            "pentium4-2530mhz" => Self {
                host: Host::pentium4_2530mhz(),
                source: "Salah, El-Badawi and Khalid (2007), section 4: interrupt 3.73 us, protocol 5.25 us and a byte at 748 MB/s, register \
                         write 0.5 us, poll 1.59 us, ring 1024",
                assumed: None,
                is_whole: false,
            },
            "pentium3-450mhz" => Self {
                host: slower(name, 13.23e-6),
                source: "Salah, El-Badawi and Khalid (2007), section 1.1, from Morris et al. (2000): an interrupt of 13.23 us with Linux \
                         2.2.10, of which 7.7 us are overhead and 5.53 us handling (section 4)",
                assumed: Some(protocol),
                is_whole: false,
            },
            "pentium3-500mhz" => Self {
                host: slower(name, 4.36e-6),
                source: "Salah, El-Badawi and Khalid (2007), section 4, from Aron and Druschel (2000): a timer interrupt of 4.36 us with \
                         FreeBSD 2.2.6 and a handler that does nothing",
                assumed: Some(
                    "interrupt has no handling of packets; protocol, per_byte and poll are those of pentium4-2530mhz divided by 0.6, by which \
                     the paper scales this interrupt's overhead; mask and ring are that preset's",
                ),
                is_whole: false,
            },
            "komdiv64-800mhz" => Self {
                host: Host {
                    name: name.to_owned(),
                    // The whole time of a packet, as the paper does not divide it.
                    protocol_s: 0.98 / (714e6 / 8.0 / TCP_PAYLOAD_BYTES),
                    ..Host::default()
                },
                source: "Slinkin (2018), table 4: TCP received at 714 Mbit/s with 98 % of the CPU, Linux 4.14.26",
                assumed: Some(
                    "its 15.9 us a packet are from a measurement, presumably with full frames (1518 bytes, of which 1448 are TCP payload). \
                     Shorter frames take less time: results for them are pessimistic, and --size 1518B is the measured case. The source \
                     gives only the whole time of a packet: it is counted as protocol, and interrupt, mask, poll and application are 0. \
                     Sending (688 Mbit/s at 98 %) is not modelled",
                ),
                is_whole: true,
            },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_a_host_with_its_source() {
        for name in PRESETS {
            let preset = Preset::named(name).unwrap();
            assert_eq!(preset.host.name, *name);
            preset.host.validate().unwrap();
            assert!(preset.source.contains("(20") && preset.source.len() > 60, "{name}");
            assert_eq!(preset.assumed.is_none(), *name == "pentium4-2530mhz");
        }
        assert_eq!(Preset::named("pentium5"), None);
    }

    /// The presets have the numbers of the papers.
    #[test]
    fn figures_are_the_documents() {
        let host = |name: &str| Preset::named(name).unwrap().host;
        assert!((host("pentium3-450mhz").interrupt_s - (7.7e-6 + 5.53e-6)).abs() < 1e-15);
        assert!((host("pentium3-500mhz").interrupt_s * 0.6 - 2.62e-6).abs() < 5e-9);
        // 714 Mbit/s of payload take 98 % of the CPU.
        let busy = 714e6 / 8.0 / 1448.0 * host("komdiv64-800mhz").service_s(1518.0);
        assert!((busy - 0.98).abs() < 1e-12, "{busy}");
    }
}
