/* SPDX-License-Identifier: Apache-2.0 */
/* Two models compared, and the rule by which a place grows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/diff/diff.h"
#include "report/diff/growth.h"
#include "report/diff/keepers.h"
#include "report/diff/lines.h"
#include "unit/report/report_models.h"

#define MIB (UINT64_C(1) << 20)
#define NS_PER_S UINT64_C(1000000000)

enum { LEAK, OTHER, LEAK_AGAIN, CALLER, N_FRAMES };

/* The same places in two processes: their native code lies at other addresses. */
static const struct vt_model_frame frames[N_FRAMES] = {
	[LEAK] = { .kind = VT_FRAME_PYTHON,
		   .function = "leak",
		   .file = "/home/alice/train.py",
		   .line = 7 },
	[OTHER] = { .kind = VT_FRAME_NATIVE,
		    .function = "make",
		    .module = "libmine.so",
		    .build_id = "",
		    .pc = 0x1000,
		    .module_offset = 0x10 },
	[LEAK_AGAIN] = { .kind = VT_FRAME_PYTHON,
			 .function = "leak",
			 .file = "/home/alice/train.py",
			 .line = 8 },
	[CALLER] = { .kind = VT_FRAME_PYTHON,
		     .function = "main",
		     .file = "/home/alice/train.py",
		     .line = 90 },
};
static const uint32_t trace_leak[] = { LEAK, CALLER, UINT32_MAX },
		      trace_other[] = { OTHER, UINT32_MAX },
		      trace_again[] = { LEAK_AGAIN, CALLER, UINT32_MAX };
static const uint32_t *const all_traces[] = { trace_leak, trace_other, trace_again };

struct block {
	uint64_t size;
	int trace;    /* in all_traces; -1: older than the recording */
	double age_s; /* 0 not known */
};

struct scene {
	double at_s;
	uint64_t start_ns; /* of the recorder, before the report; 0: it is not there */
	bool recorded, inexact;
	pid_t pid;
	struct block blocks[64];
	const struct vt_model_owner *owners; /* of the first blocks */
	size_t n_owners;
};

static void fill_traces(struct vt_model *model)
{
	for (size_t i = 0; i < 3; i++) {
		struct vt_model_trace *t = vt_vec_append(&model->traces);

		assert_non_null(t);
		*t = (struct vt_model_trace){ .frames = all_traces[i] };
		while (all_traces[i][t->n_frames] != UINT32_MAX)
			t->n_frames++;
	}
	model->trace_frames = frames;
	model->n_trace_frames = N_FRAMES;
}

static void add_owners(struct vt_model *model, const struct scene *scene)
{
	for (size_t i = 0; i < scene->n_owners; i++) {
		struct vt_model_owner *owner = vt_vec_append(&model->owners.items);

		assert_non_null(owner);
		*owner = scene->owners[i];
		owner->block = (uint32_t)i;
		owner->n_tensors = 1;
		owner->module = owner->type = owner->dtype = owner->shape = "";
	}
	if (scene->n_owners) {
		model->owners.state = VT_OWNERS_READ;
		model->owners.whole = true;
	}
}

static void build(struct vt_model *model, const struct scene *scene)
{
	uint32_t *of_block = NULL;
	struct vt_model_record *records = NULL;

	vt_model_init(model);
	model->process.pid = scene->pid ? scene->pid : 100;
	model->when.tv_sec = 1795270000 + (time_t)scene->at_s;
	report_add_device(model, 0, 0, 100 * MIB * 1000);
	report_add_allocator(model, 0);
	report_add_segment(model, 0, 0, 0);
	for (size_t i = 0; scene->blocks[i].size; i++)
		report_add_block(model, VT_BLOCK_ALLOCATED, scene->blocks[i].size,
				 scene->blocks[i].size);
	if (scene->inexact)
		model->allocators.data[0].result.result = VT_WALK_UNSTABLE;
	if (scene->recorded) {
		of_block = vt_arena_alloc(&model->arena, (model->n_blocks + 1) * sizeof(*of_block));
		records = vt_arena_alloc(&model->arena, (model->n_blocks + 1) * sizeof(*records));
		assert_non_null(of_block);
		assert_non_null(records);
		fill_traces(model);
	}
	for (size_t i = 0; scene->recorded && i < model->n_blocks; i++) {
		const struct block *b = &scene->blocks[i];

		of_block[i] = b->trace < 0 ? VT_UNTRACED(VT_UNTRACED_NOT_RECORDED) :
					     (uint32_t)b->trace;
		records[i].age_ns = b->age_s > 0 ? (uint64_t)(b->age_s * (double)NS_PER_S) :
						   VT_NO_AGE;
		records[i].thread = "";
	}
	model->block_traces = of_block;
	model->block_records = records;
	if (scene->start_ns) {
		model->recorder.state = VT_RECORDING_ON;
		model->recorder.on_ns = scene->start_ns;
	}
	add_owners(model, scene);
	assert_true(vt_model_account(model));
}

struct both {
	struct vt_model before, after;
	struct vt_diff diff;
};

static void begin(struct both *b, const struct scene *before, const struct scene *after)
{
	build(&b->before, before);
	build(&b->after, after);
	assert_null(vt_diff_create(&b->diff, &b->before, &b->after));
}

static void end(struct both *b)
{
	vt_diff_deinit(&b->diff);
	vt_model_deinit(&b->before);
	vt_model_deinit(&b->after);
}

static const struct vt_diff_site *site_of(const struct both *b, const char *function, int line)
{
	for (size_t i = 0; i < b->diff.sites.n; i++) {
		const struct vt_model_frame *title = b->diff.sites.data[i].title;

		if (title && !strcmp(title->function, function) && title->line == line)
			return &b->diff.sites.data[i];
	}
	return NULL;
}

static bool is_said(const struct both *b, const char *code)
{
	for (size_t i = 0; i < b->diff.notes.n; i++)
		if (!strcmp(b->diff.notes.data[i].code, code))
			return true;
	return false;
}

static void test_growth_by_site(void **state)
{
	struct both b;
	const struct vt_diff_site *leak, *gone;

	(void)state;
	begin(&b,
	      &(struct scene){ .recorded = true,
			       .blocks = { { MIB, 0, 0 }, { 4 * MIB, -1, 0 }, { 2 * MIB, 2, 0 } } },
	      &(struct scene){ .recorded = true,
			       .at_s = 600,
			       .blocks = { { MIB, 0, 0 },
					   { 4 * MIB, -1, 0 },
					   { MIB, 0, 0 },
					   { MIB, 0, 0 },
					   { 3 * MIB, 1, 0 } } });
	assert_null(b.diff.why_other);
	assert_true(b.diff.seconds > 599.9 && b.diff.seconds < 600.1);
	assert_int_equal(b.diff.sites_compared, VT_DIFF_SITES_COMPARED);
	assert_int_equal(b.diff.sites.n, 3);
	/* the most grown, and new */
	assert_string_equal(b.diff.sites.data[0].title->function, "make");
	leak = site_of(&b, "leak", 7);
	assert_int_equal(vt_diff_bytes(&leak->amount), 2 * MIB);
	assert_int_equal(leak->amount.before.blocks, 1);
	assert_int_equal(leak->amount.after.blocks, 3);
	assert_int_equal(leak->kept.blocks, 1);
	gone = site_of(&b, "leak", 8);
	assert_int_equal(gone->amount.after.bytes, 0);
	assert_int_equal(vt_diff_bytes(&gone->amount), -2 * (int64_t)MIB);
	assert_int_equal(vt_diff_bytes(&b.diff.untraced[VT_UNTRACED_NOT_RECORDED]), 0);
	assert_int_equal(b.diff.untraced[VT_UNTRACED_NOT_RECORDED].after.bytes, 4 * MIB);
	assert_int_equal(vt_diff_bytes(&b.diff.devices.data[0].parts[VT_DIFF_ALLOCATED]), 3 * MIB);
	assert_non_null(strstr(b.diff.headlines.data[0].text,
			       "GPU 0: in use +3.00 MiB in 10 min (from 7.00 MiB to 10.0 MiB)"));
	assert_non_null(strstr(b.diff.headlines.data[0].text,
			       "3.00 MiB of it from one place: make libmine.so, 0 -> 1 blocks"));
	assert_int_equal(b.diff.completeness, VT_COMPLETE);
	assert_false(is_said(&b, "recording-interrupted"));
	end(&b);
}

/* A block that was freed and made anew at the same place is not the same block: its age says so. */
static void test_ages_tell_survivors(void **state)
{
	struct both b;

	(void)state;
	begin(&b,
	      &(struct scene){ .recorded = true,
			       .start_ns = 1000 * NS_PER_S,
			       .blocks = { { MIB, 0, 500 }, { MIB, 0, 100 }, { 4 * MIB, -1, 0 } } },
	      &(struct scene){
		      .recorded = true,
		      .start_ns = 1600 * NS_PER_S,
		      .at_s = 600,
		      .blocks = { { MIB, 0, 1100 }, { MIB, 0, 50 }, { 4 * MIB, -1, 0 } } });
	assert_int_equal(site_of(&b, "leak", 7)->kept.blocks, 1);
	assert_int_equal(site_of(&b, "leak", 7)->ages.oldest_ns, 1100 * NS_PER_S);
	assert_int_equal(b.diff.kept.blocks, 2);
	assert_true(b.diff.kept_certain);
	end(&b);
}

static void test_without_ages_survivors_are_possible(void **state)
{
	struct scene scene = { .recorded = true, .blocks = { { MIB, 0, 0 }, { 4 * MIB, -1, 0 } } };
	struct both b;

	(void)state;
	begin(&b, &scene, &scene);
	assert_int_equal(b.diff.kept.blocks, 2);
	assert_false(b.diff.kept_certain);
	end(&b);
}

static void test_recording_began_in_between(void **state)
{
	struct both b;

	(void)state;
	begin(&b, &(struct scene){ .blocks = { { MIB, 0, 0 } } },
	      &(struct scene){
		      .recorded = true, .at_s = 60, .blocks = { { MIB, -1, 0 }, { MIB, 0, 0 } } });
	assert_int_equal(b.diff.sites_compared, VT_DIFF_SITES_AFTER);
	assert_true(is_said(&b, "recorded-in-one"));
	assert_int_equal(b.diff.completeness, VT_PARTIAL);
	/* No site is named as what grew. */
	assert_null(strstr(b.diff.headlines.data[0].text, "one place"));
	assert_non_null(strstr(b.diff.headlines.data[0].text, "blocks of 1.00 MiB"));
	end(&b);
}

static void test_recording_began_anew(void **state)
{
	struct both b;

	(void)state;
	begin(&b, &(struct scene){ .recorded = true, .blocks = { { MIB, 0, 0 }, { MIB, 0, 0 } } },
	      &(struct scene){ .recorded = true,
			       .at_s = 60,
			       .blocks = { { MIB, -1, 0 }, { MIB, -1, 0 }, { MIB, 0, 0 } } });
	assert_true(is_said(&b, "recording-interrupted"));
	/* That they were freed is not to be said. */
	assert_int_equal(site_of(&b, "leak", 7)->unsure, 2);
	end(&b);
	begin(&b,
	      &(struct scene){
		      .recorded = true, .start_ns = 100 * NS_PER_S, .blocks = { { MIB, 0, 10 } } },
	      &(struct scene){ .recorded = true,
			       .start_ns = 20 * NS_PER_S,
			       .at_s = 60,
			       .blocks = { { MIB, 0, 10 } } });
	assert_true(is_said(&b, "recording-interrupted"));
	end(&b);
}

static void test_what_is_inexact_is_not_compared(void **state)
{
	struct both b;

	(void)state;
	begin(&b, &(struct scene){ .recorded = true, .blocks = { { MIB, 0, 0 } } },
	      &(struct scene){ .recorded = true,
			       .inexact = true,
			       .at_s = 60,
			       .blocks = { { MIB, 0, 0 }, { MIB, 0, 0 } } });
	assert_false(b.diff.devices.data[0].known[VT_DIFF_ALLOCATED]);
	assert_int_equal(b.diff.sites_compared, VT_DIFF_SITES_INEXACT);
	assert_int_equal(b.diff.sites.n, 0);
	assert_int_equal(b.diff.groups.n, 0);
	assert_false(b.diff.kept_known);
	assert_true(is_said(&b, "inexact") && is_said(&b, "inexact-sites"));
	assert_int_not_equal(b.diff.completeness, VT_COMPLETE);
	end(&b);
}

static void test_two_processes(void **state)
{
	struct scene scene = { .recorded = true, .blocks = { { MIB, 0, 0 } } }, other = scene;
	struct both b;

	(void)state;
	other.pid = 101;
	begin(&b, &scene, &other);
	assert_non_null(b.diff.why_other);
	assert_false(b.diff.kept_known);
	assert_int_equal(b.diff.sites_compared, VT_DIFF_SITES_COMPARED);
	end(&b);
	/* The same number, and another allocator. */
	build(&b.before, &scene);
	build(&b.after, &scene);
	b.after.allocators.data[0].result.allocator += 0x1000;
	assert_null(vt_diff_create(&b.diff, &b.before, &b.after));
	assert_non_null(b.diff.why_other);
	end(&b);
}

static void test_every_model_with_every_other(void **state)
{
	struct vt_writer_options options = { .columns = 80 };
	struct vt_diff_options what = { .traces = true };

	(void)state;
	for (size_t i = 0; report_model_names[i]; i++) {
		struct both b;
		char *text = NULL;
		size_t n = 0;
		FILE *file = open_memstream(&text, &n);

		assert_non_null(file);
		assert_true(report_model_build(&b.before, report_model_names[i]));
		assert_true(report_model_build(&b.after, report_model_names[i + 1] ?
								 report_model_names[i + 1] :
								 report_model_names[0]));
		assert_null(vt_diff_create(&b.diff, &b.before, &b.after));
		assert_null(vt_diff_write_text(&b.diff, &what, &options, file));
		assert_null(vt_diff_write_json(&b.diff, file));
		fclose(file);
		assert_true(n > 100);
		free(text);
		end(&b);
	}
}

/*
 * One block is older than the recording in the first report, and made anew, with a backtrace, in
 * the second.
 */
static void test_older_replaced(void **state)
{
	struct scene before = { .recorded = true, .blocks = { { 9 * MIB, -1, 0 }, { MIB, 1, 0 } } };
	struct scene after = { .at_s = 60,
			       .recorded = true,
			       .blocks = { { 9 * MIB, 0, 0 }, { MIB, 1, 0 } } };
	struct both b;

	(void)state;
	begin(&b, &before, &after);
	assert_true(is_said(&b, "older-replaced"));
	end(&b);
	after.blocks[0] = (struct block){ 9 * MIB, -1, 0 };
	after.blocks[2] = (struct block){ 9 * MIB, 0, 0 };
	begin(&b, &before, &after);
	assert_false(is_said(&b, "older-replaced"));
	end(&b);
}

/* ---- growth ---- */

/*
 * One site with so many MiB at each look, and older ones without a backtrace; whether it grows
 * after the last.
 */
static bool grows(const int *mib, const int *older)
{
	struct vt_growth growth;
	bool growing = false;

	vt_growth_init(&growth, VT_GROWTH_BY_SITE);
	for (int look = 0; *mib >= 0; mib++, look++) {
		struct scene scene = { .recorded = true };
		struct vt_model model;

		scene.blocks[0] =
			(struct block){ (uint64_t)(older ? older[look] : 4) * MIB, -1, 0 };
		scene.blocks[1] = (struct block){ 3 * MIB, 1, 0 };
		for (int i = 0; i < *mib; i++)
			scene.blocks[2 + i] = (struct block){ MIB, 0, 0 };
		build(&model, &scene);
		assert_true(vt_growth_is_look(&growth, &model));
		assert_true(vt_growth_add(&growth, &model));
		vt_model_deinit(&model);
	}
	for (size_t i = 0; i < growth.sources.n; i++) {
		const struct vt_growth_source *place = &growth.sources.data[i];

		if (!strcmp(place->title->function, "leak"))
			growing = vt_growth_is_growing(&growth, place);
		else
			assert_false(vt_growth_is_growing(&growth, place));
	}
	assert_int_equal(vt_growth_most(&growth) != NULL, growing);

	size_t order[8];

	assert_true(growth.sources.n <= 8);
	assert_int_equal(vt_growth_order(&growth, order), growing);
	vt_growth_deinit(&growth);
	return growing;
}

#define GROWS(...) grows((const int[]){ __VA_ARGS__, -1 }, NULL)

static void test_rule(void **state)
{
	(void)state;
	assert_true(GROWS(1, 2, 3, 4, 5));
	assert_true(GROWS(0, 2, 4, 6, 8));                      /* first met after the first look */
	assert_true(GROWS(1, 3, 3, 5, 7, 9));                   /* most intervals */
	assert_true(GROWS(1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 5, 5)); /* slow, and never fell */
	assert_true(GROWS(1, 9, 17, 25, 24, 32));               /* gave back an eighth at most */
	assert_false(GROWS(1, 2, 3, 4));                        /* too few looks */
	assert_false(GROWS(5, 5, 5, 5, 5, 5));
	assert_false(GROWS(1, 30, 30, 30, 30, 30));     /* a jump */
	assert_false(GROWS(1, 2, 3, 4, 40, 41));        /* a jump, and little else */
	assert_false(GROWS(1, 4, 7, 1, 4, 7, 1, 4, 7)); /* saw-tooth */
	assert_false(GROWS(1, 4, 7, 10, 2, 5, 8, 11));  /* a long one */
	assert_false(GROWS(20, 15, 10, 5, 1));
	assert_false(GROWS(1, 5, 9, 13, 17, 0)); /* all given back */
	assert_false(GROWS(10, 9, 10, 9, 10, 9, 10));
}

/*
 * What was there before recording began is freed, and what takes its place is recorded: that is no
 * growth.
 */
static void test_replaced(void **state)
{
	static const int steady[] = { 0, 2, 4, 6, 8, 10, 12, 14, -1 },
			 goes[] = { 20, 18, 16, 14, 12, 10, 8, 6 };
	static const int later[] = { 20, 16, 16, 12, 12, 8, 8, 4 },
			 after[] = { 0, 0, 4, 4, 8, 8, 12, 12, -1 };
	static const int once[] = { 20, 1, 1, 1, 1, 1, 1, 1 };
	static const int leak[] = { 0, 4, 8, 12, 16, 20, 24, 28, -1 };

	(void)state;
	assert_false(grows(steady, goes));
	assert_false(grows(after, later));
	assert_true(grows(steady, once));
	assert_true(grows(leak, (const int[]){ 20, 19, 18, 17, 16, 15, 14, 13 }));
}

static void test_looks_that_do_not_count(void **state)
{
	struct vt_growth sites, sizes;
	struct vt_model model;

	(void)state;
	vt_growth_init(&sites, VT_GROWTH_BY_SITE);
	vt_growth_init(&sizes, VT_GROWTH_BY_SIZE);
	build(&model, &(struct scene){ .blocks = { { MIB, 0, 0 }, { MIB, 0, 0 } } });
	assert_false(vt_growth_is_look(&sites, &model));
	assert_true(vt_growth_is_look(&sizes, &model));
	assert_true(vt_growth_add(&sizes, &model));
	assert_int_equal(sizes.sources.n, 1);
	assert_int_equal(sizes.sources.data[0].size, MIB);
	assert_int_equal(sizes.sources.data[0].last.blocks, 2);
	vt_model_deinit(&model);
	build(&model,
	      &(struct scene){ .recorded = true, .inexact = true, .blocks = { { MIB, 0, 0 } } });
	assert_false(vt_growth_is_look(&sites, &model) || vt_growth_is_look(&sizes, &model));
	vt_model_deinit(&model);
	vt_growth_deinit(&sites);
	vt_growth_deinit(&sizes);
}

/* ---- owners ---- */

#define OWNER(what, its_variable, its_name)                                                \
	{                                                                                  \
		.category = VT_CATEGORY_##what, .variable = its_variable, .name = its_name \
	}

static void test_names_are_folded(void **state)
{
	static const struct {
		struct vt_model_owner owner;
		const char *variable, *path;
	} all[] = {
		{ OWNER(PYTHON, "losses", "losses[412]"), "losses", "losses[*]" },
		{ OWNER(ACTIVATION, "losses", "saved by A ← saved by B ← losses[3]"), "losses",
		  "losses[*]" },
		{ OWNER(FRAME, "self in fit (t.py:88)", "self.log[3]['loss'] in fit (t.py:88)"),
		  "self.log in fit (t.py)", "self.log[*]['loss'] in fit (t.py)" },
		{ OWNER(FRAME, "x in fit (t.py:88)", "x in fit (t.py:88)"), "x in fit (t.py)",
		  "x in fit (t.py)" },
		{ OWNER(PYTHON, "f", "x[0].y of a closure, kept by f[3]"),
		  "x of a closure, kept by f[*]", "x[*].y of a closure, kept by f[*]" },
		/* what only looks like the end of a name, and what does not end */
		{ OWNER(PYTHON, "answers", "answers['] in f (t.py:1)'].a in g (u.py:2)"),
		  "answers in g (u.py)", "answers['] in f (t.py)'].a in g (u.py)" },
		{ OWNER(PYTHON, "answers", "answers['cut…"), "answers", "answers['cut…" },
		{ OWNER(PYTHON, "globals()['a b']", "globals()['a b'][3].c"), "globals()['a b']",
		  "globals()['a b'][*].c" },
		{ OWNER(PYTHON, "a.b.c.d.e.f.g", "a.b.c.d.e.f.g.h[1]"), "a.b.c.d.e.f.g.h",
		  "a.b.c.d.e.f.g.h[*]" },
		{ OWNER(PYTHON, "head", "head.next.next.next.next.next.value"),
		  "head.next.next.next.next", "head.next.next.next.next.next.value" },
		{ OWNER(PARAMETER, "model in main (t.py:3)",
			"model.layers[3].weight in main (t.py:3)"),
		  "model in main (t.py)", "model.layers[*].weight in main (t.py)" },
		{ OWNER(UNKNOWN, "", ""), "", "" },
		{ OWNER(NATIVE, "", "something in native code"), "something in native code",
		  "something in native code" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct vt_keepers keepers;
		struct vt_model model;

		build(&model, &(struct scene){ .blocks = { { MIB, 0, 0 } },
					       .owners = &all[i].owner,
					       .n_owners = 1 });
		assert_true(vt_keepers_init(&keepers, &model));
		assert_int_equal(keepers.items.n, 1);
		assert_string_equal(keepers.items.data[0].variable, all[i].variable);
		assert_string_equal(keepers.items.data[0].path, all[i].path);
		assert_ptr_equal(vt_keepers_find(&keepers, all[i].variable,
						 (enum vt_category)all[i].owner.category),
				 &keepers.items.data[0]);
		vt_keepers_deinit(&keepers);
		vt_model_deinit(&model);
	}
}

/* One path of several is as exact as it can be. */
static void test_paths_are_merged(void **state)
{
	static const struct vt_model_owner owners[] = {
		OWNER(PYTHON, "log", "log[3]['loss']"),
		OWNER(PYTHON, "log", "log[4]['loss']"),
		OWNER(PYTHON, "log", "log[4]['accuracy']"),
		OWNER(PYTHON, "log", "log[4].x"),
	};
	static const char *const paths[] = { "log[*]['loss']", "log[*]['loss']", "log[*][*]", "" };

	(void)state;
	for (size_t n = 1; n <= 4; n++) {
		struct vt_keepers keepers;
		struct vt_model model;

		build(&model, &(struct scene){ .blocks = { { MIB, 0, 0 },
							   { MIB, 0, 0 },
							   { MIB, 0, 0 },
							   { MIB, 0, 0 } },
					       .owners = owners,
					       .n_owners = n });
		assert_true(vt_keepers_init(&keepers, &model));
		assert_int_equal(keepers.items.n, 1);
		assert_string_equal(keepers.items.data[0].path, paths[n - 1]);
		assert_int_equal(keepers.items.data[0].tensors, n);
		assert_false(keepers.items.data[0].certain);
		vt_keepers_deinit(&keepers);
		vt_model_deinit(&model);
	}
}

/* It grew in bytes: "from" and "to" are only told of more tensors. */
static void test_words_of_growth(void **state)
{
	static const struct {
		uint64_t before, after;
		const char *text;
	} all[] = {
		{ 12, 412, " grew from 12 to 412 tensors, +3.00 MiB" },
		{ 0, 1, " grew from 0 to 1 tensor, +3.00 MiB" },
		{ 12, 12, " grew by 3.00 MiB in 12 tensors" },
		{ 1, 1, " grew by 3.00 MiB in 1 tensor" },
		{ 20, 12, " grew by 3.00 MiB in 12 tensors (20 before)" },
		{ 0, 0, " grew by 3.00 MiB" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct vt_str text = { 0 };

		vt_keeper_add_growth(&text, all[i].before, all[i].after, 3 * (int64_t)MIB);
		assert_string_equal(vt_str_get(&text), all[i].text);
		vt_str_deinit(&text);
	}
}

/* A look at owners counts only when it has all of them, of one moment. */
static void test_looks_at_owners(void **state)
{
	static const struct vt_model_owner owner = OWNER(PYTHON, "losses", "losses[0]");
	struct vt_growth growth;
	struct vt_model model;

	(void)state;
	vt_growth_init(&growth, VT_GROWTH_BY_OWNER);
	build(&model,
	      &(struct scene){ .blocks = { { MIB, 0, 0 } }, .owners = &owner, .n_owners = 1 });
	assert_true(vt_growth_is_look(&growth, &model));
	model.owners.ran = true;
	assert_false(vt_growth_is_look(&growth, &model));
	model.owners.ran = false;
	model.owners.whole = false;
	assert_false(vt_growth_is_look(&growth, &model));
	model.owners.whole = true;
	model.owners.state = VT_OWNERS_OFF;
	assert_false(vt_growth_is_look(&growth, &model));
	vt_model_deinit(&model);
	vt_growth_deinit(&growth);
}

/* ---- lines of the ledger ---- */

struct line_look {
	int raw, pool; /* MiB */
	bool not_whole, unknown, after_fault, pools_unknown;
};

static void build_ledger(struct vt_model *model, const struct line_look *look)
{
	struct vt_model_ledger_device *d;

	vt_model_init(model);
	d = report_add_ledger(model, 0);
	d->claims_known = !look->unknown;
	d->kinds[VT_RANGE_DEVICE] =
		(struct vt_model_line){ .bytes = (uint64_t)look->raw * MIB, .ranges = 1 };
	d->kinds[VT_RANGE_POOL] = (struct vt_model_line){ .bytes = (uint64_t)look->pool * MIB };
	model->ledger.whole = !look->not_whole;
	model->ledger.by_attributes = look->after_fault;
	model->ledger.pools_asked = !look->pools_unknown;
}

/* Which lines grow, as the code of the largest ("" none); the others must not. */
static const char *line_that_grows(const struct line_look *looks, size_t n, char name[64])
{
	struct vt_growth growth;
	struct vt_model model;
	size_t order[VT_N_LINES];

	name[0] = 0;
	vt_growth_init(&growth, VT_GROWTH_BY_LINE);
	for (size_t i = 0; i < n; i++) {
		bool counts = !looks[i].not_whole && !looks[i].unknown && !looks[i].after_fault;

		build_ledger(&model, &looks[i]);
		assert_int_equal(vt_growth_is_look(&growth, &model), counts);
		if (counts)
			assert_true(vt_growth_add(&growth, &model));
		vt_model_deinit(&model);
	}
	assert_true(growth.sources.n <= VT_N_LINES);
	if (vt_growth_order(&growth, order)) {
		struct vt_str text = { 0 };

		assert_int_equal(vt_growth_order(&growth, order), 1);
		vt_line_add_name(&text, growth.sources.data[order[0]].line);
		snprintf(name, 64, "%s", vt_str_get(&text));
		vt_str_deinit(&text);
	}
	vt_growth_deinit(&growth);
	return name;
}

#define LINE(...)                                                           \
	line_that_grows((const struct line_look[]){ __VA_ARGS__ },          \
			sizeof((const struct line_look[]){ __VA_ARGS__ }) / \
				sizeof(struct line_look),                   \
			name)

static void test_lines(void **state)
{
	char name[64];

	(void)state;
	assert_string_equal(LINE({ 1 }, { 2 }, { 3 }, { 4 }), "");
	assert_string_equal(LINE({ 1 }, { 2 }, { 3 }, { 4 }, { 5 }), "device_memory");
	assert_string_equal(LINE({ 5 }, { 5 }, { 5 }, { 5 }, { 5 }, { 5 }), "");
	assert_string_equal(LINE({ 1 }, { 9 }, { 1 }, { 9 }, { 1 }, { 9 }), "");
	assert_string_equal(LINE({ 1 }, { 99 }, { 99 }, { 99 }, { 99 }), "");
	assert_string_equal(LINE({ 0, 1 }, { 0, 2 }, { 0, 3 }, { 0, 4 }, { 0, 5 }), "pool");
	/* It fills up, and then stays. */
	assert_string_equal(LINE({ 1 }, { 2 }, { 3 }, { 4 }, { 5 }, { 6 }, { 6 }, { 6 }, { 6 }),
			    "");
	/* What is not known is neither 0 nor a look. */
	assert_string_equal(LINE({ 0, 1 }, { 0, 2 }, { 0, 0, .pools_unknown = true }, { 0, 3 },
				 { 0, 4 }, { 0, 5 }),
			    "pool");
	assert_string_equal(
		LINE({ 0, 1 }, { 0, 9, .pools_unknown = true }, { 0, 2 }, { 0, 3 }, { 0, 4 }), "");
	assert_string_equal(LINE({ 1 }, { 2 }, { 0, .unknown = true }, { 0, .not_whole = true },
				 { 0, .after_fault = true }, { 3 }, { 4 }, { 5 }),
			    "device_memory");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_growth_by_site),
		cmocka_unit_test(test_ages_tell_survivors),
		cmocka_unit_test(test_without_ages_survivors_are_possible),
		cmocka_unit_test(test_recording_began_in_between),
		cmocka_unit_test(test_recording_began_anew),
		cmocka_unit_test(test_what_is_inexact_is_not_compared),
		cmocka_unit_test(test_two_processes),
		cmocka_unit_test(test_every_model_with_every_other),
		cmocka_unit_test(test_older_replaced),
		cmocka_unit_test(test_rule),
		cmocka_unit_test(test_replaced),
		cmocka_unit_test(test_looks_that_do_not_count),
		cmocka_unit_test(test_names_are_folded),
		cmocka_unit_test(test_paths_are_merged),
		cmocka_unit_test(test_words_of_growth),
		cmocka_unit_test(test_looks_at_owners),
		cmocka_unit_test(test_lines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
