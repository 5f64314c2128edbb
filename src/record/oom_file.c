/* SPDX-License-Identifier: Apache-2.0 */
#include "record/oom_file.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "report/save.h"

#define MAX_NUMBER 1000
#define SUFFIX ".json"

bool vt_oom_pattern_is_valid(const char *pattern)
{
	for (const char *c = strchr(pattern, '%'); c; c = strchr(c + 2, '%'))
		if (!c[1] || !strchr("hpt%", c[1]))
			return false;
	return true;
}

bool vt_oom_pattern_has_pid(const char *pattern)
{
	for (const char *c = strchr(pattern, '%'); c && c[1]; c = strchr(c + 2, '%'))
		if (c[1] == 'p')
			return true;
	return false;
}

/* A host's name is the administrator's, and goes into a file's name. */
static void add_host(struct vt_str *name)
{
	static const char allowed[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
	struct utsname host;

	if (uname(&host) || !host.nodename[0])
		strcpy(host.nodename, "host");
	for (const char *c = host.nodename; *c; c++)
		vt_str_addn(name, strchr(allowed, *c) && (*c != '.' || c > host.nodename) ? c : "_",
			    1);
}

static void add_time(struct vt_str *name, time_t when)
{
	char text[32];
	struct tm tm;

	if (gmtime_r(&when, &tm) && strftime(text, sizeof(text), "%Y%m%dT%H%M%SZ", &tm))
		vt_str_add(name, text);
}

static void add_expanded(struct vt_str *name, const char *pattern, pid_t pid, time_t when)
{
	for (const char *c = pattern; *c; c++) {
		if (*c != '%' || !c[1]) {
			vt_str_addn(name, c, 1);
			continue;
		}
		c++;
		if (*c == 'h')
			add_host(name);
		else if (*c == 'p')
			vt_str_addf(name, "%d", (int)pid);
		else if (*c == 't')
			add_time(name, when);
		else
			vt_str_addn(name, c, 1);
	}
}

static bool is_directory(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISDIR(st.st_mode);
}

/* A device, a pipe: it is written to as it is. */
static bool is_special(const char *path)
{
	struct stat st;

	return !stat(path, &st) && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

/* Where ".json" begins, or the end of the name. */
static size_t stem_of(const char *path)
{
	size_t n = strlen(path), suffix = sizeof(SUFFIX) - 1;

	return n > suffix && !strcmp(path + n - suffix, SUFFIX) ? n - suffix : n;
}

static char *text_or_null(struct vt_str *text)
{
	if (!text->failed)
		return text->data ? text->data : strdup("");
	vt_str_deinit(text);
	return NULL;
}

/* The name before anything is known to be there: of a directory, the one in it. */
static char *first_name(const struct vt_oom_file *file, time_t when)
{
	bool in_directory = is_directory(file->pattern);
	struct vt_str name = { 0 };

	if (in_directory) {
		vt_str_addf(&name, "%s/", file->pattern);
		add_expanded(&name, VT_OOM_FILE_PATTERN, file->pid, when);
	} else {
		add_expanded(&name, file->pattern, file->pid, when);
	}
	if (!in_directory && file->add_pid && !vt_oom_pattern_has_pid(file->pattern) &&
	    !name.failed && !is_special(vt_str_get(&name))) {
		size_t stem = stem_of(vt_str_get(&name));
		struct vt_str with_pid = { 0 };

		vt_str_addf(&with_pid, "%.*s-%d%s", (int)stem, vt_str_get(&name), (int)file->pid,
			    vt_str_get(&name) + stem);
		vt_str_deinit(&name);
		name = with_pid;
	}
	return text_or_null(&name);
}

/* "oom.json", "oom-2.json", ... */
static char *numbered(const char *path, unsigned int number)
{
	size_t stem = stem_of(path);
	struct vt_str name = { 0 };

	vt_str_addn(&name, path, stem);
	if (number > 1)
		vt_str_addf(&name, "-%u", number);
	vt_str_add(&name, path + stem);
	return text_or_null(&name);
}

/* With ".txt" in place of ".json". */
static char *name_of_text(const char *json)
{
	struct vt_str name = { 0 };

	vt_str_addn(&name, json, stem_of(json));
	vt_str_add(&name, ".txt");
	return text_or_null(&name);
}

/* In the first of these names that is free. */
static struct vt_error *save_as(const char *path, const struct vt_model *model,
				const struct vt_writer_options *options, char **ret)
{
	for (unsigned int number = 1; number <= MAX_NUMBER; number++) {
		VT_FREE char *name = numbered(path, number);
		struct vt_error *err;

		if (!name)
			return &vt_enomem;
		err = is_special(name) ? vt_save(vt_write_report_json, model, options, name) :
					 vt_save_new(vt_write_report_json, model, options, name);
		if (!err) {
			*ret = name;
			name = NULL;
			return NULL;
		}
		if (err->errnum != EEXIST)
			return err;
		vt_error_destroy(err);
	}
	return vt_error_create(VT_ERR_BUSY, "cannot write %s: there are %d files of such a name",
			       path, MAX_NUMBER);
}

static struct vt_error *save_instead(const struct vt_oom_file *file, const struct vt_model *model,
				     char **ret)
{
	const char *directory = getenv("TMPDIR");
	struct vt_oom_file temporary = *file;
	VT_FREE char *path = NULL;

	temporary.pattern = directory && *directory ? directory : "/tmp";
	if (!is_directory(temporary.pattern))
		return vt_error_create_os(ENOTDIR, "%s", temporary.pattern);
	path = first_name(&temporary, model->when.tv_sec);
	return path ? save_as(path, model, &file->text, ret) : &vt_enomem;
}

/* The same to read, if it can be had. */
static void save_text(const struct vt_oom_file *file, const struct vt_model *model,
		      struct vt_oom_saved *saved)
{
	VT_FREE char *path = is_special(saved->json) ? NULL : name_of_text(saved->json);
	VT_ERROR struct vt_error *err = NULL;
	struct vt_writer_hints hints = vt_hints_command_line;
	struct vt_writer_options options = file->text;

	if (!path)
		return;
	hints.json = saved->json;
	options.hints = &hints;
	err = vt_save_new(vt_write_report_text, model, &options, path);
	if (err)
		return;
	saved->text = path;
	path = NULL;
}

void vt_oom_saved_deinit(struct vt_oom_saved *saved)
{
	free(saved->json);
	free(saved->text);
	vt_error_destroy(saved->instead);
	*saved = (struct vt_oom_saved){ 0 };
}

struct vt_error *vt_oom_save(const struct vt_oom_file *file, const struct vt_model *model,
			     struct vt_oom_saved *saved)
{
	VT_FREE char *path = first_name(file, model->when.tv_sec);
	struct vt_oom_saved now = { 0 };
	struct vt_error *err;

	if (!path)
		return &vt_enomem;
	err = save_as(path, model, &file->text, &now.json);
	if (err && err->code == VT_ERR_OS) {
		struct vt_error *second = save_instead(file, model, &now.json);

		vt_error_destroy(second);
		if (!second) {
			now.instead = err;
			err = NULL;
		}
	}
	if (err)
		return err;
	if (file->with_text)
		save_text(file, model, &now);
	*saved = now;
	return NULL;
}

/* ---- before anything waits ---- */

struct vt_error *vt_oom_pattern_check(const char *pattern)
{
	const struct vt_oom_file file = { .pattern = pattern, .pid = 1 };
	VT_FREE char *path = first_name(&file, 0);
	char *slash = path ? strrchr(path, '/') : NULL;
	const char *directory;

	if (!path)
		return &vt_enomem;
	if (is_special(path))
		return access(path, W_OK) ?
			       vt_error_create_os(errno, "cannot write the report to %s", pattern) :
			       NULL;
	if (slash)
		slash[slash == path] = '\0';
	directory = slash ? path : ".";
	if (access(directory, W_OK | X_OK))
		return vt_error_create_os(errno, "cannot write the report to %s",
					  slash ? pattern : "the current directory");
	return NULL;
}
