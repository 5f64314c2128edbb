/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A CUDA program without Python that is stuck, for trying vramtap on: its main thread has the lock
 * of the model and wants that of the queue, its loader thread the other way round. Linked with
 * libcudart, of a device or simulated (examples/quickstart.sh --no-torch does it).
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int cudaMalloc(void **p, size_t size);

enum { MIB = 1 << 20 };

static pthread_mutex_t model_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t both_have_one;

static void *device_memory(size_t size)
{
	void *p;

	if (cudaMalloc(&p, size)) {
		fprintf(stderr, "the device has no %zu MiB left\n", size / MIB);
		exit(1);
	}
	return p;
}

static void *load_batches(void *unused)
{
	(void)unused;
	pthread_setname_np(pthread_self(), "loader");
	pthread_mutex_lock(&queue_lock);
	for (int i = 0; i < 8; i++)
		device_memory(16 * MIB);
	pthread_barrier_wait(&both_have_one);
	pthread_mutex_lock(&model_lock); /* to see which batch comes next */
	return NULL;
}

static void *write_metrics(void *unused)
{
	(void)unused;
	pthread_setname_np(pthread_self(), "metrics");
	for (;;)
		sleep(3600);
	return NULL;
}

static void train_step(void)
{
	pthread_mutex_lock(&model_lock);
	device_memory(512 * MIB);
	pthread_barrier_wait(&both_have_one);
	printf("READY %d\n", getpid());
	fflush(stdout);
	pthread_mutex_lock(&queue_lock); /* to take a batch */
}

int main(void)
{
	pthread_t loader, metrics;

	device_memory(256 * MIB);
	pthread_barrier_init(&both_have_one, NULL, 2);
	if (pthread_create(&loader, NULL, load_batches, NULL) ||
	    pthread_create(&metrics, NULL, write_metrics, NULL))
		return 1;
	train_step();
	return 0;
}
