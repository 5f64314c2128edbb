/* SPDX-License-Identifier: Apache-2.0 */
/* The writers of a struct vt_relieve_result. */
#ifndef VT_RELIEVE_WRITE_H
#define VT_RELIEVE_WRITE_H

#include "report/writer.h"

vt_write_fn vt_relieve_write_text;
vt_write_fn vt_relieve_write_json;

#endif
