/* SPDX-License-Identifier: Apache-2.0 */
#include "job/kernels.h"

#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "job/internal.h"
#include "model/cxxname.h"

#define MAX_NAME 120 /* bytes of a kernel's name in a sentence */
#define MAX_SAID 3   /* kernels in a sentence */

/* ---- from a report ---- */

static bool add_kernel(struct vt_job *job, struct vt_job_kernels *kernels,
		       const struct vt_model_kernels *from, const struct vt_model_kernel *k)
{
	const struct vt_model_kernel_place *most =
		k->n_places ? &from->places.data[k->first_place] : NULL;
	struct vt_job_kernel *added = vt_vec_append(&kernels->list);

	if (!added)
		return false;
	*added = (struct vt_job_kernel){ .name = vt_job_copy(job, k->name ? k->name : ""),
					 .device = k->device,
					 .sms = k->sms };
	memcpy(added->grid_dim, k->grid_dim, sizeof(added->grid_dim));
	memcpy(added->block_dim, k->block_dim, sizeof(added->block_dim));
	if (most && most->file && most->line > 0) {
		added->file = vt_job_copy(job, most->file);
		added->line = most->line;
	}
	return !job->failed;
}

/* The smallest one gives way. */
static void drop_smallest(struct vt_job_kernels *kernels)
{
	size_t smallest = 0;

	for (size_t i = 1; i < kernels->list.n; i++)
		if (kernels->list.data[i].sms < kernels->list.data[smallest].sms)
			smallest = i;
	kernels->list.data[smallest] = kernels->list.data[--kernels->list.n];
	kernels->more++;
}

static int by_name(const void *a, const void *b)
{
	const struct vt_job_kernel *x = a, *y = b;
	int names = strcmp(x->name, y->name);

	if (names)
		return names;
	if (x->device != y->device)
		return x->device < y->device ? -1 : 1;
	return x->sms < y->sms ? -1 : x->sms > y->sms;
}

bool vt_job_kernels_add(struct vt_job *job, struct vt_job_kernels *kernels,
			const struct vt_model_kernels *from)
{
	kernels->state = from->state;
	kernels->why = vt_job_copy(job, from->why);
	kernels->took_ms = from->took_ms;
	kernels->more = from->more;
	for (size_t i = 0; i < from->kernels.n; i++) {
		/* It waits for those that it has launched. */
		if (vt_same_text(from->kernels.data[i].status, "Sleeping"))
			continue;
		if (!add_kernel(job, kernels, from, &from->kernels.data[i]))
			return false;
		if (kernels->list.n > VT_JOB_MAX_KERNELS)
			drop_smallest(kernels);
	}
	for (size_t i = 0; i < from->raised.n; i++) {
		const char **added = vt_vec_append(&kernels->raised);

		if (!added)
			return false;
		*added = vt_job_copy(job, from->raised.data[i]);
	}
	if (kernels->list.n)
		qsort(kernels->list.data, kernels->list.n, sizeof(*kernels->list.data), by_name);
	return !job->failed;
}

/* ---- what it means ---- */

bool vt_job_kernels_known(const struct vt_job_kernels *kernels)
{
	return kernels->state == VT_KERNELS_TOLD || kernels->state == VT_KERNELS_NONE;
}

/* ncclDevKernel_…, before 2.19 ncclKernel_…; ncclSymkDevKernel_… of symmetric memory. */
bool vt_job_kernels_are_collective(const struct vt_job_kernels *kernels)
{
	for (size_t i = 0; i < kernels->list.n; i++)
		if (!vt_glob("nccl*Kernel*", kernels->list.data[i].name))
			return false;
	return kernels->state == VT_KERNELS_TOLD && kernels->list.n && !kernels->more;
}

/* ---- words ---- */

static void add_details(struct vt_str *text, const struct vt_job_kernel *k)
{
	char number[VT_NUM_MAX];

	vt_kernel_add_shape(text, k->grid_dim, k->block_dim);
	if (k->sms)
		vt_str_addf(text, " on %s SM%s", vt_format_count(number, k->sms),
			    k->sms == 1 ? "" : "s");
	if (k->file)
		vt_str_addf(text, " at %.*s:%d", MAX_NAME, vt_base_name(k->file), k->line);
}

static void add_name(struct vt_str *text, const char *full, const char *ellipsis)
{
	struct vt_str name = { 0 };

	vt_cxx_short_name(&name, full, strlen(full), ellipsis);
	vt_str_addf(text, "%.*s%s", MAX_NAME, vt_str_get(&name), name.n > MAX_NAME ? ellipsis : "");
	text->failed |= name.failed;
	vt_str_deinit(&name);
}

/* How many from here on have this name, or are equal. */
static size_t count_same(const struct vt_job_kernels *kernels, size_t i, bool whole)
{
	const struct vt_job_kernel *k = &kernels->list.data[i];
	size_t n = 1;

	for (; i + n < kernels->list.n; n++) {
		const struct vt_job_kernel *other = &kernels->list.data[i + n];

		if (other->name != k->name)
			break;
		if (whole &&
		    (memcmp(other->grid_dim, k->grid_dim, sizeof(k->grid_dim)) != 0 ||
		     memcmp(other->block_dim, k->block_dim, sizeof(k->block_dim)) != 0 ||
		     other->sms != k->sms || other->file != k->file || other->line != k->line))
			break;
	}
	return n;
}

void vt_job_kernels_say(struct vt_str *text, const struct vt_job_kernels *kernels, bool whole,
			const char *ellipsis)
{
	size_t said = 0, left = kernels->more, n;
	char number[VT_NUM_MAX];

	if (kernels->state == VT_KERNELS_NONE)
		vt_str_add(text, "nothing");
	for (size_t i = 0; i < kernels->list.n; i += n) {
		n = count_same(kernels, i, whole);
		if (said == MAX_SAID) {
			left += n;
			continue;
		}
		vt_str_add(text, said++ ? ", " : "");
		if (n > 1)
			vt_str_addf(text, "%s x ", vt_format_count(number, n));
		add_name(text, kernels->list.data[i].name, ellipsis);
		if (whole)
			add_details(text, &kernels->list.data[i]);
	}
	if (left)
		vt_str_addf(text, "%s%s more", said ? " and " : "", vt_format_count(number, left));
}
