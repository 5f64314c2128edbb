/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Field numbers are those of profile.proto. The sample types are those of Go's heap profiles, so
 * that what shows these shows bytes in use at first.
 */
#include <stdlib.h>

#include "base/cleanup.h"
#include "report/profile/formats.h"
#include "report/profile/gzip.h"
#include "report/profile/protobuf.h"

/* Of message Profile. */
enum {
	PROFILE_SAMPLE_TYPE = 1,
	PROFILE_SAMPLE = 2,
	PROFILE_MAPPING = 3,
	PROFILE_LOCATION = 4,
	PROFILE_FUNCTION = 5,
	PROFILE_STRING = 6,
	PROFILE_TIME_NANOS = 9,
	PROFILE_PERIOD_TYPE = 11,
	PROFILE_PERIOD = 12,
	PROFILE_COMMENT = 13,
	PROFILE_DEFAULT_SAMPLE_TYPE = 14,
};
/* Of the messages in it, in the order of the file. */
enum { VALUE_TYPE = 1, VALUE_UNIT };
enum { SAMPLE_LOCATIONS = 1, SAMPLE_VALUES, SAMPLE_LABEL };
enum { LABEL_KEY = 1, LABEL_TEXT, LABEL_NUMBER, LABEL_UNIT };
enum { MAPPING_ID = 1, MAPPING_START, MAPPING_LIMIT, MAPPING_FILE = 5, MAPPING_BUILD_ID };
enum { MAPPING_HAS_FUNCTIONS = 7, MAPPING_HAS_FILES, MAPPING_HAS_LINES, MAPPING_HAS_INLINE };
enum { LOCATION_ID = 1, LOCATION_MAPPING, LOCATION_ADDRESS, LOCATION_LINE };
enum { LINE_FUNCTION = 1, LINE_LINE };
enum { FUNCTION_ID = 1, FUNCTION_NAME, FUNCTION_SYSTEM, FUNCTION_FILE };

static const char *const label_keys[VT_N_LABELS] = {
	[VT_LABEL_LIBRARY] = "library",   [VT_LABEL_DEVICE] = "device",
	[VT_LABEL_STATE] = "state",       [VT_LABEL_KIND] = "kind",
	[VT_LABEL_CATEGORY] = "category", [VT_LABEL_OWNER] = "owner",
	[VT_LABEL_VARIABLE] = "variable", [VT_LABEL_MODULE] = "module",
	[VT_LABEL_TYPE] = "type",         [VT_LABEL_DTYPE] = "dtype",
	[VT_LABEL_SHAPE] = "shape",       [VT_LABEL_STREAM] = "stream",
	[VT_LABEL_POOL] = "pool",         [VT_LABEL_THREAD] = "thread",
};

/* Words of the format itself, and "bytes", the key of the size of a block as in Go's. */
enum { WORD_OBJECTS, WORD_COUNT, WORD_INUSE, WORD_BYTES, WORD_SPACE, N_WORDS };
static const char *const words[N_WORDS] = {
	[WORD_OBJECTS] = "inuse_objects", [WORD_COUNT] = "count", [WORD_INUSE] = "inuse_space",
	[WORD_BYTES] = "bytes",           [WORD_SPACE] = "space",
};

#define PROGRAM 1 /* the mapping of all code that is not native */

/* A library, or the program. */
struct mapping {
	uint32_t id, module, build_id; /* texts of the profile */
	uint64_t bias, limit;
	bool has_lines, has_inline;
};

/*
 * Numbers for lists of numbers, from 1: at each step of a list is the number of its beginning. Not
 * all of them are used.
 */
struct numbering {
	struct vt_map steps; /* number of the beginning << 32 | what follows: its number */
	uint32_t n;
};

/* Parts of the file are written as they are met; strings and mappings are known at the end. */
struct pprof {
	const struct vt_profile *profile;
	struct vt_gzip gzip;
	struct vt_proto part;                         /* of the file */
	struct vt_proto message, inner, sample, list; /* scratch */
	VT_VEC(const char *) strings;                 /* the string table */
	uint32_t *of_text; /* by text of the profile: its place there; 0 not yet */
	uint32_t words[N_WORDS], label_keys[VT_N_LABELS];
	VT_VEC(struct mapping) mappings;
	struct vt_map mapping_at; /* id → index in mappings */
	struct numbering by_mapping, by_function, by_location;
	uint32_t *functions; /* by frame; 0 not yet */
	bool failed;         /* out of memory */
};

/* The number of the list that goes on with next; is_new: it had none. */
static uint32_t step(struct pprof *p, struct numbering *numbering, uint32_t at, uint32_t next,
		     bool *is_new)
{
	uint64_t key = (uint64_t)at << 32 | next;
	const uint64_t *found = vt_map_get(&numbering->steps, key);

	*is_new = !found;
	if (found)
		return (uint32_t)*found;
	p->failed |= numbering->n == UINT32_MAX ||
		     !vt_map_put(&numbering->steps, key, numbering->n + 1);
	return ++numbering->n;
}

/* ---- the file ---- */

#define PART 65536

static void flush(struct pprof *p)
{
	p->failed |= p->part.failed;
	vt_gzip_write(&p->gzip, p->part.data, p->part.n);
	vt_proto_clear(&p->part);
}

/* The message that was made. */
static void put_message(struct pprof *p, unsigned int field)
{
	vt_proto_message(&p->part, field, &p->message);
	vt_proto_clear(&p->message);
	if (p->part.n > PART)
		flush(p);
}

static uint32_t add_string(struct pprof *p, const char *text)
{
	const char **added = p->strings.n < UINT32_MAX ? vt_vec_append(&p->strings) : NULL;

	if (!added) {
		p->failed = true;
		return 0;
	}
	*added = text;
	return (uint32_t)p->strings.n - 1;
}

static uint32_t string_of(struct pprof *p, uint32_t text)
{
	if (text && !p->of_text[text])
		p->of_text[text] = add_string(p, vt_texts_get(&p->profile->texts, text));
	return p->of_text[text];
}

static void put_strings(struct pprof *p)
{
	for (size_t i = 0; i < p->strings.n; i++) {
		vt_proto_text(&p->part, PROFILE_STRING, p->strings.data[i]);
		if (p->part.n > PART)
			flush(p);
	}
}

/* ---- mappings ---- */

static struct mapping *add_mapping(struct pprof *p, const struct mapping *mapping)
{
	struct mapping *added = vt_vec_append(&p->mappings);

	if (added)
		*added = *mapping;
	p->failed |= !added || !vt_map_put(&p->mapping_at, mapping->id, p->mappings.n - 1);
	return added;
}

static struct mapping *find_mapping(struct pprof *p, uint32_t id)
{
	const uint64_t *at = vt_map_get(&p->mapping_at, id);

	return at ? &p->mappings.data[*at] : NULL;
}

/* Of native code: its library, which the process has at one place. */
static uint32_t mapping_of(struct pprof *p, const struct vt_profile_frame *f)
{
	struct mapping *mapping;
	bool is_new;
	uint32_t id;

	if (!f->module)
		return PROGRAM;
	id = step(p, &p->by_mapping, 0, f->module, &is_new);
	id = step(p, &p->by_mapping, id, f->build_id, &is_new);
	id = step(p, &p->by_mapping, id, (uint32_t)(f->bias >> 32), &is_new);
	id = step(p, &p->by_mapping, id, (uint32_t)f->bias, &is_new);
	mapping = is_new ? add_mapping(p, &(struct mapping){ .id = id,
							     .module = f->module,
							     .build_id = f->build_id,
							     .bias = f->bias }) :
			   find_mapping(p, id);
	if (!mapping)
		return PROGRAM;
	if (f->pc >= mapping->limit)
		mapping->limit = f->pc < UINT64_MAX ? f->pc + 1 : UINT64_MAX;
	mapping->has_lines |= f->file != 0;
	return id;
}

static void put_mappings(struct pprof *p)
{
	for (size_t i = 0; i < p->mappings.n; i++) {
		const struct mapping *m = &p->mappings.data[i];
		struct vt_proto *out = &p->message;

		vt_proto_uint(out, MAPPING_ID, m->id);
		vt_proto_uint(out, MAPPING_START, m->bias);
		vt_proto_uint(out, MAPPING_LIMIT, m->limit);
		vt_proto_uint(out, MAPPING_FILE, string_of(p, m->module));
		vt_proto_uint(out, MAPPING_BUILD_ID, string_of(p, m->build_id));
		/* It has all names that there are: nobody has to look for more. */
		vt_proto_uint(out, MAPPING_HAS_FUNCTIONS, true);
		vt_proto_uint(out, MAPPING_HAS_FILES, m->has_lines);
		vt_proto_uint(out, MAPPING_HAS_LINES, m->has_lines);
		vt_proto_uint(out, MAPPING_HAS_INLINE, m->has_inline);
		put_message(p, PROFILE_MAPPING);
	}
}

/* ---- locations ---- */

static uint32_t function_of(struct pprof *p, uint32_t frame)
{
	const struct vt_profile_frame *f = &p->profile->frames.data[frame];
	bool is_new;
	uint32_t id;

	if (p->functions[frame])
		return p->functions[frame];
	id = step(p, &p->by_function, 0, f->name, &is_new);
	id = step(p, &p->by_function, id, f->system, &is_new);
	id = step(p, &p->by_function, id, f->file, &is_new);
	p->functions[frame] = id;
	if (!is_new)
		return id;
	vt_proto_uint(&p->message, FUNCTION_ID, id);
	vt_proto_uint(&p->message, FUNCTION_NAME, string_of(p, f->name));
	/* pprof takes a name that is the system's for one that is to be demangled. */
	vt_proto_uint(&p->message, FUNCTION_SYSTEM, string_of(p, f->system));
	vt_proto_uint(&p->message, FUNCTION_FILE, string_of(p, f->file));
	put_message(p, PROFILE_FUNCTION);
	return id;
}

/* The frames from node up to end, which has none of them, are one place in the code. */
static void put_location(struct pprof *p, uint32_t id, uint32_t node, uint32_t end)
{
	const struct vt_profile_node *nodes = p->profile->nodes.data;
	const struct vt_profile_frame *outer = NULL;
	struct mapping *mapping;
	uint32_t of_mapping;

	for (uint32_t at = node; at != end; at = nodes[at].parent) {
		outer = &p->profile->frames.data[nodes[at].frame];
		function_of(p, nodes[at].frame); /* it may be a message of its own */
	}
	if (!outer)
		return;
	of_mapping = mapping_of(p, outer);
	mapping = find_mapping(p, of_mapping);
	if (mapping && nodes[node].parent != end)
		mapping->has_inline = true;
	vt_proto_uint(&p->message, LOCATION_ID, id);
	vt_proto_uint(&p->message, LOCATION_MAPPING, of_mapping);
	vt_proto_uint(&p->message, LOCATION_ADDRESS, outer->pc);
	for (uint32_t at = node; at != end; at = nodes[at].parent) {
		vt_proto_clear(&p->inner);
		vt_proto_uint(&p->inner, LINE_FUNCTION, function_of(p, nodes[at].frame));
		vt_proto_uint(&p->inner, LINE_LINE, p->profile->frames.data[nodes[at].frame].line);
		vt_proto_message(&p->message, LOCATION_LINE, &p->inner);
	}
	put_message(p, PROFILE_LOCATION);
}

/*
 * A function and those that are inlined into it are one location: from node, the innermost. *outer
 * is the node that called it.
 */
static uint32_t location_of(struct pprof *p, uint32_t node, uint32_t *outer)
{
	const struct vt_profile_node *nodes = p->profile->nodes.data;
	bool is_new = false, inlined = true;
	uint32_t id = 0, at = node;

	for (; at != VT_PROFILE_ROOT && inlined; at = nodes[at].parent) {
		id = step(p, &p->by_location, id, nodes[at].frame, &is_new);
		inlined = p->profile->frames.data[nodes[at].frame].inlined;
	}
	if (inlined) /* into nothing that is known: no beginning of another list */
		id = step(p, &p->by_location, id, 0, &is_new);
	if (is_new)
		put_location(p, id, node, at);
	*outer = at;
	return id;
}

/* ---- samples ---- */

static void add_label(struct pprof *p, uint32_t key, uint32_t text)
{
	vt_proto_clear(&p->inner);
	vt_proto_uint(&p->inner, LABEL_KEY, key);
	vt_proto_uint(&p->inner, LABEL_TEXT, text);
	vt_proto_message(&p->sample, SAMPLE_LABEL, &p->inner);
}

static void add_labels(struct pprof *p, const struct vt_profile_sample *sample)
{
	for (size_t i = 0; i < VT_N_LABELS; i++)
		if (sample->labels[i])
			add_label(p, p->label_keys[i], string_of(p, sample->labels[i]));
	if (!sample->size)
		return;
	vt_proto_clear(&p->inner);
	vt_proto_uint(&p->inner, LABEL_KEY, p->words[WORD_BYTES]);
	vt_proto_uint(&p->inner, LABEL_NUMBER, sample->size);
	vt_proto_uint(&p->inner, LABEL_UNIT, p->words[WORD_BYTES]);
	vt_proto_message(&p->sample, SAMPLE_LABEL, &p->inner);
}

/* New locations come before it. */
static void put_sample(struct pprof *p, const struct vt_profile_sample *sample)
{
	struct vt_proto *list = &p->list;

	vt_proto_clear(&p->sample);
	vt_proto_clear(list);
	for (uint32_t at = sample->node; at != VT_PROFILE_ROOT;)
		vt_proto_item(list, location_of(p, at, &at));
	vt_proto_message(&p->sample, SAMPLE_LOCATIONS, list);
	vt_proto_clear(list);
	vt_proto_item(list, sample->count);
	vt_proto_item(list, sample->bytes);
	vt_proto_message(&p->sample, SAMPLE_VALUES, list);
	add_labels(p, sample);
	vt_proto_message(&p->part, PROFILE_SAMPLE, &p->sample);
	if (p->part.n > PART)
		flush(p);
}

/* ---- the head ---- */

static void put_type(struct pprof *p, unsigned int field, uint32_t type, uint32_t unit)
{
	vt_proto_uint(&p->message, VALUE_TYPE, type);
	vt_proto_uint(&p->message, VALUE_UNIT, unit);
	put_message(p, field);
}

static void put_head(struct pprof *p)
{
	const struct vt_profile *profile = p->profile;

	put_type(p, PROFILE_SAMPLE_TYPE, p->words[WORD_OBJECTS], p->words[WORD_COUNT]);
	put_type(p, PROFILE_SAMPLE_TYPE, p->words[WORD_INUSE], p->words[WORD_BYTES]);
	vt_proto_uint(&p->part, PROFILE_DEFAULT_SAMPLE_TYPE, p->words[WORD_INUSE]);
	put_type(p, PROFILE_PERIOD_TYPE, p->words[WORD_SPACE], p->words[WORD_BYTES]);
	vt_proto_uint(&p->part, PROFILE_PERIOD, 1);
	vt_proto_uint(&p->part, PROFILE_TIME_NANOS,
		      (uint64_t)profile->when.tv_sec * 1000000000 +
			      (uint64_t)profile->when.tv_nsec);
	for (size_t i = 0; i < profile->comments.n; i++)
		vt_proto_uint(&p->part, PROFILE_COMMENT, string_of(p, profile->comments.data[i]));
}

static bool init(struct pprof *p, const struct vt_profile *profile)
{
	p->profile = profile;
	p->by_mapping.n = PROGRAM;
	p->of_text = calloc(profile->texts.list.n + 1, sizeof(*p->of_text));
	p->functions = calloc(profile->frames.n + 1, sizeof(*p->functions));
	if (!p->of_text || !p->functions)
		return false;
	add_string(p, "");
	for (size_t i = 0; i < N_WORDS; i++)
		p->words[i] = add_string(p, words[i]);
	for (size_t i = 0; i < VT_N_LABELS; i++)
		p->label_keys[i] = add_string(p, label_keys[i]);
	add_mapping(p, &(struct mapping){ .id = PROGRAM, .module = profile->program });
	return !p->failed;
}

static void deinit(struct pprof *p)
{
	vt_proto_deinit(&p->part);
	vt_proto_deinit(&p->message);
	vt_proto_deinit(&p->inner);
	vt_proto_deinit(&p->sample);
	vt_proto_deinit(&p->list);
	vt_vec_deinit(&p->strings);
	vt_vec_deinit(&p->mappings);
	vt_map_deinit(&p->mapping_at);
	vt_map_deinit(&p->by_mapping.steps);
	vt_map_deinit(&p->by_function.steps);
	vt_map_deinit(&p->by_location.steps);
	free(p->of_text);
	free(p->functions);
}

struct vt_error *vt_write_profile_pprof(const void *what, const struct vt_writer_options *options,
					FILE *out)
{
	const struct vt_profile *profile = what;
	struct pprof p = { 0 };
	struct vt_error *err;
	bool ok;

	(void)options; /* options are for text */
	vt_gzip_init(&p.gzip, out);
	ok = !vt_profile_failed(profile) && init(&p, profile);
	if (ok) {
		put_head(&p);
		for (size_t i = 0; i < profile->samples.n && !p.failed; i++)
			if (!profile->groups.data[profile->samples.data[i].group].repeats)
				put_sample(&p, &profile->samples.data[i]);
		put_mappings(&p);
		put_strings(&p);
		flush(&p);
	}
	ok = ok && !p.failed && !p.message.failed && !p.inner.failed && !p.sample.failed &&
	     !p.list.failed;
	deinit(&p);
	err = vt_gzip_finish(&p.gzip);
	if (ok)
		return err;
	vt_error_destroy(err);
	return &vt_enomem;
}
