/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What CUPTI does, as far as it is about the driver's calls: one subscriber at a time, callbacks at
 * the beginning and at the end of the calls that it wants to see. The runtime calls the driver, so
 * its calls are seen as well. And the library that the driver loads when it is initialised, if the
 * environment names one.
 */
#define _GNU_SOURCE
#include "sim.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

#define DOMAIN_DRIVER 1
#define MAX_CBID 1024

struct callback_data { /* CUpti_CallbackData */
	int site;
	const char *name;
	const void *params;
	int *result;
	const char *symbol;
	void *context;
	uint32_t context_uid;
	uint64_t *correlation_data;
	uint32_t correlation_id;
};

struct subscriber {
	void (*callback)(void *user, int domain, uint32_t cbid, const void *data);
	void *user;
	unsigned char enabled[MAX_CBID];
};

static struct subscriber the_subscriber; /* there is never more than one */
static struct subscriber *subscriber;    /* NULL: nobody */
static uint32_t correlation;
/* The thread in cuInit holds it: as with the real driver, no other thread can use it until then. */
static pthread_mutex_t init_lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

int sim_cupti_subscribe(void **handle, void *callback, void *user)
{
	int err = 39; /* CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED */

	pthread_mutex_lock(&init_lock);
	if (!__atomic_load_n(&subscriber, __ATOMIC_ACQUIRE)) {
		the_subscriber = (struct subscriber){ .callback = callback, .user = user };
		__atomic_store_n(&subscriber, &the_subscriber, __ATOMIC_RELEASE);
		*handle = &the_subscriber;
		err = 0;
	}
	pthread_mutex_unlock(&init_lock);
	return err;
}

int sim_cupti_unsubscribe(void *handle)
{
	struct subscriber *mine = handle;

	if (!mine || !__atomic_compare_exchange_n(&subscriber, &mine, NULL, 0, __ATOMIC_ACQ_REL,
						  __ATOMIC_ACQUIRE))
		return 1; /* CUPTI_ERROR_INVALID_PARAMETER */
	return 0;
}

int sim_cupti_enable(uint32_t enable, void *handle, int domain, uint32_t cbid)
{
	if (!handle || handle != __atomic_load_n(&subscriber, __ATOMIC_ACQUIRE))
		return 1;
	if (domain != DOMAIN_DRIVER)
		return 0; /* nothing ever happens in the others */
	if (cbid >= MAX_CBID)
		return 1;
	__atomic_store_n(&the_subscriber.enabled[cbid], !!enable, __ATOMIC_RELEASE);
	return 0;
}

int sim_cupti_enable_domain(uint32_t enable, void *handle, int domain)
{
	int err = 0;

	for (uint32_t cbid = 1; cbid < MAX_CBID && !err; cbid++)
		err = sim_cupti_enable(enable, handle, domain, cbid);
	return err;
}

static void tell(struct sim_call *call, int site, int *result)
{
	struct subscriber *who = __atomic_load_n(&subscriber, __ATOMIC_ACQUIRE);
	struct sim_ctx *ctx = sim_ctx_current();
	struct callback_data data = {
		.site = site,
		.name = call->name,
		.params = call->params,
		.result = result,
		.context = ctx,
		.context_uid = ctx ? (uint32_t)sim_ctx_id(ctx) : 0,
		.correlation_data = &call->data,
		.correlation_id = call->id,
	};

	if (who && __atomic_load_n(&who->enabled[call->cbid], __ATOMIC_ACQUIRE))
		who->callback(who->user, DOMAIN_DRIVER, call->cbid, &data);
}

void sim_call_begin(struct sim_call *call, unsigned cbid, const char *name, const void *params)
{
	*call = (struct sim_call){ .cbid = cbid, .name = name, .params = params };
	call->id = __atomic_add_fetch(&correlation, 1, __ATOMIC_RELAXED);
	tell(call, 0, NULL);
}

int sim_call_end(struct sim_call *call, int result)
{
	tell(call, 1, &result);
	return result;
}

/* ---- CUDA_INJECTION64_PATH ---- */

void sim_init_begin(void)
{
	pthread_mutex_lock(&init_lock);
}

void sim_init_end(void)
{
	pthread_mutex_unlock(&init_lock);
}

void sim_inject(void)
{
	static int done;
	const char *path = getenv("CUDA_INJECTION64_PATH");
	void *library;
	int (*start)(void);

	if (done++ || !path)
		return;
	library = dlopen(path, RTLD_NOW);
	start = library ? (int (*)(void))dlsym(library, "InitializeInjection") : NULL;
	if (start)
		start();
}
