/* SPDX-License-Identifier: Apache-2.0 */
#include "walk/recorder/python.h"

#include "walk/python/layout.h"
#include "walk/python/object.h"

/* The recorder tells frames apart by these; all releases from 3.8 on have them. */
static const enum vt_py_field needed[] = {
	VT_PY_FRAME_PREVIOUS, VT_PY_FRAME_CODE,       VT_PY_CODE_FILENAME, VT_PY_CODE_NAME,
	VT_PY_CODE_LINETABLE, VT_PY_CODE_FIRSTLINENO, VT_PY_OBJECT_TYPE,
};

/*
 * This table copies offsets to their destinations: struct vt_recorder_python in words of 32 bits.
 */
static const struct {
	uint16_t to;
	uint16_t field; /* enum vt_py_field */
} offsets[] = {
#define TO(member, field)                                                  \
	{                                                                  \
		offsetof(struct vt_recorder_python, member), VT_PY_##field \
	}
	TO(tstate_frame, TSTATE_FRAME),
	TO(tstate_cframe, TSTATE_CFRAME),
	TO(cframe_frame, CFRAME_FRAME),
	TO(frame_previous, FRAME_PREVIOUS),
	TO(frame_code, FRAME_CODE),
	TO(frame_instr, FRAME_INSTR),
	TO(frame_lasti, FRAME_LASTI),
	TO(frame_owner, FRAME_OWNER),
	TO(owner_generator, OWNER_GENERATOR),
	TO(owner_shim, OWNER_SHIM),
	TO(code_tags, CODE_TAGS),
	TO(lasti_scale, LASTI_SCALE),
	TO(code_filename, CODE_FILENAME),
	TO(code_name, CODE_NAME),
	TO(code_qualname, CODE_QUALNAME),
	TO(code_linetable, CODE_LINETABLE),
	TO(code_firstlineno, CODE_FIRSTLINENO),
	TO(code_bytecode, CODE_BYTECODE),
	TO(code_firsttraceable, CODE_FIRSTTRACEABLE),
	TO(object_type, OBJECT_TYPE),
	TO(str_length, UNICODE_LENGTH),
	TO(str_state, UNICODE_STATE),
	TO(str_data, UNICODE_ASCII_DATA),
	TO(frame_tlbc, FRAME_TLBC),
	TO(code_tlbc, CODE_TLBC),
#undef TO
};

_Static_assert(VT_RECORDER_NONE == VT_PY_NONE, "a field that is not there");
#define OTHERS 3 /* code_version, str_is_ascii, pad */
_Static_assert((sizeof(offsets) / sizeof(offsets[0]) + OTHERS) * sizeof(uint32_t) +
			       3 * sizeof(uint64_t) ==
		       sizeof(struct vt_recorder_python),
	       "each offset has its row");

static struct vt_error *cannot(const struct vt_python *py, const char *why)
{
	return vt_error_create(VT_ERR_UNSUPPORTED,
			       "the frames of %sCPython %d.%d cannot be recorded: %s",
			       py->free_threaded ? "free-threaded " : "", py->major, py->minor,
			       why);
}

/*
 * The recorder reads in the middle of an allocation. A wrong read crashes the target, so we refuse
 * if a field is missing.
 */
static struct vt_error *check_layout(const struct vt_python *py)
{
	const struct vt_python_layout *layout = py->layout;
	bool instr = vt_py_has(layout, VT_PY_FRAME_INSTR);
	bool ok = vt_py_has(layout, VT_PY_TSTATE_FRAME) ||
		  (vt_py_has(layout, VT_PY_TSTATE_CFRAME) && vt_py_has(layout, VT_PY_CFRAME_FRAME));

	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++)
		ok = ok && vt_py_has(layout, needed[i]);
	ok = ok && (instr ? vt_py_has(layout, VT_PY_CODE_BYTECODE) &&
				    vt_py_has(layout, VT_PY_FRAME_OWNER) :
			    vt_py_has(layout, VT_PY_FRAME_LASTI));
	ok = ok &&
	     (vt_py_code_version_at(layout) != VT_PY_NONE ||
	      (vt_py_has(layout, VT_PY_UNICODE_LENGTH) && vt_py_has(layout, VT_PY_UNICODE_STATE) &&
	       vt_py_has(layout, VT_PY_UNICODE_ASCII_DATA)));
	ok = ok && vt_py_has(layout, VT_PY_FRAME_TLBC) == vt_py_has(layout, VT_PY_CODE_TLBC);
	return ok ? NULL : cannot(py, "it does not keep them as its release does");
}

/*
 * vt_python_init() has checked the layout against the running interpreter, as far as it had frames.
 * Here we follow, once, all that the recorder will follow: threads, frames, code objects.
 */
static struct vt_error *check_frames(struct vt_python *py, struct vt_memsrc *src)
{
	size_t good = 0, bad = 0;

	VT_TRY(vt_python_capture(py, src));
	for (size_t i = 0; i < py->threads.n; i++) {
		const struct vt_python_thread *thread = &py->threads.data[i];

		for (size_t f = 0; f < thread->frames.n; f++) {
			if (vt_py_is(py, src, thread->frames.data[f].code, VT_PYTHON_CODE))
				good++;
			else
				bad++;
		}
	}
	/* A thread that runs during the read can leave one invalid frame. */
	if (bad > good / 100)
		return cannot(py, "what should be code objects are none");
	if (!good)
		return vt_error_create(VT_ERR_BUSY, "no thread runs Python code yet");
	return NULL;
}

struct vt_error *vt_recorder_python(struct vt_python *py, struct vt_modules *modules,
				    struct vt_memsrc *src, struct vt_recorder_python *out)
{
	static const char *const names[] = { "PyGILState_GetThisThreadState", "Py_IsFinalizing",
					     "_Py_IsFinalizing" };
	uint64_t addrs[3] = { 0 };
	struct vt_recorder_python python = { 0 };

	VT_TRY(check_layout(py));
	VT_TRY(vt_module_dynsyms(modules, (struct vt_module *)py->module, names, 3, addrs));
	if (!addrs[0])
		return cannot(py, "it does not export PyGILState_GetThisThreadState()");
	if (!addrs[1] && !addrs[2])
		return cannot(py, "it does not export _Py_IsFinalizing()");
	VT_TRY(check_frames(py, src));
	python.get_this_tstate = addrs[0];
	python.is_finalizing = addrs[1] ? addrs[1] : addrs[2];
	python.code_type = py->types[VT_PYTHON_CODE].named ? py->types[VT_PYTHON_CODE].named :
							     py->types[VT_PYTHON_CODE].symbol;
	for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++)
		memcpy((uint8_t *)&python + offsets[i].to, &py->layout->at[offsets[i].field],
		       sizeof(uint32_t));
	python.code_version = vt_py_code_version_at(py->layout);
	python.str_is_ascii = py->layout->at[VT_PY_STATE_COMPACT] |
			      py->layout->at[VT_PY_STATE_ASCII];
	*out = python;
	return NULL;
}
