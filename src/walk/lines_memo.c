/* SPDX-License-Identifier: Apache-2.0 */
#include "walk/lines_memo.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/clock.h"

#define SLOTS 16384u /* a power of two */
#define MAX_PROBES 64
#define DATA_BYTES (4u * 1024 * 1024)
#define MAX_BYTES (64u * 1024) /* of one */

struct entry {
	struct vt_lines_key key;
	uint32_t n;
	char bytes[];
};

struct vt_lines_memo {
	uint32_t used;         /* of data, and more when it was full */
	uint32_t slots[SLOTS]; /* where in data an entry begins, plus one; 0: free */
	_Alignas(8) char data[DATA_BYTES];
};

bool vt_lines_key_init(struct vt_lines_key *key, int fd)
{
	struct stat st;

	memset(key, 0, sizeof(*key));
	if (fd < 0 || fstat(fd, &st))
		return false;
	key->device = st.st_dev;
	key->inode = st.st_ino;
	key->size = (uint64_t)st.st_size;
	key->mtime_ns = (uint64_t)st.st_mtim.tv_sec * VT_NS_PER_S + (uint64_t)st.st_mtim.tv_nsec;
	return true;
}

struct vt_lines_memo *vt_lines_memo_create(void)
{
	void *memo = mmap(NULL, sizeof(struct vt_lines_memo), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return memo == MAP_FAILED ? NULL : memo;
}

void vt_lines_memo_destroy(struct vt_lines_memo *memo)
{
	if (memo)
		munmap(memo, sizeof(*memo));
}

/* FNV-1a */
static uint32_t hash_of(const struct vt_lines_key *key)
{
	const unsigned char *bytes = (const unsigned char *)key;
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < sizeof(*key); i++)
		hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
	return (uint32_t)(hash ^ hash >> 32);
}

/* The entry of a slot, as far as it lies in data. Its contents may change while they are looked at, if somebody means harm. */
static const struct entry *entry_at(const struct vt_lines_memo *memo, uint32_t slot)
{
	if (slot == 0 || (slot - 1) % 8 || slot - 1 > DATA_BYTES - sizeof(struct entry))
		return NULL;
	return (const struct entry *)(const void *)(memo->data + (slot - 1));
}

bool vt_lines_memo_find(const struct vt_lines_memo *memo, const struct vt_lines_key *key, struct vt_str *out)
{
	uint32_t hash = hash_of(key);

	for (uint32_t i = 0; memo && i < MAX_PROBES; i++) {
		uint32_t slot = __atomic_load_n(&memo->slots[(hash + i) % SLOTS], __ATOMIC_ACQUIRE);
		const struct entry *entry = entry_at(memo, slot);
		uint32_t n;

		if (!entry)
			return false;
		n = __atomic_load_n(&entry->n, __ATOMIC_RELAXED);
		if (memcmp(&entry->key, key, sizeof(*key)) != 0)
			continue;
		if (n > MAX_BYTES || n > DATA_BYTES - sizeof(*entry) - (slot - 1))
			return false;
		vt_str_addn(out, entry->bytes, n);
		return true;
	}
	return false;
}

void vt_lines_memo_add(struct vt_lines_memo *memo, const struct vt_lines_key *key, const char *bytes, size_t n)
{
	uint32_t size = (uint32_t)(sizeof(struct entry) + n + 7) / 8 * 8, hash = hash_of(key), at;
	struct entry *entry;

	if (!memo || n > MAX_BYTES || __atomic_load_n(&memo->used, __ATOMIC_RELAXED) > DATA_BYTES - size)
		return;
	at = __atomic_fetch_add(&memo->used, size, __ATOMIC_RELAXED);
	if (at > DATA_BYTES - size || at % 8)
		return;
	entry = (struct entry *)(void *)(memo->data + at);
	entry->key = *key;
	entry->n = (uint32_t)n;
	memcpy(entry->bytes, bytes, n);
	for (uint32_t i = 0; i < MAX_PROBES; i++) {
		uint32_t free_slot = 0;

		/* Two that come at the same time may both add it; that does no harm. */
		if (__atomic_compare_exchange_n(&memo->slots[(hash + i) % SLOTS], &free_slot, at + 1, false, __ATOMIC_RELEASE,
						__ATOMIC_RELAXED))
			return;
	}
}
