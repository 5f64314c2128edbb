/* SPDX-License-Identifier: Apache-2.0 */
#include "target/words.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "target/readers.h"

#define MAX_THREADS 7
#define THREAD_BYTES ((uint64_t)8 << 20) /* a thread more pays for so much */
#define WINDOW ((size_t)256 << 10)       /* stays in a core's cache until it is searched */
#define PAGE ((uint64_t)4096)
#define GROUP 8 /* words that are compared at a time */

struct crew {
	const struct vt_words_search *search;
	struct vt_words *words;
	pthread_mutex_t lock;
	size_t range; /* the next piece: in this range, at this offset */
	uint64_t offset;
	int error;    /* negative errno: the memory cannot be read in this way, or out of memory */
	bool refused; /* process_vm_readv() is not possible here */
	bool alone;   /* src is read, which one thread may use */
};

/* The next part to search. False: there is none, or no time for it. */
static bool take_piece(struct crew *crew, uint64_t *addr, size_t *len)
{
	const struct vt_words_search *search = crew->search;
	bool more;

	pthread_mutex_lock(&crew->lock);
	more = crew->range < search->n_ranges && !crew->error && !crew->refused;
	if (more && vt_deadline_passed(search->deadline_ns)) {
		crew->words->late = true;
		more = false;
	}
	if (more) {
		const struct vt_range *range = &search->ranges[crew->range];
		uint64_t left = range->end - range->start - crew->offset;

		*addr = range->start + crew->offset;
		*len = left < WINDOW ? (size_t)left : WINDOW;
		crew->offset += *len;
		if (*len == left) {
			crew->range++;
			crew->offset = 0;
		}
	}
	pthread_mutex_unlock(&crew->lock);
	return more;
}

/* Ends the work of all. */
static void fail(struct crew *crew, int error)
{
	pthread_mutex_lock(&crew->lock);
	if (crew->alone || error == -ENOMEM)
		crew->error = error;
	else
		crew->refused = true;
	pthread_mutex_unlock(&crew->lock);
}

static void add(struct crew *crew, uint64_t addr)
{
	uint64_t *into = NULL;

	pthread_mutex_lock(&crew->lock);
	if (crew->words->at.n >= VT_WORDS_MAX) {
		crew->words->many = true;
	} else {
		into = vt_vec_append(&crew->words->at);
		if (into)
			*into = addr;
		else
			crew->error = -ENOMEM;
	}
	pthread_mutex_unlock(&crew->lock);
}

static void search_words(struct crew *crew, uint64_t addr, const uint64_t *words, size_t n)
{
	uint64_t value = crew->search->value;

	for (size_t i = 0; i < n; i += GROUP) {
		size_t end = n - i < GROUP ? n - i : GROUP;
		uint64_t any = 0;

		for (size_t k = 0; k < end; k++)
			any |= words[i + k] == value;
		for (size_t k = 0; any && k < end; k++)
			if (words[i + k] == value)
				add(crew, addr + (i + k) * 8);
	}
}

/* How many bytes from addr on: up to a page that is gone, 0 if that is the first one. Or -errno. */
static ssize_t read_some(struct crew *crew, uint64_t addr, void *buf, size_t len)
{
	struct iovec local = { buf, len }, remote = { (void *)(uintptr_t)addr, len };
	ssize_t got;
	int ret;

	if (!crew->alone) {
		got = process_vm_readv(vt_live_tid(crew->search->live), &local, 1, &remote, 1, 0);
		return got >= 0 ? got : errno == EFAULT ? 0 : -errno;
	}
	ret = vt_mem_read(crew->search->src, addr, buf, len);
	if (ret == -EFAULT && len > PAGE - addr % PAGE) {
		len = PAGE - addr % PAGE; /* which page of it is gone is not known */
		ret = vt_mem_read(crew->search->src, addr, buf, len);
	}
	return !ret ? (ssize_t)len : ret == -EFAULT ? 0 : ret;
}

static void search_piece(struct crew *crew, uint64_t addr, size_t len, uint64_t *window)
{
	for (uint64_t at = addr, end = addr + len; at < end;) {
		ssize_t got = read_some(crew, at, window, (size_t)(end - at));

		if (got < 0) {
			fail(crew, (int)got);
			return;
		}
		search_words(crew, at, window, (size_t)got / 8);
		at += got ? (uint64_t)got : PAGE - at % PAGE;
	}
}

static void *help(void *arg)
{
	struct crew *crew = arg;
	VT_FREE uint64_t *window = malloc(WINDOW);
	uint64_t addr;
	size_t len;

	if (!window)
		fail(crew, -ENOMEM);
	while (window && take_piece(crew, &addr, &len))
		search_piece(crew, addr, len, window);
	return NULL;
}

static unsigned int useful_threads(const struct vt_words_search *search)
{
	unsigned int n = vt_readers_useful();
	uint64_t bytes = 0;

	for (size_t i = 0; i < search->n_ranges; i++)
		bytes += search->ranges[i].end - search->ranges[i].start;
	if (n > bytes / THREAD_BYTES)
		n = (unsigned int)(bytes / THREAD_BYTES);
	return n < MAX_THREADS ? n : MAX_THREADS;
}

static void search_together(struct crew *crew, unsigned int n)
{
	pthread_t threads[MAX_THREADS];
	unsigned int started = 0;
	sigset_t all, before;

	/* Signals are for the main thread. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	while (started < n && !pthread_create(&threads[started], NULL, help, crew))
		started++;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	help(crew);
	for (unsigned int i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
}

static int compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

struct vt_error *vt_words_init(struct vt_words *words, const struct vt_words_search *search)
{
	struct vt_words found = { 0 };
	struct crew crew = { .search = search,
			     .words = &found,
			     .lock = PTHREAD_MUTEX_INITIALIZER,
			     .alone = !search->live };

	search_together(&crew, crew.alone ? 0 : useful_threads(search));
	if (crew.refused && !crew.error) {
		crew.alone = true;
		crew.refused = false;
		crew.range = crew.offset = found.at.n = 0;
		search_together(&crew, 0);
	}
	pthread_mutex_destroy(&crew.lock);
	if (crew.error) {
		vt_words_deinit(&found);
		return crew.error == -ENOMEM ?
			       &vt_enomem :
			       vt_mem_error(search->src, crew.error, "the process's memory");
	}
	if (found.at.n)
		qsort(found.at.data, found.at.n, sizeof(found.at.data[0]), compare);
	*words = found;
	return NULL;
}

void vt_words_deinit(struct vt_words *words)
{
	vt_vec_deinit(&words->at);
	*words = (struct vt_words){ 0 };
}
