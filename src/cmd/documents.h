/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What commands write besides their text and JSON: each document has an option that names its file.
 */
#ifndef VT_CMD_DOCUMENTS_H
#define VT_CMD_DOCUMENTS_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "cmd/output.h"
#include "report/writer.h"

struct vt_document {
	const char *option; /* "--folded" */
	vt_write_fn *write;
	/* why there is none of what is to be written; NULL: there always is one */
	struct vt_error *(*refuse)(const void *what);
	bool binary; /* not for a terminal */
};

/* Those of a command. */
struct vt_documents {
	const struct vt_document *kinds;
	const char *const *files; /* of each; NULL none, "-" standard output */
	size_t n;
};

/*
 * Ends with a usage error where two would write to standard output or to one file (--json and
 * --prometheus count), and where a terminal would get what is no text.
 */
void vt_documents_refuse_shared(const struct argp_state *state,
				const struct vt_documents *documents,
				const struct vt_output *output);

/* Ends with a usage error where one of them, or --json or --prometheus, would replace the input. */
void vt_documents_refuse_input(const struct argp_state *state, const struct vt_documents *documents,
			       const struct vt_output *output, const char *input);

/* Whether standard output is for one of them or for JSON, so that there is no text. */
bool vt_documents_take_output(const struct vt_documents *documents, const struct vt_output *output);

/* Whether one is to be written. */
bool vt_documents_any(const struct vt_documents *documents);

/* All of them, whichever cannot be written; the first error. */
struct vt_error *vt_documents_write(const struct vt_documents *documents,
				    const struct vt_output *output, const void *what);

/* Of errors, the first counts; another one is released. */
void vt_keep_error(struct vt_error **first, struct vt_error *err);

#endif
