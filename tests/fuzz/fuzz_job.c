/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Saved jobs, damaged: reading one comes to an end, what is read holds together, and it can be
 * accounted, written and read again. An input is the text of a job, if it begins with a brace; else
 * edits of a sound one, 4 bytes each: which value, and by what it is replaced. So most inputs are
 * JSON still.
 */
#include <string.h>

#include "fuzz.h"
#include "json_edits.h"
#include "base/str.h"
#include "job/job.h"
#include "job/json/json.h"
#include "job/prometheus/prometheus.h"
#include "job/profile/stacks.h"
#include "job/rules/rules.h"
#include "job/text/text.h"

/* A small one that has everything that is read; fuzzing needs it short. */
static const char seed[] =
	"{\"schema\":\"vramtap-triage\",\"schema_version\":1,\"tool_version\":\"0.1.0\",\"time\":\"2026-11-21T14:14:34."
	"123456789Z\","
	"\"diagnostics\":[{\"level\":\"note\",\"code\":\"x\",\"text\":\"y\"}],\"members\":["
	"{\"host\":\"a\",\"pid\":7,\"parent\":1,\"name\":\"python\",\"command_line\":\"p\",\"role\":\"rank\",\"rank\":0,"
	"\"local_rank\":0,"
	"\"world_size\":3,\"in_job\":true,\"report\":\"r\",\"completeness\":\"complete\",\"headline\":\"h\",\"total_ms\":1.5,"
	"\"stopped_ms\":1,\"stopped_at_ns\":5,\"released_at_ns\":9,\"process_state\":\"S\",\"memory\":[{\"ordinal\":0,\"uuid\":"
	"\"GPU-0\","
	"\"reserved_bytes\":9,\"allocated_bytes\":5,\"cached_bytes\":4,\"device_total_bytes\":99,\"device_free_bytes\":80}],"
	"\"requests\":{\"retries\":1,\"failed\":2,\"last_failed_bytes\":3,\"waits\":false},\"sites\":[{\"title\":\"s\","
	"\"bytes\":5,"
	"\"blocks\":1}],\"collectives\":{\"told_at_ms\":9000,\"groups\":[{\"backend\":\"nccl\",\"group\":\"g\","
	"\"description\":\"d\",\"ranks\":\"0-1,2\",\"last_enqueued\":5,\"last_started\":null,\"last_completed\":4,"
	"\"operation\":\"o\",\"pending\":1,\"oldest_pending\":{\"name\":\"o\",\"number\":5,\"point_to_point\":false,"
	"\"started\":true,\"input\":\"i\",\"age_ms\":5000,\"timeout_ms\":600}}]},"
	"\"threads\":[7,8],\"threads_do\":[0,1]},"
	"{\"host\":\"a\",\"pid\":9,\"role\":\"rank\",\"rank\":1,\"local_rank\":1,\"world_size\":3,\"in_job\":true,"
	"\"completeness\":"
	"\"partial\",\"missing\":\"m\",\"process_state\":\"R\",\"memory\":[{\"ordinal\":0,\"uuid\":\"GPU-1\",\"reserved_"
	"bytes\":4000000000,"
	"\"allocated_bytes\":4000000000,\"cached_bytes\":0}],\"collectives\":{\"told_at_ms\":9000,\"groups\":[{\"backend\":\"nccl\",\"group\":\"g\","
	"\"description\":\"d\",\"ranks\":\"0-1,2\",\"last_enqueued\":4,\"pending\":0,\"oldest_pending\":null}]},"
	"\"threads\":[9],\"threads_do\":[2]},"
	"{\"host\":\"a\",\"pid\":10,\"role\":\"loader\",\"rank\":1,\"worker\":1,\"of\":9,\"in_job\":true,\"completeness\":"
	"\"complete\","
	"\"process_state\":\"T\",\"tracer\":0,\"threads\":[10],\"threads_do\":[3]},"
	"{\"host\":\"b\",\"pid\":9,\"role\":\"other\",\"in_job\":false,\"completeness\":\"nothing\",\"error\":\"e\",\"process_"
	"state\":\"?\","
	"\"memory\":[{\"ordinal\":1}]}],"
	"\"doings\":[{\"name\":\"p\",\"stack\":0,\"state\":\"S\",\"main\":true,\"python\":true,\"verdict\":\"in "
	"cudaEventQuery, for "
	"torch.distributed.all_reduce\"},{\"name\":\"q\",\"stack\":1,\"state\":\"D\",\"gil\":false,\"waits\":\"w\",\"kernel\":"
	"\"k\"},"
	"{\"name\":\"p\",\"stack\":2,\"state\":\"R\",\"main\":true,\"gil\":true},{\"name\":\"p\",\"stack\":1,\"state\":\"T\","
	"\"main\":true,"
	"\"idle\":true}],\"stacks\":[[0,1,2,4],[0,3],[1,4]],\"frames\":[{\"kind\":\"native\",\"function\":\"f\",\"module\":\"m."
	"so\"},"
	"{\"kind\":\"python\",\"function\":\"all_reduce\",\"file\":\"/x/torch/distributed/distributed_c10d.py\",\"line\":3},"
	"{\"kind\":\"python\",\"function\":\"g\",\"file\":\"/a/"
	"b.py\",\"line\":3,\"program\":true},{\"kind\":\"native\",\"function\":null},"
	"{\"kind\":\"python\",\"function\":\"main\",\"file\":\"/a/b.py\",\"line\":9,\"program\":true}]}\n";

static const char *const replacements[] = {
	"0",
	"1",
	"2",
	"-1",
	"7",
	"4294967295",
	"9223372036854775807",
	"1125899906842624",
	"1.5",
	"1e300",
	"null",
	"true",
	"false",
	"\"\"",
	"\"x\"",
	"\"S\"",
	"\"T\"",
	"\"D\"",
	"\"rank\"",
	"\"loader\"",
	"\"python\"",
	"\"native\"",
	"[]",
	"{}",
	"[0]",
	"[0,1]",
	"[{}]",
	"[[]]",
	"[0,1,2,3]",
	"\"waits for a DataLoader worker\"",
	"\"in cudaFree, for the caching allocator\"",
	"\"a\\u001b[2J\"",
};

static struct json_edits edits = {
	.seed = seed,
	.replacements = replacements,
	.n_replacements = sizeof(replacements) / sizeof(replacements[0]),
};

size_t fuzz_seed(unsigned int number, uint8_t *data, size_t max)
{
	return json_edits_seed(&edits, number, data, max);
}

static void check_set(const struct vt_job *job, const struct vt_member_set *set, bool ascending)
{
	for (size_t i = 0; i < set->n; i++) {
		fuzz_check(set->members[i] < job->members.n, "member %u", set->members[i]);
		fuzz_check(!ascending || !i || set->members[i] > set->members[i - 1],
			   "set is not in order");
	}
}

/* What the writers rely on. */
static void check_job(const struct vt_job *job)
{
	for (size_t i = 0; i < job->stacks.n; i++)
		for (size_t k = 0; k < job->stacks.data[i].n; k++)
			fuzz_check(job->stacks.data[i].frames[k] < job->frames.n,
				   "frame %zu of stack %zu", k, i);
	for (size_t i = 0; i < job->doings.n; i++)
		fuzz_check(job->doings.data[i].stack < job->stacks.n, "stack of doing %zu", i);
	for (size_t i = 0; i < job->members.n; i++)
		for (size_t k = 0; k < job->members.data[i].threads.n; k++)
			fuzz_check(job->members.data[i].threads.data[k].doing < job->doings.n,
				   "doing %zu of member %zu", k, i);
	for (size_t i = 0; i < job->tree.n; i++) {
		const struct vt_job_node *node = &job->tree.data[i];

		fuzz_check(node->parent == VT_NO_NODE || node->parent < i, "parent of node %zu", i);
		fuzz_check(node->members.n && node->threads >= node->members.n,
			   "node %zu is of nobody", i);
		check_set(job, &node->members, true);
		for (size_t k = 0; k < node->n_frames; k++)
			fuzz_check(node->frames[k] < job->frames.n, "frame %zu of node %zu", k, i);
	}
	for (size_t i = 0; i < job->verdicts.n; i++)
		check_set(job, &job->verdicts.data[i].members, true);
	for (size_t i = 0; i < job->devices.n; i++)
		check_set(job, &job->devices.data[i].holders, false);
}

/* Names in files are hostile, and one bad byte costs all metrics of the machine. */
static void check_metrics(const struct vt_job *job, const struct vt_writer_options *options)
{
	char *text = NULL;
	size_t n = 0;
	FILE *out = open_memstream(&text, &n);

	if (!out)
		exit(1);
	fuzz_check(!vt_write_job_prometheus(job, options, out), "no metrics");
	fclose(out);
	for (size_t i = 0; i < n;) {
		unsigned int c = 0;
		size_t len = vt_utf8_sequence(text + i, n - i, &c);

		fuzz_check(len && (c >= ' ' || c == '\n') && c != 0x7f, "byte %zu", i);
		if (!i || text[i - 1] == '\n')
			fuzz_check(!strncmp(text + i, "# HELP vramtap_", 15) ||
					   !strncmp(text + i, "# TYPE vramtap_", 15) ||
					   !strncmp(text + i, "vramtap_", 8),
				   "line at %zu", i);
		i += len;
	}
	free(text);
}

static void use(struct vt_job *job)
{
	static const struct vt_writer_options options = { .columns = 80 };
	struct vt_job again;
	char *text = NULL;
	size_t n = 0;
	FILE *out = open_memstream(&text, &n), *null = fopen("/dev/null", "we");

	if (!out || !null)
		exit(1);
	vt_job_account(job);
	fuzz_check(!job->failed, "not accounted");
	check_job(job);
	fuzz_check(!vt_write_job_text(job, &options, null), "no text");
	fuzz_check(!vt_write_job_json(job, &options, out), "no JSON");
	check_metrics(job, &options);
	fuzz_check(!vt_write_job_speedscope(job, &options, null), "no profile");
	fuzz_check(!vt_write_job_folded(job, &options, null), "no folded stacks");
	fclose(out);
	fclose(null);
	vt_job_init(&again);
	fuzz_check(!vt_job_load_text(&again, text, n, ""), "what was written is not read");
	fuzz_check(again.members.n == job->members.n && again.doings.n == job->doings.n,
		   "what was written is not the same");
	vt_job_deinit(&again);
	free(text);
}

static bool is_same_text(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

static bool is_same_frame(const struct vt_job_frame *a, const struct vt_job_frame *b)
{
	return a->kind == b->kind && a->line == b->line && a->program == b->program &&
	       is_same_text(a->function, b->function) && is_same_text(a->file, b->file) &&
	       is_same_text(a->module, b->module);
}

/* From the third time on frames are found by their bytes instead of being parsed. */
static void check_seen(const struct vt_job *once, const char *text, size_t n)
{
	struct vt_job job;

	vt_job_init(&job);
	for (int i = 0; i < 3; i++) {
		struct vt_error *err = vt_job_load_text(&job, text, n, "p");

		fuzz_check(!err, "it was accepted before: %s", err->message);
	}
	fuzz_check(job.frames.n == once->frames.n && job.stacks.n == once->stacks.n &&
			   job.doings.n == once->doings.n,
		   "the same document has other parts");
	for (size_t i = 0; i < job.frames.n; i++)
		fuzz_check(is_same_frame(&job.frames.data[i], &once->frames.data[i]), "frame %zu",
			   i);
	vt_job_deinit(&job);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char text[1u << 16];
	const char *document = (const char *)data;
	bool is_edited = !size || data[0] != '{';
	struct vt_error *err;
	struct vt_job job;

	vt_job_init(&job);
	if (is_edited) {
		size = json_edits_make(&edits, data, size, text, sizeof(text));
		document = text;
	}
	err = vt_job_load_text(&job, document, size, "p");
	if (is_edited)
		fuzz_check(!err || !strstr(err->message, "not JSON") ||
				   strstr(err->message, "too big"),
			   "the edits are no JSON: %s", err->message);
	if (!err) {
		check_seen(&job, document, size);
		use(&job);
	} else {
		fuzz_check(!job.members.n, "something is left of what was refused: %s",
			   err->message);
	}
	vt_error_destroy(err);
	vt_job_deinit(&job);
	return 0;
}
