/* SPDX-License-Identifier: Apache-2.0 */
#include "walk/python/internal.h"

#include <stdlib.h>
#include <string.h>

enum {
	SCAN_STEP = 64 << 10,
	SCAN_WINDOW = 32, /* bytes that a match needs */
	SCAN_MAX = 64 << 20,
	MAX_INTERPRETERS_EVER = 1 << 30,
};

struct scan {
	/*
	 * window: SCAN_WINDOW bytes (zeros behind the end of memory) and a NUL. True ends the scan.
	 */
	bool (*match)(struct scan *scan, const char *window, uint64_t addr);
	struct vt_memsrc *src;
	const struct vt_python_layout *layout;
	int *version;
	uint64_t found;
};

/* What is searched begins at a multiple of 8. */
static bool scan_range(struct scan *scan, uint64_t start, uint64_t end)
{
	VT_FREE char *buf = malloc(SCAN_STEP + SCAN_WINDOW);

	if (!buf) /* a scan is the last resort: "not found" is an answer */
		return false;
	if (end - start > SCAN_MAX)
		end = start + SCAN_MAX;
	for (uint64_t at = start; at < end; at += SCAN_STEP) {
		size_t n = end - at < SCAN_STEP + SCAN_WINDOW ? (size_t)(end - at) :
								SCAN_STEP + SCAN_WINDOW;

		memset(buf + n, 0, SCAN_STEP + SCAN_WINDOW - n);
		if (vt_mem_read(scan->src, at, buf, n))
			continue;
		for (size_t i = 0; i < SCAN_STEP && i < n; i += 8) {
			char window[SCAN_WINDOW + 1];
			uint64_t word;

			/* Most of it is zeros. The first byte of an address may be, too. */
			memcpy(&word, buf + i, sizeof(word));
			if (!word)
				continue;
			memcpy(window, buf + i, SCAN_WINDOW);
			window[SCAN_WINDOW] = '\0';
			if (scan->match(scan, window, at + i))
				return true;
		}
	}
	return false;
}

/* The writable data of a module, and the anonymous memory right behind it (its .bss). */
static bool scan_module(struct scan *scan, const struct vt_modules *modules,
			const struct vt_module *module)
{
	uint64_t end = module->end;

	for (size_t i = 0; i < modules->maps->entries.n; i++) {
		const struct vt_map_entry *entry = &modules->maps->entries.data[i];
		bool bss = entry->start == end && !*entry->path;

		if (entry->start < module->start || (entry->start >= module->end && !bss))
			continue;
		if (bss)
			end = entry->end;
		if (entry->flags & VT_MAP_WRITE && scan_range(scan, entry->start, entry->end))
			return true;
	}
	return false;
}

/* ---- sys.version ---- */

bool vt_py_parse_version(const char *text, const char **end, int version[3])
{
	version[2] = -1;
	for (int i = 0; i < 3; i++) {
		size_t digits = strspn(text, "0123456789");

		if (!digits || digits > 3)
			return i == 2;
		version[i] = (int)strtol(text, NULL, 10); /* three digits at the most */
		text += digits;
		*end = text;
		if (i < 2 && *text++ != '.')
			return i == 1;
	}
	return true;
}

/*
 * sys.version as Py_GetVersion() builds it in a static buffer: "3.9.18 (main, Aug 25 2023,
 * 13:20:04) \n[GCC 12.2.0]", or "3.9.18 | packaged by conda-forge | (main, …"; the first word can
 * end in letters ("3.10.0rc1+").
 */
static bool match_version(struct scan *scan, const char *window, uint64_t addr)
{
	const char *end = window;
	int version[3];

	if (window[0] != '3' || window[1] != '.' || !vt_py_parse_version(window, &end, version) ||
	    version[2] < 0)
		return false;
	end += strspn(end, "abcr0123456789+");
	if (end[0] != ' ' || (end[1] != '(' && end[1] != '|'))
		return false;
	memcpy(scan->version, version, sizeof(version));
	scan->found = addr;
	return true;
}

bool vt_py_scan_version(const struct vt_modules *modules, const struct vt_module *module,
			struct vt_memsrc *src, int version[3])
{
	struct scan scan = { .match = match_version, .src = src, .version = version };

	return scan_module(&scan, modules, module);
}

/* ---- _PyRuntime ---- */

static bool match_cookie(struct scan *scan, const char *window, uint64_t addr)
{
	scan->found = addr;
	/*
	 * The version behind it tells it from the string constant; an interpreter may have a copy
	 * of that.
	 */
	return !memcmp(window, VT_PYTHON_DEBUG_COOKIE, strlen(VT_PYTHON_DEBUG_COOKIE)) &&
	       window[VT_PYTHON_DEBUG_VERSION + 3] == 3;
}

static bool is_pointer(uint64_t value)
{
	return value >= 4096 && value < UINT64_C(1) << 56 && value % 8 == 0;
}

/* Its first thread points back to it. */
static bool is_interpreter(struct scan *scan, uint64_t interpreter)
{
	uint64_t tstate, back;

	return is_pointer(interpreter) &&
	       !vt_py_field_u64(scan->src, scan->layout, interpreter, VT_PY_INTERP_THREADS,
				&tstate) &&
	       is_pointer(tstate) &&
	       !vt_py_field_u64(scan->src, scan->layout, tstate, VT_PY_TSTATE_INTERP, &back) &&
	       back == interpreter;
}

/*
 * interpreters.head and, right behind it, interpreters.main and interpreters.next_id, the count of
 * all that ever were. Without the last, two objects that point to each other would do.
 */
static bool match_interpreters(struct scan *scan, const char *window, uint64_t addr)
{
	uint64_t head, main_interpreter, next_id;

	memcpy(&head, window, sizeof(head));
	memcpy(&main_interpreter, window + sizeof(head), sizeof(main_interpreter));
	memcpy(&next_id, window + sizeof(head) + sizeof(main_interpreter), sizeof(next_id));
	scan->found = addr - scan->layout->at[VT_PY_RUNTIME_INTERPRETERS];
	return next_id > 0 && next_id < MAX_INTERPRETERS_EVER && is_pointer(main_interpreter) &&
	       is_interpreter(scan, head);
}

uint64_t vt_py_scan_runtime(const struct vt_modules *modules, const struct vt_module *module,
			    struct vt_memsrc *src, const struct vt_python_layout *layout)
{
	struct scan scan = { .match = layout ? match_interpreters : match_cookie,
			     .src = src,
			     .layout = layout };

	return scan_module(&scan, modules, module) ? scan.found : 0;
}
