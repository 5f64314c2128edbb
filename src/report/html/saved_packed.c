/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a saved document with its blocks in columns (packed.h), as the page of a live process has
 * them. A segment that is not as vramtap writes it is left as it was.
 */
#include "report/html/saved_packed.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What it writes is ASCII; 17 digits make the same number again. */
#define PLAIN (JSON_COMPACT | JSON_ENSURE_ASCII | JSON_ENCODE_ANY | JSON_REAL_PRECISION(17))
/* Numbers above are not exact in a browser. */
#define MAX_EXACT (INT64_C(1) << 53)

struct packing {
	FILE *out;
	int errnum; /* of the first write that failed; 0 none did */
	bool nomem;
	json_t **owners; /* those of all blocks so far; heap */
	size_t n_owners, room;
	const char *codes[32]; /* why blocks have no backtrace; the first: not recorded */
	size_t n_codes;
};

/* Right after writing: later calls may change errno. */
static void note_failure(struct packing *p)
{
	if (!p->errnum && ferror(p->out))
		p->errnum = errno ? errno : EIO;
}

static void put(struct packing *p, json_t *value)
{
	bool dumped = value && !json_dumpf(value, p->out, PLAIN);

	note_failure(p);
	p->nomem |= !dumped && !p->errnum; /* values that were read can be written */
}

static void put_key(struct packing *p, const char *key, bool first)
{
	json_t *text = json_string(key);

	if (!first)
		fputs(",\n", p->out);
	put(p, text);
	fputc(':', p->out);
	json_decref(text);
}

/* ---- one segment ---- */

static bool read_address(json_t *block, uint64_t *address)
{
	const char *text = json_string_value(json_object_get(block, "address"));
	char *end;

	if (!text || strncmp(text, "0x", 2) != 0)
		return false;
	errno = 0;
	*address = strtoull(text, &end, 16);
	return !*end && !errno;
}

static char state_letter(json_t *block)
{
	static const char *const names[] = { "allocated", "wawaiting-free", "cached", "unmapped" };
	const char *state = json_string_value(json_object_get(block, "state"));

	for (size_t i = 0; state && i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(state, names[i] + (*names[i] == 'w' ? 1 : 0)))
			return *names[i];
	return '\0';
}

/* Blocks that follow each other without a hole, each with what a column needs. */
static bool is_size(json_t *bytes, json_int_t least)
{
	return json_is_integer(bytes) && json_integer_value(bytes) >= least &&
	       json_integer_value(bytes) <= MAX_EXACT;
}

static bool can_pack(json_t *blocks)
{
	uint64_t next = 0, address;
	json_t *block;
	size_t i;

	json_array_foreach(blocks, i, block)
	{
		json_t *bytes = json_object_get(block, "bytes"),
		       *requested = json_object_get(block, "requested_bytes");

		if (!is_size(bytes, 1) || (json_is_integer(requested) && !is_size(requested, 0)) ||
		    !read_address(block, &address) || (i && address != next) ||
		    !state_letter(block))
			return false;
		next = address + (uint64_t)json_integer_value(bytes);
	}
	return true;
}

static int64_t integer(json_t *block, const char *key, int64_t otherwise)
{
	json_t *value = json_object_get(block, key);

	return json_is_integer(value) ? json_integer_value(value) : otherwise;
}

static int64_t size_of(struct packing *p, json_t *block)
{
	(void)p;
	return integer(block, "bytes", 0);
}

static int64_t requested_of(struct packing *p, json_t *block)
{
	(void)p;
	return integer(block, "requested_bytes", 0);
}

static int64_t code_number(struct packing *p, const char *code)
{
	for (size_t i = 0; i < p->n_codes; i++)
		if (!strcmp(p->codes[i], code))
			return (int64_t)i;
	if (p->n_codes == sizeof(p->codes) / sizeof(p->codes[0]))
		return 0;
	p->codes[p->n_codes] = code;
	return (int64_t)p->n_codes++;
}

static int64_t backtrace_of(struct packing *p, json_t *block)
{
	const char *none = json_string_value(json_object_get(block, "no_backtrace"));

	return integer(block, "backtrace", -1 - (none ? code_number(p, none) : 0));
}

static int64_t owner_of(struct packing *p, json_t *block)
{
	json_t *owner = json_object_get(block, "owner");

	if (!json_is_object(owner))
		return -1;
	if (p->n_owners == p->room) {
		size_t room = p->room ? 2 * p->room : 1024;
		json_t **owners = reallocarray(p->owners, room, sizeof(json_t *));

		if (!owners) {
			p->nomem = true;
			return -1;
		}
		p->owners = owners;
		p->room = room;
	}
	p->owners[p->n_owners] = owner;
	return (int64_t)p->n_owners++;
}

static int64_t age_of(struct packing *p, json_t *block)
{
	json_t *age = json_object_get(block, "age_s");
	double ms = json_is_number(age) ? json_number_value(age) * 1000 : -1;

	(void)p;
	return ms >= 0 && ms < 1e15 ? (int64_t)(ms + 0.5) : -1;
}

static int64_t tid_of(struct packing *p, json_t *block)
{
	(void)p;
	return integer(block, "tid", 0);
}

static const struct {
	const char *name;
	int64_t (*of)(struct packing *p, json_t *block);
	const char *needs; /* null unless a block has this; NULL: always there */
} columns[] = {
	{ "bytes", size_of, NULL },           { "requested", requested_of, "requested_bytes" },
	{ "backtraces", backtrace_of, NULL }, { "owners", owner_of, NULL },
	{ "ages", age_of, "age_s" },          { "tids", tid_of, "tid" },
};

static bool any_has(json_t *blocks, const char *key)
{
	json_t *block;
	size_t i;

	json_array_foreach(blocks, i, block)
	{
		if (json_object_get(block, key))
			return true;
	}
	return false;
}

static void put_column(struct packing *p, json_t *blocks, size_t column)
{
	json_t *block;
	size_t i;

	fprintf(p->out, ",\"%s\":", columns[column].name);
	if (columns[column].needs && !any_has(blocks, columns[column].needs)) {
		fputs("null", p->out);
		return;
	}
	fputc('[', p->out);
	json_array_foreach(blocks, i, block)
	{
		fprintf(p->out, "%s%" PRId64, i ? "," : "", columns[column].of(p, block));
		note_failure(p);
	}
	fputc(']', p->out);
}

static void put_blocks(struct packing *p, json_t *blocks)
{
	json_t *block;
	size_t i;

	fputs("\"packed\":{\"states\":[\"", p->out);
	json_array_foreach(blocks, i, block) fputc(state_letter(block), p->out);
	fputs("\"]", p->out);
	for (i = 0; i < sizeof(columns) / sizeof(columns[0]); i++)
		put_column(p, blocks, i);
	fputc('}', p->out);
}

static void put_segment(struct packing *p, json_t *segment)
{
	const char *key;
	json_t *value;
	bool first = true;

	if (!json_is_object(segment)) {
		put(p, segment);
		return;
	}
	fputc('{', p->out);
	json_object_foreach(segment, key, value)
	{
		if (!strcmp(key, "packed"))
			continue;
		if (!strcmp(key, "blocks") && json_is_array(value) && can_pack(value)) {
			fputs(first ? "" : ",", p->out);
			put_blocks(p, value);
		} else {
			put_key(p, key, first);
			put(p, value);
		}
		first = false;
	}
	fputc('}', p->out);
}

/* ---- the way there ---- */

static void put_array(struct packing *p, json_t *array,
		      void (*put_one)(struct packing *p, json_t *one))
{
	json_t *one;
	size_t i;

	fputc('[', p->out);
	json_array_foreach(array, i, one)
	{
		fputs(i ? ",\n" : "", p->out);
		put_one(p, one);
	}
	fputc(']', p->out);
}

/* The object; if the value of array_key is an array, put_one writes its elements. */
static void put_with(struct packing *p, json_t *object, const char *array_key,
		     void (*put_one)(struct packing *p, json_t *one))
{
	const char *key;
	json_t *value;
	bool first = true;

	if (!json_is_object(object)) {
		put(p, object);
		return;
	}
	fputc('{', p->out);
	json_object_foreach(object, key, value)
	{
		put_key(p, key, first);
		if (!strcmp(key, array_key) && json_is_array(value))
			put_array(p, value, put_one);
		else
			put(p, value);
		first = false;
	}
	fputc('}', p->out);
}

static void put_allocator(struct packing *p, json_t *allocator)
{
	put_with(p, allocator, "segments", put_segment);
}

/* ---- what belongs to all blocks ---- */

/* A column: of each owner a field, or if below is given, a field of that object in it. */
static void put_owner_column(struct packing *p, const char *name, const char *below,
			     const char *field, const char *otherwise)
{
	fprintf(p->out, "\"%s\":[", name);
	for (size_t i = 0; i < p->n_owners; i++) {
		json_t *from = below ? json_object_get(p->owners[i], below) : p->owners[i];
		json_t *value = json_object_get(from, field);

		fputs(i ? "," : "", p->out);
		if (value)
			put(p, value);
		else
			fputs(otherwise, p->out);
	}
	fputc(']', p->out);
}

static void put_rest(struct packing *p)
{
	static const char *const fields[] = { "category", "unowned", "certain", "name",
					      "variable", "module",  "type",    "dtype",
					      "shape",    "tensors", "holders" };

	fputs(",\n\"packed\":{\"no_backtrace\":[", p->out);
	for (size_t i = 0; i < p->n_codes; i++) {
		json_t *text = json_string(p->codes[i]);

		fputs(i ? "," : "", p->out);
		put(p, text);
		json_decref(text);
	}
	fputs("],\"owners\":{", p->out);
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		put_owner_column(p, fields[i], NULL, fields[i], "null");
		fputs(",\n", p->out);
	}
	put_owner_column(p, "freed", "frees", "name", "null");
	fputs(",\n", p->out);
	put_owner_column(p, "freed_bytes", "frees", "bytes", "0");
	fputs("}}", p->out);
}

/* "packed" is ours: a file's own, which could say anything, is left out. */
static void put_root(struct packing *p, json_t *root)
{
	bool packs = json_is_object(json_object_get(root, "pytorch"));
	const char *key;
	json_t *value;
	bool first = true;

	fputc('{', p->out);
	json_object_foreach(root, key, value)
	{
		if (!strcmp(key, "packed"))
			continue;
		put_key(p, key, first);
		if (packs && !strcmp(key, "pytorch"))
			put_with(p, value, "allocators", put_allocator);
		else
			put(p, value);
		first = false;
	}
	if (packs)
		put_rest(p);
	fputs("}\n", p->out);
}

struct vt_error *vt_html_write_saved(const void *what, const struct vt_writer_options *options,
				     FILE *out)
{
	struct packing p = { .out = out, .codes = { "not-recorded" }, .n_codes = 1 };
	json_t *root = (json_t *)what;

	(void)options;
	errno = 0;
	if (json_is_object(root))
		put_root(&p, root);
	else
		put(&p, root);
	note_failure(&p);
	free(p.owners);
	if (p.nomem)
		return &vt_enomem;
	return p.errnum ? vt_error_create_os(p.errnum, "cannot write the page") : NULL;
}
