/* SPDX-License-Identifier: Apache-2.0 */
#include "record/loaded.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "target/maps.h"

uint64_t vt_record_library_at(pid_t pid, const char *name)
{
	struct vt_maps maps = { 0 };
	struct vt_error *err VT_ERROR = vt_maps_init(&maps, pid);
	uint64_t at = 0;

	for (size_t i = 0; !err && i < maps.entries.n && !at; i++) {
		const char *slash = strrchr(maps.entries.data[i].path, '/');

		if (slash && !strncmp(slash + 1, name, strlen(name)))
			at = maps.entries.data[i].start;
	}
	vt_maps_deinit(&maps);
	return at;
}

bool vt_record_has_library(pid_t pid, const char *name)
{
	return vt_record_library_at(pid, name) != 0;
}

/* Field 28 of stat, where the stack begins: the kernel chooses another at each exec(). */
uint64_t vt_record_program(pid_t pid)
{
	enum { FIELDS_BEFORE = 26 }; /* from the state on, which is the third */
	char path[48], text[2048], *at;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);

	VT_FCLOSE FILE *file = fopen(path, "re");

	if (!file)
		return 0;
	n = fread(text, 1, sizeof(text) - 1, file);
	text[n] = '\0';
	at = strrchr(text, ')');
	for (int i = 0; at && i < FIELDS_BEFORE; i++)
		at = strchr(at + 1, ' ');
	return at ? strtoull(at + 1, NULL, 10) : 0;
}
