/* SPDX-License-Identifier: Apache-2.0 */
/* What the driver has at one address. */
#ifndef VT_HELPER_RANGES_H
#define VT_HELPER_RANGES_H

#include <stdint.h>

#include "vramtap/helper_abi.h"

struct vt_probe {
	struct vt_helper_shared *shared;
	int by_range; /* cuMemGetAddressRange() answers */
	int by_both;  /* several devices: it may know the current context's memory only */
	int device;   /* whose context is current */
	/* the last mapping, which neighbours often share; physical 0: none */
	struct vt_range_rec last;
};

/*
 * What is at this address: 0 nothing. Else rec is filled; its range contains at, unless the start
 * is unknown (VT_RANGE_ARRAY): then it is at.
 */
int vt_helper_what_is_at(struct vt_probe *probe, uint64_t at, struct vt_range_rec *rec);

#endif
