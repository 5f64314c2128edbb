/* SPDX-License-Identifier: Apache-2.0 */
#include "target/readers.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "base/cleanup.h"

#define MAX_THREADS 7
#define JOB_PIECES 64
#define JOB_BYTES (256u << 10)

struct vt_readers {
	pthread_mutex_t lock;
	pthread_cond_t work, done;
	pthread_t threads[MAX_THREADS];
	unsigned int n_threads;
	bool quit;
	/* what is being copied, and how much is handed out: up to byte `offset` of vec[at] */
	pid_t tid;
	const struct vt_memvec *vec;
	size_t n, at, offset;
	unsigned int busy; /* how many have a job */
	bool failed;
};

struct job {
	struct iovec local[JOB_PIECES], remote[JOB_PIECES];
	size_t n, bytes;
};

/* The next part to copy, with the lock held. False: there is none. */
static bool take_job(struct vt_readers *r, struct job *job)
{
	job->n = job->bytes = 0;
	while (r->at < r->n && job->n < JOB_PIECES && job->bytes < JOB_BYTES) {
		const struct vt_memvec *piece = &r->vec[r->at];
		size_t left = piece->len - r->offset, room = JOB_BYTES - job->bytes,
		       len = left < room ? left : room;

		job->local[job->n] = (struct iovec){ (uint8_t *)piece->buf + r->offset, len };
		job->remote[job->n++] =
			(struct iovec){ (void *)(uintptr_t)(piece->addr + r->offset), len };
		job->bytes += len;
		r->offset += len;
		if (len == left) {
			r->at++;
			r->offset = 0;
		}
	}
	return job->n > 0;
}

/* Does jobs until there are no more, with the lock held before and after. */
static void do_jobs(struct vt_readers *r)
{
	struct job job;

	while (take_job(r, &job)) {
		pid_t tid = r->tid;
		bool ok;

		r->busy++;
		pthread_mutex_unlock(&r->lock);
		ok = process_vm_readv(tid, job.local, job.n, job.remote, job.n, 0) ==
		     (ssize_t)job.bytes;
		pthread_mutex_lock(&r->lock);
		if (!ok) {
			r->failed = true;
			r->at = r->n; /* the others need not go on */
		}
		if (--r->busy == 0 && r->at == r->n)
			pthread_cond_signal(&r->done);
	}
}

static void *help(void *arg)
{
	struct vt_readers *r = arg;

	pthread_mutex_lock(&r->lock);
	while (!r->quit) {
		do_jobs(r);
		pthread_cond_wait(&r->work, &r->lock);
	}
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

bool vt_readers_copy(struct vt_readers *r, pid_t tid, const struct vt_memvec *vec, size_t n)
{
	bool ok;

	pthread_mutex_lock(&r->lock);
	r->tid = tid;
	r->vec = vec;
	r->n = n;
	r->at = r->offset = 0;
	r->failed = false;
	pthread_cond_broadcast(&r->work);
	do_jobs(r);
	while (r->busy)
		pthread_cond_wait(&r->done, &r->lock);
	ok = !r->failed;
	r->n = r->at = 0; /* vec is the caller's */
	pthread_mutex_unlock(&r->lock);
	return ok;
}

/*
 * A thread that waits for a processor makes a read longer, not shorter. The fourth field of
 * /proc/loadavg counts the threads that run, or want to.
 */
unsigned int vt_readers_useful(void)
{
	FILE *file VT_FCLOSE = fopen("/proc/loadavg", "re");
	char line[128], *at = line;
	cpu_set_t cpus;
	long running, n = sched_getaffinity(0, sizeof(cpus), &cpus) ? 0 : CPU_COUNT(&cpus);

	if (!file || !fgets(line, sizeof(line), file))
		return 0;
	for (int i = 0; i < 3 && at; i++)
		at = strchr(at + 1, ' ');
	running = at ? strtol(at, NULL, 10) : 0; /* we are one of them */
	return running > 0 && running < n ? (unsigned int)(n - running) : 0;
}

struct vt_readers *vt_readers_create(unsigned int n)
{
	struct vt_readers *r = n ? calloc(1, sizeof(*r)) : NULL;
	sigset_t all, before;

	if (!r)
		return NULL;
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->work, NULL);
	pthread_cond_init(&r->done, NULL);
	/* Signals are for the main thread. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	while (r->n_threads < MAX_THREADS && r->n_threads < n &&
	       !pthread_create(&r->threads[r->n_threads], NULL, help, r))
		r->n_threads++;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r->n_threads)
		return r;
	vt_readers_destroy(r);
	return NULL;
}

void vt_readers_destroy(struct vt_readers *r)
{
	if (!r)
		return;
	pthread_mutex_lock(&r->lock);
	r->quit = true;
	pthread_cond_broadcast(&r->work);
	pthread_mutex_unlock(&r->lock);
	for (unsigned int i = 0; i < r->n_threads; i++)
		pthread_join(r->threads[i], NULL);
	pthread_cond_destroy(&r->done);
	pthread_cond_destroy(&r->work);
	pthread_mutex_destroy(&r->lock);
	free(r);
}
