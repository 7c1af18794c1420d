// SPDX-License-Identifier: GPL-2.0
/*
 * A tester in the kernel. live_send writes the headers and the label of each frame of a trial; the kernel runs it by
 * BPF_PROG_TEST_RUN with BPF_F_TEST_XDP_LIVE_FRAMES (Linux 5.18) and redirects the frames to a port. live_count runs
 * where the frames arrive; it counts and drops them. The label, behind the headers, contains the trial's tag, the
 * stream, the sequence number, the time and a checksum.
 *
 * The kernel runs live_send for a batch of frames with softirqs disabled and then hands the batch to the port. The
 * program waits at the first frame of a batch until the last frame is due, so that no frame leaves before its time. The
 * frame layout is defined in crates/rfc2544/src/tester/frame.rs.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

char LICENSE[] SEC("license") = "GPL";

#define BPF_MAP_TYPE_ARRAY 2
#define BPF_F_MMAPABLE (1U << 10)
#define XDP_DROP 1
#define XDP_PASS 2

#define ETHERNET 14
#define TAG 4
/* Offset of the addresses in an untagged IPv4 frame; the ports follow them. */
#define FLOW 26
#define LABEL 18
/* Length of a stream's headers as stored, with space for a VLAN tag: a multiple of eight bytes. */
#define PREFIX 48
/* Cells of a histogram: eight per power of two. */
#define CELLS 512
/* Most readings of the clock in one run of live_send: they take about 0.1 ms, longer than several batches. */
#define LOOKS 4096
#define LOW_48 ((1ULL << 48) - 1)

struct xdp_md {
	__u32 data;
	__u32 data_end;
	__u32 data_meta;
	__u32 ingress_ifindex;
	__u32 rx_queue_index;
	__u32 egress_ifindex;
};

/* Constants, set before the programs are loaded: bytes before the label of a sent frame, bytes of its VLAN tag, bytes
 * of the frame, its last eight bytes, and the number of streams. */
const volatile __u32 prefix_bytes;
const volatile __u32 tag_bytes;
const volatile __u32 frame_bytes;
const volatile __u64 frame_end;
const volatile __u32 streams;

/* The trial that is being sent, and its progress. Only one thread sends. Times are ns of CLOCK_MONOTONIC; `gap` is in
 * ns / 65536. */
struct sending {
	__u64 start_ns;
	__u64 stop_ns;
	__u64 most_ns;
	__u64 gap;
	__u64 frames;
	__u64 batch;
	__u64 tag;
	__u64 port;
	__u64 next;
	__u64 left;
	__u64 now_ns;
	__u64 first_ns;
	__u64 over;
	/* Histograms of batches: by the delay after the time at which their last frame was due, and by the difference between
	 * `gap` and the time since the previous batch. */
	__u64 beyond[CELLS];
	__u64 apart[CELLS];
} sender;

struct counting {
	__u64 tag;
	__u64 measures;
	__u64 tagged;
	__u64 tagged_ns;
	__u64 frames;
	__u64 duplicates;
	__u64 reordered;
	__u64 corrupt;
	__u64 foreign;
	__u64 latency[CELLS];
} counter;

/* The headers of a stream's frames. */
struct prefix {
	__u64 words[PREFIX / 8];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 65536);
	__type(key, __u32);
	__type(value, struct prefix);
} prefixes SEC(".maps");

/* By stream: one more than the highest sequence number that arrived (lower 48 bits), and the trial's tag (upper 16
 * bits). */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 65536);
	__type(key, __u32);
	__type(value, __u64);
} highest SEC(".maps");

/* A bit for each sequence number, set when its frame has arrived. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1 << 21);
	__type(key, __u32);
	__type(value, __u64);
} arrived SEC(".maps");

static __always_inline __u32 cell(__u64 ns)
{
	__u32 power = 0;
	__u64 rest = ns;

	if (ns < 16)
		return ns;
	if (rest >> 32) {
		power += 32;
		rest >>= 32;
	}
	if (rest >> 16) {
		power += 16;
		rest >>= 16;
	}
	if (rest >> 8) {
		power += 8;
		rest >>= 8;
	}
	if (rest >> 4) {
		power += 4;
		rest >>= 4;
	}
	if (rest >> 2) {
		power += 2;
		rest >>= 2;
	}
	power += rest >> 1;
	return (power - 2) * 8 + ((ns >> (power - 3)) & 7);
}

/* Returns the cell of a histogram. The mask shows the verifier that the index is within bounds. */
static __always_inline __u64 *cell_of(__u64 *table, __u64 ns)
{
	__u64 index = cell(ns);

	barrier_var(index);
	return table + (index & (CELLS - 1));
}

static __always_inline __u16 check_word(__u64 high, __u64 low)
{
	__u64 mixed = (high ^ (low << 29 | low >> 35)) * 0x9e3779b97f4a7c15ULL;

	return ((mixed ^ mixed >> 32) * 0xd6e8feb86659fd93ULL) >> 48;
}

struct waiting {
	__u64 due_ns;
	__u64 now_ns;
};

static long look(__u32 index, void *context)
{
	struct waiting *waiting = context;

	waiting->now_ns = bpf_ktime_get_ns();
	return waiting->now_ns >= waiting->due_ns;
}

static __always_inline __u64 due_ns(__u64 sequence)
{
	return sender.start_ns + (sequence * sender.gap >> 16);
}

/* Waits until the last frame of the next batch is due and begins the batch. Returns 0 if it is not due after LOOKS
 * readings of the clock, or if the trial's time is over. */
static __always_inline int begin_batch(void)
{
	__u64 after = sender.next + sender.batch;
	struct waiting waiting = {};
	__u64 gap_ns, expected_ns;

	/* Time starts with the first run, because the kernel waits before it for a time that cannot be predicted. */
	if (!sender.start_ns) {
		sender.start_ns = bpf_ktime_get_ns();
		sender.stop_ns = sender.start_ns + sender.most_ns;
	}
	if (after > sender.frames)
		after = sender.frames;
	waiting.due_ns = due_ns(after - 1);
	bpf_loop(LOOKS, look, &waiting, 0);
	if (waiting.now_ns > sender.stop_ns) {
		sender.over = 1;
		return 0;
	}
	if (waiting.now_ns < waiting.due_ns)
		return 0;
	(*cell_of(sender.beyond, waiting.now_ns - waiting.due_ns))++;
	if (sender.first_ns) {
		gap_ns = waiting.now_ns - sender.now_ns;
		expected_ns = sender.gap >> 16;
		(*cell_of(sender.apart, gap_ns > expected_ns ? gap_ns - expected_ns : expected_ns - gap_ns))++;
	} else {
		sender.first_ns = waiting.now_ns;
	}
	sender.now_ns = waiting.now_ns;
	sender.left = after - sender.next;
	return 1;
}

SEC("xdp")
int live_send(struct xdp_md *context)
{
	void *data = (void *)(long)context->data, *end = (void *)(long)context->data_end;
	__u64 sequence, high, low, *words = data;
	struct prefix *prefix;
	__u32 stream;
	void *label;

	if (sender.over || sender.next >= sender.frames)
		return XDP_DROP;
	if (!sender.left && !begin_batch())
		return XDP_DROP;
	if (data + PREFIX > end || data + prefix_bytes + LABEL > end)
		return XDP_DROP;
	sequence = sender.next;
	stream = streams ? sequence % streams : 0;
	prefix = bpf_map_lookup_elem(&prefixes, &stream);
	if (!prefix)
		return XDP_DROP;
	/* All headers are written for each frame: the kernel reuses the pages of earlier frames, which the device under test
	 * may have modified. */
	words[0] = prefix->words[0];
	words[1] = prefix->words[1];
	words[2] = prefix->words[2];
	words[3] = prefix->words[3];
	words[4] = prefix->words[4];
	words[5] = prefix->words[5];
	high = sender.tag << 48 | (__u64)stream << 32 | sequence >> 16;
	low = sequence << 48 | (sender.now_ns & LOW_48);
	label = data + prefix_bytes;
	*(__u64 *)label = bpf_cpu_to_be64(high);
	*(__u64 *)(label + 8) = bpf_cpu_to_be64(low);
	*(__u16 *)(label + 16) = bpf_htons(check_word(high, low));
	sender.next++;
	sender.left--;
	return bpf_redirect(sender.port, 0);
}

/* Whether the frame has the addresses and ports of its stream, and the length of a sent frame. */
static __always_inline int is_whole(void *data, void *end, __u32 shift, __u32 stream, __u64 length)
{
	struct prefix *prefix = bpf_map_lookup_elem(&prefixes, &stream);
	__u32 sent_at = FLOW + tag_bytes;
	__u32 *flow, *sent;

	if (!prefix || data + FLOW + TAG + 12 > end || sent_at > PREFIX - 12)
		return 0;
	flow = data + FLOW + shift;
	sent = (void *)prefix + sent_at;
	if (flow[0] != sent[0] || flow[1] != sent[1] || flow[2] != sent[2])
		return 0;
	/* The VLAN tag may be outside the frame's data, in the skb: `shift` is 0 then. */
	if (length + tag_bytes - shift != frame_bytes)
		return 0;
	return 1;
}

SEC("xdp.frags")
int live_count(struct xdp_md *context)
{
	void *data = (void *)(long)context->data, *end = (void *)(long)context->data_end;
	__u64 high, low, sequence, now_ns, bit, *word, *next, tag;
	__u32 at, stream, shift = 0;
	void *label;

	if (data + ETHERNET > end)
		return XDP_PASS;
	if (*(__u16 *)(data + 12) == bpf_htons(0x8100))
		shift = TAG;
	label = data + prefix_bytes - tag_bytes + shift;
	if (label + LABEL > end)
		return XDP_PASS;
	high = bpf_be64_to_cpu(*(__u64 *)label);
	low = bpf_be64_to_cpu(*(__u64 *)(label + 8));
	tag = counter.tag;
	if (high >> 48 != tag) {
		__sync_fetch_and_add(&counter.foreign, 1);
		return XDP_PASS;
	}
	stream = (high >> 32) & 0xffff;
	sequence = (high & 0xffffffff) << 16 | low >> 48;
	at = sequence >> 6;
	word = bpf_map_lookup_elem(&arrived, &at);
	next = bpf_map_lookup_elem(&highest, &stream);
	if (check_word(high, low) != bpf_ntohs(*(__u16 *)(label + 16)) || stream >= streams || !word || !next ||
	    !is_whole(data, end, shift, stream, bpf_xdp_get_buff_len(context))) {
		__sync_fetch_and_add(&counter.corrupt, 1);
		return XDP_DROP;
	}
	if (frame_bytes >= PREFIX + LABEL + 8 && data + frame_bytes - tag_bytes + shift <= end &&
	    *(__u64 *)(data + frame_bytes - tag_bytes + shift - 8) != frame_end) {
		__sync_fetch_and_add(&counter.corrupt, 1);
		return XDP_DROP;
	}
	bit = 1ULL << (sequence & 63);
	if (__sync_fetch_and_or(word, bit) & bit) {
		__sync_fetch_and_add(&counter.duplicates, 1);
		return XDP_DROP;
	}
	__sync_fetch_and_add(&counter.frames, 1);
	/* An entry of an earlier trial has another tag. */
	if (*next >> 48 == tag && (*next & LOW_48) > sequence)
		__sync_fetch_and_add(&counter.reordered, 1);
	else
		*next = tag << 48 | (sequence + 1);
	if (counter.measures) {
		now_ns = bpf_ktime_get_ns();
		low = (now_ns - low) & LOW_48;
		__sync_fetch_and_add(cell_of(counter.latency, low), 1);
		if (sequence == counter.tagged)
			counter.tagged_ns = low;
	}
	return XDP_DROP;
}
