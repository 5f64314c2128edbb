/* SPDX-License-Identifier: Apache-2.0 */
#include "model/cuda_error.h"

#include <stddef.h>

bool vt_cuda_error_stays(int error)
{
	/* cuda.h: "This leaves the process in an inconsistent state"; 214 is ECC, 220 NVLink. */
	static const struct {
		int first, last;
	} errors[] = {
		{ 214, 214 }, { 220, 220 }, { 700, 700 }, { 702, 702 }, { 710, 710 }, { 714, 719 },
	};

	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (error >= errors[i].first && error <= errors[i].last)
			return true;
	return false;
}
