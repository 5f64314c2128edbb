/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that launches as its standard input says, and answers each line with one. Linked with
 * libcudart and libcuda, simulated or real.
 *
 *	stream			-> handle of a new stream
 *	runtime STREAM N	-> result: N launches of launched_by_runtime() by the runtime
 *	driver STREAM N NAME	-> result: N launches of that function by a pointer to the driver's
 *	ex STREAM N NAME	-> the same with cuLaunchKernelEx
 *	kernel STREAM N NAME	-> the same, by the handle of a CUkernel
 *	fail STREAM		-> result of a launch that fails
 *	host STREAM, graph STREAM, event STREAM, await STREAM	-> result
 *	pinned BYTES, memory BYTES, plain BYTES, shared BYTES	-> address of new memory
 *	poke ADDRESS VALUE	-> 0: the host writes 32 bits
 *	wait STREAM ADDRESS VALUE FLAGS BITS	-> result
 *	write STREAM ADDRESS VALUE 0 BITS	-> result
 *	batch STREAM ADDRESS VALUE ADDRESS2 VALUE2	-> result: a wait, a write
 *	sync STREAM, query STREAM, device	-> result of the wait
 *	begin STREAM, end STREAM	-> result: a capture
 *	unload			-> result
 *	hang N			-> 0: the devices in the mask N make no progress from now on
 *	race THREADS ROUNDS	-> number of launches on each of two streams
 *	dlopen PATH, dlclose, library STREAM N	-> result: launches by a library's pointer
 *	speed N STREAM		-> ns a launch by the runtime
 *	spin PATH		-> 0: once that file is there; until then it computes
 *	fork			-> result of a launch in a child
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct dim3 {
	unsigned x, y, z;
};

int cudaLaunchKernel(const void *f, struct dim3 grid, struct dim3 block, void **args, size_t shared,
		     void *stream);
int cudaFree(void *p), cudaStreamCreate(void **stream), cudaStreamSynchronize(void *stream),
	cudaStreamQuery(void *stream), cudaDeviceSynchronize(void), cudaSetDevice(int device);
int cudaStreamBeginCapture(void *stream, int mode),
	cudaStreamEndCapture(void *stream, void **graph);
int cudaGraphInstantiate(void **exec, void *graph, unsigned long long flags),
	cudaGraphLaunch(void *exec, void *stream);
int cudaEventCreate(void **event), cudaEventRecord(void *event, void *stream),
	cudaStreamWaitEvent(void *stream, void *event, unsigned flags);
int cudaLaunchHostFunc(void *stream, void (*fn)(void *), void *arg);

int cuModuleLoadData(void **module, const void *image), cuModuleUnload(void *module),
	cuModuleGetFunction(void **function, void *module, const char *name);
int cuStreamWaitValue32_v2(void *stream, uint64_t addr, unsigned value, unsigned flags),
	cuStreamWriteValue32_v2(void *stream, uint64_t addr, unsigned value, unsigned flags),
	cuStreamWaitValue64_v2(void *stream, uint64_t addr, uint64_t value, unsigned flags),
	cuStreamWriteValue64_v2(void *stream, uint64_t addr, uint64_t value, unsigned flags),
	cuStreamBatchMemOp_v2(void *stream, unsigned n, uint64_t (*ops)[6], unsigned flags);
int cudaMallocHost(void **p, size_t n), cudaMalloc(void **p, size_t n);

typedef int launch_fn(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
		      unsigned bz, unsigned shared, void *stream, void **params, void **extra);
struct config {
	unsigned grid[3], block[3], shared;
	void *stream, *attrs;
	unsigned n_attrs;
};

/* As cuBLAS and others keep them: in their data, from dlsym(). */
static launch_fn *launch;
static int (*launch_ex)(const struct config *config, void *f, void **params, void **extra);

/* What nvcc makes of a __global__ function. */
__attribute__((noinline)) void launched_by_runtime(void)
{
	__asm__ volatile("");
}

static int by_runtime(void *stream)
{
	return cudaLaunchKernel((const void *)launched_by_runtime, (struct dim3){ 11, 12, 13 },
				(struct dim3){ 14, 15, 16 }, NULL, 17, stream);
}

static void *function_named(const char *name, int is_kernel)
{
	static char names[16][64];
	static void *functions[16], *module;
	static int n;
	int i = 0;

	if (!name) {
		n = 0;
		return module;
	}
	while (i < n && strcmp(names[i], name) != 0)
		i++;
	if (i < n)
		return functions[i];
	if (!module)
		cuModuleLoadData(&module, "");
	snprintf(names[n], sizeof(names[n]), "%s", name);
	cuModuleGetFunction(&functions[n], module, name);
	if (is_kernel)
		*(uint32_t *)functions[n] = ~*(uint32_t *)functions[n];
	return functions[n++];
}

static int by_driver(const char *how, void *stream, const char *name)
{
	void *f = function_named(name, !strcmp(how, "kernel"));
	struct config config = { { 21, 22, 23 }, { 24, 25, 26 }, 27, stream, NULL, 0 };

	return !strcmp(how, "ex") ? launch_ex(&config, f, NULL, NULL) :
				    launch(f, 31, 32, 33, 34, 35, 36, 37, stream, NULL, NULL);
}

static void at_host(void *arg)
{
	(void)arg;
}

static void *graph_exec;

static int end_capture(void *stream)
{
	void *graph;
	int err = cudaStreamEndCapture(stream, &graph);

	return err ? err : cudaGraphInstantiate(&graph_exec, graph, 0);
}

/* ---- threads ---- */

static int rounds;
static void *two[2];

static void *race(void *arg)
{
	for (int i = 0; i < rounds; i++) {
		if ((i & 3) == 3 ? by_driver("driver", two[i >> 2 & 1], "raced") :
				   by_runtime(two[i >> 2 & 1]))
			abort();
		if (!(i & 63) && cudaStreamSynchronize(two[i >> 6 & 1]))
			abort();
		if (!((i + (int)(intptr_t)arg) & 255) && cudaDeviceSynchronize())
			abort();
	}
	return NULL;
}

static void race_all(int n, int times)
{
	pthread_t threads[64];

	for (int i = 0; i < 2; i++)
		if (!two[i])
			cudaStreamCreate(&two[i]);
	function_named("raced", 0);
	rounds = times;
	for (long i = 0; i < n && i < 64; i++)
		pthread_create(&threads[i], NULL, race, (void *)i);
	for (long i = 0; i < n && i < 64; i++)
		pthread_join(threads[i], NULL);
	printf("%p %p\n", two[0], two[1]);
}

static double speed(long n, void *stream)
{
	struct timespec a, b;

	clock_gettime(CLOCK_MONOTONIC, &a);
	for (long i = 0; i < n; i++)
		by_runtime(stream);
	clock_gettime(CLOCK_MONOTONIC, &b);
	return ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / (double)n;
}

static int in_child(void)
{
	int status;
	pid_t child = fork();

	if (!child)
		_exit(by_runtime(NULL) == 0);
	return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* ---- */

static void *library;

static int by_library(void *stream, long n)
{
	int (*fn)(void *f, void *stream) =
		(int (*)(void *, void *))dlsym(library, "launch_of_library");
	int err = 0;

	for (long i = 0; i < n; i++)
		err |= fn(function_named("of_library", 0), stream);
	return err;
}

static void *event_made(void)
{
	static void *event;

	if (!event)
		cudaEventCreate(&event);
	return event;
}

static int one(const char *what, void *stream, const char *name)
{
	void *const invalid = (void *)&graph_exec;

	if (!strcmp(what, "runtime"))
		return by_runtime(stream);
	if (!strcmp(what, "fail"))
		return cudaLaunchKernel((const void *)launched_by_runtime, (struct dim3){ 1, 1, 1 },
					(struct dim3){ 1, 1, 1 }, NULL, 0, invalid);
	if (!strcmp(what, "host"))
		return cudaLaunchHostFunc(stream, at_host, NULL);
	if (!strcmp(what, "graph"))
		return cudaGraphLaunch(graph_exec, stream);
	if (!strcmp(what, "event"))
		return cudaEventRecord(event_made(), stream);
	if (!strcmp(what, "await"))
		return cudaStreamWaitEvent(stream, event_made(), 0);
	if (!strcmp(what, "sync"))
		return cudaStreamSynchronize(stream);
	if (!strcmp(what, "query"))
		return cudaStreamQuery(stream);
	if (!strcmp(what, "device"))
		return cudaDeviceSynchronize();
	if (!strcmp(what, "begin"))
		return cudaStreamBeginCapture(stream, 1);
	if (!strcmp(what, "end"))
		return end_capture(stream);
	return by_driver(what, stream, name);
}

/* ---- values in memory ---- */

/* Of a file, so that another process may have it, too. */
static void *shared_memory(size_t bytes)
{
	FILE *file = tmpfile();

	if (!file || ftruncate(fileno(file), (off_t)bytes))
		abort();
	return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
}

static void *new_memory(const char *what, size_t bytes)
{
	void *p = NULL;

	if (!strcmp(what, "pinned"))
		cudaMallocHost(&p, bytes);
	else if (!strcmp(what, "memory"))
		cudaMalloc(&p, bytes);
	else if (!strcmp(what, "shared"))
		p = shared_memory(bytes);
	else
		p = calloc(1, bytes);
	return p;
}

static int batch(void *stream, const uint64_t args[4])
{
	uint64_t ops[3][6] = { { 1, args[0], args[1] }, { 6 }, { 2, args[2], args[3] } };

	return cuStreamBatchMemOp_v2(stream, 3, ops, 0);
}

static int value(const char *what, void *stream, const uint64_t args[4])
{
	bool wide = args[3] == 64;

	if (!strcmp(what, "batch"))
		return batch(stream, args);
	if (!strcmp(what, "wait"))
		return wide ? cuStreamWaitValue64_v2(stream, args[0], args[1], (unsigned)args[2]) :
			      cuStreamWaitValue32_v2(stream, args[0], (unsigned)args[1],
						     (unsigned)args[2]);
	return wide ? cuStreamWriteValue64_v2(stream, args[0], args[1], 0) :
		      cuStreamWriteValue32_v2(stream, args[0], (unsigned)args[1], 0);
}

static bool is_one_of(const char *what, const char *const *words)
{
	while (*words && strcmp(what, *words) != 0)
		words++;
	return *words;
}

/* ---- */

static int hang(int mask)
{
	void (*set)(int) = (void (*)(int))dlsym(RTLD_DEFAULT, "simcuda_set_hang");

	set(mask);
	return 0;
}

/* The file is looked for seldom, as no thread is to be met in a system call. */
static int spin(const char *path)
{
	volatile unsigned long n = 0;

	do
		for (n = 0; n < 100000000; n++)
			;
	while (access(path, F_OK));
	return 0;
}

int main(void)
{
	static const char *const values[] = { "wait", "write", "batch", NULL };
	static const char *const memories[] = { "pinned", "memory", "plain", "shared", NULL };
	char line[512], what[32], name[256];
	uint64_t args[4] = { 0 };

	setvbuf(stdout, NULL, _IOLBF, 0);
	cudaFree(NULL);
	launch = (launch_fn *)dlsym(RTLD_DEFAULT, "cuLaunchKernel");
	*(void **)&launch_ex = dlsym(RTLD_DEFAULT, "cuLaunchKernelEx");
	printf("ready %d\n", (int)getpid());
	while (fgets(line, sizeof(line), stdin)) {
		unsigned long a = 0, n = 1;
		void *stream = NULL;
		int err = 0;

		*name = '\0';
		if (sscanf(line, "%31s %li %li %255s", what, &a, &n, name) < 1)
			continue;
		stream = (void *)a;
		if (!strcmp(what, "stream")) {
			cudaStreamCreate(&stream);
			printf("%p\n", stream);
			continue;
		} else if (is_one_of(what, memories)) {
			printf("%p\n", new_memory(what, a));
			continue;
		} else if (!strcmp(what, "race")) {
			race_all((int)a, (int)n);
			continue;
		} else if (!strcmp(what, "speed")) {
			printf("%.1f\n", speed((long)a, (void *)(n > 1 ? n : 0)));
			continue;
		}
		if (!strcmp(what, "dlopen") && sscanf(line, "%*s %255s", name) == 1)
			err = !(library = dlopen(name, RTLD_NOW));
		else if (!strcmp(what, "dlclose"))
			err = dlclose(library);
		else if (!strcmp(what, "library"))
			err = by_library(stream, (long)n);
		else if (!strcmp(what, "hang"))
			err = hang((int)a);
		else if (!strcmp(what, "unload"))
			err = cuModuleUnload(function_named(NULL, 0));
		else if (!strcmp(what, "spin") && sscanf(line, "%*s %255s", name) == 1)
			err = spin(name);
		else if (!strcmp(what, "fork"))
			err = in_child();
		else if (!strcmp(what, "poke"))
			__atomic_store_n((uint32_t *)stream, (uint32_t)n, __ATOMIC_SEQ_CST);
		else if (is_one_of(what, values) &&
			 sscanf(line, "%*s %*s %li %li %li %li", &args[0], &args[1], &args[2],
				&args[3]) >= 2)
			err = value(what, stream, args);
		else if (!strcmp(what, "setdevice"))
			err = cudaSetDevice((int)a);
		else
			for (unsigned long i = 0; i < n; i++)
				err |= one(what, stream, name);
		printf("%d\n", err);
	}
	return 0;
}
