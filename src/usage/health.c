/* SPDX-License-Identifier: Apache-2.0 */
/* What devices say of themselves. What no device can have counts as not known. */
#include "usage/health.h"

#define MAX_CELSIUS 250
#define MAX_MILLIWATT 20000000 /* 20 kW */
#define MAX_MHZ 100000
#define MAX_ROWS 1000000
#define MAX_ERRORS (UINT64_C(1) << 48)

/* Nobody need look at known to see that nothing is wrong. */
static void forget_unknown(struct vt_usage_health *h)
{
	if (!(h->known & VT_HEALTH_ECC_NOW))
		h->ecc_now = 0;
	if (!(h->known & VT_HEALTH_REMAPPED))
		h->remap_pending = h->remap_failed = 0;
	if (!(h->known & VT_HEALTH_RETIRED))
		h->retire_pending = 0;
	if (!(h->known & VT_HEALTH_SLOW))
		h->slow = 0;
}

void vt_usage_health_check(struct vt_usage_health *h)
{
	const struct {
		uint32_t bit;
		bool sane;
	} checks[] = {
		{ VT_HEALTH_ECC_NOW, h->ecc_now <= MAX_ERRORS },
		{ VT_HEALTH_ECC_EVER, h->ecc_ever <= MAX_ERRORS },
		{ VT_HEALTH_REMAPPED,
		  h->rows_remapped <= MAX_ROWS && h->remap_pending <= 1 && h->remap_failed <= 1 },
		{ VT_HEALTH_RETIRED, h->retire_pending <= 1 },
		{ VT_HEALTH_TEMPERATURE, h->celsius <= MAX_CELSIUS },
		{ VT_HEALTH_POWER, h->milliwatt <= MAX_MILLIWATT },
		{ VT_HEALTH_POWER_LIMIT, h->milliwatt_limit <= MAX_MILLIWATT },
		{ VT_HEALTH_CLOCK, h->sm_mhz <= MAX_MHZ },
		{ VT_HEALTH_CLOCK_LIMIT, h->sm_mhz_limit <= MAX_MHZ },
		{ VT_HEALTH_UTILISATION, h->busy_percent <= 100 && h->memory_busy_percent <= 100 },
	};

	h->known &= VT_HEALTH_ALL;
	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++)
		if (!checks[i].sane)
			h->known &= ~checks[i].bit;
	forget_unknown(h);
}
