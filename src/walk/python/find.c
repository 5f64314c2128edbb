/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the interpreter of a target: _PyRuntime, the release, and a layout that the memory agrees
 * with.
 */
#include <inttypes.h>

#include "base/str.h"
#include "walk/python/internal.h"
#include "walk/python/object.h"

/*
 * A module that may be the interpreter. A process can have several (an executable and a library),
 * but uses only one.
 */
struct candidate {
	const struct vt_module *module;
	uint64_t runtime; /* _PyRuntime, 0 not exported */
	uint64_t version; /* Py_Version: unsigned long, 3.11 on; 0 not there */
	bool interpreter; /* exports Py_Initialize */
	uint64_t types[VT_PYTHON_N_TYPES];
};

/* What the memory shows about a layout. */
enum verdict {
	WRONG,  /* it contradicts */
	UNUSED, /* there is no interpreter: never initialised, or finalised */
	LIKELY, /* interpreter and threads fit, but no thread has a frame to check */
	PROVEN, /* and frames have code objects */
};

#define MAX_CHECKED_THREADS 64
#define CHECKED_FRAMES 4     /* of a thread */
#define MAX_TRIES 3          /* a list that changes during the read looks damaged */
#define FIRST_WITH_COOKIE 13 /* minor of the first release with debug offsets */

static enum verdict judge_threads(struct vt_python *py, struct vt_memsrc *src)
{
	size_t good = 0, bad = 0;

	if (!py->threads.n)
		return UNUSED;
	for (size_t i = 0; i < py->threads.n && i < MAX_CHECKED_THREADS; i++) {
		const struct vt_python_thread *thread = &py->threads.data[i];

		if (thread->frames.n &&
		    vt_py_is(py, src, thread->frames.data[0].code, VT_PYTHON_CODE))
			good++;
		else if (thread->frames.n || thread->truncated)
			bad++;
	}
	/*
	 * One may be gone by now (while the target runs), or damaged (in the core of a crash); with
	 * a wrong layout most are.
	 */
	if (bad > good)
		return WRONG;
	return good ? PROVEN : LIKELY;
}

/* Fails only if the target is gone or must not be read. */
static struct vt_error *judge(struct vt_python *py, struct vt_memsrc *src, enum verdict *verdict)
{
	bool coherent = src->coherent;
	struct vt_error *err;

	/*
	 * One pass, also while the target runs: a thread that changes under it is one bad thread,
	 * not most of them.
	 */
	src->coherent = true;
	err = vt_py_capture(py, src, CHECKED_FRAMES);
	for (int try = 1;
	     try < MAX_TRIES && !coherent &&
	     (vt_error_catch(&err, VT_ERR_FORMAT) || vt_error_catch(&err, VT_ERR_FAULT));
	     try++)
		err = vt_py_capture(py, src, CHECKED_FRAMES);
	src->coherent = coherent;
	for (int i = 0; i < VT_PYTHON_N_TYPES; i++)
		py->types[i].named = 0; /* left by another layout */
	*verdict = err ? WRONG : judge_threads(py, src);
	vt_py_drop_threads(py);
	if (err && err->code != VT_ERR_GONE && err->code != VT_ERR_PERMISSION &&
	    err->code != VT_ERR_NOMEM) {
		vt_error_destroy(err);
		err = NULL;
	}
	return err;
}

/* ---- which release ---- */

static void set_version(struct vt_python *py, uint64_t hex)
{
	py->major = (int)(hex >> 24 & 0xff);
	py->minor = (int)(hex >> 16 & 0xff);
	py->micro = (int)(hex >> 8 & 0xff);
}

/* "libpython3.9.so.1.0", "python3.9", "python3.9d". */
static bool version_of_name(const char *path, int version[3])
{
	const char *name = vt_base_name(path), *end = name;

	if (!strncmp(name, "lib", 3))
		name += 3;
	if (strncmp(name, "python", 6))
		return false;
	return vt_py_parse_version(name + 6, &end, version);
}

/* Sets py's version and layout from the candidate's own data. False if that has nothing known. */
static bool choose_layout(struct vt_python *py, const struct vt_modules *modules,
			  const struct candidate *candidate, struct vt_memsrc *src)
{
	uint8_t runtime[VT_PYTHON_DEBUG_MAX];
	int version[3];
	uint64_t hex;

	if (!vt_mem_read(src, candidate->runtime, runtime, sizeof(runtime)) &&
	    !memcmp(runtime, VT_PYTHON_DEBUG_COOKIE, strlen(VT_PYTHON_DEBUG_COOKIE))) {
		struct vt_python_layout *layout = vt_arena_alloc(&py->arena, sizeof(*layout));

		memcpy(&hex, runtime + VT_PYTHON_DEBUG_VERSION, sizeof(hex));
		set_version(py, hex);
		py->free_threaded = runtime[VT_PYTHON_DEBUG_FREE_THREADED] == 1;
		if (!layout || !vt_python_layout_from_debug(runtime, sizeof(runtime), layout))
			return false;
		py->layout = layout;
		return true;
	}
	if (candidate->version && !vt_mem_read_u64(src, candidate->version, &hex)) {
		set_version(py, hex);
	} else if (vt_py_scan_version(modules, candidate->module, src, version) ||
		   version_of_name(candidate->module->path, version)) {
		py->major = version[0];
		py->minor = version[1];
		py->micro = version[2];
	}
	py->layout = vt_python_layout_find((unsigned int)py->major, (unsigned int)py->minor, false);
	return py->layout;
}

/* For a module with the name of an interpreter and no exports. */
static uint64_t search_runtime(const struct vt_modules *modules, const struct vt_module *module,
			       struct vt_memsrc *src)
{
	const struct vt_python_layout *layout;
	uint64_t runtime = vt_py_scan_runtime(modules, module, src, NULL);
	int version[3];

	if (runtime || (!vt_py_scan_version(modules, module, src, version) &&
			!version_of_name(module->path, version)))
		return runtime;
	layout = vt_python_layout_find((unsigned int)version[0], (unsigned int)version[1], false);
	return layout ? vt_py_scan_runtime(modules, module, src, layout) : 0;
}

/* ---- where ---- */

static struct vt_error *unknown_release(const struct vt_python *py)
{
	const struct vt_python_layout *oldest = vt_python_layout_nth(0), *newest = oldest;

	for (size_t i = 0; vt_python_layout_nth(i); i++)
		newest = vt_python_layout_nth(i);
	return vt_error_create(VT_ERR_UNSUPPORTED,
			       "%sCPython %d.%d is not known (%d.%d to %d.%d are)",
			       py->free_threaded ? "free-threaded " : "", py->major, py->minor,
			       oldest->major, oldest->minor, newest->major, newest->minor);
}

static struct vt_error *try_candidate(struct vt_python *py, const struct vt_modules *modules,
				      const struct candidate *candidate, struct vt_memsrc *src,
				      enum verdict *verdict)
{
	py->runtime = candidate->runtime;
	py->module = candidate->module;
	py->major = py->minor = 0;
	py->micro = -1;
	py->layout = NULL;
	py->free_threaded = false;
	for (int i = 0; i < VT_PYTHON_N_TYPES; i++)
		py->types[i].symbol = candidate->types[i];
	*verdict = WRONG;
	if (choose_layout(py, modules, candidate, src)) {
		VT_TRY(judge(py, src, verdict));
		if (*verdict != WRONG)
			return NULL;
		return vt_error_create(VT_ERR_UNSUPPORTED,
				       "CPython %d.%d at 0x%" PRIx64
				       " does not have that release's layout",
				       py->major, py->minor, py->runtime);
	}
	if (py->major)
		return unknown_release(py);
	/*
	 * Nothing tells the release: it is the one whose layout the memory proves. Those with the
	 * cookie were handled above.
	 */
	for (size_t i = 0; (py->layout = vt_python_layout_nth(i)); i++) {
		if (py->layout->minor >= FIRST_WITH_COOKIE)
			continue;
		VT_TRY(judge(py, src, verdict));
		if (*verdict != PROVEN)
			continue;
		py->major = py->layout->major;
		py->minor = py->layout->minor;
		return NULL;
	}
	return vt_error_create(VT_ERR_UNSUPPORTED,
			       "a CPython that does not say which release it is");
}

static void look_at_module(struct vt_modules *modules, struct vt_module *module,
			   struct candidate *candidate)
{
	static const char *const names[] = { "_PyRuntime",     "Py_Version",   "PyCode_Type",
					     "PyUnicode_Type", "PyBytes_Type", "Py_Initialize" };
	uint64_t addrs[sizeof(names) / sizeof(names[0])] = { 0 };
	struct vt_error *err = vt_module_open(modules, module);

	*candidate = (struct candidate){ .module = module };
	if (!err)
		err = vt_module_dynsyms(modules, module, names, sizeof(names) / sizeof(names[0]),
					addrs);
	if (err) { /* a module that cannot be read is not at the expected place */
		vt_error_destroy(err);
		return;
	}
	candidate->runtime = addrs[0];
	candidate->version = addrs[1];
	candidate->types[VT_PYTHON_CODE] = addrs[2];
	candidate->types[VT_PYTHON_STR] = addrs[3];
	candidate->types[VT_PYTHON_BYTES] = addrs[4];
	candidate->interpreter = addrs[5] != 0;
}

/*
 * Modules with the name of an interpreter come first, so that others are opened only if those are
 * not it.
 */
enum rank {
	LIBRARY,
	PROGRAM,
	OTHER,
};

static enum rank rank(const struct vt_module *module)
{
	const char *name = vt_base_name(module->path);

	if (!strncmp(name, "libpython", 9))
		return LIBRARY;
	return strncmp(name, "python", 6) ? OTHER : PROGRAM;
}

struct vt_error *vt_python_init(struct vt_python *py, struct vt_modules *modules,
				struct vt_memsrc *src)
{
	VT_ERROR struct vt_error *first = NULL;
	bool unused = false, old = false;

	py->arch = modules->arch;
	for (int r = LIBRARY; r <= OTHER; r++) {
		for (size_t i = 0; i < modules->modules.n; i++) {
			struct vt_module *module = &modules->modules.data[i];
			struct candidate candidate;
			enum verdict verdict;

			if ((int)rank(module) != r)
				continue;
			look_at_module(modules, module, &candidate);
			if (!candidate.runtime && r < OTHER)
				candidate.runtime = search_runtime(modules, module, src);
			if (!candidate.runtime) {
				old |= candidate.interpreter;
				continue;
			}

			struct vt_error *err =
				try_candidate(py, modules, &candidate, src, &verdict);

			if (!err && verdict != UNUSED) {
				if (py->locals)
					vt_py_tensor_abi_find(&py->tensor, modules);
				return NULL;
			}
			unused |= !err;
			if (first)
				vt_error_destroy(err);
			else
				first = err;
		}
	}
	vt_python_deinit(py);
	if (first)
		return vt_steal(first);
	if (old)
		return vt_error_create(VT_ERR_UNSUPPORTED,
				       "a CPython older than 3.7 (it has no _PyRuntime)");
	return vt_error_create(VT_ERR_NOTFOUND,
			       unused ? "Python is loaded but has no interpreter running" :
					"no Python interpreter in this process");
}

/*
 * In a free-threaded 3.13 whose threads come and go all the time, about 1 look in 100 finds most of
 * them changed.
 */
struct vt_error *vt_python_find(struct vt_python *py, struct vt_modules *modules,
				struct vt_live *live)
{
	bool locals = py->locals; /* a failure clears it */
	struct vt_error *err = vt_python_init(py, modules, vt_live_cached_source(live));

	for (int try = 1; try < MAX_TRIES && err && err->code == VT_ERR_UNSUPPORTED; try++) {
		vt_error_destroy(err);
		vt_live_drop_cache(live);
		py->locals = locals;
		err = vt_python_init(py, modules, vt_live_cached_source(live));
	}
	return err;
}
