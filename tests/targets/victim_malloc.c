/* SPDX-License-Identifier: Apache-2.0 */
/*
 * victim_malloc STATS_FILE: 16 threads in the allocator nearly all the time, checking what they
 * allocated, and one that sleeps: whoever borrows a thread here finds the allocator's locks taken
 * again and again.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "victim.h"

#define N_STORM 16
#define N_PIECES 200

struct piece {
	unsigned char *p;
	size_t n;
	unsigned char value;
};

static struct victim_stats *stats;

static size_t random_size(unsigned int *seed)
{
	return 1 + (size_t)rand_r(seed) % (rand_r(seed) % 8 ? 2000 : 200000);
}

static void use(struct victim_thread *shared, struct piece *piece, unsigned int *seed)
{
	for (size_t i = 0; piece->p && i < piece->n; i += 61)
		if (piece->p[i] != piece->value)
			shared->errors++;
	if (piece->p && rand_r(seed) & 1) {
		free(piece->p);
		piece->p = NULL;
		return;
	}
	piece->n = random_size(seed);
	piece->p = realloc(piece->p, piece->n);
	piece->value = (unsigned char)rand_r(seed);
	memset(piece->p, piece->value, piece->n);
}

static void *storm(void *arg)
{
	struct victim_thread *shared = arg;
	unsigned int seed = (unsigned int)(shared - stats->threads) * 77 + 1;
	struct piece pieces[N_PIECES] = { { 0 } };

	shared->tid = (uint64_t)syscall(SYS_gettid);
	for (;;) {
		struct timespec ts = { 0, 100000 };

		use(shared, &pieces[rand_r(&seed) % N_PIECES], &seed);
		if (++shared->rounds % 512 == 0)
			nanosleep(&ts, NULL);
	}
	return NULL;
}

static void *parked(void *arg)
{
	struct victim_thread *shared = arg;

	shared->tid = (uint64_t)syscall(SYS_gettid);
	for (;;) {
		struct timespec ts = { 0, 50000000 };

		shared->errors += nanosleep(&ts, NULL) != 0;
		shared->rounds++;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t id;

	if (argc != 2)
		return 64;
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	prctl(PR_SET_PDEATHSIG, SIGKILL);

	int fd = open(argv[1], O_RDWR | O_CLOEXEC);

	stats = fd < 0 ? MAP_FAILED :
			 mmap(NULL, sizeof(*stats), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (stats == MAP_FAILED) {
		perror(argv[1]);
		return 1;
	}
	for (int i = 0; i <= N_STORM; i++) {
		snprintf(stats->threads[i].name, sizeof(stats->threads[i].name),
			 i < N_STORM ? "storm" : "parked");
		if (pthread_create(&id, NULL, i < N_STORM ? storm : parked, &stats->threads[i]))
			return 1;
	}
	stats->n_threads = N_STORM + 1;
	__atomic_store_n(&stats->ready, 1, __ATOMIC_SEQ_CST);
	pthread_join(id, NULL);
	return 0;
}
