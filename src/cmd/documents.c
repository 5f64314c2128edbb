/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/documents.h"

#include <string.h>
#include <unistd.h>

static bool is_standard_output(const char *file)
{
	return file && !strcmp(file, "-");
}

void vt_documents_refuse_shared(const struct argp_state *state,
				const struct vt_documents *documents,
				const struct vt_output *output)
{
	for (size_t i = 0; i < documents->n; i++) {
		const struct vt_document *kind = &documents->kinds[i];
		const char *file = documents->files[i];

		vt_refuse_shared_file(state, kind->option, file, "--json", output->json);
		vt_refuse_shared_file(state, kind->option, file, "--prometheus",
				      output->prometheus);
		for (size_t k = 0; k < i; k++)
			vt_refuse_shared_file(state, kind->option, file, documents->kinds[k].option,
					      documents->files[k]);
		if (kind->binary && is_standard_output(file) && isatty(STDOUT_FILENO))
			argp_error(state, "%s does not write to a terminal: give a file, or a pipe",
				   kind->option);
	}
}

void vt_documents_refuse_input(const struct argp_state *state, const struct vt_documents *documents,
			       const struct vt_output *output, const char *input)
{
	vt_refuse_overwrite(state, "--json", output->json, input);
	vt_refuse_overwrite(state, "--prometheus", output->prometheus, input);
	for (size_t i = 0; i < documents->n; i++)
		vt_refuse_overwrite(state, documents->kinds[i].option, documents->files[i], input);
}

bool vt_documents_take_output(const struct vt_documents *documents, const struct vt_output *output)
{
	for (size_t i = 0; i < documents->n; i++)
		if (is_standard_output(documents->files[i]))
			return true;
	return vt_output_is_json_only(output);
}

static struct vt_error *write_document(const struct vt_document *document, const char *file,
				       const struct vt_output *output, const void *what)
{
	if (document->refuse)
		VT_TRY(document->refuse(what));
	return vt_output_file(output, document->write, what, file);
}

bool vt_documents_any(const struct vt_documents *documents)
{
	for (size_t i = 0; i < documents->n; i++)
		if (documents->files[i])
			return true;
	return false;
}

struct vt_error *vt_documents_write(const struct vt_documents *documents,
				    const struct vt_output *output, const void *what)
{
	struct vt_error *err = NULL;

	for (size_t i = 0; i < documents->n; i++)
		if (documents->files[i])
			vt_keep_error(&err, write_document(&documents->kinds[i],
							   documents->files[i], output, what));
	return err;
}

void vt_keep_error(struct vt_error **first, struct vt_error *err)
{
	if (*first)
		vt_error_destroy(err);
	else
		*first = err;
}
