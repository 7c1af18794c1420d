/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The kernel types that these programs read. Only the members that are read are declared; preserve_access_index makes
 * libbpf look up their offsets in the running kernel's BTF (CO-RE).
 */
#ifndef NETCLIFF_KERNEL_H
#define NETCLIFF_KERNEL_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u64 __be64;
typedef __u32 __wsum;
typedef _Bool bool;

/* include/uapi/linux/bpf.h */
enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
};

/* include/linux/sched.h */
#define PF_KTHREAD 0x00200000

/* include/linux/ns_common.h, pid_namespace.h, pid.h: a task's IDs, one for each PID namespace that contains the
 * task. */
struct ns_common {
	unsigned int inum;
} __attribute__((preserve_access_index));

struct pid_namespace {
	struct ns_common ns;
} __attribute__((preserve_access_index));

struct upid {
	int nr;
	struct pid_namespace *ns;
} __attribute__((preserve_access_index));

struct pid {
	unsigned int level;
	struct upid numbers[1];
} __attribute__((preserve_access_index));

struct task_struct {
	unsigned int flags;
	unsigned int policy;
	int pid;
	int tgid;
	struct task_struct *group_leader;
	struct pid *thread_pid;
	char comm[16];
} __attribute__((preserve_access_index));

struct net_device {
	int ifindex;
} __attribute__((preserve_access_index));

struct napi_struct {
	struct net_device *dev;
} __attribute__((preserve_access_index));

struct irqaction;

#endif
