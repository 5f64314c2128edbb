/* SPDX-License-Identifier: Apache-2.0 */
/* Knobs from the environment, the control file, faults, and the one place where threads wait. */
#define _GNU_SOURCE
#include "sim.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct sim_config sim_config;
int simcuda_contexts_created;

/* Without a control file this private page serves; then nobody changes it behind our back. */
static struct simcuda_ctl private_ctl;
static struct simcuda_ctl *ctl = &private_ctl;
static int32_t progress; /* futex: counts completions */
static int forked;
static pthread_mutex_t big_lock = PTHREAD_MUTEX_INITIALIZER;

void sim_lock(void)
{
	pthread_mutex_lock(&big_lock);
}

void sim_unlock(void)
{
	pthread_mutex_unlock(&big_lock);
}

static int32_t load(const int32_t *p)
{
	return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

static void store(int32_t *p, int32_t v)
{
	__atomic_store_n(p, v, __ATOMIC_RELEASE);
}

static void futex_wake(int32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* timeout_ns 0 is for ever. */
static void futex_wait(int32_t *word, int32_t value, uint64_t timeout_ns)
{
	struct timespec ts = {
		.tv_sec = (time_t)(timeout_ns / 1000000000ull),
		.tv_nsec = (long)(timeout_ns % 1000000000ull),
	};

	syscall(SYS_futex, word, FUTEX_WAIT, value, timeout_ns ? &ts : NULL, NULL, 0);
}

uint64_t sim_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

static uint64_t env_number(const char *name, uint64_t fallback)
{
	const char *text = getenv(name);
	char *end;
	uint64_t value;

	if (!text || !*text)
		return fallback;
	value = strtoull(text, &end, 0);
	if (*end) {
		fprintf(stderr, "simcuda: %s=%s is not a number; using %llu\n", name, text,
			(unsigned long long)fallback);
		return fallback;
	}
	return value;
}

static void map_ctl(const char *path)
{
	struct stat st;
	void *page;
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0 || fstat(fd, &st) ||
	    (st.st_size < SIMCUDA_CTL_SIZE && ftruncate(fd, SIMCUDA_CTL_SIZE))) {
		fprintf(stderr, "simcuda: control file %s: %s\n", path, strerror(errno));
		exit(70);
	}
	page = mmap(NULL, SIMCUDA_CTL_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (page == MAP_FAILED) {
		fprintf(stderr, "simcuda: control file %s: %s\n", path, strerror(errno));
		exit(70);
	}
	ctl = page;
	ctl->version = SIMCUDA_CTL_VERSION;
	store(&ctl->magic, SIMCUDA_CTL_MAGIC);
}

static int set_option(struct simcuda_fault *f, const char *word)
{
	static const struct {
		const char *prefix;
		int mode;
		size_t member;
	} options[] = {
		{ "error=", SIMCUDA_FAULT_ERROR, offsetof(struct simcuda_fault, arg) },
		{ "delay_ms=", SIMCUDA_FAULT_DELAY, offsetof(struct simcuda_fault, arg) },
		{ "after=", 0, offsetof(struct simcuda_fault, after) },
		{ "count=", 0, offsetof(struct simcuda_fault, count) },
	};

	if (!strcmp(word, "block")) {
		f->mode = SIMCUDA_FAULT_BLOCK;
		return 0;
	}
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		size_t n = strlen(options[i].prefix);
		int32_t value;

		if (strncmp(word, options[i].prefix, n))
			continue;
		value = (int32_t)strtol(word + n, NULL, 0);
		memcpy((char *)f + options[i].member, &value, sizeof(value));
		if (options[i].mode)
			f->mode = options[i].mode;
		return 0;
	}
	return -1;
}

int simcuda_set_fault(const char *spec)
{
	struct simcuda_fault f = { .mode = SIMCUDA_FAULT_NONE };
	char text[256], *save = NULL, *word;
	int mode;

	if (strlen(spec) >= sizeof(text))
		return -1;
	strcpy(text, spec);
	word = strtok_r(text, ":", &save);
	if (!word || strlen(word) >= sizeof(f.name))
		return -1;
	strcpy(f.name, word);
	while ((word = strtok_r(NULL, ":", &save)))
		if (set_option(&f, word))
			return -1;
	if (f.mode == SIMCUDA_FAULT_NONE)
		return -1;
	mode = f.mode;
	for (int i = 0; i < SIMCUDA_FAULTS; i++) {
		if (load(&ctl->fault[i].mode) != SIMCUDA_FAULT_NONE)
			continue;
		f.mode = SIMCUDA_FAULT_NONE;
		ctl->fault[i] = f;
		store(&ctl->fault[i].mode, mode);
		store(&ctl->armed, 1);
		return 0;
	}
	return -1;
}

void simcuda_clear_faults(void)
{
	store(&ctl->armed, 0);
	for (int i = 0; i < SIMCUDA_FAULTS; i++) {
		store(&ctl->fault[i].mode, SIMCUDA_FAULT_NONE);
		futex_wake(&ctl->fault[i].mode);
	}
}

void simcuda_set_hang(int device_mask)
{
	store(&ctl->hang, device_mask);
	sim_progress();
}

int simcuda_blocked(void)
{
	return load(&ctl->blocked);
}

static void set_faults(const char *list)
{
	char *copy = strdup(list), *save = NULL;

	for (char *one = strtok_r(copy, ",", &save); one; one = strtok_r(NULL, ",", &save))
		if (simcuda_set_fault(one)) {
			fprintf(stderr, "simcuda: cannot understand the fault \"%s\"\n", one);
			exit(70);
		}
	free(copy);
}

static void after_fork(void)
{
	forked = sim_ready();
}

void simcuda_configure(void)
{
	const char *path = getenv("SIMCUDA_CTL"), *faults = getenv("SIMCUDA_FAULT");
	uint64_t n = env_number("SIMCUDA_DEVICES", 2), hang = env_number("SIMCUDA_HANG", 0);

	sim_config.devices = n > SIM_MAX_DEVICES ? SIM_MAX_DEVICES : (int)n;
	sim_config.mem_bytes = env_number("SIMCUDA_MEM_MB", 8192) << 20;
	sim_config.ctx_bytes = env_number("SIMCUDA_CTX_MB", 256) << 20;
	sim_config.other_bytes = env_number("SIMCUDA_OTHER_MB", 0) << 20;
	sim_config.trace = (int)env_number("SIMCUDA_TRACE", 0);
	if (path && *path)
		map_ctl(path);
	if (hang)
		store(&ctl->hang, (int32_t)hang);
	if (faults && *faults)
		set_faults(faults);
	sim_share(getenv("SIMCUDA_SHARED"));
}

__attribute__((constructor)) static void begin(void)
{
	simcuda_configure();
	pthread_atfork(NULL, NULL, after_fork);
}

/* A private page is never changed behind our back, so nothing need be polled. */
static uint64_t poll_ns(void)
{
	return ctl == &private_ctl ? 0 : SIMCUDA_POLL_MS * 1000000ull;
}

int sim_hung(int device)
{
	return (load(&ctl->hang) >> device) & 1;
}

void sim_progress(void)
{
	__atomic_add_fetch(&progress, 1, __ATOMIC_ACQ_REL);
	futex_wake(&progress);
}

void sim_wait_while(int (*busy)(void *arg, uint64_t *until_ns), void *arg)
{
	int counted = 0;

	for (;;) {
		int32_t seen = load(&progress);
		uint64_t until = 0, wait = poll_ns();

		if (!busy(arg, &until))
			break;
		if (!counted++)
			__atomic_add_fetch(&ctl->blocked, 1, __ATOMIC_ACQ_REL);
		if (until) {
			uint64_t now = sim_now_ns();
			uint64_t left = until > now ? until - now : 1;

			if (!wait || left < wait)
				wait = left;
		}
		futex_wait(&progress, seen, wait);
	}
	if (counted)
		__atomic_sub_fetch(&ctl->blocked, 1, __ATOMIC_ACQ_REL);
}

static void block(struct simcuda_fault *f)
{
	__atomic_add_fetch(&ctl->blocked, 1, __ATOMIC_ACQ_REL);
	while (load(&f->mode) == SIMCUDA_FAULT_BLOCK)
		futex_wait(&f->mode, SIMCUDA_FAULT_BLOCK, poll_ns());
	__atomic_sub_fetch(&ctl->blocked, 1, __ATOMIC_ACQ_REL);
}

static void sleep_ms(int32_t ms)
{
	struct timespec ts = { .tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000L };

	while (nanosleep(&ts, &ts) && errno == EINTR)
		;
}

static int apply_faults(const char *function)
{
	for (int i = 0; i < SIMCUDA_FAULTS; i++) {
		struct simcuda_fault *f = &ctl->fault[i];
		int32_t mode = load(&f->mode), n;

		if (mode == SIMCUDA_FAULT_NONE || strncmp(f->name, function, sizeof(f->name)))
			continue;
		n = __atomic_fetch_add(&f->seen, 1, __ATOMIC_ACQ_REL);
		if (n < f->after || (f->count && n >= f->after + f->count))
			continue;
		if (mode == SIMCUDA_FAULT_ERROR)
			return f->arg;
		if (mode == SIMCUDA_FAULT_DELAY)
			sleep_ms(f->arg);
		else
			block(f);
	}
	return SIM_OK;
}

int sim_enter(const char *function)
{
	int armed = load(&ctl->armed);

	if (__builtin_expect(!armed && !sim_config.trace && !forked, 1))
		return SIM_OK;
	__atomic_add_fetch(&ctl->calls, 1, __ATOMIC_RELAXED);
	if (sim_config.trace)
		fprintf(stderr, "simcuda[%ld]: %s\n", (long)syscall(SYS_gettid), function);
	/* The real driver cannot be used in a child that was forked after it was initialised. */
	if (forked)
		return SIM_ENOTINIT;
	return armed ? apply_faults(function) : SIM_OK;
}

void sim_delay_query(void)
{
	uint64_t until = sim_now_ns() + (uint64_t)load(&ctl->query_us) * 1000;

	while (load(&ctl->query_us) && sim_now_ns() < until)
		;
}

void sim_count_query(int of_capturing)
{
	__atomic_add_fetch(&ctl->stream_queries, 1, __ATOMIC_ACQ_REL);
	__atomic_add_fetch(&ctl->spoiling, of_capturing, __ATOMIC_ACQ_REL);
}

void sim_count_context(void)
{
	__atomic_add_fetch(&simcuda_contexts_created, 1, __ATOMIC_ACQ_REL);
	__atomic_add_fetch(&ctl->contexts_created, 1, __ATOMIC_ACQ_REL);
}
