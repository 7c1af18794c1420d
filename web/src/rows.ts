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
  interrupt_polling: { kind: "time", value: "none", help: "mean time of an interrupt that finds NAPI polling already. Such interrupts come only from NICs that do not mask them (those that QEMU emulates). With `interrupt_resume` also the time of an interrupt that comes when NAPI unmasks" },
  interrupt_resume: { kind: "time", value: "none", help: "part of `interrupt` and `mask` that the interrupted application pays when it continues, as for cold caches or leaving a virtual machine; packets that arrive during the poll do not wait for it. Only `napi` in the simulator; elsewhere it is paid before the poll" },
  interrupt_latency: { kind: "time", value: "0s", help: "time from the cause of an interrupt to its handler; the CPU does other work until then. In a virtual machine it is the hypervisor's time to deliver the interrupt" },
  protocol: { kind: "time", value: "5.25us", help: "protocol processing per packet, without the part per byte" },
  per_byte: { kind: "time", value: "1.3368983957219252ns", help: "protocol processing per byte of the frame" },
  mask: { kind: "time", value: "500ns", help: "one write to a NIC register, to mask or to unmask" },
  poll: { kind: "time", value: "1.59us", help: "overhead of one poll" },
  application: { kind: "time", value: "none", help: "the application's time per packet" },
  context_switch: { kind: "time", value: "0s", help: "switch from a blocked application, or from another one, to a running one; it counts as the application's time" },
  wakeup: { kind: "time", value: "0s", help: "time that protocol processing spends to wake a blocked application" },
  cold_protocol: { kind: "time", value: "0s", help: "additional protocol time of a packet when the socket buffer is full, because packets that wait long have left the caches. Proportional to the buffer's filling" },
  cold_application: { kind: "time", value: "0s", help: "additional application time of a packet when the socket buffer is full. Proportional to the buffer's filling" },
  socket_drop_cost: { kind: "count", value: "1.0", help: "protocol time of a packet that is dropped at a full socket buffer, divided by that of a delivered one: 0 to 10. Above 1 if CPUs contend for the socket's queue while most packets are dropped" },
  ring: { kind: "count", value: "1024", help: "slots of the receive ring or backlog, the packet in service included" },
  socket_buffer: { kind: "count", value: "256", help: "packets that the application's socket holds" },
  tick: { kind: "time", value: "4ms", help: "period of the scheduler's tick. At ticks, waiting threads and pending softirqs get the CPU" },
  pause: { kind: "time", value: "none", help: "mean length of pauses, in which the CPU is taken away" },
  pause_every: { kind: "time", value: "none", help: "mean time from the end of a pause to the start of the next, exponentially distributed" },
  xoff: { kind: "count", value: "none", help: "packets in the ring at which the sender is stopped (802.3 pause frame)" },
  xon: { kind: "count", value: "none", help: "packets in the ring at which a stopped sender may continue" },
  sender_queue: { kind: "count", value: "none", help: "packets that a stopped sender queues before it drops" },
  transmit: { kind: "time", value: "none", help: "cost of one transmit completion, at the priority of protocol processing" },
  transmit_ring: { kind: "count", value: "none", help: "slots of the transmit ring, each occupied until its completion is processed" },
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
    quota: { kind: "count", value: "3", help: "most packets per poll" },
  },
  "napi-2007": {
    period: { kind: "time", value: "20us", help: "time between polls" },
    quota: { kind: "count", value: "3", help: "most packets per poll" },
  },
  "freebsd-polling": {
    period: { kind: "time", value: "1ms", help: "time between ticks, 1/hz" },
    burst_max: { kind: "count", value: "150", help: "most packets per cycle (kern.polling.burst_max)" },
    user_frac: { kind: "count", value: "0.5", help: "share of the CPU reserved for applications, a whole percentage below 100 (kern.polling.user_frac)" },
  },
  "soft-timers": {
    period: { kind: "time", value: "20us", help: "time from a poll until the next one is due" },
    quota: { kind: "count", value: "3", help: "most packets per poll" },
    trigger: { kind: "time", value: "10us", help: "mean time from when a poll is due until the kernel runs (system call, interrupt, idle loop)" },
    backup: { kind: "time", value: "1ms", help: "time after the last poll at which a hardware timer polls, with the full overhead" },
    cost: { kind: "count", value: "0.1", help: "overhead of a soft poll as a share of the host's `poll`" },
  },
  napi: {
    weight: { kind: "count", value: "64", help: "most packets per poll (dev_weight, 64)" },
    budget: { kind: "count", value: "300", help: "packets after which a round polls no further instance (netdev_budget, 300). With one instance it has almost no effect" },
    budget_time: { kind: "time", value: "2ms", help: "time after which a round polls no further instance (netdev_budget_usecs). With one instance it has almost no effect" },
    gro_normal_batch: { kind: "count", value: "1", help: "most packets that a device's poll collects before it passes them to the protocols (net.core.gro_normal_batch, 8). The rest is passed on when the poll completes, after it last looked at the ring (`gro_normal_one`, `napi_complete_done`). 1: each packet at once" },
    defer_hard_irqs: { kind: "count", value: "0", help: "number of consecutive empty polls after which interrupts are unmasked (napi_defer_hard_irqs)" },
    gro_flush_timeout: { kind: "time", value: "0s", help: "delay of the next poll while interrupts are deferred (gro_flush_timeout)" },
    irq_suspend_timeout: { kind: "time", value: "0s", help: "how long interrupts stay suspended while the application polls (irq_suspend_timeout)" },
    rx_frames: { kind: "count", value: "none", help: "packets after which the NIC interrupts (rx-frames)" },
    rx_usecs: { kind: "time", value: "none", help: "time from the first packet since the last interrupt to the interrupt (absolute timer; rx-usecs of some drivers)" },
    packet_timer: { kind: "time", value: "none", help: "time from the last packet to the interrupt" },
    min_gap: { kind: "time", value: "none", help: "shortest time between two interrupts, counted from the assertion of the first (ITR, EITR; rx-usecs of Intel's drivers)" },
  },
  coalesce: {
    frames: { kind: "count", value: "none", help: "frames after which the NIC interrupts" },
    usecs: { kind: "time", value: "none", help: "time from the first packet since the last interrupt to the interrupt" },
    packet_timer: { kind: "time", value: "none", help: "time from the last packet to the interrupt" },
    min_gap: { kind: "time", value: "none", help: "shortest time between two interrupts (interrupt throttling)" },
  },
  hybrid: {
    period: { kind: "time", value: "20us", help: "time between polls in the polling part" },
    quota: { kind: "count", value: "3", help: "most packets per poll in the polling part" },
    up: { kind: "count", value: "none", help: "measured rate above which polling starts (pps)" },
    down: { kind: "count", value: "none", help: "measured rate below which disable-enable resumes (pps)" },
    ewma: { kind: "count", value: "0.1", help: "weight of a new sample in the moving averages of rate and frame size" },
  },
  dim: {
    start: { kind: "count", value: "1", help: "index in the table at the start, 0 to 4" },
  },
} satisfies Record<string, Record<string, Row>>;
