/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our own bounded reader finds the modules with DWARF. libdw reads it, in a child process that can
 * do nothing else (base/sandbox.h), because the files are the target's and libdw is not made for
 * hostile ones. The child writes its results into a pipe, one address after the other; what it has
 * written when time is up is used.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/sandbox.h"
#include "base/str.h"
#include "walk/native/debugfile.h"
#include "walk/native/demangle.h"
#include "walk/native/dwarf_lines.h"
#include "walk/native/lines_memo.h"
#include "walk/native/native.h"
#include "walk/native/pcs.h"

#define MAX_REQUESTS 16384
#define MAX_RESULT_BYTES (16u * 1024 * 1024)
#define MAX_NAME 8192 /* of a function, mangled: the demangler takes no longer ones */
#define MAX_FILE 4096
#define PIPE_BYTES (1024 * 1024) /* so that the child need not wait for a reader */
#define READ_BYTES (64u * 1024)
/* On a busy machine, or with files from a slow disk, wall-clock time exceeds CPU time. */
#define WALL_FACTOR 5
#define END_NS (200 * VT_NS_PER_MS)
/*
 * Of all frames together. Real programs have a few for each frame, and no reader needs more than
 * this.
 */
#define MAX_INLINED (64u * 1024)
#define CHILD_MEMORY ((size_t)512 * 1024 * 1024)

/*
 * What the child writes for an address: a header, then for each function a header and its two
 * strings.
 */
struct result_header {
	uint32_t request;
	uint32_t n_frames;
};

struct frame_header {
	uint32_t line;
	uint16_t name_len, file_len;
};

/* A file with DWARF. */
struct source {
	const uint8_t *image; /* of the module, or mapped by us */
	uint64_t size;
	bool is_mapped;              /* by us */
	const uint8_t *shared_image; /* NULL: none */
	uint64_t shared_size;
	uint64_t dwarf_bytes;
	size_t first, n;         /* its requests */
	struct vt_lines_key key; /* without an address */
	bool have_key;
};

enum asked {
	ASKED_CHILD,   /* or will be */
	ASKED_IN_VAIN, /* it crashed, or had no time, unless it is answered */
	ASKED_MEMO,    /* which knew it */
	ASKED_OTHER,   /* another process is finding out */
};

struct request {
	uint64_t vaddr;
	size_t first_pc, n_pcs; /* the frames with this address */
	enum asked asked;
	bool claimed; /* others wait for our answer */
	bool answered;
};

struct vt_native_lines {
	struct vt_native_pc *pcs;
	size_t n_pcs;
	VT_VEC(struct source) sources;
	VT_VEC(struct request) requests;
	size_t n_too_many; /* addresses without requests */
	uint64_t deadline_ns, budget_ns;
	pid_t child;
	int in; /* our end of the pipe */
	struct vt_native_sharing sharing;
	struct vt_str results;
	size_t n_taken;   /* bytes of them */
	size_t n_inlined; /* given to frames so far */
};

/* Files with DWARF. */

static const uint8_t *map_file(const struct vt_debugfile *file)
{
	void *p = mmap(NULL, (size_t)file->size, PROT_READ, MAP_PRIVATE, file->fd, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* The amount of data, for the order; 0: none. */
static uint64_t dwarf_size(const struct vt_symfile *file)
{
	const Elf64_Shdr *info = vt_symfile_named(file, ".debug_info"),
			 *abbrev = vt_symfile_named(file, ".debug_abbrev");

	if (!info || info->sh_type == SHT_NOBITS || !abbrev || abbrev->sh_type == SHT_NOBITS)
		return 0;
	/* Packed data is slower to read than its size suggests. */
	return info->sh_flags & SHF_COMPRESSED ? info->sh_size * 8 : info->sh_size;
}

/*
 * The place inside the C library where a thread waits is no help, since its functions' names tell
 * enough; and unpacking the debug information that comes with gdb on Debian (libc6-dbg) takes
 * longer than the rest of a report.
 */
static bool is_c_library(const struct vt_module *module)
{
	static const char *const names[] = { "libc.so.",      "libc-2.",   "libpthread.so.",
					     "libpthread-2.", "ld-linux-", "ld-2." };
	const char *name = vt_base_name(module->path);

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strncmp(name, names[i], strlen(names[i])))
			return true;
	return false;
}

bool vt_native_may_have_lines(const struct vt_module *module)
{
	return module && !is_c_library(module);
}

static bool look_at_module(const struct vt_module *module, struct source *source)
{
	struct vt_symfile file = { .fd = module->fd, .size = module->image_size };

	if (module->fd < 0)
		return false;
	if (vt_symfile_init(&file))
		source->dwarf_bytes = dwarf_size(&file);
	vt_symfile_deinit(&file);
	source->image = module->image;
	source->size = module->image_size;
	return source->dwarf_bytes > 0;
}

/* A mapped file needs no descriptor: there may be hundreds of these files. */
static bool look_at_debugfile(const struct vt_modules *modules, const struct vt_module *module,
			      struct source *source)
{
	struct vt_debugfile found = { .fd = -1 }, shared = { .fd = -1 };

	if (!vt_debugfile_find(modules, module, &found))
		return false;

	struct vt_symfile file = { .fd = found.fd, .size = found.size };

	if (vt_symfile_init(&file))
		source->dwarf_bytes = dwarf_size(&file);
	source->image = source->dwarf_bytes ? map_file(&found) : NULL;
	source->size = found.size;
	source->is_mapped = source->image;
	if (source->image && vt_debugfile_find_shared(modules, &file, found.path, &shared)) {
		source->shared_image = map_file(&shared);
		source->shared_size = shared.size;
	}
	vt_symfile_deinit(&file);
	vt_debugfile_close(&found);
	vt_debugfile_close(&shared);
	return source->is_mapped;
}

static void close_source(struct source *source)
{
	if (source->is_mapped)
		munmap((void *)(uintptr_t)source->image, (size_t)source->size);
	if (source->shared_image)
		munmap((void *)(uintptr_t)source->shared_image, (size_t)source->shared_size);
}

/* One request for each address in pcs[first..end). False when out of memory. */
static bool add_requests(struct vt_native_lines *lines, struct source *source, size_t first,
			 size_t end)
{
	uint64_t bias = lines->pcs[first].module->bias;

	source->first = lines->requests.n;
	for (size_t i = first, next; i < end; i = next) {
		struct request *request;

		for (next = i + 1; next < end && lines->pcs[next].pc == lines->pcs[i].pc; next++)
			;
		if (lines->requests.n == MAX_REQUESTS) {
			lines->n_too_many++;
			continue;
		}
		request = vt_vec_append(&lines->requests);
		if (!request)
			return false;
		*request = (struct request){ .vaddr = lines->pcs[i].pc - bias,
					     .first_pc = i,
					     .n_pcs = next - i };
	}
	source->n = lines->requests.n - source->first;
	return true;
}

static struct vt_lines_key key_of(const struct source *source, const struct request *request)
{
	struct vt_lines_key key = source->key;

	key.vaddr = request->vaddr;
	return key;
}

/* A known result is an answer as the child would give it. */
static bool ask_memo(struct vt_native_lines *lines, const struct source *source, size_t i)
{
	struct vt_lines_key key = key_of(source, &lines->requests.data[i]);
	uint32_t number = (uint32_t)i;
	size_t before = lines->results.n;

	if (lines->results.n >= MAX_RESULT_BYTES / 2)
		return false;
	vt_str_addn(&lines->results, (const char *)&number, sizeof(number));
	if (vt_lines_memo_find(lines->sharing.memo, &key, &lines->results))
		return true;
	lines->results.n = before;
	return false;
}

/* Where the answer comes from: the memo, another process that works on it, or our child. */
static void choose_whom_to_ask(struct vt_native_lines *lines, const struct source *source, size_t i)
{
	struct request *request = &lines->requests.data[i];
	struct vt_lines_key key = key_of(source, request);

	if (ask_memo(lines, source, i)) {
		request->asked = ASKED_MEMO;
		return;
	}
	request->claimed = vt_lines_memo_claim(lines->sharing.memo, &key);
	request->asked = request->claimed ? ASKED_CHILD : ASKED_OTHER;
}

static bool is_asked(const struct vt_native_lines *lines, const struct source *source,
		     enum asked whom)
{
	for (size_t i = source->first; i < source->first + source->n; i++)
		if (lines->requests.data[i].asked == whom)
			return true;
	return false;
}

static bool add_source(struct vt_native_lines *lines, struct vt_modules *modules, size_t first,
		       size_t end)
{
	struct source source = { 0 };
	struct vt_module *module = lines->pcs[first].module;
	VT_ERROR struct vt_error *err = vt_module_open(modules, module);
	struct source *added;

	if (err || !vt_native_may_have_lines(module) ||
	    !(look_at_module(module, &source) || look_at_debugfile(modules, module, &source)))
		return true;
	added = vt_vec_append(&lines->sources);
	if (!added) {
		close_source(&source);
		return false;
	}
	*added = source;
	added->have_key = lines->sharing.memo && vt_lines_key_init(&added->key, module->fd);
	if (!add_requests(lines, added, first, end))
		return false;
	for (size_t i = added->first; added->have_key && i < added->first + added->n; i++)
		choose_whom_to_ask(lines, added, i);
	return true;
}

/* Quick ones first: when time is up, most are done. */
static int compare_sources(const void *a, const void *b)
{
	const struct source *x = a, *y = b;

	return (x->dwarf_bytes > y->dwarf_bytes) - (x->dwarf_bytes < y->dwarf_bytes);
}

/* The child. */

static void write_all(const char *data, size_t n)
{
	while (n > 0) {
		ssize_t done = write(VT_SANDBOX_OUT, data, n);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			_exit(1);
		data += done;
		n -= (size_t)done;
	}
}

static void add_frame(struct vt_str *out, const struct vt_dwarf_frame *frame)
{
	struct frame_header header = {
		.line = frame->line > 0 ? (uint32_t)frame->line : 0,
		.name_len = (uint16_t)(frame->name ? strnlen(frame->name, MAX_NAME) : 0),
		.file_len = (uint16_t)(frame->file ? strnlen(frame->file, MAX_FILE) : 0),
	};

	vt_str_addn(out, (const char *)&header, sizeof(header));
	if (header.name_len)
		vt_str_addn(out, frame->name, header.name_len);
	if (header.file_len)
		vt_str_addn(out, frame->file, header.file_len);
}

static void answer(struct vt_dwarf *dwarf, const struct vt_native_lines *lines, size_t request,
		   struct vt_str *out)
{
	struct vt_dwarf_frame frames[VT_DWARF_MAX_FRAMES];
	size_t n = vt_dwarf_find(dwarf, lines->requests.data[request].vaddr, frames);
	struct result_header header = { .request = (uint32_t)request, .n_frames = (uint32_t)n };

	vt_str_clear(out);
	vt_str_addn(out, (const char *)&header, sizeof(header));
	for (size_t i = 0; i < n; i++)
		add_frame(out, &frames[i]);
	if (out->failed)
		_exit(1);
	write_all(out->data, out->n);
}

static _Noreturn void run_child(const struct vt_native_lines *lines, pid_t parent, int out)
{
	struct vt_sandbox_limits limits = { .memory_bytes = CHILD_MEMORY,
					    .cpu_ns = lines->budget_ns };
	struct vt_str text = { 0 };

	if (!vt_sandbox_enter(parent, out, &limits))
		_exit(1);
	for (size_t i = 0; i < lines->sources.n; i++) {
		const struct source *source = &lines->sources.data[i];
		struct vt_dwarf *dwarf = !is_asked(lines, source, ASKED_CHILD) ?
						 NULL :
						 vt_dwarf_open(source->image, source->size,
							       source->shared_image,
							       source->shared_size);

		if (!dwarf)
			continue;
		for (size_t k = source->first; k < source->first + source->n; k++)
			if (lines->requests.data[k].asked == ASKED_CHILD)
				answer(dwarf, lines, k, &text);
		vt_dwarf_close(dwarf);
	}
	_exit(0);
}

static struct vt_error *start_child(struct vt_native_lines *lines)
{
	int fds[2];
	pid_t parent = getpid();

	if (pipe2(fds, O_CLOEXEC) != 0)
		return vt_error_create_os(errno, "no pipe");
	(void)fcntl(fds[1], F_SETPIPE_SZ, PIPE_BYTES);
	lines->deadline_ns = vt_now_ns() + WALL_FACTOR * lines->budget_ns;
	lines->child = fork();
	if (lines->child == 0)
		run_child(lines, parent, fds[1]);
	close(fds[1]);
	lines->in = fds[0];
	if (lines->child < 0)
		return vt_error_create_os(errno, "no child process");
	return NULL;
}

static bool is_any_asked(const struct vt_native_lines *lines, enum asked whom)
{
	for (size_t i = 0; i < lines->sources.n; i++)
		if (is_asked(lines, &lines->sources.data[i], whom))
			return true;
	return false;
}

/* The interpreter's own unit takes longer to read than all that a merged stack shows. */
static void drop_unseen(struct vt_native_lines *lines)
{
	size_t kept = 0;

	for (size_t i = 0; i < lines->n_pcs; i++)
		if (!lines->pcs[i].frame->unseen)
			lines->pcs[kept++] = lines->pcs[i];
	lines->n_pcs = kept;
}

struct vt_error *vt_native_lines_start(struct vt_modules *modules, struct vt_native_stack *stacks,
				       size_t n, uint64_t budget_ns,
				       const struct vt_native_sharing *sharing,
				       struct vt_native_lines **ret)
{
	struct vt_native_lines *lines = calloc(1, sizeof(*lines));
	struct vt_error *err;

	if (!lines)
		return &vt_enomem;
	lines->in = -1;
	lines->budget_ns = budget_ns;
	if (sharing)
		lines->sharing = *sharing;
	err = vt_native_pcs(modules, stacks, n, &lines->pcs, &lines->n_pcs);
	drop_unseen(lines);
	for (size_t i = 0, end; !err && i < lines->n_pcs; i = end) {
		end = vt_native_pcs_end(lines->pcs, lines->n_pcs, i);
		if (!add_source(lines, modules, i, end))
			err = &vt_enomem;
	}
	if (lines->sources.n)
		qsort(lines->sources.data, lines->sources.n, sizeof(*lines->sources.data),
		      compare_sources);
	if (!err && is_any_asked(lines, ASKED_CHILD))
		err = start_child(lines);
	if (err) {
		vt_native_lines_destroy(lines);
		return err;
	}
	*ret = lines;
	return NULL;
}

/* The parent: results. */

/* It may be waiting for a disk, where a signal cannot end it: we do not wait long for it. */
static void end_child(struct vt_native_lines *lines)
{
	uint64_t deadline_ns = vt_now_ns() + END_NS;

	if (lines->child <= 0)
		return;
	kill(lines->child, SIGKILL);
	while (waitpid(lines->child, NULL, WNOHANG) == 0 && !vt_deadline_passed(deadline_ns))
		vt_sleep_ns(VT_NS_PER_MS / 10);
	lines->child = 0;
}

static int milliseconds_left(const struct vt_native_lines *lines)
{
	uint64_t now = vt_now_ns();

	return now < lines->deadline_ns ? (int)((lines->deadline_ns - now) / VT_NS_PER_MS) : 0;
}

/* All that the child writes until the time is up. */
static void read_results(struct vt_native_lines *lines)
{
	VT_FREE char *piece = malloc(READ_BYTES);

	while (piece && lines->results.n < MAX_RESULT_BYTES && !lines->results.failed) {
		struct pollfd pollfd = { .fd = lines->in, .events = POLLIN };
		int left = milliseconds_left(lines);
		int ready = poll(&pollfd, 1, left);

		if (ready < 0 && errno == EINTR)
			continue;
		/* Reads the rest of the pipe; no more comes. */
		if (left == 0)
			end_child(lines);
		if (ready <= 0)
			break;

		ssize_t n = read(lines->in, piece, READ_BYTES);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		vt_str_addn(&lines->results, piece, (size_t)n);
	}
	end_child(lines);
}

struct reader {
	const char *at;
	size_t left;
	struct vt_arena *arena;
	bool nomem;
};

static bool take_bytes(struct reader *reader, void *to, size_t n)
{
	if (reader->left < n)
		return false;
	memcpy(to, reader->at, n);
	reader->at += n;
	reader->left -= n;
	return true;
}

/* NULL when it is empty. */
static const char *take_text(struct reader *reader, size_t n)
{
	const char *text = n ? vt_arena_strndup(reader->arena, reader->at, n) : NULL;

	reader->nomem |= n && !text;
	reader->at += n;
	reader->left -= n;
	return text;
}

static bool take_frame(struct reader *reader, struct vt_native_source *frame)
{
	struct frame_header header;
	size_t len;

	if (!take_bytes(reader, &header, sizeof(header)) || header.name_len > MAX_NAME ||
	    header.file_len > MAX_FILE ||
	    (size_t)header.name_len + header.file_len > reader->left || header.line > INT32_MAX)
		return false;
	len = strnlen(reader->at, header.name_len);
	frame->function = len ? vt_demangle(reader->arena, reader->at, len) : NULL;
	reader->nomem |= len && !frame->function;
	reader->at += header.name_len;
	reader->left -= header.name_len;
	frame->file = take_text(reader, header.file_len);
	frame->line = (int)header.line;
	return true;
}

/* The last one is the function that the frame belongs to; the others were inlined into it. */
static void give(struct vt_native_lines *lines, const struct request *request,
		 const struct vt_native_source *source, size_t n)
{
	for (size_t i = 0; i < request->n_pcs; i++) {
		struct vt_native_frame *frame = lines->pcs[request->first_pc + i].frame;

		frame->file = source[n - 1].file;
		frame->line = source[n - 1].line;
		if (lines->n_inlined + n - 1 <= MAX_INLINED) {
			lines->n_inlined += n - 1;
			frame->inlined = source;
			frame->n_inlined = n - 1;
		}
		/* A frame without a symbol may still get a name here. */
		if (!frame->function)
			frame->function = source[n - 1].function;
	}
}

/* The answer to a request ends at the reader's position; it is for other processes, too. */
static void remember(struct vt_native_lines *lines, size_t request, const char *answer,
		     const struct reader *reader)
{
	for (size_t i = 0; i < lines->sources.n; i++) {
		const struct source *source = &lines->sources.data[i];
		struct vt_lines_key key;

		if (!source->have_key || request < source->first ||
		    request - source->first >= source->n)
			continue;
		key = key_of(source, &lines->requests.data[request]);
		vt_lines_memo_add(lines->sharing.memo, &key, answer, (size_t)(reader->at - answer));
		return;
	}
}

/* One answer; false when the rest is not a whole one. */
static bool take_result(struct vt_native_lines *lines, struct reader *reader)
{
	struct vt_native_source *source;
	const char *begin = reader->at;
	struct result_header header;
	struct request *request;

	if (!take_bytes(reader, &header, sizeof(header)) || header.request >= lines->requests.n ||
	    header.n_frames > VT_DWARF_MAX_FRAMES)
		return false;
	/* Once only: many frames may have one address. */
	request = &lines->requests.data[header.request];
	if (request->answered)
		return false;
	if (header.n_frames == 0) {
		request->answered = true;
		if (request->asked != ASKED_MEMO)
			remember(lines, header.request, begin + sizeof(header.request), reader);
		return true;
	}
	source = vt_arena_alloc(reader->arena, header.n_frames * sizeof(*source));
	if (!source) {
		reader->nomem = true;
		return false;
	}
	for (size_t i = 0; i < header.n_frames; i++)
		if (!take_frame(reader, &source[i]))
			return false;
	if (reader->nomem)
		return false;
	if (request->asked != ASKED_MEMO)
		remember(lines, header.request, begin + sizeof(header.request), reader);
	give(lines, request, source, header.n_frames);
	request->answered = true;
	return true;
}

/* What has arrived since the last time. */
static bool take_results(struct vt_native_lines *lines, struct vt_arena *arena)
{
	struct reader reader = { .arena = arena,
				 .at = lines->results.data,
				 .left = lines->results.n };

	if (lines->results.failed)
		return false;
	if (lines->results.n) {
		reader.at += lines->n_taken;
		reader.left -= lines->n_taken;
	}
	while (reader.left > 0 && take_result(lines, &reader))
		;
	lines->n_taken = lines->results.n;
	return !reader.nomem;
}

static bool settle_source(struct vt_native_lines *lines, const struct source *source)
{
	bool any = false;

	for (size_t i = source->first; i < source->first + source->n; i++) {
		struct request *request = &lines->requests.data[i];
		struct vt_lines_key key = key_of(source, request);

		if (!request->claimed)
			continue;
		vt_lines_memo_settle(lines->sharing.memo, &key);
		request->claimed = false;
		any = true;
	}
	return any;
}

/* No other process waits for us any longer. */
static void settle(struct vt_native_lines *lines)
{
	bool any = false;

	for (size_t i = 0; i < lines->sources.n; i++)
		any = settle_source(lines, &lines->sources.data[i]) || any;
	if (any)
		vt_lines_memo_tell(lines->sharing.memo);
}

/*
 * Takes over what other processes know by now, or have given up; all of it when the time is over.
 */
static void ask_again(struct vt_native_lines *lines, bool late)
{
	for (size_t i = 0; i < lines->sources.n; i++) {
		const struct source *source = &lines->sources.data[i];

		for (size_t k = source->first; k < source->first + source->n; k++) {
			struct request *request = &lines->requests.data[k];

			if (request->asked == ASKED_OTHER)
				choose_whom_to_ask(lines, source, k);
			if (request->asked == ASKED_OTHER && late)
				request->asked = ASKED_CHILD;
		}
	}
}

static void wait_for_others(struct vt_native_lines *lines)
{
	uint64_t deadline_ns = vt_now_ns() + WALL_FACTOR * lines->budget_ns;
	uint32_t told = 0;

	if (lines->sharing.waits)
		lines->sharing.waits(lines->sharing.arg);
	while (is_any_asked(lines, ASKED_OTHER)) {
		vt_lines_memo_wait(lines->sharing.memo, &told, deadline_ns);
		ask_again(lines, vt_deadline_passed(deadline_ns));
	}
}

static struct vt_error *finish_child(struct vt_native_lines *lines, struct vt_arena *arena)
{
	if (lines->child > 0)
		read_results(lines);
	if (lines->in >= 0)
		close(lines->in);
	lines->in = -1;

	bool ok = take_results(lines, arena);

	for (size_t i = 0; i < lines->requests.n; i++)
		if (lines->requests.data[i].asked == ASKED_CHILD)
			lines->requests.data[i].asked = ASKED_IN_VAIN;
	settle(lines);
	return ok ? NULL : &vt_enomem;
}

struct vt_error *vt_native_lines_finish(struct vt_native_lines *lines, struct vt_arena *arena,
					size_t *n_missing)
{
	*n_missing = 0;
	VT_TRY(finish_child(lines, arena));
	if (is_any_asked(lines, ASKED_OTHER)) {
		wait_for_others(lines);
		if (is_any_asked(lines, ASKED_CHILD))
			VT_TRY(start_child(lines));
		VT_TRY(finish_child(lines, arena));
	}
	for (size_t i = 0; i < lines->requests.n; i++)
		*n_missing += !lines->requests.data[i].answered;
	*n_missing += lines->n_too_many;
	return NULL;
}

void vt_native_lines_destroy(struct vt_native_lines *lines)
{
	if (!lines)
		return;
	end_child(lines);
	settle(lines);
	if (lines->in >= 0)
		close(lines->in);
	for (size_t i = 0; i < lines->sources.n; i++)
		close_source(&lines->sources.data[i]);
	vt_vec_deinit(&lines->sources);
	vt_vec_deinit(&lines->requests);
	vt_str_deinit(&lines->results);
	free(lines->pcs);
	free(lines);
}
