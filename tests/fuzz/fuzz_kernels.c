/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What cuda-gdb says, damaged: reading it comes to an end, what is read holds together, and it can
 * be shown and written.
 */
#include <string.h>

#include "fuzz.h"
#include "kernels/kernels.h"
#include "model/model.h"
#include "report/writer.h"

/* The form of cuda-gdb 13.0 (tests/unit/kernels has whole answers), and of other columns. */
static const char *const seeds[] = {
	"Thread 1 \"python3\" stopped.\n"
	"@@ devices\n  Dev PCI Bus/Dev ID Name\n*   0 00:06.0 NVIDIA H100\n"
	"@@ kernels\n"
	"  Kernel Parent Dev Grid Status SMs Mask GridDim BlockDim Invocation\n"
	"       1 - 0 2 Active 0x001 (1,1,1) (32,1,1) spin_until()\n"
	"*      0 0 0 3 Active 0xfff (500,1,1) (256,1,1) at::f<(int)3, g(long)>(int)(n=3)\n"
	"@@ kernel 0\nCUDA focus unchanged.\n"
	"#0  0x00007f18637ad1c0 in f<<<(500,1,1),(256,1,1)>>> () at a.cu:8\n"
	"Line 8 of \"a.cu\" starts at address 0x7f18637ad1b0 <f+176> and ends at 0x7f18 <f+256>.\n"
	"@@ kernel 1\n[Switching focus to CUDA kernel 1, grid 2, block (0,0,0)]\n"
	"#0  0x00007f18637ad1c0 in spin_until<<<(1,1,1),(32,1,1)>>> ()\n"
	"No line number information available for address 0x7f18637ad1c0 <spin_until+192>\n"
	"@@ threads\n"
	"  BlockIdx ThreadIdx To BlockIdx ThreadIdx Count PC Filename Line\nKernel 0\n"
	"* (0,0,0) (0,0,0) (0,0,0) (31,0,0) 32 0x00007f18637ad1b0 /tmp/a b.cu 8\n"
	"  (0,0,0) (32,0,0) (0,0,0) (63,0,0) 32 0x00007f18637ad220 0\n"
	"[Inferior 1 (process 676) detached]\n",
	"  Dev PCI Bus/Dev ID\nNo CUDA kernels.\n[Inferior 1 (process 1) detached]\n",
	("CUDA Exception: Warp Illegal Address\n"
	 "Thread 1 \"x\" received signal CUDA_EXCEPTION_14, Warp Illegal Address.\n"),
	"ptrace: Operation not permitted.\nFatal signal: Aborted\n",
};

size_t fuzz_seed(unsigned int number, uint8_t *data, size_t max)
{
	return fuzz_seed_of(seeds, sizeof(seeds) / sizeof(seeds[0]), number, data, max);
}

static void check_kernels(const struct vt_model_kernels *kernels)
{
	size_t places = 0;

	fuzz_check(kernels->kernels.n <= VT_KERNELS_MAX, "too many");
	fuzz_check(kernels->raised.n <= VT_KERNELS_MAX_RAISED, "too many exceptions");
	fuzz_check((kernels->kernels.n > 0) == (kernels->state == VT_KERNELS_TOLD), "state");
	for (size_t i = 0; i < kernels->kernels.n; i++) {
		const struct vt_model_kernel *k = &kernels->kernels.data[i];
		uint64_t threads = 0;

		fuzz_check(k->name && k->status && k->n_places <= VT_KERNELS_MAX_PLACES, "kernel");
		for (size_t j = 0; j < k->n_places; j++) {
			const struct vt_model_kernel_place *place =
				&kernels->places.data[k->first_place + j];

			fuzz_check(k->first_place + j < kernels->places.n, "place");
			fuzz_check(place->kernel == i, "of another kernel");
			threads += place->threads;
		}
		fuzz_check(threads <= k->threads, "more threads than all");
		places += k->n_places;
	}
	fuzz_check(places == kernels->places.n, "places of no kernel");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct vt_writer_options options = { .columns = 80 };
	struct vt_model model;
	FILE *null = fopen("/dev/null", "we");

	if (!null)
		exit(1);
	vt_model_init(&model);
	model.tool_version = "";
	model.kernels.debugger = "cuda-gdb";
	fuzz_check(vt_kernels_parse(&model.kernels, &model.arena, (const char *)data, size, false),
		   "out of memory");
	check_kernels(&model.kernels);
	fuzz_check(vt_model_account(&model), "not accounted");
	fuzz_check(!vt_write_report_text(&model, &options, null), "no text");
	fuzz_check(!vt_write_report_json(&model, &options, null), "no JSON");
	vt_model_deinit(&model);
	fclose(null);
	return 0;
}
