/* SPDX-License-Identifier: Apache-2.0 */
/* The processor's extended state (XSAVE) on this machine. */
#ifndef VT_INJECT_XSTATE_H
#define VT_INJECT_XSTATE_H

#include <stdint.h>

#include "base/error.h"

/*
 * The components that a call of pthread_create() could change, as a mask for XSAVE, and the bytes
 * that saving them takes. VT_ERR_UNSUPPORTED on a processor without XSAVE.
 */
struct vt_error *vt_xstate_describe(uint64_t *mask, uint32_t *size);

#endif
