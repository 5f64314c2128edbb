/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is remembered of addresses: between processes, when it is full, and when somebody writes
 * anything into it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "walk/native/lines_memo.h"

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

static bool claim(struct vt_lines_memo *memo, uint64_t vaddr)
{
	struct vt_lines_key key = key_of(vaddr);

	return vt_lines_memo_claim(memo, &key);
}

/*
 * A process that claims [first, first + n), says so, and ends or settles them when it is told to.
 */
struct claimer {
	pid_t pid;
	int from, to;
};

static void claim_and_wait(struct vt_lines_memo *memo, uint64_t first, uint64_t n, int to, int from)
{
	char c = 0;

	for (uint64_t i = first; i < first + n; i++)
		c += claim(memo, i);
	(void)!write(to, &c, 1);
	if (read(from, &c, 1) != 1)
		_exit(0);
	for (uint64_t i = first; i < first + n; i++) {
		struct vt_lines_key key = key_of(i);

		vt_lines_memo_settle(memo, &key);
	}
	vt_lines_memo_tell(memo);
	pause();
}

static struct claimer start_claimer(struct vt_lines_memo *memo, uint64_t first, uint64_t n)
{
	struct claimer claimer;
	int out[2], back[2];
	char c = 0;

	assert_int_equal(pipe(out), 0);
	assert_int_equal(pipe(back), 0);
	claimer.pid = fork();
	if (claimer.pid == 0) {
		close(out[0]);
		close(back[1]);
		claim_and_wait(memo, first, n, out[1], back[0]);
		_exit(0);
	}
	close(out[1]);
	close(back[0]);
	assert_int_equal(read(out[0], &c, 1), 1);
	assert_int_equal(c, n);
	claimer.from = out[0];
	claimer.to = back[1];
	return claimer;
}

static void end_claimer(const struct claimer *claimer)
{
	kill(claimer->pid, SIGKILL);
	assert_int_equal(waitpid(claimer->pid, NULL, 0), claimer->pid);
	close(claimer->from);
	close(claimer->to);
}

static void one_process_finds_out(void **state)
{
	struct vt_lines_memo *memo = vt_lines_memo_create();
	uint64_t deadline_ns = vt_now_ns() + 10 * VT_NS_PER_S;
	struct claimer claimer = start_claimer(memo, 0, 100);
	uint32_t told = 0;
	(void)state;

	for (uint64_t i = 0; i < 100; i++)
		assert_false(claim(memo, i));
	assert_true(claim(memo, 100));
	assert_true(claim(memo, 100)); /* it is ours */
	vt_lines_memo_wait(memo, &told, vt_now_ns() + VT_NS_PER_MS);
	assert_int_equal(told, 0);
	assert_int_equal(write(claimer.to, "x", 1), 1);
	while (told == 0 && !vt_deadline_passed(deadline_ns))
		vt_lines_memo_wait(memo, &told, deadline_ns);
	assert_int_equal(told, 1);
	/* It knew nothing of these. */
	for (uint64_t i = 0; i < 100; i++)
		assert_true(claim(memo, i));
	end_claimer(&claimer);
	assert_true(claim(NULL, 0));
	vt_lines_memo_destroy(memo);
}

static void what_a_dead_process_wanted_to_find_out_is_free(void **state)
{
	struct vt_lines_memo *memo = vt_lines_memo_create();
	struct claimer dead = start_claimer(memo, 0, 10), heir;
	(void)state;

	assert_false(claim(memo, 5));
	end_claimer(&dead);
	heir = start_claimer(memo, 0, 10); /* all of them */
	assert_false(claim(memo, 5));
	end_claimer(&heir);
	assert_true(claim(memo, 5));
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
		for (uint64_t i = 0; i < 64; i++)
			claim(memo, i);
		/* The counters, the slots, the claims, and the beginning of the data. */
		for (size_t i = 0; i < 54000; i++)
			if (rand_r(&seed) % 8 == 0 && words[i])
				words[i] = (uint32_t)rand_r(&seed) << (rand_r(&seed) % 8);
		for (uint64_t i = 0; i < 64; i++) {
			struct vt_lines_key key = key_of(i);
			struct vt_str out = { 0 };

			vt_lines_memo_find(memo, &key, &out);
			vt_str_deinit(&out);
			add(memo, i + 64, "more");
			claim(memo, i);
			vt_lines_memo_settle(memo, &key);
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
		cmocka_unit_test(one_process_finds_out),
		cmocka_unit_test(what_a_dead_process_wanted_to_find_out_is_free),
		cmocka_unit_test(trusts_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
