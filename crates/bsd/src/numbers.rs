//! Numbers and structures of Linux.

use crate::{c_int, c_uint, c_ulong, c_ushort, off_t, size_t};

macro_rules! none {
    (signed $kind:ty: $($name:ident),* $(,)?) => {$(pub const $name: $kind = -1;)*};
    ($kind:ty: $($name:ident),* $(,)?) => {$(pub const $name: $kind = <$kind>::MAX;)*};
}

pub type Ioctl = c_ulong;

none!(signed c_int:
    // Netlink
    RTMGRP_LINK, RTMGRP_IPV4_IFADDR, RTMGRP_IPV6_IFADDR, IFF_LOWER_UP, AF_BRIDGE, IFF_TAP, IFF_NO_PI, IFF_VNET_HDR,
    // Packet sockets, AF_XDP
    AF_PACKET, SOL_PACKET, PACKET_VERSION, PACKET_IGNORE_OUTGOING, PACKET_RX_RING, PACKET_TX_RING, PACKET_STATISTICS,
    PACKET_QDISC_BYPASS, ETH_P_ALL, AF_XDP, SOL_XDP, XDP_UMEM_REG, XDP_UMEM_FILL_RING, XDP_UMEM_COMPLETION_RING, XDP_TX_RING,
    XDP_RX_RING, XDP_MMAP_OFFSETS, XDP_OPTIONS, XDP_STATISTICS, MAP_POPULATE,
    // Sockets
    SOL_IP, SOL_UDP, UDP_GRO, UDP_SEGMENT, IP_RECVERR, IPV6_RECVERR, IP_MTU, IPV6_MTU, MSG_ERRQUEUE, MSG_ZEROCOPY,
    SO_ZEROCOPY, SO_BUSY_POLL, SO_MAX_PACING_RATE, SO_MEMINFO, SCM_TIMESTAMPNS, IPPROTO_MPTCP, TCP_INFO, F_SETPIPE_SZ,
    // Memory
    M_MMAP_THRESHOLD, M_TRIM_THRESHOLD, M_ARENA_MAX,
    // Scheduling
    SCHED_IDLE, SCHED_RESET_ON_FORK,
);
none!(c_ushort: RTM_NEWLINK, IFLA_MTU, IFA_LOCAL, IFA_ADDRESS);
none!(signed off_t: XDP_PGOFF_TX_RING, XDP_PGOFF_RX_RING, XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING);
none!(u16: XDP_USE_NEED_WAKEUP, XDP_SHARED_UMEM);
none!(u32: TP_STATUS_USER, XDP_RING_NEED_WAKEUP, XDP_OPTIONS_ZEROCOPY);
none!(u8: SO_EE_ORIGIN_ICMP, RT_TABLE_MAIN, RTPROT_STATIC, RT_SCOPE_UNIVERSE, RTN_UNICAST, RTN_LOCAL);
none!(c_uint: IFA_F_NODAD, HWTSTAMP_TX_ON, HWTSTAMP_FILTER_ALL);
none!(Ioctl: PTP_SYS_OFFSET_PRECISE, PTP_SYS_OFFSET_EXTENDED, PTP_SYS_OFFSET, SIOCGHWTSTAMP, SIOCSHWTSTAMP, TUNSETIFF);

#[cfg(target_os = "openbsd")]
none!(signed c_int: TCP_CONGESTION);

// Matched beside others: another number each.
pub const RTM_DELLINK: c_ushort = c_ushort::MAX - 1;
pub const RTM_DELADDR: c_ushort = c_ushort::MAX - 2;
pub const SO_EE_ORIGIN_ICMP6: u8 = u8::MAX - 1;
pub const SOL_IPV6: c_int = -2;

pub const PTP_MAX_SAMPLES: c_uint = 25;

macro_rules! structures {
    ($($name:ident { $($field:ident: $kind:ty),* $(,)? })*) => {$(
        #[repr(C)]
        #[derive(Debug, Clone, Copy)]
        pub struct $name {
            $(pub $field: $kind,)*
        }
    )*};
}

structures! {
    ptp_clock_time { sec: i64, nsec: u32, reserved: u32 }
    ptp_sys_offset_precise { device: ptp_clock_time, sys_realtime: ptp_clock_time, sys_monoraw: ptp_clock_time, rsv: [c_uint; 4] }
    ptp_sys_offset_extended { n_samples: c_uint, clockid: c_int, rsv: [c_uint; 2], ts: [[ptp_clock_time; 3]; 25] }
    ptp_sys_offset { n_samples: c_uint, rsv: [c_uint; 3], ts: [ptp_clock_time; 51] }
    hwtstamp_config { flags: c_int, tx_type: c_int, rx_filter: c_int }
    sockaddr_ll {
        sll_family: u16, sll_protocol: u16, sll_ifindex: i32, sll_hatype: u16, sll_pkttype: u8, sll_halen: u8, sll_addr: [u8; 8],
    }
    sockaddr_xdp { sxdp_family: u16, sxdp_flags: u16, sxdp_ifindex: u32, sxdp_queue_id: u32, sxdp_shared_umem_fd: u32 }
    xdp_desc { addr: u64, len: u32, options: u32 }
    xdp_umem_reg { addr: u64, len: u64, chunk_size: u32, headroom: u32, flags: u32, tx_metadata_len: u32 }
    xdp_ring_offset { producer: u64, consumer: u64, desc: u64, flags: u64 }
    xdp_mmap_offsets { rx: xdp_ring_offset, tx: xdp_ring_offset, fr: xdp_ring_offset, cr: xdp_ring_offset }
    xdp_options { flags: u32 }
    xdp_statistics {
        rx_dropped: u64, rx_invalid_descs: u64, tx_invalid_descs: u64, rx_ring_full: u64, rx_fill_ring_empty_descs: u64,
        tx_ring_empty_descs: u64,
    }
    tpacket_req3 {
        tp_block_size: u32, tp_block_nr: u32, tp_frame_size: u32, tp_frame_nr: u32, tp_retire_blk_tov: u32, tp_sizeof_priv: u32,
        tp_feature_req_word: u32,
    }
    tpacket3_hdr {
        tp_next_offset: u32, tp_sec: u32, tp_nsec: u32, tp_snaplen: u32, tp_len: u32, tp_status: u32, tp_mac: u16, tp_net: u16,
    }
    tpacket_stats_v3 { tp_packets: u32, tp_drops: u32, tp_freeze_q_cnt: u32 }
    sock_extended_err {
        ee_errno: u32, ee_origin: u8, ee_type: u8, ee_code: u8, ee_pad: u8, ee_info: u32, ee_data: u32,
    }
}

#[derive(Debug, Clone, Copy)]
pub enum tpacket_versions {
    TPACKET_V3,
}

/// # Safety
/// It takes no pointer and does nothing.
pub unsafe fn mallopt(_: c_int, _: c_int) -> c_int {
    0
}

/// # Safety
/// It takes no pointer and does nothing.
pub unsafe fn malloc_trim(_: size_t) -> c_int {
    0
}
