// SPDX-License-Identifier: GPL-2.0
/*
 * Records the paths of single packets: the time at which each traced function that handles a packet begins, from the
 * first such function until the packet is consumed or dropped.
 *
 * A packet is identified by the address of its skb. The programs do not see the end of every packet, and the kernel
 * reuses the addresses. A path therefore also ends when another packet of its flow is seen at the address, or when a
 * packet at the address reaches the path's first place and device again.
 *
 * Places are tracepoints and functions (fentry, which needs neither kprobes nor debug symbols). Userspace does not load
 * the programs of places that this kernel lacks.
 */
#include "skb.h"
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "GPL";

#define MOST_PACKETS 1024
#define BPF_NOEXIST 1

/* Number of packets that may still be selected for following; set by userspace. */
__s64 wanted;
/* Least time between the selection of two packets [ns]; it limits the number of packets followed per second. */
const volatile __u64 spacing_ns;
const volatile __u32 has_reason;
__u64 last_begin_ns;
__u64 lost_events;
__u64 lost_packets;
__u32 next_number;

struct event {
	__u64 at_ns;
	__u64 location;
	__u32 packet;
	__u32 place;
	__u32 cpu;
	__u32 length;
	__u32 reason;
	__u32 ended;
	struct flow flow;
	struct owner owner;
};

/* Data of a followed packet, stored at the first place of its path. */
struct following {
	__u32 number;
	__u32 first_place;
	__u64 first_device;
	__u64 mark;
	struct flow flow;
};

struct {
	__uint(type, 1 /* BPF_MAP_TYPE_HASH */);
	__uint(max_entries, MOST_PACKETS);
	__type(key, __u64);
	__type(value, struct following);
} followed SEC(".maps");

struct {
	__uint(type, 27 /* BPF_MAP_TYPE_RINGBUF */);
	__uint(max_entries, 1 << 20);
} events SEC(".maps");

/* Numbers of the places that end a path. Each program's name contains the number and name of its place;
 * crates/host/src/drops/trace.rs reads them. */
enum { DROPPED = 1, CONSUMED = 2, COPIED = 8 };
/* Why a path ended: the packet was freed or passed to a program, or another packet has its address. */
enum { ENDED = 1, REUSED = 2 };

static __always_inline bool is_end(__u32 place)
{
	return place == DROPPED || place == CONSUMED || place == COPIED;
}

/* IPv4 identification and TCP sequence number, combined. They differ between packets of a flow and do not change on a
 * packet's path. 0: not known. */
static __always_inline __u64 mark_of(struct sk_buff *skb, const struct header *h)
{
	unsigned char *head = skb->head;
	__u32 link, at = network_of(skb, &link), sequence = 0, start = 40;
	__u8 first[6] = {};

	if (h->w[W_VERSION] == 4) {
		bpf_probe_read_kernel(first, sizeof(first), head + at);
		start = (first[0] & 15) * 4;
	}
	if (h->w[W_PROTOCOL] == IPPROTO_TCP && !(h->w[W_SPORT] & NO_PORT))
		bpf_probe_read_kernel(&sequence, sizeof(sequence), head + at + start + 4);
	return (__u64)sequence << 16 | first[4] << 8 | first[5];
}

/* Whether the address now belongs to another packet. */
static __noinline bool is_another(struct sk_buff *skb, const struct following *known, __u32 place)
{
	struct header h;
	struct flow flow;
	__u64 mark;

	if (known->first_place == place && known->first_device == (__u64)skb->dev)
		return 1;
	read_header(skb, &h);
	if (!h.w[W_VERSION])
		return 0;
	flow_of(&h, &flow);
	for (int i = 0; i < 4; i++)
		if (flow.src[i] != known->flow.src[i] || flow.dst[i] != known->flow.dst[i])
			return 0;
	if (flow.sport != known->flow.sport || flow.dport != known->flow.dport || flow.protocol != known->flow.protocol)
		return 0;
	mark = mark_of(skb, &h);
	return mark && known->mark && mark != known->mark;
}

static __noinline bool begin(struct sk_buff *skb, __u64 now, __u32 place, struct following *new)
{
	__u64 key = (__u64)skb;
	struct header h;

	if (wanted <= 0 || now - last_begin_ns < spacing_ns)
		return 0;
	read_header(skb, &h);
	if (!accepts(&h))
		return 0;
	/* Two CPUs may pass the check above at the same time; the atomic decrement admits only `wanted` packets. */
	if (__sync_fetch_and_add(&wanted, -1) <= 0)
		return 0;
	last_begin_ns = now;
	new->number = __sync_fetch_and_add(&next_number, 1);
	new->first_place = place;
	new->first_device = (__u64)skb->dev;
	new->mark = mark_of(skb, &h);
	flow_of(&h, &new->flow);
	if (bpf_map_update_elem(&followed, &key, new, BPF_NOEXIST)) {
		__sync_fetch_and_add(&lost_packets, 1);
		return 0;
	}
	return 1;
}

static __always_inline void tell(struct sk_buff *skb, const struct following *packet, __u64 now, __u32 place, __u64 location, __u32 reason,
				 __u32 ended)
{
	struct event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	if (!event) {
		__sync_fetch_and_add(&lost_events, 1);
		return;
	}
	__builtin_memset(event, 0, sizeof(*event));
	event->at_ns = now;
	event->location = location;
	event->packet = packet->number;
	event->place = place;
	event->cpu = bpf_get_smp_processor_id();
	event->length = skb->len;
	event->reason = reason;
	event->ended = ended;
	event->flow = packet->flow;
	event->owner.space = device_space(skb);
	read_device(skb, &event->owner);
	bpf_ringbuf_submit(event, 0);
}

static __always_inline int touched(struct sk_buff *skb, __u32 place, __u64 location, __u32 reason)
{
	__u64 key = (__u64)skb, now;
	struct following new = {}, *known;

	if (!skb)
		return 0;
	known = bpf_map_lookup_elem(&followed, &key);
	if (!known && wanted <= 0)
		return 0;
	now = bpf_ktime_get_ns();
	/* No comparison at a place that ends paths: the path of this address ends there in any case. */
	if (known && !is_end(place) && is_another(skb, known, place)) {
		tell(skb, known, now, place, 0, 0, REUSED);
		bpf_map_delete_elem(&followed, &key);
		known = 0;
	}
	if (!known) {
		/* A path does not begin at a place that ends paths. */
		if (is_end(place) || !begin(skb, now, place, &new))
			return 0;
		known = &new;
	}
	tell(skb, known, now, place, location, reason, is_end(place) ? ENDED : 0);
	if (is_end(place))
		bpf_map_delete_elem(&followed, &key);
	return 0;
}

SEC("tp_btf/kfree_skb")
int p1_kfree_skb(__u64 *ctx)
{
	__u32 reason = 0;

	if (has_reason)
		reason = ctx[2];
	return touched((void *)ctx[0], DROPPED, ctx[1], reason);
}

SEC("tp_btf/consume_skb")
int p2_consume_skb(__u64 *ctx)
{
	return touched((void *)ctx[0], CONSUMED, 0, 0);
}

/* A tracepoint or function whose argument with this index is the packet. */
#define TRACEPOINT_AT(number, name, index) \
	SEC("tp_btf/" #name) int p##number##_##name(__u64 *ctx) { return touched((void *)ctx[index], number, 0, 0); }
#define TRACEPOINT(number, name) TRACEPOINT_AT(number, name, 0)
#define FUNCTION(number, name, index) \
	SEC("fentry/" #name) int p##number##_##name(__u64 *ctx) { return touched((void *)ctx[index], number, 0, 0); }

TRACEPOINT(3, netif_rx)
TRACEPOINT(4, netif_receive_skb)
TRACEPOINT(5, napi_gro_receive_entry)
TRACEPOINT(6, net_dev_queue)
TRACEPOINT(7, net_dev_start_xmit)
TRACEPOINT(8, skb_copy_datagram_iovec)
TRACEPOINT_AT(9, sock_rcvqueue_full, 1)
TRACEPOINT_AT(34, udp_fail_queue_rcv_skb, 2)
TRACEPOINT_AT(35, qdisc_enqueue, 2)
TRACEPOINT_AT(36, qdisc_dequeue, 3)
FUNCTION(10, ip_rcv, 0)
FUNCTION(11, ip_local_deliver, 0)
FUNCTION(12, ip_forward, 0)
FUNCTION(13, ip_output, 2)
FUNCTION(14, ip_finish_output2, 2)
FUNCTION(15, udp_rcv, 0)
FUNCTION(16, udp_queue_rcv_skb, 1)
FUNCTION(17, tcp_v4_rcv, 0)
FUNCTION(18, icmp_rcv, 0)
FUNCTION(19, ipv6_rcv, 0)
FUNCTION(20, ip6_input, 0)
FUNCTION(21, ip6_forward, 0)
FUNCTION(22, ip6_output, 2)
FUNCTION(23, udpv6_rcv, 0)
FUNCTION(24, tcp_v6_rcv, 0)
FUNCTION(25, nf_hook_slow, 0)
FUNCTION(26, skb_consume_udp, 1)
FUNCTION(27, __dev_queue_xmit, 0)
FUNCTION(28, dev_hard_start_xmit, 0)
FUNCTION(29, veth_xmit, 0)
FUNCTION(30, br_handle_frame_finish, 2)
FUNCTION(31, tcp_rcv_established, 1)
FUNCTION(32, __udp_enqueue_schedule_skb, 1)
FUNCTION(33, ip_local_out, 2)
