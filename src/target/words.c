/* SPDX-License-Identifier: Apache-2.0 */
#include "target/words.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/uio.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/parallel.h"
#include "target/readers.h"

#define THREAD_BYTES ((uint64_t)8 << 20) /* a thread more pays for so much */
#define PIECE ((uint64_t)256 << 10)      /* stays in a core's cache until it is searched */
#define GRAIN ((size_t)8)                /* pieces that one thread searches in one go */
#define PAGE ((uint64_t)4096)
#define GROUP 8 /* words that are compared at a time */

struct seeker {
	const struct vt_words_search *search;
	VT_VEC(struct vt_range) pieces;
	struct vt_words *words;
	pthread_mutex_t lock; /* of what follows, and of words */
	int error;            /* negative errno: of the memory, or out of memory */
	bool refused;         /* process_vm_readv() is not possible here */
	bool alone;           /* src is read, which one thread may use */
};

/* Ends the work of all. */
static void fail(struct seeker *s, int error)
{
	pthread_mutex_lock(&s->lock);
	if (s->alone || error == -ENOMEM)
		s->error = error;
	else
		s->refused = true;
	pthread_mutex_unlock(&s->lock);
}

static bool may_go_on(struct seeker *s)
{
	bool late = vt_deadline_passed(s->search->deadline_ns), ended;

	pthread_mutex_lock(&s->lock);
	s->words->late |= late;
	ended = late || s->error || s->refused;
	pthread_mutex_unlock(&s->lock);
	return !ended;
}

static void add(struct seeker *s, uint64_t addr)
{
	uint64_t *into = NULL;

	pthread_mutex_lock(&s->lock);
	if (s->words->at.n >= VT_WORDS_MAX) {
		s->words->many = true;
	} else {
		into = vt_vec_append(&s->words->at);
		if (into)
			*into = addr;
		else
			s->error = -ENOMEM;
	}
	pthread_mutex_unlock(&s->lock);
}

static void search_words(struct seeker *s, uint64_t value, uint64_t addr, const uint64_t *words,
			 size_t n)
{
	for (size_t i = 0; i < n; i += GROUP) {
		size_t end = n - i < GROUP ? n - i : GROUP;
		uint64_t any = 0;

		for (size_t k = 0; k < end; k++)
			any |= words[i + k] == value;
		for (size_t k = 0; any && k < end; k++)
			if (words[i + k] == value)
				add(s, addr + (i + k) * 8);
	}
}

/* How many bytes from addr on: up to a page that is gone, 0 if that is the first one. Or -errno. */
static ssize_t read_some(struct seeker *s, uint64_t addr, void *buf, size_t len)
{
	struct iovec local = { buf, len }, remote = { (void *)(uintptr_t)addr, len };
	ssize_t got;
	int ret;

	if (!s->alone) {
		got = process_vm_readv(vt_live_tid(s->search->live), &local, 1, &remote, 1, 0);
		return got >= 0 ? got : errno == EFAULT ? 0 : -errno;
	}
	ret = vt_mem_read(s->search->src, addr, buf, len);
	if (ret == -EFAULT && len > PAGE - addr % PAGE) {
		len = PAGE - addr % PAGE; /* which page of it is gone is not known */
		ret = vt_mem_read(s->search->src, addr, buf, len);
	}
	return !ret ? (ssize_t)len : ret == -EFAULT ? 0 : ret;
}

static void search_piece(struct seeker *s, const struct vt_range *piece, uint64_t *window)
{
	for (uint64_t at = piece->start; at < piece->end;) {
		ssize_t got = read_some(s, at, window, (size_t)(piece->end - at));

		if (got < 0) {
			fail(s, (int)got);
			return;
		}
		for (size_t i = 0; i < s->search->n_values; i++)
			search_words(s, s->search->values[i], at, window, (size_t)got / 8);
		at += got ? (uint64_t)got : PAGE - at % PAGE;
	}
}

static void search_pieces(void *arg, size_t first, size_t end)
{
	struct seeker *s = arg;
	VT_FREE uint64_t *window = malloc(PIECE);

	if (!window)
		fail(s, -ENOMEM);
	for (size_t i = first; window && i < end && may_go_on(s); i++)
		search_piece(s, &s->pieces.data[i], window);
}

/* False: out of memory. */
static bool cut_into_pieces(struct seeker *s)
{
	for (size_t i = 0; i < s->search->n_ranges; i++) {
		const struct vt_range *range = &s->search->ranges[i];

		for (uint64_t at = range->start; at < range->end; at += PIECE) {
			struct vt_range *piece = vt_vec_append(&s->pieces);

			if (!piece)
				return false;
			*piece = (struct vt_range){ at, range->end - at < PIECE ? range->end :
										  at + PIECE };
		}
	}
	return true;
}

static unsigned int useful_threads(const struct seeker *s)
{
	unsigned int n = s->alone ? 0 : vt_readers_useful();
	uint64_t bytes = 0;

	for (size_t i = 0; i < s->pieces.n; i++)
		bytes += s->pieces.data[i].end - s->pieces.data[i].start;
	return n < bytes / THREAD_BYTES ? n : (unsigned int)(bytes / THREAD_BYTES);
}

static void search_all(struct seeker *s)
{
	vt_parallel(useful_threads(s), s->pieces.n, GRAIN, search_pieces, s);
}

static int compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

struct vt_error *vt_words_init(struct vt_words *words, const struct vt_words_search *search)
{
	struct vt_words found = { 0 };
	struct seeker s = { .search = search,
			    .words = &found,
			    .lock = PTHREAD_MUTEX_INITIALIZER,
			    .alone = !search->live };

	if (!cut_into_pieces(&s))
		s.error = -ENOMEM;
	else
		search_all(&s);
	if (s.refused && !s.error) {
		s.alone = true;
		s.refused = false;
		found.at.n = 0;
		found.many = false;
		search_all(&s);
	}
	pthread_mutex_destroy(&s.lock);
	vt_vec_deinit(&s.pieces);
	if (s.error) {
		vt_words_deinit(&found);
		return s.error == -ENOMEM ?
			       &vt_enomem :
			       vt_mem_error(search->src, s.error, "the process's memory");
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
