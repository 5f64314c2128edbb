/* SPDX-License-Identifier: Apache-2.0 */
/* Where a report was made, so that it still says so a week later: part of the model. */
#ifndef VT_MODEL_WHERE_H
#define VT_MODEL_WHERE_H

#include <stdbool.h>

struct vt_model_where {
	const char *host; /* NULL unknown: a core does not tell where it was made */
	/* the time zone of who asked; its name may be "+02" */
	bool zone_known;
	const char *zone;
	int utc_offset_min;
};

#endif
