/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tools that show profiles read: samples, each of a stack, with what was counted there and
 * labels. It is built from a finished model (memory.h, threads.h, job/profile), and the writers
 * print it (formats.h). Stacks are a tree: a node is a frame and the node that it was called from,
 * and so stands for the whole stack.
 */
#ifndef VT_REPORT_PROFILE_PROFILE_H
#define VT_REPORT_PROFILE_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/map.h"
#include "base/vec.h"
#include "model/model.h"
#include "report/profile/texts.h"

enum vt_profile_unit {
	VT_PROFILE_BYTES,   /* of memory; count is of blocks */
	VT_PROFILE_THREADS, /* count is of threads, and there are no bytes */
};

/* Numbers without another word are those of texts. What is 0 is unknown, or there is none. */
struct vt_profile_frame {
	uint32_t name;   /* short: "Attention.forward", "c10::f<...>", "libfoo.so+0x12f0" */
	uint32_t where;  /* "attn.py:57", "libfoo.so" */
	uint32_t system; /* the function's full name, where name is shorter */
	uint32_t file;
	uint32_t line;
	uint32_t module, build_id; /* of native code */
	uint32_t inlined;          /* 1: into the next frame further out */
	uint64_t pc, bias;         /* of native code, where these matter: its module is at bias */
};

enum vt_profile_label {
	VT_LABEL_LIBRARY,
	VT_LABEL_DEVICE,
	VT_LABEL_STATE,
	VT_LABEL_KIND, /* of an allocation of the driver */
	VT_LABEL_CATEGORY,
	VT_LABEL_OWNER,
	VT_LABEL_VARIABLE,
	VT_LABEL_MODULE,
	VT_LABEL_TYPE,
	VT_LABEL_DTYPE,
	VT_LABEL_SHAPE,
	VT_LABEL_STREAM,
	VT_LABEL_POOL,
	VT_LABEL_THREAD, /* that allocated it */
	VT_N_LABELS
};

struct vt_profile_sample {
	uint32_t node;
	uint32_t group;
	uint32_t labels[VT_N_LABELS]; /* texts */
	uint64_t beside;              /* 1: no part of what lines of folded stacks add up to */
	uint64_t size;                /* of each block; 0 unknown */
	uint64_t count, bytes;
};
/* They are compared as bytes. */
_Static_assert(sizeof(struct vt_profile_sample) == (2 + VT_N_LABELS) * 4 + 4 * 8, "no padding");
_Static_assert(sizeof(struct vt_profile_frame) == 8 * 4 + 2 * 8, "no padding");

struct vt_profile_node {
	uint32_t parent, frame;
};

/* Samples that are shown together. */
struct vt_profile_group {
	uint32_t name; /* text */
	bool repeats;  /* what others have, in another way: for those who can choose */
};

#define VT_PROFILE_ROOT 0 /* the node without a frame */

struct vt_profile {
	enum vt_profile_unit unit;
	struct vt_texts texts;
	VT_VEC(struct vt_profile_frame) frames;
	VT_VEC(struct vt_profile_node) nodes; /* a parent comes before its children */
	VT_VEC(struct vt_profile_sample) samples;
	VT_VEC(struct vt_profile_group) groups;
	VT_VEC(uint32_t) comments;    /* texts */
	uint32_t name, program, tool; /* texts: of the whole, of the process, "vramtap 0.1.0" */
	struct timespec when;
	bool roots; /* groups are different things: where there are more, they are a frame, too */
	/* private: */
	struct vt_map by_frame, by_call, by_sample;
	bool failed; /* out of memory: parts are missing */
};

void vt_profile_init(struct vt_profile *profile, enum vt_profile_unit unit);
void vt_profile_deinit(struct vt_profile *profile);

/* All numbers below are valid, whatever fails: it is enough to ask once, at the end. */
bool vt_profile_failed(const struct vt_profile *profile);

static inline uint32_t vt_profile_text(struct vt_profile *profile, const char *text)
{
	return vt_texts_add(&profile->texts, text);
}

/* A text from printf. */
uint32_t vt_profile_textf(struct vt_profile *profile, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

uint32_t vt_profile_group(struct vt_profile *profile, uint32_t name, bool repeats);
void vt_profile_comment(struct vt_profile *profile, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Equal frames have one number. */
uint32_t vt_profile_frame(struct vt_profile *profile, const struct vt_profile_frame *frame);

/* One that is no code: a name alone. */
uint32_t vt_profile_word(struct vt_profile *profile, const char *name);

/* addresses: native code at two addresses is two frames; else it is one if its names are equal. */
uint32_t vt_profile_code(struct vt_profile *profile, const struct vt_model_frame *frame,
			 bool addresses);

/* The node of a frame that was called from another node. */
uint32_t vt_profile_call(struct vt_profile *profile, uint32_t caller, uint32_t frame);

/* Joined with one that is equal in all but count and bytes. */
void vt_profile_add(struct vt_profile *profile, const struct vt_profile_sample *sample);

#endif
