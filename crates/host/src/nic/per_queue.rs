//! Interrupt coalescing of single queues (`ethtool --per-queue`), by the ioctl `ETHTOOL_PERQUEUE`: netlink does not
//! offer it.

use super::{Nic, ioctl::call};
use netcliff_core::experiment::Coalesce;
use std::{collections::BTreeMap, io};

const ETHTOOL_PERQUEUE: u32 = 0x4b;
const ETHTOOL_GCOALESCE: u32 = 0xe;
const ETHTOOL_SCOALESCE: u32 = 0xf;
/// MAX_NUM_QUEUE of linux/ethtool.h, in words of 32 queues.
const MASK_WORDS: usize = 4096 / 32;
/// `struct ethtool_coalesce`: a command and 22 values.
const WORDS: usize = 23;
/// Most queues that are read.
const MOST_QUEUES: u32 = 256;

/// `struct ethtool_per_queue_op` with the values of one queue.
#[repr(C)]
struct Operation {
    cmd: u32,
    sub_command: u32,
    queues: [u32; MASK_WORDS],
    coalesce: [u32; WORDS],
}

/// Index of a value in `struct ethtool_coalesce`.
fn place(what: Coalesce) -> usize {
    match what {
        Coalesce::RxUsecs => 1,
        Coalesce::RxFrames => 2,
        Coalesce::TxUsecs => 5,
        Coalesce::TxFrames => 6,
        Coalesce::AdaptiveRx => 10,
        Coalesce::AdaptiveTx => 11,
    }
}

impl Operation {
    fn of(sub_command: u32, queue: u32) -> io::Result<Self> {
        let mut queues = [0; MASK_WORDS];
        let word = queues.get_mut(queue as usize / 32).ok_or_else(|| {
            let reason = format!("queue {queue}: expected one below {}", 32 * MASK_WORDS);
            io::Error::new(io::ErrorKind::InvalidInput, reason)
        })?;
        *word = 1 << (queue % 32);
        let mut coalesce = [0; WORDS];
        coalesce[0] = sub_command;
        Ok(Self { cmd: ETHTOOL_PERQUEUE, sub_command, queues, coalesce })
    }

    fn figures(&self) -> BTreeMap<String, u32> {
        Coalesce::in_order().map(|what| (what.kernel_name().to_owned(), self.coalesce[place(what)])).collect()
    }
}

/// Coalescing of one queue, by the kernel's names.
///
/// # Errors
/// The driver supports it for the device only, or has no such queue.
pub(crate) fn coalescing(interface: &str, queue: u32) -> io::Result<BTreeMap<String, u32>> {
    let mut operation = Operation::of(ETHTOOL_GCOALESCE, queue)?;
    call(interface, &mut operation)?;
    Ok(operation.figures())
}

/// Sets one value of one queue.
///
/// # Errors
/// The driver refuses it.
pub(crate) fn set_coalescing(interface: &str, queue: u32, what: Coalesce, value: u32) -> io::Result<()> {
    let mut operation = Operation::of(ETHTOOL_GCOALESCE, queue)?;
    call(interface, &mut operation)?;
    (operation.sub_command, operation.coalesce[0]) = (ETHTOOL_SCOALESCE, ETHTOOL_SCOALESCE);
    operation.coalesce[place(what)] = value;
    call(interface, &mut operation)
}

/// Fills in the coalescing of each queue; leaves it empty if the driver supports it for the device only.
pub(super) fn fill(nic: &mut Nic) {
    // Queues of a device without coalescing have none either.
    if nic.coalesce.is_empty() {
        return;
    }
    let count = |name: &str| nic.channels.get(name).copied().unwrap_or(0);
    let queues = (count("combined") + count("rx").max(count("tx"))).clamp(1, MOST_QUEUES);
    let read = (0..queues).map_while(|queue| coalescing(&nic.name, queue).ok());
    nic.queue_coalesce = read.collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_a_bit_and_figures_have_the_kernels_places() {
        assert_eq!(size_of::<Operation>(), 8 + 512 + 92);
        let operation = Operation::of(ETHTOOL_GCOALESCE, 33).unwrap();
        assert_eq!((operation.queues[0], operation.queues[1]), (0, 2));
        let mut operation = Operation::of(ETHTOOL_GCOALESCE, 0).unwrap();
        // As the kernel fills it: rx 8 us and 2 frames, tx 50 us and 4 frames, adaptive reception.
        (operation.coalesce[1], operation.coalesce[2], operation.coalesce[5], operation.coalesce[6]) = (8, 2, 50, 4);
        operation.coalesce[10] = 1;
        let expected = [
            ("adaptive-rx", 1),
            ("adaptive-tx", 0),
            ("rx-frames", 2),
            ("rx-usecs", 8),
            ("tx-frames", 4),
            ("tx-usecs", 50),
        ];
        assert_eq!(operation.figures(), expected.map(|(name, value)| (name.to_owned(), value)).into());
        let error = Operation::of(ETHTOOL_GCOALESCE, 4096).map(drop).unwrap_err().to_string();
        assert!(error.contains("queue 4096") && error.contains("below 4096"), "{error}");
        assert_eq!(coalescing("lo", 0).unwrap_err().raw_os_error(), Some(libc::EOPNOTSUPP));
    }
}
