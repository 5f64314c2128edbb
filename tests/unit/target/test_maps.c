/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory map of this very process, of processes with odd file names, and of ones that have
 * none.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "target/maps.h"

#define PAGE 4096

static void succeed(struct vt_error *err)
{
	if (err)
		fail_msg("%s", err->message);
}

static void *map_somewhere(size_t len, int prot, int flags, int fd)
{
	void *p = mmap(NULL, len, prot, flags, fd, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

/* The kernel's text by another parser. */
static void equals_what_the_kernel_says(void **state)
{
	struct vt_maps maps = { 0 };
	FILE *fp;
	char line[4096];
	size_t i = 0, same = 0;
	(void)state;

	succeed(vt_maps_init(&maps, getpid()));
	fp = fopen("/proc/self/maps", "r");
	assert_non_null(fp);
	while (fgets(line, sizeof(line), fp)) {
		uint64_t start, end, offset, inode;
		unsigned int dev_major, dev_minor;
		char flags[5], path[2048] = "";

		assert_true(sscanf(line,
				   "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64
				   " %2047[^\n]",
				   &start, &end, flags, &offset, &dev_major, &dev_minor, &inode,
				   path) >= 7);
		/* stdio may have mapped or grown something since. */
		while (i < maps.entries.n && maps.entries.data[i].start < start)
			i++;
		if (i == maps.entries.n || maps.entries.data[i].start != start ||
		    maps.entries.data[i].end != end)
			continue;

		const struct vt_map_entry *entry = &maps.entries.data[i];

		assert_int_equal(entry->offset, offset);
		assert_int_equal(entry->inode, inode);
		assert_int_equal(entry->dev_major, dev_major);
		assert_int_equal(entry->dev_minor, dev_minor);
		assert_string_equal(entry->path, path);
		assert_int_equal(!!(entry->flags & VT_MAP_READ), flags[0] == 'r');
		assert_int_equal(!!(entry->flags & VT_MAP_WRITE), flags[1] == 'w');
		assert_int_equal(!!(entry->flags & VT_MAP_EXEC), flags[2] == 'x');
		assert_int_equal(!!(entry->flags & VT_MAP_SHARED), flags[3] == 's');
		same++;
	}
	fclose(fp);
	assert_true(same > 10);
	vt_maps_deinit(&maps);
}

static void finds_addresses(void **state)
{
	struct vt_maps maps = { 0 };
	char *p = map_somewhere(3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	const struct vt_map_entry *entry;
	(void)state;

	mprotect(p + PAGE, PAGE, PROT_NONE);
	succeed(vt_maps_init(&maps, getpid()));
	entry = vt_maps_find(&maps, (uintptr_t)p + PAGE);
	assert_non_null(entry);
	assert_int_equal(entry->start, (uintptr_t)p + PAGE);
	assert_int_equal(entry->end, (uintptr_t)p + 2 * PAGE);
	assert_int_equal(entry->flags, 0);
	assert_ptr_equal(vt_maps_find(&maps, (uintptr_t)p + 2 * PAGE - 1), entry);
	assert_ptr_not_equal(vt_maps_find(&maps, (uintptr_t)p + 2 * PAGE), entry);
	assert_null(vt_maps_find(&maps, 0));
	assert_null(vt_maps_find(&maps, UINT64_MAX));
	for (size_t i = 1; i < maps.entries.n; i++)
		assert_true(maps.entries.data[i - 1].end <= maps.entries.data[i].start);
	munmap(p, 3 * PAGE);
	vt_maps_deinit(&maps);
	assert_null(vt_maps_find(&maps, 1));
}

static void decodes_odd_names(void **state)
{
	char dir[] = "/tmp/vramtap-test-XXXXXX";
	char path[256], gone[300];
	struct vt_maps maps = { 0 };
	struct stat st;
	void *p;
	int fd;
	(void)state;

	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/a  \"b\n\\c \x1b[31m\xff d", dir);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, PAGE), 0);
	assert_int_equal(fstat(fd, &st), 0);
	p = map_somewhere(PAGE, PROT_READ, MAP_SHARED, fd);
	close(fd);
	for (int deleted = 0; deleted < 2; deleted++) {
		const struct vt_map_entry *entry;

		succeed(vt_maps_init(&maps, getpid()));
		entry = vt_maps_find(&maps, (uintptr_t)p);
		assert_non_null(entry);
		snprintf(gone, sizeof(gone), "%s%s", path, deleted ? " (deleted)" : "");
		assert_string_equal(entry->path, gone);
		assert_int_equal(entry->inode, st.st_ino);
		assert_int_equal(entry->flags, VT_MAP_READ | VT_MAP_SHARED);
		vt_maps_deinit(&maps);
		unlink(path);
	}
	rmdir(dir);
	munmap(p, PAGE);
}

static void *run_alone(void *arg)
{
	(void)arg;
	sleep(60);
	return NULL;
}

static void processes_without_memory(void **state)
{
	struct vt_maps maps = { 0 };
	struct vt_error *err;
	pid_t pid = fork();
	(void)state;

	if (pid == 0)
		_exit(0);
	waitid(P_PID, (id_t)pid, &(siginfo_t){ 0 }, WEXITED | WNOWAIT);
	for (int i = 0; i < 2; i++) {
		err = vt_maps_init(&maps, pid);
		assert_non_null(err);
		assert_int_equal(err->code, VT_ERR_GONE);
		vt_error_destroy(err);
		waitpid(pid, NULL, 0);
	}

	/* The main thread has ended, another one lives on: the memory is there still. */
	pid = fork();
	if (pid == 0) {
		pthread_t thread;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pthread_create(&thread, NULL, run_alone, NULL);
		pthread_exit(NULL);
	}
	for (int i = 0; i < 1000; i++) {
		char name[64], text[256] = "";
		FILE *fp;

		snprintf(name, sizeof(name), "/proc/%d/stat", (int)pid);
		fp = fopen(name, "r");
		assert_non_null(fp);
		assert_non_null(fgets(text, sizeof(text), fp));
		fclose(fp);
		if (strstr(text, ") Z "))
			break;
		usleep(1000);
	}
	succeed(vt_maps_init(&maps, pid));
	assert_true(maps.entries.n > 5);
	vt_maps_deinit(&maps);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* One that executes itself anew all the time, a thousand times a second, has a map all the time. */
static void process_that_executes_itself(void **state)
{
	static const char again[] = "exec /bin/sh -c \"$0\" \"$0\"";
	struct vt_maps maps = { 0 };
	pid_t pid = fork();
	(void)state;

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl("/bin/sh", "sh", "-c", again, again, NULL);
		_exit(1);
	}
	for (int i = 0; i < 5000; i++) {
		succeed(vt_maps_init(&maps, pid));
		vt_maps_deinit(&maps);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* A large map, and how long it takes. */
static void many_mappings(void **state)
{
	enum { N = 3000 };
	char *p = map_somewhere((size_t)2 * N * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	struct vt_maps maps = { 0 };
	uint64_t begin_ns, best_ns = UINT64_MAX;
	(void)state;

	for (int i = 0; i < N; i++)
		mprotect(p + (size_t)(2 * i) * PAGE, PAGE, PROT_NONE);
	for (int i = 0; i < 5; i++) {
		begin_ns = vt_now_ns();
		succeed(vt_maps_init(&maps, getpid()));
		begin_ns = vt_now_ns() - begin_ns;
		best_ns = begin_ns < best_ns ? begin_ns : best_ns;
		assert_true(maps.entries.n > 2 * N);
		for (int k = 0; k < N; k++)
			assert_int_equal(
				vt_maps_find(&maps, (uintptr_t)p + (size_t)(2 * k) * PAGE)->flags,
				0);
		if (i < 4)
			vt_maps_deinit(&maps);
	}
	print_message("%zu mappings: %.2f ms\n", maps.entries.n, (double)best_ns / VT_NS_PER_MS);
	vt_maps_deinit(&maps);
	munmap(p, (size_t)2 * N * PAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equals_what_the_kernel_says),
		cmocka_unit_test(finds_addresses),
		cmocka_unit_test(decodes_odd_names),
		cmocka_unit_test(processes_without_memory),
		cmocka_unit_test(process_that_executes_itself),
		cmocka_unit_test(many_mappings),
	};

	return cmocka_run_group_tests_name("maps", tests, NULL, NULL);
}
