/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A streaming writer of Prometheus' text format, version 0.0.4, for files that the textfile
 * collector of node_exporter reads. That collector refuses a whole file for one series that is
 * there twice, for a byte that is not UTF-8, or for a time of its own beside a value: none of these
 * can come out of here, whatever the values of labels are. Names of families and labels, and HELP,
 * are ours: plain ASCII without quotes and backslashes.
 *
 * The families of one file come one after the other, each with all its samples.
 */
#ifndef VT_PROMETHEUS_PROMETHEUS_H
#define VT_PROMETHEUS_PROMETHEUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include "base/error.h"
#include "base/map.h"
#include "base/str.h"

/* Of a label's value: the rest is cut off. */
#define VT_PROM_MAX_LABEL 128
/* Whose series are in one file: each has some dozens, and a server keeps them all. */
#define VT_PROM_MAX_PROCESSES 1024

struct vt_prom_family {
	const char *name;
	const char *type; /* "gauge", "counter" */
	const char *help; /* one line; equal in all files of a machine, or they are refused */
};

struct vt_prom {
	FILE *out;
	const struct vt_prom_family *family;
	bool begun;           /* HELP and TYPE are written: the family has a sample */
	struct vt_str labels; /* of the next sample */
	size_t n_shared;      /* bytes of them that all samples have */
	struct vt_map seen;   /* series of this family, by hash */
	uint64_t seed;        /* of the hashes: targets choose labels */
	bool failed;
};

void vt_prom_init(struct vt_prom *prom, FILE *out);
/* Flushes and releases. VT_ERR_OS, VT_ERR_NOMEM. */
struct vt_error *vt_prom_finish(struct vt_prom *prom);

void vt_prom_family(struct vt_prom *prom, const struct vt_prom_family *family);

/*
 * A label of the next sample. The value is hostile; NULL, "" and, of a number, below 0: none. The
 * label is there all the same, so that the series of a family have the same ones.
 */
void vt_prom_label(struct vt_prom *prom, const char *name, const char *value);
void vt_prom_label_known(struct vt_prom *prom, const char *name, int64_t value);

/* The labels since the last sample are labels of all that follow. */
void vt_prom_share(struct vt_prom *prom);

/* A sample; one with the labels of an earlier one of its family is left out. */
void vt_prom_uint(struct vt_prom *prom, uint64_t value);
void vt_prom_int(struct vt_prom *prom, int64_t value);
void vt_prom_bool(struct vt_prom *prom, bool value);
/* With six decimals; left out if it is no number. */
void vt_prom_seconds(struct vt_prom *prom, double value);
/* There is none, after labels. */
void vt_prom_none(struct vt_prom *prom);

/* ---- families that several commands have ---- */

/* clang-format off */
#define VT_PROM_BUILD "vramtap_build_info", "gauge", "The version of vramtap that wrote this"
#define VT_PROM_WHEN "vramtap_last_run_timestamp_seconds", "gauge", "When this was looked at, in seconds since 1970"
#define VT_PROM_TOOK "vramtap_last_run_duration_seconds", "gauge", "How long looking took"
#define VT_PROM_COMPLETE "vramtap_last_run_complete", "gauge", "Whether everything that was looked for is known"
/* clang-format on */

/* Their samples, with the label of the command. */
void vt_prom_build(struct vt_prom *prom, const char *command, const char *version);
void vt_prom_when(struct vt_prom *prom, const char *command, const struct timespec *when);
void vt_prom_complete(struct vt_prom *prom, const char *command, bool complete);

#endif
