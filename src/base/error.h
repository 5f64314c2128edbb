/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors are objects. A fallible function returns NULL for success or an error that the caller owns
 * and must pass on or destroy. Running out of memory is a static object, so reporting it needs no
 * memory.
 */
#ifndef VT_BASE_ERROR_H
#define VT_BASE_ERROR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"

enum vt_error_code {
	VT_ERR_NOMEM, /* this tool ran out of memory */
	VT_ERR_OS,    /* a system call failed; errnum says how */
	VT_ERR_GONE,  /* the target (or the thread) does not exist any more */
	/* an address of the target cannot be read; address is the first bad one */
	VT_ERR_FAULT,
	/* the kernel or a policy forbids it; the message says what would allow it */
	VT_ERR_PERMISSION,
	VT_ERR_UNSUPPORTED, /* a kind of target that is understood and refused */
	VT_ERR_TIMEOUT,     /* a deadline passed */
	VT_ERR_BUSY,        /* another process holds what is needed; the message names it */
	VT_ERR_FORMAT,      /* bytes of the target or of a file do not make sense */
	VT_ERR_NOTFOUND,    /* what was looked for is not there */
	VT_ERR_INTERRUPTED, /* the user asked to stop */
	VT_ERR_CLOSED,      /* nobody reads the output any more: the user has seen enough */
};

struct vt_error {
	enum vt_error_code code;
	int errnum;       /* errno, or 0 */
	uint64_t address; /* of the target, for VT_ERR_FAULT; else 0 */
	char *message;    /* one line of English without a full stop; never NULL */
};

/*
 * The result of creating an error when there is no memory for one. Destroying it is allowed and
 * does nothing.
 */
extern struct vt_error vt_enomem;

/*
 * Each returns a new error (or &vt_enomem); never NULL. The _os form appends the text of errnum to
 * the message.
 */
struct vt_error *vt_error_create(enum vt_error_code code, const char *format, ...)
	__attribute__((format(printf, 2, 3), returns_nonnull));
struct vt_error *vt_error_create_os(int errnum, const char *format, ...)
	__attribute__((format(printf, 2, 3), returns_nonnull));
struct vt_error *vt_error_create_fault(uint64_t address, const char *format, ...)
	__attribute__((format(printf, 2, 3), returns_nonnull));

/* Puts "text: " before the message of err, keeps everything else. Returns err (or &vt_enomem). */
struct vt_error *vt_error_prefix(struct vt_error *err, const char *format, ...)
	__attribute__((format(printf, 2, 3), returns_nonnull));

/* NULL is fine. */
void vt_error_destroy(struct vt_error *err);

/*
 * True and *err destroyed and set to NULL if *err has this code; false otherwise (also for NULL).
 */
bool vt_error_catch(struct vt_error **err, enum vt_error_code code);

/* The stable lower-case name of a code for machines: "gone", "permission", ... */
const char *vt_error_code_name(enum vt_error_code code);

static inline void vt_cleanup_errorp(struct vt_error **err)
{
	vt_error_destroy(*err);
}
#define VT_ERROR VT_CLEANUP(vt_cleanup_errorp)

/* Returns from the calling function with the error, if there is one. */
#define VT_TRY(expr)                               \
	do {                                       \
		struct vt_error *vt_try_ = (expr); \
		if (vt_try_)                       \
			return vt_try_;            \
	} while (0)

#endif
