/* SPDX-License-Identifier: Apache-2.0 */
/* The machine that a report is of, and the time there. */
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "collect/collect.h"

void vt_collect_where(struct vt_model *model, bool live)
{
	struct vt_model_where *where = &model->where;
	char host[256] = "";
	struct tm tm;

	if (live && !gethostname(host, sizeof(host) - 1) && *host)
		where->host = vt_arena_strdup(&model->arena, host);
	tzset();
	if (!localtime_r(&model->when.tv_sec, &tm) || !tm.tm_zone)
		return;
	where->zone = vt_arena_strndup(&model->arena, tm.tm_zone, strnlen(tm.tm_zone, 32));
	where->utc_offset_min = (int)(tm.tm_gmtoff / 60);
	where->zone_known = where->zone;
}
