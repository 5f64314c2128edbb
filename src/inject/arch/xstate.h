/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the stub saves of the processor's state besides the registers that the block has. One
 * implementation for each architecture.
 */
#ifndef VT_INJECT_ARCH_XSTATE_H
#define VT_INJECT_ARCH_XSTATE_H

#include <stdint.h>

#include "base/error.h"

/*
 * The components that a call of pthread_create() could change, as a mask for the stub, and the
 * bytes that saving them takes. VT_ERR_UNSUPPORTED on a processor where that is not possible.
 */
struct vt_error *vt_xstate_describe(uint64_t *mask, uint32_t *size);

#endif
