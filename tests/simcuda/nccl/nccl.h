/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What NCCL's functions share here. Processes of one host meet in a piece of shared memory, named
 * by the communicator's id. A collective moves no data: it is over, on its stream, when every
 * rank's stream has come to it.
 */
#ifndef SIM_NCCL_H
#define SIM_NCCL_H

#include "../core/sim.h"

#define NCCL_MAX_RANKS 64

enum { /* ncclResult_t */
       NCCL_SUCCESS = 0,
       NCCL_SYSTEM_ERROR = 2,
       NCCL_INVALID_ARGUMENT = 4,
       NCCL_INVALID_USAGE = 5,
};

struct nccl_id { /* ncclUniqueId; goes by value */
	char bytes[128];
};

struct nccl_shared {
	uint32_t news; /* futex word: changes with all that follows */
	uint32_t n_joined;
	uint32_t aborted;
	struct {
		uint64_t number; /* of the split, from 1 */
		int colour, key;
	} splits[NCCL_MAX_RANKS];             /* what each rank asked for last */
	uint64_t splits_done[NCCL_MAX_RANKS]; /* and has read of the others */
	/* which collective that is: others than those of its peers never end */
	uint32_t functions[NCCL_MAX_RANKS];
	uint64_t collectives[NCCL_MAX_RANKS]; /* to which the stream of each rank has come so far */
	uint64_t sends[NCCL_MAX_RANKS][NCCL_MAX_RANKS]; /* [from][to], the same */
	uint64_t receives[NCCL_MAX_RANKS][NCCL_MAX_RANKS];
};

struct nccl_comm {
	struct nccl_shared *shared;
	struct nccl_id id;
	int n_ranks, rank;
	uint64_t splits;
	uint64_t collectives; /* that were called */
	uint64_t sends[NCCL_MAX_RANKS], receives[NCCL_MAX_RANKS];
};

/* Tells the others, and sleeps until they have something to tell, or for a while. */
void nccl_tell(struct nccl_shared *shared);
uint32_t nccl_news(struct nccl_shared *shared);
void nccl_wait_for_news(struct nccl_shared *shared, uint32_t seen);

#define NCCL(name, ...)        \
	int name(__VA_ARGS__); \
	int name(__VA_ARGS__)

#endif
