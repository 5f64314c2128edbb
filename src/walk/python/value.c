/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers, strings and None look as repr() shows them. Containers show their first elements, one
 * level deep. All other objects show their type only. An object of a class derived from a built-in
 * type is <Class value>, because its own repr() may differ.
 */
#include "walk/python/value.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
	SHOWN_TEXT = 60,        /* characters of a string, bytes of a bytes object */
	SHOWN_TEXT_INSIDE = 20, /* of one in a container */
	SHOWN_ITEMS = 4,        /* of a container */
	MAX_SLOTS = 64,         /* of a table that are examined for them */
	/* bits of a digit of int (PYLONG_BITS_IN_DIGIT of all 64-bit builds) */
	LONG_SHIFT = 30,
	MAX_LONG_DIGITS = 8, /* 240 bits: 72 decimal digits; larger numbers show only their size */
};

struct value {
	struct vt_py_values *values;
	struct vt_python *py;
	struct vt_memsrc *src;
	const struct vt_python_layout *layout;
	struct vt_str *out;
	uint64_t object;
	bool inside; /* of a container */
	bool nomem;
};

static void add_object(struct value *parent, uint64_t object);

void vt_py_values_deinit(struct vt_py_values *values)
{
	vt_py_types_deinit(&values->types);
}

/*
 * A value that no field has: no length is so large, and nothing is at such an address. 0 would be
 * an empty container.
 */
#define UNREADABLE (UINT64_C(1) << 63)

static uint64_t field(const struct value *v, enum vt_py_field name)
{
	uint64_t value;

	return vt_py_field_u64(v->src, v->layout, v->object, name, &value) ? UNREADABLE : value;
}

static uint64_t item_at(const struct value *v, uint64_t addr)
{
	uint64_t item;

	return vt_mem_read_u64(v->src, addr, &item) ? 0 : item;
}

/* ---- numbers ---- */

/* Number of digits and sign of an int. False if it is invalid. */
static bool long_head(const struct value *v, uint64_t *n, bool *negative)
{
	/* of lv_tag (Include/cpython/longintrepr.h, 3.12 on) */
	enum { SIGN_MASK = 3, SIGN_NEGATIVE = 2, TAG_SHIFT = 3 };

	if (vt_py_has(v->layout, VT_PY_LONG_TAG)) {
		uint64_t tag = field(v, VT_PY_LONG_TAG);

		*n = (tag & SIGN_MASK) == 1 ? 0 : tag >> TAG_SHIFT;
		*negative = (tag & SIGN_MASK) == SIGN_NEGATIVE;
	} else {
		int64_t size = (int64_t)field(v, VT_PY_OBJECT_SIZE);

		*negative = size < 0;
		*n = size < 0 ? -(uint64_t)size : (uint64_t)size;
	}
	return *n < UINT32_MAX;
}

/* Decimal text of n digits to base 2^30, lowest first; destroys them. */
static void add_decimal(struct value *v, uint32_t *digits, size_t n)
{
	/* a digit makes a little more than nine decimal ones */
	char text[MAX_LONG_DIGITS * 10 + 1];
	size_t at = sizeof(text) - 1;

	text[at] = '\0';
	do {
		uint64_t rest = 0;

		for (size_t i = n; i-- > 0;) {
			rest = rest << LONG_SHIFT | digits[i];
			digits[i] = (uint32_t)(rest / 10);
			rest %= 10;
		}
		text[--at] = (char)('0' + rest);
		while (n && !digits[n - 1])
			n--;
	} while (n && at);
	vt_str_add(v->out, text + at);
}

static void add_long(struct value *v)
{
	uint32_t digits[MAX_LONG_DIGITS] = { 0 };
	uint64_t n, start = v->object + v->layout->at[VT_PY_LONG_DIGITS];
	bool negative;

	if (!long_head(v, &n, &negative) ||
	    (n && vt_mem_read(v->src, n > MAX_LONG_DIGITS ? start + (n - 1) * 4 : start, digits,
			      n > MAX_LONG_DIGITS ? 4 : n * 4))) {
		vt_str_add(v->out, "?");
		return;
	}
	for (size_t i = 0; i < MAX_LONG_DIGITS; i++) {
		if (digits[i] >> LONG_SHIFT) {
			vt_str_add(v->out, "?");
			return;
		}
	}
	if (n <= MAX_LONG_DIGITS) {
		vt_str_add(v->out, negative ? "-" : "");
		add_decimal(v, digits, n);
		return;
	}

	uint64_t bits = (n - 1) * LONG_SHIFT;

	for (uint32_t top = digits[0]; top; top >>= 1)
		bits++;
	vt_str_addf(v->out, "<%sint of %llu bits>", negative ? "negative " : "",
		    (unsigned long long)bits);
}

static void add_bool(struct value *v)
{
	uint64_t n;
	bool negative;

	if (!long_head(v, &n, &negative) || n > 1 || negative)
		vt_str_add(v->out, "?");
	else
		vt_str_add(v->out, n ? "True" : "False");
}

/*
 * repr() of a float: the shortest text that reads back as the same number; an exponent from 1e16 on
 * and below 1e-4.
 */
static void add_float(struct value *v)
{
	uint64_t bits;
	double number;
	char text[40];

	if (vt_py_field_u64(v->src, v->layout, v->object, VT_PY_FLOAT_VALUE, &bits)) {
		vt_str_add(v->out, "?");
		return;
	}
	memcpy(&number, &bits, sizeof(number));
	if (isnan(number)) {
		vt_str_add(v->out, "nan"); /* Python shows no sign */
		return;
	}
	/* %g omits trailing zeros; only denormal numbers need fewer than 15 digits. */
	for (int digits = fabs(number) < DBL_MIN ? 1 : 15; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, number);
		if (strtod(text, NULL) == number)
			break;
	}
	/* %g uses an exponent from as many digits on as there are. */
	if (strchr(text, 'e') && fabs(number) >= 1 && fabs(number) < 1e16)
		snprintf(text, sizeof(text), "%.0f", number);
	/* all 17 digits were needed */
	else if (!strchr(text, 'e') && fabs(number) >= 1e16 && !isinf(number))
		snprintf(text, sizeof(text), "%.16e", number);
	vt_str_add(v->out, text);
	if (!strpbrk(text, ".en"))
		vt_str_add(v->out, ".0");
}

/* ---- strings ---- */

/* One character as repr() shows it. */
static void add_char(struct value *v, const char *text, size_t n, char quote)
{
	static const char *const short_forms[] = {
		['\n'] = "\\n", ['\r'] = "\\r", ['\t'] = "\\t", ['\\'] = "\\\\"
	};
	unsigned char c = (unsigned char)*text;

	if (n > 1)
		vt_str_addn(v->out, text, n);
	else if (c == (unsigned char)quote)
		vt_str_addf(v->out, "\\%c", quote);
	else if (c < sizeof(short_forms) / sizeof(short_forms[0]) && short_forms[c])
		vt_str_add(v->out, short_forms[c]);
	else if (c < 0x20 || c >= 0x7f)
		vt_str_addf(v->out, "\\x%02x", c);
	else
		vt_str_addn(v->out, text, 1);
}

/*
 * A lone surrogate: anything that was not UTF-8 (os.fsdecode) is one. As three bytes; 0: there is
 * none.
 */
static unsigned int surrogate(const char *text, size_t n)
{
	const unsigned char *bytes = (const unsigned char *)text;

	if (n < 3 || bytes[0] != 0xed || bytes[1] < 0xa0)
		return 0;
	return 0xd000 | (bytes[1] & 0x3fu) << 6 | (bytes[2] & 0x3fu);
}

static size_t shown_text(const struct value *v)
{
	return v->inside ? SHOWN_TEXT_INSIDE : SHOWN_TEXT;
}

static void add_str(struct value *v)
{
	char text[VT_PY_STR_MAX + 1];
	uint64_t length = field(v, VT_PY_UNICODE_LENGTH);
	int n = vt_py_str_read_start(v->py, v->src, v->object, shown_text(v), text);
	char quote = '\'';

	if (n < 0) {
		vt_str_add(v->out, "?");
		return;
	}
	if (memchr(text, '\'', (size_t)n) && !memchr(text, '"', (size_t)n))
		quote = '"';
	vt_str_addf(v->out, "%c", quote);
	for (size_t at = 0; at < (size_t)n;) {
		unsigned int code_point, alone = surrogate(text + at, (size_t)n - at);
		size_t len = alone ? 3 : vt_utf8_sequence(text + at, (size_t)n - at, &code_point);

		if (alone)
			vt_str_addf(v->out, "\\u%04x", alone);
		else if (len > 1 && code_point < 0xa0) /* control characters of Latin-1 */
			vt_str_addf(v->out, "\\x%02x", code_point);
		else
			add_char(v, text + at, len ? len : 1, quote);
		at += len ? len : 1;
	}
	vt_str_addf(v->out, "%s%c", length > shown_text(v) ? "…" : "", quote);
	if (length > shown_text(v))
		vt_str_addf(v->out, " (%llu characters)", (unsigned long long)length);
}

static void add_bytes(struct value *v)
{
	uint64_t size = field(v, VT_PY_OBJECT_SIZE),
		 n = size < shown_text(v) ? size : shown_text(v);
	char text[SHOWN_TEXT], quote = '\'';

	if (size > INT64_MAX ||
	    (n && vt_mem_read(v->src, v->object + v->layout->at[VT_PY_BYTES_DATA], text, n))) {
		vt_str_add(v->out, "?");
		return;
	}
	if (n && memchr(text, '\'', n) && !memchr(text, '"', n))
		quote = '"';
	vt_str_addf(v->out, "b%c", quote);
	for (size_t i = 0; i < n; i++)
		add_char(v, text + i, 1, quote);
	vt_str_addf(v->out, "%s%c", size > n ? "…" : "", quote);
	if (size > n)
		vt_str_addf(v->out, " (%llu bytes)", (unsigned long long)size);
}

/* ---- containers ---- */

/* After the shown elements; the container has n of this size. */
static void add_rest(struct value *v, size_t n, uint64_t size)
{
	if (size > n)
		vt_str_addf(v->out, "%s… %llu more", n ? ", " : "", (unsigned long long)(size - n));
}

/* A length that no container can have: it is not a container. */
static bool is_absurd(uint64_t size)
{
	return size > UINT64_C(1) << 48;
}

static void add_array(struct value *v, uint64_t items, const char *brackets)
{
	uint64_t size = field(v, VT_PY_OBJECT_SIZE);
	size_t n = 0;

	if (is_absurd(size)) {
		vt_str_add(v->out, "?");
		return;
	}
	vt_str_addn(v->out, &brackets[0], 1);
	for (; n < size && n < SHOWN_ITEMS; n++) {
		vt_str_add(v->out, n ? ", " : "");
		add_object(v, item_at(v, items + n * 8));
	}
	add_rest(v, n, size);
	if (size == 1 && brackets[0] == '(')
		vt_str_add(v->out, ",");
	vt_str_addn(v->out, &brackets[1], 1);
}

static void add_tuple(struct value *v)
{
	add_array(v, v->object + v->layout->at[VT_PY_TUPLE_ITEMS], "()");
}

static void add_list(struct value *v)
{
	add_array(v, field(v, VT_PY_LIST_ITEMS), "[]");
}

/* Where the entries of a dict are. */
struct dict_table {
	uint64_t entries, values; /* values: of a table that other dicts share, else 0 */
	uint64_t n;
	size_t entry_size, key_at;
};

/*
 * The index of the hash table comes first: as many slots as there are, each as wide as the number
 * of slots needs.
 */
static bool index_size(const struct value *v, uint64_t keys, uint64_t *size)
{
	const struct vt_python_layout *layout = v->layout;
	uint64_t slots;
	uint8_t log2;

	if (vt_py_has(layout, VT_PY_KEYS_LOG2_INDEX)) {
		if (vt_mem_read(v->src, keys + layout->at[VT_PY_KEYS_LOG2_INDEX], &log2,
				sizeof(log2)) ||
		    log2 > 48)
			return false;
		*size = UINT64_C(1) << log2;
		return true;
	}
	if (vt_py_field_u64(v->src, layout, keys, VT_PY_KEYS_SIZE, &slots) || is_absurd(slots))
		return false;
	*size = slots * (slots <= 0xff ? 1 : slots <= 0xffff ? 2 : slots <= UINT32_MAX ? 4 : 8);
	return true;
}

static bool read_dict(const struct value *v, struct dict_table *table)
{
	const struct vt_python_layout *layout = v->layout;
	uint64_t keys = field(v, VT_PY_DICT_KEYS), index;
	uint8_t kind = 0;

	if (!keys || !vt_py_has(layout, VT_PY_KEYS_NENTRIES) || !index_size(v, keys, &index) ||
	    vt_py_field_u64(v->src, layout, keys, VT_PY_KEYS_NENTRIES, &table->n) ||
	    is_absurd(table->n))
		return false;
	/* From 3.11 on, tables with only strings have no room for hashes. */
	if (vt_py_has(layout, VT_PY_KEYS_KIND) &&
	    vt_mem_read(v->src, keys + layout->at[VT_PY_KEYS_KIND], &kind, sizeof(kind)))
		return false;

	bool hashes = !vt_py_has(layout, VT_PY_KEYS_KIND) ||
		      kind == layout->at[VT_PY_KEYS_KIND_GENERAL];

	table->entries = keys + layout->at[VT_PY_KEYS_INDICES] + index;
	table->entry_size = hashes ? 24 : 16;
	table->key_at = hashes ? 8 : 0;
	table->values = field(v, VT_PY_DICT_VALUES);
	if (table->values)
		table->values += layout->at[VT_PY_VALUES_ARRAY];
	return true;
}

static void add_dict(struct value *v)
{
	uint64_t used = field(v, VT_PY_DICT_USED);
	struct dict_table table = { 0 };
	size_t n = 0;

	if (is_absurd(used) || (used && !read_dict(v, &table))) {
		vt_str_add(v->out, "?");
		return;
	}
	vt_str_add(v->out, "{");
	for (uint64_t i = 0; n < used && n < SHOWN_ITEMS && i < table.n && i < MAX_SLOTS; i++) {
		uint64_t entry = table.entries + i * table.entry_size + table.key_at;
		uint64_t key = item_at(v, entry),
			 value = item_at(v, table.values ? table.values + i * 8 : entry + 8);

		if (!key || !value) /* deleted, or not set in this one of the dicts that share it */
			continue;
		vt_str_add(v->out, n++ ? ", " : "");
		add_object(v, key);
		vt_str_add(v->out, ": ");
		add_object(v, value);
	}
	add_rest(v, n, used);
	vt_str_add(v->out, "}");
}

static void add_set(struct value *v)
{
	uint64_t used = field(v, VT_PY_SET_USED), mask = field(v, VT_PY_SET_MASK),
		 table = field(v, VT_PY_SET_TABLE);
	size_t n = 0;

	if (is_absurd(used) || is_absurd(mask)) {
		vt_str_add(v->out, "?");
		return;
	}
	if (!used) {
		vt_str_add(v->out, "set()");
		return;
	}
	vt_str_add(v->out, "{");
	for (uint64_t i = 0; n < used && n < SHOWN_ITEMS && i <= mask && i < MAX_SLOTS; i++) {
		uint64_t key = item_at(v, table + i * 16), hash = item_at(v, table + i * 16 + 8);

		/* the mark of a removed one has the hash -1, which no object has */
		if (!key || hash == UINT64_MAX)
			continue;
		vt_str_add(v->out, n++ ? ", " : "");
		add_object(v, key);
	}
	add_rest(v, n, used);
	vt_str_add(v->out, "}");
}

/* ---- the rest ---- */

static void add_none(struct value *v)
{
	vt_str_add(v->out, "None");
}

static void add_ellipsis(struct value *v)
{
	vt_str_add(v->out, "Ellipsis");
}

static void add_exception(struct value *v)
{
	uint64_t args = field(v, VT_PY_EXC_ARGS);
	const struct vt_py_type *type = vt_py_type_of(&v->values->types, v->py, v->src, args);

	if (type && type->kind == VT_PY_KIND_TUPLE && !v->inside) {
		v->object = args;
		add_tuple(v);
	}
}

static void add_class(struct value *v)
{
	const struct vt_py_type *type = vt_py_type_at(&v->values->types, v->py, v->src, v->object);

	vt_str_add(v->out, type && type->kind != VT_PY_KIND_UNKNOWN ? type->name : "?");
}

/* In other classes, even the shape and the device may differ from what their tensors report. */
static bool add_tensor(struct value *v, const struct vt_py_type *type)
{
	static const char *const plain[] = { "Tensor", "Parameter", "Buffer" };
	struct vt_str text = { 0 };
	bool ok = false;

	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]) && !ok; i++) {
		if (strcmp(type->name, plain[i]) != 0)
			continue;
		ok = vt_py_tensor_text(&v->py->tensor, v->src, v->object,
				       v->layout->at[VT_PY_OBJECT_TYPE] + 8, &text);
		if (ok)
			vt_str_addf(v->out, "%s(%s)", plain[i], vt_str_get(&text));
	}
	v->nomem |= text.failed;
	vt_str_deinit(&text);
	return ok;
}

static const struct {
	void (*add)(struct value *v);
	bool deep;    /* inside another container, only the number of elements */
	bool wrapped; /* always with the class: the text alone says too little */
} writers[] = {
	[VT_PY_KIND_NONE] = { add_none, false, false },
	[VT_PY_KIND_ELLIPSIS] = { add_ellipsis, false, false },
	[VT_PY_KIND_BOOL] = { add_bool, false, false },
	[VT_PY_KIND_INT] = { add_long, false, false },
	[VT_PY_KIND_FLOAT] = { add_float, false, false },
	[VT_PY_KIND_STR] = { add_str, false, false },
	[VT_PY_KIND_BYTES] = { add_bytes, false, false },
	[VT_PY_KIND_TUPLE] = { add_tuple, true, false },
	[VT_PY_KIND_LIST] = { add_list, true, false },
	[VT_PY_KIND_DICT] = { add_dict, true, false },
	[VT_PY_KIND_SET] = { add_set, true, false },
	[VT_PY_KIND_EXCEPTION] = { add_exception, false, true },
	[VT_PY_KIND_TYPE] = { add_class, false, true },
	[VT_PY_KIND_TENSOR] = { NULL, false, false },
};

static uint64_t length_of(const struct value *v, enum vt_py_kind kind)
{
	if (kind == VT_PY_KIND_DICT)
		return field(v, VT_PY_DICT_USED);
	return field(v, kind == VT_PY_KIND_SET ? VT_PY_SET_USED : VT_PY_OBJECT_SIZE);
}

static void add_of_type(struct value *v, const struct vt_py_type *type)
{
	bool wrapped = writers[type->kind].wrapped || !type->builtin ||
		       !strcmp(type->name, "frozenset");

	if (writers[type->kind].deep && v->inside) {
		uint64_t length = length_of(v, type->kind);

		if (is_absurd(length))
			vt_str_addf(v->out, "<%s>", type->name);
		else
			vt_str_addf(v->out, "<%s of %llu>", type->name, (unsigned long long)length);
		return;
	}
	if (!wrapped) {
		writers[type->kind].add(v);
		return;
	}
	vt_str_addf(v->out, "<%s", type->kind == VT_PY_KIND_TYPE ? "class" : type->name);
	if (type->kind != VT_PY_KIND_EXCEPTION)
		vt_str_add(v->out, " ");
	writers[type->kind].add(v);
	vt_str_add(v->out, ">");
}

static void add_value(struct value *v)
{
	const struct vt_py_type *known = vt_py_type_of(&v->values->types, v->py, v->src, v->object);

	if (!known) {
		v->nomem = true;
		return;
	}

	const struct vt_py_type type = *known; /* the next one may move it */

	if (type.kind == VT_PY_KIND_UNKNOWN)
		vt_str_add(v->out, "?");
	else if (type.kind == VT_PY_KIND_TENSOR && add_tensor(v, &type))
		return;
	else if (type.kind < sizeof(writers) / sizeof(writers[0]) && writers[type.kind].add)
		add_of_type(v, &type);
	else
		vt_str_addf(v->out, "<%s>", type.name);
}

/* An element of a container. */
static void add_object(struct value *parent, uint64_t object)
{
	struct value v = *parent;

	v.object = object;
	v.inside = true;
	if (object)
		add_value(&v);
	else
		vt_str_add(v.out, "?");
	parent->nomem |= v.nomem;
}

bool vt_py_value_text(struct vt_py_values *values, uint64_t object, struct vt_str *out)
{
	struct value v = {
		.values = values,
		.py = values->py,
		.src = values->src,
		.layout = values->py->layout,
		.out = out,
		.object = object,
	};

	add_value(&v);
	return !v.nomem && !out->failed;
}

uint64_t vt_py_cell_value(struct vt_py_values *values, uint64_t object)
{
	const struct vt_py_type *type =
		vt_py_type_of(&values->types, values->py, values->src, object);
	uint64_t value;

	if (!type || type->kind != VT_PY_KIND_CELL)
		return object;
	return vt_py_field_u64(values->src, values->py->layout, object, VT_PY_CELL_VALUE, &value) ?
		       0 :
		       value;
}
