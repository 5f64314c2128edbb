/* SPDX-License-Identifier: Apache-2.0 */
#include "walk/native/lines_memo.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"

#define SLOTS 16384u /* a power of two */
#define MAX_PROBES 64
#define DATA_BYTES (4u * 1024 * 1024)
#define MAX_BYTES (64u * 1024) /* of one */

/*
 * A claim: the upper bits of the key's hash, and the pid of the claimant (a pid has at most 22
 * bits); OVER: it is settled.
 */
#define OWNER_BITS 24
#define OWNER_MASK ((UINT64_C(1) << OWNER_BITS) - 1)
#define OVER 0u
#define LOOK_NS (20 * VT_NS_PER_MS) /* how often a waiter checks that the claimant is alive */

struct entry {
	struct vt_lines_key key;
	uint32_t n;
	char bytes[];
};

struct vt_lines_memo {
	uint32_t used;          /* of data, and more when it was full */
	uint32_t slots[SLOTS];  /* where in data an entry begins, plus one; 0: free */
	uint32_t told;          /* a futex: raised when claims were settled */
	uint64_t claims[SLOTS]; /* 0: free */
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
	void *memo = mmap(NULL, sizeof(struct vt_lines_memo), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return memo == MAP_FAILED ? NULL : memo;
}

void vt_lines_memo_destroy(struct vt_lines_memo *memo)
{
	if (memo)
		munmap(memo, sizeof(*memo));
}

/* FNV-1a */
static uint64_t long_hash_of(const struct vt_lines_key *key)
{
	const unsigned char *bytes = (const unsigned char *)key;
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < sizeof(*key); i++)
		hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
	return hash;
}

static uint32_t hash_of(const struct vt_lines_key *key)
{
	uint64_t hash = long_hash_of(key);

	return (uint32_t)(hash ^ hash >> 32);
}

/*
 * The entry of a slot, as far as it lies in data. A hostile process can change its contents while
 * we read them.
 */
static const struct entry *entry_at(const struct vt_lines_memo *memo, uint32_t slot)
{
	if (slot == 0 || (slot - 1) % 8 || slot - 1 > DATA_BYTES - sizeof(struct entry))
		return NULL;
	return (const struct entry *)(const void *)(memo->data + (slot - 1));
}

bool vt_lines_memo_find(const struct vt_lines_memo *memo, const struct vt_lines_key *key,
			struct vt_str *out)
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

void vt_lines_memo_add(struct vt_lines_memo *memo, const struct vt_lines_key *key,
		       const char *bytes, size_t n)
{
	uint32_t size = (uint32_t)(sizeof(struct entry) + n + 7) / 8 * 8, hash = hash_of(key), at;
	struct entry *entry;

	if (!memo || n > MAX_BYTES ||
	    __atomic_load_n(&memo->used, __ATOMIC_RELAXED) > DATA_BYTES - size)
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
		if (__atomic_compare_exchange_n(&memo->slots[(hash + i) % SLOTS], &free_slot,
						at + 1, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
			return;
	}
}

static bool is_there(pid_t pid)
{
	return kill(pid, 0) == 0 || errno != ESRCH;
}

/* What is in the slot of the key's claim, or in the first free one: 0. NULL: there is no room. */
static uint64_t *claim_slot(struct vt_lines_memo *memo, uint64_t hash, uint64_t *found)
{
	for (uint32_t i = 0; i < MAX_PROBES; i++) {
		uint64_t *slot = &memo->claims[((uint32_t)(hash ^ hash >> 32) + i) % SLOTS];

		*found = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
		if (!*found || (*found ^ hash) >> OWNER_BITS == 0)
			return slot;
	}
	return NULL;
}

bool vt_lines_memo_claim(struct vt_lines_memo *memo, const struct vt_lines_key *key)
{
	uint64_t hash = long_hash_of(key), own = (hash & ~OWNER_MASK) | (uint64_t)getpid(),
		 found = 0;

	/* Another one may be quicker; then it is there, most likely. */
	for (int tries = 0; memo && tries < 2; tries++) {
		uint64_t *slot = claim_slot(memo, hash, &found);

		if (!slot || found == own)
			return true;
		if (found && (found & OWNER_MASK) != OVER && is_there((pid_t)(found & OWNER_MASK)))
			return false;
		if (__atomic_compare_exchange_n(slot, &found, own, false, __ATOMIC_ACQ_REL,
						__ATOMIC_RELAXED))
			return true;
	}
	return !memo;
}

void vt_lines_memo_settle(struct vt_lines_memo *memo, const struct vt_lines_key *key)
{
	uint64_t hash = long_hash_of(key), own = (hash & ~OWNER_MASK) | (uint64_t)getpid(), found;
	uint64_t *slot = memo ? claim_slot(memo, hash, &found) : NULL;

	if (slot && found == own)
		__atomic_store_n(slot, (hash & ~OWNER_MASK) | OVER, __ATOMIC_RELEASE);
}

void vt_lines_memo_tell(struct vt_lines_memo *memo)
{
	if (!memo)
		return;
	__atomic_add_fetch(&memo->told, 1, __ATOMIC_RELEASE);
	/* Not the private kind: it is between processes. */
	(void)syscall(SYS_futex, &memo->told, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

void vt_lines_memo_wait(struct vt_lines_memo *memo, uint32_t *told, uint64_t deadline_ns)
{
	uint64_t look_ns = vt_now_ns() + LOOK_NS,
		 until_ns = look_ns < deadline_ns ? look_ns : deadline_ns;
	struct timespec until = { .tv_sec = (time_t)(until_ns / VT_NS_PER_S),
				  .tv_nsec = (long)(until_ns % VT_NS_PER_S) };

	/* With a bit set the deadline is a moment of CLOCK_MONOTONIC, and not a length of time. */
	while (__atomic_load_n(&memo->told, __ATOMIC_ACQUIRE) == *told &&
	       !vt_deadline_passed(until_ns))
		(void)syscall(SYS_futex, &memo->told, FUTEX_WAIT_BITSET, *told, &until, NULL,
			      FUTEX_BITSET_MATCH_ANY);
	*told = __atomic_load_n(&memo->told, __ATOMIC_ACQUIRE);
}
