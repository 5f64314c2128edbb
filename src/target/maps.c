/* SPDX-License-Identifier: Apache-2.0 */
#include "target/maps.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "target/proc.h"
#include "target/task.h"

/*
 * The default limit of mappings is 65,530 (vm.max_map_count), and some sites raise it to a million
 * or so. A larger map is refused: half a map would give wrong answers.
 */
#define MAX_BYTES (256u * 1024 * 1024)

/*
 * The kernel hands out at most a page of text a read (seq_file), so this is room, not the size of a
 * read.
 */
#define READ_STEP (64u * 1024)

/* How often it is read when the process executes another program meanwhile. */
#define EXEC_TRIES 8

struct text {
	char *data;
	size_t n;
	size_t capacity;
};

/* The whole file, or a negative errno. */
static int read_all(int fd, struct text *text)
{
	for (;;) {
		if (text->n > MAX_BYTES)
			return -EFBIG;
		if (!vt_vec_reserve_((void **)&text->data, &text->capacity, text->n + READ_STEP, 1))
			return -ENOMEM;

		ssize_t got = read(fd, text->data + text->n, text->capacity - text->n);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			return 0;
		text->n += (size_t)got;
	}
}

/* A position in a line; every step says whether the line still looks as it should. */
struct cursor {
	const char *p;
	const char *end;
};

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

static bool take_hex(struct cursor *c, uint64_t *value)
{
	const char *begin = c->p;
	uint64_t v = 0;

	while (c->p < c->end) {
		int digit = hex_digit(*c->p);

		if (digit < 0)
			break;
		v = v << 4 | (uint64_t)digit;
		c->p++;
	}
	*value = v;
	return c->p > begin && c->p - begin <= 16;
}

static bool take_decimal(struct cursor *c, uint64_t *value)
{
	const char *begin = c->p;
	uint64_t v = 0;

	while (c->p < c->end && *c->p >= '0' && *c->p <= '9')
		v = v * 10 + (uint64_t)(*c->p++ - '0');
	*value = v;
	return c->p > begin && c->p - begin <= 20;
}

static bool take_char(struct cursor *c, char want)
{
	if (c->p == c->end || *c->p != want)
		return false;
	c->p++;
	return true;
}

/* "rwxs" */
static bool take_flags(struct cursor *c, unsigned int *flags)
{
	if (c->end - c->p < 4)
		return false;
	*flags = (c->p[0] == 'r' ? VT_MAP_READ : 0u) | (c->p[1] == 'w' ? VT_MAP_WRITE : 0u) |
		 (c->p[2] == 'x' ? VT_MAP_EXEC : 0u) | (c->p[3] == 's' ? VT_MAP_SHARED : 0u);
	c->p += 4;
	return true;
}

/* Everything but the path: "start-end flags offset major:minor inode", then spaces. */
static bool parse_numbers(struct cursor *c, struct vt_map_entry *entry)
{
	uint64_t dev_major, dev_minor;

	if (!take_hex(c, &entry->start) || !take_char(c, '-') || !take_hex(c, &entry->end) ||
	    !take_char(c, ' ') || !take_flags(c, &entry->flags) || !take_char(c, ' ') ||
	    !take_hex(c, &entry->offset) || !take_char(c, ' ') || !take_hex(c, &dev_major) ||
	    !take_char(c, ':') || !take_hex(c, &dev_minor) || !take_char(c, ' ') ||
	    !take_decimal(c, &entry->inode))
		return false;
	entry->dev_major = (uint32_t)dev_major;
	entry->dev_minor = (uint32_t)dev_minor;
	while (c->p < c->end && *c->p == ' ')
		c->p++;
	return entry->start < entry->end;
}

/*
 * The kernel writes a newline in a path as \012 and leaves all else alone, backslashes too
 * (seq_file_path(m, file, "\n")). So a file name that really contains the four characters \012
 * cannot be told apart; files are identified by inode.
 */
static void decode_newlines(char *path)
{
	char *to = path;

	if (!strchr(path, '\\'))
		return;
	for (const char *from = path; *from;) {
		bool newline = !strncmp(from, "\\012", 4);

		*to++ = newline ? '\n' : *from;
		from += newline ? 4 : 1;
	}
	*to = '\0';
}

/* Neighbours mostly map the same file and then share one copy of the path. */
static const char *keep_path(struct vt_maps *maps, const struct vt_map_entry *entry,
			     const struct cursor *c)
{
	size_t n = (size_t)(c->end - c->p);

	if (n == 0)
		return "";
	if (maps->entries.n > 0) {
		const struct vt_map_entry *last = &maps->entries.data[maps->entries.n - 1];

		if (last->inode == entry->inode && strlen(last->path) == n &&
		    !memcmp(last->path, c->p, n))
			return last->path;
	}

	char *path = vt_arena_strndup(&maps->arena, c->p, n);

	if (path)
		decode_newlines(path);
	return path;
}

/* 0 or a negative errno. */
static int parse_line(struct vt_maps *maps, const char *line, size_t n)
{
	struct cursor c = { .p = line, .end = line + n };
	struct vt_map_entry entry = { 0 };

	if (!parse_numbers(&c, &entry))
		return -EBADMSG;
	/*
	 * The file is not an atomic snapshot: between two reads a mapping may have grown over what
	 * was already listed. What would overlap is left out, so that the entries stay sorted and
	 * disjoint.
	 */
	if (maps->entries.n > 0 && entry.start < maps->entries.data[maps->entries.n - 1].end)
		return 0;
	entry.path = keep_path(maps, &entry, &c);
	if (!entry.path)
		return -ENOMEM;

	struct vt_map_entry *slot = vt_vec_append(&maps->entries);

	if (!slot)
		return -ENOMEM;
	*slot = entry;
	return 0;
}

static int parse(struct vt_maps *maps, const struct text *text)
{
	const char *p = text->data;
	const char *end = text->data + text->n;

	while (p < end) {
		const char *newline = memchr(p, '\n', (size_t)(end - p));
		const char *line_end = newline ? newline : end;
		int ret = parse_line(maps, p, (size_t)(line_end - p));

		if (ret)
			return ret;
		p = line_end + 1;
	}
	return 0;
}

static struct vt_error *error_of(int ret, pid_t pid)
{
	if (ret == -ENOMEM)
		return &vt_enomem;
	if (ret == -EBADMSG || ret == -EFBIG)
		return vt_error_create(VT_ERR_FORMAT, "the memory map of process %d %s", (int)pid,
				       ret == -EFBIG ? "is too large" :
						       "is not in the format of Linux");
	return vt_task_error(-ret, pid, "memory map");
}

/*
 * Kernels before 6.13 show an empty map for memory that is gone (a process that is exiting, or that
 * has executed another program since, or a kernel thread), later ones say ESRCH. So what was read
 * may be half a map: then its beginning is not there any more, either.
 */
static bool is_gone(int fd)
{
	char first;

	return pread(fd, &first, 1, 0) <= 0;
}

/* 0 or a negative errno: -ESRCH where there is none. */
static int read_map(pid_t pid, struct text *text)
{
	pid_t tid = vt_proc_view(pid);
	VT_CLOSE int fd = vt_task_open(pid, tid, "maps", O_RDONLY);
	int ret = fd < 0 ? fd : read_all(fd, text);

	return ret == 0 && is_gone(fd) ? -ESRCH : ret;
}

/*
 * The map is that of the memory which the process had when the file was opened: after an execve()
 * there is none any more, but another one.
 */
static int read_map_again(pid_t pid, struct text *text)
{
	int ret = -ESRCH;

	for (int i = 0; i < EXEC_TRIES && ret == -ESRCH; i++) {
		text->n = 0;
		ret = read_map(pid, text);
	}
	return ret;
}

struct vt_error *vt_maps_init(struct vt_maps *maps, pid_t pid)
{
	struct vt_maps fresh = { 0 };
	struct text text = { 0 };
	int ret = read_map_again(pid, &text);

	if (ret == 0)
		ret = parse(&fresh, &text);
	free(text.data);
	if (ret) {
		vt_maps_deinit(&fresh);
		return error_of(ret, pid);
	}
	*maps = fresh;
	return NULL;
}

void vt_maps_deinit(struct vt_maps *maps)
{
	vt_vec_deinit(&maps->entries);
	vt_arena_deinit(&maps->arena);
}

const struct vt_map_entry *vt_maps_find(const struct vt_maps *maps, uint64_t addr)
{
	size_t low = 0, high = maps->entries.n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (maps->entries.data[mid].end <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	if (low == maps->entries.n || addr < maps->entries.data[low].start)
		return NULL;
	return &maps->entries.data[low];
}
