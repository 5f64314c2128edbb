/* SPDX-License-Identifier: Apache-2.0 */
#include "walk/native/pcs.h"

#include <stdlib.h>

static int compare_pcs(const void *a, const void *b)
{
	const struct vt_native_pc *x = a, *y = b;

	return (x->pc > y->pc) - (x->pc < y->pc);
}

struct vt_error *vt_native_pcs(struct vt_modules *modules, struct vt_native_stack *stacks, size_t n,
			       struct vt_native_pc **pcs, size_t *n_pcs)
{
	size_t n_frames = 0;

	*pcs = NULL;
	*n_pcs = 0;
	for (size_t i = 0; i < n; i++)
		n_frames += stacks[i].frames.n;
	if (n_frames == 0)
		return NULL;
	*pcs = malloc(n_frames * sizeof(**pcs));
	if (!*pcs)
		return &vt_enomem;
	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < stacks[i].frames.n; k++) {
			struct vt_native_frame *frame = &stacks[i].frames.data[k];
			uint64_t pc = frame->pc - !(frame->activation || frame->signal);
			struct vt_module *module = vt_modules_find(modules, pc);

			if (module)
				(*pcs)[(*n_pcs)++] = (struct vt_native_pc){ .frame = frame,
									    .module = module,
									    .pc = pc };
		}
	}
	/* Modules do not overlap, so that the order by address is one by module, too. */
	qsort(*pcs, *n_pcs, sizeof(**pcs), compare_pcs);
	return NULL;
}

size_t vt_native_pcs_end(const struct vt_native_pc *pcs, size_t n, size_t first)
{
	size_t end = first + 1;

	while (end < n && pcs[end].module == pcs[first].module)
		end++;
	return end;
}
