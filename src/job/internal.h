/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/job: what its files share. */
#ifndef VT_JOB_INTERNAL_H
#define VT_JOB_INTERNAL_H

#include <string.h>

#include "job/job.h"
#include "model/words.h"

/* ---- job.c ---- */

#define VT_NO_INDEX UINT32_MAX

/*
 * These intern: the only copy in the arena, or its index. Out of memory: NULL or VT_NO_INDEX, and
 * job->failed.
 */
const char *vt_job_text(struct vt_job *job, const char *text, size_t n);
const char *vt_job_copy(struct vt_job *job, const char *text); /* the same; NULL of NULL */

/* Copies texts that live elsewhere into the job. False when out of memory. */
bool vt_job_intern_collectives(struct vt_job *job, struct vt_model_collectives *collectives);
bool vt_job_same_frame(const struct vt_job_frame *a, const struct vt_job_frame *b);
/* its texts are interned */
uint32_t vt_job_intern_frame(struct vt_job *job, const struct vt_job_frame *frame);
/* of indices that exist */
uint32_t vt_job_intern_stack(struct vt_job *job, const uint32_t *frames, size_t n);
/* its texts are interned */
uint32_t vt_job_intern_doing(struct vt_job *job, const struct vt_job_doing *doing);

/* A new, empty member; NULL when out of memory. Valid until the next one. */
struct vt_member *vt_job_new_member(struct vt_job *job);
void vt_member_deinit(struct vt_member *member);
void vt_job_usage_deinit(struct vt_job_usage *usage);
struct vt_ras *vt_job_new_ras(struct vt_job *job);
void vt_ras_deinit(struct vt_ras *ras);
struct vt_ras_group *vt_ras_new_group(struct vt_job *job, struct vt_ras *ras);

/* The scope in which pids are unique and clocks equal. Interned: equal texts, equal addresses. */
const char *vt_job_system(const struct vt_label *label);

/* What the member's main thread does, NULL unknown. */
const struct vt_job_doing *vt_job_main_doing(const struct vt_job *job,
					     const struct vt_member *member);

/* Adds it in words: "waits for the GIL", "runs". */
void vt_job_add_does(const struct vt_job_doing *doing, enum vt_form form, enum vt_detail detail,
		     struct vt_str *out);

/* ---- job/state.c ---- */

enum vt_job_state vt_job_state_of(const struct vt_job *job, const struct vt_job_doing *doing);

/*
 * Of the autograd thread for which the main thread waits in backward, or of the main thread; NULL
 * unknown.
 */
const struct vt_job_doing *vt_job_telling_doing(const struct vt_job *job,
						const struct vt_member *member);

/*
 * The collective that the thread is in: interned, or a part of an interned text; NULL none or
 * unknown.
 */
const char *vt_job_operation_of(const struct vt_job *job, const struct vt_job_doing *doing);

/* The thread is in a collective: it waits, or still runs in it. */
bool vt_job_is_in_collective(const struct vt_job *job, const struct vt_job_doing *doing);

/*
 * Whether the memory by category can be compared: blocks that came and went while it was looked at
 * may be of any kind.
 */
static inline bool vt_job_owners_known(const struct vt_job_owners *owners)
{
	return owners->state == VT_OWNERS_READ && owners->whole && !owners->ran;
}

/* ---- job/set.c ---- */

/*
 * Appends; indices come in ascending order, or are sorted later. One equal to the last is not
 * added.
 */
struct vt_job_indices {
	uint32_t *data;
	size_t n, capacity;
};
bool vt_job_indices_add(struct vt_job_indices *indices, uint32_t index);
void vt_job_indices_sort(struct vt_job_indices *indices);

/* Whether it is one of the n: of struct vt_job_indices, or of struct vt_member_set. */
static inline bool vt_job_has(const uint32_t *indices, size_t n, uint32_t index)
{
	for (size_t i = 0; i < n; i++)
		if (indices[i] == index)
			return true;
	return false;
}

/* Elements of a VT_VEC that have .alarm come before the others; else the order stays. */
#define VT_JOB_PUT_ALARMS_FIRST(vec)                                                  \
	do {                                                                          \
		size_t n_alarms_ = 0;                                                 \
                                                                                      \
		for (size_t i_ = 0; i_ < (vec)->n; i_++) {                            \
			__typeof__(*(vec)->data) item_ = (vec)->data[i_];             \
                                                                                      \
			if (!item_.alarm)                                             \
				continue;                                             \
			memmove(&(vec)->data[n_alarms_ + 1], &(vec)->data[n_alarms_], \
				(i_ - n_alarms_) * sizeof(item_));                    \
			(vec)->data[n_alarms_++] = item_;                             \
		}                                                                     \
	} while (0)

/* A copy of it in the arena. */
struct vt_member_set vt_job_set(struct vt_job *job, const struct vt_job_indices *indices);

/* ---- the first steps of vt_job_account() (job/rules); false when out of memory ---- */

bool vt_job_decide_states(struct vt_job *job); /* job/state.c */
bool vt_job_build_tree(struct vt_job *job);    /* job/tree.c */
bool vt_job_build_devices(struct vt_job *job); /* job/devices.c */
bool vt_job_build_faults(struct vt_job *job);  /* job/faults.c */

/* ---- names of enumerations, as in the JSON ---- */

/* "rank", "loader", "checkpoint", "launcher", "other" */
const char *vt_role_name(enum vt_role role);

#endif
