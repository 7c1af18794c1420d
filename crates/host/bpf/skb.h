/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reads a packet's header, device and socket from its skb at any place in the kernel, and applies the user's filter.
 * Shared by the programs that count drops (drops.bpf.c) and that follow packets (trace.bpf.c).
 */
#ifndef NETCLIFF_SKB_H
#define NETCLIFF_SKB_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

/* include/uapi/linux/if_arp.h */
#define ARPHRD_ETHER 1
#define ARPHRD_LOOPBACK 772
#define ETH_HLEN 14
/* include/uapi/linux/if_ether.h */
#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86DD
#define UNSET 0xffff

#define ETH_P_ARP 0x0806
#define ETH_P_RARP 0x8035

#define IPPROTO_TCP 6
#define IPPROTO_UDP 17
#define IPPROTO_FRAGMENT 44
#define IPPROTO_SCTP 132

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define ntohs(x) __builtin_bswap16(x)
#define ntohl(x) __builtin_bswap32(x)
#else
#define ntohs(x) (x)
#define ntohl(x) (x)
#endif

/* include/net/net_namespace.h, include/linux/ns_common.h */
struct net {
	struct ns_common ns;
} __attribute__((preserve_access_index));

typedef struct {
	struct net *net;
} __attribute__((preserve_access_index)) possible_net_t;

#define DEVICE_NAME 16

struct net_device___link {
	unsigned short type;
	possible_net_t nd_net;
	char name[DEVICE_NAME];
} __attribute__((preserve_access_index));

/* include/net/sock.h, include/linux/net.h, include/linux/fs.h: the members that identify a socket. */
struct in6_addr {
	__u8 bytes[16];
};

struct sock_common {
	unsigned short skc_family;
	unsigned char skc_state;
	__u16 skc_num;
	__u32 skc_rcv_saddr;
	possible_net_t skc_net;
	struct in6_addr skc_v6_rcv_saddr;
} __attribute__((preserve_access_index));

struct inode {
	unsigned long i_ino;
} __attribute__((preserve_access_index));

struct file {
	struct inode *f_inode;
} __attribute__((preserve_access_index));

struct socket {
	struct file *file;
} __attribute__((preserve_access_index));

struct sock {
	struct sock_common __sk_common;
	struct socket *sk_socket;
} __attribute__((preserve_access_index));

struct sk_buff {
	struct net_device___link *dev;
	struct sock *sk;
	unsigned int len;
	unsigned short protocol;
	unsigned short network_header;
	unsigned short mac_header;
	unsigned int end;
	unsigned char *head;
	unsigned char *data;
} __attribute__((preserve_access_index));

struct skb_shared_info {
	unsigned short gso_segs;
} __attribute__((preserve_access_index));

/* The words of a packet's header that a filter tests; crates/core/src/filter.rs defines the same words. */
enum word {
	W_VERSION,  /* 4, 6, 5 for ARP and RARP (which have addresses of IPv4), or 0 for none of these */
	W_ETHERTYPE,
	W_PROTOCOL, /* of IP */
	W_SRC,      /* four words; IPv4 uses the first */
	W_DST = W_SRC + 4,
	W_SPORT = W_DST + 4, /* NO_PORT if the packet has no ports */
	W_DPORT,
	W_LENGTH,   /* with the link-layer header, as tcpdump counts it */
	W_INNER,    /* the protocol after an IPv6 fragment header; otherwise equal to W_PROTOCOL */
	WORDS = 16,
};

#define NO_PORT 0x10000
#define TESTS 64

/* One step of a filter. If the masked word is within low..=high, the filter continues at step `yes`, otherwise at step
 * `no`. Step TESTS means that the packet is accepted, TESTS + 1 that it is rejected. */
struct test {
	__u8 word;
	__u8 yes;
	__u8 no;
	__u8 pad;
	__u32 mask;
	__u32 low;
	__u32 high;
};

const volatile struct test filter[TESTS];
const volatile __u32 filter_length;

struct flow {
	__u32 src[4];
	__u32 dst[4];
	__u16 sport;
	__u16 dport;
	__u8 protocol;
	__u8 version;
	__u16 pad;
};

struct header {
	__u32 w[WORDS];
};

/* Bytes read from the start of the IP header: an IPv6 header, or an IPv4 header without options and the 20 bytes after
 * it. */
#define LOOK 40

static __always_inline void read_ports(struct header *h, const __u8 *next)
{
	__u32 protocol = h->w[W_PROTOCOL];

	if (protocol == IPPROTO_TCP || protocol == IPPROTO_UDP || protocol == IPPROTO_SCTP) {
		h->w[W_SPORT] = next[0] << 8 | next[1];
		h->w[W_DPORT] = next[2] << 8 | next[3];
	}
}

/*
 * Returns the offset of the IP header from skb->head, and in `link` the length of the link-layer header (0: none or not
 * known). On the receive path the kernel sets the offset of the link-layer header first, and the offset of the network
 * header may still be stale; on the send path it sets the network header's offset first.
 */
static __always_inline __u32 network_of(struct sk_buff *skb, __u32 *link)
{
	__u32 mac = skb->mac_header, net = skb->network_header, type = ARPHRD_ETHER;

	*link = 0;
	if (mac == UNSET)
		return net ? net : skb->data - skb->head;
	if (net > mac) {
		*link = net - mac;
		return net;
	}
	/* In a queued skb the memory of `dev` may contain other data. If the read fails, the type stays ARPHRD_ETHER. */
	bpf_probe_read_kernel(&type, sizeof(unsigned short), &skb->dev->type);
	type &= 0xffff;
	*link = type == ARPHRD_ETHER || type == ARPHRD_LOOPBACK ? ETH_HLEN : 0;
	return mac + *link;
}

/* Reads the header words that filters test and that identify a flow. */
static __always_inline void read_header(struct sk_buff *skb, struct header *h)
{
	__u8 bytes[LOOK] = {}, next[4] = {};
	unsigned char *head = skb->head;
	__u32 link, at = network_of(skb, &link), data = skb->data - head, length;

	__builtin_memset(h, 0, sizeof(*h));
	h->w[W_SPORT] = NO_PORT;
	h->w[W_DPORT] = NO_PORT;
	h->w[W_ETHERTYPE] = ntohs(skb->protocol);
	/* skb->len counts from skb->data, which may already point behind the headers. */
	length = skb->len + (data - at);
	h->w[W_LENGTH] = length + link;
	if (bpf_probe_read_kernel(bytes, LOOK, head + at))
		return;
	if (h->w[W_ETHERTYPE] == ETH_P_IP || (!h->w[W_ETHERTYPE] && bytes[0] >> 4 == 4)) {
		__u32 ihl = (bytes[0] & 15) * 4;

		if (bytes[0] >> 4 != 4 || ihl < 20)
			return;
		h->w[W_VERSION] = 4;
		h->w[W_ETHERTYPE] = ETH_P_IP;
		h->w[W_PROTOCOL] = h->w[W_INNER] = bytes[9];
		__builtin_memcpy(&h->w[W_SRC], bytes + 12, 4);
		__builtin_memcpy(&h->w[W_DST], bytes + 16, 4);
		h->w[W_SRC] = ntohl(h->w[W_SRC]);
		h->w[W_DST] = ntohl(h->w[W_DST]);
		/* Only the first fragment has ports. */
		if ((bytes[6] & 0x1f) | bytes[7])
			return;
		if (ihl == 20) {
			read_ports(h, bytes + 20);
			return;
		}
		if (!bpf_probe_read_kernel(next, sizeof(next), head + at + ihl))
			read_ports(h, next);
	} else if (h->w[W_ETHERTYPE] == ETH_P_IPV6 || (!h->w[W_ETHERTYPE] && bytes[0] >> 4 == 6)) {
		if (bytes[0] >> 4 != 6)
			return;
		h->w[W_VERSION] = 6;
		h->w[W_ETHERTYPE] = ETH_P_IPV6;
		h->w[W_PROTOCOL] = h->w[W_INNER] = bytes[6];
		__builtin_memcpy(&h->w[W_SRC], bytes + 8, 16);
		__builtin_memcpy(&h->w[W_DST], bytes + 24, 16);
		for (int i = 0; i < 8; i++)
			h->w[W_SRC + i] = ntohl(h->w[W_SRC + i]);
		if (bpf_probe_read_kernel(next, sizeof(next), head + at + 40))
			return;
		if (h->w[W_PROTOCOL] == IPPROTO_FRAGMENT)
			h->w[W_INNER] = next[0];
		read_ports(h, next);
	} else if (h->w[W_ETHERTYPE] == ETH_P_ARP || h->w[W_ETHERTYPE] == ETH_P_RARP) {
		/* The addresses of sender and target, for IPv4 on Ethernet. */
		h->w[W_VERSION] = 5;
		h->w[W_SRC] = bytes[14] << 24 | bytes[15] << 16 | bytes[16] << 8 | bytes[17];
		h->w[W_DST] = bytes[24] << 24 | bytes[25] << 16 | bytes[26] << 8 | bytes[27];
	}
}

/* Inode numbers of the selected network namespaces, and their number; 0 selects all namespaces. */
#define SPACES 4
const volatile __u32 spaces[SPACES];
const volatile __u32 spaces_count;
/* Smallest inode number of a namespace. Sources: include/uapi/linux/nsfs.h (initial namespaces since Linux 6.18),
 * fs/proc/generic.c. */
#define FIRST_SPACE 0xeffffff0

/* include/net/tcp_states.h: states in which the kernel has a smaller structure than `struct sock`, without
 * sk_socket. */
#define TCP_TIME_WAIT 6
#define TCP_NEW_SYN_RECV 12
#define AF_INET6 10

/* Socket, network namespace and device of a packet; members that are not known are 0. */
struct owner {
	__u64 socket; /* inode number */
	__u32 space;  /* inode number of the network namespace */
	__u16 port;   /* of the socket */
	__u8 family;
	__u8 protocol;
	__u32 address[4];
	char device[DEVICE_NAME];
};

/*
 * Returns the inode number of the network namespace of the packet's device; 0 if it is not known. In a socket's queue
 * the memory of `dev` contains other data; the value read then is below FIRST_SPACE. space_of uses the socket's
 * namespace instead if the device's is not known.
 */
static __always_inline __u32 device_space(struct sk_buff *skb)
{
	__u32 space = BPF_CORE_READ(skb, dev, nd_net.net, ns.inum);

	return space < FIRST_SPACE ? 0 : space;
}

static __always_inline __u32 space_of(struct sk_buff *skb, struct sock *sk)
{
	__u32 space = device_space(skb);

	if (space || !sk)
		return space;
	space = BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum);
	return space < FIRST_SPACE ? 0 : space;
}

/* Whether the packet is in a selected namespace, or its namespace is not known. */
static __always_inline bool in_spaces(struct sk_buff *skb, struct sock *sk)
{
	__u32 space;

	if (!spaces_count)
		return 1;
	space = space_of(skb, sk);
	if (!space)
		return 1;
	for (int i = 0; i < SPACES; i++)
		if (spaces[i] == space)
			return 1;
	return 0;
}

static __always_inline void read_device(struct sk_buff *skb, struct owner *owner)
{
	if (device_space(skb))
		BPF_CORE_READ_INTO(&owner->device, skb, dev, name);
}

static __always_inline void read_socket(struct sock *sk, const struct header *h, struct owner *owner)
{
	__u8 state = BPF_CORE_READ(sk, __sk_common.skc_state);

	owner->family = BPF_CORE_READ(sk, __sk_common.skc_family);
	owner->port = BPF_CORE_READ(sk, __sk_common.skc_num);
	owner->protocol = h->w[W_INNER];
	if (owner->family != AF_INET6)
		owner->address[0] = BPF_CORE_READ(sk, __sk_common.skc_rcv_saddr);
	else if (bpf_core_field_exists(sk->__sk_common.skc_v6_rcv_saddr))
		bpf_core_read(owner->address, sizeof(owner->address), &sk->__sk_common.skc_v6_rcv_saddr);
	if (state != TCP_TIME_WAIT && state != TCP_NEW_SYN_RECV)
		owner->socket = BPF_CORE_READ(sk, sk_socket, file, f_inode, i_ino);
}

/* Whether the filter accepts the packet. */
static __always_inline bool accepts(const struct header *h)
{
	__u32 at = 0;

	if (!filter_length)
		return 1;
	for (int step = 0; step < TESTS; step++) {
		const volatile struct test *t;
		__u32 word, value;

		if (at >= TESTS)
			return at == TESTS;
		t = &filter[at];
		word = t->word & (WORDS - 1);
		asm volatile("" : "+r"(word));
		if (word >= WORDS)
			return 0;
		value = h->w[word] & t->mask;
		at = value >= t->low && value <= t->high ? t->yes : t->no;
	}
	return at == TESTS;
}

static __always_inline void flow_of(const struct header *h, struct flow *f)
{
	__builtin_memcpy(f->src, &h->w[W_SRC], 32);
	f->sport = h->w[W_SPORT] & NO_PORT ? 0 : h->w[W_SPORT];
	f->dport = h->w[W_DPORT] & NO_PORT ? 0 : h->w[W_DPORT];
	f->protocol = h->w[W_PROTOCOL];
	f->version = h->w[W_VERSION];
	f->pad = 0;
}

#endif
