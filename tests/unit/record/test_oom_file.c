/* SPDX-License-Identifier: Apache-2.0 */
/* Names of the files for out-of-memory errors, and that none is ever overwritten. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "model/model.h"
#include "record/oom_file.h"
#include "report/save.h"

#define WHEN 1795200432 /* 2026-11-20T18:47:12Z */

static char directory[64];

static int make_directory(void **state)
{
	(void)state;
	strcpy(directory, "/tmp/vramtap-test-XXXXXX");
	return mkdtemp(directory) && !chdir(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", directory);
	return chdir("/") || system(command) ? -1 : 0;
}

/* The name that a report is saved under. */
static void check_name(const char *pattern, bool add_pid, const char *expected)
{
	const struct vt_oom_file file = { .pattern = pattern, .pid = 4711, .add_pid = add_pid };
	struct vt_oom_saved saved = { 0 };
	struct vt_model model;
	struct stat st;

	vt_model_init(&model);
	model.when.tv_sec = WHEN;
	assert_null(vt_oom_save(&file, &model, &saved));
	assert_null(saved.instead);
	assert_string_equal(saved.json, expected);
	assert_int_equal(stat(expected, &st), 0);
	assert_true(st.st_size > 100 || !S_ISREG(st.st_mode));
	vt_oom_saved_deinit(&saved);
	vt_model_deinit(&model);
}

static void test_names(void **state)
{
	char host[256], name[512];

	(void)state;
	assert_int_equal(gethostname(host, sizeof(host)), 0);
	check_name("oom.json", false, "oom.json");
	check_name("oom.json", false, "oom-2.json");
	check_name("oom.json", false, "oom-3.json");
	check_name("oom.json", true, "oom-4711.json");
	check_name("oom.json", true, "oom-4711-2.json");
	check_name("oom", true, "oom-4711");
	check_name("oom", true, "oom-4711-2");
	check_name(".json", true, ".json-4711");
	check_name("%p %t%%", true, "4711 20261120T184712Z%");
	check_name("/dev/null", true, "/dev/null");
	check_name("/dev/null", true, "/dev/null");
	/* This machine's name has nothing that would be replaced, or the test says so. */
	if (strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") ==
	    strlen(host)) {
		snprintf(name, sizeof(name), "./vramtap-oom-%s-4711-20261120T184712Z.json", host);
		check_name(".", true, name);
		snprintf(name, sizeof(name), "./vramtap-oom-%s-4711-20261120T184712Z-2.json", host);
		check_name(".", true, name);
	}
}

static void test_patterns(void **state)
{
	static const struct {
		const char *pattern;
		bool valid, has_pid;
	} cases[] = {
		{ "", true, false },      { "oom.json", true, false }, { "%p", true, true },
		{ "%%p", true, false },   { "%%%p", true, true },      { "%h%t", true, false },
		{ "100%", false, false }, { "%x", false, false },      { "%%%", false, false },
		{ "%s%n", false, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(vt_oom_pattern_is_valid(cases[i].pattern), cases[i].valid);
		assert_int_equal(vt_oom_pattern_has_pid(cases[i].pattern), cases[i].has_pid);
	}
}

/* A link that leads nowhere is something, too; and nothing is left beside. */
static void test_never_overwrites(void **state)
{
	struct vt_error *err;
	struct vt_model model;
	struct stat st;

	(void)state;
	vt_model_init(&model);
	assert_int_equal(symlink("/nowhere/at/all", "link.json"), 0);
	err = vt_save_new(vt_write_report_json, &model, &(struct vt_writer_options){ 0 },
			  "link.json");
	assert_non_null(err);
	assert_int_equal(err->errnum, EEXIST);
	vt_error_destroy(err);
	check_name("link.json", false, "link-2.json");
	assert_int_equal(mkdir("closed", 0700), 0);
	err = vt_save_new(vt_write_report_json, &model, &(struct vt_writer_options){ 0 },
			  "closed/none/oom.json");
	assert_non_null(err);
	assert_int_equal(err->errnum, ENOENT);
	vt_error_destroy(err);
	assert_int_equal(rmdir("closed"), 0);
	assert_int_equal(lstat("link.json", &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	vt_model_deinit(&model);
}

static void test_said_before(void **state)
{
	(void)state;
	assert_null(vt_oom_pattern_check("oom.json"));
	assert_null(vt_oom_pattern_check("/dev/null"));
	assert_null(vt_oom_pattern_check("/tmp"));

	VT_ERROR struct vt_error *err = vt_oom_pattern_check("/none/oom.json");

	assert_non_null(err);
	assert_int_equal(err->errnum, ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_patterns),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_never_overwrites),
		cmocka_unit_test(test_said_before),
	};

	return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
