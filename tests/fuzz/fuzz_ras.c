/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers of NCCL's RAS, damaged: reading one comes to an end, what is read holds together, and it
 * can be accounted, shown, written and read again.
 */
#include <string.h>

#include "fuzz.h"
#include "unit/job/ras/ras_words.h"
#include "job/job.h"
#include "job/json/json.h"
#include "job/rules/rules.h"
#include "job/ras/ras.h"
#include "job/text/text.h"

size_t fuzz_seed(unsigned int number, uint8_t *data, size_t max)
{
	static const char *const seeds[] = { ras_2_24, ras_2_27, ras_2_28,
					     ras_2_29, ras_well, ras_status };

	return fuzz_seed_of(seeds, sizeof(seeds) / sizeof(seeds[0]), number, data, max);
}

static void check_groups(const struct vt_ras *ras)
{
	for (size_t i = 0; i < ras->groups.n; i++) {
		const struct vt_ras_group *g = &ras->groups.data[i];

		fuzz_check(g->about < VT_RAS_N_ABOUT && g->communicator && g->what, "group %zu", i);
		fuzz_check(g->ranks.n <= g->n, "more are named than there are in group %zu", i);
		for (size_t k = 0; k < g->ranks.n; k++)
			fuzz_check(g->ranks.data[k].rank >= -1 && g->ranks.data[k].pid >= 0 &&
					   g->ranks.data[k].host,
				   "rank %zu", k);
	}
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
	fuzz_check(!vt_write_job_text(job, &options, null), "no text");
	fuzz_check(!vt_write_job_json(job, &options, out), "no JSON");
	fclose(out);
	fclose(null);
	vt_job_init(&again);
	fuzz_check(!vt_job_load_text(&again, text, n, ""), "what was written is not read");
	fuzz_check(again.ras.n == 1 && again.ras.data[0].groups.n == job->ras.data[0].groups.n &&
			   again.ras.data[0].lines.n == job->ras.data[0].lines.n,
		   "what was written is not the same");
	vt_job_deinit(&again);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct vt_ras asked = {
		.host = "h", .pid = 1, .address = "a", .understood = !size || data[size - 1] % 8
	};
	struct vt_job job;

	vt_job_init(&job);
	fuzz_check(vt_job_add_ras(&job, &asked, (const char *)data, size), "out of memory");
	check_groups(&job.ras.data[0]);
	use(&job);
	vt_job_deinit(&job);
	return 0;
}
