/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VT_ADVISE_INTERNAL_H
#define VT_ADVISE_INTERNAL_H

#include "model/model.h"

struct vt_advise;

/* A row of the table. A test adds what it finds, once for each device where that is apt. */
struct vt_advise_rule {
	enum vt_advice_rule rule;
	void (*test)(struct vt_advise *a);
	/* What its advice begins with; the test changes what its evidence does not bear out. */
	enum vt_advice_remedy remedy;
	enum vt_certainty certainty;
	bool alarm;
};

struct vt_advise {
	struct vt_model *model;
	const struct vt_advise_rule *row;
	bool failed; /* out of memory */
};

/* rules.c: what to do first, first */
extern const struct vt_advise_rule vt_advise_rules[];
extern const size_t vt_advise_n_rules;

/*
 * Adds advice by the rule that is being tested; device: -1 none. NULL when out of memory, which all
 * functions below take: tests need not look at it, unless they change what the row says. Names are
 * literals. Values of 0 are values: leave out what is not known. The texts are copied.
 */
struct vt_model_advice *vt_advise_add(struct vt_advise *a, int device);
void vt_advise_number(struct vt_model_advice *advice, const char *name, uint64_t number);
void vt_advise_text(struct vt_advise *a, struct vt_model_advice *advice, const char *name,
		    const char *text);
void vt_advise_sure(struct vt_model_advice *advice, enum vt_certainty certainty);
void vt_advise_remedy(struct vt_model_advice *advice, enum vt_advice_remedy remedy);
void vt_advise_setting(struct vt_advise *a, struct vt_model_advice *advice, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void vt_advise_command(struct vt_advise *a, struct vt_model_advice *advice, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The exact allocator of the device; NULL: there is none. */
const struct vt_model_allocator *vt_advise_allocator(const struct vt_model *model, int device);

/* The process can be asked and changed: it is no core, and has not ended. */
bool vt_advise_is_live(const struct vt_model *model);

/*
 * The same, or a request failed at any time: for what is said without an alarm. An error of long
 * ago says nothing of now, but what the blocks in use are helps before the next one.
 */
bool vt_advise_was_short(const struct vt_model *model, int device);

/*
 * Whether a want of memory on this device shows: a request fails now, or hardly any of the device
 * is free and PyTorch's cache could not make up for that. Advice about memory without it is noise,
 * unless something is wrong in itself.
 */
bool vt_advise_pressure(const struct vt_model *model, int device);
/* Hardly any of it is free, whatever PyTorch has cached. */
bool vt_advise_is_full(const struct vt_model *model, int device);
/* A request fails on it now: it was caught, or the program still has the error. */
bool vt_advise_fails_now(const struct vt_model *model, int device);
/* A request has failed on it at some time: caught, recorded or counted by PyTorch. */
bool vt_advise_had_oom(const struct vt_model *model, int device);

/* The tests, by file: process.c, stuck.c, growth.c, host.c, fragmentation.c, device.c, blocks.c. */
void vt_advise_stopped(struct vt_advise *a);
bool vt_advise_waits_for_ranks(const struct vt_verdict *verdict);
bool vt_advise_waits_for_device(const struct vt_verdict *verdict);
void vt_advise_context_lost(struct vt_advise *a); /* faults.c */
void vt_advise_gpu_fault(struct vt_advise *a);    /* faults.c */
void vt_advise_throttled(struct vt_advise *a);    /* faults.c */
void vt_advise_deadlock(struct vt_advise *a);
void vt_advise_stream_deadlock(struct vt_advise *a);
void vt_advise_stuck(struct vt_advise *a);
void vt_advise_launcher(struct vt_advise *a);
void vt_advise_growth(struct vt_advise *a);
void vt_advise_shm_full(struct vt_advise *a);
void vt_advise_host_limit(struct vt_advise *a);
void vt_advise_pinned(struct vt_advise *a);
void vt_advise_address_limit(struct vt_advise *a);
void vt_advise_batch(struct vt_advise *a);        /* batch.c */
void vt_advise_notices(struct vt_advise *a);      /* owners.c: that of the row's rule */
void vt_advise_kept_items(struct vt_advise *a);   /* owners.c */
void vt_advise_pinned_cache(struct vt_advise *a); /* elsewhere.c */
void vt_advise_raw(struct vt_advise *a);          /* elsewhere.c */
void vt_advise_stream_cache(struct vt_advise *a);
void vt_advise_fragmented(struct vt_advise *a);
void vt_advise_elsewhere(struct vt_advise *a);
void vt_advise_cache_in_pieces(struct vt_advise *a);
void vt_advise_too_large(struct vt_advise *a);
void vt_advise_limited(struct vt_advise *a);
void vt_advise_others(struct vt_advise *a);
void vt_advise_ended(struct vt_advise *a);
void vt_advise_cache_kept(struct vt_advise *a);
void vt_advise_mig(struct vt_advise *a);
void vt_advise_awaiting(struct vt_advise *a);
void vt_advise_private_pools(struct vt_advise *a);
void vt_advise_libraries(struct vt_advise *a);
void vt_advise_past_oom(struct vt_advise *a);

/* next.c: what the report ends with; after the rules */
void vt_advise_next(struct vt_advise *a);

#endif
