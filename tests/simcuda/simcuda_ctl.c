/* SPDX-License-Identifier: Apache-2.0 */
/* simcuda-ctl FILE [hang MASK | fault SPEC | clear | show]: what a shell test does to a device. */
#define _GNU_SOURCE
#include "simcuda_ctl.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct simcuda_ctl *ctl;

static void put(int32_t *word, int32_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static int number(const char *word, const char *key, int32_t *out)
{
	size_t n = strlen(key);

	if (strncmp(word, key, n))
		return 0;
	*out = (int32_t)strtol(word + n, NULL, 0);
	return 1;
}

/* The same language as SIMCUDA_FAULT: NAME:block|error=N|delay_ms=N[:after=N][:count=N] */
static int fault(char *spec)
{
	struct simcuda_fault f = { .mode = SIMCUDA_FAULT_NONE }, *slot = ctl->fault;
	char *word = strtok(spec, ":");
	int mode = SIMCUDA_FAULT_NONE;

	if (!word || strlen(word) >= sizeof(f.name))
		return 64;
	strcpy(f.name, word);
	while ((word = strtok(NULL, ":"))) {
		if (!strcmp(word, "block"))
			mode = SIMCUDA_FAULT_BLOCK;
		else if (number(word, "error=", &f.arg))
			mode = SIMCUDA_FAULT_ERROR;
		else if (number(word, "delay_ms=", &f.arg))
			mode = SIMCUDA_FAULT_DELAY;
		else if (!number(word, "after=", &f.after) && !number(word, "count=", &f.count))
			return 64;
	}
	while (slot < ctl->fault + SIMCUDA_FAULTS && slot->mode)
		slot++;
	if (mode == SIMCUDA_FAULT_NONE || slot == ctl->fault + SIMCUDA_FAULTS)
		return 64;
	*slot = f;
	put(&slot->mode, mode);
	put(&ctl->armed, 1);
	return 0;
}

static void show(void)
{
	printf("hang %d\ncontexts_created %d\nblocked %d\ncalls %d\narmed %d\n", ctl->hang,
	       ctl->contexts_created, ctl->blocked, ctl->calls, ctl->armed);
	printf("stream_queries %d\nspoiling %d\n", ctl->stream_queries, ctl->spoiling);
	for (int i = 0; i < SIMCUDA_FAULTS; i++)
		if (ctl->fault[i].mode)
			printf("fault %.44s mode %d arg %d after %d count %d seen %d\n",
			       ctl->fault[i].name, ctl->fault[i].mode, ctl->fault[i].arg,
			       ctl->fault[i].after, ctl->fault[i].count, ctl->fault[i].seen);
}

int main(int argc, char **argv)
{
	int fd = argc > 2 ? open(argv[1], O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;

	if (fd < 0 || ftruncate(fd, SIMCUDA_CTL_SIZE)) {
		fprintf(stderr, "usage: simcuda-ctl FILE hang MASK | fault SPEC | clear | show\n");
		return 64;
	}
	ctl = mmap(NULL, SIMCUDA_CTL_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (ctl == MAP_FAILED)
		return 70;
	ctl->version = SIMCUDA_CTL_VERSION;
	ctl->magic = SIMCUDA_CTL_MAGIC;
	if (!strcmp(argv[2], "hang") && argc == 4) {
		put(&ctl->hang, (int32_t)strtol(argv[3], NULL, 0));
	} else if (!strcmp(argv[2], "fault") && argc == 4) {
		return fault(argv[3]);
	} else if (!strcmp(argv[2], "clear")) {
		put(&ctl->armed, 0);
		for (int i = 0; i < SIMCUDA_FAULTS; i++)
			put(&ctl->fault[i].mode, SIMCUDA_FAULT_NONE);
	} else if (!strcmp(argv[2], "show")) {
		show();
	} else {
		return 64;
	}
	return 0;
}
