/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/quiet.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/map.h"
#include "collect/driver_waits.h"
#include "explain/wait.h"
#include "target/arch/native.h"
#include "target/snapshot.h"
#include "walk/native/native.h"

#define DRIVER "libcuda.so"
#define MAX_TEXTS 32
#define STANDS_NS (3 * VT_NS_PER_MS)
#define STANDS_TIMES 3
#define MAX_FRAMES_BYTES (64u << 10)

/* Of stacks; a thread with more counts as one that may be in the driver. */
static const struct vt_snapshot_limits limits = { .per_thread = 256u << 10, .total = 64u << 20 };
#define EXPECTED (512u << 10)

/* Whose code it is. */
enum owner { OTHER, OF_DRIVER, OF_RUNTIME, OF_LIBC, OF_NCCL };

struct text {
	uint64_t start, end;
	enum owner owner;
};

/* What is known of a place in the driver or its runtime. */
enum place {
	PLACE_UNKNOWN,
	PLACE_WAITS,       /* in a function that is known to wait without a lock */
	PLACE_WAITS_FIRST, /* in one that does so before it takes one */
	PLACE_LAUNCHES,    /* into a queue that may be full */
	PLACE_OTHER,
};

/* The stacks of the last stop, for an unwinder that outlives them. */
struct stacks {
	struct vt_memsrc source; /* first, so that its address is ours */
	struct vt_snapshot *snapshot;
};

struct vt_quiet {
	struct vt_target *t;
	struct vt_maps maps; /* newer than t's, once a stack was in none of these */
	bool has_maps;
	struct text texts[MAX_TEXTS];
	size_t n_texts;
	struct stacks stacks;
	struct vt_unwinder *unwinder;
	struct vt_quiet_memory *memory;
	VT_VEC(uint64_t) asked; /* those that are not known yet */
	VT_VEC(struct vt_quiet_wait) waits;
	bool lacks_maps;
	pid_t culprit;
	bool unclear; /* what the thread in question does in the driver */
	struct vt_arena arena;
};

/* ---- where the driver is ---- */

static enum owner owner_of_file(const char *path)
{
	static const struct {
		const char *prefix;
		enum owner owner;
	} files[] = {
		{ DRIVER, OF_DRIVER }, { "libcudart", OF_RUNTIME }, { "libc.so", OF_LIBC },
		{ "libc-2", OF_LIBC }, { "libpthread", OF_LIBC },   { "libnccl.so", OF_NCCL },
	};
	const char *name = strrchr(path, '/');

	name = name ? name + 1 : path;
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		if (!strncmp(name, files[i].prefix, strlen(files[i].prefix)))
			return files[i].owner;
	return OTHER;
}

/* False: more than there is room for. */
static bool find_texts(struct vt_quiet *q, bool *has_driver)
{
	const struct vt_maps *maps = &q->t->maps;

	*has_driver = false;
	for (size_t i = 0; i < maps->entries.n; i++) {
		const struct vt_map_entry *entry = &maps->entries.data[i];
		enum owner owner = entry->flags & VT_MAP_EXEC ? owner_of_file(entry->path) : OTHER;

		if (owner == OTHER)
			continue;
		if (q->n_texts == MAX_TEXTS)
			return false;
		q->texts[q->n_texts++] = (struct text){ entry->start, entry->end, owner };
		*has_driver = *has_driver || owner == OF_DRIVER;
	}
	return true;
}

static enum owner owner_of(const struct vt_quiet *q, uint64_t pc)
{
	for (size_t i = 0; i < q->n_texts; i++)
		if (pc >= q->texts[i].start && pc < q->texts[i].end)
			return q->texts[i].owner;
	return OTHER;
}

static bool is_of_driver(const struct vt_quiet *q, uint64_t word)
{
	for (size_t i = 0; i < q->n_texts; i++)
		if (q->texts[i].owner == OF_DRIVER &&
		    word - q->texts[i].start < q->texts[i].end - q->texts[i].start)
			return true;
	return false;
}

/* ---- the stacks ---- */

static struct vt_memsrc *inner(struct vt_memsrc *src)
{
	struct stacks *stacks =
		(struct stacks *)(void *)((char *)src - offsetof(struct stacks, source));

	return vt_snapshot_source(stacks->snapshot);
}

static int read_stacks(struct vt_memsrc *src, uint64_t addr, void *buf, size_t len)
{
	struct vt_memsrc *from = inner(src);
	int ret = vt_mem_read(from, addr, buf, len);

	src->fault_addr = from->fault_addr;
	return ret;
}

static const void *direct_stacks(struct vt_memsrc *src, uint64_t addr, size_t len)
{
	return vt_mem_direct(inner(src), addr, len);
}

static const struct vt_memsrc_ops stacks_ops = { .read = read_stacks, .direct = direct_stacks };

void vt_quiet_memory_deinit(struct vt_quiet_memory *memory)
{
	vt_map_deinit(&memory->places);
	vt_vec_deinit(&memory->seen);
}

struct vt_error *vt_quiet_create(struct vt_target *t, struct vt_quiet_memory *memory,
				 struct vt_quiet **ret)
{
	struct vt_quiet *q = calloc(1, sizeof(*q));
	bool has_driver = false;
	struct vt_error *err = NULL;

	if (!q)
		return &vt_enomem;
	q->t = t;
	q->memory = memory;
	q->stacks.source.ops = &stacks_ops;
	if (!find_texts(q, &has_driver) || !has_driver)
		err = vt_error_create(VT_ERR_NOTFOUND, "the CUDA driver was not found");
	if (!err)
		err = vt_unwinder_create(&t->modules, &q->stacks.source, &q->unwinder);
	if (err) {
		vt_quiet_destroy(q);
		return err;
	}
	*ret = q;
	return NULL;
}

void vt_quiet_destroy(struct vt_quiet *q)
{
	if (!q)
		return;
	vt_unwinder_destroy(q->unwinder);
	vt_snapshot_destroy(q->stacks.snapshot);
	vt_vec_deinit(&q->asked);
	vt_vec_deinit(&q->waits);
	vt_maps_deinit(&q->maps);
	vt_arena_deinit(&q->arena);
	free(q);
}

/* Has the files of the driver and of libc ready, which every such stack leads through. */
static void warm_up(struct vt_quiet *q)
{
	for (size_t i = 0; i < q->n_texts; i++) {
		struct vt_native_stack stack = { 0 };
		struct vt_regs regs = { .arch = VT_NATIVE, .syscall_nr = -1 };

		regs.r[VT_NATIVE->abi.pc] = q->texts[i].start;

		vt_error_destroy(vt_unwinder_walk(q->unwinder, 0, &regs, &stack));
		vt_native_stack_deinit(&stack);
	}
}

bool vt_quiet_prepare(struct vt_quiet *q)
{
	bool first = !q->stacks.snapshot;
	struct vt_error *err;

	if (q->lacks_maps) {
		vt_maps_deinit(&q->maps);
		q->maps = (struct vt_maps){ 0 };
		err = vt_maps_init(&q->maps, q->t->proc.pid);
		q->has_maps = !err;
		q->lacks_maps = false;
		vt_error_destroy(err);
	}
	q->memory->stop++;
	vt_snapshot_destroy(q->stacks.snapshot);
	q->stacks.snapshot = NULL;
	err = vt_snapshot_create(q->t->live, &limits, EXPECTED, &q->stacks.snapshot);
	if (!err && first)
		warm_up(q);
	vt_error_destroy(err);
	return !err;
}

static const struct vt_maps *maps_of(const struct vt_quiet *q)
{
	return q->has_maps ? &q->maps : &q->t->maps;
}

/*
 * The used part of a stack: up to the end of its mapping, or to the thread's own data, which glibc
 * has at its upper end (the thread pointer leads there). NULL: it is not known, or too long.
 */
static const uint64_t *used_stack(struct vt_quiet *q, const struct vt_regs *regs, bool is_main,
				  size_t *n)
{
	uint64_t sp = (vt_regs_sp(regs) - VT_NATIVE->red_zone) & ~UINT64_C(7);
	const struct vt_map_entry *entry = vt_maps_find(maps_of(q), sp);
	uint64_t end = entry ? entry->end : 0;

	if (!entry) {
		q->lacks_maps = true;
		return NULL;
	}
	if (regs->thread_pointer > sp && regs->thread_pointer < end)
		end = regs->thread_pointer & ~UINT64_C(7);
	else if (!is_main || strcmp(entry->path, "[stack]") != 0)
		return NULL; /* a signal's stack, or a coroutine's: there is another one below it */
	*n = (size_t)(end - sp) / 8;
	return vt_mem_direct(vt_snapshot_source(q->stacks.snapshot), sp, *n * 8);
}

static bool is_far_from_driver(struct vt_quiet *q, const struct vt_session_thread *thread,
			       bool is_main)
{
	size_t n = 0;
	const uint64_t *words;

	if (is_of_driver(q, vt_regs_pc(&thread->regs)))
		return false;
	words = used_stack(q, &thread->regs, is_main, &n);
	for (size_t i = 0; words && i < n; i++)
		if (is_of_driver(q, words[i]))
			return false;
	return words;
}

/* ---- what it does in the driver ---- */

/* Of a call its last byte: a return address can lie behind the end of its function. */
static uint64_t place_of(const struct vt_native_frame *frame)
{
	return frame->activation ? frame->pc : frame->pc - 1;
}

static enum place place_at(const struct vt_quiet *q, uint64_t pc)
{
	const uint64_t *known = vt_map_get(&q->memory->places, pc);

	return known ? (enum place) * known : PLACE_UNKNOWN;
}

/*
 * The driver's frames, from begin on, and those of its runtime around them. Only exported functions
 * have names: the one by which the thread came in, and the runtime's.
 */
struct visit {
	size_t begin, entry, end;
};

static struct visit visit_at(const struct vt_quiet *q, const struct vt_native_stack *stack,
			     size_t i)
{
	struct visit visit = { .begin = i };
	const struct vt_native_frame *frames = stack->frames.data;

	while (i < stack->frames.n && owner_of(q, place_of(&frames[i])) == OF_DRIVER)
		i++;
	visit.entry = i - 1;
	while (i < stack->frames.n && owner_of(q, place_of(&frames[i])) == OF_RUNTIME)
		i++;
	visit.end = i;
	return visit;
}

static bool has_place(const struct vt_quiet *q, const struct vt_native_stack *stack,
		      const struct visit *visit, enum place place)
{
	for (size_t i = visit->entry; i < visit->end; i++)
		if (place_at(q, place_of(&stack->frames.data[i])) == place)
			return true;
	return false;
}

/* To be found out later. */
static void ask_places(struct vt_quiet *q, const struct vt_native_stack *stack,
		       const struct visit *visit)
{
	for (size_t i = visit->entry; i < visit->end; i++) {
		uint64_t pc = place_of(&stack->frames.data[i]);
		uint64_t *asked = place_at(q, pc) == PLACE_UNKNOWN ? vt_vec_append(&q->asked) :
								     NULL;

		if (asked)
			*asked = pc;
	}
}

/* ---- a thread that stands still there ---- */

static struct vt_quiet_seen *find_seen(struct vt_quiet *q, pid_t tid)
{
	for (size_t i = 0; i < q->memory->seen.n; i++)
		if (q->memory->seen.data[i].tid == tid)
			return &q->memory->seen.data[i];
	return NULL;
}

static void forget_seen(struct vt_quiet *q, pid_t tid)
{
	struct vt_quiet_seen *seen = find_seen(q, tid);

	if (seen)
		*seen = q->memory->seen.data[--q->memory->seen.n];
}

/*
 * What the driver has on the stack: other calls of a function leave other values there. Where it
 * polls, the inner frames change all the time. So only the two outermost count, which have the
 * arguments: what is freed or copied. Of a launch they may be alike, and more of them count. False:
 * there is too little to tell.
 */
static bool hash_frames(const struct vt_quiet *q, const struct vt_native_stack *stack,
			const struct visit *visit, bool launches, uint64_t *hash)
{
	const struct vt_native_frame *frames = stack->frames.data;
	size_t n = visit->entry - visit->begin;
	size_t left_out = n < 2 ? 0 : launches ? 2 : n - 1; /* driver frames, the innermost */
	uint64_t begin = visit->begin + left_out ? frames[visit->begin + left_out - 1].cfa : 0;
	uint64_t end = frames[visit->entry].cfa;
	const void *bytes = begin && end > begin && end - begin <= MAX_FRAMES_BYTES ?
				    vt_mem_direct(vt_snapshot_source(q->stacks.snapshot), begin,
						  (size_t)(end - begin)) :
				    NULL;

	if (bytes)
		*hash = vt_hash_bytes(0, bytes, (size_t)(end - begin));
	return bytes;
}

/* In the same call for so long, and at each look, that it waits. */
static bool has_stood(struct vt_quiet *q, const struct vt_native_stack *stack,
		      const struct visit *visit, bool launches)
{
	const struct vt_native_frame *entry = &stack->frames.data[visit->entry];
	struct vt_quiet_seen *seen = find_seen(q, stack->tid);
	uint64_t frames = 0;

	if (!hash_frames(q, stack, visit, launches, &frames))
		return false;
	if (!seen || seen->pc != entry->pc || seen->cfa != entry->cfa || seen->frames != frames) {
		if (!seen)
			seen = vt_vec_append(&q->memory->seen);
		if (seen)
			*seen = (struct vt_quiet_seen){
				.tid = stack->tid,
				.pc = entry->pc,
				.cfa = entry->cfa,
				.frames = frames,
				.since_ns = vt_now_ns(),
				.times = 1,
				.stop = q->memory->stop,
			};
		return false;
	}
	seen->times += seen->stop != q->memory->stop;
	seen->stop = q->memory->stop;
	return seen->times >= STANDS_TIMES && vt_now_ns() - seen->since_ns >= STANDS_NS;
}

/*
 * The driver's own threads begin in it, and sleep in a system call that libc makes. One that runs a
 * function of the program (cuLaunchHostFunc) may have come back into the driver.
 */
static bool is_drivers_own(const struct vt_quiet *q, const struct vt_regs *regs,
			   const struct vt_native_stack *stack)
{
	size_t n = stack->frames.n;

	if (!vt_driver_is_idle_in(vt_arch_syscall(VT_NATIVE, regs->syscall_nr)))
		return false;
	for (size_t i = 0; i < n; i++) {
		enum owner owner = owner_of(q, place_of(&stack->frames.data[i]));

		if (owner != OF_DRIVER && owner != OF_LIBC)
			return false;
	}
	while (n && owner_of(q, place_of(&stack->frames.data[n - 1])) == OF_LIBC)
		n--;
	return n > 0 && owner_of(q, place_of(&stack->frames.data[0])) == OF_LIBC;
}

/*
 * Where the return addresses of the call and of its callers are: below the frame's canonical
 * address (x86-64 psABI, 3.2.2). A thread that is not listed is taken for one that does not wait.
 */
static void list_wait(struct vt_quiet *q, const struct vt_native_stack *stack,
		      const struct visit *visit)
{
	const struct vt_native_frame *frames = stack->frames.data;
	struct vt_quiet_wait wait = { .tid = stack->tid }, *to;

	for (size_t i = visit->entry; i + 1 < stack->frames.n && wait.n < VT_QUIET_WORDS; i++) {
		uint64_t at = frames[i].cfa - 8;
		const uint64_t *word = vt_mem_direct(vt_snapshot_source(q->stacks.snapshot), at, 8);

		if (!word || *word != frames[i + 1].pc ||
		    (wait.n && (at <= wait.words[wait.n - 1].at ||
				at - wait.words[0].at > VT_QUIET_SPAN - 8)))
			break;
		wait.words[wait.n].at = at;
		wait.words[wait.n++].value = *word;
	}
	to = wait.n ? vt_vec_append(&q->waits) : NULL;
	if (to)
		*to = wait;
}

static bool is_in_a_wait(struct vt_quiet *q, const struct vt_native_stack *stack,
			 const struct visit *visit)
{
	if (has_place(q, stack, visit, PLACE_WAITS))
		return true;
	if (has_place(q, stack, visit, PLACE_WAITS_FIRST))
		return has_stood(q, stack, visit, false);
	if (has_place(q, stack, visit, PLACE_LAUNCHES))
		return has_stood(q, stack, visit, true);
	q->unclear = has_place(q, stack, visit, PLACE_UNKNOWN);
	ask_places(q, stack, visit);
	return false;
}

/* In the driver once, by a function that waits: not by a callback within it. */
static bool only_waits(struct vt_quiet *q, const struct vt_native_stack *stack, size_t first)
{
	struct visit visit = visit_at(q, stack, first);

	for (size_t i = visit.end; i < stack->frames.n; i++)
		if (owner_of(q, place_of(&stack->frames.data[i])) == OF_DRIVER)
			return false;
	if (!is_in_a_wait(q, stack, &visit))
		return false;
	list_wait(q, stack, &visit);
	return true;
}

static bool is_harmless_stack(struct vt_quiet *q, const struct vt_regs *regs,
			      const struct vt_native_stack *stack)
{
	size_t i = 0;

	q->unclear = !stack->complete || stack->why[0];
	if (q->unclear)
		return false;
	while (i < stack->frames.n && owner_of(q, place_of(&stack->frames.data[i])) != OF_DRIVER)
		i++;
	/* The words were left over from an earlier call. */
	if (i == stack->frames.n)
		return true;
	return is_drivers_own(q, regs, stack) || only_waits(q, stack, i);
}

static bool is_harmless(struct vt_quiet *q, const struct vt_session_thread *thread, bool is_main)
{
	struct vt_native_stack stack = { 0 };
	bool harmless = false;

	if (is_far_from_driver(q, thread, is_main)) {
		forget_seen(q, thread->tid);
		return true;
	}
	VT_ERROR struct vt_error *err =
		vt_unwinder_walk(q->unwinder, thread->tid, &thread->regs, &stack);
	q->unclear = err;
	harmless = !err && is_harmless_stack(q, &thread->regs, &stack);
	vt_native_stack_deinit(&stack);
	return harmless;
}

static bool are_harmless(struct vt_quiet *q, const struct vt_session *session, uint64_t until_ns)
{
	for (size_t i = 0; i < session->threads.n; i++) {
		const struct vt_session_thread *thread = &session->threads.data[i];

		if (!thread->stopped)
			continue; /* it has ended: the session stands */
		if (vt_deadline_passed(until_ns))
			return false;
		if (!is_harmless(q, thread, thread->tid == session->pid)) {
			q->culprit = q->unclear ? 0 : thread->tid;
			return false;
		}
	}
	return true;
}

/* The files of stacks may be on another machine: they are opened when the process runs again. */
bool vt_quiet_judge(struct vt_quiet *q, const struct vt_session *session, uint64_t until_ns)
{
	VT_ERROR struct vt_error *err = vt_snapshot_take(q->stacks.snapshot, session, maps_of(q));
	bool harmless;

	q->culprit = 0;
	q->waits.n = 0;
	if (err)
		return false;
	vt_unwinder_hurry(q->unwinder, true);
	harmless = are_harmless(q, session, until_ns);
	vt_unwinder_hurry(q->unwinder, false);
	return harmless;
}

pid_t vt_quiet_culprit(const struct vt_quiet *q)
{
	return q->culprit;
}

const struct vt_quiet_wait *vt_quiet_waits(const struct vt_quiet *q, size_t *n)
{
	*n = q->waits.n;
	return q->waits.data;
}

static bool began_in_nccl(const struct vt_quiet *q, const struct vt_native_stack *stack)
{
	size_t n = stack->frames.n;

	while (n && owner_of(q, place_of(&stack->frames.data[n - 1])) == OF_LIBC)
		n--;
	return stack->complete && n && n < stack->frames.n &&
	       owner_of(q, place_of(&stack->frames.data[n - 1])) == OF_NCCL;
}

bool vt_quiet_is_nccls(struct vt_quiet *q, const struct vt_session *session, pid_t tid)
{
	for (size_t i = 0; i < session->threads.n; i++) {
		const struct vt_session_thread *thread = &session->threads.data[i];
		struct vt_native_stack stack = { 0 };
		bool is;

		if (thread->tid != tid || !thread->stopped)
			continue;
		VT_ERROR struct vt_error *err =
			vt_unwinder_walk(q->unwinder, tid, &thread->regs, &stack);
		is = !err && began_in_nccl(q, &stack);
		vt_native_stack_deinit(&stack);
		return is;
	}
	return false;
}

/* ---- learning ---- */

static enum place place_of_function(const char *function)
{
	if (vt_driver_only_waits(function))
		return PLACE_WAITS;
	if (function && !strcmp(function, "cuLaunchKernel"))
		return PLACE_LAUNCHES;
	return vt_driver_waits_first(function) ? PLACE_WAITS_FIRST : PLACE_OTHER;
}

static void name_places(struct vt_quiet *q)
{
	struct vt_native_stack stack = { 0 };
	bool ok = true;

	for (size_t i = 0; ok && i < q->asked.n; i++) {
		struct vt_native_frame *frame = vt_vec_append(&stack.frames);

		ok = frame != NULL;
		if (ok)
			*frame = (struct vt_native_frame){ .pc = q->asked.data[i],
							   .activation = true };
	}
	if (ok) {
		VT_ERROR struct vt_error *err =
			vt_native_symbolise(&q->t->modules, &stack, 1, &q->arena);

		for (size_t i = 0; !err && i < stack.frames.n; i++)
			ok = vt_map_put(&q->memory->places, stack.frames.data[i].pc,
					place_of_function(stack.frames.data[i].function)) &&
			     ok;
	}
	q->asked.n = 0;
	vt_native_stack_deinit(&stack);
}

void vt_quiet_learn(struct vt_quiet *q, const struct vt_session *session)
{
	for (size_t i = 0; i < session->threads.n; i++)
		if (session->threads.data[i].stopped)
			(void)is_harmless(q, &session->threads.data[i],
					  session->threads.data[i].tid == session->pid);
	if (q->asked.n)
		name_places(q);
}
