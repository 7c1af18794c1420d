//! Parts of a host other than the CPU that limit its rate: [`Bus`] and [`Memory`]; and [`Offload`]s, which change the
//! cost of a frame.

pub mod bus;

use crate::error::{Invalid, ParseError};
use crate::params::{self, Params};
use crate::units;

/// A parallel bus, shared by all transfers in both directions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ParallelBus {
    /// Name on the command line.
    pub name: &'static str,
    /// Width (bit).
    pub width_bits: u32,
    /// Clock (Hz).
    pub clock_hz: f64,
    /// Most bytes moved in one transaction; in [`PARALLEL`] the default.
    pub burst_bytes: u32,
    /// Clocks that a transaction spends on address, attributes, target response and turn-around; in [`PARALLEL`] the
    /// default.
    pub overhead_clocks: u32,
}

/// Buses of PCI Local Bus 2.2 and PCI-X 1.0. The overhead is for a burst write without wait states: address, device
/// select (one to three clocks before the first data), turn-around; PCI-X adds attribute and response phases.
pub const PARALLEL: [ParallelBus; 4] = [
    ParallelBus { name: "pci-32/33", width_bits: 32, clock_hz: 33.333e6, burst_bytes: 256, overhead_clocks: 5 },
    ParallelBus { name: "pci-64/66", width_bits: 64, clock_hz: 66.667e6, burst_bytes: 256, overhead_clocks: 5 },
    ParallelBus { name: "pci-x-100", width_bits: 64, clock_hz: 100e6, burst_bytes: 512, overhead_clocks: 6 },
    ParallelBus { name: "pci-x-133", width_bits: 64, clock_hz: 133.333e6, burst_bytes: 512, overhead_clocks: 6 },
];

/// PCI Express.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pcie {
    /// PCIe generation, 1 to 6.
    pub generation: u32,
    /// Number of lanes: 1, 2, 4, 8, 16 or 32.
    pub lanes: u32,
    /// Max payload size: data bytes of one write or completion.
    pub mps_bytes: u32,
    /// Max read request size: data bytes requested at once.
    pub mrrs_bytes: u32,
    /// Descriptors moved together in one transfer.
    pub batch: u32,
}

/// The bus between NIC and memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bus {
    /// No bus that limits the rate (veth, an integrated NIC).
    None,
    /// PCI or PCI-X.
    Parallel(ParallelBus),
    /// PCI Express.
    Pcie(Pcie),
    /// Bus with a known bandwidth only, such as the AXI of a system on a chip (byte/s, sum of both directions).
    Bandwidth(f64),
}

/// Bandwidth of the bus `axi`: 1 GB/s, as in the network controller of Slinkin (2018).
const AXI_BYTES_PER_S: f64 = 1e9;

const LANES: [u32; 6] = [1, 2, 4, 8, 16, 32];

impl Bus {
    /// A PCI Express slot with the usual payload and request sizes.
    ///
    /// # Errors
    /// A generation or width that does not exist.
    pub fn pcie(generation: u32, lanes: u32) -> Result<Self, Invalid> {
        let bus = Self::Pcie(Pcie { generation, lanes, mps_bytes: 256, mrrs_bytes: 512, batch: 8 });
        bus.validate()?;
        Ok(bus)
    }

    /// Checks every number against its range.
    ///
    /// # Errors
    /// A value out of its range, with its parameter and range.
    pub fn validate(&self) -> Result<(), Invalid> {
        match self {
            Self::None => Ok(()),
            Self::Bandwidth(bytes_per_s) if *bytes_per_s > 0.0 => Ok(()),
            Self::Bandwidth(_) => Err(Invalid::new("bus bandwidth", "0B/s", "must be above 0, such as 1GB/s")),
            Self::Parallel(bus) => {
                if !(8..=65536).contains(&bus.burst_bytes) {
                    return Err(Invalid::new("bus burst", format!("{}B", bus.burst_bytes), "must be 8B to 64KiB"));
                }
                if bus.overhead_clocks > 1000 {
                    return Err(Invalid::new("bus overhead_clocks", bus.overhead_clocks, "must be at most 1000"));
                }
                Ok(())
            }
            Self::Pcie(pcie) => {
                if !(1..=6).contains(&pcie.generation) {
                    return Err(Invalid::new("PCIe generation", pcie.generation, "must be 1 to 6"));
                }
                if !LANES.contains(&pcie.lanes) {
                    return Err(Invalid::new("PCIe lanes", pcie.lanes, "must be 1, 2, 4, 8, 16 or 32"));
                }
                for (name, bytes) in [("PCIe mps", pcie.mps_bytes), ("PCIe mrrs", pcie.mrrs_bytes)] {
                    if !(128..=4096).contains(&bytes) || !bytes.is_power_of_two() {
                        let range = "must be 128B, 256B, 512B, 1024B, 2048B or 4096B";
                        return Err(Invalid::new(name, format!("{bytes}B"), range));
                    }
                }
                if !(1..=1024).contains(&pcie.batch) {
                    return Err(Invalid::new("PCIe batch", pcie.batch, "must be 1 to 1024 descriptors"));
                }
                Ok(())
            }
        }
    }
}

const BUS_FORM: &str = "expected none, pci-32/33, pci-64/66, pci-x-100, pci-x-133 (with :burst=512B,overhead_clocks=6), \
                        pcie-GENERATIONxLANES such as pcie-3x8 (with :mps=256B,mrrs=512B,batch=8), axi (1GB/s) or a bandwidth \
                        such as 1GB/s";

fn small_bytes(params: &mut Params<'_>, key: &'static str) -> Result<Option<u32>, ParseError> {
    params
        .take(key)
        .map(|text| {
            let bytes = units::parse_bytes(text)?;
            u32::try_from(bytes).map_err(|_| ParseError::new(key, text, "expected less than 4GiB"))
        })
        .transpose()
}

impl std::str::FromStr for Bus {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        if let Ok(bytes_per_s) = units::parse_byte_rate(text) {
            let bus = Self::Bandwidth(bytes_per_s);
            return bus.validate().map(|()| bus).map_err(|invalid| ParseError::new("bus", text, invalid.to_string()));
        }
        let (name, mut params) = Params::split("bus", text)?;
        let error = || ParseError::new("bus", text, BUS_FORM);
        let bus = if name == "none" {
            Self::None
        } else if name == "axi" {
            Self::Bandwidth(AXI_BYTES_PER_S)
        } else if let Some(known) = PARALLEL.iter().find(|bus| bus.name == name) {
            let burst_bytes = small_bytes(&mut params, "burst")?.unwrap_or(known.burst_bytes);
            let overhead_clocks = params.count_u32("overhead_clocks")?.unwrap_or(known.overhead_clocks);
            Self::Parallel(ParallelBus { burst_bytes, overhead_clocks, ..*known })
        } else {
            let (generation, lanes) =
                name.strip_prefix("pcie-").and_then(|slot| slot.split_once('x')).ok_or_else(error)?;
            Self::Pcie(Pcie {
                generation: generation.parse().map_err(|_| error())?,
                lanes: lanes.parse().map_err(|_| error())?,
                mps_bytes: small_bytes(&mut params, "mps")?.unwrap_or(256),
                mrrs_bytes: small_bytes(&mut params, "mrrs")?.unwrap_or(512),
                batch: params.count_u32("batch")?.unwrap_or(8),
            })
        };
        params.finish()?;
        bus.validate().map_err(|invalid| ParseError::new("bus", text, invalid.to_string()))?;
        Ok(bus)
    }
}

impl std::fmt::Display for Bus {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bytes = |bytes: u32| Some(format!("{bytes}B"));
        match self {
            Self::None => out.write_str("none"),
            Self::Bandwidth(bytes_per_s) => out.write_str(&units::print_byte_rate(*bytes_per_s)),
            Self::Parallel(bus) => out.write_str(&params::print(
                bus.name,
                &[("burst", bytes(bus.burst_bytes)), ("overhead_clocks", Some(bus.overhead_clocks.to_string()))],
            )),
            Self::Pcie(pcie) => out.write_str(&params::print(
                &format!("pcie-{}x{}", pcie.generation, pcie.lanes),
                &[
                    ("mps", bytes(pcie.mps_bytes)),
                    ("mrrs", bytes(pcie.mrrs_bytes)),
                    ("batch", Some(pcie.batch.to_string())),
                ],
            )),
        }
    }
}

crate::units::serde_as_text!(Bus);

/// The memory that frames pass through.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Memory {
    /// Bandwidth, reads and writes together (byte/s).
    pub bytes_per_s: f64,
    /// Number of copies that the CPU makes of each byte between the NIC's buffer and the application's.
    pub copies: u32,
}

/// An offload, which changes the cost of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Offload {
    /// The NIC computes checksums.
    Checksum,
    /// TCP segmentation offload: the sender's stack handles segments of up to 64 KiB.
    Tso,
    /// Large or generic receive offload: the receiver's stack handles merged segments.
    Gro,
    /// Jumbo frames: MTU 9000.
    Jumbo,
    /// Zero copy: no copy between NIC and application.
    ZeroCopy,
}

impl Offload {
    /// All offloads.
    pub const ALL: [Self; 5] = [Self::Checksum, Self::Tso, Self::Gro, Self::Jumbo, Self::ZeroCopy];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Checksum => "checksum",
            Self::Tso => "tso",
            Self::Gro => "gro",
            Self::Jumbo => "jumbo",
            Self::ZeroCopy => "zero-copy",
        }
    }
}

impl std::str::FromStr for Offload {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        match text.trim() {
            "lro" => Ok(Self::Gro),
            name => Self::ALL.into_iter().find(|offload| offload.name() == name).ok_or_else(|| {
                ParseError::new("offload", text, "expected checksum, tso, gro (or lro), jumbo or zero-copy")
            }),
        }
    }
}

impl std::fmt::Display for Offload {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.name())
    }
}

crate::units::serde_as_text!(Offload);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buses_round_trip() {
        for text in [
            "none",
            "axi",
            "2.5GB/s",
            "pci-32/33",
            "pci-64/66:burst=4KiB",
            "pci-x-133",
            "pcie-3x8",
            "pcie-6x16:mps=512B,batch=32",
        ] {
            let bus: Bus = text.parse().unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(bus.to_string().parse::<Bus>().unwrap(), bus, "{text}");
        }
        assert_eq!("pcie-3x8".parse::<Bus>().unwrap(), Bus::pcie(3, 8).unwrap());
    }

    #[test]
    fn impossible_buses_say_what_is_possible() {
        for (text, says) in [
            ("isa", "pcie-3x8"),
            ("0GB/s", "above 0"),
            ("axi:burst=64B", "burst"),
            ("1GB", "1GB/s"),
            ("pcie-7x8", "1 to 6"),
            ("pcie-3x7", "1, 2, 4, 8"),
            ("pcie-3", "pcie-GENERATIONxLANES"),
            ("pcie-3x8:mps=300B", "128B, 256B"),
            ("pcie-3x8:mss=256B", "unknown key `mss`"),
            ("pci-64/66:burst=1B", "8B to 64KiB"),
        ] {
            let error = text.parse::<Bus>().unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn offloads_by_name() {
        for offload in Offload::ALL {
            assert_eq!(offload.name().parse::<Offload>().unwrap(), offload);
        }
        assert_eq!("lro".parse::<Offload>().unwrap(), Offload::Gro);
        assert!("ufo".parse::<Offload>().unwrap_err().to_string().contains("checksum, tso"));
    }
}
