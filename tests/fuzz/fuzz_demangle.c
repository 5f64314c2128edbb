/* SPDX-License-Identifier: Apache-2.0 */
/* Names of symbols, which a library may choose freely: the readable form ends, and is bounded. */
#include "base/arena.h"
#include "fuzz.h"
#include "walk/native/demangle.h"

/* A name of a few bytes must not become one of megabytes. */
#define MOST (64u << 10)

static const char *const seeds[] = {
	"_ZN3c104cuda20CUDACachingAllocator6Native22DeviceCachingAllocator6mallocEamP11CUstream_st",
	"_ZN2at6native27unrolled_elementwise_kernelIZZNS0_1fERKNS_6TensorEENKUlvE_clEvEUliE_Li4EEEviT_T0_",
	"_ZNSt6vectorIiSaIiEE9push_backEOi.part.0.cold",
	"_ZZN5torch8autograd6Engine7executeEvENKUlvE_clEv",
	"_ZTVN10__cxxabiv120__si_class_type_infoE",
	"_ZTS1A",
	"_ZThn16_N1A1fEv",
	"_ZGVZ1fvE1x",
	"_ZN4core3ptr85drop_in_place$LT$std..rt..lang_start$LT$$LP$$RP$$GT$..$u7b$$u7b$closure$u7d$$u7d$$GT$17h0123456789abcdefE",
	"_RNvCs1234_7mycrate3foo",
	"_RINvNtC3std3mem8align_ofjdE",
	"_RNvMs_NtCs4321_5alloc3vecINtB4_3VechE4push",
	"cudaLaunchKernel@@libcudart.so.13",
	"memcpy@GLIBC_2.14",
	"_Z4funcILi3EEvPFvvEDpT_",
	"_ZN1AIXadL_Z1fvEEE1gEv",
	"_ZplRK1AS1_",
	"_ZNK1AcvbEv",
	"_Z1fDv4_fU8__vectorPKc",
};

static void check(const char *name, size_t n, struct vt_arena *arena,
		  const char *(*demangle)(struct vt_arena *arena, const char *symbol, size_t n))
{
	const char *shown = demangle(arena, name, n);

	fuzz_check(shown, "no memory");
	fuzz_check(strlen(shown) <= MOST, "%zu bytes became %zu", n, strlen(shown));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct vt_arena arena = { 0 };
	const char *name = size ? (const char *)data : "";
	size_t n = strnlen(name, size);

	check(name, n, &arena, vt_demangle);
	check(name, n, &arena, vt_demangle_whole);
	vt_arena_deinit(&arena);
	return 0;
}

size_t fuzz_seed(unsigned int number, uint8_t *data, size_t max)
{
	return fuzz_seed_of(seeds, sizeof(seeds) / sizeof(seeds[0]), number, data, max);
}
