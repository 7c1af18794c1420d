//! The known properties of each driver: one row per driver, used for moderation, scheme, losses and queue counters.
//!
//! A new driver is a row of [`DRIVERS`] and its captures among the fixtures (crates/host/tests/fixtures); what users
//! act on goes into docs/drivers.md. A driver without a row is [`UNREAD`]: its `rx-usecs` and `rx-frames` are taken as
//! ethtool defines them.

use super::Nic;

/// Meaning of `rx-usecs` for a driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The shortest time between two interrupts (ITR, EITR).
    Gap,
    /// The shortest time between two interrupts. `rx-usecs-high` is a second one, for receive and transmit interrupts
    /// together (INTRL); it also applies while `adaptive-rx` is off.
    TwoGaps,
    /// 1,000,000 divided by an interrupt rate (1/s) that the hypervisor enforces; `rx-frames` overrides it.
    Rate,
    /// A delay from the first frame without an interrupt, cut short after `rx-frames` frames, as ethtool defines it;
    /// checked in the driver's source.
    Timer,
    /// Assumed to be a timer: the driver's source was not checked.
    Unread,
}

/// A value of `rx-usecs` that selects adaptive coalescing.
#[derive(Debug)]
pub(super) struct AdaptiveWord {
    /// The value.
    pub value: u32,
    /// Longest wait (us).
    pub most_us: u32,
    /// Longest wait while all frames have the smallest size (us): drivers treat them differently from bulk traffic.
    pub small_frames_us: u32,
    /// The `rx-usecs` at which the device settles while all frames have one length. `None` if the wait then also
    /// depends on the number of packets in a poll.
    pub one_length: Option<OneLength>,
}

/// Values of `rx-usecs` that adaptive coalescing reaches while all frames have one length.
#[derive(Debug)]
pub(super) struct OneLength {
    /// Whether a link of this speed (Mbit/s) counts as slow: it stays at 4000 interrupts/s under all traffic.
    pub is_slow: fn(u32) -> bool,
    /// `rx-usecs` for a slow link (us): 4000 interrupts/s in the units of the driver.
    pub slow_us: u32,
    /// `rx-usecs` for frames of up to [`STEADY_BYTES`] (us).
    pub short_us: u32,
    /// Whether devices with more than one vector choose the interrupt rate by the frame's length.
    pub by_length: bool,
}

/// Longest frame (bytes without FCS) with which `rx-usecs` 3 stays at 20,000 interrupts/s, and 1 at 70,000, however
/// many packets a poll takes. With longer frames a poll of fewer than ten packets can exceed 10,000 bytes (value 3), or
/// one of fewer than five packets 512 bytes (value 1), which lowers the rate (`e1000_update_itr`, e1000e/netdev.c and
/// e1000/e1000_main.c; `igb_update_itr`).
pub(super) const STEADY_BYTES: [(u32, u32); 2] = [(3, 1111), (1, 128)];

/// Why a device lost packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// No descriptor or buffer was free, or the device's FIFO was full: the host was too slow.
    NoRoom,
    /// No buffer was free when the packets came: they waited in the device's FIFO, and are lost only if
    /// [`Cause::NoRoom`] counts them, too (Intel's RNBC).
    Waited,
    /// An XDP program dropped them.
    Xdp,
    /// A cloud's limit for this virtual machine, independent of the host's speed.
    Allowance,
    /// The packets were damaged, or the device or driver dropped them for another reason.
    Other,
}

/// Differences between QEMU's device and the hardware that the driver expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Emulation {
    /// No known difference.
    Faithful,
    /// hw/net/e1000.c: a minimum time between interrupts, and the timer RADV acts as a second ITR.
    E1000,
    /// hw/net/e1000e_core.c: a minimum time between interrupts; the timers RDTR and RADV have an effect only without
    /// MSI-X.
    E1000e,
    /// hw/net/igb_core.c: the time between interrupts is four times the requested time (up to QEMU 10.0).
    Igb,
    /// hw/net/vmxnet3.c: no minimum time between interrupts.
    Vmxnet3,
}

/// Type of the medium that a device's packets come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line {
    /// A cable, whose speed the device reports.
    Cable,
    /// A hypervisor, which reports an invented speed and slot.
    Hypervisor,
    /// This host, which reports an invented speed.
    Software,
}

/// One driver, or several drivers with equal properties.
#[derive(Debug)]
pub(super) struct Driver {
    /// Names as reported by the kernel.
    pub names: &'static [&'static str],
    /// What `rx-usecs` is.
    pub rx_usecs: Meaning,
    /// Values of `rx-usecs` that select adaptive coalescing.
    pub words: &'static [AdaptiveWord],
    /// Values of `rx-usecs` that select adaptive coalescing with unknown times: they have no scheme.
    pub untimed_words: &'static [u32],
    /// Shortest delay above zero that the driver accepts (us).
    pub least_us: u32,
    /// Whether `adaptive-rx` follows the load with the profiles of lib/dim.
    pub dim: bool,
    /// Sentence on why the driver may report no coalescing.
    pub unreported: &'static str,
    /// Sentence on timers that the device has and the driver does not report; shown if the parameters of its module are
    /// unknown.
    pub unreported_timers: Option<&'static str>,
    /// QEMU's device.
    pub emulation: Emulation,
    /// Where its packets come from.
    pub line: Line,
    /// The driver's own counters (`ethtool -S`) of losses, by full name. Module `losses` recognises counters of single
    /// queues by pattern.
    pub losses: &'static [(&'static str, Cause)],
    /// Patterns of the names of queue counters: `WAY` is rx or tx, `ID` the queue, `WHAT` what is counted.
    pub queue_counters: &'static [&'static str],
}

/// The row for a driver of which nothing is known.
pub(super) const UNREAD: Driver = Driver {
    names: &[],
    rx_usecs: Meaning::Unread,
    words: &[],
    untimed_words: &[],
    least_us: 0,
    dim: false,
    unreported: "its driver reports no coalescing, so what it holds back is not known",
    unreported_timers: None,
    emulation: Emulation::Faithful,
    line: Line::Cable,
    losses: &[],
    queue_counters: &[],
};

/// An adaptive value with its longest wait, and its longest wait with the smallest frames (us).
const fn word(value: u32, most_us: u32, small_frames_us: u32, one_length: Option<OneLength>) -> AdaptiveWord {
    AdaptiveWord { value, most_us, small_frames_us, one_length }
}

/// The `rx-usecs` that e1000 and e1000e reach while all frames have one length; it does not depend on the number of
/// vectors.
const fn e1000_short(short_us: u32) -> Option<OneLength> {
    Some(OneLength { is_slow: |mbps| mbps != 1000, slow_us: 250, short_us, by_length: false })
}

/// The `rx-usecs` that igb and igc reach while all frames have one length.
const fn igb_short(is_slow: fn(u32) -> bool, short_us: u32) -> Option<OneLength> {
    Some(OneLength { is_slow, slow_us: 245, short_us, by_length: true })
}

// `*_set_coalesce`, `*_update_itr` and `igb_update_ring_itr` below drivers/net/ethernet/intel. 250 us are the 4000
// interrupts/s to which `1` and `3` fall under bulk traffic, 15 and 50 us the 70,000 and 20,000 that they allow small
// frames, 500 us the 2000 of the simplified mode, 126 us ixgbe's IXGBE_ITR_ADAPTIVE_MAX_USECS.
const E1000_WORDS: &[AdaptiveWord] =
    &[word(1, 250, 15, e1000_short(14)), word(3, 250, 50, e1000_short(50)), word(4, 500, 500, None)];
const IGB_WORDS: &[AdaptiveWord] =
    &[word(1, 250, 15, igb_short(|mbps| mbps != 1000, 14)), word(3, 250, 50, igb_short(|mbps| mbps != 1000, 49))];
const IGC_WORDS: &[AdaptiveWord] =
    &[word(1, 250, 15, igb_short(|mbps| mbps < 1000, 14)), word(3, 250, 50, igb_short(|mbps| mbps < 1000, 49))];
const IXGBE_WORDS: &[AdaptiveWord] = &[word(1, 126, 126, None)];

/// Loss counters of Intel's drivers from e1000 to ixgbe: `*_gstrings_stats` of each driver's ethtool.c.
const INTEL_LOSSES: &[(&str, Cause)] = &[
    ("rx_missed_errors", Cause::NoRoom),
    ("rx_no_buffer_count", Cause::Waited),
    ("rx_fifo_errors", Cause::NoRoom),
    ("rx_over_errors", Cause::NoRoom),
    ("rx_crc_errors", Cause::Other),
    ("rx_length_errors", Cause::Other),
    ("rx_csum_offload_errors", Cause::Other),
    ("alloc_rx_buff_failed", Cause::Other),
];

/// The drivers. Files are below drivers/net of Linux; the table with smallest values and module parameters is in
/// docs/drivers.md.
pub(super) const DRIVERS: &[Driver] = &[
    // ethernet/intel/e1000/e1000_ethtool.c, `e1000_set_coalesce`.
    Driver {
        names: &["e1000"],
        rx_usecs: Meaning::Gap,
        words: E1000_WORDS,
        least_us: 10,
        unreported: "e1000 reports its gap for the 82545 and later only; InterruptThrottleRate sets it, by default one that \
                     follows the load",
        unreported_timers: Some(
            "the timers RDTR and RADV (module parameters RxIntDelay, 0 by default, and RxAbsIntDelay), which e1000 does not report",
        ),
        emulation: Emulation::E1000,
        losses: INTEL_LOSSES,
        ..UNREAD
    },
    // ethernet/intel/e1000e/ethtool.c, `e1000_set_coalesce`; netdev.c, `e1000e_write_itr` (EITR_82574 of each vector
    // with MSI-X).
    Driver {
        names: &["e1000e"],
        rx_usecs: Meaning::Gap,
        words: E1000_WORDS,
        least_us: 10,
        unreported_timers: Some(
            "the timers RDTR and RADV (module parameters RxIntDelay and RxAbsIntDelay; 33 us each by default on 82571, 82572, 82574 \
             and 80003ES2LAN, else RDTR is 0), which e1000e does not report",
        ),
        emulation: Emulation::E1000e,
        losses: INTEL_LOSSES,
        ..UNREAD
    },
    // ethernet/intel/igb/igb_ethtool.c, `igb_set_coalesce`.
    Driver {
        names: &["igb"],
        rx_usecs: Meaning::Gap,
        words: IGB_WORDS,
        least_us: 10,
        emulation: Emulation::Igb,
        losses: INTEL_LOSSES,
        queue_counters: &["WAY_queue_ID_WHAT"],
        ..UNREAD
    },
    // ethernet/intel/igc/igc_ethtool.c, `igc_ethtool_set_coalesce`.
    Driver {
        names: &["igc"],
        rx_usecs: Meaning::Gap,
        words: IGC_WORDS,
        least_us: 10,
        losses: INTEL_LOSSES,
        queue_counters: &["WAY_queue_ID_WHAT"],
        ..UNREAD
    },
    // ethernet/intel/igbvf/ethtool.c, `igbvf_set_coalesce`: conservative and dynamic.
    Driver { names: &["igbvf"], rx_usecs: Meaning::Gap, untimed_words: &[2, 3], ..UNREAD },
    // ethernet/intel/ixgbe/ixgbe_ethtool.c, `ixgbe_set_coalesce`.
    Driver {
        names: &["ixgbe", "ixgbevf"],
        rx_usecs: Meaning::Gap,
        words: IXGBE_WORDS,
        least_us: 2,
        losses: &[
            ("rx_no_dma_resources", Cause::NoRoom),
            ("rx_missed_errors", Cause::NoRoom),
            ("rx_no_buffer_count", Cause::Waited),
            ("rx_crc_errors", Cause::Other),
            ("rx_dropped", Cause::Other),
            ("alloc_rx_buff_failed", Cause::Other),
        ],
        queue_counters: &["WAY_queue_ID_WHAT"],
        ..UNREAD
    },
    // ethernet/intel/i40e/i40e_ethtool.c, `__i40e_get_coalesce`.
    Driver {
        names: &["i40e"],
        rx_usecs: Meaning::TwoGaps,
        losses: &[("port.rx_dropped", Cause::NoRoom), ("rx_dropped", Cause::Other)],
        queue_counters: &["WAY-ID.WHAT"],
        ..UNREAD
    },
    // ethernet/intel/iavf/iavf_ethtool.c.
    Driver { names: &["iavf"], rx_usecs: Meaning::Gap, queue_counters: &["WAY-ID.WHAT"], ..UNREAD },
    // ethernet/intel/ice/ice_ethtool.c, `ice_get_rc_coalesce`.
    Driver {
        names: &["ice"],
        rx_usecs: Meaning::TwoGaps,
        losses: &[("rx_dropped.nic", Cause::NoRoom), ("rx_dropped", Cause::Other)],
        queue_counters: &["WAY_queue_ID_WHAT"],
        ..UNREAD
    },
    // ethernet/intel/idpf/idpf_ethtool.c.
    Driver { names: &["idpf"], rx_usecs: Meaning::Gap, ..UNREAD },
    // virtio_net.c, `virtnet_get_coalesce`; include/uapi/linux/virtio_net.h, `virtio_net_ctrl_coal_rx`.
    Driver {
        names: &["virtio_net"],
        rx_usecs: Meaning::Timer,
        dim: true,
        line: Line::Hypervisor,
        queue_counters: &["WAYID_WHAT"],
        ..UNREAD
    },
    // vmxnet3/vmxnet3_ethtool.c, `vmxnet3_get_coalesce`; a rate: VMXNET3_COAL_RBC_RATE, vmxnet3_int.h; at most 100,000
    // interrupts/s: VMXNET3_COAL_RBC_MAX_RATE, `vmxnet3_set_coalesce`.
    Driver {
        names: &["vmxnet3"],
        rx_usecs: Meaning::Rate,
        least_us: 10,
        unreported: "this device reports no coalescing; its hypervisor decides (VMware: 4000 interrupts/s by default)",
        emulation: Emulation::Vmxnet3,
        line: Line::Hypervisor,
        ..UNREAD
    },
    // ethernet/mellanox/mlx5/core/en_ethtool.c, `mlx5e_ethtool_get_coalesce`; en_stats.c.
    Driver {
        names: &["mlx5_core"],
        rx_usecs: Meaning::Timer,
        dim: true,
        losses: &[
            ("rx_out_of_buffer", Cause::NoRoom),
            ("rx_discards_phy", Cause::NoRoom),
            ("rx_prio0_discards", Cause::NoRoom),
            ("rx_xdp_drop", Cause::Xdp),
            ("rx_steer_missed_packets", Cause::Other),
        ],
        queue_counters: &["WAYID_WHAT"],
        ..UNREAD
    },
    // ethernet/amazon/ena/ena_ethtool.c, `ena_get_coalesce`.
    Driver {
        names: &["ena"],
        rx_usecs: Meaning::Timer,
        dim: true,
        losses: &[("rx_drops", Cause::NoRoom), ("rx_overruns", Cause::NoRoom)],
        queue_counters: &["queue_ID_WAY_WHAT"],
        ..UNREAD
    },
    // ethernet/google/gve/gve_ethtool.c.
    Driver { names: &["gve"], losses: &[("rx_dropped", Cause::Other)], queue_counters: &["WAY_WHAT[ID]"], ..UNREAD },
    // hyperv/netvsc_drv.c.
    Driver { names: &["hv_netvsc"], line: Line::Hypervisor, queue_counters: &["WAY_queue_ID_WHAT"], ..UNREAD },
    Driver { names: &["xen_netfront"], line: Line::Hypervisor, ..UNREAD },
    Driver { names: &["veth", "tun", "dummy"], line: Line::Software, ..UNREAD },
    // Counter names used by drivers without a row: r8169's, fm10k's, and the usual patterns of queue counters.
    Driver {
        losses: &[("rx_missed", Cause::NoRoom), ("xdp_drop", Cause::Xdp), ("rx_alloc_failed", Cause::Other)],
        queue_counters: &["WAY_queue_ID.WHAT", "WAY-ID_WHAT", "WAY_ID_WHAT", "WAY_ID.WHAT", "WAYID.WHAT"],
        ..UNREAD
    },
];

/// Returns the row of the driver with this name; [`UNREAD`] if no row has it.
pub(super) fn named(name: &str) -> &'static Driver {
    DRIVERS.iter().find(|driver| driver.names.contains(&name)).unwrap_or(&UNREAD)
}

impl Nic {
    /// Returns the row of this device's driver.
    pub(super) fn known_driver(&self) -> &'static Driver {
        self.driver.as_deref().map_or(&UNREAD, named)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_stands_in_one_row_and_each_counter_has_one_cause() {
        let mut names: Vec<&str> = DRIVERS.iter().flat_map(|driver| driver.names).copied().collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all, "{names:?}");
        for (name, cause) in DRIVERS.iter().flat_map(|driver| driver.losses) {
            let other = DRIVERS.iter().flat_map(|driver| driver.losses).find(|(known, _)| known == name);
            assert_eq!(other, Some(&(*name, *cause)));
        }
    }

    /// Only drivers whose meaning of `rx-usecs` was checked have adaptive values. An adaptive value with a fixed value
    /// for one length is constant for short frames.
    #[test]
    fn rows_agree_with_themselves() {
        for driver in DRIVERS {
            let words = driver.words.iter().map(|word| word.value).chain(driver.untimed_words.iter().copied());
            for value in words {
                assert_ne!(driver.rx_usecs, Meaning::Unread, "{:?}", driver.names);
                assert!(
                    value < driver.least_us.max(4) || driver.least_us == 2,
                    "{:?} takes {value} as a delay",
                    driver.names
                );
            }
            for word in driver.words.iter().filter(|word| word.one_length.is_some()) {
                assert!(STEADY_BYTES.iter().any(|(value, _)| *value == word.value), "{:?}", driver.names);
            }
        }
    }
}
