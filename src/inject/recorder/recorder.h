/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder in a target: how to find, load and call it. Everything that is read from it is
 * hostile. Loading and switching on are separate requests, so a load that comes too late switches
 * nothing on.
 */
#ifndef VT_INJECT_RECORDER_RECORDER_H
#define VT_INJECT_RECORDER_RECORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "inject/inject.h"
#include "target/maps.h"
#include "vramtap/mem.h"
#include "vramtap/recorder.h"

#define VT_BUILD_ID_DIGITS 16 /* of the recorder's build id, in its name */

/* A recorder of any version that a target has loaded. */
struct vt_resident {
	uint64_t base, end;        /* of its mappings */
	uint64_t head;             /* address of vt_recorder */
	uint64_t control;          /* of vt_recorder_control() */
	uint32_t abi, size, state; /* as its head has them */
	char build_id[VT_BUILD_ID_DIGITS + 1];
};

#define VT_MAX_RESIDENTS 8

/*
 * Finds the recorders of a live process or a core. Those that make no sense are left out. Returns
 * how many.
 */
size_t vt_residents_find(const struct vt_maps *maps, struct vt_memsrc *src,
			 struct vt_resident residents[VT_MAX_RESIDENTS]);

/* Whether it is the version that this tool contains. */
bool vt_resident_is_own(const struct vt_resident *resident);

/*
 * The first recorder of this tool's version; NULL: none. (There may be two, when a vramtap died
 * while it loaded one.)
 */
const struct vt_resident *vt_resident_own(const struct vt_resident *residents, size_t n);

/*
 * Reads its head as far as this tool knows it: fields that a smaller head lacks are 0.
 * VT_ERR_UNSUPPORTED: another version; only its state and hooks are read.
 */
struct vt_error *vt_resident_read(const struct vt_resident *resident, struct vt_memsrc *src,
				  struct vt_recorder_head *head);

/*
 * The embedded library as a file in memory, named as in a target; the caller owns the descriptor.
 */
struct vt_error *vt_recorder_file(int *ret_fd);

/*
 * Makes the target load the recorder, which does nothing yet. VT_ERR_TIMEOUT: the loader is busy;
 * the recorder may still be loaded later, which changes nothing.
 */
struct vt_error *vt_recorder_load(struct vt_helper *helper, struct vt_modules *modules,
				  uint64_t deadline_ns);

/*
 * Calls vt_recorder_control(). config: NULL for VT_RECORD_OFF; its got points to n_got entries of
 * the tool's own. *status: enum vt_recorder_status.
 */
struct vt_error *vt_recorder_call(struct vt_helper *helper, const struct vt_resident *resident,
				  enum vt_recorder_op op, const struct vt_recorder_config *config,
				  uint64_t deadline_ns, uint32_t *status);

/* The state of a hook. */
enum vt_hook_state {
	VT_HOOK_OURS,     /* it is in place */
	VT_HOOK_OUT,      /* the word is as it was before */
	VT_HOOK_REPLACED, /* something else has written there */
	VT_HOOK_LOST,     /* the word cannot be read */
};
enum vt_hook_state vt_recorder_hook_state(const struct vt_recorder_hook *hook,
					  struct vt_memsrc *src);

#endif
