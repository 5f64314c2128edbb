/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the summary of a job made by hand, or of saved ones, for looking at it and for
 * bench/triage_merge.py: job_demo [--json|--prometheus|--speedscope|--folded] [--quiet] [--cost]
 * [--columns=N] [--ascii] [--colour] HANG RANKS WORKERS CULPRIT [THREADS WAYS] | --load FILE...
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "unit/job/job_models.h"
#include "job/json/json.h"
#include "job/profile/stacks.h"
#include "job/prometheus/prometheus.h"
#include "job/rules/rules.h"
#include "job/text/text.h"

static const struct {
	const char *option;
	vt_write_fn *write;
} writers[] = {
	{ "--json", vt_write_job_json },
	{ "--prometheus", vt_write_job_prometheus },
	{ "--speedscope", vt_write_job_speedscope },
	{ "--folded", vt_write_job_folded },
};

static int load(struct vt_job *job, char **files)
{
	for (; *files; files++) {
		struct vt_error *err = vt_job_load(job, *files, "");

		if (err) {
			fprintf(stderr, "job_demo: %s\n", err->message);
			vt_error_destroy(err);
			return 1;
		}
	}
	return 0;
}

static int fill(struct vt_job *job, char **arg)
{
	struct job_model what = { .hang = arg[0] };
	int *const numbers[] = { &what.ranks, &what.workers, &what.culprit, &what.threads,
				 &what.ways };

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]) && arg[i + 1]; i++)
		*numbers[i] = atoi(arg[i + 1]);
	return what.ranks > 0 && job_model_fill(job, &what) ? 0 : 64;
}

/* Not ru_maxrss: that is of what the process was before execve(), too. */
static double max_memory_mb(void)
{
	FILE *file VT_FCLOSE = fopen("/proc/self/status", "re");
	char line[256];
	long kb = 0;

	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, "VmHWM:", 6))
			kb = strtol(line + 6, NULL, 10);
	return (double)kb / 1024;
}

static void say_cost(const struct vt_job *job, uint64_t begin, uint64_t loaded)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	fprintf(stderr,
		"members %zu doings %zu stacks %zu frames %zu nodes %zu load_ms %.1f account_ms %.1f cpu_ms %.1f max_mb "
		"%.1f\n",
		job->members.n, job->doings.n, job->stacks.n, job->frames.n, job->tree.n,
		(double)(loaded - begin) / VT_NS_PER_MS,
		(double)(vt_now_ns() - loaded) / VT_NS_PER_MS,
		(double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e3 +
			(double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e3,
		max_memory_mb());
}

int main(int argc, char **argv)
{
	struct vt_writer_options options = { .columns = 100 };
	bool quiet = false, cost = false;
	vt_write_fn *write = vt_write_job_text;
	uint64_t begin = vt_now_ns(), loaded;
	struct vt_error *err = NULL;
	int i, status;
	struct vt_job job;

	for (i = 1; i < argc && !strncmp(argv[i], "--", 2) && strcmp(argv[i], "--load") != 0; i++) {
		for (size_t k = 0; k < sizeof(writers) / sizeof(writers[0]); k++)
			if (!strcmp(argv[i], writers[k].option))
				write = writers[k].write;
		quiet |= !strcmp(argv[i], "--quiet");
		cost |= !strcmp(argv[i], "--cost");
		options.ascii |= !strcmp(argv[i], "--ascii");
		options.colour |= !strcmp(argv[i], "--colour");
		if (!strncmp(argv[i], "--columns=", 10))
			options.columns = atoi(argv[i] + 10);
	}
	if (i == argc)
		return 64;
	vt_job_init(&job);
	status = strcmp(argv[i], "--load") ? fill(&job, argv + i) : load(&job, argv + i + 1);
	loaded = vt_now_ns();
	if (!status)
		vt_job_account(&job);
	if (cost)
		say_cost(&job, begin, loaded);
	if (!status && !quiet)
		err = write(&job, &options, stdout);
	if (err)
		fprintf(stderr, "job_demo: %s\n", err->message);
	status = err || job.failed ? 1 : status;
	vt_error_destroy(err);
	vt_job_deinit(&job);
	return status;
}
