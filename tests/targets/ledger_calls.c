/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that allocates memory of a device in every way that the driver has, without the
 * runtime: links with nothing, and uses the libcuda.so.1 that is there, simulated or real. Does
 * what the lines on its standard input say, and answers each with a line: an address, or the
 * driver's result (0: success).
 *
 *	malloc|managed|host|async|pool|graph|map|share|array SIZE	-> address (array: handle)
 *	many COUNT SIZE		-> the last address
 *	alias SIZE		-> a second address of memory whose first one is not told
 *	free|freeasync ADDRESS	-> result
 *	unmap ADDRESS SIZE	-> result: mapped memory is given back
 *	waste ADDRESS		-> 0: another thread frees it, which can take for ever
 *	capture, captured	-> result: a capture of a stream begins, is ended
 *	hang, go		-> result: a kernel spins until "go", and a thread waits for it
 *	stream, event		-> 0: a thread waits for the kernel's stream, or an event in it
 *	fault			-> 700: a kernel reads an illegal address (on a real device only)
 *	stack SIZE		-> result: of each thread of a kernel
 *	contexts		-> how many devices have an active context
 *	pools			-> what the default pool has reserved
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *lib;
static void *stream, *capture_stream, *spin_stream, *context, *own_pool;
static volatile uint32_t *flag; /* the kernel spins while it is 0 */

/* Whatever the function's type: all arguments are integers or pointers. */
static long call(const char *name, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e)
{
	int (*fn)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t) =
		(int (*)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t))dlsym(lib, name);

	return fn ? fn(a, b, c, d, e) : -1;
}

#define CALL5(name, a, b, c, d, e) \
	call(name, (uint64_t)(a), (uint64_t)(b), (uint64_t)(c), (uint64_t)(d), (uint64_t)(e))
#define CALL3(name, a, b, c) CALL5(name, a, b, c, 0, 0)

static long map(size_t size, int exportable, uint64_t *handle, uint64_t *addr)
{
	/* CUmemAllocationProp: pinned, exportable as a descriptor, on device 0 */
	const int prop[8] = { 1, exportable, 1, 0 };
	const int access[4] = { 1, 0, 3 }; /* CUmemAccessDesc: device 0 reads and writes */
	long err = *handle ? 0 : CALL5("cuMemCreate", handle, size, prop, 0, 0);

	if (!err)
		err = CALL5("cuMemAddressReserve", addr, size, 0, 0, 0);
	if (!err)
		err = CALL5("cuMemMap", *addr, size, 0, *handle, 0);
	return err ? err : CALL5("cuMemSetAccess", *addr, size, access, 1, 0);
}

static long alias(size_t size, uint64_t *addr)
{
	uint64_t handle = 0, unused;
	long err = map(size, 0, &handle, &unused);

	return err ? err : map(size, 0, &handle, addr);
}

static long from_own_pool(size_t size, uint64_t *addr)
{
	/* CUmemPoolProps: pinned, not exportable, on device 0 */
	int props[32] = { 1, 0, 1, 0 };
	long err = own_pool ? 0 : CALL3("cuMemPoolCreate", &own_pool, props, 0);

	return err ? err : CALL5("cuMemAllocFromPoolAsync", addr, size, own_pool, stream, 0);
}

static long array(size_t size, uint64_t *handle)
{
	const struct {
		size_t width, height;
		unsigned int format, channels; /* floats */
	} descriptor = { 1024, size / 4096, 0x20, 1 };

	return CALL3("cuArrayCreate_v2", handle, &descriptor, 0);
}

/* The simulated driver allocates at once and has no launch of graphs. */
static long graph(size_t size, uint64_t *addr)
{
	void *made = NULL, *executable = NULL;
	long err = CALL3("cuStreamBeginCapture_v2", capture_stream, 0, 0);

	if (!err)
		err = CALL3("cuMemAllocAsync", addr, size, capture_stream);
	if (!err)
		err = CALL3("cuStreamEndCapture", capture_stream, &made, 0);
	if (err || !dlsym(lib, "cuGraphInstantiateWithFlags"))
		return err;
	err = CALL3("cuGraphInstantiateWithFlags", &executable, made, 0);
	if (!err)
		err = CALL3("cuGraphLaunch", executable, stream, 0);
	return err ? err : CALL3("cuStreamSynchronize", stream, 0, 0);
}

static long many(uint64_t n, uint64_t size, uint64_t *addr)
{
	long err = 0;

	for (uint64_t i = 0; !err && i < n; i++)
		err = CALL3("cuMemAlloc_v2", addr, size, 0);
	return err;
}

static long allocate(const char *what, uint64_t a, uint64_t b, uint64_t *addr)
{
	uint64_t handle = 0;
	long err;

	if (!strcmp(what, "malloc"))
		return CALL3("cuMemAlloc_v2", addr, a, 0);
	if (!strcmp(what, "many"))
		return many(a, b, addr);
	if (!strcmp(what, "managed"))
		return CALL3("cuMemAllocManaged", addr, a, 1);
	if (!strcmp(what, "host"))
		return CALL3("cuMemHostAlloc", addr, a, 0);
	if (!strcmp(what, "map") || !strcmp(what, "share"))
		return map(a, what[0] == 's', &handle, addr);
	if (!strcmp(what, "alias"))
		return alias(a, addr);
	if (!strcmp(what, "array"))
		return array(a, addr);
	if (!strcmp(what, "graph"))
		return graph(a, addr);
	if (!strcmp(what, "async"))
		err = CALL3("cuMemAllocAsync", addr, a, stream);
	else if (!strcmp(what, "pool"))
		err = from_own_pool(a, addr);
	else
		return -1;
	return err ? err : CALL3("cuStreamSynchronize", stream, 0, 0);
}

/* ---- a device that hangs ---- */

static const char ptx[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
			  ".visible .entry spin(.param .u64 flag)\n"
			  "{\n"
			  ".reg .u64 %rd<2>; .reg .u32 %r<2>; .reg .pred %p<2>;\n"
			  "ld.param.u64 %rd1, [flag];\n"
			  "again: ld.volatile.global.u32 %r1, [%rd1];\n"
			  "setp.eq.u32 %p1, %r1, 0;\n"
			  "@%p1 bra again;\n"
			  "ret;\n"
			  "}\n";

static void *wait_for_device(void *arg)
{
	CALL3("cuCtxSetCurrent", context, 0, 0);
	CALL3("cuCtxSynchronize", 0, 0, 0);
	return arg;
}

static void *wait_for_stream(void *arg)
{
	CALL3("cuCtxSetCurrent", context, 0, 0);
	CALL3("cuStreamSynchronize", spin_stream, 0, 0);
	return arg;
}

static void *wait_for_event(void *arg)
{
	void *event = NULL;

	CALL3("cuCtxSetCurrent", context, 0, 0);
	if (!CALL3("cuEventCreate", &event, 0, 0) && !CALL3("cuEventRecord", event, spin_stream, 0))
		CALL3("cuEventSynchronize", event, 0, 0);
	return arg;
}

/* Without a context of its own the thread would get an error at once. */
static void *free_it(void *arg)
{
	CALL3("cuCtxSetCurrent", context, 0, 0);
	CALL3("cuMemFree_v2", arg, 0, 0);
	return NULL;
}

static long in_thread(void *(*fn)(void *arg), uint64_t arg)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, fn, (void *)arg))
		return -1;
	pthread_detach(thread);
	usleep(200000); /* until it is inside the driver */
	return 0;
}

/* The kernel reads *p until it is not 0. */
static long launch_spin(void *p)
{
	typedef int launch_fn(void *f, unsigned int gx, unsigned int gy, unsigned int gz,
			      unsigned int bx, unsigned int by, unsigned int bz,
			      unsigned int shared, void *s, void **args, void **extra);
	launch_fn *launch = (launch_fn *)dlsym(lib, "cuLaunchKernel");
	void *module = NULL, *function = NULL;
	void *args[] = { &p };
	long err = CALL3("cuModuleLoadData", &module, ptx, 0);

	if (!err)
		err = CALL3("cuModuleGetFunction", &function, module, "spin");
	return err ? err : launch(function, 1, 1, 1, 1, 1, 1, 0, spin_stream, args, NULL);
}

static long hang_real(void)
{
	void *p = NULL;
	long err = CALL3("cuMemHostAlloc", &p, 4096, 0);

	if (err)
		return err;
	flag = p;
	*flag = 0;
	return launch_spin(p);
}

static long fault(void)
{
	long err = launch_spin((void *)16);

	return err ? err : CALL3("cuCtxSynchronize", 0, 0, 0);
}

static long hang(int on)
{
	void (*set_hang)(int devices) = (void (*)(int))dlsym(RTLD_DEFAULT, "simcuda_set_hang");
	long err = 0;

	if (set_hang)
		set_hang(on); /* a bit for each device */
	else if (on)
		err = hang_real();
	else if (flag)
		*flag = 1;
	return !err && on ? in_thread(wait_for_device, 0) : err;
}

/* ---- facts ---- */

static long contexts(void)
{
	int n = 0, active, device, total = 0;
	unsigned int flags;

	CALL3("cuDeviceGetCount", &n, 0, 0);
	for (int i = 0; i < n; i++)
		if (!CALL3("cuDeviceGet", &device, i, 0) &&
		    !CALL3("cuDevicePrimaryCtxGetState", device, &flags, &active))
			total += active;
	return total;
}

static long pools(void)
{
	uint64_t reserved = 0;
	void *pool = NULL;

	if (CALL3("cuDeviceGetDefaultMemPool", &pool, 0, 0) ||
	    CALL3("cuMemPoolGetAttribute", pool, 5, &reserved))
		return -1;
	return (long)reserved;
}

/* What map() made: the handle, too, which the driver keeps until it is released. */
static long unmap(uint64_t addr, size_t size)
{
	uint64_t handle = 0;
	long err = CALL3("cuMemRetainAllocationHandle", &handle, addr, 0);

	if (!err)
		err = CALL3("cuMemUnmap", addr, size, 0);
	for (int i = 0; !err && i < 2; i++) /* that of map(), and the one that was retained */
		err = CALL3("cuMemRelease", handle, 0, 0);
	return err;
}

static long do_other(const char *what, uint64_t a, uint64_t b)
{
	void *made = NULL;

	if (!strcmp(what, "free"))
		return CALL3("cuMemFree_v2", a, 0, 0);
	if (!strcmp(what, "unmap"))
		return unmap(a, b);
	if (!strcmp(what, "freeasync"))
		return CALL3("cuMemFreeAsync", a, stream, 0);
	if (!strcmp(what, "waste"))
		return in_thread(free_it, a);
	if (!strcmp(what, "stream"))
		return in_thread(wait_for_stream, 0);
	if (!strcmp(what, "event"))
		return in_thread(wait_for_event, 0);
	if (!strcmp(what, "capture"))
		return CALL3("cuStreamBeginCapture_v2", capture_stream, 0, 0);
	if (!strcmp(what, "captured"))
		return CALL3("cuStreamEndCapture", capture_stream, &made, 0);
	if (!strcmp(what, "hang") || !strcmp(what, "go"))
		return hang(what[0] == 'h');
	if (!strcmp(what, "fault"))
		return fault();
	if (!strcmp(what, "stack"))
		return CALL3("cuCtxSetLimit", 0, a, 0);
	if (!strcmp(what, "contexts"))
		return contexts();
	if (!strcmp(what, "pools"))
		return pools();
	return -2;
}

static long begin(void)
{
	long err;
	int device = 0;

	lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
	if (!lib)
		return -1;
	err = CALL3("cuInit", 0, 0, 0);
	if (!err)
		err = CALL3("cuDeviceGet", &device, 0, 0);
	if (!err)
		err = CALL3("cuDevicePrimaryCtxRetain", &context, device, 0);
	if (!err)
		err = CALL3("cuCtxSetCurrent", context, 0, 0);
	if (!err)
		err = CALL3("cuStreamCreate", &stream, 1, 0);
	if (!err)
		err = CALL3("cuStreamCreate", &capture_stream, 1, 0);
	return err ? err : CALL3("cuStreamCreate", &spin_stream, 1, 0);
}

int main(void)
{
	char line[256], what[32];
	long err = begin();

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (err) {
		printf("skip: the driver answers %ld\n", err);
		return 0;
	}
	printf("ready %d\n", (int)getpid());
	while (fgets(line, sizeof(line), stdin)) {
		unsigned long a = 0, b = 0;
		uint64_t addr = 0;

		if (sscanf(line, "%31s %li %li", what, &a, &b) < 1)
			continue;
		err = allocate(what, a, b, &addr);
		if (addr)
			printf("%#lx\n", (unsigned long)addr);
		else
			printf("%ld\n", err == -1 ? do_other(what, a, b) : err);
	}
	return 0;
}
