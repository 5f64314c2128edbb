/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the interpreter of a target: _PyRuntime, the release, and a layout that the memory agrees with. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "walk/python_capture.h"
#include "walk/python_object.h"

/* A module that may be the interpreter. A process can have several (an executable and a library), but only one is used. */
struct candidate {
	const struct vt_module *module;
	uint64_t runtime;  /* _PyRuntime, 0 not exported */
	uint64_t version;  /* Py_Version: unsigned long, 3.11 on; 0 not there */
	uint64_t types[VT_PYTHON_N_TYPES];
};

/* What the memory says about a layout. */
enum verdict {
	WRONG,  /* it contradicts */
	UNUSED, /* there is no interpreter: never initialised, or finalised */
	LIKELY, /* interpreter and threads fit, but no thread has a frame to check */
	PROVEN, /* and frames have code objects */
};

#define MAX_CHECKED_THREADS 64
#define CHECKED_FRAMES 4 /* of a thread */

static enum verdict judge(struct vt_python *py, struct vt_memsrc *src)
{
	enum verdict verdict = LIKELY;
	struct vt_error *err = vt_py_capture(py, src, CHECKED_FRAMES);

	if (err) {
		vt_error_destroy(err);
		return WRONG;
	}
	if (!py->threads.n)
		return UNUSED;
	for (size_t i = 0; i < py->threads.n && i < MAX_CHECKED_THREADS; i++) {
		const struct vt_python_thread *thread = &py->threads.data[i];

		if (!thread->frames.n) {
			if (thread->truncated && src->coherent)
				return WRONG;
			continue;
		}
		if (vt_py_is(py, src, thread->frames.data[0].code, VT_PYTHON_CODE))
			verdict = PROVEN;
		else if (src->coherent)
			return WRONG;
	}
	return verdict;
}

/* ---- which release ---- */

static void set_version(struct vt_python *py, uint64_t hex)
{
	py->major = (int)(hex >> 24 & 0xff);
	py->minor = (int)(hex >> 16 & 0xff);
	py->micro = (int)(hex >> 8 & 0xff);
}

/* "3.9.18" and the like at text; *end is what follows. micro is -1 when it is not there. */
static bool parse_version(const char *text, const char **end, int version[3])
{
	version[2] = -1;
	for (int i = 0; i < 3; i++) {
		size_t digits = strspn(text, "0123456789");

		if (!digits || digits > 3)
			return i == 2;
		version[i] = atoi(text);
		text += digits;
		*end = text;
		if (i < 2 && *text++ != '.')
			return i == 1;
	}
	return true;
}

/*
 * sys.version as Py_GetVersion() builds it in a static buffer: "3.9.18 (main, Aug 25 2023, 13:20:04) \n[GCC 12.2.0]"; the
 * part before the parenthesis can have letters ("3.10.0rc1+"). text ends with a NUL.
 */
static bool is_sys_version(const char *text, int version[3])
{
	const char *end = text;

	if (text[0] != '3' || text[1] != '.' || !parse_version(text, &end, version) || version[2] < 0)
		return false;
	end += strspn(end, "abcr0123456789+");
	return end[0] == ' ' && end[1] == '(';
}

enum {
	SCAN_STEP = 64 << 10,
	SCAN_OVERLAP = 32, /* longer than what is_sys_version() looks at */
	SCAN_MAX = 64 << 20,
};

/* Looks for sys.version in [start, end). Py_GetVersion()'s buffer begins at a multiple of 8 at least. */
static bool scan_version(struct vt_memsrc *src, uint64_t start, uint64_t end, int version[3])
{
	VT_FREE char *buf = malloc(SCAN_STEP + SCAN_OVERLAP + 1);

	if (!buf) /* the version is asked for in other ways too */
		return false;
	if (end - start > SCAN_MAX)
		end = start + SCAN_MAX;
	for (uint64_t at = start; at < end; at += SCAN_STEP) {
		size_t n = end - at < SCAN_STEP + SCAN_OVERLAP ? (size_t)(end - at) : SCAN_STEP + SCAN_OVERLAP;

		if (vt_mem_read(src, at, buf, n))
			continue;
		buf[n] = '\0';
		for (size_t i = 0; i + 8 <= n; i += 8) {
			if (buf[i] == '3' && is_sys_version(buf + i, version))
				return true;
		}
	}
	return false;
}

/* The writable data of a module, and the anonymous memory right behind it (its .bss). */
static bool find_sys_version(const struct vt_modules *modules, const struct vt_module *module, struct vt_memsrc *src,
			     int version[3])
{
	uint64_t end = module->end;

	for (size_t i = 0; i < modules->maps->entries.n; i++) {
		const struct vt_map_entry *entry = &modules->maps->entries.data[i];
		bool bss = entry->start == end && !*entry->path;

		if (entry->start < module->start || (entry->start >= module->end && !bss))
			continue;
		if (bss)
			end = entry->end;
		if (entry->flags & VT_MAP_WRITE && scan_version(src, entry->start, entry->end, version))
			return true;
	}
	return false;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* "libpython3.9.so.1.0", "python3.9", "python3.9d". */
static bool version_of_name(const char *path, int version[3])
{
	const char *name = base_name(path), *end = name;

	if (!strncmp(name, "lib", 3))
		name += 3;
	if (strncmp(name, "python", 6))
		return false;
	return parse_version(name + 6, &end, version);
}

/* Sets py's version and layout from what the candidate says about itself. False when it says nothing that is known. */
static bool choose_layout(struct vt_python *py, const struct vt_modules *modules, const struct candidate *candidate,
			  struct vt_memsrc *src)
{
	uint8_t runtime[VT_PYTHON_DEBUG_MAX];
	int version[3];
	uint64_t hex;

	if (!vt_mem_read(src, candidate->runtime, runtime, sizeof(runtime)) &&
	    !memcmp(runtime, VT_PYTHON_DEBUG_COOKIE, strlen(VT_PYTHON_DEBUG_COOKIE))) {
		struct vt_python_layout *layout = vt_arena_alloc(&py->arena, sizeof(*layout));

		memcpy(&hex, runtime + VT_PYTHON_DEBUG_VERSION, sizeof(hex));
		set_version(py, hex);
		if (!layout || !vt_python_layout_from_debug(runtime, sizeof(runtime), layout))
			return false;
		py->layout = layout;
		py->free_threaded = layout->free_threaded;
		return true;
	}
	if (candidate->version && !vt_mem_read_u64(src, candidate->version, &hex)) {
		set_version(py, hex);
	} else if (find_sys_version(modules, candidate->module, src, version) ||
		   version_of_name(candidate->module->path, version)) {
		py->major = version[0];
		py->minor = version[1];
		py->micro = version[2];
	}
	py->layout = vt_python_layout_find((unsigned int)py->major, (unsigned int)py->minor, false);
	return py->layout;
}

/* ---- where ---- */

static struct vt_error *try_candidate(struct vt_python *py, const struct vt_modules *modules,
				      const struct candidate *candidate, struct vt_memsrc *src, enum verdict *verdict)
{
	py->runtime = candidate->runtime;
	py->module = candidate->module;
	py->major = py->minor = 0;
	py->micro = -1;
	py->layout = NULL;
	py->free_threaded = false;
	for (int i = 0; i < VT_PYTHON_N_TYPES; i++) {
		py->types[i].symbol = candidate->types[i];
		py->types[i].named = 0;
	}
	*verdict = WRONG;
	if (choose_layout(py, modules, candidate, src)) {
		*verdict = judge(py, src);
		if (*verdict != WRONG)
			return NULL;
		return vt_error_create(VT_ERR_UNSUPPORTED,
				       "CPython %d.%d at 0x%" PRIx64 " is not laid out as that release is",
				       py->major, py->minor, py->runtime);
	}
	if (py->major)
		return vt_error_create(VT_ERR_UNSUPPORTED, "CPython %d.%d is not known (3.8 to 3.13 are)", py->major,
				       py->minor);
	/* Nothing says which release it is: the one whose layout the memory proves. Those with the cookie were seen above. */
	for (size_t i = 0; (py->layout = vt_python_layout_nth(i)); i++) {
		if (py->layout->minor > 12 || judge(py, src) != PROVEN)
			continue;
		py->major = py->layout->major;
		py->minor = py->layout->minor;
		*verdict = PROVEN;
		return NULL;
	}
	return vt_error_create(VT_ERR_UNSUPPORTED, "a CPython of an unknown release (3.8 to 3.13 are known)");
}

static void look_at_module(struct vt_modules *modules, struct vt_module *module, struct candidate *candidate)
{
	static const char *const names[] = { "_PyRuntime", "Py_Version", "PyCode_Type", "PyUnicode_Type", "PyBytes_Type" };
	uint64_t addrs[sizeof(names) / sizeof(names[0])] = { 0 };
	struct vt_error *err = vt_module_open(modules, module);

	*candidate = (struct candidate){ .module = module };
	if (!err)
		err = vt_module_dynsyms(modules, module, names, sizeof(names) / sizeof(names[0]), addrs);
	if (err) { /* a module that cannot be read is not where we find it */
		vt_error_destroy(err);
		return;
	}
	candidate->runtime = addrs[0];
	candidate->version = addrs[1];
	candidate->types[VT_PYTHON_CODE] = addrs[2];
	candidate->types[VT_PYTHON_STR] = addrs[3];
	candidate->types[VT_PYTHON_BYTES] = addrs[4];
}

/* Modules that are called like an interpreter come first, so that others are opened only when those are not it. */
static int rank(const struct vt_module *module)
{
	const char *name = base_name(module->path);

	if (!strncmp(name, "libpython", 9))
		return 0;
	return strncmp(name, "python", 6) ? 2 : 1;
}

struct vt_error *vt_python_init(struct vt_python *py, struct vt_modules *modules, struct vt_memsrc *src)
{
	VT_ERROR struct vt_error *first = NULL;
	bool unused = false;

	for (int r = 0; r <= 2; r++) {
		for (size_t i = 0; i < modules->modules.n; i++) {
			struct vt_module *module = &modules->modules.data[i];
			struct candidate candidate;
			enum verdict verdict;

			if (rank(module) != r)
				continue;
			look_at_module(modules, module, &candidate);
			if (!candidate.runtime)
				continue;

			struct vt_error *err = try_candidate(py, modules, &candidate, src, &verdict);

			if (!err && verdict != UNUSED)
				return NULL;
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
	return vt_error_create(VT_ERR_NOTFOUND, unused ? "Python is loaded but has no interpreter running" :
							 "no Python interpreter in this process");
}
