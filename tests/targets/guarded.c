/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guarded STATS_FILE [GUARD]: a program that has memory of a device, notices when it is harmed, and
 * is guarded from tracers:
 *
 *	tracer-PID	Yama's exception for that process alone (0: for none)
 *	undumpable	no core file, and no tracer without CAP_SYS_PTRACE
 *
 * Else any process may trace it as far as Yama is asked (spy.c).
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "spy.h"

static const char *guard = "";
static int pipe_fds[2];

static void take_guard(struct spy *spy)
{
	(void)spy;
	if (!strncmp(guard, "tracer-", 7))
		prctl(PR_SET_PTRACER, strtoul(guard + 7, NULL, 10));
	if (!strcmp(guard, "undumpable"))
		prctl(PR_SET_DUMPABLE, 0);
}

static void do_sleep(struct spy *spy)
{
	struct timespec ts = { 0, 20000000 };
	double start = spy_now_ms();

	spy_check(spy, "clock_nanosleep", clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL), 0);
	if (spy_now_ms() - start < 19.95)
		spy_wrong(spy, "a sleep ended too early");
}

static void do_feed(struct spy *spy)
{
	uint64_t value = spy->seq++;

	spy_check(spy, "write", write(pipe_fds[1], &value, sizeof(value)), sizeof(value));
	usleep(15000);
}

static void do_read(struct spy *spy)
{
	uint64_t value = 0;

	spy_check(spy, "read", read(pipe_fds[0], &value, sizeof(value)), sizeof(value));
	spy_check(spy, "what is read", (long)value, (long)spy->seq++);
}

#define AUDIT_WORDS (1 << 16)

static void do_audit(struct spy *spy)
{
	static uint64_t *memory;

	if (!memory) {
		memory = mmap(NULL, AUDIT_WORDS * sizeof(*memory), PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		for (uint64_t i = 0; i < AUDIT_WORDS; i++)
			memory[i] = i * 0x9e3779b97f4a7c15u;
	}
	for (uint64_t i = 0; i < AUDIT_WORDS; i++)
		if (memory[i] != i * 0x9e3779b97f4a7c15u)
			spy_wrong(spy, "word %llu of memory changed", (unsigned long long)i);
	usleep(50000);
}

static const struct spy_kind kinds[] = {
	{ "sleep", do_sleep, take_guard },
	{ "feed", do_feed },
	{ "read", do_read },
	{ "audit", do_audit },
};

/* The driver is the one that is there; what it gives is never used. */
static bool allocate(void)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL), *context = NULL;
	uint64_t address = 0;

	if (!lib)
		return false;

	int (*init)(unsigned int flags) = (int (*)(unsigned int))dlsym(lib, "cuInit");
	int (*retain)(void **context, int device) =
		(int (*)(void **, int))dlsym(lib, "cuDevicePrimaryCtxRetain");
	int (*set)(void *context) = (int (*)(void *))dlsym(lib, "cuCtxSetCurrent");
	int (*malloc_device)(uint64_t * address, size_t size) =
		(int (*)(uint64_t *, size_t))dlsym(lib, "cuMemAlloc_v2");

	return init && retain && set && malloc_device && !init(0) && !retain(&context, 0) &&
	       !set(context) && !malloc_device(&address, 64 << 20);
}

int main(int argc, char **argv)
{
	if (argc < 2 || pipe2(pipe_fds, 0))
		return 64;
	guard = argc > 2 ? argv[2] : guard;
	if (!allocate()) {
		fprintf(stderr, "no driver: %s\n", dlerror());
		return 1;
	}
	return spy_main(argv[1], kinds, sizeof(kinds) / sizeof(kinds[0]));
}
