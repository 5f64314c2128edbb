/* SPDX-License-Identifier: Apache-2.0 */
/* What is remembered of addresses: between processes, when it is full, and when somebody writes anything into it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "walk/lines_memo.h"

static struct vt_lines_key key_of(uint64_t vaddr)
{
	struct vt_lines_key key;

	memset(&key, 0, sizeof(key));
	key.inode = 7;
	key.vaddr = vaddr;
	return key;
}

static void add(struct vt_lines_memo *memo, uint64_t vaddr, const char *text)
{
	struct vt_lines_key key = key_of(vaddr);

	vt_lines_memo_add(memo, &key, text, strlen(text));
}

static bool has(const struct vt_lines_memo *memo, uint64_t vaddr, const char *text)
{
	struct vt_lines_key key = key_of(vaddr);
	struct vt_str out = { 0 };
	bool found = vt_lines_memo_find(memo, &key, &out);

	if (found)
		assert_string_equal(vt_str_get(&out), text);
	vt_str_deinit(&out);
	return found;
}

static void remembers_what_others_added(void **state)
{
	struct vt_lines_memo *memo = vt_lines_memo_create();
	pid_t pid;
	(void)state;

	assert_non_null(memo);
	assert_false(has(memo, 0, ""));
	pid = fork();
	if (pid == 0) {
		for (uint64_t i = 0; i < 1000; i++)
			add(memo, i * 16, i % 2 ? "odd" : "");
		_exit(0);
	}
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	for (uint64_t i = 0; i < 1000; i++)
		assert_true(has(memo, i * 16, i % 2 ? "odd" : ""));
	assert_false(has(memo, 8, ""));
	vt_lines_memo_destroy(memo);
}

static void knows_files_apart(void **state)
{
	struct vt_lines_key a, b;
	char path[] = "/tmp/vramtap-test-XXXXXX";
	int fd = mkstemp(path), null = open("/dev/null", O_RDONLY);
	(void)state;

	assert_true(vt_lines_key_init(&a, fd) && vt_lines_key_init(&b, fd));
	assert_memory_equal(&a, &b, sizeof(a));
	assert_true(vt_lines_key_init(&b, null));
	assert_memory_not_equal(&a, &b, sizeof(a));
	assert_int_equal(write(fd, "x", 1), 1);
	assert_true(vt_lines_key_init(&b, fd));
	assert_memory_not_equal(&a, &b, sizeof(a));
	assert_false(vt_lines_key_init(&a, -1));
	close(fd);
	close(null);
	unlink(path);
}

static void takes_no_more_than_it_has_room_for(void **state)
{
	struct vt_lines_memo *memo = vt_lines_memo_create();
	char *large = malloc(60001);
	size_t n = 0;
	(void)state;

	memset(large, 'x', 60000);
	large[60000] = '\0';
	for (uint64_t i = 0; i < 1000; i++)
		add(memo, i, large);
	for (uint64_t i = 0; i < 1000; i++)
		n += has(memo, i, large);
	assert_true(n > 60 && n < 80);
	/* Nothing is remembered without a memo. */
	add(NULL, 1, "x");
	assert_false(has(NULL, 1, "x"));
	free(large);
	vt_lines_memo_destroy(memo);
}

/* Others may have been taken over by what they read. */
static void trusts_nothing(void **state)
{
	unsigned int seed = 4711;
	(void)state;

	for (int round = 0; round < 200; round++) {
		struct vt_lines_memo *memo = vt_lines_memo_create();
		uint32_t *words = (uint32_t *)(void *)memo;

		for (uint64_t i = 0; i < 64; i++)
			add(memo, i, "text");
		/* The counter, the slots, and the beginning of the data. */
		for (size_t i = 0; i < 20000; i++)
			if (rand_r(&seed) % 8 == 0 && words[i])
				words[i] = (uint32_t)rand_r(&seed) << (rand_r(&seed) % 8);
		for (uint64_t i = 0; i < 64; i++) {
			struct vt_lines_key key = key_of(i);
			struct vt_str out = { 0 };

			vt_lines_memo_find(memo, &key, &out);
			vt_str_deinit(&out);
			add(memo, i + 64, "more");
		}
		vt_lines_memo_destroy(memo);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(remembers_what_others_added),
		cmocka_unit_test(knows_files_apart),
		cmocka_unit_test(takes_no_more_than_it_has_room_for),
		cmocka_unit_test(trusts_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
