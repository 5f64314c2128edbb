/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Throws all kinds of exceptions through a frame whose personality routine is the recorder's
 * (helper/recorder/oom.c, which is linked to this program; the rest of the recorder is stood in for
 * below), and plays the watcher. Each case checks itself. Written for recorder_oom.py.
 */
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <pthread.h>
#include <unistd.h>
#include <unwind.h>

#include "vramtap/recorder.h"

#define CHECK(what)                                                                      \
	do {                                                                             \
		if (!(what)) {                                                           \
			fprintf(stderr, "line %d: %s does not hold\n", __LINE__, #what); \
			exit(1);                                                         \
		}                                                                        \
	} while (0)

/* ---- what the recorder's other parts do ---- */

struct regs {
	uint64_t pc, sp, bp, bx, r12, r13, r14, r15;
};

static struct regs seen;
static bool is_on = true;

extern "C" {
struct vt_recorder_head vt_recorder;
bool vt_rec_is_on(void);
bool vt_rec_is_inherited(void);
uint32_t vt_rec_tid(void);
void vt_rec_oom_begin(void);
void vt_rec_oom_end(void);
uint32_t vt_rec_stack_here(const struct regs *regs);
bool vt_rec_lock(uint32_t *lock);
void vt_rec_unlock(uint32_t *lock);
void vt_rec_out_of_memory(unsigned int kind, uint64_t requested, int error,
			  const struct regs *regs);
int vt_rec_personality(int version, int actions, uint64_t exception_class, void *exception,
		       void *context);
/* Calls f(arg) from a frame like those of entry.S. */
void through_entry(void (*f)(void *), void *arg, uint64_t requested);
}

bool vt_rec_is_on(void)
{
	return is_on;
}

bool vt_rec_is_inherited(void)
{
	return false;
}

uint32_t vt_rec_tid(void)
{
	return (uint32_t)gettid();
}

uint32_t vt_rec_stack_here(const struct regs *regs)
{
	seen = *regs;
	return 7;
}

bool vt_rec_lock(uint32_t *lock)
{
	while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE))
		usleep(10);
	return true;
}

void vt_rec_unlock(uint32_t *lock)
{
	__atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

__asm__(".text\n"
	".globl through_entry\n"
	".type through_entry, @function\n"
	"through_entry:\n"
	"	.cfi_startproc\n"
	"	.cfi_personality 0x1b, vt_rec_personality\n"
	"	sub $24, %rsp\n"
	"	.cfi_adjust_cfa_offset 24\n"
	"	mov %rdx, 8(%rsp)\n"
	"	mov %rdi, %rax\n"
	"	mov %rsi, %rdi\n"
	"	call *%rax\n"
	"	add $24, %rsp\n"
	"	.cfi_adjust_cfa_offset -24\n"
	"	ret\n"
	"	.cfi_endproc\n"
	"	.size through_entry, .-through_entry\n");

static int fake_memory(size_t *free_bytes, size_t *total)
{
	errno = 99;
	*free_bytes = 1000;
	*total = 5000;
	return 0;
}

static int fake_device(int *device)
{
	*device = 3;
	return 0;
}

/* ---- exceptions ---- */

namespace c10
{
class Error : public std::exception
{
      public:
	explicit Error(std::string text) : text_(std::move(text))
	{
	}
	const char *what() const noexcept override
	{
		return text_.c_str();
	}

      private:
	std::string text_;
};
class OutOfMemoryError : public Error
{
	using Error::Error;
};
class OutOfMemoryErrorToo : public Error
{
	using Error::Error;
};
} // namespace c10

static uint32_t raised(void)
{
	return vt_recorder.trap.raised;
}

static const struct vt_recorder_oom &last_event(void)
{
	return vt_recorder.trap.ooms[(raised() - 1) % VT_RECORDER_MAX_OOMS];
}

template <class E> static void throw_it(void *text)
{
	throw E(static_cast<const char *>(text));
}

static void rethrow(void *pointer)
{
	std::rethrow_exception(*static_cast<std::exception_ptr *>(pointer));
}

static void rethrow_same(void *text)
{
	try {
		throw c10::OutOfMemoryError(static_cast<const char *>(text));
	} catch (...) {
		CHECK(raised() == 0); /* it was not on its way through the entry */
		throw;
	}
}

static void catch_inside(void *text)
{
	try {
		throw c10::OutOfMemoryError(static_cast<const char *>(text));
	} catch (const c10::OutOfMemoryError &) {
	}
}

static void check_event(uint64_t requested)
{
	const struct vt_recorder_oom &event = last_event();

	CHECK(event.seq == raised());
	CHECK(event.kind == VT_OOM_PYTORCH);
	CHECK(event.requested == requested);
	CHECK(event.free_bytes == 1000 && event.total_bytes == 5000 && event.device == 3);
	CHECK(event.tid == (uint32_t)gettid());
	CHECK(event.stack == 7);
	CHECK(event.time_ns > 0 && event.waited_ns == 1); /* there is no watcher */
}

static void test_primary(void)
{
	char here;

	for (uint32_t i = 1; i <= 40; i++) {
		uint64_t requested = (uint64_t)i << 33;
		bool caught = false;

		errno = 5;
		try {
			through_entry(throw_it<c10::OutOfMemoryError>, const_cast<char *>("full"),
				      requested);
		} catch (const c10::OutOfMemoryError &e) {
			caught = !strcmp(e.what(), "full");
		}
		CHECK(caught);
		CHECK(errno == 5);
		CHECK(raised() == i);
		check_event(requested);
		/*
		 * Of the personality routine, which the unwinder called, which the throw below the
		 * entry called.
		 */
		CHECK(seen.sp < (uint64_t)&here && seen.sp > (uint64_t)&here - 65536);
		CHECK(seen.pc - (uint64_t)vt_rec_personality < 4096);
	}
}

static void test_dependent(void)
{
	std::exception_ptr pointer = std::make_exception_ptr(c10::OutOfMemoryError("full"));

	for (uint32_t i = 1; i <= 3; i++) {
		bool caught = false;

		try {
			through_entry(rethrow, &pointer, 4096 + i);
		} catch (const c10::Error &e) {
			caught = !strcmp(e.what(), "full");
		}
		CHECK(caught);
		CHECK(raised() == i);
		check_event(4096 + i);
	}
	std::exception_ptr other = std::make_exception_ptr(std::runtime_error("other"));

	try {
		through_entry(rethrow, &other, 1);
	} catch (const std::runtime_error &) {
	}
	CHECK(raised() == 3);
}

static void test_rethrow(void)
{
	bool caught = false;

	through_entry(catch_inside, const_cast<char *>("full"), 1);
	CHECK(raised() == 0);
	try {
		through_entry(rethrow_same, const_cast<char *>("full"), 99);
	} catch (...) {
		caught = true;
	}
	CHECK(caught && raised() == 1);
	check_event(99);
}

template <class E> static void other_type(void)
{
	bool caught = false;

	try {
		through_entry(throw_it<E>, const_cast<char *>("other"), 1);
	} catch (const E &) {
		caught = true;
	}
	CHECK(caught && raised() == 0);
}

static void throw_int(void *)
{
	throw 42;
}

static void test_others(void)
{
	int caught = 0;

	other_type<c10::Error>();
	other_type<c10::OutOfMemoryErrorToo>();
	other_type<std::runtime_error>();
	other_type<std::string>();
	try {
		through_entry(throw_int, nullptr, 1);
	} catch (int i) {
		caught = i;
	}
	CHECK(caught == 42 && raised() == 0);
	is_on = false;
	try {
		through_entry(throw_it<c10::OutOfMemoryError>, const_cast<char *>("off"), 1);
	} catch (const c10::OutOfMemoryError &) {
		caught++;
	}
	CHECK(caught == 43 && raised() == 0);
}

static int n_cleaned;

struct cleaned {
	~cleaned()
	{
		n_cleaned++;
	}
};

static void release(_Unwind_Reason_Code, struct _Unwind_Exception *)
{
}

static struct _Unwind_Exception foreign;

static void raise_foreign(void *)
{
	cleaned object;

	foreign.exception_class = 0x464f524549474e00; /* FOREIGN */
	foreign.exception_cleanup = release;
	_Unwind_RaiseException(&foreign);
	abort();
}

/* What bears the right class, and leads nowhere. */
static void damaged(uint64_t exception_class, uint64_t type)
{
	alignas(16) uint64_t exception[64] = {};
	char *header = reinterpret_cast<char *>(&exception[20]);

	memcpy(header - 80, &type, sizeof(type));
	CHECK(vt_rec_personality(1, _UA_SEARCH_PHASE, exception_class, header, nullptr) ==
	      _URC_CONTINUE_UNWIND);
	CHECK(raised() == 0);
}

static void test_foreign(void)
{
	bool caught = false;
	uint64_t fake_type[2] = { 0, 0x10 };

	try {
		through_entry(raise_foreign, nullptr, 1);
	} catch (...) {
		caught = true;
	}
	CHECK(caught && n_cleaned == 1 && raised() == 0);
	for (uint64_t exception_class :
	     { UINT64_C(0x474e5543432b2b00), UINT64_C(0x474e5543432b2b01) })
		for (uint64_t type : { UINT64_C(0), UINT64_C(0x10), UINT64_C(0x7000), ~UINT64_C(7),
				       (uint64_t)fake_type, (uint64_t)fake_type + 112 })
			damaged(exception_class, type);
}

static void sleep_long(void *)
{
	cleaned object;

	for (;;)
		sleep(100);
}

static void *cancelled(void *)
{
	through_entry(sleep_long, nullptr, 1);
	return nullptr;
}

static void test_cancel(void)
{
	pthread_t thread;
	void *result;

	CHECK(!pthread_create(&thread, nullptr, cancelled, nullptr));
	usleep(20000);
	CHECK(!pthread_cancel(thread));
	CHECK(!pthread_join(thread, &result));
	CHECK(result == PTHREAD_CANCELED && n_cleaned == 1 && raised() == 0);
}

/*
 * Nobody catches it: no handler is found, the program is terminated as ever, and the event is
 * there.
 */
static void on_terminate(void)
{
	CHECK(raised() == 1);
	check_event(77);
	fputs("terminated\n", stderr);
	_exit(0);
}

static void test_uncaught(void)
{
	std::set_terminate(on_terminate);
	through_entry(throw_it<c10::OutOfMemoryError>, const_cast<char *>("full"), 77);
	CHECK(!"reached");
}

/* ---- the watcher ---- */

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* How long one takes, in ms. */
static uint64_t run_out(uint64_t requested)
{
	uint64_t start = now_ms();

	try {
		through_entry(throw_it<c10::OutOfMemoryError>, const_cast<char *>("full"),
			      requested);
	} catch (const c10::OutOfMemoryError &) {
	}
	return now_ms() - start;
}

struct watcher {
	bool beating = true, taking = true, ended = false;
	uint32_t taken = 0;
	std::thread thread;

	watcher() : thread([this] { run(); })
	{
	}
	~watcher()
	{
		__atomic_store_n(&ended, true, __ATOMIC_RELEASE);
		thread.join();
	}

	void run()
	{
		struct vt_recorder_trap *trap = &vt_recorder.trap;

		while (!__atomic_load_n(&ended, __ATOMIC_ACQUIRE)) {
			if (__atomic_load_n(&beating, __ATOMIC_ACQUIRE))
				__atomic_add_fetch(&trap->heartbeat, 1, __ATOMIC_RELEASE);
			if (__atomic_load_n(&taking, __ATOMIC_ACQUIRE) &&
			    __atomic_load_n(&trap->raised, __ATOMIC_ACQUIRE) != taken) {
				usleep(50000);
				taken = __atomic_load_n(&trap->raised, __ATOMIC_ACQUIRE);
				__atomic_store_n(&trap->taken, taken, __ATOMIC_RELEASE);
			}
			usleep(5000);
		}
	}
};

static void arm(uint32_t patience_ms)
{
	vt_recorder.trap.patience_ms = patience_ms;
	__atomic_store_n(&vt_recorder.trap.armed, 1, __ATOMIC_RELEASE);
}

static void test_waits(void)
{
	watcher watcher;

	run_out(1);
	CHECK(last_event().waited_ns == 1); /* not armed */
	usleep(100000);
	arm(5000);
	for (uint64_t i = 0; i < 5; i++) {
		uint64_t ms = run_out(i);

		CHECK(ms >= 40 && ms < 2000);
		CHECK(last_event().waited_ns >= 40000000 && last_event().waited_ns < 2000000000);
	}
	/* The watcher is there, and does not come to it. */
	__atomic_store_n(&watcher.taking, false, __ATOMIC_RELEASE);
	vt_recorder.trap.patience_ms = 300;
	CHECK(run_out(9) >= 300);
	CHECK(last_event().waited_ns >= 300000000);
	/* Disarmed while it waits. */
	vt_recorder.trap.patience_ms = 5000;
	std::thread later([before = raised()] {
		while (raised() == before)
			usleep(1000);
		usleep(100000);
		vt_rec_oom_end(); /* recording ends */
	});
	uint64_t ms = run_out(10);

	later.join();
	CHECK(ms >= 90 && ms < 1200);
	CHECK(last_event().seq == raised());
	vt_rec_oom_begin(); /* and begins again */
	CHECK(last_event().seq == 0);
	run_out(11);
	CHECK(last_event().waited_ns == 1 && last_event().seq == raised() &&
	      last_event().requested == 11);
}

/* A watcher that gives no sign of life is waited for once, until it gives one again. */
static void test_dead_watcher(void)
{
	arm(5000);
	vt_recorder.trap.heartbeat = 1234;

	uint64_t first = run_out(1);

	CHECK(first >= 500 && first < 1800);
	for (int i = 0; i < 20; i++) {
		run_out(2);
		CHECK(last_event().waited_ns < 200000000);
	}

	watcher watcher;

	usleep(200000);
	CHECK(run_out(3) >= 40);
	CHECK(last_event().waited_ns >= 40000000);
}

/* A program that tries again and again is not slowed down for ever: 2 s of 10. */
static void test_budget(void)
{
	watcher watcher;
	uint64_t waited = 0;

	watcher.taking = false;
	arm(300);
	usleep(20000);
	for (int i = 0; i < 12; i++) {
		run_out(1);
		waited += last_event().waited_ns;
	}
	CHECK(waited >= 1900000000);
	CHECK(waited < 3000000000); /* and not 12 times 300 ms */
	CHECK(last_event().waited_ns == 1);
}

static void test_threads(void)
{
	std::vector<std::thread> threads;
	bool seen_request[8] = {};
	watcher watcher;

	arm(5000);
	for (int i = 0; i < 8; i++)
		threads.emplace_back([i] { run_out(1000 + (uint64_t)i); });
	for (std::thread &thread : threads)
		thread.join();
	CHECK(raised() == 8);
	for (uint32_t i = 0; i < 8; i++) {
		const struct vt_recorder_oom &event = vt_recorder.trap.ooms[i];

		CHECK(event.seq == i + 1);
		CHECK(event.requested >= 1000 && event.requested < 1008);
		CHECK(!seen_request[event.requested - 1000]);
		seen_request[event.requested - 1000] = true;
		CHECK(event.waited_ns > 0);
	}
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{ "primary", test_primary },           { "dependent", test_dependent },
	{ "rethrow", test_rethrow },           { "others", test_others },
	{ "foreign", test_foreign },           { "cancel", test_cancel },
	{ "uncaught", test_uncaught },         { "waits", test_waits },
	{ "dead-watcher", test_dead_watcher }, { "budget", test_budget },
	{ "threads", test_threads },
};

int main(int argc, char **argv)
{
	vt_recorder.config.imports.cuMemGetInfo = (uint64_t)fake_memory;
	vt_recorder.config.imports.cuCtxGetDevice = (uint64_t)fake_device;
	vt_recorder.config.imports.unwind_get_cfa = (uint64_t)_Unwind_GetCFA;
	vt_recorder.config.imports.errno_location = (uint64_t)__errno_location;
	if (argc < 2) {
		for (const auto &c : cases)
			puts(c.name);
		return 0;
	}
	for (const auto &c : cases)
		if (!strcmp(c.name, argv[1])) {
			c.run();
			return 0;
		}
	return 2;
}
