/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a child whose memory is known exactly: it was made before the fork. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "target/live.h"

#define PAGE 4096u
#define N_PAGES 256u

/*
 * N_PAGES pages of known contents; page HOLE is unmapped, page SECRET has no permissions. [0] is
 * the end of a hole before them, so that reads can begin at the first page of a mapping.
 */
enum { HOLE = 100, SECRET = 200 };
static uint8_t *area;
static pid_t child;

static uint8_t byte_at(size_t i)
{
	return (uint8_t)(i * 7 + i / PAGE);
}

static void make_area(void)
{
	area = mmap(NULL, (N_PAGES + 2) * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		    -1, 0);
	assert_ptr_not_equal(area, MAP_FAILED);
	munmap(area, PAGE);
	munmap(area + (N_PAGES + 1) * PAGE, PAGE);
	area += PAGE;
	for (size_t i = 0; i < N_PAGES * PAGE; i++)
		area[i] = byte_at(i);
	munmap(area + HOLE * PAGE, PAGE);
	mprotect(area + SECRET * PAGE, PAGE, PROT_NONE);
}

static int setup(void **state)
{
	(void)state;
	make_area();
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	munmap(area, N_PAGES * PAGE);
	return 0;
}

static void succeed(struct vt_error *err)
{
	if (err)
		fail_msg("%s", err->message);
}

static uint64_t addr_of(size_t i)
{
	return (uintptr_t)area + i;
}

static void assert_contents(const uint8_t *buf, size_t from, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (buf[i] != byte_at(from + i))
			fail_msg("byte %zu of %zu from %zu is wrong", i, len, from);
}

/* Where reading len bytes from i first fails; UINT64_MAX for nowhere. */
static uint64_t first_bad(size_t i, size_t len)
{
	static const size_t bad[] = { HOLE, SECRET, N_PAGES };

	for (size_t k = 0; k < 3; k++) {
		size_t begin = bad[k] * PAGE, end = begin + PAGE;

		if (i < end && i + len > begin)
			return addr_of(i > begin ? i : begin);
	}
	return UINT64_MAX;
}

static void check_read(struct vt_memsrc *src, size_t i, size_t len)
{
	uint8_t *buf = malloc(len ? len : 1);
	uint64_t bad = first_bad(i, len);
	int ret;

	src->fault_addr = 0;
	ret = vt_mem_read(src, addr_of(i), buf, len);
	if (bad == UINT64_MAX) {
		assert_int_equal(ret, 0);
		assert_contents(buf, i, len);
	} else {
		assert_int_equal(ret, -EFAULT);
		assert_int_equal(src->fault_addr, bad);
	}
	free(buf);
}

/* All that both sources must do, however they read. */
static void check_source(struct vt_memsrc *src)
{
	srand(1);
	check_read(src, 0, 0);
	check_read(src, 0, 1);
	check_read(src, 0, HOLE * PAGE);
	check_read(src, HOLE * PAGE - 1, 1);
	check_read(src, HOLE * PAGE - 1, 2);
	check_read(src, 0, N_PAGES * PAGE);
	check_read(src, (HOLE + 1) * PAGE, (SECRET - HOLE - 1) * PAGE);
	check_read(src, (HOLE + 1) * PAGE, (SECRET - HOLE - 1) * PAGE + 1);
	check_read(src, (SECRET + 1) * PAGE, (N_PAGES - SECRET - 1) * PAGE);
	check_read(src, N_PAGES * PAGE - 8, 9);
	for (int n = 0; n < 3000; n++) {
		size_t i = (size_t)rand() % (N_PAGES * PAGE);
		size_t len = (size_t)rand() % (n % 3 ? 300 : 5 * PAGE);

		if (n % 50 == 0)
			len = (size_t)rand() % (40 * PAGE);
		check_read(src, i, len);
	}
}

static void check_impossible_addresses(struct vt_memsrc *src)
{
	static const uint64_t addrs[] = {
		0,
		1,
		0xfff,
		UINT64_C(0x7fffffffffff),
		UINT64_C(0x800000000000),
		UINT64_C(0x7ffffffffffffffc),
		UINT64_C(0x8000000000000000),
		UINT64_C(0xffffffffff600000),
		UINT64_MAX - 3,
		UINT64_MAX,
	};
	uint8_t buf[64];

	for (size_t i = 0; i < sizeof(addrs) / sizeof(addrs[0]); i++) {
		assert_int_equal(vt_mem_read(src, addrs[i], buf, sizeof(buf)), -EFAULT);
		assert_true(src->fault_addr >= addrs[i] ||
			    src->fault_addr == UINT64_C(0x8000000000000000));
	}
	assert_int_equal(vt_mem_read(src, addr_of(0), buf, SIZE_MAX), -EFAULT);
}

static void check_bulk(struct vt_memsrc *src)
{
	enum { N = 5000 };
	struct vt_memvec *vec = calloc(N, sizeof(*vec));
	uint8_t *bufs = malloc((size_t)N * 100);
	size_t *from = calloc(N, sizeof(*from));

	srand(2);
	for (int i = 0; i < N; i++) {
		size_t len = (size_t)rand() % 100;

		do
			from[i] = (size_t)rand() % (N_PAGES * PAGE);
		while (first_bad(from[i], len) != UINT64_MAX);
		vec[i] = (struct vt_memvec){ .addr = addr_of(from[i]),
					     .buf = bufs + (size_t)i * 100,
					     .len = len };
	}
	assert_int_equal(vt_mem_readv(src, vec, N), 0);
	for (int i = 0; i < N; i++)
		assert_contents(vec[i].buf, from[i], vec[i].len);
	assert_int_equal(vt_mem_readv(src, vec, 0), 0);
	/* One bad piece at any place is found, at its exact address. */
	for (int i = 0; i < N; i += 617) {
		struct vt_memvec saved = vec[i];

		vec[i].addr = addr_of(HOLE * PAGE - 10);
		vec[i].len = 20;
		assert_int_equal(vt_mem_readv(src, vec, N), -EFAULT);
		assert_int_equal(src->fault_addr, addr_of(HOLE * PAGE));
		vec[i].addr = UINT64_MAX - 5;
		assert_int_equal(vt_mem_readv(src, vec, N), -EFAULT);
		assert_int_equal(src->fault_addr, UINT64_MAX - 5);
		vec[i] = saved;
	}
	free(from);
	free(bufs);
	free(vec);
}

static void reads_exactly(void **state)
{
	struct vt_live *live;
	(void)state;

	succeed(vt_live_create(child, &live));
	check_source(vt_live_source(live));
	check_source(vt_live_cached_source(live));
	check_impossible_addresses(vt_live_source(live));
	check_impossible_addresses(vt_live_cached_source(live));
	check_bulk(vt_live_source(live));
	check_bulk(vt_live_cached_source(live));
	vt_live_destroy(live);
}

/* Several threads copy: the same bytes, and a failure says what it says when one does. */
static void reads_together(void **state)
{
	enum { PIECES = 9, LEN = HOLE * PAGE };
	struct vt_memvec vec[PIECES];
	struct vt_live *live = NULL;
	struct vt_memsrc *src;
	uint8_t *buf = malloc((size_t)PIECES * LEN);

	(void)state;
	succeed(vt_live_create(child, &live));
	src = vt_live_source(live);
	assert_false(vt_live_read_together(live, 0));
	assert_true(vt_live_read_together(live, 3));
	assert_true(vt_live_read_together(live, 3));
	for (int round = 0; round < 20; round++) {
		memset(buf, 0, (size_t)PIECES * LEN);
		for (size_t i = 0; i < PIECES; i++)
			vec[i] = (struct vt_memvec){ .addr = (uint64_t)(uintptr_t)area + i,
						     .buf = buf + i * LEN,
						     .len = LEN - 2 * i };
		assert_int_equal(vt_mem_readv(src, vec, PIECES), 0);
		for (size_t i = 0; i < PIECES; i++)
			for (size_t k = 0; k < LEN - 2 * i; k += 97)
				assert_int_equal(buf[i * LEN + k], byte_at(i + k));
	}
	vec[5].addr = (uint64_t)(uintptr_t)area + 8 * PAGE + 5;
	assert_int_equal(vt_mem_readv(src, vec, PIECES), -EFAULT);
	assert_int_equal(src->fault_addr, (uint64_t)(uintptr_t)area + HOLE * PAGE);
	vec[5].addr = UINT64_MAX - PAGE;
	assert_int_equal(vt_mem_readv(src, vec, PIECES), -EFAULT);
	vt_live_destroy(live);
	free(buf);
}

/* A container engine's seccomp policy in which process_vm_readv() gives the errno. */
static void forbid_process_vm_readv(int errnum)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
		BPF_STMT(BPF_RET | BPF_K,
			 SECCOMP_RET_ERRNO | ((unsigned int)errnum & SECCOMP_RET_DATA)),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = sizeof(filter) / sizeof(filter[0]), .filter = filter };

	assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	assert_int_equal(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

static void falls_back_to_proc_mem(void **state)
{
	static const int errnums[] = { EPERM, ENOSYS };
	(void)state;

	for (int i = 0; i < 2; i++) {
		int status;
		pid_t reader = fork();

		if (reader == 0) {
			struct vt_live *live;

			forbid_process_vm_readv(errnums[i]);
			succeed(vt_live_create(child, &live));
			check_source(vt_live_source(live));
			check_bulk(vt_live_source(live));
			check_source(vt_live_cached_source(live));
			check_impossible_addresses(vt_live_source(live));
			vt_live_destroy(live);
			_exit(0);
		}
		assert_int_equal(waitpid(reader, &status, 0), reader);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
}

static void cache_is_dropped(void **state)
{
	struct vt_live *live;
	struct vt_memsrc *cached;
	uint8_t byte, new_byte = (uint8_t)(byte_at(5) + 1);
	(void)state;

	succeed(vt_live_create(child, &live));
	cached = vt_live_cached_source(live);
	assert_int_equal(vt_mem_read(cached, addr_of(5), &byte, 1), 0);
	assert_int_equal(byte, byte_at(5));
	/* Written behind the cache's back: by another reader. */
	{
		struct vt_live *other;

		succeed(vt_live_create(child, &other));
		succeed(vt_live_write(other, addr_of(5), &new_byte, 1));
		vt_live_destroy(other);
	}
	assert_int_equal(vt_mem_read(cached, addr_of(5), &byte, 1), 0);
	assert_int_equal(byte, byte_at(5));
	vt_live_drop_cache(live);
	assert_int_equal(vt_mem_read(cached, addr_of(5), &byte, 1), 0);
	assert_int_equal(byte, new_byte);
	/* Our own write is seen at once. */
	new_byte = byte_at(5);
	succeed(vt_live_write(live, addr_of(5), &new_byte, 1));
	assert_int_equal(vt_mem_read(cached, addr_of(5), &byte, 1), 0);
	assert_int_equal(byte, byte_at(5));
	vt_live_set_coherent(live, true);
	assert_true(cached->coherent && vt_live_source(live)->coherent);
	vt_live_destroy(live);
}

static void does_not_remember_failures(void **state)
{
	int pipes[2], back[2];
	uint8_t *page = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct vt_live *live;
	uint8_t byte;
	pid_t pid;
	(void)state;

	assert_int_equal(pipe(pipes), 0);
	assert_int_equal(pipe(back), 0);
	pid = fork();
	if (pid == 0) {
		char c;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (read(pipes[0], &c, 1) != 1 || mprotect(page, PAGE, PROT_READ | PROT_WRITE))
			_exit(1);
		page[0] = 42;
		if (write(back[1], &c, 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	succeed(vt_live_create(pid, &live));
	assert_int_equal(vt_mem_read(vt_live_cached_source(live), (uintptr_t)page, &byte, 1),
			 -EFAULT);
	assert_int_equal(write(pipes[1], "x", 1), 1);
	assert_int_equal(read(back[0], &byte, 1), 1);
	assert_int_equal(vt_mem_read(vt_live_cached_source(live), (uintptr_t)page, &byte, 1), 0);
	assert_int_equal(byte, 42);
	vt_live_destroy(live);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void writes_to_read_only_pages(void **state)
{
	static const char text[] = "some bytes that cross from one page to the next";
	struct vt_live *live;
	char back[sizeof(text)];
	struct vt_error *err;
	(void)state;

	succeed(vt_live_create(child, &live));
	/*
	 * This program's code: r-x, shared with us, and not changed here by the write there (copy
	 * on write).
	 */
	uint64_t code =
		((uint64_t)(uintptr_t)writes_to_read_only_pages & ~(uint64_t)(PAGE - 1)) - 20;
	char before[sizeof(text)];

	memcpy(before, (void *)(uintptr_t)code, sizeof(before));
	err = vt_live_write(live, code, text, sizeof(text));
	if (err && err->code == VT_ERR_FAULT) {
		/* A kernel that was told to forbid it. */
		vt_error_destroy(err);
		vt_live_destroy(live);
		skip();
	}
	succeed(err);
	assert_int_equal(vt_mem_read(vt_live_source(live), code, back, sizeof(back)), 0);
	assert_memory_equal(back, text, sizeof(text));
	assert_memory_equal(before, (void *)(uintptr_t)code, sizeof(before));

	err = vt_live_write(live, addr_of(HOLE * PAGE - 4), text, sizeof(text));
	assert_non_null(err);
	assert_int_equal(err->code, VT_ERR_FAULT);
	assert_int_equal(err->address, addr_of(HOLE * PAGE));
	vt_error_destroy(err);
	vt_live_destroy(live);
	/*
	 * Two bytes at the end of the page before the hole were overwritten: put them back for the
	 * other tests.
	 */
	uint8_t original[4] = { byte_at(HOLE * PAGE - 4), byte_at(HOLE * PAGE - 3),
				byte_at(HOLE * PAGE - 2), byte_at(HOLE * PAGE - 1) };

	succeed(vt_live_create(child, &live));
	succeed(vt_live_write(live, addr_of(HOLE * PAGE - 4), original, 4));
	vt_live_destroy(live);
}

/*
 * After execve() the pid is the same, but the memory is another one: reading it would give wrong
 * answers.
 */
static void notices_exit_and_exec(void **state)
{
	(void)state;
	for (int kind = 0; kind < 2; kind++) {
		int pipes[2];
		struct vt_live *live;
		struct vt_error *err;
		uint8_t byte;
		pid_t pid;
		int ret = 0;

		assert_int_equal(pipe(pipes), 0);
		pid = fork();
		if (pid == 0) {
			char c;

			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (read(pipes[0], &c, 1) == 1 && kind == 0)
				execlp("sleep", "sleep", "60", NULL);
			_exit(0);
		}
		succeed(vt_live_create(pid, &live));
		assert_int_equal(vt_mem_read(vt_live_source(live), addr_of(0), &byte, 1), 0);
		assert_int_equal(write(pipes[1], "x", 1), 1);
		for (int i = 0; i < 2000 && ret != -ESRCH; i++) {
			ret = vt_mem_read(vt_live_source(live), addr_of(0), &byte, 1);
			usleep(1000);
		}
		assert_int_equal(ret, -ESRCH);
		err = vt_live_write(live, addr_of(0), &byte, 1);
		assert_non_null(err);
		assert_int_equal(err->code, VT_ERR_GONE);
		vt_error_destroy(err);
		err = vt_mem_error(vt_live_source(live), ret, "a byte");
		assert_int_equal(err->code, VT_ERR_GONE);
		vt_error_destroy(err);
		vt_live_destroy(live);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		err = vt_live_create(pid, &live);
		assert_non_null(err);
		assert_int_equal(err->code, VT_ERR_GONE);
		vt_error_destroy(err);
		close(pipes[0]);
		close(pipes[1]);
	}
}

static void errors_say_what(void **state)
{
	static const struct {
		int ret;
		enum vt_error_code code;
	} cases[] = {
		{ -ESRCH, VT_ERR_GONE },       { -EFAULT, VT_ERR_FAULT },
		{ -EPERM, VT_ERR_PERMISSION }, { -EACCES, VT_ERR_PERMISSION },
		{ -EINVAL, VT_ERR_OS },        { -ENOMEM, VT_ERR_NOMEM },
	};
	struct vt_memsrc src = { .fault_addr = 0x1234 };
	(void)state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct vt_error *err = vt_mem_error(&src, cases[i].ret, "the block table");

		assert_int_equal(err->code, cases[i].code);
		assert_int_equal(err->address, cases[i].ret == -EFAULT ? 0x1234 : 0);
		if (cases[i].ret != -ENOMEM)
			assert_non_null(strstr(err->message, "the block table"));
		vt_error_destroy(err);
	}
}

static void another_user(void **state)
{
	int status;
	pid_t reader;
	(void)state;

	reader = fork();
	if (reader == 0) {
		struct vt_live *live;
		struct vt_error *err;

		if (setgid(65534) || setuid(65534))
			_exit(77);
		err = vt_live_create(child, &live);
		_exit(err && err->code == VT_ERR_PERMISSION ? 0 : 1);
	}
	assert_int_equal(waitpid(reader, &status, 0), reader);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) != 77)
		assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(reads_exactly, setup, teardown),
		cmocka_unit_test_setup_teardown(reads_together, setup, teardown),
		cmocka_unit_test_setup_teardown(falls_back_to_proc_mem, setup, teardown),
		cmocka_unit_test_setup_teardown(cache_is_dropped, setup, teardown),
		cmocka_unit_test(does_not_remember_failures),
		cmocka_unit_test_setup_teardown(writes_to_read_only_pages, setup, teardown),
		cmocka_unit_test_setup_teardown(notices_exit_and_exec, setup, teardown),
		cmocka_unit_test(errors_say_what),
		cmocka_unit_test_setup_teardown(another_user, setup, teardown),
	};

	return cmocka_run_group_tests_name("live", tests, NULL, NULL);
}
