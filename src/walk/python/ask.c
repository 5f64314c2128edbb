/* SPDX-License-Identifier: Apache-2.0 */
#include "walk/python/ask.h"

#include "base/clock.h"
#include "walk/python/internal.h"

/*
 * PyGC_Disable() is new in 3.10; no release of PyTorch with an unknown layout runs on an older one.
 */
#define OLDEST_MINOR 10

/*
 * Up to 3.12 a thread that waits for a GIL asks the threads of its own interpreter to give it up.
 * Threads of another interpreter with the same GIL do not get the request, and can keep the GIL as
 * long as they run Python code. Since 3.13 the request goes to the holder itself.
 */
#define HOLDER_ASKED_MINOR 13
#define MAX_INTERPRETERS 4096

#define GIL_PAUSE_NS VT_NS_PER_MS
/* One or two changes can be the way into a call that never ends. */
#define CHANGES_WANTED 4

/* ---- its exports ---- */

#define NAME(name) #name,
static const char *const names[] = { VT_PYTHON_IMPORTS(NAME) };
static const char *const owner_names[] = { VT_PYTHON_OWNER_IMPORTS(NAME) };
#undef NAME

#define N_NAMES (sizeof(names) / sizeof(names[0]))
#define N_OWNER_NAMES (sizeof(owner_names) / sizeof(owner_names[0]))
_Static_assert(sizeof(struct vt_python_imports) == N_NAMES * sizeof(uint64_t), "one word a name");
_Static_assert(sizeof(struct vt_python_owner_imports) == N_OWNER_NAMES * sizeof(uint64_t),
	       "one word a name");

static struct vt_error *find_finalizing(const struct vt_python *py, struct vt_modules *modules,
					uint64_t *addr)
{
	static const char *const before_3_13 = "_Py_IsFinalizing";

	return *addr ? NULL :
		       vt_module_dynsyms(modules, (struct vt_module *)py->module, &before_3_13, 1,
					 addr);
}

static struct vt_error *find_missing(const char *const *wanted, const uint64_t *addrs, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!addrs[i])
			return vt_error_create(VT_ERR_UNSUPPORTED,
					       "the interpreter does not export %s", wanted[i]);
	return NULL;
}

struct vt_error *vt_python_imports(const struct vt_python *py, struct vt_modules *modules,
				   struct vt_python_imports *imports)
{
	uint64_t addrs[N_NAMES] = { 0 };

	if (py->free_threaded)
		return vt_error_create(VT_ERR_UNSUPPORTED, "a free-threaded CPython is not asked");
	if (py->major != 3 || py->minor < OLDEST_MINOR)
		return vt_error_create(VT_ERR_UNSUPPORTED,
				       "CPython %d.%d is not asked, only 3.%d and later", py->major,
				       py->minor, OLDEST_MINOR);
	VT_TRY(vt_module_dynsyms(modules, (struct vt_module *)py->module, names, N_NAMES, addrs));
	memcpy(imports, addrs, sizeof(addrs));
	VT_TRY(find_finalizing(py, modules, &imports->Py_IsFinalizing));
	memcpy(addrs, imports, sizeof(addrs));
	return find_missing(names, addrs, N_NAMES);
}

struct vt_error *vt_python_owner_imports(const struct vt_python *py, struct vt_modules *modules,
					 struct vt_python_owner_imports *imports)
{
	uint64_t addrs[N_OWNER_NAMES] = { 0 };

	VT_TRY(vt_module_dynsyms(modules, (struct vt_module *)py->module, owner_names,
				 N_OWNER_NAMES, addrs));
	VT_TRY(find_missing(owner_names, addrs, N_OWNER_NAMES));
	memcpy(imports, addrs, sizeof(addrs));
	return NULL;
}

/* ---- its GIL ---- */

/* Changes when the holder goes on. */
struct gil_state {
	int32_t locked;
	uint64_t holder, frame, instruction;
};

static bool has_changed(const struct gil_state *a, const struct gil_state *b)
{
	return a->locked != b->locked || a->holder != b->holder || a->frame != b->frame ||
	       a->instruction != b->instruction;
}

static int read_gil(struct vt_python *py, struct vt_memsrc *src, uint64_t gil,
		    struct gil_state *state)
{
	const struct vt_python_layout *layout = py->layout;
	enum vt_py_field at = vt_py_has(layout, VT_PY_FRAME_INSTR) ? VT_PY_FRAME_INSTR :
								     VT_PY_FRAME_LASTI;
	uint64_t instruction = 0;
	int ret;

	*state = (struct gil_state){ 0 };
	ret = vt_py_field_i32(src, layout, gil, VT_PY_GIL_LOCKED, &state->locked);
	if (!ret)
		ret = vt_py_field_u64(src, layout, gil, VT_PY_GIL_HOLDER, &state->holder);
	if (ret || !state->holder)
		return ret;
	/* Unchecked: a frame that is about to be left is a change, too. */
	state->frame = vt_py_frame_hint(py, src, state->holder);
	if (state->frame && !vt_py_field_u64(src, layout, state->frame, at, &instruction))
		state->instruction = at == VT_PY_FRAME_LASTI ? (uint32_t)instruction : instruction;
	return 0;
}

static const struct vt_python_gil *main_gil(const struct vt_python *py)
{
	for (size_t i = 0; i < py->gils.n; i++)
		if (py->gils.data[i].of_main)
			return &py->gils.data[i];
	return NULL;
}

static struct vt_error *it_is_held(const struct vt_python *py, uint64_t holder, uint64_t for_ns)
{
	pid_t tid = 0;

	for (size_t i = 0; i < py->threads.n; i++)
		if (py->threads.data[i].tstate == holder)
			tid = py->threads.data[i].tid;
	if (tid)
		return vt_error_create(
			VT_ERR_BUSY, "thread %d holds the GIL, and ran no Python code for %llu ms",
			(int)tid, (unsigned long long)(for_ns / VT_NS_PER_MS));
	return vt_error_create(VT_ERR_BUSY,
			       "the GIL is held by a thread that ran no Python code for %llu ms",
			       (unsigned long long)(for_ns / VT_NS_PER_MS));
}

static struct vt_error *check_interpreters(const struct vt_python *py, struct vt_memsrc *src,
					   uint64_t gil)
{
	const struct vt_python_layout *layout = py->layout;
	uint64_t interpreter, id, theirs;
	int ret =
		vt_py_field_u64(src, layout, py->runtime, VT_PY_RUNTIME_INTERPRETERS, &interpreter);

	for (int n = 0; !ret && interpreter && py->minor < HOLDER_ASKED_MINOR; n++) {
		theirs = gil;
		ret = vt_py_field_u64(src, layout, interpreter, VT_PY_INTERP_ID, &id);
		if (!ret && vt_py_has(layout, VT_PY_INTERP_GIL))
			ret = vt_py_field_u64(src, layout, interpreter, VT_PY_INTERP_GIL, &theirs);
		if (n >= MAX_INTERPRETERS || (!ret && id != 0 && theirs == gil))
			return vt_error_create(
				VT_ERR_UNSUPPORTED,
				"subinterpreters share the GIL, and may never release it in CPython %d.%d",
				py->major, py->minor);
		if (!ret)
			ret = vt_py_field_u64(src, layout, interpreter, VT_PY_INTERP_NEXT,
					      &interpreter);
	}
	return ret ? vt_mem_error(src, ret, "a Python interpreter") : NULL;
}

struct vt_error *vt_python_watch_gil(struct vt_python *py, struct vt_memsrc *src, uint64_t for_ns)
{
	uint64_t start, gil;
	struct gil_state last = { 0 }, now;
	int changes = 0;

	VT_TRY(vt_py_capture(py, src, 1));
	if (!main_gil(py))
		return vt_error_create(VT_ERR_NOTFOUND,
				       "the GIL of the main interpreter was not found");
	gil = main_gil(py)->addr;
	VT_TRY(check_interpreters(py, src, gil));
	start = vt_now_ns();
	for (bool first = true;; first = false) {
		int ret = read_gil(py, src, gil, &now);

		if (ret)
			return vt_mem_error(src, ret, "the GIL");
		if (now.locked != 0 && now.locked != 1)
			return vt_error_create(VT_ERR_FORMAT,
					       "the GIL does not look like that release's");
		changes += !first && has_changed(&now, &last);
		if (!now.locked || changes >= CHANGES_WANTED)
			return NULL;
		if (vt_now_ns() - start > for_ns)
			return it_is_held(py, now.holder, for_ns);
		last = now;
		vt_sleep_ns(GIL_PAUSE_NS);
	}
}
