/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Python interpreter built by hand in a buffer, with any of the known layouts, and a memory
 * source that knows exactly what is mapped: the buffer, which ends at an unmapped page. Tests
 * damage it and look what the walk makes of that.
 */
#ifndef VT_TESTS_PYTHON_IMAGE_H
#define VT_TESTS_PYTHON_IMAGE_H

#include "walk/python/layout.h"
#include "walk/python/object.h"

struct python_image {
	struct vt_memsrc src;
	const struct vt_python_layout *layout;
	uint8_t *base; /* addresses of the pretended target are real ones */
	size_t size, used;
	uint64_t runtime, interpreter, gil;
	uint64_t types[VT_PYTHON_N_TYPES];
	uint64_t thread;     /* the first one */
	uint64_t code;       /* of function "run" in "/x.py", lines as python_image_line() says */
	uint64_t last_frame; /* the innermost one that was added */
	size_t reads;
	/* Called before each read, to change the target under the walk's eyes. */
	void (*before_read)(struct python_image *image);
};

/* One interpreter with one thread without frames. */
void python_image_init(struct python_image *image, const struct vt_python_layout *layout,
		       size_t size);
void python_image_deinit(struct python_image *image);

/* Room in the image, zeroed and 16-byte aligned. */
uint64_t python_image_alloc(struct python_image *image, size_t size);

/* Sets a field; not there in this layout: does nothing. */
void python_image_put(struct python_image *image, uint64_t object, enum vt_py_field field,
		      uint64_t value, size_t width);
void python_image_put_u64(struct python_image *image, uint64_t object, enum vt_py_field field,
			  uint64_t value);

uint64_t python_image_add_thread(struct python_image *image, uint64_t interpreter, uint64_t next);

/* Sets the innermost frame of a thread. */
void python_image_set_top(struct python_image *image, uint64_t thread, uint64_t frame);

/* A frame at byte offset lasti of code, called by the frame at previous. Python functions only. */
uint64_t python_image_add_frame(struct python_image *image, uint64_t code, int32_t lasti,
				uint64_t previous);

/*
 * The evaluator's own frame; releases before 3.12 have none, and the last added frame becomes an
 * entry where that is marked.
 */
uint64_t python_image_add_shim(struct python_image *image, uint64_t previous);

/* Strings. kind 1, 2 or 4; text has n characters of that size. */
uint64_t python_image_add_str(struct python_image *image, unsigned int kind, bool ascii,
			      const void *text, size_t n);
uint64_t python_image_add_ascii(struct python_image *image, const char *text);
uint64_t python_image_add_code(struct python_image *image, const char *name, const char *file);

/* The line of the instruction at lasti of a code that python_image_add_code() made. */
int python_image_line(int32_t lasti);

/* py for this image, as vt_python_init() would leave it. */
void python_image_start(const struct python_image *image, struct vt_python *py);

#endif
