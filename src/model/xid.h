/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Xids mean, after NVIDIA's "Xid Errors" (Xid catalog, docs.nvidia.com/deploy/xid-errors). A
 * code has meant the same in all versions of the driver.
 */
#ifndef VT_MODEL_XID_H
#define VT_MODEL_XID_H

#include <stdbool.h>
#include <stdint.h>

/* Whose fault it mostly is. */
enum vt_xid_blame {
	VT_BLAME_UNKNOWN,
	VT_BLAME_APPLICATION,
	VT_BLAME_DRIVER,
	VT_BLAME_HARDWARE,
	VT_BLAME_LINK,      /* NVLink, C2C or PCIe */
	VT_BLAME_AFTERMATH, /* what follows another error, or the end of a process */
	VT_N_BLAMES
};

/* What to do first. */
enum vt_xid_action {
	VT_XID_NOTE,    /* nothing now */
	VT_XID_DEBUG,   /* find the error in the program */
	VT_XID_RESTART, /* restart the program */
	VT_XID_RESET,   /* reset the device, which ends all that use it */
	VT_XID_REBOOT,  /* restart the machine */
	VT_N_XID_ACTIONS
};

struct vt_xid_meaning {
	uint32_t code;
	enum vt_xid_blame blame;
	enum vt_xid_action action;
	/*
	 * The driver takes the channel away from the process that it names: the context is lost,
	 * and all calls fail from then on.
	 */
	bool loses_context;
	const char *name;
};

/* NULL: nothing is known of it. */
const struct vt_xid_meaning *vt_xid_meaning(uint32_t code);

const char *vt_xid_blame_name(unsigned int blame);   /* "unknown", "application", "driver", ... */
const char *vt_xid_action_name(unsigned int action); /* "note", "debug", "restart", ... */

#endif
