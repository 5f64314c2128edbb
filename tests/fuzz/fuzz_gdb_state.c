/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What gdb prints: whatever comes, the reader ends, and what it says of lines that nothing else
 * could have changed is what is there.
 */
#include <limits.h>
#include <string.h>

#include "gdb/state.h"
#include "fuzz.h"

static const char *const seeds[] = {
	"vramtap-gdb 2\nsetting width 80\nfunction _streq -- $_streq - check string equality.\n"
	"  Num  Description       Connection           Executable        \n"
	"  1    process 31342     1 (native)           /tmp/my prog  one \n"
	"* 2    process 31343     1 (native)           /tmp/my prog  two \n"
	"  Id   Executable        Core File         \n"
	"* 1    /tmp/my prog  two                   \n"
	"selected 3\non device 0\naddress 7f0012345678\npython 31345 2\nwas 31346 4 7ffc0 1 31345\n"
	"thread 3 fffffffffffffdfe 2 7fca586c4df2 7fff7565a438 0 0 7fff7565a3a0 7fff7565a380 0 7fff7565a2b7 8 293 2 7fff7565a578 0 0 1 2 34\n"
	"signal 3 19\nthread 1 1 2 3\nsignal 1 10\nSIGINT        Yes\tYes\tNo\t\tInterrupt\n#2  0x00007fc70e3f1ea8 in main (...) at main.c:3\n3\tmain.c\nend of state\n",
	"vramtap-gdb 2\n"
	"  Num  Description       Connection           Executable \n"
	"* 1    process 4711      1 (core)             /opt/a b/x \n"
	"  Id   Executable Core File          \n"
	"* 1    /opt/a b/x /tmp/core  of 4711 \n"
	"selected 1\nend of state\n",
	"vramtap-gdb 2\nsetting width 0\npid 4711\nend of state\n",
};

size_t fuzz_seed(unsigned int number, uint8_t *data, size_t max)
{
	size_t n;

	if (number >= sizeof(seeds) / sizeof(seeds[0]))
		return 0;
	n = strlen(seeds[number]);
	fuzz_check(n <= max, "the seed is too long");
	memcpy(data, seeds[number], n);
	return n;
}

/* A text of the state's is somewhere in what came. */
static void check_text(const char *text, const uint8_t *data, size_t size, const char *what)
{
	if (text)
		fuzz_check(memmem(data, size, text, strlen(text)), "%s is nowhere", what);
}

static void check_state(struct vt_gdb_state *state, const uint8_t *data, size_t size)
{
	fuzz_check(memmem(data, size, "vramtap-gdb ", 12), "no version");
	fuzz_check(state->pid >= 0 && state->selected >= 0 && state->width >= 0 &&
			   state->frame >= -1,
		   "a negative number");
	fuzz_check(state->python_tid >= 0 && state->python_frame <= INT_MAX &&
			   state->was_tid >= 0 && state->was_frame >= 0,
		   "of a thread");
	fuzz_check(state->connection, "no connection");
	check_text(state->connection, data, size, "the connection");
	check_text(state->core, data, size, "the core");
	check_text(state->exe, data, size, "the executable");
	fuzz_check(!state->core || *state->core, "a core without a name");
	fuzz_check(state->held.threads.n <= size / 7, "%zu threads", state->held.threads.n);
	for (size_t i = 0; i < state->held.threads.n; i++) {
		struct vt_held_thread *thread = &state->held.threads.data[i];

		fuzz_check(thread->number >= 0 && thread->signal >= 0 && !thread->tid, "thread %zu",
			   i);
		fuzz_check(!thread->regs.arch ||
				   vt_held_find(&state->held, vt_regs_sp(&thread->regs),
						vt_regs_pc(&thread->regs)),
			   "registers of %zu", i);
		fuzz_check(vt_held_numbered(&state->held, thread->number), "number of %zu", i);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct vt_gdb_state state = { 0 };
	FILE *in = size ? fmemopen((void *)data, size, "re") : fopen("/dev/null", "re");
	struct vt_error *err;

	if (!in)
		exit(1);
	err = vt_gdb_state_init(&state, in);
	if (!err)
		check_state(&state, data, size);
	else
		fuzz_check(!state.held.threads.data && !state.pid, "something is left");
	vt_error_destroy(err);
	vt_gdb_state_deinit(&state);
	fclose(in);
	return 0;
}
