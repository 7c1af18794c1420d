//! The kernel features and rights that tests may need.

use std::fmt;

/// A feature of the machine, named as in `NETCLIFF_REQUIRE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The rights of the host's root.
    Root,
    /// Two CPUs on which this process may run.
    Cpus,
    /// Named network namespaces, by root and `ip`.
    Netns,
    /// Network namespaces below a user namespace, without root.
    Userns,
    /// eBPF tracing programs with BTF.
    Ebpf,
    /// XDP programs.
    Xdp,
    /// AF_XDP sockets.
    AfXdp,
    /// io_uring.
    Uring,
    /// IPv6.
    Ipv6,
    /// IEEE 802.1Q devices.
    Vlan,
    /// The token bucket filter (a qdisc).
    Tbf,
    /// netfilter's tables (`nf_tables`).
    Nftables,
    /// File systems in memory that a test mounts.
    Tmpfs,
    /// CPUs that other programs leave idle for at least half of the time, for tests that measure the available CPU.
    Quiet,
    /// Something else of the kernel, named in the reason.
    Kernel,
}

impl Need {
    /// Every need.
    pub const ALL: [Need; 15] = [
        Need::Root,
        Need::Cpus,
        Need::Netns,
        Need::Userns,
        Need::Ebpf,
        Need::Xdp,
        Need::AfXdp,
        Need::Uring,
        Need::Ipv6,
        Need::Vlan,
        Need::Tbf,
        Need::Nftables,
        Need::Tmpfs,
        Need::Quiet,
        Need::Kernel,
    ];

    /// True if many kernels lack the need, or a machine has it only at times. `all` in `NETCLIFF_REQUIRE` does not
    /// include such a need; its name does.
    pub fn is_optional(self) -> bool {
        matches!(self, Need::Userns | Need::Vlan | Need::Tbf | Need::Nftables | Need::Quiet | Need::Kernel)
    }

    /// True for needs of root or namespaces: `make check` (the profile `check` of cargo-nextest) skips their tests.
    pub(crate) fn takes_rights(self) -> bool {
        !matches!(self, Need::Cpus | Need::Uring | Need::Ipv6 | Need::Quiet | Need::Kernel)
    }

    /// Its name in `NETCLIFF_REQUIRE` and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Need::Root => "root",
            Need::Cpus => "cpus",
            Need::Netns => "netns",
            Need::Userns => "userns",
            Need::Ebpf => "ebpf",
            Need::Xdp => "xdp",
            Need::AfXdp => "af_xdp",
            Need::Uring => "uring",
            Need::Ipv6 => "ipv6",
            Need::Vlan => "vlan",
            Need::Tbf => "tbf",
            Need::Nftables => "nftables",
            Need::Tmpfs => "tmpfs",
            Need::Quiet => "quiet",
            Need::Kernel => "kernel",
        }
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
