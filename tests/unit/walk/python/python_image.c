/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>
#include <sys/mman.h>

#include "target/arch/arch.h"
#include "unit/walk/python/python_image.h"

#define PAGE 4096
#define FIRST_LINE 10
#define UNITS 20 /* code units of a code */

static int image_read(struct vt_memsrc *src, uint64_t addr, void *buf, size_t len)
{
	struct python_image *image = (struct python_image *)(void *)src;
	uint64_t base = (uintptr_t)image->base;

	image->reads++;
	if (image->before_read)
		image->before_read(image);
	if (addr < base || addr - base > image->size || len > image->size - (addr - base)) {
		src->fault_addr = addr < base || addr - base >= image->size ? addr :
									      base + image->size;
		return -EFAULT;
	}
	memcpy(buf, (const void *)(uintptr_t)addr, len);
	return 0;
}

uint64_t python_image_alloc(struct python_image *image, size_t size)
{
	uint64_t addr = (uintptr_t)image->base + image->used;

	size = (size + 15) & ~(size_t)15;
	assert_true(size <= image->size - image->used);
	image->used += size;
	return addr;
}

void python_image_put(struct python_image *image, uint64_t object, enum vt_py_field field,
		      uint64_t value, size_t width)
{
	if (image->layout->at[field] != VT_PY_NONE)
		memcpy((void *)(uintptr_t)(object + image->layout->at[field]), &value, width);
}

void python_image_put_u64(struct python_image *image, uint64_t object, enum vt_py_field field,
			  uint64_t value)
{
	python_image_put(image, object, field, value, sizeof(value));
}

static uint64_t add_type(struct python_image *image, const char *name)
{
	uint64_t type = python_image_alloc(image, 256), text = python_image_alloc(image, 16);

	strcpy((char *)(uintptr_t)text, name);
	python_image_put_u64(image, type, VT_PY_TYPE_NAME, text);
	return type;
}

void python_image_init(struct python_image *image, const struct vt_python_layout *layout,
		       size_t size)
{
	static const struct vt_memsrc_ops ops = { .read = image_read };

	*image =
		(struct python_image){ .src = { .ops = &ops, .coherent = true }, .layout = layout };
	image->size = (size + PAGE - 1) & ~(size_t)(PAGE - 1);
	image->base = mmap(NULL, image->size + PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(image->base, MAP_FAILED);
	assert_int_equal(mprotect(image->base + image->size, PAGE, PROT_NONE), 0);
	image->types[VT_PYTHON_CODE] = add_type(image, "code");
	image->types[VT_PYTHON_STR] = add_type(image, "str");
	image->types[VT_PYTHON_BYTES] = add_type(image, "bytes");
	image->runtime = python_image_alloc(image, 8192);
	image->interpreter = python_image_alloc(image, 16384);
	image->thread = python_image_add_thread(image, image->interpreter, 0);
	python_image_put_u64(image, image->runtime, VT_PY_RUNTIME_INTERPRETERS, image->interpreter);
	python_image_put_u64(image, image->interpreter, VT_PY_INTERP_THREADS, image->thread);
	image->gil = python_image_alloc(image, 256);
	if (layout->at[VT_PY_RUNTIME_GIL] != VT_PY_NONE)
		image->gil = image->runtime + layout->at[VT_PY_RUNTIME_GIL];
	python_image_put_u64(image, image->interpreter, VT_PY_INTERP_GIL, image->gil);
	python_image_put(image, image->gil, VT_PY_GIL_ENABLED, 1, sizeof(int32_t));
	image->code = python_image_add_code(image, "run", "/x.py");
}

void python_image_deinit(struct python_image *image)
{
	munmap(image->base, image->size + PAGE);
}

uint64_t python_image_add_thread(struct python_image *image, uint64_t interpreter, uint64_t next)
{
	uint64_t thread = python_image_alloc(image, 512);

	python_image_put_u64(image, thread, VT_PY_TSTATE_NEXT, next);
	python_image_put_u64(image, thread, VT_PY_TSTATE_INTERP, interpreter);
	if (image->layout->at[VT_PY_TSTATE_CFRAME] != VT_PY_NONE)
		python_image_put_u64(image, thread, VT_PY_TSTATE_CFRAME,
				     python_image_alloc(image, 32));
	return thread;
}

void python_image_set_top(struct python_image *image, uint64_t thread, uint64_t frame)
{
	uint64_t cframe;

	if (image->layout->at[VT_PY_TSTATE_CFRAME] == VT_PY_NONE) {
		python_image_put_u64(image, thread, VT_PY_TSTATE_FRAME, frame);
		return;
	}
	memcpy(&cframe, (const void *)(uintptr_t)(thread + image->layout->at[VT_PY_TSTATE_CFRAME]),
	       sizeof(cframe));
	python_image_put_u64(image, cframe, VT_PY_CFRAME_FRAME, frame);
}

uint64_t python_image_add_frame(struct python_image *image, uint64_t code, int32_t lasti,
				uint64_t previous)
{
	uint64_t frame = python_image_alloc(image, 160);

	python_image_put_u64(image, frame, VT_PY_FRAME_CODE, code);
	python_image_put_u64(image, frame, VT_PY_FRAME_PREVIOUS, previous);
	python_image_put_u64(image, frame, VT_PY_FRAME_INSTR,
			     code + image->layout->at[VT_PY_CODE_BYTECODE] +
				     (uint64_t)(int64_t)lasti);
	if (lasti > 0)
		lasti /= (int32_t)image->layout->at[VT_PY_LASTI_SCALE];
	python_image_put(image, frame, VT_PY_FRAME_LASTI, (uint32_t)lasti, sizeof(lasti));
	image->last_frame = frame;
	return frame;
}

uint64_t python_image_add_shim(struct python_image *image, uint64_t previous)
{
	if (image->layout->at[VT_PY_OWNER_SHIM] == VT_PY_NONE)
		return previous;

	uint64_t shim = python_image_add_frame(image, 0, 0, previous);

	python_image_put(image, shim, VT_PY_FRAME_OWNER, image->layout->at[VT_PY_OWNER_SHIM], 1);
	return shim;
}

uint64_t python_image_add_str(struct python_image *image, unsigned int kind, bool ascii,
			      const void *text, size_t n)
{
	const struct vt_python_layout *layout = image->layout;
	size_t head = layout->at[ascii ? VT_PY_UNICODE_ASCII_DATA : VT_PY_UNICODE_COMPACT_DATA];
	uint64_t str = python_image_alloc(image, head + (n + 1) * kind);
	uint32_t state = kind << layout->at[VT_PY_STATE_KIND_SHIFT] |
			 layout->at[VT_PY_STATE_COMPACT];

	if (ascii)
		state |= layout->at[VT_PY_STATE_ASCII];
	if (layout->at[VT_PY_STATE_READY] != VT_PY_NONE)
		state |= layout->at[VT_PY_STATE_READY];
	python_image_put_u64(image, str, VT_PY_OBJECT_TYPE, image->types[VT_PYTHON_STR]);
	python_image_put_u64(image, str, VT_PY_UNICODE_LENGTH, n);
	python_image_put(image, str, VT_PY_UNICODE_STATE, state, sizeof(state));
	memcpy((void *)(uintptr_t)(str + head), text, n * kind);
	return str;
}

uint64_t python_image_add_ascii(struct python_image *image, const char *text)
{
	return python_image_add_str(image, 1, true, text, strlen(text));
}

/* One line for each two code units, in each of the three formats. */
static size_t make_table(enum vt_python_line_table kind, uint8_t table[64])
{
	size_t n = 0;

	for (int i = 0; i < UNITS / 2; i++) {
		if (kind == VT_PY_LINES_PEP657) {
			table[n++] = 0x80 | 13 << 3 | (2 - 1); /* no columns, two units */
			table[n++] = i ? 1 << 1 : 0;
		} else if (kind == VT_PY_LINES_PEP626) {
			table[n++] = 4;
			table[n++] = i ? 1 : 0;
		} else {
			table[n++] = 4; /* after four bytes the line moves by one */
			table[n++] = 1;
		}
	}
	return n;
}

int python_image_line(int32_t lasti)
{
	return lasti < 0 ? FIRST_LINE : FIRST_LINE + lasti / 4;
}

uint64_t python_image_add_code(struct python_image *image, const char *name, const char *file)
{
	uint64_t code = python_image_alloc(image, 512), bytes = python_image_alloc(image, 256);
	uint8_t table[64];
	size_t n = make_table(image->layout->lines, table);

	python_image_put_u64(image, bytes, VT_PY_OBJECT_TYPE, image->types[VT_PYTHON_BYTES]);
	python_image_put_u64(image, bytes, VT_PY_OBJECT_SIZE, n);
	memcpy((void *)(uintptr_t)(bytes + image->layout->at[VT_PY_BYTES_DATA]), table, n);
	python_image_put_u64(image, code, VT_PY_OBJECT_TYPE, image->types[VT_PYTHON_CODE]);
	python_image_put_u64(image, code, VT_PY_CODE_LINETABLE, bytes);
	python_image_put(image, code, VT_PY_CODE_FIRSTLINENO, FIRST_LINE, sizeof(int32_t));
	python_image_put_u64(image, code, VT_PY_CODE_NAME, python_image_add_ascii(image, name));
	python_image_put_u64(image, code, VT_PY_CODE_QUALNAME, python_image_add_ascii(image, name));
	python_image_put_u64(image, code, VT_PY_CODE_FILENAME, python_image_add_ascii(image, file));
	return code;
}

void python_image_start(const struct python_image *image, struct vt_python *py)
{
	*py = (struct vt_python){
		.major = image->layout->major,
		.minor = image->layout->minor,
		.arch = &vt_arch_x86_64, /* of its struct pthread */
		.runtime = image->runtime,
		.layout = image->layout,
	};
}
