/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's and the runtime's calls, through global offset tables and, for launches, through
 * variables of libraries that hold a function's address. The tool finds the words; each is
 * replaced, by one compare-exchange, by an entry of ours (driver_entry.S) that calls the original
 * function. Calls through other pointers (from the runtime itself, or from libraries with a static
 * runtime of their own) are not seen.
 *
 * Tables are read and changed only within dl_iterate_phdr(), which keeps the loader from unmapping
 * a library at that time, and only if their library is still loaded: a closed library took its
 * table along. Where relocations were made read-only (RELRO), the page is made writable for a
 * moment.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <elf.h>
#include <link.h>
#include <linux/futex.h>
#include <sys/mman.h>

#include "driver.h"
#include "vramtap/freestanding.h"

#define PAGE UINT64_C(4096)
#define VT_REC_GOT_SLOTS 128 /* of each kind of entry; driver_entry.S */
#define ENTRY_SIZE 16

struct vt_rec_got_frame {
	struct vt_rec_regs regs;
	uint64_t args[6];
	union {
		uint64_t before;
		struct vt_rec_launch launch;
	};
};

/* In rax and rdx. */
struct vt_rec_launch_target {
	uint64_t original;
	uint64_t has_more; /* it has arguments on the stack */
};

_Static_assert(sizeof(struct vt_rec_got_frame) <= 96, "driver_entry.S has room for 96 bytes");
_Static_assert(offsetof(struct vt_rec_got_frame, args) == 24,
	       "driver_entry.S stores the arguments there");

extern const uint8_t vt_rec_got_entries[], vt_rec_launch_entries[];
uint64_t vt_rec_got_enter(struct vt_rec_got_frame *frame, uint64_t slot);
uint32_t vt_rec_got_leave(struct vt_rec_got_frame *frame, uint64_t slot, uint32_t result);
struct vt_rec_launch_target vt_rec_launch_enter(struct vt_rec_got_frame *frame, uint64_t slot);
uint32_t vt_rec_launch_leave(struct vt_rec_got_frame *frame, uint64_t slot, uint32_t result);

/*
 * One for each function that is called from anywhere: [0] those that allocate and free, [1] those
 * that launch. They are never removed: a thread may be inside one.
 */
static struct {
	uint64_t original;
	uint32_t call;
	uint32_t has_more;
} slots[2][VT_REC_GOT_SLOTS];
static uint32_t n_slots[2];

/*
 * The address to call. The code here and below may change nothing that the caller does not expect
 * from a call.
 */
uint64_t vt_rec_got_enter(struct vt_rec_got_frame *frame, uint64_t slot)
{
	frame->before = vt_rec_driver_serial();
	return slots[0][slot].original;
}

/* Returns the result for the caller. */
uint32_t vt_rec_got_leave(struct vt_rec_got_frame *frame, uint64_t slot, uint32_t result)
{
	vt_rec_driver_call((enum vt_recorder_call)slots[0][slot].call, frame->args, (int)result,
			   (uint32_t)frame->before, &frame->regs);
	return result;
}

/* The same for launches. The arguments beyond the sixth begin at the caller's stack pointer. */
struct vt_rec_launch_target vt_rec_launch_enter(struct vt_rec_got_frame *frame, uint64_t slot)
{
	vt_rec_launch_begins((enum vt_recorder_call)slots[1][slot].call, frame->args,
			     (const uint64_t *)frame->regs.sp, &frame->launch);
	return (struct vt_rec_launch_target){ slots[1][slot].original, slots[1][slot].has_more };
}

uint32_t vt_rec_launch_leave(struct vt_rec_got_frame *frame, uint64_t slot, uint32_t result)
{
	enum vt_recorder_call call = (enum vt_recorder_call)slots[1][slot].call;

	if (frame->launch.where == VT_REC_LAUNCH_LATER)
		vt_rec_launch_late(call, frame->args, (const uint64_t *)frame->regs.sp,
				   (int)result);
	else
		vt_rec_launch_ended(call, (int)result, &frame->launch);
	return result;
}

static const uint8_t *entries_of(bool launches)
{
	return launches ? vt_rec_launch_entries : vt_rec_got_entries;
}

static bool is_entry(uint64_t addr)
{
	for (unsigned int launches = 0; launches < 2; launches++)
		if (addr - (uint64_t)entries_of(launches) < VT_REC_GOT_SLOTS * ENTRY_SIZE)
			return true;
	return false;
}

/* Our entry for this function at this address, 0: none is left. */
static uint64_t entry_for(uint32_t call, uint64_t original)
{
	bool launches = call >= VT_N_CALLS;
	uint32_t i = 0, n = n_slots[launches];

	while (i < n &&
	       (slots[launches][i].call != call || slots[launches][i].original != original))
		i++;
	if (i == VT_REC_GOT_SLOTS)
		return 0;
	if (i == n) {
		slots[launches][i].call = call;
		slots[launches][i].original = original;
		slots[launches][i].has_more = launches &&
					      vt_rec_launch_has_more((enum vt_recorder_call)call);
		n_slots[launches]++;
	}
	return (uint64_t)entries_of(launches) + i * ENTRY_SIZE;
}

/* ---- words in the tables of loaded libraries ---- */

/* The task of each_object(): to be done for each word that is in a currently loaded library. */
struct visit {
	void (*word)(struct visit *visit, uint64_t i, const struct dl_phdr_info *info);
	uint64_t (*where)(const struct visit *visit, uint64_t i);
	const void *list;
	uint64_t n;
	bool launches; /* in: which of the functions */
	uint32_t n_changed;
};

static bool is_in_data(const struct dl_phdr_info *info, uint64_t addr, uint64_t size)
{
	for (unsigned int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *phdr = &info->dlpi_phdr[i];
		uint64_t start = info->dlpi_addr + phdr->p_vaddr;

		if (phdr->p_type == PT_LOAD && (phdr->p_flags & PF_W) && addr >= start &&
		    phdr->p_memsz >= size && addr - start <= phdr->p_memsz - size)
			return true;
	}
	return false;
}

static int each_object(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct visit *visit = arg;

	(void)size;
	for (uint64_t i = 0; i < visit->n; i++)
		if (is_in_data(info, visit->where(visit, i), sizeof(uint64_t)))
			visit->word(visit, i, info);
	return 0;
}

/*
 * The loader makes the pages that PT_GNU_RELRO covers read-only, with both ends rounded down to a
 * page (glibc, _dl_protect_relro(); musl does the same): the rest of its last page is the library's
 * data, and stays writable.
 */
static bool is_read_only(const struct dl_phdr_info *info, uint64_t where)
{
	for (unsigned int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *phdr = &info->dlpi_phdr[i];
		uint64_t start = info->dlpi_addr + phdr->p_vaddr;

		if (phdr->p_type == PT_GNU_RELRO)
			return where >= (start & ~(PAGE - 1)) &&
			       where < ((start + phdr->p_memsz) & ~(PAGE - 1));
	}
	return false;
}

/*
 * A library may have made its data read-only itself, after we looked or after we wrote: the kernel
 * tries, so nothing crashes. Of the low half of the word no bit is changed, atomically.
 */
static bool can_be_written(uint64_t where)
{
	uint32_t nobody = 0;

	return !vt_sys6(SYS_futex, (long)&nobody, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG, 0, 0,
			(long)where, FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_LT, 0));
}

static bool protect(const struct dl_phdr_info *info, uint64_t where, int protection)
{
	return !is_read_only(info, where) ||
	       !vt_sys4(SYS_mprotect, (long)(where & ~(PAGE - 1)), PAGE, protection, 0);
}

static bool make_writable(const struct dl_phdr_info *info, uint64_t where)
{
	return protect(info, where, PROT_READ | PROT_WRITE);
}

static void make_as_it_was(const struct dl_phdr_info *info, uint64_t where)
{
	protect(info, where, PROT_READ);
}

static uint32_t visit_all(struct visit *visit, uint64_t dl_iterate_phdr_address)
{
	int (*iterate)(int (*callback)(struct dl_phdr_info *, size_t, void *), void *arg) =
		(int (*)(int (*)(struct dl_phdr_info *, size_t, void *),
			 void *))dl_iterate_phdr_address;

	if (iterate && visit->n)
		iterate(each_object, visit);
	return visit->n_changed;
}

/*
 * A page is changed only if necessary: when a library is being loaded where another one was, the
 * loader may be writing to the page.
 */
static bool holds(const struct dl_phdr_info *info, uint64_t where, uint64_t value)
{
	return (is_read_only(info, where) || can_be_written(where)) &&
	       __atomic_load_n((const uint64_t *)where, __ATOMIC_RELAXED) == value;
}

/* ---- in ---- */

static uint64_t where_to_patch(const struct visit *visit, uint64_t i)
{
	return ((const struct vt_recorder_got *)visit->list)[i].where;
}

static void patch(struct visit *visit, uint64_t i, const struct dl_phdr_info *info)
{
	const struct vt_recorder_got *got = &((const struct vt_recorder_got *)visit->list)[i];
	uint64_t ours = 0;
	bool changed = false;

	if (got->function < VT_N_ALL_CALLS && visit->launches == (got->function >= VT_N_CALLS) &&
	    got->original && !is_entry(got->original) && got->where % sizeof(uint64_t) == 0)
		ours = entry_for(got->function, got->original);
	if (ours && holds(info, got->where, got->value) && make_writable(info, got->where)) {
		changed = vt_rec_hook_in(got->where, got->value, ours, VT_HOOK_GOT);
		make_as_it_was(info, got->where);
	}
	visit->n_changed += changed;
	if (visit->launches && !changed && got->function >= VT_N_CALLS && !is_entry(got->value))
		vt_recorder.launches.n_left++;
}

uint32_t vt_rec_got_in(const struct vt_recorder_got *got, uint64_t n, bool launches,
		       uint64_t dl_iterate_phdr)
{
	struct visit visit = {
		.word = patch,
		.where = where_to_patch,
		.list = got,
		.n = n,
		.launches = launches,
	};

	if (launches)
		vt_recorder.launches.n_left = 0;
	return visit_all(&visit, dl_iterate_phdr);
}

/* ---- out ---- */

static uint64_t where_patched(const struct visit *visit, uint64_t i)
{
	const struct vt_recorder_hook *hook = &((const struct vt_recorder_hook *)visit->list)[i];

	return hook->kind == VT_HOOK_GOT ? hook->where : 0;
}

static void restore(struct visit *visit, uint64_t i, const struct dl_phdr_info *info)
{
	const struct vt_recorder_hook *hook = &vt_recorder.hooks[i];
	uint64_t ours = hook->ours;

	/*
	 * If the word is no longer ours, other code changed it, or the library was loaded again:
	 * nothing is left to undo.
	 */
	if (!holds(info, hook->where, ours) || !make_writable(info, hook->where))
		return;
	visit->n_changed += __atomic_compare_exchange_n((uint64_t *)hook->where, &ours,
							hook->original, false, __ATOMIC_SEQ_CST,
							__ATOMIC_RELAXED);
	make_as_it_was(info, hook->where);
}

void vt_rec_got_out(uint64_t dl_iterate_phdr)
{
	struct visit visit = {
		.word = restore,
		.where = where_patched,
		.list = vt_recorder.hooks,
		.n = vt_recorder.n_hooks,
	};

	visit_all(&visit, dl_iterate_phdr);
	/* Also the notes of libraries that are no longer loaded: their words are gone. */
	for (uint32_t i = 0; i < VT_RECORDER_MAX_HOOKS; i++)
		if (where_patched(&visit, i))
			vt_rec_hook_forget(&vt_recorder.hooks[i]);
}
