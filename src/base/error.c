/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char enomem_message[] = "out of memory";
struct vt_error vt_enomem = { .code = VT_ERR_NOMEM, .message = enomem_message };

static const char *const code_names[] = {
	[VT_ERR_NOMEM] = "nomem",
	[VT_ERR_OS] = "os",
	[VT_ERR_GONE] = "gone",
	[VT_ERR_FAULT] = "fault",
	[VT_ERR_PERMISSION] = "permission",
	[VT_ERR_UNSUPPORTED] = "unsupported",
	[VT_ERR_TIMEOUT] = "timeout",
	[VT_ERR_BUSY] = "busy",
	[VT_ERR_FORMAT] = "format",
	[VT_ERR_NOTFOUND] = "notfound",
	[VT_ERR_INTERRUPTED] = "interrupted",
	[VT_ERR_CLOSED] = "closed",
};

static struct vt_error *create(enum vt_error_code code, int errnum, uint64_t address,
			       const char *format, va_list args)
{
	VT_FREE char *text = NULL;

	if (vasprintf(&text, format, args) < 0) {
		text = NULL;
		return &vt_enomem;
	}
	if (errnum) {
		char *with_errno;

		if (asprintf(&with_errno, "%s: %s", text, strerror(errnum)) < 0)
			return &vt_enomem;
		free(text);
		text = with_errno;
	}

	struct vt_error *err = malloc(sizeof(*err));

	if (!err)
		return &vt_enomem;
	*err = (struct vt_error){
		.code = code, .errnum = errnum, .address = address, .message = vt_steal(text)
	};
	return err;
}

struct vt_error *vt_error_create(enum vt_error_code code, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	struct vt_error *err = create(code, 0, 0, format, args);
	va_end(args);
	return err;
}

struct vt_error *vt_error_create_os(int errnum, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	struct vt_error *err = create(VT_ERR_OS, errnum, 0, format, args);
	va_end(args);
	return err;
}

struct vt_error *vt_error_create_fault(uint64_t address, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	struct vt_error *err = create(VT_ERR_FAULT, 0, address, format, args);
	va_end(args);
	return err;
}

struct vt_error *vt_error_prefix(struct vt_error *err, const char *format, ...)
{
	VT_FREE char *prefix = NULL;
	char *joined;
	va_list args;

	if (err == &vt_enomem)
		return err;
	va_start(args, format);
	int n = vasprintf(&prefix, format, args);
	va_end(args);
	if (n < 0) {
		prefix = NULL;
		return err;
	}
	if (asprintf(&joined, "%s: %s", prefix, err->message) < 0)
		return err;
	free(err->message);
	err->message = joined;
	return err;
}

void vt_error_destroy(struct vt_error *err)
{
	if (!err || err == &vt_enomem)
		return;
	free(err->message);
	free(err);
}

bool vt_error_catch(struct vt_error **err, enum vt_error_code code)
{
	if (!*err || (*err)->code != code)
		return false;
	vt_error_destroy(*err);
	*err = NULL;
	return true;
}

const char *vt_error_code_name(enum vt_error_code code)
{
	return code_names[code];
}
