/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owners by a pattern, against fnmatch(); names that are near; sums by module, variable and type,
 * which are all blocks whatever their names are.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/owners_by.h"
#include "model/owners_match.h"

enum { ROUNDS = 200000, MAX_TEXT = 12, MAX_OWNERS = 300 };

static struct vt_model_owner with_name(const char *name)
{
	return (struct vt_model_owner){
		.name = name,
		.variable = "",
		.module = "",
		.type = "",
		.category = VT_CATEGORY_GRADIENT,
	};
}

static void random_text(char text[MAX_TEXT + 1], const char *letters)
{
	size_t n = (size_t)random() % MAX_TEXT;

	for (size_t i = 0; i < n; i++)
		text[i] = letters[(size_t)random() % strlen(letters)];
	text[n] = '\0';
}

/* For fnmatch(): brackets are themselves, and what has only "[*]" may be anywhere, if not wild. */
static void as_glob(const char *pattern, bool wild, char glob[4 * MAX_TEXT])
{
	char *to = glob + 1;

	glob[0] = '*';
	for (const char *p = pattern; *p; p++) {
		bool index = *p == '*' && p > pattern && p[-1] == '[' && p[1] == ']';

		wild |= (*p == '*' && !index) || *p == '?';
		if (*p == '[' || *p == ']')
			*to++ = '\\';
		*to++ = *p;
	}
	if (wild)
		memmove(glob, glob + 1, (size_t)(to-- - glob));
	else
		*to++ = '*';
	*to = '\0';
}

static void test_patterns(void **state)
{
	size_t matched = 0;

	(void)state;
	srandom(1);
	for (int i = 0; i < ROUNDS; i++) {
		char text[MAX_TEXT + 1], pattern[MAX_TEXT + 1], glob[4 * MAX_TEXT];
		struct vt_model_owner owner;
		bool want;

		random_text(text, "ab[1]");
		random_text(pattern, "ab[*]?");
		if (!*pattern || !*text)
			continue;
		as_glob(pattern, false, glob);
		want = fnmatch(glob, text, 0) == 0;
		as_glob(pattern, true, glob);
		want |= fnmatch(glob, "gradient", 0) == 0;
		owner = with_name(text);
		if (vt_owner_matches(&owner, pattern) != want)
			fail_msg("\"%s\" and \"%s\": not %d", pattern, text, want);
		matched += want;
	}
	assert_true(matched > ROUNDS / 20);
	assert_true(matched < ROUNDS - ROUNDS / 20);
}

static void test_other_words(void **state)
{
	struct vt_model_owner owner = with_name("loss");

	(void)state;
	owner.module = "model.head";
	owner.variable = "variable in f (f.py:3)";
	owner.type = "DynamicCache";
	assert_true(vt_owner_matches(&owner, "head"));
	assert_true(vt_owner_matches(&owner, "f.py:3"));
	assert_true(vt_owner_matches(&owner, "Dynamic"));
	assert_true(vt_owner_matches(&owner, "gradient"));
	assert_true(vt_owner_matches(&owner, "grad*"));
	assert_false(vt_owner_matches(&owner, "grad")); /* a category only as a whole */
	assert_false(vt_owner_matches(&owner, "Loss"));
}

static void test_near(void **state)
{
	static const char *const all[] = { "losses", "losses[3]", "optimizer", "", "loss", "x" };
	const char *names[VT_OWNERS_NEAREST];
	struct vt_model model = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct vt_model_owner *owner = vt_vec_append(&model.owners.items);

		assert_non_null(owner);
		*owner = with_name(all[i]);
	}
	assert_int_equal(vt_owners_nearest(&model, "LOZSES", names), 3);
	assert_string_equal(names[0], "losses");
	assert_string_equal(names[1], "losses[3]");
	assert_string_equal(names[2], "loss");
	assert_int_equal(vt_owners_nearest(&model, "%%%%%%", names), 0);
	vt_vec_deinit(&model.owners.items);
}

/* ---- sums ---- */

static void make(struct vt_model *model, unsigned int seed, char (*names)[64])
{
	srandom(seed);
	vt_model_init(model);
	model->n_blocks = 1 + (size_t)random() % MAX_OWNERS;
	model->blocks = calloc(model->n_blocks, sizeof(*model->blocks));
	assert_non_null(model->blocks);
	for (size_t i = 0; i < model->n_blocks; i++) {
		struct vt_model_owner *owner = vt_vec_append(&model->owners.items);
		int parts = (int)random() % 5;

		assert_non_null(owner);
		model->blocks[i].size = 512 * (1 + (uint64_t)random() % 1000);
		names[i][0] = '\0';
		for (int part = 0; part < parts; part++)
			snprintf(names[i] + strlen(names[i]), 64 - strlen(names[i]), "%s%c[%ld]",
				 part ? "." : "", (int)('a' + random() % 4), random() % 12);
		*owner = with_name("");
		owner->block = (uint32_t)i;
		owner->certain = random() % 2;
		owner->module = owner->variable = owner->type = names[i];
	}
}

/* Each group is of the blocks whose folded module begins with its name, if no longer name is. */
static void check_sums(const struct vt_model *model, const struct vt_owners_groups *groups)
{
	uint64_t bytes = 0, want = 0, blocks = 0, members = 0;

	for (size_t i = 0; i < groups->groups.n; i++) {
		const struct vt_owners_group *group = &groups->groups.data[i];

		assert_true(!i || group->bytes <= groups->groups.data[i - 1].bytes);
		assert_true(group->certain_bytes <= group->bytes);
		assert_true(group->members >= 1 && group->members <= group->blocks);
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(group->name, groups->groups.data[k].name);
		bytes += group->bytes;
		blocks += group->blocks;
		members += group->members;
	}
	for (size_t i = 0; i < model->n_blocks; i++)
		want += model->blocks[i].size;
	assert_true(bytes == want);
	assert_int_equal(blocks, model->n_blocks);
	assert_true(members <= model->n_blocks);
}

static void test_sums(void **state)
{
	static char names[MAX_OWNERS][64];

	(void)state;
	for (unsigned int seed = 0; seed < 300; seed++) {
		struct vt_model model;
		size_t all = 0;

		make(&model, seed, names);
		for (int by = 0; by < VT_N_BY; by++) {
			for (size_t max = 0; max < 40; max = 2 * max + 1) {
				struct vt_owners_groups groups;

				assert_true(vt_owners_groups_init(&groups, &model,
								  (enum vt_owners_by)by, max));
				check_sums(&model, &groups);
				if (by == VT_BY_MODULE && !max)
					all = groups.groups.n;
				/* One for each of a to d at the top, and one for those without. */
				if (by == VT_BY_MODULE && max >= 5)
					assert_true(groups.groups.n <= max);
				if (by == VT_BY_MODULE && max >= all)
					assert_int_equal(groups.groups.n, all);
				vt_owners_groups_deinit(&groups);
			}
		}
		free(model.blocks);
		model.blocks = NULL;
		vt_model_deinit(&model);
	}
}

static void test_indices_are_one(void **state)
{
	static const char *const modules[] = { "m.layers[0].mlp", "m.layers[11].mlp",
					       "m.layers[x].mlp", "m.layers[].mlp",
					       "d['a.0'].b[2]" };
	struct vt_block_rec blocks[5] = {
		{ .size = 1 }, { .size = 2 }, { .size = 4 }, { .size = 8 }, { .size = 16 }
	};
	struct vt_model model = { .blocks = blocks, .n_blocks = 5 };
	struct vt_owners_groups groups;

	(void)state;
	for (uint32_t i = 0; i < 5; i++) {
		struct vt_model_owner *owner = vt_vec_append(&model.owners.items);

		assert_non_null(owner);
		*owner = with_name("");
		owner->block = i;
		owner->module = modules[i];
	}
	assert_true(vt_owners_groups_init(&groups, &model, VT_BY_MODULE, 0));
	assert_int_equal(groups.groups.n, 4);
	assert_string_equal(groups.groups.data[0].name, "d['a.0'].b[*]");
	assert_string_equal(groups.groups.data[3].name, "m.layers[*].mlp");
	assert_int_equal(groups.groups.data[3].members, 2);
	assert_true(groups.groups.data[3].bytes == 3);
	vt_owners_groups_deinit(&groups);
	assert_true(vt_owners_groups_init(&groups, &model, VT_BY_MODULE, 2));
	assert_string_equal(groups.groups.data[1].name, "m");
	assert_int_equal(groups.groups.data[1].members, 4);
	vt_owners_groups_deinit(&groups);
	vt_vec_deinit(&model.owners.items);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_patterns),
		cmocka_unit_test(test_other_words),
		cmocka_unit_test(test_near),
		cmocka_unit_test(test_sums),
		cmocka_unit_test(test_indices_are_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
