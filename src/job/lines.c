/* SPDX-License-Identifier: Apache-2.0 */
#include "job/lines.h"

_Static_assert(VT_CLAIMER_LIBPOOLS == VT_CLAIMER_PYTORCH + 1, "the others are behind PyTorch");

bool vt_job_line_is_of_device(size_t line)
{
	return line < VT_JOB_KINDS || line >= VT_JOB_REST ||
	       vt_range_is_of_device((uint8_t)(line - VT_JOB_KINDS));
}

uint64_t vt_job_memory_found(const struct vt_job_memory *memory)
{
	uint64_t bytes = 0;

	for (int i = 0; i < VT_N_CLAIMERS; i++)
		bytes += memory->claimed[i];
	for (int kind = 0; kind < VT_N_RANGE_KINDS; kind++)
		if (vt_range_is_of_device((uint8_t)kind))
			bytes += memory->kinds[kind];
	return bytes;
}

/* Blocks of PyTorch's that have no memory are in use all the same: never more than the line. */
static void add_pytorch(struct vt_job_lines *lines, const struct vt_job_memory *memory,
			uint64_t all)
{
	uint64_t in_use = memory->known && memory->allocated < all ? memory->allocated : all;

	lines->bytes[VT_JOB_IN_USE] += in_use;
	lines->bytes[VT_JOB_CACHED] += all - in_use;
}

static void add_listed(struct vt_job_lines *lines, const struct vt_job_memory *memory)
{
	uint64_t found = vt_job_memory_found(memory);

	add_pytorch(lines, memory, memory->claimed[VT_CLAIMER_PYTORCH]);
	for (int i = VT_CLAIMER_LIBPOOLS; i < VT_N_CLAIMERS; i++)
		lines->bytes[VT_JOB_LIBRARIES + i - VT_CLAIMER_LIBPOOLS] += memory->claimed[i];
	for (int kind = 0; kind < VT_N_RANGE_KINDS; kind++)
		lines->bytes[VT_JOB_KINDS + kind] += memory->kinds[kind];
	if (memory->counted && memory->counted_bytes >= found) {
		lines->bytes[VT_JOB_REST] += memory->counted_bytes - found;
		lines->bytes[VT_JOB_TOTAL] += memory->counted_bytes;
	} else {
		lines->rest_known = false;
	}
}

static bool add_unlisted(struct vt_job_lines *lines, const struct vt_job_memory *memory)
{
	if (!memory->known || !memory->counted || memory->counted_bytes < memory->reserved)
		return false;
	add_pytorch(lines, memory, memory->reserved);
	lines->bytes[VT_JOB_OTHER] += memory->counted_bytes - memory->reserved;
	lines->bytes[VT_JOB_TOTAL] += memory->counted_bytes;
	return true;
}

/* A device that is not known in the same way as the others makes the sum mean nothing. */
bool vt_job_lines(const struct vt_member *member, struct vt_job_lines *lines)
{
	*lines = (struct vt_job_lines){ .rest_known = true };
	for (size_t i = 0; i < member->memory.n; i++)
		lines->listed = lines->listed || member->memory.data[i].ledger_known;
	for (size_t i = 0; i < member->memory.n; i++) {
		const struct vt_job_memory *memory = &member->memory.data[i];

		if (memory->ledger_known != lines->listed)
			return false;
		if (lines->listed)
			add_listed(lines, memory);
		else if (!add_unlisted(lines, memory))
			return false;
	}
	if (!lines->rest_known)
		lines->bytes[VT_JOB_REST] = lines->bytes[VT_JOB_TOTAL] = 0;
	return member->memory.n && !member->core;
}
