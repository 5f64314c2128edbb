/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What JAX's own memory profile says: which arrays and programs there are, and where Python code
 * made them. It is pprof's format, profile.proto of github.com/google/pprof, as jaxlib writes it:
 * two values for each sample, count and bytes, and the labels "kind" and "device".
 */
#ifndef VT_MODEL_JAX_H
#define VT_MODEL_JAX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/vec.h"

struct vt_model_frame;

/* Arrays that were made in the same way, or compiled programs. */
struct vt_model_jax_site {
	uint64_t bytes, count;
	const char *device; /* as JAX calls it: "cuda:0"; "" none, as of programs */
	bool is_program;    /* compiled code, not arrays */
	const struct vt_model_frame *frames; /* innermost first */
	size_t n_frames;
	size_t title; /* the innermost frame of the program's own, of frames; n_frames none */
};

struct vt_model_jax {
	bool told;                              /* it was asked and has answered */
	bool cut;                               /* there are more than VT_JAX_MAX_SITES */
	VT_VEC(struct vt_model_jax_site) sites; /* the largest first */
};

#define VT_JAX_MAX_SITES 20000

/*
 * Adds one profile, n bytes; strings and frames go into arena. VT_ERR_FORMAT: it makes no sense;
 * then nothing is added.
 */
struct vt_error *vt_jax_profile(struct vt_model_jax *jax, struct vt_arena *arena,
				const uint8_t *data, size_t n);

/* Joins what is equal, and sorts. Once after all profiles. */
void vt_jax_finish(struct vt_model_jax *jax);

#endif
