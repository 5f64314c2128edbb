/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recorder_stacks RECORDER [LIBRARY NAME]…: return addresses as the recorder finds them, against
 * glibc's backtrace(), in places where stacks are odd. The libraries are those that
 * recorder_capture.py makes. Prints "ready" and how many captures were equal.
 */
#include <alloca.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>

extern "C" {
#include "vramtap/recorder.h"
}

#define KEEP __attribute__((noinline, noclone))

/* As in tests/functional/recorder_capture.c. */
struct Frames {
	uint64_t words[2 * VT_RECORDER_MAX_PYTHON + VT_RECORDER_MAX_NATIVE];
	uint16_t n_python, n_words_python, n_native, flags;
	uint64_t hash;
};

struct Capture {
	Frames frames;
	uint64_t backtrace, n_trace, trace[256], rounds, ns;
};

struct Config {
	uint64_t python, native, max_memory, dl_iterate_phdr, clock_gettime, main_stack_low,
		main_stack_high;
	vt_recorder_python layout;
};

struct Regs {
	uint64_t pc, sp, bp, bx, r12, r13, r14, r15;
};

static void (*test_capture)(Capture *);
static void (*test_capture_at)(Capture *, const Regs *);
static std::map<std::string, std::string> libraries;
static int equal;
static const char *situation = "";

#define EXPECT(condition)                                                                 \
	do {                                                                              \
		if (!(condition)) {                                                       \
			printf("%s: line %d: not %s\n", situation, __LINE__, #condition); \
			exit(1);                                                          \
		}                                                                         \
	} while (0)

static void show(const Capture &c, size_t from)
{
	printf("flags %u; got, backtrace():\n", c.frames.flags);
	for (size_t i = 0; i < c.frames.n_native || from + i < c.n_trace; i++)
		printf("  %lx %lx\n", i < c.frames.n_native ? c.frames.words[i] : 0,
		       from + i < c.n_trace ? c.trace[from + i] : 0);
}

/* Captures here; the same as backtrace() says, to the end, unless part of it is enough. */
KEEP static Frames snap(unsigned int flags = 0, bool to_the_end = true)
{
	Capture c{};
	size_t from = 0;

	c.backtrace = reinterpret_cast<uint64_t>(&backtrace);
	test_capture(&c);
	while (c.n_trace > 0 && c.trace[c.n_trace - 1] == 0)
		c.n_trace--;
	while (from < c.n_trace && c.trace[from] != c.frames.words[0])
		from++;

	bool same = c.frames.n_native > 0 && from < c.n_trace &&
		    c.frames.flags == (flags | VT_STACK_NO_PYTHON);

	for (size_t i = 0; i < c.frames.n_native && same && from + i < c.n_trace; i++)
		same = c.frames.words[i] == c.trace[from + i];
	if (to_the_end && !(flags & VT_STACK_NATIVE_CUT))
		same = same && c.frames.n_native == c.n_trace - from;
	if (!same) {
		show(c, from);
		EXPECT(same);
	}
	equal++;
	return c.frames;
}

/* ---- frames of all kinds ---- */

static volatile int sink;
typedef void function_t(void);

KEEP static void recurse(int n)
{
	volatile char some[40];

	some[n % 40] = (char)n;
	if (n)
		recurse(n - 1);
	else
		snap();
	sink = some[3];
}

KEEP static void recurse_far(int n)
{
	if (n)
		recurse_far(n - 1);
	else
		EXPECT(snap(VT_STACK_NATIVE_CUT).n_native == VT_RECORDER_MAX_NATIVE);
	sink = n;
}

KEEP static void with_alloca(size_t n)
{
	char *some = static_cast<char *>(alloca(n));

	memset(some, 1, n);
	snap();
	sink = some[n / 2];
}

KEEP static void aligned(int n)
{
	alignas(64) volatile char some[128];

	some[n % 128] = 1;
	snap();
	sink = some[5];
}

/* GCC finds the caller of this one by a pointer that it keeps below the frame pointer. */
KEEP static void aligned_with_alloca(size_t n)
{
	alignas(64) volatile char some[128];
	char *more = static_cast<char *>(alloca(n));

	some[n % 128] = 1;
	memset(more, 1, n);
	recurse(2);
	sink = some[5] + more[1];
}

KEEP static void large(int n)
{
	volatile char some[300000];

	some[n] = 1;
	snap();
	sink = some[5];
}

KEEP static void many_arguments(int a, int b, int c, int d, int e, int f, int g, int h, int i)
{
	snap();
	sink = a + b + c + d + e + f + g + h + i;
}

static int compare(const void *a, const void *b)
{
	static int times;

	if (times++ < 3)
		snap();
	return *static_cast<const int *>(a) - *static_cast<const int *>(b);
}

static void all_kinds()
{
	int numbers[] = { 3, 1, 2, 7, 5 };

	recurse(0);
	recurse(100);
	recurse_far(300);
	for (size_t n : { 16, 100, 5000 })
		with_alloca(n);
	aligned(1);
	aligned_with_alloca(100);
	/*
	 * On the main thread: further down than the stack had grown when the recorder was switched
	 * on.
	 */
	with_alloca(3 << 20);
	large(1);
	many_arguments(1, 2, 3, 4, 5, 6, 7, 8, 9);
	qsort(numbers, 5, sizeof(numbers[0]), compare);

	static std::once_flag once;

	std::call_once(once, [] { snap(); });
}

/* ---- a function whose last instruction is a call: behind it another one begins ---- */

extern "C" void ends_in_call(function_t *function);
__asm__(".text\n"
	".type ends_in_call, @function\n"
	"ends_in_call:\n"
	"	.cfi_startproc\n"
	"	sub $40, %rsp\n"
	"	.cfi_adjust_cfa_offset 40\n"
	"	call *%rdi\n"
	"	.cfi_endproc\n"
	".size ends_in_call, . - ends_in_call\n"
	".type behind, @function\n"
	"behind:\n"
	"	.cfi_startproc\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size behind, . - behind\n");

static jmp_buf out;

static void snap_and_leave()
{
	snap();
	longjmp(out, 1);
}

static void ends_of_functions()
{
	if (!setjmp(out))
		ends_in_call(snap_and_leave);
}

/* ---- exceptions ---- */

struct Leaves {
	~Leaves()
	{
		snap();
	}
};

KEEP static void throws(int n)
{
	Leaves leaves;

	if (n == 0)
		throw std::runtime_error("x");
	throws(n - 1);
	sink = n;
}

static void exceptions()
{
	try {
		throws(3);
	} catch (const std::runtime_error &) {
		snap();
		try {
			throws(1);
		} catch (...) {
			snap();
		}
	}
}

/* ---- threads ---- */

struct AtTheEnd {
	~AtTheEnd()
	{
		snap();
	}
	int used = 1;
};

static thread_local AtTheEnd at_the_end;

static void *in_thread(void *)
{
	sink = at_the_end.used;
	recurse(5);
	all_kinds();
	return nullptr;
}

static void threads()
{
	pthread_attr_t attr;
	size_t size = 512 << 10;
	pthread_t thread;

	std::thread(in_thread, nullptr).join();
	std::thread([] { snap(); }).join();

	/* A stack of our own, without anything readable around it. */
	char *stack = static_cast<char *>(
		mmap(nullptr, size + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));

	EXPECT(stack != MAP_FAILED && !mprotect(stack + 4096, size, PROT_READ | PROT_WRITE));
	pthread_attr_init(&attr);
	pthread_attr_setstack(&attr, stack + 4096, size);
	EXPECT(!pthread_create(
		&thread, &attr,
		[](void *) -> void * {
			recurse(5);
			return nullptr;
		},
		nullptr));
	pthread_join(thread, nullptr);
	pthread_attr_destroy(&attr);
	munmap(stack, size + 8192);
}

/* ---- other stacks ---- */

static ucontext_t back;

static void on_fiber()
{
	Capture c{};

	test_capture(&c);
	EXPECT(c.frames.n_native == 0 &&
	       c.frames.flags == (VT_STACK_NATIVE_LOST | VT_STACK_NO_PYTHON));
	equal++;
	swapcontext(static_cast<ucontext_t *>(calloc(1, sizeof(ucontext_t))), &back);
}

/*
 * A stack that is not the thread's own: nothing is known of where it ends, so nothing of it is
 * read.
 */
static void fibers()
{
	size_t size = 64 << 10;
	char *stack = static_cast<char *>(
		mmap(nullptr, size + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	ucontext_t fiber;

	EXPECT(stack != MAP_FAILED && !mprotect(stack + 4096, size, PROT_READ | PROT_WRITE) &&
	       !getcontext(&fiber));
	fiber.uc_stack.ss_sp = stack + 4096;
	fiber.uc_stack.ss_size = size;
	fiber.uc_link = nullptr;
	makecontext(&fiber, on_fiber, 0);
	swapcontext(&back, &fiber);
	snap();
	munmap(stack, size + 8192);
}

static void on_signal(int)
{
	/* It ends where the kernel's frame begins. */
	EXPECT(snap(VT_STACK_NATIVE_LOST, false).n_native == 3);
}

static void signals()
{
	struct sigaction action = {};

	action.sa_handler = on_signal;
	sigaction(SIGUSR1, &action, nullptr);
	raise(SIGUSR1);
	snap();
}

/* ---- code without call frame information ---- */

static Frames last;

KEEP static void keep_last()
{
	Capture c{};

	test_capture(&c);
	last = c.frames;
}

static bool ends_like(const Frames &a, const Frames &b, unsigned int n)
{
	for (unsigned int i = 1; i <= n; i++)
		if (a.words[a.n_native - i] != b.words[b.n_native - i])
			return false;
	return true;
}

static void no_information()
{
	/* push %rbp; mov %rsp, %rbp; call *%rdi; pop %rbp; ret */
	static const uint8_t code[] = { 0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3 };
	void *at = mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void (*jit)(function_t *);

	EXPECT(at != MAP_FAILED);
	memcpy(at, code, sizeof(code));
	memcpy(&jit, &at, sizeof(jit));
	keep_last();

	Frames direct = last;

	jit(keep_last);
	EXPECT(last.flags == (VT_STACK_NATIVE_GUESS | VT_STACK_NO_PYTHON));
	EXPECT(last.n_native == direct.n_native + 1 &&
	       ends_like(last, direct, direct.n_native - 2u));
	equal++;

	/*
	 * The same, but rbp is made to look like a frame whose return address is no such: it points
	 * to the start of a function.
	 */
	static const uint8_t misleading[] = { 0x55, 0x57, 0x6a, 0x00, 0x48, 0x89, 0xe5, 0xff,
					      0xd7, 0x48, 0x83, 0xc4, 0x10, 0x5d, 0xc3 };

	memcpy(at, misleading, sizeof(misleading));
	jit(keep_last);
	EXPECT(last.flags == (VT_STACK_NATIVE_LOST | VT_STACK_NO_PYTHON) && last.n_native == 2);
	equal++;

	void *with = dlopen(libraries["no-cfi-fp"].c_str(), RTLD_NOW),
	     *without = dlopen(libraries["no-cfi"].c_str(), RTLD_NOW);

	EXPECT(with && without);
	reinterpret_cast<void (*)(function_t *, int)>(dlsym(with, "through"))(keep_last, 4);
	EXPECT(last.flags == (VT_STACK_NATIVE_GUESS | VT_STACK_NO_PYTHON));
	EXPECT(last.n_native == direct.n_native + 5 &&
	       ends_like(last, direct, direct.n_native - 2u));
	equal++;
	/*
	 * No frame pointers either: whatever rbp is, it ends somewhere, and the result says that
	 * frames are missing.
	 */
	reinterpret_cast<void (*)(function_t *, int)>(dlsym(without, "through"))(keep_last, 4);
	EXPECT(last.flags & (VT_STACK_NATIVE_GUESS | VT_STACK_NATIVE_LOST));
	equal++;
}

/* ---- libraries that come and go ---- */

static void snap_plain()
{
	snap();
}

static void pause_ms(long ms)
{
	struct timespec ts = { 0, ms * 1000000 };

	nanosleep(&ts, nullptr);
}

/* Two libraries that differ in the size of a frame alone, one after the other at the same place. */
static void replaced()
{
	static const char *const names[] = { "frame-24", "frame-4104" };
	void *first = nullptr;
	int same_place = 0;

	for (int i = 0; i < 6; i++) {
		void *library = dlopen(libraries[names[i % 2]].c_str(), RTLD_NOW);

		EXPECT(library);

		void *function = dlsym(library, "framed");

		EXPECT(function);
		same_place += function == first;
		first = function;
		if (i)
			pause_ms(60); /* so long it may take until it is noticed */
		reinterpret_cast<void (*)(function_t *)>(function)(snap_plain);
		EXPECT(!dlclose(library));
	}
	EXPECT(same_place > 0);
}

/* ---- what is no stack at all ---- */

static uint64_t state = 88172645463325252u;

static uint64_t random_number()
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

/* Whatever registers and stack say: it ends, and nothing faults. */
KEEP static void hostile_here()
{
	Capture real{}, c{};
	uint64_t room[512], own = reinterpret_cast<uint64_t>(room);

	test_capture(&real);
	for (int round = 0; round < 50000; round++) {
		Regs regs = {};

		for (uint64_t &word : room) {
			uint64_t r = random_number();

			word = r % 3 == 0 ? real.frames.words[r / 3 % real.frames.n_native] :
			       r % 3 == 1 ? own + r / 3 % sizeof(room) :
					    r >> (r % 64);
		}
		regs.pc = real.frames.words[random_number() % real.frames.n_native];
		regs.sp = own + random_number() % 300 * 8 + (random_number() % 50 == 0);
		regs.bp = random_number() % 4 ? own + random_number() % 512 * 8 : random_number();
		if (random_number() % 20 == 0)
			regs.pc = random_number() >> random_number() % 64;
		if (random_number() % 50 == 0)
			regs.sp = random_number() >> random_number() % 64;
		test_capture_at(&c, &regs);
		EXPECT(c.frames.n_native <= VT_RECORDER_MAX_NATIVE);
	}
	equal++;
}

/* With callers of all kinds. */
KEEP static void hostile()
{
	alignas(64) volatile char some[128];
	char *more = static_cast<char *>(alloca(state % 100 + 16));

	some[state % 128] = more[0] = 1;
	hostile_here();
	sink = some[5] + more[1];
}

KEEP static void hostile_too(size_t n)
{
	char *some = static_cast<char *>(alloca(n));

	memset(some, 1, n);
	hostile();
	sink = some[n / 2];
}

static void hostile_stacks()
{
	hostile_too(100);
}

/* ---- */

static void load(const char *path)
{
	void *recorder = dlopen(path, RTLD_NOW);
	Config config = {};
	char line[512];

	if (!recorder) {
		printf("%s\n", dlerror());
		exit(1);
	}
	test_capture = reinterpret_cast<void (*)(Capture *)>(dlsym(recorder, "test_capture"));
	test_capture_at = reinterpret_cast<void (*)(Capture *, const Regs *)>(
		dlsym(recorder, "test_capture_at"));
	config.native = 1;
	config.max_memory = 1 << 30;
	config.dl_iterate_phdr = reinterpret_cast<uint64_t>(&dl_iterate_phdr);
	config.clock_gettime = reinterpret_cast<uint64_t>(&clock_gettime);

	FILE *maps = fopen("/proc/self/maps", "re");

	while (maps && fgets(line, sizeof(line), maps)) {
		if (strstr(line, "[stack]"))
			EXPECT(sscanf(line, "%lx-%lx", &config.main_stack_low,
				      &config.main_stack_high) == 2);
	}
	if (maps)
		fclose(maps);
	EXPECT(reinterpret_cast<uint32_t (*)(const Config *)>(dlsym(recorder, "test_on"))(
		       &config) == 0);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} situations[] = {
		{ "all kinds of frames", all_kinds },
		{ "calls at the end of functions", ends_of_functions },
		{ "exceptions", exceptions },
		{ "threads", threads },
		{ "fibers", fibers },
		{ "signals", signals },
		{ "code without information", no_information },
		{ "libraries that are replaced", replaced },
		{ "hostile stacks", hostile_stacks },
	};

	if (argc < 2)
		return 64;
	for (int i = 2; i + 1 < argc; i += 2)
		libraries[argv[i]] = argv[i + 1];
	load(argv[1]);
	for (const auto &one : situations) {
		situation = one.name;
		one.run();
	}
	printf("ready %d\n", equal);
	return 0;
}
