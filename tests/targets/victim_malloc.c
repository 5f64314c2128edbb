/* SPDX-License-Identifier: Apache-2.0 */
/*
 * victim_malloc STATS_FILE [THREADS]: 16 threads in the allocator nearly all the time, checking
 * what they allocated, and one that sleeps: whoever borrows a thread here finds the allocator's
 * locks taken again and again.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "spy.h"

#define N_STORM 16
#define N_PIECES 200
#define ROUND 512 /* operations between two rests */

struct piece {
	unsigned char *p;
	size_t n;
	unsigned char value;
};

static size_t random_size(unsigned int *seed)
{
	return 1 + (size_t)rand_r(seed) % (rand_r(seed) % 8 ? 2000 : 200000);
}

static void use(struct spy *spy, struct piece *piece)
{
	unsigned int *seed = &spy->seed;

	for (size_t i = 0; piece->p && i < piece->n; i += 61)
		if (piece->p[i] != piece->value)
			spy_wrong(spy, "memory changed");
	if (piece->p && rand_r(seed) & 1) {
		free(piece->p);
		piece->p = NULL;
		return;
	}

	size_t n = random_size(seed);
	unsigned char *p = realloc(piece->p, n);

	if (!p)
		return; /* at a limit of memory */
	piece->p = p;
	piece->n = n;
	piece->value = (unsigned char)rand_r(seed);
	memset(piece->p, piece->value, piece->n);
}

static void storm(struct spy *spy)
{
	static __thread struct piece pieces[N_PIECES];
	struct timespec ts = { 0, 100000 };

	for (int i = 0; i < ROUND; i++)
		use(spy, &pieces[rand_r(&spy->seed) % N_PIECES]);
	spy_check(spy, "nanosleep", nanosleep(&ts, NULL), 0);
}

static void parked(struct spy *spy)
{
	struct timespec ts = { 0, 50000000 };

	spy_check(spy, "nanosleep", nanosleep(&ts, NULL), 0);
}

int main(int argc, char **argv)
{
	static struct spy_kind kinds[VICTIM_MAX_THREADS] = { { "parked", parked, NULL } };
	size_t n = argc > 2 ? strtoul(argv[2], NULL, 10) : N_STORM;

	if (argc < 2 || n >= VICTIM_MAX_THREADS)
		return 64;
	for (size_t i = 1; i <= n; i++)
		kinds[i] = (struct spy_kind){ "storm", storm, NULL };
	return spy_main(argv[1], kinds, n + 1);
}
