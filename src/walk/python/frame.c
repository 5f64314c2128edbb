/* SPDX-License-Identifier: Apache-2.0 */
#include "walk/python/internal.h"

/* Code objects are not larger: a larger distance from the start is damage. In bytes. */
#define MAX_CODE (64 << 20)

/*
 * The instruction as a byte offset; -1 before the first one. An invalid offset becomes INT32_MAX,
 * behind every table, so that the line is unknown rather than wrong.
 */
static int32_t byte_offset(int64_t offset)
{
	if (offset < -2 || offset > MAX_CODE)
		return INT32_MAX;
	return offset < 0 ? -1 : (int32_t)offset;
}

/*
 * Where the bytecode that a frame runs begins. In a free-threaded build, from 3.14 on, each thread
 * specialises its own copy: co_tlbc points to a Py_ssize_t, the number of copies, and the pointers
 * to them; the first is the code object's own. 0 unknown.
 */
static uint64_t bytecode(const struct vt_python_layout *layout, struct vt_memsrc *src,
			 const struct vt_py_view *view, uint64_t code)
{
	int32_t index = vt_py_view_i32(view, layout, VT_PY_FRAME_TLBC);
	uint64_t copies, n, start;

	if (index == 0 || !vt_py_has(layout, VT_PY_CODE_TLBC))
		return code + layout->at[VT_PY_CODE_BYTECODE];
	if (index < 0 || vt_py_field_u64(src, layout, code, VT_PY_CODE_TLBC, &copies) ||
	    vt_mem_read_u64(src, copies, &n) || (uint64_t)index >= n ||
	    vt_mem_read_u64(src, copies + 8 + (uint64_t)index * 8, &start))
		return 0;
	return start;
}

static int32_t read_lasti(const struct vt_python_layout *layout, struct vt_memsrc *src,
			  const struct vt_py_view *view, uint64_t code)
{
	if (vt_py_has(layout, VT_PY_FRAME_INSTR)) {
		uint64_t start = bytecode(layout, src, view, code);

		return start ? byte_offset(
				       (int64_t)(vt_py_view_u64(view, layout, VT_PY_FRAME_INSTR) -
						 start)) :
			       INT32_MAX;
	}

	int64_t lasti = vt_py_view_i32(view, layout, VT_PY_FRAME_LASTI);

	return byte_offset(lasti < 0 ? lasti : lasti * layout->at[VT_PY_LASTI_SCALE]);
}

/*
 * The line that the frame object has fixed, or 0. Up to 3.9 it counts as long as a trace function
 * is set on the frame, from 3.10 on while it is not 0 (during a call of the trace function).
 */
static int fixed_line(const struct vt_python_layout *layout, struct vt_memsrc *src,
		      const struct vt_py_view *view)
{
	int32_t line = 0;

	if (vt_py_has(layout, VT_PY_FRAMEOBJ_TRACE)) {
		if (vt_py_view_u64(view, layout, VT_PY_FRAMEOBJ_TRACE))
			line = vt_py_view_i32(view, layout, VT_PY_FRAMEOBJ_LINENO);
	} else if (vt_py_has(layout, VT_PY_FRAME_OBJECT)) {
		uint64_t object = vt_py_view_u64(view, layout, VT_PY_FRAME_OBJECT);

		if (object && vt_py_field_i32(src, layout, object, VT_PY_FRAMEOBJ_LINENO, &line))
			line = 0;
	} else if (vt_py_has(layout, VT_PY_FRAME_LASTI)) {
		line = vt_py_view_i32(view, layout, VT_PY_FRAMEOBJ_LINENO);
	}
	return line > 0 ? line : 0;
}

int vt_py_frame_read(struct vt_python *py, struct vt_memsrc *src, uint64_t addr,
		     struct vt_py_frame_info *info)
{
	const struct vt_python_layout *layout = py->layout;
	/* up to 3.10 the frame is the frame object */
	bool is_object = vt_py_has(layout, VT_PY_FRAME_LASTI);
	struct vt_py_view view;
	int ret = vt_py_view_read(src, layout, addr, VT_PY_FRAME_TLBC,
				  is_object ? VT_PY_FRAMEOBJ_LINENO : VT_PY_FRAME_OBJECT, &view);

	if (ret)
		return ret;

	uint8_t owner = vt_py_view_u8(&view, layout, VT_PY_FRAME_OWNER);

	*info = (struct vt_py_frame_info){
		.frame.frame = addr,
		.frame.code = vt_py_view_u64(&view, layout, VT_PY_FRAME_CODE) &
			      ~(uint64_t)layout->at[VT_PY_CODE_TAGS],
		.previous = vt_py_view_u64(&view, layout, VT_PY_FRAME_PREVIOUS),
	};
	if (vt_py_has(layout, VT_PY_OWNER_SHIM) && owner >= layout->at[VT_PY_OWNER_SHIM]) {
		info->shim = true;
		return 0;
	}
	info->frame.generator = is_object ? vt_py_view_u64(&view, layout, VT_PY_FRAME_GENERATOR) :
					    owner == layout->at[VT_PY_OWNER_GENERATOR];
	info->frame.entry = is_object || vt_py_view_u8(&view, layout, VT_PY_FRAME_IS_ENTRY);
	info->frame.lasti = read_lasti(layout, src, &view, info->frame.code);
	info->frame.line = fixed_line(layout, src, &view);
	return 0;
}

/*
 * 3.11 and 3.12: an evaluator that was just entered has linked its _PyCFrame, which is on the C
 * stack, but has not filled it in for some instructions: it still names whatever was there, often a
 * frame of an earlier call. Such a frame is above the top of the thread's frame stack, or is not a
 * frame at all. (A frame right at the top is about to be left.)
 */
static bool is_alive(struct vt_python *py, struct vt_memsrc *src, const struct vt_py_view *tstate,
		     uint64_t frame)
{
	uint64_t code;

	if (frame > vt_py_view_u64(tstate, py->layout, VT_PY_TSTATE_STACK_TOP) &&
	    frame < vt_py_view_u64(tstate, py->layout, VT_PY_TSTATE_STACK_LIMIT))
		return false;
	return !vt_py_field_u64(src, py->layout, frame, VT_PY_FRAME_CODE, &code) &&
	       vt_py_is(py, src, code, VT_PYTHON_CODE);
}

/*
 * By chance, the frame of an earlier call can be where the new one is, or be the generator that is
 * resumed: it has not begun, or its caller has left it, and it is not linked to the new caller yet.
 * Nothing calls the first frame of 3.11 (outermost).
 */
static bool is_linked(struct vt_python *py, struct vt_memsrc *src, const struct vt_py_view *tstate,
		      uint64_t frame, bool outermost)
{
	struct vt_py_frame_info info;

	if (!is_alive(py, src, tstate, frame) || vt_py_frame_read(py, src, frame, &info))
		return false;
	if (info.shim || (info.frame.lasti >= 0 && !info.frame.generator))
		return true;
	return (outermost && !info.previous) || is_alive(py, src, tstate, info.previous);
}

static int top_of_cframe(struct vt_python *py, struct vt_memsrc *src, uint64_t tstate,
			 uint64_t *frame)
{
	const struct vt_python_layout *layout = py->layout;
	struct vt_py_view thread, cframe;
	int ret = vt_py_view_read(src, layout, tstate, VT_PY_TSTATE_CFRAME,
				  VT_PY_TSTATE_STACK_LIMIT, &thread);
	uint64_t addr = vt_py_view_u64(&thread, layout, VT_PY_TSTATE_CFRAME);

	*frame = 0;
	if (ret || !addr)
		return ret;
	ret = vt_py_view_read(src, layout, addr, VT_PY_CFRAME_FRAME, VT_PY_CFRAME_PREVIOUS,
			      &cframe);
	if (ret)
		return ret;
	*frame = vt_py_view_u64(&cframe, layout, VT_PY_CFRAME_FRAME);
	addr = vt_py_view_u64(&cframe, layout, VT_PY_CFRAME_PREVIOUS);

	/* The first _PyCFrame of a thread is a member of its state, and always filled in. */
	bool outermost = addr - tstate < sizeof(thread.bytes);

	if (!addr || is_linked(py, src, &thread, *frame, outermost))
		return 0;
	/*
	 * The caller's is complete, and the new code has not begun. The compiler may not have set
	 * either yet.
	 */
	if (vt_py_field_u64(src, layout, addr, VT_PY_CFRAME_FRAME, frame))
		return -EAGAIN;
	return (outermost && !*frame) || is_linked(py, src, &thread, *frame, false) ? 0 : -EAGAIN;
}

uint64_t vt_py_frame_hint(const struct vt_python *py, struct vt_memsrc *src, uint64_t tstate)
{
	enum vt_py_field field = vt_py_has(py->layout, VT_PY_TSTATE_CFRAME) ? VT_PY_TSTATE_CFRAME :
									      VT_PY_TSTATE_FRAME;
	uint64_t addr;

	if (vt_py_field_u64(src, py->layout, tstate, field, &addr))
		return 0;
	if (field == VT_PY_TSTATE_CFRAME &&
	    vt_py_field_u64(src, py->layout, addr, VT_PY_CFRAME_FRAME, &addr))
		return 0;
	return addr;
}

int vt_py_frame_top(struct vt_python *py, struct vt_memsrc *src, uint64_t tstate, uint64_t *frame)
{
	if (vt_py_has(py->layout, VT_PY_TSTATE_CFRAME))
		return top_of_cframe(py, src, tstate, frame);
	return vt_py_field_u64(src, py->layout, tstate, VT_PY_TSTATE_FRAME, frame);
}
