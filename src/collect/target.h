/* SPDX-License-Identifier: Apache-2.0 */
/* An open process, or a core: the beginning of every look, whether a report follows or not. */
#ifndef VT_COLLECT_TARGET_H
#define VT_COLLECT_TARGET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "target/core/core.h"
#include "target/core/files.h"
#include "target/elfsym.h"
#include "target/live.h"
#include "target/maps.h"
#include "target/proc.h"
#include "walk/torch/torch.h"

struct vt_collect;
struct vt_held;
struct vt_python;
struct vt_stacks;
struct vt_target;

/* What is looked at. */
struct vt_subject {
	const struct vt_origin *origin;
	pid_t pid;                  /* a live process, */
	const char *core;           /* or a core, */
	struct vt_core_paths paths; /* and where its files may be */
	struct vt_held *held;       /* the data of a debugger that holds it; outlives the report */
};

/* The origin: what a live process and a core do differently. */
struct vt_origin {
	bool stands_still; /* by itself: nothing needs to be stopped */

	/*
	 * Fills t->proc, maps, modules, mem, cached. If it fails and t->proc.pid is set, the
	 * process is at least identified.
	 */
	struct vt_error *(*open)(struct vt_target *t, const struct vt_subject *subject);
	/* Releases what is its own; modules and maps still exist, and are not used afterwards. */
	void (*close)(struct vt_target *t);
	/* The interpreter in t->modules. */
	struct vt_error *(*find_python)(struct vt_target *t, struct vt_python *python);
	/*
	 * Today's map, if it has changed. On an error there are no modules. Pointers to modules are
	 * invalid afterwards, in any case.
	 */
	struct vt_error *(*refresh_maps)(struct vt_target *t);

	/* For a report. Its identity, into the model. */
	void (*identify)(struct vt_collect *c, const struct vt_subject *subject);
	/* At the end: reports findings about its files, or that it is gone. */
	void (*finish)(struct vt_collect *c);
	/* The name of a thread, in the model's arena; "" unknown. */
	const char *(*thread_name)(struct vt_collect *c, pid_t tid);
	/* The threads (collect/stacks.h): their list with the kernel's data, then copies. */
	struct vt_error *(*list_threads)(struct vt_stacks *s);
	void (*capture)(struct vt_stacks *s); /* at the moment of the stop, stopped or not */
};

extern const struct vt_origin vt_origin_process; /* collect/origin_process.c */
extern const struct vt_origin vt_origin_core;    /* collect/origin_core.c */
/* collect/origin_held.h has vt_origin_held. */

struct vt_target {
	const struct vt_origin *origin;
	struct vt_proc proc;
	struct vt_maps maps;
	uint64_t maps_ns;     /* when they were last seen to be those of the process; 0: unknown */
	struct vt_maps newer; /* what refresh_maps() takes if that was read just now; see below */
	uint64_t newer_ns;
	struct vt_modules modules;
	struct vt_memsrc *mem;    /* its memory: as it is now, */
	struct vt_memsrc *cached; /* and with pages that were read before */
	struct vt_live *live;     /* a live process */
	struct vt_core *core;     /* a core */
	struct vt_held *held;     /* a debugger holds it */
	struct vt_files *core_files;
	int lock_fd; /* one vramtap at a time; -1: not locked */
};

/* vt_target_close() closes what was opened, also after an error. */
struct vt_error *vt_target_open(struct vt_target *t, const struct vt_subject *subject);
void vt_target_close(struct vt_target *t);

/*
 * Reading the map takes a millisecond, and a report needs it at several places within moments:
 * what was read for one is good enough for the next.
 */
#define VT_MAPS_AGE_NS (50 * VT_NS_PER_MS)
/* Hands over a map that was read for something else. */
void vt_target_offer_maps(struct vt_target *t, struct vt_maps *maps);
/* We have changed it since. */
void vt_target_withdraw_maps(struct vt_target *t);

/* Waits for another vramtap to finish with the process; the next one waits until it is closed. */
struct vt_error *vt_target_lock(struct vt_target *t, uint64_t wait_ns);

/* Which allocator PyTorch uses, and its layout. Obstacles are in found, too. */
void vt_target_find_torch(struct vt_target *t, struct vt_torch_found *found);

#endif
