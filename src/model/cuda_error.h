/* SPDX-License-Identifier: Apache-2.0 */
/* What errors of the CUDA driver (CUresult) mean. */
#ifndef VT_MODEL_CUDA_ERROR_H
#define VT_MODEL_CUDA_ERROR_H

#include <stdbool.h>

/* After it all calls in the context fail. */
bool vt_cuda_error_stays(int error);

#endif
