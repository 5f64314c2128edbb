/* SPDX-License-Identifier: Apache-2.0 */
/* Our own variables. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "target/maps.h"
#include "walk/native/variables.h"

static uint64_t in_data[10] = { 1 };
static char in_bss[300];
extern uint64_t seen_by_all[4];
uint64_t seen_by_all[4] = { 4 };

struct self {
	struct vt_maps maps;
	struct vt_modules modules;
	struct vt_arena arena;
	uint64_t start, libc;
};

static void succeed(struct vt_error *err)
{
	if (err)
		fail_msg("%s", err->message);
}

static int setup(void **state)
{
	static struct self self;

	self = (struct self){ 0 };
	succeed(vt_maps_init(&self.maps, getpid()));
	succeed(vt_modules_init(&self.modules, getpid(), &self.maps));
	self.start = vt_modules_find(&self.modules, (uintptr_t)setup)->start;
	self.libc = vt_modules_find(&self.modules, (uintptr_t)&getpid)->start;
	*state = &self;
	return 0;
}

static int teardown(void **state)
{
	struct self *self = *state;

	vt_arena_deinit(&self->arena);
	vt_modules_deinit(&self->modules);
	vt_maps_deinit(&self->maps);
	return 0;
}

static void variables_have_names_and_offsets(void **state)
{
	static char local[50];
	struct self *self = *state;
	struct vt_native_variable v[] = {
		{ .addr = (uintptr_t)&local[49], .module_start = self->start },
		{ .addr = (uintptr_t)&in_bss[299], .module_start = self->start },
		{ .addr = (uintptr_t)&stdout, .module_start = 0 },
		{ .addr = (uintptr_t)&in_data[3], .module_start = self->start },
		{ .addr = (uintptr_t)&seen_by_all[0], .module_start = self->start },
	};

	succeed(vt_native_variables(&self->modules, v, 5, &self->arena));
	assert_non_null(v[0].name);
	assert_int_equal(v[0].offset, 49);
	/* gcc appends a number, clang puts the function before it */
	assert_non_null(strstr(v[0].symbol, "local"));
	assert_string_equal(v[1].name, "in_bss");
	assert_int_equal(v[1].offset, 299);
	assert_null(v[2].module);
	assert_null(v[2].name);
	assert_string_equal(v[3].name, "in_data");
	assert_int_equal(v[3].offset, 24);
	assert_int_equal(v[3].module->start, self->start);
	assert_int_equal(v[3].module_offset, (uintptr_t)&in_data[3] - v[3].module->bias);
	assert_string_equal(v[4].name, "seen_by_all");
	assert_int_equal(v[4].offset, 0);
}

static void code_and_what_no_symbol_has_are_no_variables(void **state)
{
	struct self *self = *state;
	struct vt_native_variable v[] = {
		{ .addr = (uintptr_t)setup, .module_start = self->start },
		{ .addr = self->start + 1, .module_start = self->start },
		{ .addr = self->start + (1 << 30), .module_start = self->start },
	};

	succeed(vt_native_variables(&self->modules, v, 3, &self->arena));
	for (size_t i = 0; i < 3; i++) {
		assert_non_null(v[i].module);
		assert_null(v[i].name);
	}
}

/* Its own symbols may be stripped: stderr is in .dynsym, too. */
static void a_library_has_at_least_dynamic_symbols(void **state)
{
	struct self *self = *state;
	uint64_t addr = vt_modules_symbol(&self->modules, "libc.so", "_IO_2_1_stderr_");
	struct vt_native_variable v = { .addr = addr + 8, .module_start = self->libc };

	assert_int_not_equal(addr, 0);
	succeed(vt_native_variables(&self->modules, &v, 1, &self->arena));
	assert_non_null(v.symbol);
	assert_memory_equal(v.symbol, "_IO_2_1_stderr_", 15);
	assert_int_equal(v.offset, 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(variables_have_names_and_offsets),
		TEST(code_and_what_no_symbol_has_are_no_variables),
		TEST(a_library_has_at_least_dynamic_symbols),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
