// SPDX-License-Identifier: GPL-2.0
/*
 * Where the time of each CPU goes, exactly: every nanosecond since `last` was set belongs to one class.
 *
 * One state record a CPU. A transition (softirq entry, interrupt exit, task switch, ...) charges the time
 * since the previous transition to the class that was running, then sets the class that runs now. What
 * is nested is therefore exclusive: an interrupt inside a softirq is not softirq time.
 *
 * The programs run with interrupts enabled in places, so a transition can itself be interrupted by one
 * of a higher level. `charge` stays exact: `last` is exchanged atomically, so the charged differences
 * telescope (if an interrupt got in between, the outer difference is negative by what the interrupt
 * already charged), and the sum of all classes is always last - start. Userspace uses this sum as the
 * check that it read a consistent record.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "GPL";

#define MAX_CPUS 256
#define CLASSES 16

enum class {
	UNKNOWN,
	IDLE,
	TASK_OTHER,
	TASK_WATCHED,
	TASK_KSOFTIRQD,
	TASK_NAPI,
	SOFT_NET_RX,
	SOFT_NET_TX,
	SOFT_OTHER,
	HARD_DEVICE,
	HARD_CALL,
	HARD_RESCHED,
	HARD_TIMER,
	HARD_OTHER,
};

/* include/uapi/linux/sched.h */
#define SCHED_IDLE 5
/* include/linux/sched.h */
#define TASK_COMM_LEN 16

/* include/linux/interrupt.h */
#define NET_TX_SOFTIRQ 2
#define NET_RX_SOFTIRQ 3

/* Who ran the NET_RX softirq. */
enum origin { FROM_IRQ, FROM_KSOFTIRQD, FROM_PROCESS, ORIGINS };

/* In which context a NAPI poll ran. */
enum place { IN_SOFTIRQ, IN_THREAD, IN_PROCESS, PLACES };

/* Which poll of a batch: they cost differently (entry overhead, cold caches). */
enum kind { FIRST_FROM_IDLE, FIRST_FROM_BUSY, NEXT, THREADED, KINDS };

/* Work 0..64 each has a cell; then 65..127, 128..255, 256 and more. */
#define CELLS 68

/*
 * A softirq run on the way out of an interrupt starts within this time of it; chosen as about ten times
 * the cost of the path in between, and far below the time between unrelated events.
 */
#define ADJACENT_NS 2000

/*
 * No sign of life of a CPU for longer than this is a pause from outside: above the longest stretches of the kernel's own that these
 * programs see whole (a poll of 64 packets into a full socket takes 130 us), and below a tenth of what a backlog of 1000 packets
 * bridges at 300 kpps. crates/host/src/cpu/heartbeat.rs has the same.
 */
#define PAUSE_NS 250000
/*
 * On a slow host (an emulated guest) a poll of NAPI_POLL_WEIGHT packets alone takes longer: there a pause begins at three times what
 * such a poll takes at the least packet time seen, in polls of so many packets that their fixed cost is small beside. Three times:
 * its packets' times vary, and so does the speed of the machine.
 */
#define POLL_WEIGHT 64
#define MANY_PACKETS 32
/* Pauses kept a CPU; later ones overwrite the first. A power of two. */
#define PAUSES 512

struct poll_cell {
	__u64 count;
	__u64 packets;
	__u64 ns;
	__u64 ns_squared;
};

struct pause {
	__u64 from;
	__u64 to;
};

/* A stretch in which another task had the CPU. */
struct visit {
	__u64 from;
	__u64 to;
	char task[TASK_COMM_LEN];
};

struct cpu_state {
	__u64 last;
	/* When a thread of ours last ran its own code here; written by userspace. */
	__u64 alive;
	/* When the present task came, and its id. */
	__u64 switched;
	__u64 pid;
	__u64 ns[CLASSES];
	__u64 running;
	__u64 entries[CLASSES];
	/* Interrupts of devices by the class that they hit. */
	__u64 device_hits[CLASSES];
	__u64 task;
	__u64 soft;
	__u64 hard_depth;
	__u64 hard_exit;
	__u64 soft_exit;
	/* When the last NET_RX softirq ended. */
	__u64 rx_exit;
	/* Not 0: the CPU was idle since a watched task last came; and how often one came after that. */
	__u64 idled;
	__u64 wakes;
	__u64 origin;
	__u64 rx_origin[ORIGINS];
	__u64 polls[PLACES];
	__u64 packets[PLACES];
	__u64 empty_polls;
	__u64 full_polls;
	__u64 backlog_polls;
	__u64 backlog_packets;
	/* Where the poll under way began: time of its class, and interrupts of devices. */
	__u64 poll_mark;
	__u64 poll_interrupts;
	__u64 poll_kind;
	__u64 tail_ns;
	/* Polls whose first packet a driver gave to GRO, the time until then, and whether this poll has come so far. */
	__u64 looks;
	__u64 look_ns;
	__u64 looked;
	/* Those of them in which a device interrupted, their time without its handlers, and its interrupts. */
	__u64 hit_looks;
	__u64 hit_look_ns;
	__u64 look_hits;
	struct poll_cell cells[KINDS * CELLS];
};

struct cpu_state cpus[MAX_CPUS];

/* Apart from the counters, which are copied as a whole. */
struct cpu_pauses {
	__u64 count;
	/* Shortest pause here; 0: PAUSE_NS. */
	__u64 shortest;
	/*
	 * Not 0: records all times without a transition while the CPU is idle or runs a watched task, and all times between two NET_RX
	 * softirqs if the CPU is idle at the end; written by userspace.
	 */
	__u64 all_gaps;
	struct pause ring[PAUSES];
};

struct cpu_pauses pauses[MAX_CPUS];

/* Likewise, of other tasks: those that kept the CPU for longer than PAUSE_NS, softirqs in between included. */
struct cpu_visits {
	__u64 count;
	struct visit ring[PAUSES];
};

struct cpu_visits visits[MAX_CPUS];

/* How many watched ids of each sort there are: saves the look-up at every switch when there are none. */
__u32 watched_processes;
__u32 watched_threads;

/*
 * The PID namespace in which watched ids are meant (its inode number), where that is not the initial one: in a
 * container a task's id for its own programs is another than the kernel's.
 */
__u32 pid_namespace_inum;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u8);
} process_ids SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u8);
} thread_ids SEC(".maps");

static __always_inline struct cpu_state *this_cpu(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	if (cpu >= MAX_CPUS)
		return 0;
	return &cpus[cpu];
}

/* Stores a time without a transition if it is long enough for a pause. */
static __always_inline void keep_pause(struct cpu_pauses *p, __u64 from, __u64 to)
{
	__u64 place;

	if ((__s64)(to - from) <= PAUSE_NS || to - from <= p->shortest)
		return;
	place = __sync_fetch_and_add(&p->count, 1) & (PAUSES - 1);
	p->ring[place].from = from;
	p->ring[place].to = to;
}

/*
 * Records a pause if the CPU made no transition for longer than the class that ran can take. A task has no longest time: only the time
 * since its last own heartbeat counts. With `all_gaps`, the whole time counts, also if the task's heartbeats show that the CPU ran: the
 * reader knows when an interrupt was due (crates/service/src/requester/log.rs), which the hypervisor may also deliver late.
 */
static __always_inline void note_pause(__u64 class, struct cpu_state *s, __u64 last, __u64 now)
{
	struct cpu_pauses *p;
	__u64 cpu = bpf_get_smp_processor_id();

	if (cpu >= MAX_CPUS)
		return;
	p = &pauses[cpu];
	if (class == IDLE || class == TASK_WATCHED) {
		if (!p->all_gaps) {
			if (s->alive < s->switched)
				return;
			if (s->alive > last)
				last = s->alive;
		}
	} else if (class == UNKNOWN || class == TASK_OTHER || class == SOFT_NET_TX || class == SOFT_OTHER) {
		return;
	}
	keep_pause(p, last, now);
}

/* A NET_RX softirq begins although the CPU was idle since the last one: its interrupt may be late. */
static __always_inline void note_late_interrupt(struct cpu_state *s, __u64 now)
{
	__u64 cpu = bpf_get_smp_processor_id();

	if (cpu < MAX_CPUS && s->rx_exit && pauses[cpu].all_gaps)
		keep_pause(&pauses[cpu], s->rx_exit, now);
}

/* A task that is neither watched nor the network's gave the CPU back; 0: it is not known any more who that was. */
static __always_inline void note_visit(struct task_struct *t, __u64 from, __u64 to)
{
	__u64 cpu = bpf_get_smp_processor_id();
	struct visit *v;

	if (cpu >= MAX_CPUS)
		return;
	v = &visits[cpu].ring[__sync_fetch_and_add(&visits[cpu].count, 1) & (PAUSES - 1)];
	v->from = from;
	v->to = to;
	v->task[0] = 0;
	if (t)
		bpf_probe_read_kernel_str(v->task, sizeof(v->task), t->comm);
}

static __always_inline __u64 charge(struct cpu_state *s)
{
	__u64 now = bpf_ktime_get_ns();
	__u64 last = __sync_lock_test_and_set(&s->last, now);

	__sync_fetch_and_add(&s->ns[s->running & (CLASSES - 1)], now - last);
	if ((__s64)(now - last) > PAUSE_NS)
		note_pause(s->running, s, last, now);
	return now;
}

static __always_inline __u64 class_of_kernel_thread(struct task_struct *t)
{
	/* "ksoftirqd/N" */
	if (t->comm[0] == 'k' && t->comm[1] == 's' && t->comm[2] == 'o' && t->comm[3] == 'f' &&
	    t->comm[4] == 't' && t->comm[5] == 'i')
		return TASK_KSOFTIRQD;
	/* "napi/DEVICE-ID": threaded NAPI */
	if (t->comm[0] == 'n' && t->comm[1] == 'a' && t->comm[2] == 'p' && t->comm[3] == 'i' &&
	    t->comm[4] == '/')
		return TASK_NAPI;
	/* "backlog_napi/N": threaded backlog */
	if (t->comm[0] == 'b' && t->comm[1] == 'a' && t->comm[2] == 'c' && t->comm[3] == 'k' &&
	    t->comm[7] == '_' && t->comm[8] == 'n')
		return TASK_NAPI;
	return TASK_OTHER;
}

/* The id that userspace knows a task by; 0 where the task is not in userspace's PID namespace. */
static __always_inline __u32 id_of(struct task_struct *t)
{
	struct pid *ids = BPF_CORE_READ(t, thread_pid);
	struct upid *id = (void *)ids + bpf_core_field_offset(struct pid, numbers) +
			  BPF_CORE_READ(ids, level) * bpf_core_type_size(struct upid);

	if (BPF_CORE_READ(id, ns, ns.inum) != pid_namespace_inum)
		return 0;
	return BPF_CORE_READ(id, nr);
}

static __always_inline __u64 class_of_task(struct task_struct *t)
{
	__u32 id = t->pid;

	if (id == 0)
		return IDLE;
	if (t->flags & PF_KTHREAD)
		return class_of_kernel_thread(t);
	if (watched_threads && pid_namespace_inum)
		id = id_of(t);
	if (watched_threads && bpf_map_lookup_elem(&thread_ids, &id))
		return TASK_WATCHED;
	/* A loop that keeps the CPU from halting: whoever wants its time has it. */
	if (t->policy == SCHED_IDLE)
		return IDLE;
	id = watched_processes && pid_namespace_inum ? id_of(t->group_leader) : t->tgid;
	if (watched_processes && bpf_map_lookup_elem(&process_ids, &id))
		return TASK_WATCHED;
	return TASK_OTHER;
}

/* `t` has the CPU since `now`. */
static __always_inline void now_runs(struct cpu_state *s, struct task_struct *t, __u64 now)
{
	__u64 class = class_of_task(t);

	s->switched = now;
	s->pid = t->pid;
	s->task = class;
}

/*
 * Kernels have been seen that leave a task without telling (Firecracker's, for a thread of its own init): whoever is interrupted has the CPU,
 * and had it since the last transition.
 */
static __always_inline void look_again(struct cpu_state *s)
{
	__u32 pid = bpf_get_current_pid_tgid();

	if (s->task == UNKNOWN || pid == s->pid || s->hard_depth)
		return;
	if (s->task == TASK_OTHER && (__s64)(s->last - s->switched) > PAUSE_NS)
		note_visit(0, s->switched, s->last);
	now_runs(s, bpf_get_current_task_btf(), s->last);
	if (!s->soft)
		s->running = s->task;
}

/* What runs when no interrupt does. */
static __always_inline __u64 below_interrupt(struct cpu_state *s)
{
	return s->soft ? s->soft : s->task;
}

static __always_inline int enter_hard(__u64 class)
{
	struct cpu_state *s = this_cpu();
	__u64 hit;

	if (!s)
		return 0;
	look_again(s);
	charge(s);
	if (s->hard_depth++ == 0) {
		hit = below_interrupt(s);
		/* As in napi_poll. */
		asm volatile("" : "+r"(hit));
		if (class == HARD_DEVICE)
			s->device_hits[hit & (CLASSES - 1)]++;
		s->running = class;
	}
	s->entries[class]++;
	return 0;
}

static __always_inline int exit_hard(void)
{
	struct cpu_state *s = this_cpu();

	/* An exit without its entry: the programs were attached inside the interrupt. */
	if (!s || s->hard_depth == 0)
		return 0;
	s->hard_exit = charge(s);
	if (--s->hard_depth == 0)
		s->running = below_interrupt(s);
	return 0;
}

/* A poll begins, when its class has run for `mark`. */
static __always_inline void begin_poll(struct cpu_state *s, __u64 mark)
{
	s->poll_mark = mark;
	s->poll_interrupts = s->entries[HARD_DEVICE];
	s->looked = 0;
}

static __always_inline __u64 origin_of(struct cpu_state *s, __u64 now)
{
	if (s->task == TASK_KSOFTIRQD)
		return FROM_KSOFTIRQD;
	/* The next vector, or the next round, of the same batch. */
	if (now - s->soft_exit < ADJACENT_NS && s->soft_exit > s->hard_exit)
		return s->origin;
	/* The idle task runs softirqs on interrupt exit, or when it flushes the queue of remote calls. */
	if (s->task == IDLE || now - s->hard_exit < ADJACENT_NS)
		return FROM_IRQ;
	return FROM_PROCESS;
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(softirq_entry, unsigned int vector)
{
	struct cpu_state *s = this_cpu();
	__u64 class = SOFT_OTHER, now;

	if (!s)
		return 0;
	now = charge(s);
	s->origin = origin_of(s, now);
	if (vector == NET_RX_SOFTIRQ) {
		class = SOFT_NET_RX;
		if (s->origin < ORIGINS)
			s->rx_origin[s->origin]++;
		begin_poll(s, s->ns[SOFT_NET_RX]);
		s->poll_kind = s->task == IDLE ? FIRST_FROM_IDLE : FIRST_FROM_BUSY;
		if (s->task == IDLE)
			note_late_interrupt(s, now);
	} else if (vector == NET_TX_SOFTIRQ) {
		class = SOFT_NET_TX;
	}
	s->entries[class]++;
	s->soft = class;
	s->running = class;
	return 0;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(softirq_exit, unsigned int vector)
{
	struct cpu_state *s = this_cpu();

	if (!s || !s->soft)
		return 0;
	s->soft_exit = charge(s);
	if (s->soft == SOFT_NET_RX) {
		s->tail_ns += s->ns[SOFT_NET_RX] - s->poll_mark;
		s->rx_exit = s->soft_exit;
	}
	s->soft = 0;
	s->running = s->task;
	return 0;
}

static __always_inline __u32 cell_of(__u32 work)
{
	if (work <= 64)
		return work;
	if (work < 128)
		return 65;
	return work < 256 ? 66 : 67;
}

static __always_inline void count_poll(struct cpu_state *s, struct napi_struct *napi, int place,
				       __u32 work, __u32 weight)
{
	s->polls[place]++;
	s->packets[place] += work;
	if (work == 0)
		s->empty_polls++;
	else if (work >= weight)
		s->full_polls++;
	/* The per-CPU backlog (loopback, veth, RPS) has no device. */
	if (!napi->dev) {
		s->backlog_polls++;
		s->backlog_packets += work;
	}
}

/* A poll of `work` packets took `ns`: what a pause is on this CPU. */
static __always_inline void learn_shortest_pause(__u32 work, __u64 ns)
{
	__u64 cpu = bpf_get_smp_processor_id(), shortest;
	struct cpu_pauses *p;

	if (work < MANY_PACKETS || cpu >= MAX_CPUS)
		return;
	p = &pauses[cpu];
	shortest = 3 * POLL_WEIGHT * (ns / work);
	if (shortest < PAUSE_NS)
		shortest = PAUSE_NS;
	if (!p->shortest || shortest < p->shortest)
		p->shortest = shortest;
}

/* A driver has found a packet in its ring. Time that an interrupt takes in between is not the poll's. */
static __always_inline int found_packet(void)
{
	struct cpu_state *s = this_cpu();
	__u64 class, ns, hits;

	if (!s || s->looked)
		return 0;
	class = below_interrupt(s);
	if (class != SOFT_NET_RX && class != TASK_NAPI)
		return 0;
	s->looked = 1;
	charge(s);
	s->looks++;
	/* As in napi_poll: the compiler knows two classes, the verifier of 6.1 would see no bound. */
	asm volatile("" : "+r"(class));
	ns = s->ns[class & (CLASSES - 1)] - s->poll_mark;
	s->look_ns += ns;
	hits = s->entries[HARD_DEVICE] - s->poll_interrupts;
	if (hits) {
		s->hit_looks++;
		s->hit_look_ns += ns;
		s->look_hits += hits;
	}
	return 0;
}

SEC("tp_btf/napi_gro_receive_entry")
int napi_gro_receive_entry(void *ctx)
{
	return found_packet();
}

SEC("tp_btf/napi_gro_frags_entry")
int napi_gro_frags_entry(void *ctx)
{
	return found_packet();
}

SEC("tp_btf/napi_poll")
int BPF_PROG(napi_poll, struct napi_struct *napi, int done, int budget)
{
	struct cpu_state *s = this_cpu();
	__u32 work = done > 0 ? done : 0;
	struct poll_cell *cell;
	__u64 class, ns, kind, place;

	if (!s)
		return 0;
	class = below_interrupt(s);
	if (class == SOFT_NET_RX) {
		count_poll(s, napi, IN_SOFTIRQ, work, budget);
		kind = s->poll_kind;
		s->poll_kind = NEXT;
	} else if (class == TASK_NAPI) {
		count_poll(s, napi, IN_THREAD, work, budget);
		kind = THREADED;
	} else {
		/* Busy polling: the time is the polling task's own. */
		count_poll(s, napi, IN_PROCESS, work, budget);
		return 0;
	}
	if (kind >= KINDS)
		return 0;
	charge(s);
	ns = s->ns[class & (CLASSES - 1)] - s->poll_mark;
	begin_poll(s, s->poll_mark + ns);
	learn_shortest_pause(work, ns);
	place = kind * CELLS + cell_of(work);
	/* The verifier has to see the bound of what is indexed, whatever the compiler knows of its parts (clang 19 leaves them out). */
	asm volatile("" : "+r"(place));
	if (place >= KINDS * CELLS)
		return 0;
	cell = &s->cells[place];
	cell->count++;
	cell->packets += work;
	cell->ns += ns;
	cell->ns_squared += ns * ns;
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct cpu_state *s = this_cpu();
	__u64 now;

	if (!s)
		return 0;
	look_again(s);
	now = charge(s);
	if (s->task == TASK_OTHER && (__s64)(now - s->switched) > PAUSE_NS)
		note_visit(prev, s->switched, now);
	now_runs(s, next, now);
	s->running = s->task;
	s->entries[s->task & (CLASSES - 1)]++;
	if (s->task == TASK_NAPI)
		begin_poll(s, s->ns[TASK_NAPI]);
	if (s->task == IDLE) {
		s->idled = 1;
	} else if (s->task == TASK_WATCHED) {
		s->wakes += s->idled;
		s->idled = 0;
	}
	return 0;
}

#define HARD(name, class)                                      \
	SEC("tp_btf/" #name "_entry") int name##_entry(void *ctx) { return enter_hard(class); } \
	SEC("tp_btf/" #name "_exit") int name##_exit(void *ctx) { return exit_hard(); }

HARD(irq_handler, HARD_DEVICE)
/* x86 only: the vectors of inter-processor and local interrupts. */
HARD(call_function_single, HARD_CALL)
HARD(call_function, HARD_CALL)
HARD(reschedule, HARD_RESCHED)
HARD(local_timer, HARD_TIMER)
HARD(irq_work, HARD_OTHER)
HARD(x86_platform_ipi, HARD_OTHER)
/* arm64 and others: IPIs have one tracepoint pair for all reasons. */
HARD(ipi, HARD_CALL)
