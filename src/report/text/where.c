/* SPDX-License-Identifier: Apache-2.0 */
/* Where and when: what a report needs to be worth something in a ticket. */
#include <stdio.h>
#include <string.h>

#include "report/text/text.h"

#define MAX_TIME 64

static bool format_time(char buf[MAX_TIME], const char *format, time_t seconds)
{
	struct tm tm;

	return gmtime_r(&seconds, &tm) && strftime(buf, MAX_TIME, format, &tm);
}

/* Its date only if it is another one there. */
static void add_local(struct vt_str *text, time_t utc, const struct vt_model_where *where)
{
	time_t there = utc + where->utc_offset_min * 60;
	char day[MAX_TIME], day_there[MAX_TIME], clock[MAX_TIME];

	if (!where->zone_known || !where->utc_offset_min || !format_time(day, "%Y-%m-%d ", utc) ||
	    !format_time(day_there, "%Y-%m-%d ", there) || !format_time(clock, "%H:%M", there))
		return;
	vt_str_addf(text, " (%s%s %.16s)", strcmp(day, day_there) ? day_there : "", clock,
		    where->zone);
}

void vt_text_when(struct vt_str *text, const struct timespec *when,
		  const struct vt_model_where *where)
{
	char utc[MAX_TIME];

	if (!when->tv_sec || !format_time(utc, "%Y-%m-%d %H:%M:%S UTC", when->tv_sec))
		return;
	vt_str_add(text, utc);
	add_local(text, when->tv_sec, where);
}

static void add_fact(struct vt_line *line, const char *fact)
{
	if (line->width && vt_line_width(line, fact) + 3 > vt_line_room(line))
		vt_line_end(line);
	if (line->width)
		vt_line_add(line, VT_DIM, " · ");
	vt_line_add(line, VT_DIM, fact);
}

void vt_text_where(struct vt_line *line, const struct vt_model_where *where,
		   const struct timespec *when, const char *version)
{
	struct vt_str text = { 0 };

	if (where->host && *where->host) {
		vt_str_addf(&text, "on %.64s", where->host);
		add_fact(line, vt_str_get(&text));
		vt_str_clear(&text);
	}
	vt_text_when(&text, when, where);
	if (text.n)
		add_fact(line, vt_str_get(&text));
	if (version && *version) {
		vt_str_clear(&text);
		vt_str_addf(&text, "vramtap %.32s", version);
		add_fact(line, vt_str_get(&text));
	}
	if (line->width)
		vt_line_end(line);
	line->buf.failed |= text.failed;
	vt_str_deinit(&text);
}

/* ---- devices ---- */

/* "00000000:1B:00.0": most machines have one domain. */
static const char *short_pci(const char *pci)
{
	size_t zeros = strspn(pci, "0");

	return zeros && pci[zeros] == ':' ? pci + zeros + 1 : pci;
}

const char *vt_text_gpu_id(char buf[VT_TEXT_MAX], const struct vt_model_device *d,
			   const struct vt_model_gpu *gpu, bool in_full)
{
	const char *pci = gpu && gpu->pci ? gpu->pci : "",
		   *uuid = gpu && gpu->uuid ? gpu->uuid : "";
	char own[48] = "GPU-";
	size_t n = strlen(own);

	for (size_t i = 0; !*uuid && d->have_uuid && i < sizeof(d->uuid); i++)
		n += (size_t)snprintf(own + n, sizeof(own) - n, "%s%02x",
				      i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", d->uuid[i]);
	if (!*uuid && d->have_uuid)
		uuid = own;
	/* Of a file, it may be any text. */
	if (strspn(uuid, "0123456789abcdefABCDEFGPUMIGu-/") != strlen(uuid))
		uuid = "";
	if (strspn(pci, "0123456789abcdefABCDEF:.") != strlen(pci))
		pci = "";
	if (in_full)
		snprintf(buf, VT_TEXT_MAX, "%s%.20s%s%.44s", *pci ? "PCI " : "", pci,
			 *pci && *uuid ? ", " : "", uuid);
	else
		snprintf(buf, VT_TEXT_MAX, "%.20s%s%.12s", short_pci(pci), *pci && *uuid ? " " : "",
			 uuid);
	return buf;
}
