/* SPDX-License-Identifier: Apache-2.0 */
#include "walk/python/internal.h"
#include "walk/python/places.h"

/*
 * Each place as a thread of one frame: vt_python_resolve() stops at the first frame of a thread
 * that is none.
 */
static bool add_threads(struct vt_python *py, const struct vt_python_place *places, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct vt_python_thread *thread = vt_vec_append(&py->threads);
		struct vt_python_frame *frame;

		if (!thread)
			return false;
		*thread = (struct vt_python_thread){ 0 };
		frame = vt_vec_append(&thread->frames);
		if (!frame)
			return false;
		*frame = (struct vt_python_frame){
			.code = places[i].code,
			.lasti = places[i].lasti,
			/* it allocated, so it had begun: it is not to be hidden */
			.generator = true,
		};
	}
	return true;
}

struct vt_error *vt_python_name_places(struct vt_python *py, struct vt_memsrc *src,
				       struct vt_python_place *places, size_t n)
{
	vt_py_drop_threads(py);
	if (!add_threads(py, places, n))
		return &vt_enomem;
	VT_TRY(vt_python_resolve(py, src));
	for (size_t i = 0; i < n; i++) {
		const struct vt_python_thread *thread = &py->threads.data[i];
		struct vt_python_place *place = &places[i];

		place->valid = thread->frames.n == 1 && !thread->truncated;
		if (!place->valid)
			continue;
		place->function = thread->frames.data[0].function;
		place->name = thread->frames.data[0].name;
		place->file = thread->frames.data[0].file;
		place->line = thread->frames.data[0].line;
	}
	return NULL;
}
