/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recorder_layout PID: prints what the recorder is told of an interpreter, struct
 * vt_recorder_python, as hexadecimal bytes.
 */
#include <stdio.h>
#include <stdlib.h>

#include "target/live.h"
#include "walk/recorder/python.h"

struct seen {
	struct vt_live *live;
	struct vt_maps maps;
	struct vt_modules modules;
	struct vt_python py;
	struct vt_recorder_python layout;
};

static struct vt_error *look(struct seen *seen, pid_t pid)
{
	VT_TRY(vt_live_create(pid, &seen->live));
	VT_TRY(vt_maps_init(&seen->maps, pid));
	VT_TRY(vt_modules_init(&seen->modules, pid, &seen->maps));
	VT_TRY(vt_python_find(&seen->py, &seen->modules, seen->live));
	return vt_recorder_python(&seen->py, &seen->modules, vt_live_source(seen->live),
				  &seen->layout);
}

int main(int argc, char **argv)
{
	struct seen seen = { 0 };

	if (argc != 2)
		return 64;

	struct vt_error *err = look(&seen, (pid_t)strtol(argv[1], NULL, 10));
	const uint8_t *bytes = (const uint8_t *)&seen.layout;

	for (size_t i = 0; !err && i < sizeof(seen.layout); i++)
		printf("%02x", bytes[i]);
	if (err)
		fprintf(stderr, "%s: %s\n", vt_error_code_name(err->code), err->message);
	vt_python_deinit(&seen.py);
	vt_modules_deinit(&seen.modules);
	vt_maps_deinit(&seen.maps);
	vt_live_destroy(seen.live);

	int status = err ? 1 : 0;

	vt_error_destroy(err);
	return status;
}
