// SPDX-License-Identifier: GPL-2.0
/*
 * Counts the packets that the kernel drops. The tracepoint skb:kfree_skb reports the reason (since Linux 5.17) and the
 * code location of a drop; the program counts by both. Packets that were processed normally pass another tracepoint,
 * consume_skb, where no program of this file runs.
 *
 * Each CPU counts into its own cells, without atomic operations. On one CPU the kernel does not start a tracing program
 * while that program runs. It counts the runs that it omits for this reason (recursion_misses); userspace reads and
 * reports this count.
 */
#include "skb.h"
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "GPL";

#define MAX_CPUS 512
#define COMM 16
#define PLACES 4096
#define DETAILS 16384
#define STACKS 4096
#define STACK_DEPTH 127

/* Sites (code location and reason) that a CPU counts without a lookup in the hash map; a power of two. */
#define CELLS 8
/* A CPU computes its drop rate once per this number of drops: a reading of the clock costs as much as the counting. */
#define WINDOW 1024
/* One examined drop in this number is timed, for the same reason. It is a prime, because the sampling factor may be a
 * power of two. */
#define TIMED_EVERY 17
#define MOST_FACTOR 65536

#define BPF_ANY 0
#define BPF_NOEXIST 1

/* BY_RECEIVER: the receiving socket, if the kernel reports it. BY_SOCKET: the receiving socket, otherwise the socket to
 * which the skb belongs (the sender). */
enum { BY_FLOW = 1, BY_PROCESS = 2, BY_STACK = 4, BY_SPACE = 8, BY_DEVICE = 16, BY_RECEIVER = 32, BY_SOCKET = 64 };

/* Set before the programs are loaded. */
const volatile __u32 has_reason;
/* Whether the tracepoint reports the receiving socket (since Linux 6.11). */
const volatile __u32 has_socket;
const volatile __u32 counts_segments;
const volatile __u32 by;
/* Drop rate of a CPU [drops/s] above which the CPU examines only one drop in `factor`; 0: it examines all drops. */
const volatile __u64 bound_per_s;

struct place {
	__u64 location;
	__u32 reason;
	__u32 pad;
};

struct tally {
	__u64 drops;
	__u64 packets;
	__u64 bytes;
};

struct detail {
	struct place place;
	struct flow flow;
	__u32 process;
	__s32 stack;
	char comm[COMM];
	struct owner owner;
};

struct cpu_drops {
	__u64 seen;
	__u64 looked_at;
	__u64 factor;
	__u64 window_start_ns;
	__u64 full_places;
	__u64 full_details;
	__u64 full_stacks;
	/* Drops, examined or not, while a thread of process 1 ran on the CPU. */
	__u64 in_first;
	/* Timed runs, and their total time. */
	__u64 timed;
	__u64 timed_ns;
	__u64 until_timed;
	/* Padding to two cache lines, so that CPUs do not write to the same line. */
	__u64 pad[5];
};

struct cpu_drops cpus[MAX_CPUS];

/* A site and its counts; the cell is free while it has counted no drop. */
struct cell {
	struct place place;
	struct tally tally;
};

/* Location and reason of a site select its cell. The first site of a cell owns it; other sites with the same cell are
 * counted in the map. */
struct cell cells[MAX_CPUS][CELLS];

struct {
	__uint(type, 5 /* BPF_MAP_TYPE_PERCPU_HASH */);
	__uint(max_entries, PLACES);
	__type(key, struct place);
	__type(value, struct tally);
} places SEC(".maps");

struct {
	__uint(type, 5 /* BPF_MAP_TYPE_PERCPU_HASH */);
	__uint(max_entries, DETAILS);
	__type(key, struct detail);
	__type(value, struct tally);
} details SEC(".maps");

struct {
	__uint(type, 7 /* BPF_MAP_TYPE_STACK_TRACE */);
	__uint(max_entries, STACKS);
	__type(key, __u32);
	__uint(value_size, STACK_DEPTH * sizeof(__u64));
} stacks SEC(".maps");

/* Decides whether a drop is examined. Returns the number of drops that it represents; 0: it is not examined. */
static __always_inline __u64 sampled(struct cpu_drops *c)
{
	__u64 factor = c->factor ? c->factor : 1;

	c->seen++;
	if (bound_per_s && !(c->seen & (WINDOW - 1))) {
		__u64 now = bpf_ktime_get_ns(), took = now - c->window_start_ns;
		/* Duration of a window at a rate of `bound_per_s`. */
		__u64 least = WINDOW * 1000000000ull / bound_per_s;

		factor = took && took < least ? least / took + 1 : 1;
		c->factor = factor < MOST_FACTOR ? factor : MOST_FACTOR;
		c->window_start_ns = now;
	}
	if (factor > 1 && c->seen % factor)
		return 0;
	c->looked_at++;
	return factor;
}

static __always_inline void add(struct tally *tally, __u64 drops, __u64 packets, __u64 bytes)
{
	tally->drops += drops;
	tally->packets += packets;
	tally->bytes += bytes;
}

static __always_inline bool count(void *map, const void *key, __u64 drops, __u64 packets, __u64 bytes)
{
	struct tally *tally = bpf_map_lookup_elem(map, key);

	if (!tally) {
		struct tally none = {};

		bpf_map_update_elem(map, key, &none, BPF_NOEXIST);
		tally = bpf_map_lookup_elem(map, key);
		if (!tally)
			return 0;
	}
	add(tally, drops, packets, bytes);
	return 1;
}

static __always_inline bool count_place(__u32 cpu, const struct place *place, __u64 drops, __u64 packets, __u64 bytes)
{
	struct cell *cell = &cells[cpu][(place->location >> 4 ^ place->reason) & (CELLS - 1)];

	if (!cell->tally.drops)
		cell->place = *place;
	if (cell->place.location != place->location || cell->place.reason != place->reason)
		return count(&places, place, drops, packets, bytes);
	add(&cell->tally, drops, packets, bytes);
	return 1;
}

/* Returns the number of packets on the wire: the segments of a GSO packet, otherwise 1. */
static __always_inline __u64 packets_of(struct sk_buff *skb)
{
	struct skb_shared_info *shared = (void *)(skb->head + skb->end);
	__u64 packets = BPF_CORE_READ(shared, gso_segs);

	return packets ? packets : 1;
}

/* Counts an examined drop `factor` times: it represents `factor` drops. */
static __always_inline void look_at(__u64 *ctx, __u32 cpu, struct cpu_drops *c, __u64 factor)
{
	struct sk_buff *skb = (void *)ctx[0];
	struct sock *sk = 0;
	struct place place;
	__u64 packets = 1;
	struct header h;

	if (has_socket)
		sk = (void *)ctx[3];
	if (!sk && (spaces_count || by & (BY_SOCKET | BY_SPACE)))
		sk = skb->sk;
	if (!in_spaces(skb, sk))
		return;
	if (filter_length || by & (BY_FLOW | BY_RECEIVER | BY_SOCKET))
		read_header(skb, &h);
	if (filter_length && !accepts(&h))
		return;
	place.location = ctx[1];
	place.reason = 0;
	place.pad = 0;
	if (has_reason)
		place.reason = ctx[2];
	if (counts_segments)
		packets = packets_of(skb);
	if (!count_place(cpu, &place, factor, factor * packets, factor * skb->len))
		c->full_places += factor;
	if (by) {
		struct detail detail = {};

		detail.place = place;
		if (by & BY_FLOW)
			flow_of(&h, &detail.flow);
		if (by & BY_PROCESS) {
			detail.process = bpf_get_current_pid_tgid() >> 32;
			bpf_get_current_comm(detail.comm, sizeof(detail.comm));
		}
		if (by & BY_STACK) {
			detail.stack = bpf_get_stackid(ctx, &stacks, 0);
			if (detail.stack < 0) {
				c->full_stacks += factor;
				detail.stack = -1;
			}
		}
		if (by & BY_SPACE)
			detail.owner.space = space_of(skb, sk);
		if (by & BY_DEVICE)
			read_device(skb, &detail.owner);
		if (by & BY_SOCKET && sk)
			read_socket(sk, &h, &detail.owner);
		else if (by & BY_RECEIVER && has_socket && ctx[3])
			read_socket((void *)ctx[3], &h, &detail.owner);
		if (!count(&details, &detail, factor, factor * packets, factor * skb->len))
			c->full_details += factor;
	}
}

SEC("tp_btf/kfree_skb")
int dropped(__u64 *ctx)
{
	__u32 cpu = bpf_get_smp_processor_id();
	__u64 factor, started;
	struct cpu_drops *c;
	bool timed;

	if (cpu >= MAX_CPUS)
		return 0;
	c = &cpus[cpu];
	if (bpf_get_current_pid_tgid() >> 32 == 1)
		c->in_first++;
	factor = sampled(c);
	if (!factor)
		return 0;
	timed = !c->until_timed;
	c->until_timed = timed ? TIMED_EVERY - 1 : c->until_timed - 1;
	started = timed ? bpf_ktime_get_ns() : 0;
	look_at(ctx, cpu, c, factor);
	if (timed) {
		c->timed++;
		c->timed_ns += bpf_ktime_get_ns() - started;
	}
	return 0;
}
