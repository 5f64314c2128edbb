/* SPDX-License-Identifier: Apache-2.0 */
/* A process whose recorder is looked at, switched on or off: what the commands do that need it. */
#ifndef VT_RECORD_TARGET_H
#define VT_RECORD_TARGET_H

#include "collect/target.h"
#include "inject/recorder/recorder.h"

/* What is to be recorded. */
struct vt_record_request {
	bool python, native; /* kinds of frames */
	bool driver;         /* the driver's allocations, too */
	bool cupti;          /* through CUPTI where it is to be had, see record/driver.c */
	uint64_t max_memory;
	uint64_t sample_bytes; /* 0: every allocation */
};

struct vt_record_target {
	struct vt_target process;
	uint64_t budget_ns; /* for getting inside, and again for each answer of the helper */
	struct vt_resident residents[VT_MAX_RESIDENTS];
	size_t n_residents;
	const struct vt_resident *resident; /* one that is on, else our own; NULL: neither */
	bool inherited; /* by fork(): the parent's recording, of which nothing is here */
	struct vt_recorder_head *head; /* of it; zero when there is none */
	struct vt_helper *helper;
	/*
	 * connection to the thread that waits at the gate and does what the helper would; -1: none
	 * does
	 */
	int gate;
	struct vt_recorder_got *got; /* what config.got of the last configuration points to */
	char no_torch[256];          /* why PyTorch's allocator is not recorded, "" it is */
	char no_driver[256];         /* the same of the driver */
	char no_python[256];         /* why there are no Python frames */
	char not_inside[256]; /* why it was not the recorder itself that ended the recording */
};

/*
 * Opens the process and takes its lock. What was opened is closed by vt_record_close(), also after
 * an error.
 */
struct vt_error *vt_record_open(struct vt_record_target *target, pid_t pid, uint64_t budget_ns);
/* The same for who only looks: it needs no lock, so nobody is waited for. */
struct vt_error *vt_record_open_to_read(struct vt_record_target *target, pid_t pid);
void vt_record_close(struct vt_record_target *target);

/* Looks at the recorder, again: fills resident and head. Nothing runs in the process for it. */
struct vt_error *vt_record_look(struct vt_record_target *target);
bool vt_record_is_on(const struct vt_record_target *target);
/*
 * It is on, but off from outside, or something else has changed all pointers back: the recorder
 * itself does not know.
 */
bool vt_record_was_unhooked(const struct vt_record_target *target);

/*
 * Switches recording on; where it is on already only PyTorch's allocator is added, if it was not
 * there then. What is not recorded is explained in no_torch, no_driver and no_python. VT_ERR_BUSY:
 * it is on with other settings, or another version's is.
 */
struct vt_error *vt_record_on(struct vt_record_target *target,
			      const struct vt_record_request *request);
/*
 * It is on: the same with the settings that it has, where PyTorch's allocator was not there then.
 */
struct vt_error *vt_record_complete(struct vt_record_target *target);

/*
 * Switches it off, without the helper if that cannot be started: then the words that were changed
 * are changed back from outside. *kept: bytes that could not be given back.
 */
struct vt_error *vt_record_off(struct vt_record_target *target, uint64_t *kept);

/* How many of its hooks are in a state. */
size_t vt_record_count_hooks(const struct vt_record_target *target,
			     const struct vt_recorder_head *head, enum vt_hook_state state);

/* ---- record/driver.c ---- */

typedef struct vt_error *vt_record_call_fn(struct vt_record_target *target, enum vt_recorder_op op,
					   const struct vt_recorder_config *config);

/* What is needed to follow the driver's calls, or no_driver. */
void vt_record_configure_driver(struct vt_record_target *target, bool cupti,
				struct vt_recorder_config *config);
/* Has the process load CUPTI, if it was only found beside it. Before VT_RECORD_ON. */
struct vt_error *vt_record_load_cupti(struct vt_record_target *target,
				      struct vt_recorder_config *config, vt_record_call_fn *call);
/*
 * After a look at a recorder that is on: what is not seen of the driver's calls goes to no_driver.
 */
void vt_record_explain_driver(struct vt_record_target *target);

#endif
