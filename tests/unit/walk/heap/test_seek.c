/* SPDX-License-Identifier: Apache-2.0 */
/* A child plants addresses in all sorts of places; who holds them is known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "target/live.h"
#include "walk/heap/seek.h"

enum target {
	IN_DATA,
	IN_BSS,
	BY_CHUNKS, /* static → chunk → chunk (16 bytes into it) → target */
	IN_CYCLE,  /* two chunks that hold each other, and one of them the target */
	ON_STACK,
	BELOW_STACK,
	IN_FREED,
	IN_MAPPING,
	IN_MANY,   /* 1000 words of a chunk */
	IN_ITSELF, /* a chunk, which nobody else refers to */
	NOWHERE,
	DEEP, /* more chunks than are followed */
	N_TARGETS
};

enum { DEPTH = 9 };

/* What the child says, in memory that is shared and so not searched. */
struct said {
	uint64_t itself, chunks[3], cycle[2], freed, mapping, many, deep[DEPTH];
	uint64_t stack_at, dead_at;
	struct vt_seek_stack stacks[2];
};

static struct said *said;
static pid_t child;
static struct vt_live *live;
static struct vt_maps maps;
static struct vt_resident resident;
static struct vt_chunks chunks;
static struct vt_seek_options options;
static uint64_t targets[N_TARGETS]; /* set after the fork */

static uint64_t in_data = 1;
static uint64_t in_bss, head, deep_head;
static uint64_t large_bss[4096]; /* so that .bss has pages of its own */

/* Not a constant that lies in memory. */
static uint64_t address(enum target target)
{
	volatile uint32_t high = 0x7123, low = 0x45678000;

	return (uint64_t)high << 32 | (low + (uint32_t)target * 64);
}

static void succeed(struct vt_error *err)
{
	if (err)
		fail_msg("%s", err->message);
}

/* The child. */

static void *(*libc_malloc)(size_t size);
static void (*libc_free)(void *p);

static uint64_t *chunk(size_t words)
{
	uint64_t *p = libc_malloc(words * 8);

	if (!p)
		abort();
	memset(p, 0, words * 8);
	return p;
}

static __attribute__((noinline)) void plant_below(uint64_t *where)
{
	volatile uint64_t words[64];

	words[3] = address(BELOW_STACK);
	*where = (uint64_t)(uintptr_t)&words[3];
}

static void *sit_in_thread(void *arg)
{
	volatile uint64_t word = address(ON_STACK);
	pthread_attr_t attr;
	void *low;
	size_t size;

	(void)arg;
	said->stack_at = (uint64_t)(uintptr_t)&word;
	plant_below(&said->dead_at);
	if (pthread_getattr_np(pthread_self(), &attr) || pthread_attr_getstack(&attr, &low, &size))
		abort();
	/* Between word and what was planted below it. */
	said->stacks[0] = (struct vt_seek_stack){ 4711, said->stack_at - 16,
						  (uint64_t)(uintptr_t)low + size };
	for (;;)
		pause();
	return NULL;
}

/* What it leaves on the stack is below the stack pointer once it returned. */
static __attribute__((noinline)) void plant(void)
{
	uint64_t *a = chunk(20), *b = chunk(30), *c = chunk(7), *map;

	in_data = address(IN_DATA);
	in_bss = address(IN_BSS);
	large_bss[2000] = address(IN_BSS);
	head = (uint64_t)(uintptr_t)a;
	a[11] = (uint64_t)(uintptr_t)b + 16;
	b[29] = address(BY_CHUNKS);
	said->chunks[0] = (uint64_t)(uintptr_t)a;
	said->chunks[1] = (uint64_t)(uintptr_t)b;

	a = chunk(10);
	b = chunk(10);
	a[1] = (uint64_t)(uintptr_t)b;
	b[1] = (uint64_t)(uintptr_t)a;
	b[2] = address(IN_CYCLE);
	said->cycle[0] = (uint64_t)(uintptr_t)a;
	said->cycle[1] = (uint64_t)(uintptr_t)b;

	c[3] = (uint64_t)(uintptr_t)c;
	said->itself = (uint64_t)(uintptr_t)c;

	a = chunk(50);
	a[40] = address(IN_FREED);
	said->freed = (uint64_t)(uintptr_t)&a[40];
	libc_free(a);

	map = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	map[70000] = address(IN_MAPPING);
	said->mapping = (uint64_t)(uintptr_t)&map[70000];

	a = chunk(1000);
	for (int i = 0; i < 1000; i++)
		a[i] = address(IN_MANY);
	said->many = (uint64_t)(uintptr_t)a;

	a = &deep_head;
	for (int i = 0; i < DEPTH; i++) {
		b = chunk(12);
		a[i ? 5 : 0] = (uint64_t)(uintptr_t)b;
		said->deep[i] = (uint64_t)(uintptr_t)b;
		a = b;
	}
	a[5] = address(DEEP);
}

static void be_child(uint64_t stack_end)
{
	void *handle = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
	/* Above our own frame, in which there may be what others left. */
	uint64_t sp = (uint64_t)(uintptr_t)__builtin_frame_address(0);
	pthread_t thread;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	*(void **)&libc_malloc = dlsym(handle, "malloc");
	*(void **)&libc_free = dlsym(handle, "free");
	plant();
	if (pthread_create(&thread, NULL, sit_in_thread, NULL))
		abort();
	while (!((volatile struct said *)said)->stacks[0].end)
		usleep(1000);
	said->stacks[1] = (struct vt_seek_stack){ 4712, sp, stack_end };
	raise(SIGSTOP);
	_exit(0);
}

static int setup(void **state)
{
	uint64_t stack_end;
	int status;

	(void)state;
	succeed(vt_maps_init(&maps, getpid()));
	stack_end = vt_maps_find(&maps, (uintptr_t)&status)->end;
	vt_maps_deinit(&maps);
	said = mmap(NULL, sizeof(*said), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(said, MAP_FAILED);
	child = fork();
	if (child == 0)
		be_child(stack_end);
	assert_int_equal(waitpid(child, &status, WUNTRACED), child);
	assert_true(WIFSTOPPED(status));
	succeed(vt_live_create(child, &live));
	vt_live_set_coherent(live, true);
	succeed(vt_maps_init(&maps, child));
	succeed(vt_resident_init(&resident, child, &maps, UINT64_C(1) << 32));
	succeed(vt_chunks_init(&chunks, vt_live_source(live), &maps, &resident, 1 << 20));
	for (size_t i = 0; i < N_TARGETS; i++)
		targets[i] = address((enum target)i);
	targets[IN_ITSELF] = said->itself;
	options = (struct vt_seek_options){ .maps = &maps,
					    .resident = &resident,
					    .chunks = &chunks,
					    .stacks = said->stacks,

					    .n_stacks = 2,
					    .max_levels = VT_SEEK_MAX_LEVELS,
					    .max_hits = 10000,
					    .max_hits_each = 100,
					    .deadline_ns = UINT64_MAX };
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	vt_chunks_deinit(&chunks);
	vt_resident_deinit(&resident);
	vt_maps_deinit(&maps);
	vt_live_destroy(live);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	munmap(said, sizeof(*said));
	return 0;
}

static size_t seek_one(struct vt_seek *seek, uint64_t target,
		       const struct vt_seek_hit *chain[VT_SEEK_MAX_LEVELS])
{
	succeed(vt_seek_init(seek, vt_live_source(live), &options, &target, 1));
	return vt_seek_chain(seek, 0, chain);
}

static const struct vt_seek_hit *hit_at(const struct vt_seek *seek, uint64_t at)
{
	for (size_t i = 0; i < seek->hits.n; i++)
		if (seek->hits.data[i].at == at)
			return &seek->hits.data[i];
	return NULL;
}

static void data_and_bss_of_a_module_are_static(void **state)
{
	const struct vt_seek_hit *chain[VT_SEEK_MAX_LEVELS], *hit;
	const struct vt_map_entry *code;
	struct vt_seek seek;

	(void)state;
	assert_int_equal(seek_one(&seek, targets[IN_DATA], chain), 1);
	assert_int_equal(chain[0]->at, (uintptr_t)&in_data);
	assert_int_equal(chain[0]->place, VT_SEEK_STATIC);
	code = vt_maps_find(&maps, (uintptr_t)be_child);
	assert_string_equal(maps.entries.data[chain[0]->map].path, code->path);
	assert_int_equal(maps.entries.data[chain[0]->map].start, chain[0]->start);
	assert_int_equal(maps.entries.data[chain[0]->map].offset, 0);
	assert_true(seek.nodes.data[0].rooted);
	assert_int_equal(seek.levels, 1); /* nothing more to look for */
	vt_seek_deinit(&seek);

	assert_int_equal(seek_one(&seek, targets[IN_BSS], chain), 1);
	for (int i = 0; i < 2; i++) {
		hit = hit_at(&seek, i ? (uintptr_t)&large_bss[2000] : (uintptr_t)&in_bss);
		assert_non_null(hit);
		assert_int_equal(hit->place, VT_SEEK_STATIC);
		assert_string_equal(maps.entries.data[hit->map].path, code->path);
	}
	vt_seek_deinit(&seek);
}

static void chunks_are_followed_to_what_holds_them(void **state)
{
	const struct vt_seek_hit *chain[VT_SEEK_MAX_LEVELS];
	struct vt_seek seek;

	(void)state;
	assert_int_equal(seek_one(&seek, targets[BY_CHUNKS], chain), 3);
	assert_int_equal(chain[0]->place, VT_SEEK_CHUNK);
	assert_int_equal(chain[0]->start, said->chunks[1]);
	assert_int_equal(chain[0]->at, said->chunks[1] + 29 * 8);
	assert_false(chain[0]->inside);
	assert_int_equal(seek.nodes.data[chain[0]->from].addr, said->chunks[1]);
	assert_true(seek.nodes.data[chain[0]->from].bytes >= 240);
	assert_int_equal(chain[1]->to, chain[0]->from);
	assert_int_equal(chain[1]->start, said->chunks[0]);
	assert_int_equal(chain[1]->at, said->chunks[0] + 11 * 8);
	assert_true(chain[1]->inside);
	assert_int_equal(chain[2]->place, VT_SEEK_STATIC);
	assert_int_equal(chain[2]->at, (uintptr_t)&head);
	vt_seek_deinit(&seek);
}

static void stacks_count_above_their_pointers(void **state)
{
	const struct vt_seek_hit *chain[VT_SEEK_MAX_LEVELS], *hit;
	struct vt_seek seek;

	(void)state;
	assert_int_equal(seek_one(&seek, targets[ON_STACK], chain), 1);
	assert_int_equal(chain[0]->place, VT_SEEK_STACK);
	assert_int_equal(chain[0]->tid, 4711);
	hit = hit_at(&seek, said->stack_at);
	assert_non_null(hit);
	assert_int_equal(hit->start, said->stacks[0].sp);
	vt_seek_deinit(&seek);

	assert_true(said->dead_at < said->stacks[0].sp);
	seek_one(&seek, targets[BELOW_STACK], chain);
	assert_null(hit_at(&seek, said->dead_at));
	vt_seek_deinit(&seek);
}

static void what_own_modules_hold_is_no_answer(void **state)
{
	const char *const own[] = { "libnothing", program_invocation_short_name };
	const struct vt_seek_hit *chain[VT_SEEK_MAX_LEVELS];
	struct vt_seek seek;

	(void)state;
	options.own_modules = own;
	options.n_own_modules = 2;
	seek_one(&seek, targets[IN_DATA], chain);
	assert_int_equal(hit_at(&seek, (uintptr_t)&in_data)->place, VT_SEEK_OWN);
	assert_false(seek.nodes.data[0].rooted);
	vt_seek_deinit(&seek);
	/* Chunks that it holds, too, at any distance. */
	assert_int_equal(seek_one(&seek, targets[BY_CHUNKS], chain), 0);
	assert_int_equal(seek.nodes.n, 3);
	assert_true(seek.nodes.data[1].own && seek.nodes.data[2].own);
	assert_false(seek.nodes.data[0].own);
	vt_seek_deinit(&seek);
	assert_int_equal(seek_one(&seek, targets[ON_STACK], chain), 1);
	vt_seek_deinit(&seek);
	options.n_own_modules = 0;
}

static void what_is_free_holds_nothing(void **state)
{
	const struct vt_seek_hit *chain[VT_SEEK_MAX_LEVELS];
	struct vt_seek seek;

	(void)state;
	seek_one(&seek, targets[IN_FREED], chain);
	assert_null(hit_at(&seek, said->freed));
	vt_seek_deinit(&seek);
	/* Without the list of chunks it cannot be told. */
	options.chunks = NULL;
	seek_one(&seek, targets[IN_FREED], chain);
	options.chunks = &chunks;
	assert_non_null(hit_at(&seek, said->freed));
	assert_int_equal(hit_at(&seek, said->freed)->place, VT_SEEK_OTHER);
	vt_seek_deinit(&seek);
}

static void other_mappings_are_named_as_such(void **state)
{
	const struct vt_seek_hit *chain[VT_SEEK_MAX_LEVELS], *hit;
	struct vt_seek seek;

	(void)state;
	assert_int_equal(seek_one(&seek, targets[IN_MAPPING], chain), 1);
	hit = hit_at(&seek, said->mapping);
	assert_non_null(hit);
	assert_int_equal(hit->place, VT_SEEK_OTHER);
	assert_int_equal(hit->start, maps.entries.data[hit->map].start);
	assert_true(hit->start <= hit->at && hit->at < maps.entries.data[hit->map].end);
	assert_false(seek.nodes.data[0].rooted);
	vt_seek_deinit(&seek);
}

static void circles_and_references_to_itself_end(void **state)
{
	const struct vt_seek_hit *chain[VT_SEEK_MAX_LEVELS];
	struct vt_seek seek;
	size_t n = seek_one(&seek, targets[IN_CYCLE], chain);

	(void)state;
	assert_int_equal(n, 2);
	assert_int_equal(chain[0]->start, said->cycle[1]);
	assert_int_equal(chain[1]->start, said->cycle[0]);
	assert_false(seek.nodes.data[0].rooted);
	vt_seek_deinit(&seek);

	seek_one(&seek, targets[IN_ITSELF], chain);
	assert_null(hit_at(&seek, said->itself + 3 * 8));
	vt_seek_deinit(&seek);
	assert_int_equal(seek_one(&seek, targets[NOWHERE], chain), 0);
	vt_seek_deinit(&seek);
}

static void chains_end_at_the_last_level(void **state)
{
	const struct vt_seek_hit *chain[VT_SEEK_MAX_LEVELS];
	struct vt_seek seek;

	(void)state;
	assert_int_equal(seek_one(&seek, targets[DEEP], chain), VT_SEEK_MAX_LEVELS);
	for (int i = 0; i < VT_SEEK_MAX_LEVELS; i++)
		assert_int_equal(chain[i]->start, said->deep[DEPTH - 1 - i]);
	assert_false(seek.nodes.data[0].rooted);
	assert_int_equal(seek.levels, VT_SEEK_MAX_LEVELS);
	vt_seek_deinit(&seek);
	/* Nearer to the root there are fewer. */
	assert_int_equal(seek_one(&seek, said->deep[4], chain), 5);
	assert_int_equal(chain[4]->at, (uintptr_t)&deep_head);
	assert_true(seek.nodes.data[0].rooted);
	vt_seek_deinit(&seek);
}

static void many_targets_are_found_in_one_search(void **state)
{
	const struct vt_seek_hit *chain[VT_SEEK_MAX_LEVELS];
	struct vt_seek seek;

	(void)state;
	succeed(vt_seek_init(&seek, vt_live_source(live), &options, targets, N_TARGETS));
	assert_int_equal(vt_seek_chain(&seek, IN_DATA, chain), 1);
	assert_int_equal(chain[0]->at, (uintptr_t)&in_data);
	assert_int_equal(vt_seek_chain(&seek, BY_CHUNKS, chain), 3);
	assert_int_equal(chain[2]->at, (uintptr_t)&head);
	assert_int_equal(vt_seek_chain(&seek, ON_STACK, chain), 1);
	assert_int_equal(vt_seek_chain(&seek, NOWHERE, chain), 0);
	for (uint32_t i = 0; i < seek.nodes.n; i++)
		for (uint32_t h = 0; h < seek.nodes.data[i].n_hits; h++)
			assert_int_equal(seek.hits.data[seek.nodes.data[i].hits + h].to, i);
	vt_seek_deinit(&seek);
}

static bool is_many(void *arg, const struct vt_seek_hit *hit)
{
	++*(size_t *)arg;
	return hit->place == VT_SEEK_CHUNK && hit->start == said->many;
}

static void bounds_end_the_search_and_say_so(void **state)
{
	const struct vt_seek_hit *chain[VT_SEEK_MAX_LEVELS];
	struct vt_seek seek;
	size_t asked = 0;

	(void)state;
	seek_one(&seek, targets[IN_MANY], chain);
	assert_int_equal(seek.nodes.data[0].n_hits, 100);
	assert_true(seek.nodes.data[0].truncated);
	vt_seek_deinit(&seek);

	options.max_hits = 7;
	seek_one(&seek, targets[IN_MANY], chain);
	options.max_hits = 10000;
	assert_int_equal(seek.hits.n, 7);
	assert_true(seek.cut);
	vt_seek_deinit(&seek);

	options.deadline_ns = vt_now_ns();
	assert_int_equal(seek_one(&seek, targets[DEEP], chain), 0);
	options.deadline_ns = UINT64_MAX;
	assert_true(seek.cut);
	assert_int_equal(seek.levels, 0);
	vt_seek_deinit(&seek);

	options.leave_out = is_many;
	options.arg = &asked;
	assert_int_equal(seek_one(&seek, targets[IN_MANY], chain), 0);
	options.leave_out = NULL;
	assert_true(asked >= 1000);
	vt_seek_deinit(&seek);
}

static void pages_that_vanished_are_left_out(void **state)
{
	struct vt_resident more = { 0 };
	const struct vt_seek_hit *chain[VT_SEEK_MAX_LEVELS];
	struct vt_seek seek;

	(void)state;
	/* A range that is not mapped, between those that are. */
	assert_true(vt_vec_reserve(&more.ranges, resident.ranges.n + 1));
	more.ranges.data[more.ranges.n++] = (struct vt_range){ 4096, 40960 };
	for (size_t i = 0; i < resident.ranges.n; i++)
		more.ranges.data[more.ranges.n++] = resident.ranges.data[i];
	options.resident = &more;
	assert_int_equal(seek_one(&seek, targets[BY_CHUNKS], chain), 3);
	options.resident = &resident;
	assert_int_equal(chain[2]->at, (uintptr_t)&head);
	vt_seek_deinit(&seek);
	vt_vec_deinit(&more.ranges);
}

static void a_process_that_ended_is_an_error(void **state)
{
	struct vt_seek seek;
	struct vt_error *err;

	(void)state;
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	err = vt_seek_init(&seek, vt_live_source(live), &options, targets, N_TARGETS);
	assert_non_null(err);
	assert_int_equal(err->code, VT_ERR_GONE);
	vt_error_destroy(err);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(data_and_bss_of_a_module_are_static),
		cmocka_unit_test(chunks_are_followed_to_what_holds_them),
		cmocka_unit_test(stacks_count_above_their_pointers),
		cmocka_unit_test(what_own_modules_hold_is_no_answer),
		cmocka_unit_test(what_is_free_holds_nothing),
		cmocka_unit_test(other_mappings_are_named_as_such),
		cmocka_unit_test(circles_and_references_to_itself_end),
		cmocka_unit_test(chains_end_at_the_last_level),
		cmocka_unit_test(many_targets_are_found_in_one_search),
		cmocka_unit_test(bounds_end_the_search_and_say_so),
		cmocka_unit_test(pages_that_vanished_are_left_out),
		cmocka_unit_test(a_process_that_ended_is_an_error),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
