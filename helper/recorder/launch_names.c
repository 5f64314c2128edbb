/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of kernels by their handles. A handle is known after the driver was asked once; when a
 * module is unloaded all handles are unknown again (the next epoch), since another kernel may get
 * the same one. A known handle is found without a lock.
 */
#include "launch_names.h"

#include "internal.h"

#define NAMES_BYTES (UINT32_C(512) << 10)
#define TEXTS 4096    /* a power of 2, places in the index of names */
#define HANDLES 32768 /* a power of 2; fewer if there is little memory */
#define PROBES 8
#define EPOCH_MASK ((UINT64_C(1) << 20) - 1)
#define NAME_MASK ((UINT64_C(1) << 28) - 1)

/*
 * A handle's name: handle << 16 | tag; epoch << 44 | name << 16 | tag. Two halves that were not
 * written together have different tags.
 */
struct named {
	uint64_t handle, name;
};

static struct {
	struct named *handles;
	uint64_t n_handles;
	uint32_t *texts; /* offset + 1 in the names, by hash; under the lock, as what follows */
	uint32_t lock, tag;
} tables;

static struct vt_recorder_launches *kept(void)
{
	return &vt_recorder.launches;
}

/* ---- asking ---- */

static int *errno_at(const struct vt_recorder_imports *imports)
{
	int *(*location)(void) = (int *(*)(void))imports->errno_location;

	return location ? location() : NULL;
}

void vt_rec_name_ask(uint64_t handle, const struct vt_recorder_imports *imports,
		     struct vt_rec_kernel_name *name)
{
	const uint64_t ask[] = { imports->cuFuncGetName, imports->cuKernelGetName };
	const char *text = NULL;
	uint32_t n = 0;
	int *errno_now = errno_at(imports), kept = errno_now ? *errno_now : 0;

	for (unsigned int i = 0; handle && !text && i < 2; i++)
		if (ask[i] && ((int (*)(const char **, uint64_t))ask[i])(&text, handle))
			text = NULL;
	while (text && text[n] && n < VT_REC_MAX_NAME - 1) {
		name->text[n] = text[n];
		n++;
	}
	name->text[n] = '\0';
	if (errno_now)
		*errno_now = kept;
	name->n = n ? n + 1 : 0;
}

/* ---- keeping ---- */

static uint64_t handle_slot(uint64_t handle, unsigned int probe)
{
	return (vt_recorder_hash(handle) + probe) & (tables.n_handles - 1);
}

uint32_t vt_rec_names_epoch(void)
{
	return __atomic_load_n(&kept()->epoch, __ATOMIC_ACQUIRE) & EPOCH_MASK;
}

/*
 * Asking takes the driver 50 us and more: a handle for which there is no place is not asked for
 * with each launch.
 */
bool vt_rec_name_find(uint64_t handle, uint32_t *name)
{
	uint32_t epoch = vt_rec_names_epoch(), taken = 0;

	for (unsigned int i = 0; i < PROBES; i++) {
		const struct named *at = &tables.handles[handle_slot(handle, i)];
		uint64_t a = __atomic_load_n(&at->handle, __ATOMIC_ACQUIRE);
		uint64_t b = __atomic_load_n(&at->name, __ATOMIC_ACQUIRE);

		if (!a)
			return false;
		if ((a ^ b) & 0xffff || b >> 44 != epoch)
			continue;
		taken++;
		if (a >> 16 != handle)
			continue;
		*name = (uint32_t)(b >> 16 & NAME_MASK);
		return true;
	}
	*name = 0;
	return taken == PROBES;
}

static uint64_t hash_text(const char *text, uint32_t n)
{
	uint64_t h = n;

	for (uint32_t i = 0; i < n; i++)
		h = (h ^ (uint8_t)text[i]) * UINT64_C(0x100000001b3);
	return vt_recorder_hash(h);
}

static bool is_text(uint32_t name, const char *text, uint32_t n)
{
	const char *at = (const char *)kept()->names + (name - 1);

	for (uint32_t i = 0; i < n; i++)
		if (at[i] != text[i])
			return false;
	return true;
}

/* The same text is kept once. 0: there is no room. Under the lock. */
static uint32_t keep_text(const char *text, uint32_t n)
{
	uint64_t slot = hash_text(text, n);
	uint32_t at = kept()->names_n;

	for (unsigned int i = 0; i < TEXTS / 4; i++, slot++) {
		uint32_t *known = &tables.texts[slot & (TEXTS - 1)];

		if (*known && *known - 1 + n <= at && is_text(*known, text, n))
			return *known;
		if (*known)
			continue;
		if (n > kept()->names_room - at)
			return 0;
		for (uint32_t k = 0; k < n; k++)
			((char *)kept()->names)[at + k] = text[k];
		__atomic_store_n(&kept()->names_n, at + n, __ATOMIC_RELEASE);
		*known = at + 1;
		return at + 1;
	}
	return 0;
}

/* NULL: all are taken. */
static struct named *place_for(uint64_t handle, uint32_t epoch)
{
	for (unsigned int i = 0; i < PROBES; i++) {
		struct named *at = &tables.handles[handle_slot(handle, i)];

		if (!at->handle || at->handle >> 16 == handle || at->name >> 44 != epoch)
			return at;
	}
	return NULL;
}

uint32_t vt_rec_name_keep(uint64_t handle, const struct vt_rec_kernel_name *asked)
{
	struct named *at;
	uint32_t name, tag;

	if (!vt_rec_lock(&tables.lock))
		return 0;
	name = asked->n ? keep_text(asked->text, asked->n) : 0;
	tag = ++tables.tag & 0xffff;
	at = place_for(handle, asked->epoch);
	if (!at) {
		vt_rec_unlock(&tables.lock);
		return name;
	}
	__atomic_store_n(&at->name, (uint64_t)asked->epoch << 44 | (uint64_t)name << 16 | tag,
			 __ATOMIC_RELEASE);
	__atomic_store_n(&at->handle, handle << 16 | tag, __ATOMIC_RELEASE);
	vt_rec_unlock(&tables.lock);
	return name;
}

void vt_rec_names_forget(void)
{
	__atomic_fetch_add(&kept()->epoch, 1, __ATOMIC_ACQ_REL);
}

/* ---- on and off ---- */

bool vt_rec_names_init(void)
{
	struct vt_recorder_launches *l = kept();

	l->names_room = NAMES_BYTES;
	if (l->names_room > vt_recorder.max_memory / 16)
		l->names_room = (uint32_t)(vt_recorder.max_memory / 16);
	tables.lock = tables.tag = 0;
	tables.n_handles = HANDLES;
	while (tables.n_handles > PROBES &&
	       tables.n_handles * sizeof(*tables.handles) > vt_recorder.max_memory / 16)
		tables.n_handles /= 2;
	tables.handles = vt_rec_map(tables.n_handles * sizeof(*tables.handles));
	tables.texts = vt_rec_map(TEXTS * sizeof(*tables.texts));
	l->names = (uint64_t)vt_rec_map(l->names_room);
	return tables.handles && tables.texts && l->names;
}

static void unmap(void *at, uint64_t size)
{
	if (at)
		vt_rec_unmap(at, size);
}

void vt_rec_names_deinit(void)
{
	unmap(tables.handles, tables.n_handles * sizeof(*tables.handles));
	unmap(tables.texts, TEXTS * sizeof(*tables.texts));
	unmap((void *)kept()->names, kept()->names_room);
	tables.handles = NULL;
	tables.texts = NULL;
	kept()->names = 0;
}
