/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/recorder/recorder.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fault.h"
#include "base/memfd.h"
#include "target/live.h"
#include "target/recorder_head.h"

extern const uint8_t vt_recorder_elf[];
extern const uint8_t vt_recorder_elf_end[];

#define PAGE 4096u
#define MAX_PHDRS 16
#define MAX_EXTENT (UINT64_C(1) << 23) /* of the recorder; it has about 100 KiB */
#define PREFIX "/memfd:" VT_RECORDER_FILE_NAME "-"

/* ---- the embedded library ---- */

/* Its build id, from its own notes. The file is our own: the checks are only for unusual builds. */
static bool own_build_id(char id[VT_BUILD_ID_DIGITS + 1])
{
	const uint8_t *file = vt_recorder_elf;
	uint64_t size = (uint64_t)(vt_recorder_elf_end - file);
	Elf64_Ehdr ehdr;

	if (size < sizeof(ehdr))
		return false; /* none is embedded (inject/without_recorder.S) */
	memcpy(&ehdr, file, sizeof(ehdr));
	for (unsigned int i = 0; i < ehdr.e_phnum; i++) {
		Elf64_Phdr phdr;
		Elf64_Nhdr note;

		memcpy(&phdr, file + ehdr.e_phoff + i * sizeof(phdr), sizeof(phdr));
		if (phdr.p_type != PT_NOTE ||
		    phdr.p_offset + sizeof(note) + 4 + VT_BUILD_ID_DIGITS / 2 > size)
			continue;
		memcpy(&note, file + phdr.p_offset, sizeof(note));
		if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != 4 ||
		    note.n_descsz < VT_BUILD_ID_DIGITS / 2)
			continue;
		for (unsigned int k = 0; k < VT_BUILD_ID_DIGITS / 2; k++)
			snprintf(id + 2 * k, 3, "%02x", file[phdr.p_offset + sizeof(note) + 4 + k]);
		return true;
	}
	return false;
}

static struct vt_error *no_recorder(void)
{
	if (vt_recorder_elf_end - vt_recorder_elf == 0)
		return vt_error_create(
			VT_ERR_UNSUPPORTED,
			"not on this architecture yet: this vramtap has no recorder");
	return vt_error_create(VT_ERR_FORMAT, "the embedded recorder has no build id");
}

/* ---- in a target ---- */

/* "/memfd:vramtap-recorder-0123456789abcdef (deleted)" */
static bool is_recorder(const char *path, char id[VT_BUILD_ID_DIGITS + 1])
{
	const char *digits = path + sizeof(PREFIX) - 1;

	if (strncmp(path, PREFIX, sizeof(PREFIX) - 1) != 0 ||
	    strspn(digits, "0123456789abcdef") != VT_BUILD_ID_DIGITS)
		return false;
	memcpy(id, digits, VT_BUILD_ID_DIGITS);
	id[VT_BUILD_ID_DIGITS] = '\0';
	return digits[VT_BUILD_ID_DIGITS] == '\0' || digits[VT_BUILD_ID_DIGITS] == ' ';
}

static void find_head(struct vt_memsrc *src, const struct vt_map_entry *map,
		      struct vt_resident *resident)
{
	struct {
		uint64_t magic;
		uint32_t abi, size, state;
	} head;
	uint64_t end = map->end < resident->end ? map->end : resident->end,
		 budget = end - map->start;
	uint64_t at = vt_recorder_head_find(src, map->start, end, &budget);

	if (!at || vt_mem_read(src, at, &head, sizeof(head)) || head.size > resident->end - at)
		return;
	resident->head = at;
	resident->abi = head.abi;
	resident->size = head.size;
	resident->state = head.state;
}

/* Its entry point is vt_recorder_control(); only the recorder's own code may be called. */
static void find_control(const struct vt_maps *maps, struct vt_memsrc *src,
			 struct vt_resident *resident)
{
	const struct vt_map_entry *map;
	Elf64_Ehdr ehdr;

	if (vt_mem_read(src, resident->base, &ehdr, sizeof(ehdr)) ||
	    memcmp(ehdr.e_ident, ELFMAG, SELFMAG) != 0 ||
	    ehdr.e_entry >= resident->end - resident->base)
		return;
	map = vt_maps_find(maps, resident->base + ehdr.e_entry);
	if (map && map->flags & VT_MAP_EXEC)
		resident->control = resident->base + ehdr.e_entry;
}

/* Its extent from its base, by its own program headers: its zeroed data has no name in the map. */
static uint64_t extent(struct vt_memsrc *src, uint64_t base)
{
	Elf64_Phdr phdrs[MAX_PHDRS];
	Elf64_Ehdr ehdr;
	uint64_t end = 0;

	if (vt_mem_read(src, base, &ehdr, sizeof(ehdr)) ||
	    memcmp(ehdr.e_ident, ELFMAG, SELFMAG) != 0 || ehdr.e_phnum > MAX_PHDRS ||
	    ehdr.e_phoff > PAGE || ehdr.e_phentsize != sizeof(phdrs[0]) ||
	    vt_mem_read(src, base + ehdr.e_phoff, phdrs, ehdr.e_phnum * sizeof(phdrs[0])))
		return 0;
	for (unsigned int i = 0; i < ehdr.e_phnum; i++)
		if (phdrs[i].p_type == PT_LOAD && phdrs[i].p_vaddr < MAX_EXTENT &&
		    phdrs[i].p_memsz < MAX_EXTENT && phdrs[i].p_vaddr + phdrs[i].p_memsz > end)
			end = phdrs[i].p_vaddr + phdrs[i].p_memsz;
	return (end + PAGE - 1) & ~(uint64_t)(PAGE - 1);
}

static struct vt_resident resident_at(const struct vt_maps *maps, struct vt_memsrc *src, size_t i,
				      const char *id)
{
	struct vt_resident resident = { .base = maps->entries.data[i].start };

	memcpy(resident.build_id, id, sizeof(resident.build_id));
	resident.end = resident.base + extent(src, resident.base);
	for (; i < maps->entries.n && maps->entries.data[i].start < resident.end && !resident.head;
	     i++)
		if (maps->entries.data[i].flags & VT_MAP_WRITE)
			find_head(src, &maps->entries.data[i], &resident);
	if (resident.head)
		find_control(maps, src, &resident);
	return resident;
}

size_t vt_residents_find(const struct vt_maps *maps, struct vt_memsrc *src,
			 struct vt_resident residents[VT_MAX_RESIDENTS])
{
	char id[VT_BUILD_ID_DIGITS + 1];
	uint64_t end = 0;
	size_t found = 0;

	for (size_t i = 0; i < maps->entries.n && found < VT_MAX_RESIDENTS; i++) {
		const struct vt_map_entry *map = &maps->entries.data[i];

		/* The data may also begin in the file's first page. */
		if (map->start < end || map->offset || !is_recorder(map->path, id))
			continue;
		residents[found] = resident_at(maps, src, i, id);
		end = residents[found].end;
		found += residents[found].head != 0;
	}
	return found;
}

bool vt_resident_is_own(const struct vt_resident *resident)
{
	char id[VT_BUILD_ID_DIGITS + 1];

	return own_build_id(id) && !strcmp(resident->build_id, id) &&
	       resident->abi == VT_RECORDER_ABI &&
	       resident->size == sizeof(struct vt_recorder_head) && resident->control;
}

const struct vt_resident *vt_resident_own(const struct vt_resident *residents, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (vt_resident_is_own(&residents[i]))
			return &residents[i];
	return NULL;
}

struct vt_error *vt_resident_read(const struct vt_resident *resident, struct vt_memsrc *src,
				  struct vt_recorder_head *head)
{
	bool same = resident->abi == VT_RECORDER_ABI && resident->size == sizeof(*head);
	size_t size = same ? sizeof(*head) : offsetof(struct vt_recorder_head, python);
	int ret;

	memset(head, 0, sizeof(*head));
	ret = vt_mem_read(src, resident->head, head, size);
	if (ret)
		return vt_mem_error(src, ret, "the recorder's state");
	if (head->n_hooks > VT_RECORDER_MAX_HOOKS)
		head->n_hooks = VT_RECORDER_MAX_HOOKS;
	return NULL;
}

enum vt_hook_state vt_recorder_hook_state(const struct vt_recorder_hook *hook,
					  struct vt_memsrc *src)
{
	uint64_t word;

	if (vt_mem_read_u64(src, hook->where, &word))
		return VT_HOOK_LOST;
	return word == hook->ours     ? VT_HOOK_OURS :
	       word == hook->original ? VT_HOOK_OUT :
					VT_HOOK_REPLACED;
}

/* ---- loading ---- */

/* A descriptor number that the target is unlikely ever to use, but that its limit allows. */
static uint32_t high_descriptor(pid_t pid)
{
	const uint32_t most = 65000;
	struct rlimit limit;

	if (prlimit(pid, RLIMIT_NOFILE, NULL, &limit) || limit.rlim_cur > most)
		return most;
	return limit.rlim_cur > 16 ? (uint32_t)limit.rlim_cur - 16 : 0;
}

/* In libc since glibc 2.34, before in libdl. */
static uint64_t find_loader(struct vt_modules *modules, const char *name)
{
	static const char *const libraries[] = { "libdl.so", "libdl-2.", "libc.so.6" };
	uint64_t addr = 0;

	for (size_t i = 0; !addr && i < sizeof(libraries) / sizeof(libraries[0]); i++)
		addr = vt_modules_symbol(modules, libraries[i], name);
	return addr;
}

struct vt_error *vt_recorder_file(int *ret_fd)
{
	size_t size = (size_t)(vt_recorder_elf_end - vt_recorder_elf), done = 0;
	char name[64], id[VT_BUILD_ID_DIGITS + 1];
	VT_CLOSE int fd = -1;

	if (!own_build_id(id))
		return no_recorder();
	snprintf(name, sizeof(name), VT_RECORDER_FILE_NAME "-%s", id);
	fd = vt_memfd_create(name, 0);
	while (fd >= 0 && done < size) {
		ssize_t n = write(fd, vt_recorder_elf + done, size - done);

		if (n > 0)
			done += (size_t)n;
		else if (n == 0 || errno != EINTR)
			break;
	}
	if (fd < 0 || done < size)
		return vt_error_create_os(errno, "cannot create a memory file for the recorder");
	*ret_fd = vt_steal_fd(fd);
	return NULL;
}

struct vt_error *vt_recorder_load(struct vt_helper *helper, struct vt_modules *modules,
				  uint64_t deadline_ns)
{
	uint64_t size = (uint64_t)(vt_recorder_elf_end - vt_recorder_elf);
	struct vt_load_recorder_args args = {
		.dlopen = find_loader(modules, "dlopen"),
		.dlerror = find_loader(modules, "dlerror"),
		.size = size,
		.fd = high_descriptor(modules->pid),
	};
	char id[VT_BUILD_ID_DIGITS + 1];

	if (!own_build_id(id))
		return no_recorder();
	if (!args.dlopen)
		return vt_error_create(VT_ERR_UNSUPPORTED,
				       "the process has no dlopen() that could load the recorder");
	snprintf(args.name, sizeof(args.name), VT_RECORDER_FILE_NAME "-%s", id);
	VT_TRY(vt_helper_grow(helper, VT_HELPER_ROOM_OFFSET + size));
	memcpy((char *)vt_helper_shared(helper) + VT_HELPER_ROOM_OFFSET, vt_recorder_elf, size);
	vt_helper_shared(helper)->args.load_recorder = args;
	vt_fault_point("record.load");

	struct vt_error *err = vt_helper_call(helper, VT_OP_LOAD_RECORDER, deadline_ns);

	vt_fault_point("record.loaded");
	if (err && err->code == VT_ERR_TIMEOUT)
		err = vt_error_prefix(err, "the recorder was not loaded, perhaps because another "
					   "thread is loading a library; nothing is recorded, "
					   "even if it is loaded later");
	return err;
}

struct vt_error *vt_recorder_call(struct vt_helper *helper, const struct vt_resident *resident,
				  enum vt_recorder_op op, const struct vt_recorder_config *config,
				  uint64_t deadline_ns, uint32_t *status)
{
	struct vt_call_recorder_args args = { .op = op };

	/* It was looked for again, and the process had ended. */
	if (!resident)
		return vt_error_create(VT_ERR_GONE, "the recorder is gone, and its process");
	args.control = resident->control;
	if (!resident->control || resident->abi != VT_RECORDER_ABI)
		return vt_error_create(VT_ERR_UNSUPPORTED,
				       "the recorder in the process is of another version (%u)",
				       resident->abi);
	if (config) {
		uint64_t size = config->n_got * sizeof(struct vt_recorder_got);

		args.config = *config;
		args.config.got = 0;
		VT_TRY(vt_helper_grow(helper, VT_HELPER_ROOM_OFFSET + size));
		if (size)
			memcpy((char *)vt_helper_shared(helper) + VT_HELPER_ROOM_OFFSET,
			       (const void *)config->got, size);
	}
	vt_helper_shared(helper)->args.call_recorder = args;
	vt_fault_point(op == VT_RECORD_OFF ? "record.off" : "record.on");
	VT_TRY(vt_helper_call(helper, VT_OP_CALL_RECORDER, deadline_ns));
	vt_fault_point(op == VT_RECORD_OFF ? "record.off-done" : "record.on-done");
	*status = __atomic_load_n(&vt_helper_shared(helper)->recorder.status, __ATOMIC_RELAXED);
	return NULL;
}
