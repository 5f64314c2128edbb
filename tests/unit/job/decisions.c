/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints all that vramtap decides about the models of reports and jobs, and nothing that it words:
 * codes, numbers and which members. words.py runs it with today's words and with nonsense for
 * words.
 *
 * decisions            of all models; each job once more after it was saved and loaded
 * decisions --load FILE of a saved job
 * decisions --text      one report and one job as text, to see the words
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job/json/json.h"
#include "job/rules/rules.h"
#include "job/text/text.h"
#include "report/writer.h"
#include "unit/job/job_models.h"
#include "unit/report/report_models.h"

static void print_set(const struct vt_member_set *set)
{
	for (size_t i = 0; i < set->n; i++)
		printf(" %u", set->members[i]);
	putchar('\n');
}

static void print_doing(const struct vt_verdict *verdict, const struct vt_waits *waits)
{
	const char *code = vt_verdict_code_name(verdict->code),
		   *purpose = vt_purpose_name(verdict->purpose);
	const char *kind = vt_waits_code_name(waits->code);

	printf("%s %s %s %s, %s %s\n", code ? code : "-",
	       verdict->function ? verdict->function : "-", purpose ? purpose : "-",
	       verdict->for_function ? verdict->for_function : "-", kind ? kind : "-",
	       waits->call ? waits->call : "-");
}

static void print_job(const struct vt_job *job)
{
	printf("%d\n", (int)job->completeness);
	for (size_t i = 0; i < job->doings.n; i++)
		print_doing(&job->doings.data[i].verdict, &job->doings.data[i].waits);
	for (size_t i = 0; i < job->members.n; i++) {
		const struct vt_member *m = &job->members.data[i];

		printf("member %zu: %d %s %d %u\n", i, (int)m->state,
		       m->operation ? m->operation : "-", m->outlier, m->place);
	}
	for (size_t i = 0; i < job->verdicts.n; i++) {
		printf("verdict %s %d:", vt_finding_name(job->verdicts.data[i].code),
		       job->verdicts.data[i].alarm);
		print_set(&job->verdicts.data[i].members);
	}
	for (size_t i = 0; i < job->chains.n; i++) {
		const struct vt_job_chain *chain = &job->chains.data[i];

		printf("chain %s %s %s %d %zu:", vt_finding_name(chain->code),
		       vt_cure_name(chain->cure), chain->doubt ? vt_doubt_name(chain->doubt) : "-",
		       chain->circle, chain->hanging);
		for (size_t k = 0; k < chain->n_links; k++)
			print_set(&chain->links[k].members);
	}
	for (size_t i = 0; i < job->tree.n; i++) {
		const struct vt_job_node *node = &job->tree.data[i];

		printf("node %zu: %zu %zu %zu %d %d:", i, node->parent, node->n_frames,
		       node->threads, node->outlier, node->does != NULL);
		print_set(&node->members);
	}
}

static int load(const char *path, struct vt_job *job)
{
	struct vt_error *err = vt_job_load(job, path, "");

	if (err)
		fprintf(stderr, "decisions: %s\n", err->message);
	else
		vt_job_account(job);
	vt_error_destroy(err);
	return err != NULL;
}

/* Through a file, as a triage leaves it. */
static int print_again(const struct vt_job *job)
{
	static const struct vt_writer_options options = { 0 };
	char path[] = "/tmp/vramtap-decisions-XXXXXX";
	int fd = mkstemp(path);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
	struct vt_job again;
	int status;

	if (!file || vt_write_job_json(job, &options, file) || fclose(file))
		return 1;
	vt_job_init(&again);
	status = load(path, &again);
	remove(path);
	if (!status)
		print_job(&again);
	vt_job_deinit(&again);
	return status;
}

static int print_hang(const char *hang)
{
	struct job_model what = {
		.hang = hang, .ranks = 8, .workers = 2, .culprit = 3, .threads = 2, .ways = 2
	};
	struct vt_job job;
	int status = 1;

	vt_job_init(&job);
	if (job_model_fill(&job, &what)) {
		vt_job_account(&job);
		printf("job %s\n", hang);
		print_job(&job);
		status = print_again(&job);
	}
	vt_job_deinit(&job);
	return status;
}

static int print_model(const char *name)
{
	struct vt_model model;

	if (!report_model_build(&model, name))
		return 1;
	printf("report %s: %d\n", name, (int)model.completeness);
	for (size_t i = 0; i < model.headlines.n; i++)
		printf("headline %s %d\n", model.headlines.data[i].code,
		       model.headlines.data[i].alarm);
	for (size_t i = 0; i < model.thread_groups.n; i++)
		printf("group %zu %zu %d\n", model.thread_groups.data[i].first_thread,
		       model.thread_groups.data[i].n_threads, model.thread_groups.data[i].idle);
	for (size_t i = 0; i < model.threads.n; i++)
		print_doing(&model.threads.data[i].verdict, &model.threads.data[i].waits);
	vt_model_deinit(&model);
	return 0;
}

static int print_all(void)
{
	int status = 0;

	for (size_t i = 0; report_model_names[i]; i++)
		status |= print_model(report_model_names[i]);
	for (size_t i = 0; job_model_hangs[i]; i++)
		status |= print_hang(job_model_hangs[i]);
	return status;
}

static int print_text(void)
{
	struct job_model what = { .hang = "retries", .ranks = 8, .workers = 2, .culprit = 3 };
	static const struct vt_writer_options options = { 0 };
	struct vt_model model;
	struct vt_job job;
	bool ok;

	vt_job_init(&job);
	ok = report_model_build(&model, "training") &&
	     !vt_write_report_text(&model, &options, stdout) && job_model_fill(&job, &what);
	if (ok) {
		vt_job_account(&job);
		ok = !vt_write_job_text(&job, &options, stdout);
	}
	vt_model_deinit(&model);
	vt_job_deinit(&job);
	return !ok;
}

static int print_saved(const char *path)
{
	struct vt_job job;
	int status;

	vt_job_init(&job);
	status = load(path, &job);
	if (!status)
		print_job(&job);
	vt_job_deinit(&job);
	return status;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "--load"))
		return print_saved(argv[2]);
	if (argc == 2 && !strcmp(argv[1], "--text"))
		return print_text();
	return argc == 1 ? print_all() : 64;
}
