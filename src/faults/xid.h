/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One record of /dev/kmsg, and the Xid in it: NVIDIA's driver writes a line "NVRM: Xid (PCI:...)"
 * to the kernel's log for each fault of a device. Other programs choose parts of what is there (the
 * name of a process), so all is checked; texts are hostile.
 */
#ifndef VT_FAULTS_XID_H
#define VT_FAULTS_XID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define VT_XID_TEXT 200

/* The part of a record that is before its text, "prio,seq,usec,flags;text". */
struct vt_log_record {
	bool kernel;    /* by the kernel itself; a process that writes there cannot claim that */
	uint64_t at_us; /* since boot, by the kernel's own clock */
	const char *text;
	size_t n; /* bytes of text, up to the end of its line */
};

struct vt_xid {
	uint64_t at_us;
	uint32_t code;
	uint32_t domain, bus, slot; /* PCI address of the device */
	pid_t pid;                  /* in the first pid namespace; 0: it names no process */
	char name[16];              /* of that process (comm); "" */
	char text[VT_XID_TEXT];     /* what follows, "" nothing; cut if it is longer */
};

/* False: it is none. n bytes that need not end with 0. */
bool vt_log_record_parse(const char *bytes, size_t n, struct vt_log_record *record);

/* False: the kernel did not write it, or it is no Xid. */
bool vt_xid_parse(const struct vt_log_record *record, struct vt_xid *xid);

/* pci: an address as NVML has it, "00000000:1B:00.0". */
bool vt_xid_is_at(const struct vt_xid *xid, const char *pci);

#endif
