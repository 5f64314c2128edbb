/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints what vramtap reads of a Python process, in the format in which tests/targets/pyprog_*.py
 * write the truth:
 *
 *   python_frames [OPTION…] PID
 *     thread TID
 *     FUNCTION|FILE|LINE        innermost first
 *
 *   -s TID  leave this thread out
 *   -k      the process is stopped: nothing can change
 *   -e      instead: "TID ENTRIES", how many calls of the evaluator each thread is in
 *   -f      instead: release, GIL holder, sizes, and how long a capture takes
 *   -v      local variables too, after their frame: "  NAME=VALUE" (needs -k)
 *   -w      instead: "TID INTERPRETER GIL WAITS", whether each thread holds the GIL of its
 *           interpreter, and whose it waits for
 *   -z SEED instead: reads it some hundred times with words of its memory damaged at random, and
 *           prints "survived"
 *   -l      instead: for each line "CODE LASTI" of standard input, the same with the line number
 *           added
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "target/live.h"
#include "walk/python/python.h"

#define CAPTURES 10 /* the quickest one counts */

struct options {
	char what; /* 0, or one of e, f, l, w, z */
	uint64_t seed;
	bool stopped;
	long skip;
	pid_t pid;
};

struct seen {
	struct vt_live *live;
	struct vt_maps maps;
	struct vt_modules modules;
	struct vt_python py;
	uint64_t find_ns, capture_ns, resolve_ns;
};

static void print_escaped(const char *text)
{
	if (!text)
		text = "?";
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c > 0x20 && c < 0x7f && c != '\\' && c != '|')
			putchar(c);
		else
			printf("\\x%02x", c);
	}
}

static int by_tid(const void *a, const void *b)
{
	const struct vt_python_thread *x = a, *y = b;

	return (x->tid > y->tid) - (x->tid < y->tid);
}

static void print_locals(const struct vt_python_locals *locals)
{
	for (uint32_t i = 0; locals && i < locals->n; i++) {
		printf("  ");
		print_escaped(locals->items[i].name);
		printf("=%s\n", locals->items[i].value);
	}
	if (locals && locals->cut)
		printf("  ...\n");
}

/*
 * The system call that a thread sleeps in: its number and first argument. False when it is in none.
 */
static bool sleeps_on(pid_t pid, pid_t tid, uint64_t *address)
{
	char path[64];
	unsigned long nr;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", pid, tid);

	FILE *file = fopen(path, "re");
	bool found = file && fscanf(file, "%lu %" SCNx64, &nr, address) == 2 && nr == SYS_futex;

	if (file)
		fclose(file);
	return found;
}

static void print_gils(const struct vt_python *py, pid_t pid)
{
	for (size_t i = 0; i < py->threads.n; i++) {
		const struct vt_python_thread *thread = &py->threads.data[i];
		const struct vt_python_gil *gil = NULL;
		uint64_t futex;

		if (sleeps_on(pid, thread->tid, &futex))
			gil = vt_python_waits_for_gil(py, thread, futex);
		printf("%d %u %d %d\n", thread->tid, thread->interpreter_id,
		       vt_python_holds_gil(py, thread), gil ? gil->holder_tid : 0);
	}
}

static void print_frames(const struct vt_python *py, long skip)
{
	for (size_t i = 0; i < py->threads.n; i++) {
		const struct vt_python_thread *thread = &py->threads.data[i];

		if (thread->tid == skip || (!thread->frames.n && !thread->why[0]))
			continue;
		printf("thread %d\n", thread->tid);
		for (size_t f = 0; f < thread->frames.n; f++) {
			const struct vt_python_frame *frame = &thread->frames.data[f];

			print_escaped(frame->function);
			putchar('|');
			print_escaped(frame->file);
			printf("|%d\n", frame->line);
			print_locals(frame->locals);
		}
		if (thread->why[0])
			printf("why: %s\n", thread->why);
	}
	if (py->n_without_locals)
		printf("without locals: %zu frames\n", py->n_without_locals);
}

static size_t count_entries(const struct vt_python_thread *thread)
{
	size_t n = 0;

	for (size_t i = 0; i < thread->frames.n; i++)
		n += thread->frames.data[i].entry;
	return n;
}

static void print_entries(const struct vt_python *py)
{
	for (size_t i = 0; i < py->threads.n; i++)
		printf("%d %zu\n", py->threads.data[i].tid, count_entries(&py->threads.data[i]));
}

static void print_facts(const struct seen *seen)
{
	const struct vt_python *py = &seen->py;
	size_t frames = 0;
	const struct vt_python_gil *gil = NULL;

	for (size_t i = 0; i < py->threads.n; i++)
		frames += py->threads.data[i].frames.n;
	for (size_t i = 0; i < py->gils.n; i++)
		gil = py->gils.data[i].of_main ? &py->gils.data[i] : gil;
	printf("version %d.%d.%d%s\n", py->major, py->minor, py->micro,
	       py->free_threaded ? "t" : "");
	if (gil && gil->known)
		printf("gil %d\n", gil->holder_tid);
	else
		printf("gil unknown\n");
	printf("threads %zu frames %zu\n", py->threads.n, frames);
	printf("find %" PRIu64 " us, capture %" PRIu64 " us, resolve %" PRIu64 " us\n",
	       seen->find_ns / 1000, seen->capture_ns / 1000, seen->resolve_ns / 1000);
}

/* Resolves frames that are made up of standard input. */
static struct vt_error *print_lines(struct vt_python *py, struct vt_memsrc *src)
{
	char line[80];

	if (!py->threads.n)
		return vt_error_create(VT_ERR_NOTFOUND, "no thread");

	struct vt_python_thread *thread = &py->threads.data[0];

	py->threads.n = 1;
	thread->frames.n = 0;
	while (fgets(line, sizeof(line), stdin)) {
		struct vt_python_frame *frame = vt_vec_append(&thread->frames);
		char *lasti;

		if (!frame)
			return &vt_enomem;
		/*
		 * As of a generator, so that a frame before its first traceable instruction is not
		 * hidden.
		 */
		*frame = (struct vt_python_frame){ .code = strtoull(line, &lasti, 16),
						   .generator = true };
		frame->lasti = (int32_t)strtol(lasti, NULL, 10);
	}
	VT_TRY(vt_python_resolve(py, src));
	for (size_t i = 0; i < thread->frames.n; i++)
		printf("%" PRIx64 " %d %d\n", thread->frames.data[i].code,
		       thread->frames.data[i].lasti, thread->frames.data[i].line);
	return NULL;
}

/* A source whose words are wrong now and then. */
struct damage {
	struct vt_memsrc src;
	struct vt_memsrc *under;
	uint64_t random; /* state of a xorshift generator */
	uint64_t last;   /* a word that was read before */
	uint64_t one_in; /* how many words are right */
};

static uint64_t next_random(struct damage *damage)
{
	damage->random ^= damage->random << 13;
	damage->random ^= damage->random >> 7;
	damage->random ^= damage->random << 17;
	return damage->random;
}

static uint64_t damaged_word(struct damage *damage, uint64_t word)
{
	uint64_t r = next_random(damage);

	switch (r % 7) {
	case 0:
		return word ^ UINT64_C(1) << (r >> 8) % 64;
	case 1:
		return word + (r >> 8) % 64 * 8;
	case 2:
		return damage->last;
	case 3:
		return r;
	case 4:
		return (r >> 8) % 100;
	case 5:
		return UINT64_MAX - (r >> 8) % 100;
	default:
		return UINT64_C(1) << (r >> 8) % 64;
	}
}

static int damaged_read(struct vt_memsrc *src, uint64_t addr, void *buf, size_t len)
{
	struct damage *damage = (struct damage *)(void *)src;
	uint8_t *bytes = buf;
	int ret = vt_mem_read(damage->under, addr, buf, len);

	src->fault_addr = damage->under->fault_addr;
	for (size_t i = 0; !ret && i + 8 <= len; i += 8) {
		uint64_t word;

		if (next_random(damage) % damage->one_in)
			continue;
		memcpy(&word, bytes + i, sizeof(word));
		word = damaged_word(damage, word);
		memcpy(bytes + i, &word, sizeof(word));
	}
	if (!ret && len >= 8)
		memcpy(&damage->last, bytes, sizeof(damage->last));
	return ret;
}

/*
 * Whatever comes of it, it ends. Pages have 512 words: most of the time some of each are wrong, or
 * some of all.
 */
static struct vt_error *read_damaged(struct seen *seen, uint64_t seed)
{
	enum { ROUNDS = 300 };
	static const struct vt_memsrc_ops ops = { .read = damaged_read };

	for (int i = 0; i < ROUNDS; i++) {
		struct damage damage = {
			.src = { .ops = &ops, .coherent = i % 4 != 0 },
			.under = vt_live_cached_source(seen->live),
			.random = (seed + (uint64_t)i) * UINT64_C(0x9e3779b97f4a7c15) | 1,
			.one_in =
				(uint64_t)(const uint16_t[]){ 50, 500, 2000, 10000, 50000 }[i % 5],
		};
		struct vt_error *err = NULL;

		if (i % 3 == 0) { /* from the beginning */
			vt_python_deinit(&seen->py);
			seen->py.locals = true;
			err = vt_python_init(&seen->py, &seen->modules,
					     i % 2 ? &damage.src : damage.under);
		}
		if (!err && seen->py.layout)
			err = vt_python_capture(&seen->py, &damage.src);
		if (!err && seen->py.layout)
			err = vt_python_resolve(&seen->py, i % 2 ? &damage.src : damage.under);
		vt_error_destroy(err);
	}
	printf("survived\n");
	return NULL;
}

static struct vt_error *read_python(struct seen *seen, const struct options *options)
{
	VT_TRY(vt_live_create(options->pid, &seen->live));
	vt_live_set_coherent(seen->live, options->stopped);
	VT_TRY(vt_maps_init(&seen->maps, options->pid));
	VT_TRY(vt_modules_init(&seen->modules, options->pid, &seen->maps));

	struct vt_memsrc *cached = vt_live_cached_source(seen->live),
			 *plain = vt_live_source(seen->live);
	uint64_t begin = vt_now_ns();

	VT_TRY(vt_python_find(&seen->py, &seen->modules, seen->live));
	seen->find_ns = vt_now_ns() - begin;
	seen->capture_ns = UINT64_MAX;
	for (int i = 0; i < (options->what == 'f' ? CAPTURES : 1); i++) {
		begin = vt_now_ns();
		VT_TRY(vt_python_capture(&seen->py, plain));

		uint64_t took = vt_now_ns() - begin;

		seen->capture_ns = took < seen->capture_ns ? took : seen->capture_ns;
	}
	vt_live_drop_cache(seen->live);
	if (options->what == 'z')
		return read_damaged(seen, options->seed);
	if (options->what == 'l')
		return print_lines(&seen->py, cached);
	begin = vt_now_ns();
	VT_TRY(vt_python_resolve(&seen->py, cached));
	seen->resolve_ns = vt_now_ns() - begin;
	return NULL;
}

static void print_seen(struct seen *seen, const struct options *options)
{
	if (seen->py.threads.n)
		qsort(seen->py.threads.data, seen->py.threads.n, sizeof(*seen->py.threads.data),
		      by_tid);
	if (options->what == 'f')
		print_facts(seen);
	else if (options->what == 'e')
		print_entries(&seen->py);
	else if (options->what == 'w')
		print_gils(&seen->py, options->pid);
	else if (!options->what)
		print_frames(&seen->py, options->skip);
}

int main(int argc, char **argv)
{
	struct options options = { .skip = -1 };
	struct seen seen = { 0 };
	int option;

	while ((option = getopt(argc, argv, "eflkvws:z:")) != -1) {
		if (option == 's')
			options.skip = strtol(optarg, NULL, 10);
		else if (option == 'k')
			options.stopped = true;
		else if (option == 'z')
			options.seed = strtoull(optarg, NULL, 0), options.what = 'z';
		else if (option == 'v')
			seen.py.locals = true;
		else if (option != '?')
			options.what = (char)option;
		else
			return 64;
	}
	if (optind + 1 != argc) {
		fprintf(stderr, "usage: %s [-e | -f | -l | -w | -z SEED] [-k] [-v] [-s TID] PID\n",
			argv[0]);
		return 64;
	}
	options.pid = (pid_t)strtol(argv[optind], NULL, 10);

	struct vt_error *err = read_python(&seen, &options);

	if (!err)
		print_seen(&seen, &options);
	else
		fprintf(stderr, "%s: %s\n", vt_error_code_name(err->code), err->message);
	vt_python_deinit(&seen.py);
	vt_modules_deinit(&seen.modules);
	vt_maps_deinit(&seen.maps);
	vt_live_destroy(seen.live);

	int status = err ? 1 : 0;

	vt_error_destroy(err);
	return status;
}
