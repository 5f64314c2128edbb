/* SPDX-License-Identifier: Apache-2.0 */
#include "base/exit.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"

int vt_exit_with(const struct vt_error *err)
{
	struct vt_str line = { 0 };

	if (err->code == VT_ERR_CLOSED)
		return VT_EXIT_NOTHING;
	vt_str_add_escaped(&line, err->message, strlen(err->message));
	fprintf(stderr, "vramtap: %s\n", vt_str_get(&line));
	vt_str_deinit(&line);
	return err->code == VT_ERR_PERMISSION ? VT_EXIT_NOT_PERMITTED : VT_EXIT_NOTHING;
}
