/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The notes of a core. The kernel (fs/binfmt_elf.c) and gdb write the same ones: for each thread an
 * NT_PRSTATUS, followed by the other notes of that thread, and one each of NT_PRPSINFO, NT_AUXV and
 * NT_FILE. Both align notes to 4 bytes.
 */
#include <elf.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/procfs.h>

#include "base/cleanup.h"
#include "target/core/internal.h"
#include "target/proc.h"

#define MAX_NOTES (16 * VT_MAX_THREADS)
#define MAX_FILE_NOTE (64u * 1024 * 1024) /* the kernel's own limit is 4 MiB, 16 at most */
#define MAX_TID (4 * 1024 * 1024)
#define MAX_OWNER 8

struct note {
	uint64_t offset; /* of its contents in the file */
	uint64_t size;
};

/* struct elf_prstatus before its registers is the same for all 64-bit architectures. */
#define STATUS_HEAD offsetof(struct elf_prstatus, pr_reg)
_Static_assert(STATUS_HEAD == 112, "include/linux/elfcore.h, struct elf_prstatus_common");

static bool read_set(struct vt_core *core, const struct vt_arch_set *set, uint64_t offset,
		     uint64_t size, struct vt_regs *regs)
{
	uint64_t data[VT_ARCH_SET_MAX / sizeof(uint64_t)];

	if (size < set->size || set->size > sizeof(data) ||
	    !vt_core_read_file(core, offset, data, set->size))
		return false;
	set->take(data, regs);
	return true;
}

static bool take_status(struct vt_core *core, const struct note *note)
{
	struct elf_prstatus status;
	struct vt_regs regs;
	struct vt_core_thread *thread;

	if (note->size < STATUS_HEAD || core->threads.n >= VT_MAX_THREADS ||
	    !vt_core_read_file(core, note->offset, &status, STATUS_HEAD) || status.pr_pid <= 0 ||
	    status.pr_pid > MAX_TID ||
	    !read_set(core, &core->arch->sets[0], note->offset + STATUS_HEAD,
		      note->size - STATUS_HEAD, &regs))
		return true;
	thread = vt_vec_append(&core->threads);
	if (!thread)
		return false;
	*thread = (struct vt_core_thread){ .tid = status.pr_pid,
					   .signal = status.pr_cursig,
					   .regs = regs };
	return true;
}

/* Registers of other sets, of the thread whose NT_PRSTATUS came last. */
static bool take_set(struct vt_core *core, const char *owner, uint32_t type,
		     const struct note *note)
{
	for (size_t i = 1; core->threads.n && i < core->arch->n_sets; i++) {
		const struct vt_arch_set *set = &core->arch->sets[i];

		if (set->type == type && !strcmp(set->owner, owner))
			return read_set(core, set, note->offset, note->size,
					&core->threads.data[core->threads.n - 1].regs);
	}
	return false;
}

static bool take_process(struct vt_core *core, const struct note *note)
{
	struct elf_prpsinfo info;

	if (note->size < sizeof(info) ||
	    !vt_core_read_file(core, note->offset, &info, sizeof(info)))
		return true;
	core->pid = info.pr_pid > 0 && info.pr_pid <= MAX_TID ? info.pr_pid : 0;
	core->uid = info.pr_uid;
	/*
	 * The kernel writes the thread that got the signal first (fill_note_info()), gdb the
	 * process.
	 */
	core->by_kernel = core->threads.n > 0;
	memcpy(core->name, info.pr_fname, sizeof(info.pr_fname));
	memcpy(core->args, info.pr_psargs, sizeof(info.pr_psargs));
	return true;
}

/* Of the thread whose NT_PRSTATUS came last. */
static bool take_siginfo(struct vt_core *core, const struct note *note)
{
	struct vt_core_thread *thread = core->threads.n ? &core->threads.data[core->threads.n - 1] :
							  NULL;
	siginfo_t info;

	if (!thread || note->size < sizeof(info) ||
	    !vt_core_read_file(core, note->offset, &info, sizeof(info)))
		return true;
	thread->have_info = true;
	thread->info_signal = info.si_signo;
	thread->info_code = info.si_code;
	thread->info_address = (uint64_t)(uintptr_t)info.si_addr;
	return true;
}

static bool take_auxv(struct vt_core *core, const struct note *note)
{
	for (uint64_t at = 0;
	     note->size - at >= sizeof(Elf64_auxv_t) && core->n_auxv < VT_CORE_MAX_AUXV;
	     at += sizeof(Elf64_auxv_t)) {
		Elf64_auxv_t entry;

		if (!vt_core_read_file(core, note->offset + at, &entry, sizeof(entry)) ||
		    entry.a_type == AT_NULL)
			break;
		core->auxv[core->n_auxv].type = entry.a_type;
		core->auxv[core->n_auxv++].value = entry.a_un.a_val;
	}
	return true;
}

/*
 * NT_FILE: count, page size, then start, end and offset in pages of each mapping, then their paths,
 * each with a NUL (fs/binfmt_elf.c, fill_files_note()).
 */
static bool parse_mappings(struct vt_core *core, const uint8_t *data, uint64_t size)
{
	const char *paths, *end = (const char *)data + size;
	uint64_t head[2];

	memcpy(head, data, sizeof(head));
	if (head[0] > (size - sizeof(head)) / 24 || head[1] == 0 || head[1] > (1u << 30))
		return true;
	paths = (const char *)data + sizeof(head) + head[0] * 24;
	for (uint64_t i = 0; i < head[0]; i++) {
		const char *nul = memchr(paths, '\0', (size_t)(end - paths));
		struct vt_core_mapping *mapping, *last;
		uint64_t range[3];

		if (!nul)
			return true;
		memcpy(range, data + sizeof(head) + i * 24, sizeof(range));
		if (range[0] < range[1] && range[2] <= UINT64_MAX / head[1] &&
		    range[2] * head[1] <= UINT64_MAX - (range[1] - range[0])) {
			mapping = vt_vec_append(&core->mappings);
			if (!mapping)
				return false;
			last = core->mappings.n > 1 ? mapping - 1 : NULL;
			*mapping = (struct vt_core_mapping){ .start = range[0],
							     .end = range[1],
							     .offset = range[2] * head[1] };
			/* The mappings of a file follow each other. */
			mapping->path = last && !strcmp(last->path, paths) ?
						last->path :
						vt_arena_strdup(&core->arena, paths);
			if (!mapping->path) {
				core->mappings.n--;
				return false;
			}
		}
		paths = nul + 1;
	}
	return true;
}

static bool take_mappings(struct vt_core *core, const struct note *note)
{
	VT_FREE uint8_t *data = NULL;

	if (note->size < 16 || note->size > MAX_FILE_NOTE || core->mappings.n)
		return true;
	data = malloc((size_t)note->size);
	if (!data)
		return false;
	return !vt_core_read_file(core, note->offset, data, (size_t)note->size) ||
	       parse_mappings(core, data, note->size);
}

static const struct {
	uint32_t type;
	bool (*take)(struct vt_core *core, const struct note *note); /* false: out of memory */
} kinds[] = {
	{ NT_PRSTATUS, take_status }, { NT_PRPSINFO, take_process }, { NT_SIGINFO, take_siginfo },
	{ NT_AUXV, take_auxv },       { NT_FILE, take_mappings },
};

/* The kernel and gdb call what all architectures have "CORE", and the rest "LINUX". */
static bool take_note(struct vt_core *core, const char *owner, uint32_t type,
		      const struct note *note)
{
	if (take_set(core, owner, type, note) || strcmp(owner, "CORE") != 0)
		return true;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (kinds[i].type == type)
			return kinds[i].take(core, note);
	return true;
}

bool vt_core_notes(struct vt_core *core, uint64_t offset, uint64_t size)
{
	for (int n = 0; n < MAX_NOTES && size >= sizeof(Elf64_Nhdr); n++) {
		Elf64_Nhdr header;
		char owner[MAX_OWNER + 1] = "";

		if (!vt_core_read_file(core, offset, &header, sizeof(header)))
			break;

		uint64_t contents =
			sizeof(header) + (((uint64_t)header.n_namesz + 3) & ~UINT64_C(3));
		uint64_t end = contents + (((uint64_t)header.n_descsz + 3) & ~UINT64_C(3));
		struct note note = { .offset = offset + contents, .size = header.n_descsz };

		if (contents + header.n_descsz > size)
			break;
		if (header.n_namesz <= MAX_OWNER &&
		    vt_core_read_file(core, offset + sizeof(header), owner, header.n_namesz) &&
		    !take_note(core, owner, header.n_type, &note))
			return false;
		if (end >= size)
			break;
		offset += end;
		size -= end;
	}
	return true;
}
