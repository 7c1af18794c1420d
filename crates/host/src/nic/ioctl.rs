//! Values that only the old ethtool ioctl reports (driver, firmware), and settings that only it changes on every kernel
//! (RSS table and key). `classify` and `per_queue` use it, too.

use super::{Nic, Rss};
use crate::system;
use std::{
    io, mem,
    os::fd::{FromRawFd, OwnedFd},
};

/// SIOCETHTOOL, linux/sockios.h.
const SIOCETHTOOL: u16 = 0x8946;
/// ETHTOOL_GDRVINFO, linux/ethtool.h.
const ETHTOOL_GDRVINFO: u32 = 3;
/// ETHTOOL_SRXFHINDIR, linux/ethtool.h. Netlink sets the table from Linux 6.17 on only.
const ETHTOOL_SRXFHINDIR: u32 = 0x39;
/// ETHTOOL_GRSSH and ETHTOOL_SRSSH, linux/ethtool.h; ETH_RXFH_INDIR_NO_CHANGE leaves the table as it is.
const ETHTOOL_GRSSH: u32 = 0x46;
const ETHTOOL_SRSSH: u32 = 0x47;
const TABLE_AS_IT_IS: u32 = u32::MAX;
/// The longest hash key (bytes); drivers have 40 or 52.
const MOST_KEY_BYTES: usize = 256;
/// Most entries that [`set_rss_table`] passes; tables have 64 to 2048.
const MOST_ENTRIES: usize = 4096;

/// `struct ethtool_rxfh_indir` with space for its table.
#[repr(C)]
struct Indirection {
    cmd: u32,
    size: u32,
    queues: [u32; MOST_ENTRIES],
}

/// `struct ethtool_drvinfo`, linux/ethtool.h. The netlink family has no equivalent.
#[repr(C)]
struct DriverInfo {
    cmd: u32,
    driver: [u8; 32],
    version: [u8; 32],
    firmware: [u8; 32],
    bus: [u8; 32],
    erom_version: [u8; 32],
    reserved: [u8; 12],
    counts: [u32; 5],
}

/// `struct ethtool_rxfh` with space for a table followed by a key.
#[repr(C)]
struct Hash {
    cmd: u32,
    context: u32,
    table_size: u32,
    key_size: u32,
    /// Hash function, input transformation and two reserved bytes.
    function: [u8; 4],
    reserved: u32,
    table_and_key: [u8; 4 * MOST_ENTRIES + MOST_KEY_BYTES],
}

impl Hash {
    fn of(cmd: u32, table_size: u32, key_size: u32) -> Box<Self> {
        let table_and_key = [0; 4 * MOST_ENTRIES + MOST_KEY_BYTES];
        Box::new(Self { cmd, context: 0, table_size, key_size, function: [0; 4], reserved: 0, table_and_key })
    }
}

/// For `ETHTOOL_GSSET_INFO`, ETHTOOL_GSTRINGS and ETHTOOL_GSTATS, linux/ethtool.h.
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSTATS: u32 = 0x1d;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETH_SS_STATS: u32 = 1;
/// ETH_GSTRING_LEN.
const NAME_BYTES: usize = 32;
/// Largest number of counters read; the largest drivers have some thousand.
const MOST_COUNTERS: usize = 8192;

/// `struct ethtool_sset_info` for one set.
#[repr(C)]
struct CounterCount {
    cmd: u32,
    reserved: u32,
    sets: u64,
    count: u32,
}

/// `struct ethtool_gstrings`.
#[repr(C)]
struct CounterNames {
    cmd: u32,
    set: u32,
    count: u32,
    names: [[u8; NAME_BYTES]; MOST_COUNTERS],
}

/// `struct ethtool_stats`.
#[repr(C)]
struct CounterValues {
    cmd: u32,
    count: u32,
    values: [u64; MOST_COUNTERS],
}

/// Fills in what the driver reports by ioctl: its name, version, firmware and bus, and RSS if netlink did not report
/// it.
pub(super) fn fill(nic: &mut Nic) {
    match driver_info(&nic.name) {
        Ok(info) => {
            nic.driver = string(&info.driver);
            nic.driver_version = string(&info.version);
            nic.firmware = string(&info.firmware);
            nic.bus = string(&info.bus);
        }
        Err(error) => drop(nic.missing.insert("driver-info".into(), error.to_string())),
    }
    // Netlink reports RSS from Linux 6.2 on.
    if nic.rss.is_none()
        && let Ok(rss) = rss(&nic.name)
    {
        nic.missing.remove("rss");
        nic.rss = Some(rss);
    }
}

/// Describes why a driver does not answer.
pub(super) fn reason(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EOPNOTSUPP) => "the driver does not offer it".to_owned(),
        _ => error.to_string(),
    }
}

fn driver_info(name: &str) -> io::Result<DriverInfo> {
    // SAFETY: the struct is plain integers and byte arrays, for which all-zero is a valid value.
    let mut info: DriverInfo = unsafe { mem::zeroed() };
    info.cmd = ETHTOOL_GDRVINFO;
    call(name, &mut info)?;
    Ok(info)
}

/// Sets the queue of each hash bucket; an empty table restores the driver's default.
///
/// # Errors
/// The driver has no table of that length, or a queue does not exist.
pub(crate) fn set_rss_table(name: &str, table: &[u32]) -> io::Result<()> {
    if table.len() > MOST_ENTRIES {
        return Err(io::Error::other(format!("an RSS table of {} entries; at most {MOST_ENTRIES}", table.len())));
    }
    let mut queues = [0; MOST_ENTRIES];
    queues[..table.len()].copy_from_slice(table);
    // At most MOST_ENTRIES, so it fits.
    call(name, &mut Indirection { cmd: ETHTOOL_SRXFHINDIR, size: table.len() as u32, queues })
}

/// Sets the hash key from hexadecimal text, and leaves the table unchanged.
///
/// # Errors
/// The text is no key, or the driver accepts no key of its length.
pub(crate) fn set_rss_key(name: &str, text: &str) -> io::Result<()> {
    let bytes = key_bytes(text).map_err(|reason| io::Error::new(io::ErrorKind::InvalidInput, reason))?;
    let mut hash = Hash::of(ETHTOOL_SRSSH, TABLE_AS_IT_IS, bytes.len() as u32);
    // Without a table the key is first.
    hash.table_and_key[..bytes.len()].copy_from_slice(&bytes);
    call(name, hash.as_mut())
}

/// RSS settings as reported by the driver.
fn rss(name: &str) -> io::Result<Rss> {
    let mut sizes = Hash::of(ETHTOOL_GRSSH, 0, 0);
    call(name, sizes.as_mut())?;
    let (table_size, key_size) = (sizes.table_size as usize, sizes.key_size as usize);
    if table_size > MOST_ENTRIES || key_size > MOST_KEY_BYTES {
        return Err(io::Error::other(format!("an RSS table of {table_size} entries with a key of {key_size} bytes")));
    }
    let mut hash = Hash::of(ETHTOOL_GRSSH, sizes.table_size, sizes.key_size);
    call(name, hash.as_mut())?;
    let (table, rest) = hash.table_and_key.split_at(4 * table_size);
    let key = &rest[..key_size];
    Ok(Rss {
        hash_function: Some(u32::from(hash.function[0])).filter(|function| *function > 0),
        indirection: table.as_chunks::<4>().0.iter().map(|word| u32::from_ne_bytes(*word)).collect(),
        key_bytes: Some(key_size).filter(|bytes| *bytes > 0),
        key: (key_size > 0).then(|| key.iter().map(|byte| format!("{byte:02x}")).collect()),
    })
}

/// The bytes of a hash key: two hexadecimal digits each, colons between them or not.
///
/// # Errors
/// The text with the accepted form.
pub(crate) fn key_bytes(text: &str) -> Result<Vec<u8>, String> {
    let digits: String = text.chars().filter(|letter| *letter != ':').collect();
    let pairs = digits.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes: Option<Vec<u8>> = pairs.0.iter().map(byte).collect();
    let fits = |bytes: &Vec<u8>| pairs.1.is_empty() && (1..=MOST_KEY_BYTES).contains(&bytes.len());
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    bytes.filter(|bytes| is_hex && fits(bytes)).ok_or_else(|| {
        format!("{text:?} is no hash key: expected its bytes as hexadecimal digits, such as 6d:5a:56 (as many as the device's key has)")
    })
}

/// Names and values of the driver's counters (`ethtool -S`).
///
/// # Errors
/// There is no such device, or its driver has no counters or too many.
pub(crate) fn counters(name: &str) -> io::Result<(Vec<String>, Vec<u64>)> {
    let mut asked = CounterCount { cmd: ETHTOOL_GSSET_INFO, reserved: 0, sets: 1 << ETH_SS_STATS, count: 0 };
    call(name, &mut asked)?;
    let count = asked.count as usize;
    // The kernel writes the current number of counters, which may have grown: hence twice the space.
    if asked.sets == 0 || count == 0 || count > MOST_COUNTERS / 2 {
        return Err(io::Error::other(format!(
            "the driver has {count} counters of its own; at most {}",
            MOST_COUNTERS / 2
        )));
    }
    let mut names = Box::new(CounterNames {
        cmd: ETHTOOL_GSTRINGS,
        set: ETH_SS_STATS,
        count: asked.count,
        names: [[0; NAME_BYTES]; MOST_COUNTERS],
    });
    call(name, names.as_mut())?;
    let mut values = Box::new(CounterValues { cmd: ETHTOOL_GSTATS, count: asked.count, values: [0; MOST_COUNTERS] });
    call(name, values.as_mut())?;
    let text = |name: &[u8; NAME_BYTES]| string(name).unwrap_or_default();
    Ok((names.names[..count].iter().map(text).collect(), values.values[..count].to_vec()))
}

/// Makes one ethtool ioctl. `data` begins with the command and has the size that the kernel reads and writes for that
/// command.
pub(super) fn call<T>(name: &str, data: &mut T) -> io::Result<()> {
    request(name, SIOCETHTOOL, data)
}

/// Makes an ioctl on an interface. `data` is the structure that the kernel reads and writes; its size must be the one
/// that the kernel expects for `number`.
pub(super) fn request<T>(name: &str, number: u16, data: &mut T) -> io::Result<()> {
    // SAFETY: socket takes three integers and returns a new descriptor or -1.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just returned by the kernel and nobody else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: callers pass a structure of the size that the kernel uses for its command.
    unsafe { system::interface_ioctl(&socket, name, number, data) }
}

/// Text of a NUL-terminated field; `None` if it is empty or the "N/A" that some drivers write.
fn string(field: &[u8]) -> Option<String> {
    let text: Vec<u8> = field.iter().copied().take_while(|byte| *byte != 0).collect();
    let text = String::from_utf8_lossy(&text).trim().to_owned();
    (!text.is_empty() && text != "N/A").then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_keys() {
        assert_eq!(key_bytes("6d:5A:00"), Ok(vec![0x6d, 0x5a, 0]));
        assert_eq!(key_bytes("6d5a"), Ok(vec![0x6d, 0x5a]));
        for text in ["", "6d5", "xyz1", "+1+1", &"00".repeat(MOST_KEY_BYTES + 1)] {
            assert!(key_bytes(text).is_err_and(|error| error.contains(text) && error.contains("6d:5a:56")), "{text}");
        }
        assert_eq!(std::mem::offset_of!(Hash, table_and_key), 24);
        assert!(rss("lo").is_err());
    }
}
