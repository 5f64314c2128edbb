/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints a model made by hand, to look at the writers: report_demo [--json] [--parts] [--pprof]
 * [--speedscope] [--folded] [--colour] [--ascii] [--map] [--blocks] [--sites] [--threads]
 * [--columns=N] [NAME…]; --list names the models, --codes prints every code of the JSON.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/profile/memory.h"
#include "report/state_words.h"
#include "report/writer.h"
#include "unit/report/report_models.h"
#include "unit/report/report_parts.h"

static void print_code(const char *what, const char *code)
{
	if (code)
		printf("%s %s\n", what, code);
}

static void print_codes(void)
{
	for (unsigned int i = 0; i < VT_N_STAGES; i++)
		print_code("stage", vt_stage_name((enum vt_stage)i));
	for (unsigned int i = 0; i < VT_N_ALLOCATOR_STATES; i++)
		print_code("allocator", vt_allocator_state_code((enum vt_allocator_state)i));
	for (unsigned int i = 0; i < VT_N_RECORDINGS; i++)
		print_code("recorder", vt_recording_code((enum vt_recording)i));
	for (unsigned int i = 0; i < VT_N_DRIVER_KINDS; i++)
		print_code("driver", vt_driver_kind_name((enum vt_driver_kind)i));
}

static int print_model(const char *name, vt_write_fn *writer,
		       const struct vt_writer_options *options)
{
	struct vt_model model;
	struct vt_error *err;

	if (!report_model_build(&model, name)) {
		fprintf(stderr, "report_demo: no model %s\n", name);
		return 64;
	}
	err = writer(&model, options, stdout);
	vt_model_deinit(&model);
	if (!err)
		return 0;
	fprintf(stderr, "report_demo: %s\n", err->message);
	vt_error_destroy(err);
	return 1;
}

int main(int argc, char **argv)
{
	vt_write_fn *writer = vt_write_report_text;
	struct vt_writer_options options = { 0 };
	int i;

	if (argc == 2 && !strcmp(argv[1], "--codes")) {
		print_codes();
		return 0;
	}
	for (i = 1; i < argc && !strncmp(argv[i], "--", 2); i++) {
		if (!strcmp(argv[i], "--json"))
			writer = vt_write_report_json;
		else if (!strcmp(argv[i], "--parts"))
			writer = report_write_parts;
		else if (!strcmp(argv[i], "--pprof"))
			writer = vt_write_report_pprof;
		else if (!strcmp(argv[i], "--speedscope"))
			writer = vt_write_report_speedscope;
		else if (!strcmp(argv[i], "--folded"))
			writer = vt_write_report_folded;
		else if (!strcmp(argv[i], "--colour"))
			options.colour = true;
		else if (!strcmp(argv[i], "--ascii"))
			options.ascii = true;
		else if (!strcmp(argv[i], "--map"))
			options.map = true;
		else if (!strcmp(argv[i], "--blocks"))
			options.all_blocks = true;
		else if (!strcmp(argv[i], "--sites"))
			options.all_sites = true;
		else if (!strcmp(argv[i], "--threads"))
			options.threads = VT_THREADS_ALL;
		else if (!strncmp(argv[i], "--columns=", 10))
			options.columns = atoi(argv[i] + 10);
		else if (!strcmp(argv[i], "--list"))
			for (size_t k = 0; report_model_names[k]; k++)
				puts(report_model_names[k]);
		else
			return 64;
	}
	if (i == argc && argc > 1 && !strcmp(argv[1], "--list"))
		return 0;
	if (i == argc)
		return print_model("training", writer, &options);
	for (int status = 0;; status = 0) {
		status = print_model(argv[i], writer, &options);
		if (status || ++i == argc)
			return status;
	}
}
