/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Single parts of a report: what each says, and that what is partial is never taken for complete.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/text/parts.h"
#include "unit/report/report_models.h"
#include "unit/report/report_parts.h"

static const struct vt_writer_options wide = { .columns = 160, .hints = &report_other_hints };

enum part { SUMMARY, BLOCKS, ALL_BLOCKS, SITES, FOUND, THREAD, FRAME, LOCALS };

/* A part as text, one at a time; number: of blocks, an address or a Python frame. */
static const char *text_of(const struct vt_model *model, enum part part, uint64_t number)
{
	static char *text;
	const struct vt_model_thread *t = model->threads.data;
	struct vt_writer_options options = wide;
	struct vt_found found;
	size_t n = 0;

	free(text);
	text = NULL;

	FILE *file = open_memstream(&text, &n);

	assert_non_null(file);
	vt_model_find_address(model, number, &found);
	options.all_blocks = part == ALL_BLOCKS;
	switch (part) {
	case SUMMARY:
		assert_null(vt_write_summary_text(model, &options, file));
		break;
	case BLOCKS:
	case ALL_BLOCKS:
		assert_null(vt_write_blocks_text(model, number, &options, file));
		break;
	case SITES:
		assert_null(vt_write_sites_text(model, &options, file));
		break;
	case FOUND:
		assert_null(vt_write_found_text(model, &found, &options, file));
		break;
	case THREAD:
		assert_null(vt_write_thread_text(model, t, number, &options, file));
		break;
	case FRAME:
		assert_null(vt_write_python_frame_text(model, t, number, &options, file));
		break;
	case LOCALS:
		assert_null(vt_write_locals_text(model, t, number, &options, file));
		break;
	}
	assert_int_equal(fclose(file), 0);
	assert_true(n > 0 && text[0] != '\n');
	return text;
}

static void check_has(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("\"%s\" is not in:\n%s", part, text);
}

static void check_has_not(const char *text, const char *part)
{
	if (strstr(text, part))
		fail_msg("\"%s\" is in:\n%s", part, text);
}

static void test_summary(void **state)
{
	struct vt_model model;
	const char *text;

	(void)state;
	assert_true(report_model_build(&model, "debugged"));
	text = text_of(&model, SUMMARY, 0);
	check_has(text, "held by gdb");
	check_has(text, "not known while gdb holds the process. other devices");
	check_has(text, "in use by PyTorch");
	check_has(text, "Complete. JSON: other json");
	check_has_not(text, "Threads");
	check_has_not(text, "Largest");
	vt_model_deinit(&model);

	assert_true(report_model_build(&model, "training"));
	text = text_of(&model, SUMMARY, 0);
	check_has(text, "GPU 0");
	check_has_not(text, "other devices");
	vt_model_deinit(&model);
}

/* The table has the largest ones, in order, and says how many there are more. */
static void test_largest(void **state)
{
	struct vt_model model;
	uint64_t last = UINT64_MAX;
	size_t shown = 0;

	(void)state;
	assert_true(report_model_build(&model, "training"));
	for (const char *line = strstr(text_of(&model, BLOCKS, 37), "Largest blocks");
	     (line = strstr(line, "\n  0x")) != NULL; line++) {
		uint64_t addr = strtoull(line + 3, NULL, 16);
		struct vt_found found;

		vt_model_find_address(&model, addr, &found);
		assert_true(found.kind == VT_FOUND_BLOCK && model.blocks[found.index].addr == addr);
		assert_true(model.blocks[found.index].size <= last);
		last = model.blocks[found.index].size;
		shown++;
	}
	assert_int_equal(shown, 37);
	for (size_t i = 0; i < model.n_blocks; i++)
		shown -= model.blocks[i].size > last;
	assert_true(shown >= 1 && shown <= 37);
	check_has(text_of(&model, BLOCKS, model.n_blocks - 5), "… 5 more   (other blocks)");
	check_has_not(text_of(&model, BLOCKS, model.n_blocks), "\n  … ");
	check_has_not(text_of(&model, BLOCKS, SIZE_MAX), "\n  … ");
	check_has_not(text_of(&model, BLOCKS, 0), "Largest blocks");
	check_has(text_of(&model, ALL_BLOCKS, 0), "Blocks of GPU 0");
	vt_model_deinit(&model);
}

static void test_no_blocks(void **state)
{
	static const struct {
		enum vt_allocator_state state;
		const char *text;
	} cases[] = {
		{ VT_ALLOCATOR_NOT_LOADED, "PyTorch's CUDA allocator is not loaded" },
		{ VT_ALLOCATOR_NOT_INITIALISED, "PyTorch has not used CUDA in this process yet" },
		{ VT_ALLOCATOR_ASYNC, "cudaMallocAsync" },
		{ VT_ALLOCATOR_PLUGGABLE, "CUDAPluggableAllocator" },
		{ VT_ALLOCATOR_REFUSED, "its layout is not understood" },
		{ VT_ALLOCATOR_INHERITED, "copied by fork()" },
		{ VT_ALLOCATOR_NATIVE, "no devices yet" },
		{ VT_ALLOCATOR_UNKNOWN, "It is not known which allocator" },
	};
	struct vt_model model;

	(void)state;
	assert_true(report_model_build(&model, "many-threads"));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		model.torch_state = cases[i].state;
		check_has(text_of(&model, BLOCKS, 20), cases[i].text);
		check_has(text_of(&model, SITES, 0), cases[i].text);
		check_has(text_of(&model, FOUND, 1), cases[i].text);
	}
	vt_model_deinit(&model);
	assert_true(report_model_build(&model, "no-cuda"));
	check_has(text_of(&model, BLOCKS, 20), "does not use CUDA");
	vt_model_deinit(&model);
	assert_true(report_model_build(&model, "refused"));
	check_has(text_of(&model, BLOCKS, 20), "GPU 0: not shown");
	vt_model_deinit(&model);
}

static void test_sites(void **state)
{
	struct vt_model model;

	(void)state;
	assert_true(report_model_build(&model, "debugged"));
	check_has(text_of(&model, SITES, 0), "It was not recorded where");
	check_has(text_of(&model, SITES, 0), "other record");
	model.core.path = "/tmp/core";
	check_has_not(text_of(&model, SITES, 0), "other record");
	vt_model_deinit(&model);
	assert_true(report_model_build(&model, "just-on"));
	check_has(text_of(&model, SITES, 0), "vramtap has recorded for 3 s: nothing that it saw");
	check_has_not(text_of(&model, SITES, 0), "Nobody");
	vt_model_deinit(&model);
	assert_true(report_model_build(&model, "recorder"));
	check_has(text_of(&model, SITES, 0), "Attention.forward");
	check_has_not(text_of(&model, SITES, 0), "Nobody");
	vt_model_deinit(&model);
}

/* A block's own numbers, its neighbours' and its segment's, each where it belongs. */
static void test_found(void **state)
{
	struct vt_model model;
	const struct vt_block_rec *b;
	char text[200];

	(void)state;
	assert_true(report_model_build(&model, "recorder"));
	b = &model.blocks[1];
	assert_true(b->state == VT_BLOCK_CACHED && b[1].state == VT_BLOCK_ALLOCATED);
	snprintf(text, sizeof(text),
		 "0x%" PRIx64 " is 1,000 bytes into a block of 4.00 MiB, cached, on GPU 0\n",
		 b->addr + 1000);
	check_has(text_of(&model, FOUND, b->addr + 1000), text);
	snprintf(text, sizeof(text), "0x%" PRIx64 " is the start of a block", b->addr);
	check_has(text_of(&model, FOUND, b->addr), text);
	snprintf(text, sizeof(text), "before      0x%" PRIx64 ", 22.0 MiB, in use\n", b[-1].addr);
	check_has(text_of(&model, FOUND, b->addr), text);
	snprintf(text, sizeof(text), "after       0x%" PRIx64 ", 22.0 MiB, in use\n", b[1].addr);
	check_has(text_of(&model, FOUND, b->addr), text);
	check_has(text_of(&model, FOUND, b[-1].addr), "none: it is the first of its segment");
	check_has(text_of(&model, FOUND, b[-1].addr),
		  "22,768,672 bytes: 300,000 are lost to rounding");
	check_has_not(text_of(&model, FOUND, b->addr), "asked for");
	for (size_t i = 0; i < 200; i++) {
		const char *found = text_of(&model, FOUND, model.blocks[i].addr);
		bool in_use = model.blocks[i].state == VT_BLOCK_ALLOCATED;

		if (vt_model_block_trace(&model, i))
			check_has(found, "Allocated by, recorded by ");
		else
			check_has_not(found, "Allocated by");
		if (in_use && !vt_model_block_trace(&model, i))
			check_has(found, "backtrace   none: it was ");
		if (vt_model_block_record(&model, i))
			check_has(found, " ago by thread ");
	}
	vt_model_deinit(&model);
}

static void test_found_elsewhere(void **state)
{
	struct vt_model model;

	(void)state;
	assert_true(report_model_build(&model, "recorder"));
	model.pinned.blocks[2].addr = 0x1000;
	check_has(
		text_of(&model, FOUND, 0x1001),
		"0x1001 is 1 byte into a block of 256 KiB of pinned host memory, awaiting free\n");
	model.pinned.exact = false;
	check_has(text_of(&model, FOUND, 0x1001), "whether it is in use is not known");
	check_has(text_of(&model, FOUND, model.driver_blocks.data[1].addr),
		  "is the start of 20.0 MiB of device memory of cudaMallocAsync, GPU 0");
	check_has(
		text_of(&model, FOUND, 0xfff),
		"0xfff is in no block of PyTorch's, nor in memory whose allocation was recorded\n");
	check_has(text_of(&model, FOUND, 0xfff), "above it");
	check_has_not(text_of(&model, FOUND, 0xfff), "below it");
	vt_model_deinit(&model);

	/* What could not be read may be there. */
	assert_true(report_model_build(&model, "unstable"));
	check_has(text_of(&model, FOUND, 1),
		  "in no block of PyTorch's, as far as they are known\n");
	vt_model_deinit(&model);
}

static void test_thread(void **state)
{
	struct vt_model model;
	const char *text;

	(void)state;
	assert_true(report_model_build(&model, "training"));
	text = text_of(&model, THREAD, 1);
	check_has(text, "41273 python3");
	check_has(text, "    #0  Trainer.train_step ");
	check_has(text, "  > #1  Trainer.fit ");
	check_has(text, "    #4  <module> ");
	check_has(text, "        Py_RunMain ");
	check_has(text, "(other frames)");
	check_has_not(text, "#5");
	check_has_not(text_of(&model, THREAD, VT_NO_FRAME), " > ");
	check_has(text_of(&model, FRAME, 2), "#2 Module._call_impl (/home/");
	check_has(text_of(&model, LOCALS, 2), "could not be read");
	vt_model_deinit(&model);

	assert_true(report_model_build(&model, "deadlock"));
	text = text_of(&model, LOCALS, 0);
	check_has(
		text,
		"#0 next_batch (/job/train.py:18)   one of 1 Python frames of thread 41273\n  step = 3\n  batch = tensor");
	check_has(text, "  …\n");
	model.threads.data[0].stack.frames[2].n_locals = 0;
	model.threads.data[0].stack.frames[2].locals_cut = false;
	check_has(text_of(&model, LOCALS, 0), "it has no local variables");
	vt_model_deinit(&model);
}

/*
 * Whatever is missing, and whatever a part is about: nothing that is partial looks complete,
 * nothing complete partial.
 */
static void test_partial(void **state)
{
	(void)state;
	for (unsigned int i = 0; i <= VT_N_STAGES; i++) { /* the last time without any */
		struct vt_model model;
		enum vt_stage stage = (enum vt_stage)i;
		bool missing = i < VT_N_STAGES,
		     threads = stage == VT_STAGE_PYTHON || stage == VT_STAGE_STACKS;
		bool both = stage == VT_STAGE_PROCESS || stage == VT_STAGE_CORE ||
			    stage == VT_STAGE_FILES || stage == VT_STAGE_WATCH ||
			    stage == VT_STAGE_JOB || stage == VT_STAGE_OTHER;

		assert_true(report_model_fill(&model, "training"));
		vt_model_diag(&model, VT_DIAG_NOTE, VT_STAGE_TORCH, "a-note", "worth knowing");
		if (missing)
			vt_model_diag(&model, VT_DIAG_MISSING, stage, "lost", "it is gone");
		assert_true(vt_model_account(&model));
		for (enum part part = SUMMARY; part <= LOCALS; part++) {
			const char *text =
				text_of(&model, part, part == FOUND ? model.blocks[0].addr : 1);
			bool about_threads = part >= THREAD;

			if (missing)
				check_has(text, "Partial: ");
			else
				check_has_not(text, "Partial");
			if (missing && (both || threads == about_threads))
				check_has(text, "! it is gone");
			else
				check_has_not(text, "it is gone");
			if (part != SUMMARY)
				check_has_not(text, "worth knowing");
			check_has_not(text, "(--");
		}
		vt_model_deinit(&model);
	}
}

/* What stood still did not change while it was read. */
static void test_unstable(void **state)
{
	struct vt_model model;

	(void)state;
	for (int core = 0; core < 2; core++) {
		assert_true(report_model_fill(&model, "unstable"));
		model.core.path = core ? "/tmp/core" : NULL;
		model.held_by = core ? NULL : "gdb";
		assert_true(vt_model_account(&model));
		for (enum part part = SUMMARY; part <= FOUND; part++) {
			const char *text = text_of(&model, part, 20);

			check_has(text, "was being changed when the process was stopped");
			check_has_not(text, "changed while it was read");
			(core ? check_has_not : check_has)(text,
							   "let it run for a moment and try again");
		}
		check_has(text_of(&model, BLOCKS, 20),
			  "Largest blocks, as far as they could be read");
		vt_model_deinit(&model);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_summary),   cmocka_unit_test(test_largest),
		cmocka_unit_test(test_no_blocks), cmocka_unit_test(test_sites),
		cmocka_unit_test(test_found),     cmocka_unit_test(test_found_elsewhere),
		cmocka_unit_test(test_thread),    cmocka_unit_test(test_partial),
		cmocka_unit_test(test_unstable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
