/* SPDX-License-Identifier: Apache-2.0 */
/* CUPTI: one subscriber, callbacks for the driver's calls. Activities are never recorded. */
#include "../core/sim.h"

#define CUPTI(name, ...)       \
	int name(__VA_ARGS__); \
	int name(__VA_ARGS__)

#define CUPTI_ENTER()                                 \
	do {                                          \
		int enter_err_ = sim_enter(__func__); \
		if (enter_err_)                       \
			return enter_err_;            \
	} while (0)

CUPTI(cuptiSubscribe, void **subscriber, void *callback, void *user)
{
	CUPTI_ENTER();
	return subscriber ? sim_cupti_subscribe(subscriber, callback, user) : 1;
}

CUPTI(cuptiUnsubscribe, void *subscriber)
{
	CUPTI_ENTER();
	return sim_cupti_unsubscribe(subscriber);
}

CUPTI(cuptiEnableCallback, uint32_t enable, void *subscriber, int domain, uint32_t cbid)
{
	CUPTI_ENTER();
	return sim_cupti_enable(enable, subscriber, domain, cbid);
}

CUPTI(cuptiEnableDomain, uint32_t enable, void *subscriber, int domain)
{
	CUPTI_ENTER();
	return sim_cupti_enable_domain(enable, subscriber, domain);
}

CUPTI(cuptiGetVersion, uint32_t *version)
{
	CUPTI_ENTER();
	*version = 130000;
	return 0;
}

CUPTI(cuptiGetResultString, int result, const char **text)
{
	CUPTI_ENTER();
	(void)result;
	*text = "an answer of the simulated CUPTI";
	return 0;
}
