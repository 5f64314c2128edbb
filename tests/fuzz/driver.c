/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzzer without libFuzzer: inputs are mutations of its seeds, made from a number, so that
 * each can be had again. They run in a child process; the parent says which one ended it, or did
 * not come to an end.
 *
 *   fuzz_x [-s SEED] [-t SECONDS] [-n RUNS]   that long, or so many (default: 2 s, at most a
 *                                             million)
 *   fuzz_x -s SEED -i NUMBER                  one of them, in this process
 *   fuzz_x FILE...                            inputs from files, in this process
 *   fuzz_x -w DIRECTORY                       writes the seeds there, for libFuzzer to begin with
 *
 * FUZZ_SECONDS in the environment is the default of -t.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fuzz.h"

#define MAX_SEEDS 1024
#define MAX_MUTATIONS 12
/* of processor time for one input: on a busy machine the clock on the wall says nothing */
#define HUNG_S 20
#define LOOK_NS 50000000

struct input {
	uint8_t data[FUZZ_MAX_INPUT];
	size_t size;
};

/* What the child tells the parent. */
struct progress {
	volatile uint64_t number; /* of the input that it runs */
	volatile bool ended;
};

static struct input input, other;
static unsigned int n_seeds, n_own; /* the fuzzer's own come first, then the corpus */
static struct {
	char *path;
	uint8_t *data;
	size_t size;
} corpus[MAX_SEEDS]; /* by number; [0, n_own) are not there */

/* ---- making inputs ---- */

/* SplitMix64 */
static uint64_t next_random(uint64_t *state)
{
	uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

static size_t seed_of(unsigned int number, uint8_t *data, size_t max)
{
	if (number < n_own)
		return fuzz_seed(number, data, max);
	memcpy(data, corpus[number].data, corpus[number].size);
	return corpus[number].size;
}

/* Below n, smaller ones more often. */
static size_t below(uint64_t *rng, size_t n)
{
	size_t some = n ? (size_t)(next_random(rng) % n) : 0;

	return next_random(rng) % 4 ? some : some >> next_random(rng) % 16;
}

static uint64_t telling_value(uint64_t *rng)
{
	/* clang-format off */
	static const uint64_t values[] = { 0, 1, 2, 3, 4, 7, 8, 0x0f, 0x10, 0x3f, 0x40, 0x7f, 0x80,
	  0xff, 0x100, 0x0fff, 0x1000, 0x7fff,
					   0x8000, 0xffff, 0x10000, 0x7fffffff, 0x80000000,
					     0xffffffff, 0x100000000,
					   0x7fffffffffffffff, 0x8000000000000000,
					     0xffffffffffffffff };
	/* clang-format on */
	uint64_t value = values[next_random(rng) % (sizeof(values) / sizeof(values[0]))];

	return next_random(rng) % 2 ? value : value + next_random(rng) % 9 - 4;
}

static void set_number(uint64_t *rng, struct input *in)
{
	size_t width = (size_t)1 << next_random(rng) % 4, at;
	uint64_t value;

	if (in->size < width)
		return;
	at = below(rng, in->size - width + 1);
	if (next_random(rng) % 2)
		at &= ~(width - 1);
	memcpy(&value, in->data + at, width);
	switch (next_random(rng) % 3) {
	case 0:
		value = telling_value(rng);
		break;
	case 1:
		value += next_random(rng) % 33 - 16;
		break;
	default:
		value = next_random(rng);
	}
	memcpy(in->data + at, &value, width);
}

static void resize(struct input *in, size_t at, size_t old, size_t new)
{
	if (in->size - old + new > sizeof(in->data))
		return;
	memmove(in->data + at + new, in->data + at + old, in->size - at - old);
	if (new > old)
		memset(in->data + at + old, 0, new - old);
	in->size = in->size - old + new;
}

/* Bytes of from into in, instead of as many or in between. */
static void splice(uint64_t *rng, struct input *in, const struct input *from)
{
	size_t len = 1 + below(rng, from->size), src = from->size ? below(rng, from->size) : 0,
	       at = below(rng, in->size);

	if (len > from->size - src)
		len = from->size - src;
	if (next_random(rng) % 2 && in->size + len <= sizeof(in->data))
		resize(in, at, 0, len);
	if (len > in->size - at)
		len = in->size - at;
	memmove(in->data + at, from->data + src, len);
}

static void mutate(uint64_t *rng, struct input *in)
{
	size_t at = below(rng, in->size), left = in->size - at;

	switch (next_random(rng) % 8) {
	case 0:
		if (left)
			in->data[at] ^= (uint8_t)(1u << next_random(rng) % 8);
		break;
	case 1:
	case 2:
	case 3:
		set_number(rng, in);
		break;
	case 4:
		splice(rng, in, in);
		break;
	case 5:
		other.size = seed_of((unsigned int)(next_random(rng) % n_seeds), other.data,
				     sizeof(other.data));
		splice(rng, in, &other);
		break;
	case 6:
		if (left)
			resize(in, at, 1 + below(rng, left), 0);
		break;
	default:
		resize(in, at, 0, 1 + below(rng, 64));
	}
}

static void make_input(uint64_t seed, uint64_t number, struct input *in)
{
	uint64_t rng = seed * UINT64_C(0xd6e8feb86659fd93) ^ number;
	uint64_t mutations;

	/* The seeds themselves come first: they must be well. */
	in->size = seed_of((unsigned int)(number < n_seeds ? number : next_random(&rng) % n_seeds),
			   in->data, sizeof(in->data));
	mutations = number < n_seeds ? 0 : 1 + below(&rng, MAX_MUTATIONS);
	while (mutations--)
		mutate(&rng, in);
}

/* In memory of its own, exactly as long, so that a sanitizer sees a byte too many. */
static void run(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);

	if (!copy)
		exit(1);
	memcpy(copy, data, size);
	LLVMFuzzerTestOneInput(copy, size);
	free(copy);
}

static void read_file(const char *path)
{
	FILE *file = fopen(path, "re");

	if (!file) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		exit(1);
	}
	input.size = fread(input.data, 1, sizeof(input.data), file);
	fclose(file);
}

static void run_file(const char *path)
{
	read_file(path);
	run(input.data, input.size);
}

static int is_input(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

/* The inputs in the repository: what once was found, and what reaches most of the code. */
static void read_corpus(const char *name)
{
	const char *source = getenv("VRAMTAP_SOURCE_DIR");
	struct dirent **entries;
	char *directory;
	int n;

	if (asprintf(&directory, "%s/tests/fuzz/corpus/%s", source ? source : "", name) < 0)
		exit(1);
	n = source ? scandir(directory, &entries, is_input, alphasort) : -1;
	for (int i = 0; i < n; i++) {
		if (n_seeds < MAX_SEEDS) {
			if (asprintf(&corpus[n_seeds].path, "%s/%s", directory,
				     entries[i]->d_name) < 0)
				exit(1);
			read_file(corpus[n_seeds].path);
			corpus[n_seeds].data = malloc(input.size + 1);
			if (!corpus[n_seeds].data)
				exit(1);
			memcpy(corpus[n_seeds].data, input.data, input.size);
			corpus[n_seeds++].size = input.size;
		}
		free(entries[i]);
	}
	if (n >= 0)
		free(entries);
	free(directory);
}

static int write_seeds(const char *directory)
{
	for (unsigned int i = 0; i < n_own; i++) {
		char path[4096];
		size_t size = fuzz_seed(i, input.data, sizeof(input.data));
		FILE *file;
		bool ok;

		snprintf(path, sizeof(path), "%s/seed-%u", directory, i);
		file = fopen(path, "we");
		ok = file && fwrite(input.data, 1, size, file) == size;
		if ((file && fclose(file)) || !ok) {
			fprintf(stderr, "%s: %s\n", path, strerror(errno));
			return 1;
		}
	}
	return 0;
}

/* ---- running many ---- */

static uint64_t now_ns(clockid_t clock)
{
	struct timespec ts = { 0 };

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static void run_all(struct progress *progress, uint64_t seed, double seconds, uint64_t runs)
{
	uint64_t end = now_ns(CLOCK_MONOTONIC) + (uint64_t)(seconds * 1e9);
	uint64_t number;

	for (number = 0; number < runs && (number < n_seeds || now_ns(CLOCK_MONOTONIC) < end);
	     number++) {
		progress->number = number;
		make_input(seed, number, &input);
		run(input.data, input.size);
	}
	progress->number = number;
	progress->ended = true;
}

/* What is wrong with the child, or NULL when it came to its end. */
static const char *watch(pid_t pid, const struct progress *progress)
{
	static char text[64];
	const struct timespec pause = { .tv_nsec = LOOK_NS };
	uint64_t number = UINT64_MAX, since = 0;
	clockid_t clock;
	int status;

	while (waitpid(pid, &status, WNOHANG) == 0) {
		uint64_t used = clock_getcpuclockid(pid, &clock) ? 0 : now_ns(clock);

		if (progress->number != number) {
			number = progress->number;
			since = used;
		} else if (used > since && used - since > (uint64_t)HUNG_S * 1000000000) {
			kill(pid, SIGKILL);
			waitpid(pid, &status, 0);
			return "did not come to an end";
		}
		clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL); /* nanosleep(): no_sleep.c */
	}
	if (WIFSIGNALED(status))
		snprintf(text, sizeof(text), "ended with signal %d", WTERMSIG(status));
	else
		snprintf(text, sizeof(text), "ended with status %d", WEXITSTATUS(status));
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 && progress->ended ? NULL : text;
}

/*
 * An input may depend on addresses, and is to do the same again: they are not random, where the
 * kernel lets us choose.
 */
static void fix_addresses(char **argv)
{
	int old = personality(0xffffffff);

	if (old >= 0 && !(old & ADDR_NO_RANDOMIZE) &&
	    personality((unsigned long)old | ADDR_NO_RANDOMIZE) >= 0)
		execv("/proc/self/exe", argv);
}

int main(int argc, char **argv)
{
	const char *directory = NULL,
		   *name = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0], *wrong;
	double seconds = getenv("FUZZ_SECONDS") ? strtod(getenv("FUZZ_SECONDS"), NULL) : 2;
	uint64_t seed = 1, runs = 1000000, one = UINT64_MAX;
	struct progress *progress;
	pid_t pid;
	int opt;

	fix_addresses(argv);
	while ((opt = getopt(argc, argv, "s:t:n:i:w:")) != -1) {
		switch (opt) {
		case 's':
			seed = strtoull(optarg, NULL, 0);
			break;
		case 't':
			seconds = strtod(optarg, NULL);
			break;
		case 'n':
			runs = strtoull(optarg, NULL, 0);
			break;
		case 'i':
			one = strtoull(optarg, NULL, 0);
			break;
		case 'w':
			directory = optarg;
			break;
		default:
			return 64;
		}
	}
	while (n_seeds < MAX_SEEDS && fuzz_seed(n_seeds, input.data, sizeof(input.data)))
		n_seeds++;
	n_own = n_seeds;
	read_corpus(name);
	if (directory)
		return write_seeds(directory);
	if (optind < argc || one != UINT64_MAX) {
		for (int i = optind; i < argc; i++)
			run_file(argv[i]);
		if (one != UINT64_MAX) {
			make_input(seed, one, &input);
			run(input.data, input.size);
		}
		return 0;
	}

	progress = mmap(NULL, sizeof(*progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			-1, 0);
	pid = progress == MAP_FAILED ? -1 : fork();
	if (pid < 0)
		return 1;
	if (!pid) {
		struct rlimit none = { 0 };

		setrlimit(RLIMIT_CORE, &none);
		run_all(progress, seed, seconds, runs);
		return 0;
	}
	wrong = watch(pid, progress);
	if (wrong && progress->number < n_seeds && corpus[progress->number].path)
		printf("%s: %s %s; again: %s %s\n", name, corpus[progress->number].path, wrong,
		       argv[0], corpus[progress->number].path);
	else if (wrong)
		printf("%s: input %" PRIu64 " of seed %" PRIu64 " %s; again: %s -s %" PRIu64
		       " -i %" PRIu64 "\n",
		       name, progress->number, seed, wrong, argv[0], seed, progress->number);
	else
		printf("%s: %" PRIu64 " inputs of seed %" PRIu64 "\n", name, progress->number,
		       seed);
	return wrong != NULL;
}
