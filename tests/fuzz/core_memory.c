/* SPDX-License-Identifier: Apache-2.0 */
#include "core_memory.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "unit/target/core/core_image.h"
#include "base/map.h"
#include "fuzz.h"

#define PAGE UINT64_C(4096)
#define MAX_CORES (CORE_MEMORY_WHICH + 1)
#define MAX_EDITS 16
#define SEED_EDITS 4
#define MAX_WORDS 200000
#define MAX_TELLING 4096
#define NOTED 256 /* bytes of an object */
/* A longer read is of pages, of which most words mean nothing. */
#define SMALL_READ 64
#define EVERY 61 /* of those words one in so many */

enum what { SET, BYTE, ADD, POINT, COPY, FLIP, TELLING, GONE, N_WHAT };

/* Words of the sound core that are read. */
struct words {
	uint64_t *addrs;
	size_t n;
	uint64_t telling[MAX_TELLING];
	size_t n_telling;
	struct vt_map seen;
};

struct sample {
	char *path;
	struct words words[CORE_MEMORY_PARTS];
};

struct edit {
	uint64_t addr;
	uint8_t bytes[8];
	bool gone; /* its page cannot be read */
};

/* The memory of the core: edits over what is there. */
static struct {
	struct vt_memsrc src;
	struct vt_memsrc *under;
	struct words *record; /* NULL: not the first report */
	pthread_mutex_t lock;
	struct edit edits[MAX_EDITS];
	size_t n_edits;
	bool moves;
	unsigned int reads;
} memory = { .lock = PTHREAD_MUTEX_INITIALIZER };

static struct sample samples[MAX_CORES];
static size_t n_samples;

/* ---- memory ---- */

static void record(struct words *words, uint64_t addr, size_t len)
{
	static size_t count;
	uint64_t end = addr + len;

	pthread_mutex_lock(&memory.lock);
	for (addr &= ~UINT64_C(7); addr < end && words->n < MAX_WORDS; addr += 8) {
		if (len > SMALL_READ && count++ % EVERY)
			continue;
		if (!vt_map_get(&words->seen, addr) && vt_map_put(&words->seen, addr, 1))
			words->addrs[words->n++] = addr;
	}
	pthread_mutex_unlock(&memory.lock);
}

static int read_edited(struct vt_memsrc *src, uint64_t addr, void *buf, size_t len)
{
	int ret = vt_mem_read(memory.under, addr, buf, len);

	if (ret) {
		src->fault_addr = memory.under->fault_addr;
		return ret;
	}
	if (memory.record)
		record(memory.record, addr, len);
	if (memory.moves && memory.reads++ % 3)
		return 0;
	for (size_t i = 0; i < memory.n_edits; i++) {
		const struct edit *e = &memory.edits[i];
		uint64_t page = e->addr & ~(PAGE - 1);

		if (e->gone && addr < page + PAGE && page < addr + len) {
			src->fault_addr = addr > page ? addr : page;
			return -EFAULT;
		}
		for (uint64_t at = 0; at < sizeof(e->bytes); at++)
			if (e->addr + at - addr < len)
				((uint8_t *)buf)[e->addr + at - addr] = e->bytes[at];
	}
	return 0;
}

static const struct vt_memsrc_ops ops = { .read = read_edited };

struct vt_memsrc *__real_vt_core_source(struct vt_core *core);
struct vt_memsrc *__wrap_vt_core_source(struct vt_core *core);

/* The linker puts it in the place of the real one (local.mk). */
struct vt_memsrc *__wrap_vt_core_source(struct vt_core *core)
{
	memory.under = __real_vt_core_source(core);
	memory.src = (struct vt_memsrc){ .ops = &ops, .coherent = !memory.moves };
	return &memory.src;
}

static void add_edit(const struct words *words, const uint8_t *data)
{
	static const uint64_t telling[] = { 0,
					    1,
					    UINT64_MAX,
					    INT64_MAX,
					    UINT64_C(1) << 63,
					    UINT32_MAX,
					    INT32_MAX,
					    UINT64_C(1) << 32,
					    UINT64_C(0x7fffffffffff),
					    0x1000,
					    0x8000 };
	struct edit *e = &memory.edits[memory.n_edits];
	uint32_t which;
	int16_t number;
	uint64_t value, other;

	memcpy(&which, data, 4);
	memcpy(&number, data + 6, 2);
	e->addr = words->addrs[which % words->n];
	if (data[4] & 0x80 && words->n_telling)
		e->addr = words->telling[which % words->n_telling];
	/* One nearby, so that pointers that are mixed up are often of the same structure. */
	other = words->addrs[(which + (uint64_t)(int64_t)number) % words->n];
	e->gone = false;
	if (vt_mem_read_u64(&memory.src, e->addr, &value))
		return;
	switch (data[4] % N_WHAT) {
	case SET:
		value = (uint64_t)(int64_t)number;
		break;
	case BYTE:
		value &= ~(UINT64_C(0xff) << data[5] % 8 * 8);
		value |= (uint64_t)data[6] << data[5] % 8 * 8;
		break;
	case ADD:
		value += (uint64_t)(int64_t)number << data[5] % 40;
		break;
	case POINT:
		value = other;
		break;
	case COPY:
		(void)!vt_mem_read_u64(&memory.src, other, &value);
		break;
	case GONE:
		e->gone = true;
		break;
	case FLIP:
		value ^= UINT64_C(1) << data[5] % 64;
		break;
	default:
		value = telling[data[5] % (sizeof(telling) / sizeof(telling[0]))];
	}
	memcpy(e->bytes, &value, sizeof(e->bytes));
	memory.n_edits++;
}

/* ---- cores ---- */

static int compare_samples(const void *a, const void *b)
{
	return strcmp(((const struct sample *)a)->path, ((const struct sample *)b)->path);
}

static void find_samples(void)
{
	static uint8_t image[1u << 16];
	const struct core_image_options options = { 0 };
	const char *where = getenv("FUZZ_CORES"), *only = getenv("FUZZ_CORE");
	DIR *dir = where ? opendir(where) : NULL;
	size_t n = core_image_make(&options, image, sizeof(image));
	int fd = memfd_create("core", 0);

	fuzz_check(fd >= 0 && write(fd, image, n) == (ssize_t)n, "no core");
	fuzz_check(asprintf(&samples[n_samples++].path, "/proc/self/fd/%d", fd) > 0, "memory");
	for (struct dirent *e = dir ? readdir(dir) : NULL; e && n_samples < MAX_CORES;
	     e = readdir(dir)) {
		size_t len = strlen(e->d_name);

		if (len > 5 && !strcmp(e->d_name + len - 5, ".core") &&
		    (!only || strstr(e->d_name, only)))
			fuzz_check(asprintf(&samples[n_samples++].path, "%s/%s", where, e->d_name) >
					   0,
				   "memory");
	}
	if (dir)
		closedir(dir);
	qsort(samples + 1, n_samples - 1, sizeof(samples[0]), compare_samples);
}

size_t core_memory_cores(void)
{
	if (!n_samples)
		find_samples();
	return n_samples;
}

const char *core_memory_begin(const uint8_t *data, size_t size, unsigned int part,
			      void (*look)(const char *path, unsigned int part))
{
	struct sample *sample = &samples[(data[0] & CORE_MEMORY_WHICH) % core_memory_cores()];
	struct words *words = &sample->words[part];
	struct vt_core *core;

	memory.n_edits = memory.reads = 0;
	memory.moves = false;
	if (!words->addrs) {
		words->addrs = calloc(MAX_WORDS, sizeof(*words->addrs));
		fuzz_check(words->addrs, "memory");
		memory.record = words;
		look(sample->path, part);
		memory.record = NULL;
	}
	if (size < 2 + CORE_MEMORY_EDIT || !words->n)
		return sample->path;
	/* What is there before the change. */
	fuzz_check(!vt_core_open(sample->path, &core), "no core");
	fuzz_check(vt_core_source(core) == &memory.src, "the linker did not wrap it");
	for (size_t at = 2; at + CORE_MEMORY_EDIT <= size && memory.n_edits < MAX_EDITS;
	     at += CORE_MEMORY_EDIT)
		add_edit(words, data + at);
	vt_core_close(core);
	return sample->path;
}

void core_memory_note(uint64_t object, int depth)
{
	struct words *words = memory.record;
	uint64_t content[NOTED / 8];

	if (!words || !object || object % 8 || words->n_telling + NOTED / 8 > MAX_TELLING ||
	    vt_mem_read(memory.under, object, content, sizeof(content)))
		return;
	for (size_t i = 0; i < words->n_telling; i++)
		if (words->telling[i] == object)
			return;
	for (size_t i = 0; i < NOTED / 8; i++)
		words->telling[words->n_telling++] = object + i * 8;
	for (size_t i = 0; depth > 0 && i < NOTED / 8; i++)
		core_memory_note(content[i], depth - 1);
}

size_t core_memory_seed(unsigned int number, uint8_t *data)
{
	size_t n = 0;

	/* Any words and any kinds, but the same each time. */
	for (; n < SEED_EDITS * CORE_MEMORY_EDIT; n += CORE_MEMORY_EDIT) {
		uint64_t random = (number * SEED_EDITS + n + 1) * UINT64_C(0x9e3779b97f4a7c15);

		memcpy(data + n, &random, CORE_MEMORY_EDIT);
		data[n + 4] = (uint8_t)(n ? random >> 56 : GONE);
	}
	return n;
}

void core_memory_moves(void)
{
	memory.moves = true;
}
