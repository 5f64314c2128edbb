/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A CUDA program without PyTorch: does what the lines on its standard input say, and answers each
 * with a line. Linked with libcudart and libcuda, simulated or real.
 *
 *	malloc|managed|host|async|driver SIZE	-> address
 *	free|freehost|freeasync|driverfree ADDRESS	-> result
 *	map SIZE		-> address: reserved, created, mapped, the handle released
 *	unmap ADDRESS SIZE	-> result
 *	device N, reset, fork	-> result
 *	subscribe, unsubscribe	-> result: to CUPTI, as a profiler does
 *	race THREADS ROUNDS	-> the addresses that are allocated afterwards, in one line
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int cudaMalloc(void **p, size_t n), cudaFree(void *p),
	cudaMallocManaged(void **p, size_t n, unsigned flags);
int cudaMallocHost(void **p, size_t n), cudaFreeHost(void *p), cudaSetDevice(int d),
	cudaDeviceReset(void);
int cudaMallocAsync(void **p, size_t n, void *s), cudaFreeAsync(void *p, void *s);
int cuMemAlloc_v2(uint64_t *p, size_t n), cuMemFree_v2(uint64_t p);
int cuMemAddressReserve(uint64_t *p, size_t n, size_t align, uint64_t at, unsigned long long f);
int cuMemCreate(uint64_t *h, size_t n, const void *prop, unsigned long long f),
	cuMemRelease(uint64_t h);
int cuMemMap(uint64_t p, size_t n, size_t off, uint64_t h, unsigned long long f),
	cuMemUnmap(uint64_t p, size_t n);

static int device;

static void answer(int err, uint64_t addr)
{
	if (err)
		printf("error %d\n", err);
	else
		printf("%#lx\n", (unsigned long)addr);
}

static int map(size_t size, uint64_t *addr)
{
	/* pinned, no handle types, the location: a device, its number */
	int prop[8] = { 1, 0, 1, device };
	uint64_t handle;
	int err = cuMemAddressReserve(addr, size, 0, 0, 0);

	if (!err)
		err = cuMemCreate(&handle, size, prop, 0);
	if (!err)
		err = cuMemMap(*addr, size, 0, handle, 0);
	return err ? err : cuMemRelease(handle);
}

__attribute__((noinline)) static void allocate(const char *what, size_t size)
{
	uint64_t addr = 0;
	void *p = NULL;
	int err = -1;

	if (!strcmp(what, "malloc"))
		err = cudaMalloc(&p, size);
	else if (!strcmp(what, "managed"))
		err = cudaMallocManaged(&p, size, 1);
	else if (!strcmp(what, "host"))
		err = cudaMallocHost(&p, size);
	else if (!strcmp(what, "async"))
		err = cudaMallocAsync(&p, size, (void *)1);
	else if (!strcmp(what, "driver"))
		err = cuMemAlloc_v2(&addr, size);
	else if (!strcmp(what, "map"))
		err = map(size, &addr);
	answer(err, p ? (uint64_t)p : addr);
}

static int release(const char *what, uint64_t addr, size_t size)
{
	if (!strcmp(what, "free"))
		return cudaFree((void *)addr);
	if (!strcmp(what, "freehost"))
		return cudaFreeHost((void *)addr);
	if (!strcmp(what, "freeasync"))
		return cudaFreeAsync((void *)addr, (void *)1);
	if (!strcmp(what, "driverfree"))
		return cuMemFree_v2(addr);
	return cuMemUnmap(addr, size);
}

/* ---- many threads, which free what others have allocated ---- */

#define SHARED 64

static void *shared[SHARED]; /* exchanged atomically */
static int rounds;

static void *race(void *arg)
{
	unsigned int random = (unsigned int)(uintptr_t)arg * 2654435761u + 1;

	for (int i = 0; i < rounds; i++) {
		void *mine = NULL;

		random = random * 1664525u + 1013904223u;
		if (random >> 31 && cudaMalloc(&mine, 1u << (9 + (random >> 20 & 7))))
			abort();
		mine = __atomic_exchange_n(&shared[random >> 8 & (SHARED - 1)], mine,
					   __ATOMIC_ACQ_REL);
		if (mine && cudaFree(mine))
			abort();
	}
	return NULL;
}

static void race_all(int n, int times)
{
	pthread_t threads[64];

	rounds = times;
	for (long i = 0; i < n && i < 64; i++)
		pthread_create(&threads[i], NULL, race, (void *)i);
	for (long i = 0; i < n && i < 64; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < SHARED; i++)
		if (shared[i])
			printf("%p ", shared[i]);
	printf("\n");
	memset(shared, 0, sizeof(shared));
}

/* ---- another tool ---- */

static void ignore(void *user, int domain, uint32_t cbid, const void *data)
{
	(void)user, (void)domain, (void)cbid, (void)data;
}

static int subscribe(int wanted)
{
	static void *cupti, *subscriber;
	int (*enter)(void **handle, void *callback, void *user);
	int (*leave)(void *handle);

	if (!cupti)
		cupti = dlopen("libcupti.so.13", RTLD_NOW);
	if (!cupti)
		return -1;
	enter = (int (*)(void **, void *, void *))dlsym(cupti, "cuptiSubscribe");
	leave = (int (*)(void *))dlsym(cupti, "cuptiUnsubscribe");
	return wanted ? enter(&subscriber, (void *)ignore, NULL) : leave(subscriber);
}

/* In a child: the driver cannot be used there; the recorder must not mind. */
static int in_child(void)
{
	int status;
	pid_t child = fork();

	if (!child) {
		void *p;

		_exit(cudaMalloc(&p, 1 << 20) == 0);
	}
	return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int main(int argc, char **argv)
{
	char line[256], what[32];

	setvbuf(stdout, NULL, _IOLBF, 0);
	/* With an argument: the driver is initialised before the first line is read. */
	if (argc > 1 && !strcmp(argv[1], "init"))
		cudaFree(NULL);
	printf("ready %d\n", (int)getpid());
	while (fgets(line, sizeof(line), stdin)) {
		unsigned long a = 0, b = 0;

		if (sscanf(line, "%31s %li %li", what, &a, &b) < 1)
			continue;
		if (!strcmp(what, "quit"))
			return (int)a;
		if (!strcmp(what, "device"))
			printf("%d\n", cudaSetDevice(device = (int)a));
		else if (!strcmp(what, "reset"))
			printf("%d\n", cudaDeviceReset());
		else if (!strcmp(what, "subscribe") || !strcmp(what, "unsubscribe"))
			printf("%d\n", subscribe(what[0] == 's'));
		else if (!strcmp(what, "race"))
			race_all((int)a, (int)b);
		else if (!strcmp(what, "fork"))
			printf("%d\n", in_child());
		else if (!strncmp(what, "free", 4) || !strcmp(what, "driverfree") ||
			 !strcmp(what, "unmap"))
			printf("%d\n", release(what, a, b));
		else
			allocate(what, a);
	}
	return 0;
}
