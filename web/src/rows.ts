// Made by crates/wasm/tests/rows.rs from the tables of crates/core: do not edit.

/** A key of a host or a parameter of a scheme. */
export interface Row {
  kind: "time" | "count";
  /** Of a key what the preset has, of a parameter its default; none: it is off. */
  value: string;
  help: string;
}

// prettier-ignore
export const HOST_KEYS = {
  interrupt: { kind: "time", value: "3.73us", help: "mean time of one interrupt, overhead and handler" },
  interrupt_polling: { kind: "time", value: "none", help: "mean time of an interrupt that finds NAPI polling already, as only NICs that do not mask have them (those that QEMU emulates); where `interrupt_resume` is given, also of one that comes as NAPI unmasks" },
  interrupt_resume: { kind: "time", value: "none", help: "of `interrupt` and `mask`, what the application that was hit pays only when it goes on (cold caches, leaving a virtual machine), and what came meanwhile does not wait for. `napi` in the simulator; elsewhere it is paid before the poll" },
  interrupt_latency: { kind: "time", value: "0s", help: "from the cause of an interrupt to its handler; the CPU does other work meanwhile (in a virtual machine, what the hypervisor takes to deliver it)" },
  protocol: { kind: "time", value: "5.25us", help: "protocol processing a packet, without the per-byte part" },
  per_byte: { kind: "time", value: "1.3368983957219252ns", help: "protocol processing a byte of frame" },
  mask: { kind: "time", value: "500ns", help: "one write to a NIC register, to mask or to unmask" },
  poll: { kind: "time", value: "1.59us", help: "overhead of one poll" },
  application: { kind: "time", value: "none", help: "the application's time a packet" },
  context_switch: { kind: "time", value: "0s", help: "from a blocked application, or from another application, to a running one, on the application's account" },
  wakeup: { kind: "time", value: "0s", help: "what protocol processing spends to wake a blocked application" },
  cold_protocol: { kind: "time", value: "0s", help: "what protocol processing of a packet costs more when the socket buffer is full than when it is empty, linear between: packets that wait long have left the caches" },
  cold_application: { kind: "time", value: "0s", help: "the same for the application's time a packet" },
  socket_drop_cost: { kind: "count", value: "1.0", help: "protocol time of a packet that finds the socket buffer full over that of a delivered one, 0 to 10: above 1 where the queue between the CPUs is contended when most is dropped" },
  ring: { kind: "count", value: "1024", help: "slots of the receive ring or backlog, the packet in service included" },
  socket_buffer: { kind: "count", value: "256", help: "packets the application's socket holds" },
  tick: { kind: "time", value: "4ms", help: "period of the scheduler's tick, at which waiting threads and pending softirqs get the CPU" },
  pause: { kind: "time", value: "none", help: "mean length of the pauses in which the CPU is taken away" },
  pause_every: { kind: "time", value: "none", help: "mean time between the end of one pause and the start of the next, by the clock, exponential" },
  xoff: { kind: "count", value: "none", help: "packets in the ring at which the sender is told to stop (802.3 pause)" },
  xon: { kind: "count", value: "none", help: "packets in the ring at which a stopped sender may go on" },
  sender_queue: { kind: "count", value: "none", help: "packets a stopped sender holds back, beyond which it drops" },
  transmit: { kind: "time", value: "none", help: "what one transmit completion costs, at the protocol's level" },
  transmit_ring: { kind: "count", value: "none", help: "slots of the transmit ring, each held until its completion is done" },
} satisfies Record<string, Row>;

// prettier-ignore
export const SCHEME_PARAMETERS = {
  ideal: {
  },
  interrupt: {
  },
  "disable-enable": {
  },
  polling: {
    period: { kind: "time", value: "20us", help: "time between polls" },
    quota: { kind: "count", value: "3", help: "at most this many packets a poll" },
  },
  "napi-2007": {
    period: { kind: "time", value: "20us", help: "time between polls" },
    quota: { kind: "count", value: "3", help: "at most this many packets a poll" },
  },
  "freebsd-polling": {
    period: { kind: "time", value: "1ms", help: "time between ticks, 1/hz" },
    burst_max: { kind: "count", value: "150", help: "most packets a cycle (kern.polling.burst_max)" },
    user_frac: { kind: "count", value: "0.5", help: "share of the CPU meant for applications, a whole percentage below 100 (kern.polling.user_frac)" },
  },
  "soft-timers": {
    period: { kind: "time", value: "20us", help: "from one poll until the next is due" },
    quota: { kind: "count", value: "3", help: "at most this many packets a poll" },
    trigger: { kind: "time", value: "10us", help: "mean time from when a poll is due to the next state of the kernel (system call, interrupt, idle loop)" },
    backup: { kind: "time", value: "1ms", help: "hardware timer that polls so long after the last poll, at the poll's whole overhead" },
    cost: { kind: "count", value: "0.1", help: "overhead of a soft poll as a share of the host's `poll`" },
  },
  napi: {
    weight: { kind: "count", value: "64", help: "largest number of packets a poll takes (dev_weight, 64)" },
    budget: { kind: "count", value: "300", help: "packets after which a round takes no further instance (netdev_budget, 300). With one instance next to nothing depends on it" },
    budget_time: { kind: "time", value: "2ms", help: "time after which a round takes no further instance (netdev_budget_usecs). As `budget`" },
    gro_normal_batch: { kind: "count", value: "1", help: "packets that a device's poll gathers before the protocols have them, at the most (net.core.gro_normal_batch, 8): what is left is handed on when the poll completes, after its last look at the ring (`gro_normal_one`, `napi_complete_done`). 1: each at once" },
    defer_hard_irqs: { kind: "count", value: "0", help: "empty polls in a row after which interrupts are unmasked again (napi_defer_hard_irqs)" },
    gro_flush_timeout: { kind: "time", value: "0s", help: "delay of the next poll while deferring (gro_flush_timeout)" },
    irq_suspend_timeout: { kind: "time", value: "0s", help: "how long interrupts stay suspended while the application polls (irq_suspend_timeout)" },
    rx_frames: { kind: "count", value: "none", help: "an interrupt when so many packets are counted (rx-frames)" },
    rx_usecs: { kind: "time", value: "none", help: "an interrupt so long after the first packet that is not announced (an absolute timer; rx-usecs where it is one)" },
    packet_timer: { kind: "time", value: "none", help: "an interrupt so long after the last packet" },
    min_gap: { kind: "time", value: "none", help: "at most one interrupt in so long, counted from its assertion (ITR, EITR; rx-usecs of Intel's drivers)" },
  },
  coalesce: {
    frames: { kind: "count", value: "none", help: "an interrupt when so many frames are counted" },
    usecs: { kind: "time", value: "none", help: "an interrupt so long after the first packet since the last interrupt" },
    packet_timer: { kind: "time", value: "none", help: "an interrupt so long after the last packet" },
    min_gap: { kind: "time", value: "none", help: "at most one interrupt in so long (interrupt throttle)" },
  },
  hybrid: {
    period: { kind: "time", value: "20us", help: "T_poll of the polling part" },
    quota: { kind: "count", value: "3", help: "Q of the polling part" },
    up: { kind: "count", value: "none", help: "measured rate above which polling starts (pps)" },
    down: { kind: "count", value: "none", help: "measured rate below which disable-enable resumes (pps)" },
    ewma: { kind: "count", value: "0.1", help: "weight of a new sample in the moving average of rate and frame size" },
  },
  dim: {
    start: { kind: "count", value: "1", help: "index at the start, 0 to 4" },
  },
} satisfies Record<string, Record<string, Row>>;
