/* SPDX-License-Identifier: Apache-2.0 */
/* Names below a directory that is the root: by hand they lead where openat2() says, never out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "target/in_root.h"

static char top[64];
static int root = -1;

static const struct {
	const char *link, *text;
} links[] = {
	{ "root/relative", "lib/file" },
	{ "root/absolute", "/lib/file" },
	{ "root/up", "../../../../lib/file" },
	{ "root/lib/back", "../usr/deep/file" },
	{ "root/dir", "usr" },
	{ "root/loop", "loop" },
	{ "root/out", "../outside" },
	{ "root/away", "/outside" },
	{ "root/dangling", "nowhere" },
	{ "root/slash", "/" },
	{ "root/usr/chain", "../dir/deep/../chain2" },
	{ "root/usr/chain2", "/absolute" },
};

static const char *const files[] = { "outside", "root/lib/file", "root/usr/deep/file",
				     "root/inside" };

static const char *const names[] = {
	"/lib/file",  "lib/file",    "//lib///file",    "/lib/./file",    "/relative",
	"/absolute",  "/up",         "/lib/back",       "/dir/deep/file", "/loop",
	"/out",       "/away",       "/dangling",       "/slash",         "/slash/lib/file",
	"/usr/chain", "/..",         "/../../lib/file", "/lib/..",        "/lib/../inside",
	"/lib/file/", "/lib/file/x", "/nowhere",        "/nowhere/..",    "/",
	".",          "/dir",        "/dir/",           "/lib/file/..",
};

static void in_top(char path[256], const char *name)
{
	snprintf(path, 256, "%s/%s", top, name);
}

static int setup(void **state)
{
	char path[256];

	(void)state;
	snprintf(top, sizeof(top), "/tmp/vramtap-in-root-XXXXXX");
	assert_non_null(mkdtemp(top));
	for (const char *const *dir =
		     (const char *const[]){ "root", "root/lib", "root/usr", "root/usr/deep", NULL };
	     *dir; dir++) {
		in_top(path, *dir);
		assert_int_equal(mkdir(path, 0700), 0);
	}
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		in_top(path, files[i]);
		assert_true(close(open(path, O_CREAT | O_WRONLY, 0600)) == 0);
	}
	for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
		in_top(path, links[i].link);
		assert_int_equal(symlink(links[i].text, path), 0);
	}
	in_top(path, "root");
	root = open(path, O_PATH | O_DIRECTORY);
	return root < 0;
}

static int teardown(void **state)
{
	char command[128];

	(void)state;
	close(root);
	snprintf(command, sizeof(command), "rm -rf %s", top);
	return system(command); /* NOLINT(cert-env33-c): a name of ours */
}

static void same(const char *name, int by_kernel, int kernel_errno, int by_hand, int hand_errno)
{
	struct stat a = { 0 }, b = { 0 };

	if ((by_kernel < 0) != (by_hand < 0))
		fail_msg("%s: openat2 %d (%s), by hand %d (%s)", name, by_kernel,
			 strerror(kernel_errno), by_hand, strerror(hand_errno));
	if (by_kernel < 0) {
		if (kernel_errno != hand_errno)
			fail_msg("%s: openat2 says %s, by hand %s", name, strerror(kernel_errno),
				 strerror(hand_errno));
		return;
	}
	fstat(by_kernel, &a);
	fstat(by_hand, &b);
	if (a.st_ino != b.st_ino || a.st_dev != b.st_dev)
		fail_msg("%s leads elsewhere", name);
}

static void test_as_openat2(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		int by_kernel = vt_in_root_find(root, names[i]), kernel_errno = errno;
		int by_hand = vt_in_root_walk(root, names[i]), hand_errno = errno;

		same(names[i], by_kernel, kernel_errno, by_hand, hand_errno);
		close(by_kernel);
		close(by_hand);
	}
}

/* Also with a kernel that has no openat2(), where both are the same. */
static void test_where_they_lead(void **state)
{
	static const struct {
		const char *name, *file; /* NULL: nowhere */
	} right[] = {
		{ "/absolute", "root/lib/file" },
		{ "/up", "root/lib/file" },
		{ "/lib/back", "root/usr/deep/file" },
		{ "/out", NULL },
		{ "/away", NULL },
		{ "/loop", NULL },
		{ "/usr/chain", "root/lib/file" },
		{ "/../../inside", "root/inside" },
		{ "/../outside", NULL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++) {
		int found = vt_in_root_walk(root, right[i].name);
		struct stat a, b;
		char path[256];

		if ((found < 0) != !right[i].file)
			fail_msg("%s: %d", right[i].name, found);
		if (!right[i].file)
			continue;
		in_top(path, right[i].file);
		assert_int_equal(stat(path, &a) + fstat(found, &b), 0);
		assert_true(a.st_ino == b.st_ino);
		close(found);
	}
}

_Noreturn static void rename_without_end(void)
{
	char a[256], b[256];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	in_top(a, "moves");
	in_top(b, "root/usr/moves");
	mkdir(a, 0700);
	while (!rename(a, b) && !rename(b, a))
		;
	_exit(1);
}

/* A file is found also then: openat2() gives up at "..", here each fiftieth time at most. */
static void test_while_others_rename(void **state)
{
	pid_t other = fork();
	int failed = 0;

	(void)state;
	if (!other)
		rename_without_end();
	for (int i = 0; i < 100000; i++) {
		int found = vt_in_root_find(root, "/lib/../usr/../lib/../usr/deep/file");

		failed += found < 0;
		close(found);
	}
	kill(other, SIGKILL);
	waitpid(other, NULL, 0);
	assert_int_equal(failed, 0);
}

/* Nothing stays open, however long or deep a name is. */
static void test_hostile(void **state)
{
	char *name = malloc(8192);
	int before = dup(0), after;

	(void)state;
	close(before);
	for (size_t n = 0; n + 4 < 8191; n += 4)
		strcpy(name + n, n % 8 ? "/dir" : "/lib");
	assert_int_equal(vt_in_root_walk(root, name), -1);
	for (size_t n = 0; n < 8190; n++)
		name[n] = n % 2 ? '.' : '/';
	assert_int_equal(vt_in_root_walk(root, name), -1); /* longer than the kernel takes */
	name[0] = '\0';
	for (int i = 0; i < 100; i++)
		strcat(name, "/usr/..");
	strcat(name, "/loop");
	assert_int_equal(vt_in_root_walk(root, name), -1);
	after = dup(0);
	assert_int_equal(after, before);
	close(after);
	free(name);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_as_openat2),
		cmocka_unit_test(test_where_they_lead),
		cmocka_unit_test(test_while_others_rename),
		cmocka_unit_test(test_hostile),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
