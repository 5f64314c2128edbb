/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What other processes hold on each device: SIMCUDA_OTHER_MB, and what those hold that have the
 * same file for SIMCUDA_SHARED. Each process has a row in that file. Rows of ended ones count no
 * more.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim.h"

enum { ROWS = 64 };

struct row {
	int32_t pid, unused;
	uint64_t used[SIM_MAX_DEVICES];
};

static struct row *rows;

static void map_rows(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	void *map = MAP_FAILED;

	if (fd >= 0 && !ftruncate(fd, ROWS * sizeof(*rows)))
		map = mmap(NULL, ROWS * sizeof(*rows), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd >= 0)
		close(fd);
	if (map == MAP_FAILED) {
		fprintf(stderr, "simcuda: shared file %s: %s\n", path, strerror(errno));
		exit(70);
	}
	rows = map;
}

void sim_share(const char *path)
{
	if (path && *path)
		map_rows(path);
}

static int has_ended(int32_t pid)
{
	return kill(pid, 0) && errno == ESRCH;
}

/* This process's, taken from one that has ended if it has none yet; NULL: all are taken. */
static struct row *own_row(void)
{
	int32_t self = (int32_t)getpid();

	for (int i = 0; i < ROWS; i++)
		if (__atomic_load_n(&rows[i].pid, __ATOMIC_ACQUIRE) == self)
			return &rows[i];
	for (int i = 0; i < ROWS; i++) {
		int32_t pid = __atomic_load_n(&rows[i].pid, __ATOMIC_ACQUIRE);

		if ((!pid || has_ended(pid)) &&
		    __atomic_compare_exchange_n(&rows[i].pid, &pid, self, 0, __ATOMIC_ACQ_REL,
						__ATOMIC_RELAXED)) {
			for (int d = 0; d < SIM_MAX_DEVICES; d++)
				rows[i].used[d] = 0;
			return &rows[i];
		}
	}
	return NULL;
}

void sim_others_tell(int device, uint64_t used)
{
	struct row *row = rows ? own_row() : NULL;

	if (row)
		__atomic_store_n(&row->used[device], used, __ATOMIC_RELEASE);
}

uint64_t sim_others_hold(int device)
{
	uint64_t held = sim_config.other_bytes;

	for (int i = 0; rows && i < ROWS; i++) {
		int32_t pid = __atomic_load_n(&rows[i].pid, __ATOMIC_ACQUIRE);

		if (pid && pid != (int32_t)getpid() && !has_ended(pid))
			held += __atomic_load_n(&rows[i].used[device], __ATOMIC_ACQUIRE);
	}
	return held;
}
