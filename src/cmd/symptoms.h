/* SPDX-License-Identifier: Apache-2.0 */
/* What to run when something is wrong. README.md and vramtap(1) show the same table. */
#ifndef VT_CMD_SYMPTOMS_H
#define VT_CMD_SYMPTOMS_H

#include <stdio.h>

void vt_print_symptoms(FILE *out);

#endif
