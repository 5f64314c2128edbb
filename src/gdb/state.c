/* SPDX-License-Identifier: Apache-2.0 */
#include "gdb/state.h"

#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define FORMAT_VERSION 2
#define END "end of state"
#define MAX_LINE (1 << 16)
#define MAX_HELD VT_MAX_THREADS
#define MAX_CUDA ((size_t)4 << 20)

#define PROCESS "process "

/* The columns of gdb's two tables, by their heads; -1: there is none. */
struct columns {
	int description, connection, executable, core;
};

struct parser {
	struct vt_gdb_state *state;
	struct columns columns;
	bool have_version, have_end;
	bool core_is_next;
	size_t next_signal; /* the next place in state->held to search */
	bool in_frame;      /* what is to come is not for us */
	bool in_cuda;       /* it is cuda-gdb's, with names of the process's */
	struct vt_error *err;
};

/* The number at the start of text; min when there is none, or it is outside the limits. */
static long number_in(const char *text, long min, long max)
{
	char *end;
	long value = strtol(text, &end, 10);

	return end == text || value < min || value > max ? min : value;
}

static int column(const char *heads, const char *name)
{
	const char *found = strstr(heads, name);

	return found ? (int)(found - heads) : -1;
}

/*
 * "  Num  Description ... Executable" and "  Id   Executable  Core File"; a file may have such a
 * name, too.
 */
static bool is_heads(const char *line)
{
	const char *first = line + strspn(line, " ");

	return (!strncmp(first, "Num ", 4) && strstr(first, "Description")) ||
	       (!strncmp(first, "Id ", 3) && strstr(first, "Core File"));
}

static void read_heads(struct parser *p, const char *line)
{
	p->columns = (struct columns){
		.description = column(line, "Description"),
		.connection = column(line, "Connection"),
		.executable = column(line, "Executable"),
		.core = column(line, "Core File"),
	};
}

/*
 * The text of the cell from "from" to before "to" (-1: the end of the line), without spaces around
 * it; NULL when empty.
 */
static const char *cell(struct parser *p, const char *line, int from, int to)
{
	size_t len = strlen(line);
	size_t start = from < 0 ? len : (size_t)from,
	       end = to < 0 || (size_t)to > len ? len : (size_t)to;

	while (start < end && line[start] == ' ')
		start++;
	while (end > start && line[end - 1] == ' ')
		end--;
	return end > start ? vt_arena_strndup(&p->state->arena, line + start, end - start) : NULL;
}

/*
 * "* 1    process 4711      1 (native)           /usr/bin/python3": the inferior that gdb's
 * commands are about.
 */
static void read_inferior(struct parser *p, const char *line)
{
	struct vt_gdb_state *state = p->state;
	const struct columns *at = &p->columns;
	const char *description = cell(p, line, at->description,
				       at->connection >= 0 ? at->connection : at->executable);
	const char *connection = at->connection < 0 ? NULL :
						      cell(p, line, at->connection, at->executable);
	const char *open = connection ? strchr(connection, '(') : NULL;

	/* cuda-gdb and gdb without threads in the process say the same. */
	if (description && !strncmp(description, PROCESS, strlen(PROCESS)))
		state->pid = (pid_t)number_in(description + strlen(PROCESS), 0, INT_MAX);
	if (open)
		state->connection =
			vt_arena_strndup(&state->arena, open + 1, strcspn(open + 1, ")"));
	if (!state->connection)
		state->connection = "";
}

/* "* 1    /usr/bin/python3  /tmp/core.4711" */
static void read_program_space(struct parser *p, const char *line)
{
	p->state->exe = cell(p, line, p->columns.executable, p->columns.core);
	p->state->core = cell(p, line, p->columns.core, -1);
}

static void add_thread(struct parser *p, const struct vt_held_thread *thread)
{
	struct vt_held_thread *added;

	if (p->state->held.threads.n >= MAX_HELD)
		return;
	added = vt_vec_append(&p->state->held.threads);
	if (added)
		*added = *thread;
	else
		p->err = &vt_enomem;
}

/* "thread 3", the registers in the order of enum, fs_base, orig_rax */
static void read_thread(struct parser *p, const char *line)
{
	struct vt_held_thread thread = { .number = (int)number_in(line, 0, INT_MAX),
					 .regs.arch = &vt_arch_x86_64 };
	char *at;

	strtol(line, &at, 10);
	for (int i = 0; i < thread.regs.arch->abi.n_regs; i++)
		thread.regs.r[i] = strtoull(at, &at, 16);
	thread.regs.thread_pointer = strtoull(at, &at, 16);
	if (*at != ' ')
		return; /* gdb could not print all of them */
	thread.regs.syscall_nr = strtoll(at, &at, 10);
	add_thread(p, &thread);
}

/* They come in the order of the threads. */
static struct vt_held_thread *next_numbered(struct parser *p, int number)
{
	size_t n = p->state->held.threads.n;

	for (size_t i = 0; i < n; i++) {
		size_t at = (p->next_signal + i) % n;

		if (p->state->held.threads.data[at].number == number) {
			p->next_signal = at + 1;
			return &p->state->held.threads.data[at];
		}
	}
	return NULL;
}

/* "signal 3 19". It counts even if gdb could not print that thread's registers. */
static void read_signal(struct parser *p, const char *text)
{
	struct vt_held_thread thread = { .number = (int)number_in(text, 0, INT_MAX) }, *known;
	const char *signal = strchr(text, ' ');

	if (!signal)
		return;
	thread.signal = (int)number_in(signal, 0, INT_MAX);
	known = next_numbered(p, thread.number);
	if (known)
		known->signal = thread.signal;
	else
		add_thread(p, &thread);
}

/* "SIGINT        Yes\tYes\tNo\t\tInterrupt": stop, print, pass to the program. */
static void read_passed(struct parser *p, const char *text, int signo)
{
	const char *at = strchr(text, '\t');

	at = at ? strchr(at + 1, '\t') : NULL;
	if (at && !strncmp(at + 1, "Yes", 3))
		p->state->passed |= UINT64_C(1) << signo;
}

static void read_sigint(struct parser *p, const char *text)
{
	read_passed(p, text, SIGINT);
}

static void read_sigtrap(struct parser *p, const char *text)
{
	read_passed(p, text, SIGTRAP);
}

/*
 * "0x55557b4d19d0: id={stack=0x7ffdf24ffef8,code=...,!special}, ptid=...": a frame that gdb has
 * made, from "maint print dummy-frames".
 */
static void read_dummy(struct parser *p, const char *text)
{
	if (strstr(text, ": id={"))
		p->state->in_call = true;
}

/*
 * "#2  0x00007fc7... in main (...) at main.c:3" is the last thing we ask for; what follows contains
 * names from the process.
 */
static void read_frame(struct parser *p, const char *text)
{
	p->state->frame = (int)number_in(text, -1, INT_MAX);
	p->in_frame = true;
}

/* The last thing that is asked for, too. */
static void begin_cuda(struct parser *p, const char *text)
{
	(void)text;
	p->in_cuda = true;
}

static void add_cuda(struct parser *p, const char *line)
{
	if (p->state->cuda.n + strlen(line) >= MAX_CUDA)
		return;
	vt_str_addf(&p->state->cuda, "%s\n", line);
	if (p->state->cuda.failed)
		p->err = &vt_enomem;
}

static void read_version(struct parser *p, const char *text)
{
	p->have_version = number_in(text, 0, INT_MAX) == FORMAT_VERSION;
}

static void read_width(struct parser *p, const char *text)
{
	p->state->width = (int)number_in(text, 0, INT_MAX);
}

/* A function of gdb's Python. Before the tables only: they have names of the process's. */
static void read_has_python(struct parser *p, const char *text)
{
	(void)text;
	p->state->python = p->state->python || p->columns.description < 0;
}

static void read_selected(struct parser *p, const char *text)
{
	p->state->selected = (int)number_in(text, 0, INT_MAX);
}

static void read_on_device(struct parser *p, const char *text)
{
	p->state->on_device = number_in(text, 0, 1);
}

static void read_address(struct parser *p, const char *text)
{
	p->state->address = strtoull(text, NULL, 16);
}

/* A variable that is there for this question only. Words have quotes around them. */
static void read_pattern(struct parser *p, const char *text)
{
	size_t n = strlen(text);

	if (n >= 2 && (*text == '\'' || *text == '"') && text[n - 1] == *text) {
		text++;
		n -= 2;
	}
	p->state->pattern = vt_arena_strndup(&p->state->arena, text, n);
	if (!p->state->pattern)
		p->err = &vt_enomem;
}

static void read_python(struct parser *p, const char *text)
{
	const char *frame = strchr(text, ' ');

	if (!frame)
		return;
	p->state->python_tid = (pid_t)number_in(text, 0, INT_MAX);
	p->state->python_frame = (size_t)number_in(frame, 0, INT_MAX);
}

static void read_was(struct parser *p, const char *text)
{
	char *at;

	p->state->was_tid = (pid_t)number_in(text, 0, INT_MAX);
	strtol(text, &at, 10);
	p->state->was_frame = (int)number_in(at, 0, INT_MAX);
	strtol(at, &at, 10);
	p->state->was_sp = strtoull(at, &at, 16);
	p->state->was_on_device = strtol(at, &at, 10) != 0;
	p->state->was_pid = (pid_t)number_in(at, 0, INT_MAX);
}

/* Under "Local core dump file:" of "info files": "\t`/tmp/core.4711', file type elf64-x86-64." */
static void read_core(struct parser *p, const char *text)
{
	const char *end = strstr(text, "', file type ");

	if (end && end > text && p->core_is_next)
		p->state->core = vt_arena_strndup(&p->state->arena, text, (size_t)(end - text));
	p->core_is_next = false;
}

static void expect_core(struct parser *p, const char *text)
{
	(void)text;
	p->core_is_next = true;
}

static void read_pid(struct parser *p, const char *text)
{
	p->state->pid = (pid_t)number_in(text, 0, INT_MAX);
}

static const struct {
	const char *key;
	void (*read)(struct parser *p, const char *text);
} keys[] = {
	{ "vramtap-gdb ", read_version },
	{ "thread ", read_thread },
	{ "signal ", read_signal },
	{ "SIGINT ", read_sigint },
	{ "SIGTRAP ", read_sigtrap },
	{ "0x", read_dummy },
	{ "#", read_frame },
	{ "setting width ", read_width },
	{ "function _streq ", read_has_python },
	{ "selected ", read_selected },
	{ "on device ", read_on_device },
	{ "address ", read_address },
	{ "VRAMTAP_PATTERN = ", read_pattern },
	{ "python ", read_python },
	{ "was ", read_was },
	{ "cuda kernels", begin_cuda },
	{ "Local core dump file:", expect_core },
	{ "\t`", read_core },
	{ "pid ", read_pid },
};

static void read_line(struct parser *p, const char *line)
{
	if (is_heads(line)) {
		read_heads(p, line);
		return;
	}
	if (line[0] == '*' && line[1] == ' ') {
		if (p->columns.description >= 0)
			read_inferior(p, line);
		else if (p->columns.core >= 0)
			read_program_space(p, line);
		return;
	}
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		size_t len = strlen(keys[i].key);

		if (!strncmp(line, keys[i].key, len)) {
			keys[i].read(p, line + len);
			return;
		}
	}
}

struct vt_error *vt_gdb_state_init(struct vt_gdb_state *state, FILE *in)
{
	struct parser p = { .state = state, .columns = { -1, -1, -1, -1 } };
	VT_FREE char *line = NULL;
	size_t size = 0;
	ssize_t n;

	state->connection = "";
	state->frame = -1;
	state->held.debugger = "gdb";
	while (!p.err && (n = getline(&line, &size, in)) >= 0) {
		line[strcspn(line, "\n")] = '\0';
		p.have_end = !strcmp(line, END);
		if (p.in_cuda && !p.have_end)
			add_cuda(&p, line);
		else if (n < MAX_LINE && !p.in_frame && !p.in_cuda)
			read_line(&p, line);
	}
	if (!p.err && !p.have_version)
		p.err = vt_error_create(
			VT_ERR_FORMAT,
			"gdb's commands and this vramtap are not of one release: load them again with source, "
			"from vramtap gdb-script");
	if (!p.err && !p.have_end)
		p.err = vt_error_create(VT_ERR_INTERRUPTED, "gdb's information is incomplete");
	if (p.err)
		vt_gdb_state_deinit(state);
	return p.err;
}

void vt_gdb_state_deinit(struct vt_gdb_state *state)
{
	vt_held_deinit(&state->held);
	vt_str_deinit(&state->cuda);
	vt_arena_deinit(&state->arena);
	*state = (struct vt_gdb_state){ 0 };
}
