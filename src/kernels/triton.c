/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After triton/knobs.py and runtime/cache.py (2.1 to 3.6), and torch/_inductor/runtime/
 * cache_dir_utils.py (PyTorch 2.5 to 2.11).
 */
#include "kernels/triton.h"

#include <limits.h>
#include <string.h>

#define MAX_NAME 240 /* a file's name has 255 bytes at most, with its ending */
#define MAX_DEVICES 16

bool vt_triton_is_name(const char *name)
{
	size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");

	return n && !name[n] && n <= MAX_NAME && (*name < '0' || *name > '9');
}

/* ---- a file ---- */

/* "@NAME(": the function that the module has. */
static bool has_function(struct vt_span text, const char *name)
{
	size_t n = strlen(name);

	while (text.n) {
		const char *at = memchr(text.p, '@', text.n);

		if (!at)
			return false;
		vt_span_skip(&text, (size_t)(at - text.p) + 1);
		if (text.n > n && !memcmp(text.p, name, n) && text.p[n] == '(')
			return true;
	}
	return false;
}

static bool take_number(struct vt_span *rest, int *number)
{
	long value = 0;
	size_t n = 0;

	for (; n < rest->n && rest->p[n] >= '0' && rest->p[n] <= '9' && value <= INT_MAX; n++)
		value = value * 10 + (rest->p[n] - '0');
	if (!n || value > INT_MAX)
		return false;
	vt_span_skip(rest, n);
	*number = (int)value;
	return true;
}

/* '"/tmp/x.py":18:0)'; MLIR escapes by backslashes what no sane name has. */
static bool take_place(struct vt_span rest, struct vt_span *file, int *line)
{
	const char *end = rest.n > 1 ? memchr(rest.p + 1, '"', rest.n - 1) : NULL;
	struct vt_span name;
	int column;

	if (!end || !vt_span_take(&rest, "\""))
		return false;
	name = (struct vt_span){ rest.p, (size_t)(end - rest.p) };
	if (!name.n || name.n >= PATH_MAX || *name.p != '/' || memchr(name.p, '\\', name.n) ||
	    memchr(name.p, '\n', name.n) || memchr(name.p, '\0', name.n))
		return false;
	vt_span_skip(&rest, name.n + 1);
	if (!vt_span_take(&rest, ":") || !take_number(&rest, line) || !*line ||
	    !vt_span_take(&rest, ":") || !take_number(&rest, &column) || !vt_span_take(&rest, ")"))
		return false;
	*file = name;
	return true;
}

bool vt_triton_read_place(const char *text, size_t n, const char *name, struct vt_span *file,
			  int *line)
{
	static const char key[] = "#loc = loc(";
	struct vt_span rest = { text, n };

	if (!has_function(rest, name))
		return false;
	while (rest.n) {
		const char *end = memchr(rest.p, '\n', rest.n);
		struct vt_span at = { rest.p, end ? (size_t)(end - rest.p) : rest.n };

		vt_span_skip(&rest, at.n + (end ? 1 : 0));
		if (vt_span_take(&at, key))
			return take_place(at, file, line);
	}
	return false;
}

int vt_triton_read_line(const char *text, size_t n, const char *name)
{
	struct vt_span rest = { text, n };
	int line = 0;

	if (memmem(text, n, "async_compile", 13))
		return 0;
	while (rest.n && line < INT_MAX) {
		const char *end = memchr(rest.p, '\n', rest.n);
		struct vt_span at = { rest.p, end ? (size_t)(end - rest.p) : rest.n };

		line++;
		vt_span_skip(&rest, at.n + (end ? 1 : 0));
		if (vt_span_take(&at, "def ") && vt_span_take(&at, name) && vt_span_take(&at, "("))
			return line;
	}
	return 0;
}

/* ---- where caches are ---- */

/* NULL: it is not set, or empty. */
static const char *variable(const char *environment, size_t n, const char *name)
{
	size_t len = strlen(name);

	for (const char *at = environment; at < environment + n; at += strlen(at) + 1)
		if (!strncmp(at, name, len) && at[len] == '=' && at[len + 1])
			return at + len + 1;
	return NULL;
}

static const char *first_of(const char *environment, size_t n, const char *const *names,
			    size_t n_names)
{
	const char *found = NULL;

	for (size_t i = 0; !found && i < n_names; i++)
		found = variable(environment, n, names[i]);
	return found;
}

/* As tempfile.gettempdir() and getpass.getuser() have it. */
void vt_triton_inductor(const char *environment, size_t n, const char *user, struct vt_str *path)
{
	static const char *const tmps[] = { "TMPDIR", "TEMP", "TMP" }, *const users[] = {
		"LOGNAME", "USER", "LNAME", "USERNAME"
	};
	const char *set = variable(environment, n, "TORCHINDUCTOR_CACHE_DIR");
	const char *tmp = first_of(environment, n, tmps, sizeof(tmps) / sizeof(tmps[0]));
	const char *name = first_of(environment, n, users, sizeof(users) / sizeof(users[0]));

	if (set) {
		vt_str_add(path, set);
		return;
	}
	vt_str_addf(path, "%s/torchinductor_", tmp ? tmp : "/tmp");
	for (const char *at = name ? name : user; *at; at++)
		vt_str_addn(path, strchr("\\/:*?\"<>|", *at) ? "_" : at, 1);
}

static void add_home(const char *environment, size_t n, struct vt_str *path)
{
	static const char *const homes[] = { "TRITON_HOME", "HOME" };
	const char *home = first_of(environment, n, homes, sizeof(homes) / sizeof(homes[0]));

	vt_str_addf(path, "%s/.triton/cache", home ? home : "/root");
}

bool vt_triton_cache(const char *environment, size_t n, const char *user, unsigned int number,
		     struct vt_str *path)
{
	const char *set = variable(environment, n, "TRITON_CACHE_DIR");

	vt_str_clear(path);
	if (set) {
		vt_str_add(path, set);
		return number == 0;
	}
	if (number > MAX_DEVICES)
		return false;
	if (number == 0) {
		add_home(environment, n, path);
		return true;
	}
	vt_triton_inductor(environment, n, user, path);
	vt_str_addf(path, "/triton/%u", number - 1);
	return true;
}
