/* SPDX-License-Identifier: Apache-2.0 */
#include "model/place.h"

#include <inttypes.h>
#include <string.h>

#include "base/str.h"
#include "model/cxxname.h"

/* What tells native code without a name: where it is in its file, or else in memory. */
static uint64_t address_of(const struct vt_model_frame *f)
{
	if (f->function)
		return 0;
	return f->module ? f->module_offset : f->pc;
}

bool vt_place_equal(const struct vt_model_frame *a, const struct vt_model_frame *b)
{
	if (!a || !b)
		return a == b;
	return a->kind == b->kind && a->line == b->line && vt_same_text(a->function, b->function) &&
	       vt_same_text(a->file, b->file) && vt_same_text(a->module, b->module) &&
	       address_of(a) == address_of(b);
}

/* FNV-1a */
static uint64_t hash_text(uint64_t hash, const char *text)
{
	for (const char *p = text ? text : ""; *p; p++)
		hash = (hash ^ (unsigned char)*p) * UINT64_C(0x100000001b3);
	return hash;
}

uint64_t vt_place_hash(const struct vt_model_frame *f)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	if (!f)
		return hash;
	hash = hash_text(hash_text(hash, f->function), f->file);
	return hash ^ (uint64_t)(uint32_t)f->line << 16 ^ address_of(f);
}

void vt_place_add_function(struct vt_str *text, const struct vt_model_frame *f, bool ascii)
{
	if (!f->function || !*f->function)
		vt_str_add(text, "??");
	else if (f->kind == VT_FRAME_PYTHON)
		vt_str_add(text, f->function);
	else
		/* @ begins a symbol's version. */
		vt_cxx_short_name(text, f->function, strcspn(f->function, "@"),
				  ascii ? "..." : "…");
}

void vt_place_add_where(struct vt_str *text, const struct vt_model_frame *f)
{
	const char *file = f->file ? f->file : f->module, *slash = file ? strrchr(file, '/') : NULL;

	if (file)
		vt_str_add(text, slash ? slash + 1 : file);
	else if (f->kind == VT_FRAME_NATIVE)
		vt_str_addf(text, "0x%" PRIx64, f->pc);
	if (f->file && f->line > 0)
		vt_str_addf(text, ":%d", f->line);
	else if (!f->file && f->module && !f->function)
		vt_str_addf(text, "+0x%" PRIx64, f->module_offset);
}

/* Code on every thread's way: the place of a thread in it says less than its caller. */
static bool is_library(const struct vt_model_frame *f)
{
	static const char *const fragments[] = {
		"/site-packages/", "/dist-packages/", "/lib/python3",        "<frozen ",
		"/torch/cuda/",    "/torch/nn/",      "/torch/optim/",       "/torch/autograd/",
		"/torch/utils/",   "/torch/_",        "/torch/distributed/",
	};

	for (size_t i = 0; f->file && i < sizeof(fragments) / sizeof(fragments[0]); i++)
		if (strstr(f->file, fragments[i]))
			return true;
	return false;
}

const struct vt_model_frame *vt_place_telling(const struct vt_model_stack *stack)
{
	for (size_t i = 0; i < stack->n_frames; i++)
		if (stack->frames[i].kind == VT_FRAME_PYTHON && stack->frames[i].function &&
		    !is_library(&stack->frames[i]))
			return &stack->frames[i];
	return vt_model_python_frame(stack);
}
