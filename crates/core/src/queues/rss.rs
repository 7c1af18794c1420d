//! Receive side scaling: the Toeplitz hash of addresses and ports, whose 7 lowest bits choose one of 128 table entries.
//!
//! Source: Microsoft, "Introduction to receive side scaling" and "Verifying the RSS hash calculation"; Linux fills the
//! table in the same way (`ethtool_rxfh_indir_default`: entry n is queue n mod count).

use std::net::{IpAddr, SocketAddr};

/// Entries of the indirection table.
pub const TABLE: usize = 128;

/// The key in Microsoft's verification suite and in most drivers' documents.
pub const KEY: [u8; 40] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b,
    0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac,
    0x01, 0xfa,
];

/// The hash of a flow under [`KEY`]: source address, destination address and, unless both are 0, the ports.
pub fn toeplitz(source: SocketAddr, destination: SocketAddr) -> u32 {
    let mut input = Vec::with_capacity(INPUT);
    for address in [source.ip(), destination.ip()] {
        match address {
            IpAddr::V4(address) => input.extend(address.octets()),
            IpAddr::V6(address) => input.extend(address.octets()),
        }
    }
    if source.port() != 0 || destination.port() != 0 {
        input.extend(source.port().to_be_bytes());
        input.extend(destination.port().to_be_bytes());
    }
    hash(&input)
}

/// Most bytes that are hashed: two IPv6 addresses and two ports.
const INPUT: usize = 36;

/// XOR of the 32-bit windows of the key that begin at the set bits of the input, of at most [`INPUT`] bytes.
fn hash(input: &[u8]) -> u32 {
    input.iter().zip(&WINDOWS).fold(0, |hash, (byte, windows)| hash ^ windows[usize::from(*byte)])
}

/// For each position and value of a byte: XOR of the windows that begin at its set bits. Hashing bit by bit would take
/// about a second for the largest number of flows.
static WINDOWS: [[u32; 256]; INPUT] = windows();

const fn windows() -> [[u32; 256]; INPUT] {
    let mut all = [[0; 256]; INPUT];
    let mut bit = 0;
    while bit < 8 * INPUT {
        let (byte, mask) = (bit / 8, 0x80 >> (bit % 8));
        let wide = [KEY[byte], KEY[byte + 1], KEY[byte + 2], KEY[byte + 3], KEY[byte + 4], 0, 0, 0];
        let window = (u64::from_be_bytes(wide) << (bit % 8) >> 32) as u32;
        let mut value = 0;
        while value < 256 {
            if value & mask != 0 {
                all[byte][value] ^= window;
            }
            value += 1;
        }
        bit += 1;
    }
    all
}

/// The indirection table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    entries: [u32; TABLE],
    count: u32,
}

impl Table {
    /// A table with `entries` repeated; if empty, entry n is queue n mod `count`.
    pub fn new(entries: &[u32], count: u32) -> Self {
        let entry = |n: usize| if entries.is_empty() { n as u32 % count } else { entries[n % entries.len()] };
        Self { entries: std::array::from_fn(entry), count }
    }

    /// The queue for a hash.
    pub fn queue(&self, hash: u32) -> u32 {
        self.entries[hash as usize % TABLE]
    }

    /// Number of queues.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Share of the entries for each queue, which is also its share of the packets if there are very many flows.
    pub fn shares(&self) -> Vec<f64> {
        let mut shares = vec![0.0; self.count as usize];
        self.entries.iter().for_each(|queue| shares[*queue as usize] += 1.0 / TABLE as f64);
        shares
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published test vectors: destination, source, hash of the addresses, hash including the ports.
    #[test]
    fn microsofts_vectors() {
        let vectors = [
            ("161.142.100.80:1766", "66.9.149.187:2794", 0x323e_8fc2, 0x51cc_c178),
            ("65.69.140.83:4739", "199.92.111.2:14230", 0xd718_262a, 0xc626_b0ea),
            ("12.22.207.184:38024", "24.19.198.95:12898", 0xd2d0_a5de, 0x5c2b_394a),
            ("209.142.163.6:2217", "38.27.205.30:48228", 0x8298_9176, 0xafc7_327f),
            ("202.188.127.2:1303", "153.39.163.191:44251", 0x5d18_09c5, 0x10e8_28a2),
            ("[3ffe:2501:200:3::1]:1766", "[3ffe:2501:200:1fff::7]:2794", 0x2cc1_8cd5, 0x4020_7d3d),
            ("[ff02::1]:4739", "[3ffe:501:8::260:97ff:fe40:efab]:14230", 0x0f0c_461c, 0xdde5_1bbf),
            (
                "[fe80::200:f8ff:fe21:67cf]:38024",
                "[3ffe:1900:4545:3:200:f8ff:fe21:67cf]:44251",
                0x4b61_e985,
                0x02d1_feef,
            ),
        ];
        for (destination, source, addresses, ports) in vectors {
            let [destination, source]: [SocketAddr; 2] = [destination, source].map(|text| text.parse().unwrap());
            let bare = |address: SocketAddr| SocketAddr::new(address.ip(), 0);
            assert_eq!(toeplitz(source, destination), ports, "{source}");
            assert_eq!(toeplitz(bare(source), bare(destination)), addresses, "{source}");
        }
    }

    #[test]
    fn a_table_serves_every_queue() {
        for count in [1, 2, 3, 4, 7, 16, 128] {
            let shares = Table::new(&[], count).shares();
            assert!(shares.iter().all(|share| *share > 0.0));
            assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        }
        assert_eq!(Table::new(&[0, 0, 0, 1], 2).shares(), [0.75, 0.25]);
    }
}
