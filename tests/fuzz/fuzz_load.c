/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Saved reports, damaged: reading one comes to an end, and what is read holds together, so that it
 * can be compared and written. An input is the text of a report, if it begins with a brace; else
 * edits of a sound one, 4 bytes each: which value, and by what it is replaced. So most inputs are
 * JSON still. Whatever is JSON and says that it is a report also becomes the document of a page.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "json_edits.h"
#include "report/diff/diff.h"
#include "report/diff/growth.h"
#include "report/html/saved.h"
#include "report/html/saved_packed.h"
#include "report/json/load.h"
#include "report/text/text.h"
#include "report/profile/memory.h"
#include "report/writer.h"

/* A small one that has everything that is read; fuzzing needs it short. */
static const char seed[] =
	"{\"schema\":\"vramtap-report\",\"schema_version\":1,\"tool_version\":\"0.1.0\",\"time\":\"2026-11-21T14:14:34."
	"123456789Z\","
	"\"completeness\":\"complete\",\"diagnostics\":[{\"level\":\"note\",\"stage\":\"torch\",\"code\":\"x\",\"text\":\"y\"}]"
	",\"core\":null,"
	"\"process\":{\"pid\":7,\"name\":\"python\",\"uptime_s\":5.5,\"rank\":1,\"world_size\":2},\"cuda\":{\"method\":"
	"\"inside\",\"devices\":[{"
	"\"ordinal\":0,\"uuid\":\"GPU-00010203-0405-0607-0809-0a0b0c0d0e0f\",\"memory\":{\"total_bytes\":99,\"free_bytes\":9,"
	"\"used_bytes\":90}}]},\"pytorch\":{\"method\":\"inside\",\"state\":\"native\","
	"\"collectives\":{\"told_at_ms\":9000,\"why_none\":null,\"groups\":[{\"backend\":\"nccl\",\"group\":\"g\",\"description\":\"d\","
	"\"ranks\":\"0-1\",\"last_enqueued\":5,\"last_started\":null,\"last_completed\":4,\"operation\":\"o\",\"pending\":1,"
	"\"oldest_pending\":{\"name\":\"o\",\"number\":5,\"point_to_point\":false,\"started\":true,\"input\":\"i\",\"age_ms\":5,"
	"\"timeout_ms\":600}}]},"
	"\"allocators\":[{\"device\":0,"
	"\"method\":\"inside\","
	"\"result\":\"complete\",\"object\":\"0x55\",\"totals\":{\"segments\":1,\"reserved_bytes\":90,\"allocated\":{\"bytes\":"
	"80,\"blocks\":3},"
	"\"awaiting_free\":{\"bytes\":0,\"blocks\":0},\"cached\":{\"bytes\":10,\"blocks\":1},\"largest_cached_bytes\":10,"
	"\"private_pools\":{\"bytes\":0,\"allocated\":{\"bytes\":0,\"blocks\":0},\"cached\":{\"bytes\":0,\"blocks\":0}},"
	"\"everything_else_bytes\":0},\"groups\":[{\"bytes\":80,\"blocks\":3,\"block_bytes\":20,\"state\":\"allocated\","
	"\"stream\":\"0x0\","
	"\"pool\":\"large\",\"private_pool\":\"1:2\",\"expandable\":false}],\"segments\":[{\"stream\":\"0x0\",\"pool\":"
	"\"small\",\"blocks\":["
	"{\"address\":\"0x100\",\"bytes\":20,\"state\":\"allocated\",\"backtrace\":0,\"age_s\":1.5,\"tid\":8,\"thread\":\"a\","
	"\"owner\":{\"category\":\"python\",\"unowned\":null,\"certain\":true,\"tensors\":1,\"name\":\"a.b[3] in f (g:1)\",\"variable\":"
	"\"a in f (g:1)\"}},"
	"{\"address\":\"0x200\",\"bytes\":20,\"state\":\"allocated\",\"backtrace\":1},{\"address\":\"0x300\",\"bytes\":40,"
	"\"state\":\"allocated\","
	"\"history\":\"0x9\",\"no_backtrace\":\"changed\"},{\"address\":\"0x400\",\"bytes\":10,\"state\":\"cached\"}]}]}],"
	"\"recorded\":{\"sites\":[{"
	"\"bytes\":40,\"blocks\":2,\"largest_bytes\":20,\"oldest_age_s\":1.5,\"title\":1,\"backtraces\":[1,0]}],\"without\":{"
	"\"not_recorded\":{"
	"\"bytes\":0,\"blocks\":0},\"changed\":{\"bytes\":40,\"blocks\":1},\"unreadable\":{\"bytes\":0,\"blocks\":0},"
	"\"sampled\":{\"bytes\":0,"
	"\"blocks\":0},\"no_stack\":{\"bytes\":0,\"blocks\":0},\"unseen\":{\"bytes\":0,\"blocks\":0}},\"backtraces\":[{"
	"\"source\":\"pytorch\","
	"\"bytes\":20,\"blocks\":1,\"largest_bytes\":20,\"title\":1,\"merge_uncertain\":false,\"frames\":[0,1]},{\"source\":"
	"\"vramtap\","
	"\"bytes\":20,\"blocks\":1,\"largest_bytes\":20,\"title\":1,\"merge_uncertain\":true,\"frames\":[1]}],\"frames\":[{"
	"\"kind\":\"native\","
	"\"function\":\"f\",\"module\":\"m.so\",\"pc\":\"0x10\",\"module_offset\":\"0x1\"},{\"kind\":\"python\",\"function\":"
	"\"g\",\"file\":\"/a/b.py\","
	"\"line\":3}]}},\"recorder\":{\"state\":\"on\",\"on_for_s\":9.5,\"ages_from\":\"report\",\"sample_now_bytes\":0,"
	"\"driver\":{\"seen_by\":\"GOT\","
	"\"groups\":[{\"library\":\"libnccl.so\",\"kind\":\"device\",\"device_memory\":true,\"device\":0,\"bytes\":5,"
	"\"blocks\":1,\"largest_bytes\":5,"
	"\"title\":0}]}},\"owners\":{\"state\":\"read\",\"whole\":true,\"bound\":null,\"frees\":[],\"notices\":[]}}\n";

static const char *const replacements[] = {
	"0",
	"1",
	"2",
	"-1",
	"7",
	"4294967295",
	"4294967296",
	"9223372036854775807",
	"4611686018427387904",
	"1.5",
	"1e300",
	"null",
	"true",
	"\"\"",
	"\"x\"",
	"\"saved by A ← a[0]['b']\"",
	"\"0x0\"",
	"\"0xffffffffffffffff\"",
	"\"allocated\"",
	"\"cached\"",
	"\"python\"",
	"[]",
	"{}",
	"[0]",
	"[0,1]",
	"[{}]",
	"[[]]",
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

/* What the writers rely on. */
static void check_model(const struct vt_model *model)
{
	size_t in_sites = 0;

	for (size_t i = 0; i < model->traces.n; i++) {
		const struct vt_model_trace *t = &model->traces.data[i];

		fuzz_check(t->title <= t->n_frames && t->source < VT_N_TRACE_SOURCES, "trace %zu",
			   i);
		for (size_t k = 0; k < t->n_frames; k++)
			fuzz_check(t->frames[k] < model->n_trace_frames, "frame %zu of trace %zu",
				   k, i);
	}
	for (size_t i = 0; i < model->sites.n; i++) {
		size_t n = 0;

		for (size_t t = model->sites.data[i].first_trace; t != VT_NO_TRACE;
		     t = model->traces.data[t].next_in_site) {
			fuzz_check(t < model->traces.n && model->traces.data[t].site == i,
				   "trace %zu of site %zu", t, i);
			fuzz_check(n++ < model->traces.n, "site %zu has no end", i);
		}
		fuzz_check(n && n == model->sites.data[i].n_traces, "site %zu has %zu traces", i,
			   n);
		in_sites += n;
	}
	fuzz_check(in_sites <= model->traces.n, "%zu traces in sites", in_sites);
	for (size_t i = 0; i < model->allocators.n; i++)
		fuzz_check(model->allocators.data[i].first_block +
					   model->allocators.data[i].n_blocks <=
				   model->n_blocks,
			   "allocator %zu", i);
	for (size_t i = 0; i < model->n_blocks; i++) {
		fuzz_check(model->blocks[i].state <= VT_BLOCK_UNMAPPED, "block %zu", i);
		fuzz_check(!model->block_traces || VT_IS_UNTRACED(model->block_traces[i]) ||
				   model->block_traces[i] < model->traces.n,
			   "trace of block %zu", i);
	}
}

static void use(const struct vt_model *before, const struct vt_model *after)
{
	static const struct vt_writer_options options = { .columns = 80 };
	static const struct vt_diff_options what = { .traces = true };
	struct vt_growth growth;
	struct vt_diff diff;
	struct vt_line line;
	FILE *out = fopen("/dev/null", "we");

	if (!out)
		exit(1);
	fuzz_check(!vt_diff_create(&diff, before, after), "not compared");
	fuzz_check(!vt_diff_write_text(&diff, &what, &options, out), "no text");
	fuzz_check(!vt_diff_write_json(&diff, out), "no JSON");
	vt_diff_deinit(&diff);
	vt_line_init(&line, out, &options);
	vt_text_map(&line, after);
	fuzz_check(!vt_line_finish(&line), "no map");
	fuzz_check(!vt_write_report_pprof(before, &options, out), "no profile for pprof");
	fuzz_check(!vt_write_report_speedscope(before, &options, out), "no profile for speedscope");
	fuzz_check(!vt_write_report_folded(before, &options, out), "no folded stacks");
	for (int by = VT_GROWTH_BY_SITE; by <= VT_GROWTH_BY_LINE; by++) {
		vt_growth_init(&growth, (enum vt_growth_by)by);
		fuzz_check(vt_growth_add(&growth, before) && vt_growth_add(&growth, after),
			   "not followed");
		vt_growth_deinit(&growth);
	}
	fclose(out);
}

/* A page reads what is written as JSON, and each key once. */
static void check_page(const char *text, size_t n)
{
	static const struct vt_writer_options options = { 0 };
	struct vt_html_saved saved;
	struct vt_str copy = { 0 };
	struct vt_error *err;
	json_t *read;
	char *written = NULL;
	size_t n_written = 0;
	FILE *out;

	vt_str_addn(&copy, text, n);
	err = vt_html_saved_init_text("saved", &copy, &saved);
	vt_str_deinit(&copy);
	if (err) {
		vt_error_destroy(err);
		return;
	}
	out = open_memstream(&written, &n_written);
	if (!out)
		exit(1);
	fuzz_check(!vt_html_write_saved(saved.root, &options, out), "no document of a page");
	fclose(out);
	read = json_loadb(written, n_written, JSON_REJECT_DUPLICATES, NULL);
	fuzz_check(read, "the document of a page is no JSON: %s", written);
	json_decref(read);
	free(written);
	vt_html_saved_deinit(&saved);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char text[1u << 16];
	struct vt_model model, sound;
	struct vt_error *err;

	vt_model_init(&model);
	vt_model_init(&sound);
	if (size && data[0] == '{') {
		err = vt_report_load_text((const char *)data, size, &model);
		check_page((const char *)data, size);
	} else {
		size = json_edits_make(&edits, data, size, text, sizeof(text));
		err = vt_report_load_text(text, size, &model);
		fuzz_check(!err || !strstr(err->message, "not JSON") ||
				   strstr(err->message, "too big"),
			   "the edits are no JSON: %s", err->message);
		check_page(text, size);
	}
	if (!err) {
		check_model(&model);
		fuzz_check(!vt_report_load_text(seed, strlen(seed), &sound), "the seed");
		use(&sound, &model);
		use(&model, &sound);
	}
	vt_error_destroy(err);
	vt_model_deinit(&model);
	vt_model_deinit(&sound);
	return 0;
}
