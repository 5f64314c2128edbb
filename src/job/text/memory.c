/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of a job's devices, and of its ranks. */
#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "job/amounts.h"
#include "job/internal.h"
#include "report/text/text.h"
#include "job/text/text.h"

#define MAX_DEVICES 16
#define MAX_HOLDER_LINES 12
#define HOLDERS 55 /* column */

/* ---- devices ---- */

static void print_size(struct vt_line *line, bool known, uint64_t bytes)
{
	char size[VT_NUM_MAX];

	vt_line_right(line, known ? VT_PLAIN : VT_DIM, known ? vt_format_size(size, bytes) : "?",
		      11);
}

static void print_device(struct vt_line *line, const struct vt_job *job,
			 const struct vt_job_device *d, bool counted)
{
	struct vt_str text = { 0 };

	vt_line_pad(line, 2);
	vt_str_addf(&text, "%.40s%s%s", d->host, *d->host ? " " : "", d->name);
	vt_line_cell(line, VT_PLAIN, vt_str_get(&text), 16, VT_CUT_START);
	vt_line_pad(line, 18);
	print_size(line, d->known, d->total);
	print_size(line, d->known, d->free_bytes);
	print_size(line, d->known, d->outside);
	vt_line_pad(line, HOLDERS);
	vt_str_clear(&text);
	line->buf.failed |= !vt_text_job_holders(job, d, counted, &text);
	vt_line_wrap(line, VT_PLAIN, vt_str_get(&text), HOLDERS + 2, MAX_HOLDER_LINES);
	line->buf.failed |= text.failed;
	vt_str_deinit(&text);
}

static bool is_any_counted(const struct vt_job *job)
{
	for (size_t i = 0; i < job->devices.n; i++)
		if (job->devices.data[i].gpu)
			return true;
	return false;
}

static void print_header(struct vt_line *line, bool counted)
{
	vt_line_blank(line);
	vt_line_add(line, VT_BOLD, "Devices");
	vt_line_pad(line, 18);
	vt_line_right(line, VT_DIM, "total", 11);
	vt_line_right(line, VT_DIM, "free", 11);
	vt_line_right(line, VT_DIM, "other", 11);
	vt_line_pad(line, HOLDERS);
	vt_line_add(line, VT_DIM, counted ? "used by" : "reserved by PyTorch of");
	vt_line_end(line);
}

/* There may be several devices that ranks call by this number. */
static bool is_any_assumed(const struct vt_job *job)
{
	for (size_t i = 0; i < job->devices.n; i++)
		if (job->devices.data[i].assumed)
			return true;
	return false;
}

/* One of its holders is an outlier, or not a rank. */
static bool is_odd(const struct vt_job *job, const struct vt_job_device *d)
{
	for (size_t i = 0; i < d->holders.n; i++) {
		const struct vt_member *m = &job->members.data[d->holders.members[i]];

		if (m->outlier || m->label.role != VT_ROLE_RANK || !m->label.in_job)
			return true;
	}
	return false;
}

/* Without room for all, the telling ones come first. */
static void print_devices(struct vt_line *line, const struct vt_job *job)
{
	bool all = job->devices.n <= MAX_DEVICES, counted = is_any_counted(job);
	size_t n = 0;

	for (int odd = !all; odd >= 0; odd--)
		for (size_t i = 0; i < job->devices.n && n < MAX_DEVICES; i++) {
			if (!all && is_odd(job, &job->devices.data[i]) != odd)
				continue;
			print_device(line, job, &job->devices.data[i], counted);
			n++;
		}
}

void vt_text_job_devices(struct vt_line *line, const struct vt_job *job)
{
	char count[VT_NUM_MAX];

	if (!job->devices.n)
		return;
	print_header(line, is_any_counted(job));
	print_devices(line, job);
	if (job->devices.n > MAX_DEVICES) {
		vt_line_pad(line, 2);
		vt_line_addf(line, VT_DIM, "… %s more in the JSON report",
			     vt_format_count(count, job->devices.n - MAX_DEVICES));
		vt_line_end(line);
	}
	if (is_any_assumed(job)) {
		vt_line_pad(line, 2);
		vt_line_wrap(
			line, VT_DIM,
			"These are the ranks' own numbers; --inject shows whether they are the same devices.",
			4, 2);
	}
}

/* ---- ranks ---- */

static uint64_t reserved_of(const struct vt_job_memory *m)
{
	return m->reserved;
}

static uint64_t in_use_of(const struct vt_job_memory *m)
{
	return m->allocated;
}

static uint64_t cached_of(const struct vt_job_memory *m)
{
	return m->cached;
}

static const struct {
	const char *name;
	vt_job_amount_of of;
} kinds[] = { { "reserved", reserved_of }, { "in use", in_use_of }, { "cached", cached_of } };

/* Fills the bytes of ranks whose memory is known, ascending; returns their number. */
static size_t gather(const struct vt_job *job, vt_job_amount_of of, struct vt_job_amount *amounts)
{
	size_t n = 0;

	for (size_t i = 0; i < job->members.n; i++) {
		const struct vt_member *m = &job->members.data[i];

		if (m->label.role != VT_ROLE_RANK || !m->label.in_job)
			continue;
		amounts[n].member = (uint32_t)i;
		n += vt_job_amount_sum(m, of, &amounts[n].bytes);
	}
	vt_job_amounts_sort(amounts, n);
	return n;
}

static void print_amount(struct vt_line *line, const struct vt_job *job,
			 const struct vt_job_amount *amount, int column)
{
	struct vt_member_set set = { .members = (uint32_t *)&amount->member, .n = 1 };
	struct vt_str text = { 0 };
	char size[VT_NUM_MAX];

	vt_str_addf(&text, "%s (", vt_format_size(size, amount->bytes));
	vt_job_add_set(job, &set, 20, &text);
	vt_str_add(&text, ")");
	vt_line_pad(line, column);
	vt_line_cell(line, VT_PLAIN, vt_str_get(&text), 20, VT_CUT_END);
	line->buf.failed |= text.failed;
	vt_str_deinit(&text);
}

void vt_text_job_imbalance(struct vt_line *line, const struct vt_job *job)
{
	struct vt_job_amount *amounts = calloc(job->members.n + 1, sizeof(*amounts));
	size_t n = amounts ? gather(job, reserved_of, amounts) : 0;

	line->buf.failed |= !amounts;
	if (n > 1)
		vt_text_title(line, "PyTorch's; in brackets which rank",
			      "Memory of %zu ranks: least, median, most", n);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]) && n > 1; i++) {
		gather(job, kinds[i].of, amounts);
		vt_line_pad(line, 2);
		vt_line_add(line, VT_PLAIN, kinds[i].name);
		print_amount(line, job, &amounts[0], 14);
		print_amount(line, job, &amounts[(n - 1) / 2], 36);
		print_amount(line, job, &amounts[n - 1], 58);
		vt_line_end(line);
	}
	free(amounts);
}
