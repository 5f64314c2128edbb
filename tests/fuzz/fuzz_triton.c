/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of Triton's cache, damaged: a place is only read where the file has it and the function.
 * And environments: every path that is made of one ends, and is one of few.
 */
#include <limits.h>
#include <string.h>

#include "fuzz.h"
#include "kernels/triton.h"

#define NAME "triton_poi_fused_add_0"
#define LOCATION "#loc = loc("

size_t fuzz_seed(unsigned int number, uint8_t *data, size_t max)
{
	static const char *const seeds[] = {
		LOCATION
		"\"/tmp/torchinductor_root/vz/cvz.py\":18:0)\n#loc1 = loc(unknown)\nmodule {\n  tt.func public @" NAME
		"(%arg0: !tt.ptr<f32> loc(\"/tmp/a.py\":18:0)) {\n",
		"module {\n tt.func public @" NAME "() {}\n}\n" LOCATION "\"/a\":1:0)",
		"TRITON_CACHE_DIR=\n" NAME
		"=1\nHOME=/root\nTORCHINDUCTOR_CACHE_DIR=/x\nTMPDIR=/tmp\nUSER=a/b\n",
	};

	return fuzz_seed_of(seeds, sizeof(seeds) / sizeof(seeds[0]), number, data, max);
}

static bool has(const char *text, size_t n, const char *what)
{
	return memmem(text, n, what, strlen(what));
}

static void check_place(const char *text, size_t n)
{
	char line_text[32];
	struct vt_span file;
	int line = 0;

	if (!vt_triton_read_place(text, n, NAME, &file, &line))
		return;
	fuzz_check(file.p > text && file.p + file.n < text + n, "outside");
	fuzz_check(*file.p == '/' && file.n < PATH_MAX, "no path");
	fuzz_check(!memchr(file.p, '\0', file.n) && !memchr(file.p, '\n', file.n) &&
			   !memchr(file.p, '"', file.n),
		   "its end");
	fuzz_check(line > 0, "line %d", line);
	snprintf(line_text, sizeof(line_text), "%d:", line);
	fuzz_check(has(text, n, line_text), "line %d", line);
	fuzz_check(has(text, n, "@" NAME "(") && has(text, n, LOCATION), "it is another one's");
}

/* The lines as variables. */
static void check_caches(const char *text, size_t n)
{
	char *environment = malloc(n + 1);
	struct vt_str path = { 0 };
	unsigned int number = 0;

	if (!environment)
		exit(1);
	for (size_t i = 0; i < n; i++)
		environment[i] = text[i];
	for (size_t i = 0; i < n; i++)
		if (environment[i] == '\n')
			environment[i] = '\0';
	environment[n] = '\0';
	while (vt_triton_cache(environment, n, "me", number, &path)) {
		fuzz_check(path.n && strlen(vt_str_get(&path)) == path.n, "path %u", number);
		fuzz_check(++number <= 32, "it does not end");
	}
	fuzz_check(number >= 1, "none");
	(void)vt_triton_is_name(environment);
	vt_str_deinit(&path);
	free(environment);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* Of its own size, so that a sanitizer sees what is read behind it. */
	char *text = malloc(size ? size : 1);

	if (!text)
		exit(1);
	if (size)
		memcpy(text, data, size);
	check_place(text, size);
	check_caches(text, size);
	free(text);
	return 0;
}
