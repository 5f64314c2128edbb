/* SPDX-License-Identifier: Apache-2.0 */
/* libnccl.so.2: communicators. As with the real one, making one waits for all of its ranks. */
#include "nccl.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define VERSION 22809
#define LOOK_NS 100000000 /* somebody may have died without a word */

/* ---- news ---- */

void nccl_tell(struct nccl_shared *shared)
{
	__atomic_add_fetch(&shared->news, 1, __ATOMIC_ACQ_REL);
	syscall(SYS_futex, &shared->news, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

uint32_t nccl_news(struct nccl_shared *shared)
{
	return __atomic_load_n(&shared->news, __ATOMIC_ACQUIRE);
}

void nccl_wait_for_news(struct nccl_shared *shared, uint32_t seen)
{
	struct timespec timeout = { .tv_nsec = LOOK_NS };

	syscall(SYS_futex, &shared->news, FUTEX_WAIT, seen, &timeout, NULL, 0);
}

/* ---- making one ---- */

NCCL(ncclGetUniqueId, struct nccl_id *id)
{
	int err = sim_enter(__func__);

	if (err)
		return err;
	memset(id, 0, sizeof(*id));
	return getrandom(id->bytes, 16, 0) == 16 ? NCCL_SUCCESS : NCCL_SYSTEM_ERROR;
}

static void name_of(const struct nccl_id *id, char *name, size_t size)
{
	uint64_t words[2];

	memcpy(words, id->bytes, sizeof(words));
	snprintf(name, size, "/dev/shm/simnccl-%016llx%016llx", (unsigned long long)words[0],
		 (unsigned long long)words[1]);
}

static struct nccl_shared *map(const char *name)
{
	int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	void *shared = MAP_FAILED;

	if (fd >= 0 && !ftruncate(fd, sizeof(struct nccl_shared)))
		shared = mmap(NULL, sizeof(struct nccl_shared), PROT_READ | PROT_WRITE, MAP_SHARED,
			      fd, 0);
	if (fd >= 0)
		close(fd);
	return shared == MAP_FAILED ? NULL : shared;
}

/* The last one in takes the name away. */
static void join(struct nccl_comm *comm, const char *name)
{
	uint32_t seen;

	if (__atomic_add_fetch(&comm->shared->n_joined, 1, __ATOMIC_ACQ_REL) ==
	    (uint32_t)comm->n_ranks)
		unlink(name);
	nccl_tell(comm->shared);
	while ((seen = nccl_news(comm->shared)),
	       __atomic_load_n(&comm->shared->n_joined, __ATOMIC_ACQUIRE) < (uint32_t)comm->n_ranks)
		nccl_wait_for_news(comm->shared, seen);
}

static int create(const char *function, struct nccl_comm **ret, int n_ranks,
		  const struct nccl_id *id, int rank)
{
	int err = sim_enter(function);
	struct nccl_comm *comm;
	char name[64];

	if (err)
		return err;
	if (n_ranks < 1 || n_ranks > NCCL_MAX_RANKS || rank < 0 || rank >= n_ranks)
		return NCCL_INVALID_ARGUMENT;
	name_of(id, name, sizeof(name));
	comm = calloc(1, sizeof(*comm));
	if (comm)
		comm->shared = map(name);
	if (!comm || !comm->shared) {
		free(comm);
		return NCCL_SYSTEM_ERROR;
	}
	comm->n_ranks = n_ranks;
	comm->rank = rank;
	comm->id = *id;
	join(comm, name);
	*ret = comm;
	return NCCL_SUCCESS;
}

NCCL(ncclCommInitRank, struct nccl_comm **comm, int n_ranks, struct nccl_id id, int rank)
{
	return create(__func__, comm, n_ranks, &id, rank);
}

NCCL(ncclCommInitRankConfig, struct nccl_comm **comm, int n_ranks, struct nccl_id id, int rank,
     const void *config)
{
	(void)config;
	return create(__func__, comm, n_ranks, &id, rank);
}

NCCL(ncclCommInitRankScalable, struct nccl_comm **comm, int n_ranks, int rank, int n_ids,
     const struct nccl_id *ids, const void *config)
{
	(void)config;
	return n_ids > 0 ? create(__func__, comm, n_ranks, ids, rank) : NCCL_INVALID_ARGUMENT;
}

/* ---- making one of another ---- */

/* All ranks of it are so far in the words of one of the two. */
static void wait_for_all(struct nccl_comm *comm, const uint64_t *first, size_t step,
			 uint64_t number)
{
	uint32_t seen;
	int n;

	do {
		seen = nccl_news(comm->shared);
		n = 0;
		for (int i = 0; i < comm->n_ranks; i++)
			n += __atomic_load_n(
				     (const uint64_t *)((const char *)first + (size_t)i * step),
				     __ATOMIC_ACQUIRE) >= number;
		if (n < comm->n_ranks)
			nccl_wait_for_news(comm->shared, seen);
	} while (n < comm->n_ranks);
}

/* Those of one colour get a communicator, in the order of their keys. */
NCCL(ncclCommSplit, struct nccl_comm *comm, int colour, int key, struct nccl_comm **ret,
     const void *config)
{
	struct nccl_shared *shared = comm->shared;
	uint64_t number = ++comm->splits;
	struct nccl_id id = comm->id;
	int err = sim_enter(__func__), n_ranks = 0, rank = 0;

	(void)config;
	if (err)
		return err;
	wait_for_all(comm, shared->splits_done, sizeof(shared->splits_done[0]), number - 1);
	shared->splits[comm->rank].colour = colour;
	shared->splits[comm->rank].key = key;
	__atomic_store_n(&shared->splits[comm->rank].number, number, __ATOMIC_RELEASE);
	nccl_tell(shared);
	wait_for_all(comm, &shared->splits[0].number, sizeof(shared->splits[0]), number);
	for (int i = 0; i < comm->n_ranks; i++) {
		int other = shared->splits[i].key;

		n_ranks += shared->splits[i].colour == colour;
		rank += shared->splits[i].colour == colour &&
			(other < key || (other == key && i < comm->rank));
	}
	__atomic_store_n(&shared->splits_done[comm->rank], number, __ATOMIC_RELEASE);
	nccl_tell(shared);
	*ret = NULL;
	if (colour < 0) /* NCCL_SPLIT_NOCOLOR */
		return NCCL_SUCCESS;
	memcpy(id.bytes + 8, &(uint64_t){ number << 32 | (uint32_t)colour }, 8);
	id.bytes[7] ^= (char)(number + 1);
	return create(__func__, ret, n_ranks, &id, rank);
}

/* ---- asking and ending ---- */

NCCL(ncclGetVersion, int *version)
{
	*version = VERSION;
	return sim_enter(__func__);
}

NCCL(ncclCommCount, const struct nccl_comm *comm, int *count)
{
	*count = comm->n_ranks;
	return sim_enter(__func__);
}

NCCL(ncclCommUserRank, const struct nccl_comm *comm, int *rank)
{
	*rank = comm->rank;
	return sim_enter(__func__);
}

NCCL(ncclCommGetAsyncError, const struct nccl_comm *comm, int *result)
{
	(void)comm;
	*result = NCCL_SUCCESS;
	return sim_enter(__func__);
}

/* What the streams still wait for is over. The memory stays: they look at it. */
NCCL(ncclCommAbort, struct nccl_comm *comm)
{
	__atomic_store_n(&comm->shared->aborted, 1, __ATOMIC_RELEASE);
	nccl_tell(comm->shared);
	return sim_enter(__func__);
}

NCCL(ncclCommFinalize, struct nccl_comm *comm)
{
	(void)comm;
	return sim_enter(__func__);
}

NCCL(ncclCommDestroy, struct nccl_comm *comm)
{
	(void)comm;
	return sim_enter(__func__);
}

const char *ncclGetErrorString(int result);
const char *ncclGetErrorString(int result)
{
	return result == NCCL_SUCCESS ? "no error" : "an error of the simulated NCCL";
}

const char *ncclGetLastError(const struct nccl_comm *comm);
const char *ncclGetLastError(const struct nccl_comm *comm)
{
	(void)comm;
	return "";
}
