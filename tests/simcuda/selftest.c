/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does the simulated device keep its promises? Linked with the stand-ins and run by check.sh. The
 * lines marked SIM use what a real device does not have; the others say what we expect of both.
 */
#define _GNU_SOURCE
#include "simcuda_ctl.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int cudaGetDeviceCount(int *n), cudaGetDevice(int *d), cudaSetDevice(int d);
int cudaMalloc(void **p, size_t n), cudaFree(void *p), cudaMemGetInfo(size_t *f, size_t *t);
int cudaDeviceSynchronize(void), cudaEventCreate(void **e), cudaEventRecord(void *e, void *s);
int cudaEventQuery(void *e), cudaGetLastError(void), cudaStreamCreate(void **s);
int cudaLaunchHostFunc(void *s, void (*fn)(void *), void *arg), cudaStreamSynchronize(void *s);
int cudaStreamWaitEvent(void *s, void *e, unsigned flags), cudaStreamQuery(void *s);
int cudaStreamGetId(void *s, unsigned long long *id);
int cuInit(unsigned f), cuDevicePrimaryCtxGetState(int d, unsigned *f, int *active);
int cuMemGetAddressRange_v2(uint64_t *base, size_t *size, uint64_t p), cuCtxGetCurrent(void **c);
int cuMemAddressReserve(uint64_t *p, size_t n, size_t align, uint64_t at, unsigned long long f);
int cuMemCreate(void **h, size_t n, const void *prop, unsigned long long f), cuMemRelease(void *h);
int cuMemMap(uint64_t p, size_t n, size_t off, void *h, unsigned long long f);
int cuMemUnmap(uint64_t p, size_t n), cuMemAddressFree(uint64_t p, size_t n);
int cuStreamBeginCapture_v2(void *s, int mode), cuStreamEndCapture(void *s, void **g),
	cuEventQuery(void *e), cuCtxRecordEvent(void *c, void *e);
int cuThreadExchangeStreamCaptureMode(int *mode);
int cudaMallocHost(void **p, size_t n);
int cuStreamWaitValue32_v2(void *s, uint64_t at, unsigned value, unsigned flags);
int cuStreamWaitValue64_v2(void *s, uint64_t at, uint64_t value, unsigned flags);
int cuStreamWriteValue32_v2(void *s, uint64_t at, unsigned value, unsigned flags);
int cuStreamWriteValue64_v2(void *s, uint64_t at, uint64_t value, unsigned flags);
int cuStreamBatchMemOp_v2(void *s, unsigned n, const uint64_t (*ops)[6], unsigned flags);
int cuMemAllocAsync(uint64_t *p, size_t n, void *s), cuMemFreeAsync(uint64_t p, void *s);
int cuPointerGetAttribute(void *v, int attr, uint64_t p),
	cuMemPoolGetAttribute(void *, int, void *);
int cuDeviceGetGraphMemAttribute(int d, int attr, uint64_t *v), cuCtxGetLimit(size_t *v, int limit);
int cuCtxSetLimit(int limit, size_t v), cuArrayCreate_v2(void **a, const void *desc);
int cuArrayDestroy(void *a),
	cuModuleGetGlobal_v2(uint64_t *p, size_t *n, void *m, const char *name);
int cuGetProcAddress_v2(const char *name, void **fn, int version, uint64_t flags, int *status);

#define MIB (1ull << 20)

static int failed;

#define CHECK(cond)                                                      \
	do {                                                             \
		if (!(cond)) {                                           \
			printf("not ok line %d: %s\n", __LINE__, #cond); \
			failed = 1;                                      \
		}                                                        \
	} while (0)

static size_t free_now(void)
{
	size_t f = 0, t;

	CHECK(cudaMemGetInfo(&f, &t) == 0);
	return f;
}

static uint64_t num(void *p)
{
	return (uint64_t)(uintptr_t)p;
}

static void check_contexts(void)
{
	unsigned flags;
	int n = 0, active = -1;
	void *ctx = &n;

	CHECK(cuDevicePrimaryCtxGetState(0, &flags, &active) == 3); /* not initialised */
	CHECK(cuInit(0) == 0);
	CHECK(cudaGetDeviceCount(&n) == 0 && n == 2); /* SIM: the default */
	CHECK(cudaGetDevice(&n) == 0 && n == 0);
	CHECK(cuDevicePrimaryCtxGetState(0, &flags, &active) == 0 && active == 0);
	CHECK(cuCtxGetCurrent(&ctx) == 0 && ctx == NULL);
	CHECK(cuMemGetAddressRange_v2(NULL, NULL, 4096) == 201); /* no context */
	CHECK(simcuda_contexts_created == 0);                    /* SIM */
	free_now();
	CHECK(cuDevicePrimaryCtxGetState(0, &flags, &active) == 0 && active == 1);
	CHECK(cuDevicePrimaryCtxGetState(1, &flags, &active) == 0 && active == 0);
	CHECK(simcuda_contexts_created == 1); /* SIM */
}

static void check_memory(void)
{
	void *big[3] = { 0 }, *small[100], *too_big;
	size_t before = free_now(), size = 0;
	uint64_t base = 0;

	CHECK(cudaMalloc(&too_big, before + MIB) == 2);
	CHECK(cudaGetLastError() == 2 && cudaGetLastError() == 0);
	CHECK(free_now() == before);
	for (int i = 0; i < 3; i++)
		CHECK(cudaMalloc(&big[i], 5 * MIB) == 0);
	CHECK(before - free_now() == 18 * MIB); /* pages of 2 MiB */
	CHECK(cuMemGetAddressRange_v2(&base, &size, num(big[1]) + 4 * MIB) == 0);
	CHECK(base == num(big[1]) && size == 5 * MIB);
	for (int i = 0; i < 100; i++)
		CHECK(cudaMalloc(&small[i], 1000) == 0);
	CHECK(before - free_now() == 20 * MIB); /* they share one page */
	CHECK(cudaFree(num(small[0]) % 2 ? NULL : (char *)small[0] + 1) == 1);
	for (int i = 0; i < 100; i++)
		CHECK(cudaFree(small[i]) == 0);
	for (int i = 0; i < 3; i++)
		CHECK(cudaFree(big[i]) == 0);
	CHECK(cudaFree(big[0]) == 1);
	CHECK(free_now() == before);
}

static void check_vmm(void)
{
	int prop[8] = { 1, 0, 1, 0 }; /* pinned, no handle type, on device 0 */
	size_t before = free_now(), size = 0;
	uint64_t va = 0, base = 0;
	void *h[2];

	CHECK(cuMemAddressReserve(&va, 100 * MIB, 0, 0, 0) == 0);
	CHECK(free_now() == before);
	for (int i = 0; i < 2; i++)
		CHECK(cuMemCreate(&h[i], 20 * MIB, prop, 0) == 0);
	CHECK(before - free_now() == 40 * MIB);
	CHECK(cuMemMap(va + 20 * MIB, 20 * MIB, 0, h[0], 0) == 0);
	CHECK(cuMemMap(va + 30 * MIB, 20 * MIB, 0, h[1], 0) == 1); /* overlaps */
	CHECK(cuMemMap(va + 40 * MIB, 20 * MIB, 0, h[1], 0) == 0);
	CHECK(cuMemGetAddressRange_v2(&base, &size, va + 41 * MIB) == 0);
	CHECK(base == va + 40 * MIB && size == 20 * MIB);
	CHECK(cuMemGetAddressRange_v2(&base, &size, va) == 500); /* not mapped */
	for (int i = 0; i < 2; i++)
		CHECK(cuMemRelease(h[i]) == 0);
	CHECK(before - free_now() == 40 * MIB); /* the mappings keep it */
	CHECK(cuMemAddressFree(va, 100 * MIB) == 1);
	CHECK(cuMemUnmap(va + 20 * MIB, 40 * MIB) == 0);
	CHECK(free_now() == before);
	CHECK(cuMemAddressFree(va, 100 * MIB) == 0);
}

static uint64_t attribute(int attr, uint64_t p)
{
	uint64_t value = 0;

	return cuPointerGetAttribute(&value, attr, p) ? ~0ull : value;
}

/* What a real driver says of its kinds of memory (580.159.04). */
static void check_kinds(void)
{
	enum { CONTEXT = 1, IPC = 10, POOL = 17, SIZE, BASE, BLOCK };
	const struct {
		size_t width, height;
		unsigned format, channels;
	} floats = { 4096, 4096, 0x20, 1 };
	void *p[3] = { 0 }, *stream = NULL, *graph, *array;
	size_t before = free_now(), size = 0;
	uint64_t a = 0, base = 1, value = 0;

	CHECK(cudaMalloc(&p[0], 1000) == 0 && cudaMalloc(&p[1], 1000) == 0);
	CHECK(attribute(BLOCK, num(p[0])) == attribute(BLOCK, num(p[1])));
	CHECK(attribute(SIZE, num(p[1])) == 2 * MIB && attribute(BASE, num(p[1])) % (2 * MIB) == 0);
	CHECK(cudaMalloc(&p[2], 3 * MIB + 1) == 0 && attribute(SIZE, num(p[2])) == 4 * MIB);
	CHECK(attribute(IPC, num(p[2])) == 1 && attribute(POOL, num(p[2])) == 0);
	CHECK(attribute(CONTEXT, num(p[2])) != 0);
	for (int i = 0; i < 3; i++)
		CHECK(cudaFree(p[i]) == 0);
	CHECK(attribute(IPC, num(p[2])) == ~0ull);

	CHECK(cuMemAllocAsync(&a, 48 * MIB, NULL) == 0 && before - free_now() == 64 * MIB);
	CHECK(attribute(IPC, a) == 0 && attribute(CONTEXT, a) == 0);
	CHECK(cuMemPoolGetAttribute((void *)(uintptr_t)attribute(POOL, a), 5, &value) == 0);
	CHECK(value == 64 * MIB);
	CHECK(cuMemFreeAsync(a, NULL) == 0 && free_now() == before);

	CHECK(cudaStreamCreate(&stream) == 0 && cuStreamBeginCapture_v2(stream, 2) == 0);
	CHECK(cuMemAllocAsync(&a, 48 * MIB, stream) == 0);
	CHECK(cuStreamEndCapture(stream, &graph) == 0);
	CHECK(attribute(POOL, a) == 0 && attribute(CONTEXT, a) == 0 && attribute(IPC, a) == 0);
	CHECK(cuDeviceGetGraphMemAttribute(0, 2, &value) == 0 && value == 64 * MIB);
	before = free_now();

	CHECK(cuArrayCreate_v2(&array, &floats) == 0 && before - free_now() == 64 * MIB);
	CHECK(cuMemGetAddressRange_v2(&base, &size, num(array)) == 0);
	CHECK(base == 0 && size == 64 * MIB && cuArrayDestroy(array) == 0);

	CHECK(cuModuleGetGlobal_v2(&a, &size, NULL, "weights_4096") == 0 && size == 4096);
	CHECK(attribute(IPC, a) == 0 && attribute(CONTEXT, a) != 0 && attribute(POOL, a) == 0);
	before = free_now();
	CHECK(cuCtxGetLimit(&size, 0) == 0 && cuCtxSetLimit(0, size + 1024) == 0);
	CHECK(before - free_now() == 1024ull * 132 * 2048);
	CHECK(cuCtxSetLimit(0, size) == 0 && free_now() == before);
}

static void wait_at(void *mutex)
{
	pthread_mutex_lock(mutex);
	pthread_mutex_unlock(mutex);
}

static void check_streams(void)
{
	pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
	void *s1 = NULL, *s2 = NULL, *e = NULL;
	unsigned long long id[4] = { 0 };

	CHECK(cudaStreamCreate(&s1) == 0 && cudaStreamCreate(&s2) == 0);
	CHECK(cudaStreamGetId(s1, &id[0]) == 0 && cudaStreamGetId(s2, &id[1]) == 0);
	CHECK(cudaStreamGetId(NULL, &id[2]) == 0 && cudaStreamGetId((void *)1, &id[3]) == 0);
	CHECK(id[0] != id[1] && id[0] != id[2] && id[1] != id[2] && id[2] == id[3]);
	CHECK(cudaEventCreate(&e) == 0);
	pthread_mutex_lock(&gate);
	CHECK(cudaLaunchHostFunc(s1, wait_at, &gate) == 0);
	CHECK(cudaEventRecord(e, s1) == 0 && cudaEventQuery(e) == 600);
	CHECK(cudaStreamQuery(s2) == 0);
	CHECK(cudaStreamWaitEvent(s2, e, 0) == 0 && cudaStreamQuery(s2) == 600);
	pthread_mutex_unlock(&gate);
	CHECK(cudaStreamSynchronize(s2) == 0);
	CHECK(cudaEventQuery(e) == 0);
}

/* API: the four comparisons, and the order of a batch */
static void check_values(void)
{
	void *s1 = NULL, *s2 = NULL, *device = NULL;
	volatile uint32_t *host = NULL;
	uint64_t batch[3][6] = { { 1 }, { 2 }, { 6 } };

	CHECK(cudaStreamCreate(&s1) == 0 && cudaStreamCreate(&s2) == 0);
	CHECK(cudaMallocHost((void **)&host, 4096) == 0 && cudaMalloc(&device, 4096) == 0);
	host[0] = 5;
	CHECK(cuStreamWaitValue32_v2(s1, (uint64_t)&host[0], 0x7fffffff, 0) == 0); /* GEQ */
	CHECK(cuStreamWaitValue32_v2(s2, (uint64_t)&host[0], 0xfffffff0, 0) == 0); /* cyclic */
	CHECK(cudaStreamSynchronize(s2) == 0 && cudaStreamQuery(s1) == 600);
	host[0] = 0x80000000;
	CHECK(cudaStreamSynchronize(s1) == 0);
	CHECK(cuStreamWaitValue32_v2(s1, (uint64_t)&host[0], 3, 1) == 0);          /* EQ */
	CHECK(cuStreamWaitValue32_v2(s1, (uint64_t)&host[1], 6, 2) == 0);          /* AND */
	CHECK(cuStreamWaitValue32_v2(s1, (uint64_t)&host[2], 0xfffffffe, 3) == 0); /* NOR */
	host[1] = 1;
	host[2] = 1;
	CHECK(cuStreamWriteValue32_v2(s2, (uint64_t)&host[0], 3, 0) == 0);
	CHECK(cudaStreamSynchronize(s2) == 0 && host[0] == 3 && cudaStreamQuery(s1) == 600);
	host[1] = 4;
	usleep(20000);
	CHECK(cudaStreamQuery(s1) == 600);
	host[2] = 0;
	CHECK(cudaStreamSynchronize(s1) == 0);
	batch[0][1] = (uint64_t)device;
	batch[0][2] = 7;
	batch[1][1] = (uint64_t)&host[3];
	batch[1][2] = 9;
	CHECK(cuStreamBatchMemOp_v2(s1, 3, batch, 0) == 0 && cudaStreamQuery(s1) == 600);
	CHECK(host[3] == 0);
	CHECK(cuStreamWriteValue64_v2(s2, (uint64_t)device, 7, 0) == 0);
	CHECK(cudaStreamSynchronize(s1) == 0 && host[3] == 9);
	CHECK(cuStreamWaitValue64_v2(s1, 0x7000, 7, 0) == 1);
}

static void *query_elsewhere(void *event)
{
	return (void *)(intptr_t)cuEventQuery(event);
}

static void *query_relaxed(void *event)
{
	int mode = 2;

	CHECK(cuThreadExchangeStreamCaptureMode(&mode) == 0 && mode == 0);
	return query_elsewhere(event);
}

static int query_on_a_thread(void *(*query)(void *), void *event)
{
	pthread_t thread;
	void *result;

	CHECK(pthread_create(&thread, NULL, query, event) == 0 &&
	      pthread_join(thread, &result) == 0);
	return (int)(intptr_t)result;
}

/* The same as on a real driver (580.159.04). */
static void check_capture(void)
{
	void *stream = NULL, *event = NULL, *context = NULL, *graph;
	const struct {
		int mode; /* of the capture: global, of its thread, relaxed */
		void *(*query)(void *);
		int answer, end;
	} cases[] = {
		{ 0, query_elsewhere, 900, 901 },
		{ 0, query_relaxed, 0, 0 },
		{ 1, query_elsewhere, 0, 0 },
		{ 2, query_elsewhere, 0, 0 },
	};

	CHECK(cudaStreamCreate(&stream) == 0 && cudaEventCreate(&event) == 0 &&
	      cudaEventRecord(event, NULL) == 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		CHECK(cuStreamBeginCapture_v2(stream, cases[i].mode) == 0);
		CHECK(query_on_a_thread(cases[i].query, event) == cases[i].answer);
		CHECK(cuStreamEndCapture(stream, &graph) == cases[i].end &&
		      !graph == !!cases[i].end);
	}
	CHECK(cuStreamBeginCapture_v2(stream, 1) == 0 && cuEventQuery(event) == 900);
	CHECK(cuStreamEndCapture(stream, &graph) == 901);
	/* An event of the whole context ends every capture in it, also relaxed ones. */
	CHECK(cuCtxGetCurrent(&context) == 0 && cuCtxRecordEvent(context, event) == 0);
	CHECK(cuStreamBeginCapture_v2(stream, 2) == 0 && cuCtxRecordEvent(context, event) == 900);
	CHECK(cuStreamEndCapture(stream, &graph) == 901);
}

struct stuck {
	int (*fn)(void);
	int done;
};

static void *victim;

static int free_victim(void)
{
	return cudaFree(victim);
}

static void *run_stuck(void *arg)
{
	struct stuck *s = arg;

	CHECK(s->fn() == 0);
	__atomic_store_n(&s->done, 1, __ATOMIC_RELEASE);
	return NULL;
}

static double cpu_seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* SIM: what was measured on a real hung device */
static void check_hang(void)
{
	struct stuck s[2] = { { cudaDeviceSynchronize, 0 }, { free_victim, 0 } };
	void *before = NULL, *after = NULL, *p = NULL, *context = NULL, *whole = NULL;
	pthread_t t[2];
	double cpu;

	CHECK(cudaMalloc(&victim, 4 * MIB) == 0);
	CHECK(cudaEventCreate(&before) == 0 && cudaEventCreate(&after) == 0);
	CHECK(cudaEventRecord(before, NULL) == 0);
	simcuda_set_hang(1);
	CHECK(cudaEventRecord(after, NULL) == 0);
	for (int i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, run_stuck, &s[i]);
	while (simcuda_blocked() < 2)
		usleep(1000);
	cpu = cpu_seconds();
	usleep(200000);
	CHECK(cpu_seconds() - cpu < 0.05); /* they sleep */
	CHECK(!s[0].done && !s[1].done);
	CHECK(cudaEventQuery(before) == 0 && cudaEventQuery(after) == 600);
	CHECK(cuCtxGetCurrent(&context) == 0 && cudaEventCreate(&whole) == 0);
	CHECK(cuCtxRecordEvent(context, whole) == 0 && cudaEventQuery(whole) == 600);
	CHECK(free_now() > 0);
	CHECK(cudaMalloc(&p, MIB) == 0);
	simcuda_set_hang(0);
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	CHECK(cudaEventQuery(after) == 0 && cudaEventQuery(whole) == 0);
	CHECK(cudaFree(p) == 0);
}

/* SIM */
static void check_faults(void)
{
	void *p = NULL, *fn;
	int status = -1;

	CHECK(simcuda_set_fault("cudaMalloc:error=2:after=1:count=1") == 0);
	CHECK(simcuda_set_fault("cudaMalloc") == -1);
	CHECK(cudaMalloc(&p, MIB) == 0 && cudaFree(p) == 0);
	CHECK(cudaMalloc(&p, MIB) == 2);
	CHECK(cudaMalloc(&p, MIB) == 0 && cudaFree(p) == 0);
	simcuda_clear_faults();
	CHECK(cuGetProcAddress_v2("cuMemGetInfo", &fn, 12000, 0, &status) == 0 && fn && !status);
	CHECK(cuGetProcAddress_v2("cuNoSuch", &fn, 12000, 0, &status) == 500 && !fn && status);
}

int main(void)
{
	check_contexts();
	check_memory();
	check_vmm();
	check_kinds();
	check_streams();
	check_values();
	check_capture();
	check_hang();
	check_faults();
	printf(failed ? "FAILED\n" : "ok\n");
	return failed;
}
