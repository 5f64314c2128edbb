/* SPDX-License-Identifier: Apache-2.0 */
/* A process whose recorder is read, switched on or off: what the commands for that share. */
#ifndef VT_RECORD_TARGET_H
#define VT_RECORD_TARGET_H

#include "collect/target.h"
#include "inject/recorder/recorder.h"

/* What is to be recorded. */
struct vt_record_request {
	bool python, native; /* kinds of frames */
	bool driver;         /* the driver's allocations, too */
	bool cupti;          /* through CUPTI if possible, see record/driver.c */
	bool launches;       /* what streams are given */
	uint64_t max_memory;
	uint64_t sample_bytes; /* 0: every allocation */
};

struct vt_record_target {
	struct vt_target process;
	uint64_t budget_ns; /* for getting inside, and again for each answer of the helper */
	struct vt_resident residents[VT_MAX_RESIDENTS];
	size_t n_residents;
	const struct vt_resident *resident; /* one that is on, otherwise our own; NULL: neither */
	bool inherited;                     /* by fork(): the parent's recording; it is not here */
	struct vt_recorder_head *head;      /* of it; zero when there is none */
	struct vt_helper *helper;
	uint64_t borrowed_ns; /* how long a thread was borrowed to get inside; 0: none was */
	/* connection to the thread that waits at the gate and does the helper's work; -1: none */
	int gate;
	struct vt_recorder_got *got;  /* what config.got of the last configuration points to */
	uint64_t n_launches;          /* that the recorder has seen */
	size_t no_room_for_launches;  /* words that were found beyond those in got */
	uint64_t unread_for_launches; /* bytes of libraries' data that were not searched for them */
	bool has_torch;               /* PyTorch is loaded */
	char no_torch[256];           /* why PyTorch's allocator is not recorded, "" it is */
	char no_driver[256];          /* the same of the driver */
	char no_python[256];          /* why there are no Python frames */
	char not_inside[256];         /* why the recorder did not end the recording itself */
};

/*
 * Opens the process and takes its lock. vt_record_close() closes what was opened, also after an
 * error.
 */
struct vt_error *vt_record_open(struct vt_record_target *target, pid_t pid, uint64_t budget_ns);
/* The same for a mere look: it needs no lock, so it waits for no other vramtap. */
struct vt_error *vt_record_open_to_read(struct vt_record_target *target, pid_t pid);
void vt_record_close(struct vt_record_target *target);

/* Reads the recorder again: fills resident and head. Nothing runs in the process for it. */
struct vt_error *vt_record_look(struct vt_record_target *target);
bool vt_record_is_on(const struct vt_record_target *target);
/*
 * It is on, but off from outside, or another tool has restored all pointers: the recorder itself
 * does not know.
 */
bool vt_record_was_unhooked(const struct vt_record_target *target);

/*
 * Switches recording on; if it is already on, only adds PyTorch's allocator if that is new.
 * no_torch, no_driver and no_python explain what is not recorded. VT_ERR_BUSY: it is on with other
 * settings, or another version's is.
 */
struct vt_error *vt_record_on(struct vt_record_target *target,
			      const struct vt_record_request *request);
/* It is on: the same with its settings, if PyTorch's allocator is new. */
struct vt_error *vt_record_complete(struct vt_record_target *target);

/*
 * Switches it off, without the helper if that cannot be started: then the changed words are
 * restored from outside. *kept: bytes that could not be freed.
 */
struct vt_error *vt_record_off(struct vt_record_target *target, uint64_t *kept);

/* How many of its hooks are in a state. */
size_t vt_record_count_hooks(const struct vt_record_target *target,
			     const struct vt_recorder_head *head, enum vt_hook_state state);

/* ---- record/driver.c ---- */

typedef struct vt_error *vt_record_call_fn(struct vt_record_target *target, enum vt_recorder_op op,
					   const struct vt_recorder_config *config);

/* What following the driver's calls needs, or no_driver. */
void vt_record_configure_driver(struct vt_record_target *target, bool cupti,
				struct vt_recorder_config *config);
/* After vt_record_configure_driver(): the words through which launches are seen. */
void vt_record_configure_launches(struct vt_record_target *target,
				  struct vt_recorder_config *config);
/* Makes the process load CUPTI, if it was only found next to it. Before VT_RECORD_ON. */
struct vt_error *vt_record_load_cupti(struct vt_record_target *target,
				      struct vt_recorder_config *config, vt_record_call_fn *call);
/* After a read of a recorder that is on: no_driver gets the driver's calls that it cannot see. */
void vt_record_explain_driver(struct vt_record_target *target);

#endif
