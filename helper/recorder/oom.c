/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When memory runs out. PyTorch throws c10::OutOfMemoryError; the C++ runtime then looks for a
 * handler, frame by frame, and asks the personality routine of each frame on the way. The entries
 * of the allocator (entry.S) have the one below. At that time nothing is unwound: the thread's
 * stack is whole, and PyTorch has given back its locks (it does so before it calls its own
 * observers and throws, in all releases from 2.0 to 2.15).
 *
 * The event is written to the next of 16 entries. If a watcher lives, the thread then waits until
 * the watcher has read what must be read at this moment. A stopped or dead watcher is noticed once,
 * and the thread does not wait for it again.
 */
#include "internal.h"
#include "vramtap/freestanding.h"

#define NS_PER_MS UINT64_C(1000000)

/* Itanium C++ ABI, exception handling, level I (unwind.h). */
#define URC_CONTINUE_UNWIND 8
#define UA_SEARCH_PHASE 1
#define UA_FORCE_UNWIND 8

/* ---- which exception ---- */

/*
 * libstdc++'s exceptions (unwind-cxx.h; unchanged since GCC 4.4, which added the dependent ones).
 * struct __cxa_exception begins with the type. The unwinder's header is its last member, 80 bytes
 * from the start; the thrown object follows, 112 bytes from the start. std::rethrow_exception()
 * throws a __cxa_dependent_exception: it has a pointer to the object of the first exception in the
 * place of the type. Clang's libc++abi has other classes, and PyTorch is not built with it.
 */
#define CLASS_PRIMARY UINT64_C(0x474e5543432b2b00)   /* "GNUCC++\0" */
#define CLASS_DEPENDENT UINT64_C(0x474e5543432b2b01) /* "GNUCC++\1" */
#define HEADER_OFFSET 80
#define OBJECT_OFFSET 112

/*
 * typeid(c10::OutOfMemoryError).name(). All releases from 2.0 to 2.15 throw it; in Python it is
 * torch.OutOfMemoryError.
 */
static const char oom_name[] = "N3c1016OutOfMemoryErrorE";

/*
 * The ABI guarantees that all of this can be read, so a plain load would do. Where the kernel
 * forbids the safe read (a container without process_vm_readv()), a plain load is used.
 */
static bool load(uint64_t addr, void *buf, size_t len)
{
	int ret;

	if (addr < 4096)
		return false;
	ret = vt_sys_peek(addr, buf, len);
	if (ret == -1 /* EPERM */ || ret == -38 /* ENOSYS */) {
		for (size_t i = 0; i < len; i++)
			((char *)buf)[i] = ((const volatile char *)addr)[i];
		return true;
	}
	return ret == 0;
}

/* The object that was thrown; 0: it is another exception. */
static uint64_t out_of_memory_thrown(uint64_t exception_class, uint64_t header)
{
	struct {
		uint64_t vptr, name;
	} type;
	uint64_t word, object = header - HEADER_OFFSET + OBJECT_OFFSET;
	char name[sizeof(oom_name)];

	if ((exception_class != CLASS_PRIMARY && exception_class != CLASS_DEPENDENT) ||
	    !load(header - HEADER_OFFSET, &word, sizeof(word)))
		return 0;
	if (exception_class == CLASS_DEPENDENT) {
		object = word;
		if (!load(object - OBJECT_OFFSET, &word, sizeof(word)))
			return 0;
	}
	if (!load(word, &type, sizeof(type)) || !load(type.name, name, sizeof(name)))
		return 0;
	for (size_t i = 0; i < sizeof(name); i++)
		if (name[i] != oom_name[i])
			return 0;
	return object;
}

/* ---- the watcher ---- */

/* Signs of life come at least every 100 ms; on a busy machine they come late. */
#define SILENCE_NS (500 * NS_PER_MS)
/* An upper limit, whatever the watcher asks for. */
#define MAX_PATIENCE_MS 5000
/*
 * A program that tries sizes until one fits must not be slowed down by each try: it waits at most
 * BUDGET_NS in each BUDGET_PERIOD_NS.
 */
#define BUDGET_NS (2000 * NS_PER_MS)
#define BUDGET_PERIOD_NS (10000 * NS_PER_MS)

static struct {
	uint32_t lock;                /* of the events, and of what follows */
	uint64_t since_ns, waited_ns; /* the budget */
	/* 1 << 32 | the heartbeat of a watcher that gave no more sign of life; 0 none */
	uint64_t given_up;
} waiting;

static uint32_t read32(const uint32_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static bool is_given_up(uint32_t heartbeat)
{
	return __atomic_load_n(&waiting.given_up, __ATOMIC_RELAXED) ==
	       (UINT64_C(1) << 32 | heartbeat);
}

static void give_up(uint32_t heartbeat)
{
	__atomic_store_n(&waiting.given_up, UINT64_C(1) << 32 | heartbeat, __ATOMIC_RELAXED);
}

/* How long this event may be waited for. Under the lock. */
static uint64_t budget(uint64_t now_ns)
{
	uint32_t patience_ms = read32(&vt_recorder.trap.patience_ms);
	uint64_t patience =
		(patience_ms < MAX_PATIENCE_MS ? patience_ms : MAX_PATIENCE_MS) * NS_PER_MS;
	uint64_t left;

	if (now_ns - waiting.since_ns > BUDGET_PERIOD_NS) {
		waiting.since_ns = now_ns;
		waiting.waited_ns = 0;
	}
	left = waiting.waited_ns < BUDGET_NS ? BUDGET_NS - waiting.waited_ns : 0;
	return patience < left ? patience : left;
}

/* Waits until the watcher has dealt with the event, is gone, or the time is up. */
static void wait_for_watcher(uint32_t seq, uint64_t patience_ns)
{
	const struct vt_recorder_trap *trap = &vt_recorder.trap;
	uint32_t heartbeat = read32(&trap->heartbeat);
	uint64_t start = vt_sys_now_ns();
	uint64_t now = start, alive = start;

	while (read32(&trap->armed) && (int32_t)(read32(&trap->taken) - seq) < 0 &&
	       now - start < patience_ns && !is_given_up(heartbeat)) {
		vt_sys_sleep_ns(VT_RECORDER_WAIT_NS);
		now = vt_sys_now_ns();
		if (read32(&trap->heartbeat) != heartbeat) {
			heartbeat = read32(&trap->heartbeat);
			alive = now;
		} else if (now - alive >= SILENCE_NS) {
			give_up(heartbeat);
		}
	}
}

/* ---- the event ---- */

/* The prototypes in cuda.h; their result is an enum, 0 is success. */
typedef int memory_fn(size_t *free_bytes, size_t *total);
typedef int device_fn(int *device);
typedef int *errno_fn(void);

static int *errno_location(void)
{
	errno_fn *location = (errno_fn *)vt_recorder.config.imports.errno_location;

	return location ? location() : NULL;
}

/* PyTorch has queried the same on the same thread a moment ago, for its message. */
static void ask_driver(struct vt_recorder_oom *event)
{
	memory_fn *memory = (memory_fn *)vt_recorder.config.imports.cuMemGetInfo;
	device_fn *current = (device_fn *)vt_recorder.config.imports.cuCtxGetDevice;
	size_t free_bytes = 0, total = 0;
	int device = -1;

	if (memory && !memory(&free_bytes, &total)) {
		event->free_bytes = free_bytes;
		event->total_bytes = total;
	}
	event->device = current && !current(&device) ? device : -1;
}

static struct vt_recorder_oom *entry_of(uint32_t seq)
{
	return &vt_recorder.trap.ooms[(seq - 1) % VT_RECORDER_MAX_OOMS];
}

/*
 * Returns the number of the event. A reader sees the event with that number, or none: seq is
 * cleared first, and written last. Under the lock.
 */
static uint32_t keep_event(const struct vt_recorder_oom *event)
{
	struct vt_recorder_trap *trap = &vt_recorder.trap;
	uint32_t seq = trap->raised + 1 ? trap->raised + 1 : 1;
	struct vt_recorder_oom *entry = entry_of(seq);

	__atomic_exchange_n(&entry->seq, 0, __ATOMIC_ACQ_REL); /* and not after what follows */
	entry->kind = event->kind;
	entry->requested = event->requested;
	entry->time_ns = event->time_ns;
	entry->free_bytes = event->free_bytes;
	entry->total_bytes = event->total_bytes;
	entry->waited_ns = event->waited_ns;
	entry->stack = event->stack;
	entry->tid = event->tid;
	entry->device = event->device;
	entry->error = event->error;
	entry->thrown = event->thrown;
	__atomic_store_n(&entry->seq, seq, __ATOMIC_RELEASE);
	__atomic_store_n(&trap->raised, seq, __ATOMIC_RELEASE);
	return seq;
}

static void went_on(uint32_t seq, uint64_t waited_ns)
{
	struct vt_recorder_oom *entry = entry_of(seq);

	if (!vt_rec_lock(&waiting.lock))
		return;
	waiting.waited_ns += waited_ns;
	if (entry->seq == seq)
		__atomic_store_n(&entry->waited_ns, waited_ns, __ATOMIC_RELEASE);
	vt_rec_unlock(&waiting.lock);
}

/*
 * Events of an earlier recording refer to stacks that are gone. The numbering continues. Under the
 * lock: a thread that brings an event later sees by the generation, which is the new one already,
 * that its stack belongs to an earlier recording.
 */
void vt_rec_oom_begin(void)
{
	bool locked = vt_rec_lock(&waiting.lock);

	for (uint32_t i = 0; i < VT_RECORDER_MAX_OOMS; i++)
		__atomic_store_n(&vt_recorder.trap.ooms[i].seq, 0, __ATOMIC_RELEASE);
	if (locked)
		vt_rec_unlock(&waiting.lock);
}

/*
 * Lets a waiting thread go on. In a child the watcher is the parent's, and the lock may belong to a
 * thread that does not exist here.
 */
void vt_rec_oom_end(void)
{
	__atomic_store_n(&vt_recorder.trap.armed, 0, __ATOMIC_RELEASE);
	if (vt_rec_is_inherited())
		__atomic_store_n(&waiting.lock, 0, __ATOMIC_RELEASE);
}

static void out_of_memory(struct vt_recorder_oom event, const struct vt_rec_regs *regs)
{
	uint32_t generation = read32(&vt_recorder.generation), seq;
	uint64_t patience_ns;

	if (!vt_rec_is_on())
		return;

	int *errno_at = errno_location();
	int kept_errno = errno_at ? *errno_at : 0;

	event.time_ns = vt_sys_now_ns();
	event.tid = vt_rec_tid();
	event.stack = vt_rec_stack_here(regs);
	ask_driver(&event);
	if (errno_at)
		*errno_at = kept_errno;
	if (!vt_rec_lock(&waiting.lock))
		return;
	/*
	 * The recorder was switched off and on during the query of the driver: the number belongs
	 * to another stack now.
	 */
	if (generation != read32(&vt_recorder.generation))
		event.stack = VT_RECORDER_NO_STACK;
	patience_ns = read32(&vt_recorder.trap.armed) ? budget(event.time_ns) : 0;
	event.waited_ns = !patience_ns; /* 0 means that it still waits */
	seq = keep_event(&event);
	vt_rec_unlock(&waiting.lock);
	if (!patience_ns)
		return;

	uint64_t start = vt_sys_now_ns();

	wait_for_watcher(seq, patience_ns);
	went_on(seq, vt_sys_now_ns() - start);
}

void vt_rec_out_of_memory(enum vt_recorder_oom_kind kind, uint64_t requested, int error,
			  const struct vt_rec_regs *regs)
{
	out_of_memory(
		(struct vt_recorder_oom){ .kind = kind, .requested = requested, .error = error },
		regs);
}

/* ---- the personality routine ---- */

/* The registers here, from which unwinding starts. */
static inline __attribute__((always_inline)) void registers_here(struct vt_rec_regs *regs)
{
	__asm__ volatile("lea 0f(%%rip), %%rax\n"
			 "0:\n\t"
			 "mov %%rax, %c[pc](%[regs])\n\t"
			 "mov %%rsp, %c[sp](%[regs])\n\t"
			 "mov %%rbp, %c[bp](%[regs])"
			 :
			 : [regs] "r"(regs), [pc] "i"(offsetof(struct vt_rec_regs, pc)),
			   [sp] "i"(offsetof(struct vt_rec_regs, sp)),
			   [bp] "i"(offsetof(struct vt_rec_regs, bp))
			 : "rax", "memory");
}

typedef uint64_t cfa_fn(void *context);

/*
 * In the search phase the context of libgcc's unwinder is not yet that of the frame whose
 * personality is called: _Unwind_GetCFA() returns the stack pointer of that frame as it is when the
 * called function returns (LLVM's libunwind returns the same).
 */
static uint64_t bytes_asked_for(void *context)
{
	cfa_fn *get_cfa = (cfa_fn *)vt_recorder.config.imports.unwind_get_cfa;
	uint64_t requested = 0;

	if (get_cfa)
		load(get_cfa(context) + VT_REC_ENTRY_REQUESTED, &requested, sizeof(requested));
	return requested;
}

int vt_rec_personality(int version, int actions, uint64_t exception_class, void *exception,
		       void *context)
{
	struct vt_rec_regs regs;
	uint64_t thrown = 0;

	/*
	 * Ignores the end of a thread (pthread_cancel), and the second call when the frames are
	 * unwound.
	 */
	if (version == 1 && (actions & UA_SEARCH_PHASE) && !(actions & UA_FORCE_UNWIND) &&
	    vt_rec_is_on())
		thrown = out_of_memory_thrown(exception_class, (uint64_t)exception);
	if (thrown) {
		registers_here(&regs);
		out_of_memory((struct vt_recorder_oom){ .kind = VT_OOM_PYTORCH,
							.requested = bytes_asked_for(context),
							.thrown = thrown },
			      &regs);
	}
	return URC_CONTINUE_UNWIND;
}
