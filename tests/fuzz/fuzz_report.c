/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole reports of a process with damaged memory: every walker, what joins them, and every writer.
 * An input is what core_memory.h says; the second byte is how it is read.
 */
#include "collect/collect.h"
#include "core_memory.h"
#include "fuzz.h"
#include "report/html/html.h"
#include "report/json/load.h"
#include "report/profile/memory.h"
#include "report/snapshot/snapshot.h"
#include "report/writer.h"

/* How: bits of the second byte. */
enum { NO_OWNERS = 1, NO_LOCALS = 2, NO_PYTHON_VIEW = 4, HIDE_TENSORS = 8, ALL_OWNERS = 16 };

/* ---- what is made of it ---- */

/*
 * Nothing of the target's may reach a terminal as it is: no byte below a blank but the end of line,
 * and only whole characters.
 */
static void check_text(const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		unsigned char byte = (unsigned char)text[i];
		size_t more = byte < 0x80 ? 0 : byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;

		fuzz_check((byte >= 0x20 || byte == '\n') && byte != 0x7f,
			   "byte %#x at %zu of the text", byte, i);
		fuzz_check(byte < 0x80 || (byte >= 0xc2 && byte < 0xf5), "no UTF-8 at %zu", i);
		fuzz_check(byte != 0xc2 || (unsigned char)text[i + 1] >= 0xa0,
			   "a control character at %zu", i);
		while (more--)
			fuzz_check(((unsigned char)text[++i] & 0xc0) == 0x80, "no UTF-8 at %zu", i);
	}
}

static char *written_by(vt_write_fn *write, const struct vt_model *model,
			const struct vt_writer_options *options, size_t *n)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, n);

	fuzz_check(out && !write(model, options, out) && !fclose(out), "not written");
	return text;
}

static void write_all(const struct vt_model *model)
{
	static const struct vt_writer_options few = { .columns = 80 },
					      all = { .columns = 160,
						      .all_blocks = true,
						      .map = true,
						      .all_ranges = true,
						      .all_sites = true,
						      .all_owners = true,
						      .threads = VT_THREADS_ALL };
	static vt_write_fn *const others[] = { vt_write_report_html, vt_write_report_snapshot,
					       vt_write_report_pprof, vt_write_report_speedscope,
					       vt_write_report_folded };
	struct vt_model again;
	size_t n;
	char *text = written_by(vt_write_report_text, model, &few, &n);

	check_text(text, n);
	free(text);
	text = written_by(vt_write_report_text, model, &all, &n);
	check_text(text, n);
	free(text);
	text = written_by(vt_write_report_json, model, &few, &n);
	vt_model_init(&again);

	VT_ERROR struct vt_error *err = vt_report_load_text(text, n, &again);

	fuzz_check(!err, "what was written is not read: %s", err->message);
	vt_model_deinit(&again);
	free(text);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		free(written_by(others[i], model, &all, &n));
}

static void report(const char *path, uint8_t how)
{
	const struct vt_subject subject = { .origin = &vt_origin_core, .core = path };
	const struct vt_collect_options options = { .want = VT_WANT_ALL,
						    .owners = !(how & NO_OWNERS),
						    .all_owners = how & ALL_OWNERS,
						    .hide_tensors = how & HIDE_TENSORS,
						    .holders = true,
						    .ledger = true,
						    .segment_traces = true,
						    .locals = !(how & NO_LOCALS),
						    .view = how & NO_PYTHON_VIEW ? VT_VIEW_NATIVE :
										   VT_VIEW_MERGED,
						    .budget_ns = VT_NS_PER_S };
	struct vt_model model;

	vt_model_init(&model);

	VT_ERROR struct vt_error *err = vt_collect_report(&subject, &options, &model);

	if (!err)
		write_all(&model);
	vt_model_deinit(&model);
}

static void look(const char *path, unsigned int part)
{
	(void)part;
	report(path, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size >= 2)
		report(core_memory_begin(data, size, 0, look), data[1]);
	return 0;
}

size_t fuzz_seed(unsigned int number, uint8_t *data, size_t max)
{
	static const uint8_t hows[] = { 0, NO_OWNERS, HIDE_TENSORS, NO_PYTHON_VIEW | ALL_OWNERS };
	unsigned int n_hows = sizeof(hows) / sizeof(hows[0]), which = number / n_hows,
		     n_cores = (unsigned int)core_memory_cores();

	/* Each as it is, then with some edits. */
	if (which >= 2 * n_cores || max < 2 + 64)
		return 0;
	data[0] = (uint8_t)(which % n_cores);
	data[1] = hows[number % n_hows];
	return 2 + (which < n_cores ? 0 : core_memory_seed(number, data + 2));
}
