/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "base/str.h"
#include "walk/native/demangle.h"

static void check(const char *symbol, const char *want)
{
	struct vt_arena arena = { 0 };
	const char *got = vt_demangle(&arena, symbol, strlen(symbol));

	assert_non_null(got);
	assert_string_equal(got, want);
	vt_arena_deinit(&arena);
}

static void test_names(void **state)
{
	static const struct {
		const char *symbol, *want;
	} names[] = {
		/* plain, with versions and clones */
		{ "poll", "poll" },
		{ "poll@@GLIBC_2.2.5", "poll" },
		{ "memcpy@GLIBC_2.14", "memcpy" },
		{ "_PyEval_EvalFrameDefault.constprop.0.cold", "_PyEval_EvalFrameDefault" },
		{ "msort_with_tmp.part.0", "msort_with_tmp" },
		{ "f.lto_priv.0", "f" },
		{ "go.runtime.main", "go.runtime.main" },
		{ ".cold", ".cold" },
		{ "@x", "@x" },
		{ "_start", "_start" },
		{ "_Z", "_Z" },
		{ "_Znot_mangled", "_Znot_mangled" },
		{ "", "" },
		/* C++: parameters and return types go, the rest stays */
		{ "_ZN5torch8autograd6Engine11thread_initEiRKSt10shared_ptrINS0_10ReadyQueueEEb",
		  "torch::autograd::Engine::thread_init" },
		{ "_ZN12_GLOBAL__N_13fooEi", "(anonymous namespace)::foo" },
		{ "_ZNK3foo3barEv.cold", "foo::bar" },
		{ "_Znwm", "operator new" },
		{ "_ZN3foocvSt6vectorIiSaIiEEEv", "foo::operator std::vector<...>" },
		{ "_ZN3foolsIiEEvT_", "foo::operator<<<int>" },
		{ "_ZN3fooltIiEEvT_", "foo::operator<<int>" },
		{ "_ZN3fooclEi", "foo::operator()" },
		{ "_ZNK3fooptEv", "foo::operator->" },
		{ "_ZThn16_N3foo3barEv", "foo::bar" },
		{ "_ZThn16_N3fooclEv", "foo::operator()" },
		{ "_ZTV3foo", "vtable for foo" },
		{ "_ZN3fooB5cxx11Ev", "foo" },
		{ "_ZN3fooIiE3barIdEEvv", "foo<int>::bar<double>" },
		/* long template arguments are cut, also where "->" and operators are inside */
		{ "_ZNSt6thread11_State_implINS_8_InvokerISt5tupleIJMN5torch8autograd6EngineEFviRKSt10shared_ptrINS4_"
		  "10ReadyQueueEEbEPS5_iS8_bEEEEE6_M_runEv",
		  "std::thread::_State_impl<...>::_M_run" },
		/* enclosing functions lose their parameters and return types, lambdas theirs */
		{ "_ZZN2at12parallel_forIZNS_6native12_GLOBAL__N_1L10vec_kernelERKNS_6TensorEEUlllE_EEvlllRKT_ENKUlllE_"
		  "clEll",
		  "at::parallel_for<...>()::{lambda#1}::operator()" },
		{ "_ZZ4mainENKUlvE0_clEv", "main::{lambda#2}::operator()" },
		/* Rust, both manglings */
		{ "_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write" },
		{ "_RNvCs1234_7mycrate3foo", "mycrate::foo" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		check(names[i].symbol, names[i].want);
}

/* Each level doubles the output: 60 of them would be 2^60 bytes. */
static void test_exponential(void **state)
{
	struct vt_str symbol = { 0 };
	struct vt_arena arena = { 0 };
	static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";

	(void)state;
	vt_str_add(&symbol, "_Z1fSt4pairIiiE");
	for (int i = 0; i < 35; i++)
		vt_str_addf(&symbol, "S_IS%c_S%c_E", digits[i], digits[i]);

	const char *got = vt_demangle(&arena, vt_str_get(&symbol), symbol.n);

	assert_non_null(got);
	assert_true(strlen(got) <= 600);
	vt_str_deinit(&symbol);

	/*
	 * As an enclosing function's parameters, which are printed even when the outermost ones are
	 * not.
	 */
	vt_str_add(&symbol, "_ZZ1fSt4pairIiiE");
	for (int i = 0; i < 35; i++)
		vt_str_addf(&symbol, "S_IS%c_S%c_E", digits[i], digits[i]);
	vt_str_add(&symbol, "ENKUlvE_clEv");
	got = vt_demangle(&arena, vt_str_get(&symbol), symbol.n);
	assert_non_null(got);
	assert_true(strlen(got) <= 600);
	vt_str_deinit(&symbol);
	vt_arena_deinit(&arena);
}

static void test_long_and_nested(void **state)
{
	struct vt_arena arena = { 0 };
	size_t n = 200000;
	char *symbol = malloc(n + 1);

	(void)state;
	assert_non_null(symbol);
	/* a very long plain name is cut, a very deeply nested one does not overflow the stack */
	memset(symbol, 'a', n);
	symbol[n] = '\0';
	assert_true(strlen(vt_demangle(&arena, symbol, n)) <= 512);
	memcpy(symbol, "_Z1f", 4);
	memset(symbol + 4, 'P', n - 4);
	assert_true(strlen(vt_demangle(&arena, symbol, n)) <= 512);
	assert_true(strlen(vt_demangle(&arena, symbol, 8000)) <= 512);
	memcpy(symbol, "_R", 2);
	assert_true(strlen(vt_demangle(&arena, symbol, 8000)) <= 512);
	/* brackets that never close */
	memset(symbol, '<', n);
	memcpy(symbol, "_Z", 2);
	assert_non_null(vt_demangle(&arena, symbol, n));
	free(symbol);
	vt_arena_deinit(&arena);
}

/* Symbols that end right before an unmapped page, cut anywhere, with bytes changed. */
static void test_hostile(void **state)
{
	static const char *const seeds[] = {
		("_ZNSt6thread11_State_implINS_8_InvokerISt5tupleIJMN5torch8autograd6EngineEFviRKSt10shared_ptrINS4_"
		 "10ReadyQueueEEbEPS5_iS8_bEEEEE6_M_runEv"),
		"_ZZN2at12parallel_forIZNS_6native12_GLOBAL__N_1L10vec_kernelERKNS_6TensorEEUlllE_EEvlllRKT_ENKUlllE_"
		"clEll",
		"_RNvMsr_NtCs3ssYzQotkvD_3std4pathNtB5_7PathBuf3newCs15kBYyAo9fc_7mycrate",
		"_ZN4core3fmt5write17h0123456789abcdefE",
		"malloc.constprop.0@@GLIBC_2.2.5",
	};
	size_t page = 4096;
	char *p = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_ptr_not_equal(p, MAP_FAILED);
	assert_int_equal(mprotect(p + page, page, PROT_NONE), 0);
	srand(1);
	for (size_t i = 0; i < sizeof(seeds) / sizeof(seeds[0]); i++) {
		struct vt_arena arena = { 0 };

		for (int round = 0; round < 2000; round++) {
			size_t n = strlen(seeds[i]);
			char *symbol;

			if (round % 2)
				n = (size_t)rand() % (n + 1);
			symbol = p + page - n;
			memcpy(symbol, seeds[i], n);
			for (int k = 0; n > 0 && k < round % 5; k++)
				symbol[(size_t)rand() % n] = (char)(rand() % 255 + 1);
			assert_non_null(vt_demangle(&arena, symbol, n));
		}
		vt_arena_deinit(&arena);
	}
	munmap(p, 2 * page);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_exponential),
		cmocka_unit_test(test_long_and_nested),
		cmocka_unit_test(test_hostile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
