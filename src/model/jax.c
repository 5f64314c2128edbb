/* SPDX-License-Identifier: Apache-2.0 */
#include "model/jax.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "model/model.h"

#define MAX_FRAMES 256 /* of one backtrace; the outer ones are left out */
#define MAX_ITEMS ((size_t)1 << 20)
#define VALUES 2 /* count, bytes */

/* ---- protocol buffers ---- */

struct message {
	const uint8_t *at, *end;
	bool damaged;
};

struct field {
	uint32_t number;
	uint64_t value;      /* of a number */
	struct message part; /* of a text, a message or packed numbers */
	bool is_part;
};

static uint64_t take_number(struct message *m)
{
	uint64_t value = 0;

	for (unsigned int shift = 0; shift < 64 && m->at < m->end; shift += 7) {
		uint8_t byte = *m->at++;

		value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return value;
	}
	m->damaged = true;
	return 0;
}

static void skip(struct message *m, uint64_t n)
{
	if (n > (size_t)(m->end - m->at))
		m->damaged = true;
	else
		m->at += n;
}

/* False: the end, or m->damaged. */
static bool next_field(struct message *m, struct field *field)
{
	enum { NUMBER, WORD, PART, HALF = 5 };
	uint64_t tag;

	if (m->damaged || m->at == m->end)
		return false;
	tag = take_number(m);
	*field = (struct field){ .number = (uint32_t)(tag >> 3) };
	switch (tag & 7) {
	case NUMBER:
		field->value = take_number(m);
		break;
	case WORD:
		skip(m, 8);
		break;
	case HALF:
		skip(m, 4);
		break;
	case PART:
		field->value = take_number(m);
		field->is_part = true;
		field->part.at = m->at;
		skip(m, field->value);
		field->part.end = m->at;
		break;
	default:
		m->damaged = true;
	}
	return !m->damaged;
}

/* ---- the profile's tables ---- */

enum { PROFILE_SAMPLE = 2, PROFILE_LOCATION = 4, PROFILE_FUNCTION = 5, PROFILE_STRING = 6 };
enum { SAMPLE_LOCATION = 1, SAMPLE_VALUE = 2, SAMPLE_LABEL = 3 };
enum { LABEL_KEY = 1, LABEL_TEXT = 2 };
enum {
	ID = 1,
	LOCATION_LINE = 4,
	LINE_FUNCTION = 1,
	LINE_LINE = 2,
	FUNCTION_NAME = 2,
	FUNCTION_FILE = 4
};

struct function {
	uint64_t name, file; /* of strings */
};

struct location {
	uint64_t function; /* its id */
	uint64_t line;
};

struct profile {
	struct vt_arena *arena;
	VT_VEC(struct message) strings;
	VT_VEC(const char *) copies; /* of strings, made when they are needed */
	VT_VEC(struct function) functions;
	VT_VEC(struct location) locations;
	VT_VEC(struct vt_model_jax_site) sites;
	struct vt_map function_at, location_at; /* id → index */
	bool no_memory;
};

static void profile_deinit(struct profile *p)
{
	vt_vec_deinit(&p->strings);
	vt_vec_deinit(&p->copies);
	vt_vec_deinit(&p->functions);
	vt_vec_deinit(&p->locations);
	vt_vec_deinit(&p->sites);
	vt_map_deinit(&p->function_at);
	vt_map_deinit(&p->location_at);
}

/* "": there is none. */
static const char *text_of(struct profile *p, uint64_t index)
{
	const struct message *text;

	if (index >= p->strings.n)
		return "";
	text = &p->strings.data[index];
	if (!p->copies.data[index])
		p->copies.data[index] = vt_arena_strndup(p->arena, (const char *)text->at,
							 (size_t)(text->end - text->at));
	if (p->copies.data[index])
		return p->copies.data[index];
	p->no_memory = true;
	return "";
}

static bool take_string(struct profile *p, const struct message *m)
{
	struct message *text = p->strings.n < MAX_ITEMS ? vt_vec_append(&p->strings) : NULL;
	const char **copy = text ? vt_vec_append(&p->copies) : NULL;

	if (!copy)
		return false;
	*text = *m;
	*copy = NULL;
	return true;
}

static bool take_function(struct profile *p, struct message m)
{
	struct function *function = p->functions.n < MAX_ITEMS ? vt_vec_append(&p->functions) :
								 NULL;
	struct field field;
	uint64_t id = 0;

	if (!function)
		return false;
	*function = (struct function){ 0 };
	while (next_field(&m, &field)) {
		if (field.number == ID)
			id = field.value;
		else if (field.number == FUNCTION_NAME)
			function->name = field.value;
		else if (field.number == FUNCTION_FILE)
			function->file = field.value;
	}
	return !m.damaged && vt_map_put(&p->function_at, id, p->functions.n - 1);
}

static bool take_line(struct location *location, struct message m)
{
	struct field field;

	while (next_field(&m, &field)) {
		if (field.number == LINE_FUNCTION)
			location->function = field.value;
		else if (field.number == LINE_LINE)
			location->line = field.value;
	}
	return !m.damaged;
}

static bool take_location(struct profile *p, struct message m)
{
	struct location *location = p->locations.n < MAX_ITEMS ? vt_vec_append(&p->locations) :
								 NULL;
	struct field field;
	uint64_t id = 0;

	if (!location)
		return false;
	*location = (struct location){ 0 };
	while (next_field(&m, &field)) {
		if (field.number == ID)
			id = field.value;
		else if (field.number == LOCATION_LINE && field.is_part &&
			 !take_line(location, field.part))
			return false;
	}
	return !m.damaged && vt_map_put(&p->location_at, id, p->locations.n - 1);
}

static bool take_tables(struct profile *p, struct message m)
{
	struct field field;

	while (next_field(&m, &field)) {
		bool ok = true;

		if (!field.is_part)
			continue;
		if (field.number == PROFILE_STRING)
			ok = take_string(p, &field.part);
		else if (field.number == PROFILE_FUNCTION)
			ok = take_function(p, field.part);
		else if (field.number == PROFILE_LOCATION)
			ok = take_location(p, field.part);
		if (!ok)
			return false;
	}
	return !m.damaged;
}

/* ---- samples ---- */

struct sample {
	uint64_t locations[MAX_FRAMES], values[VALUES];
	size_t n_locations, n_values;
	const char *kind, *device;
};

/* Numbers are packed, or one by one. */
static bool take_numbers(const struct field *field, uint64_t *to, size_t max, size_t *n)
{
	struct message m = field->part;

	if (!field->is_part) {
		if (*n < max)
			to[(*n)++] = field->value;
		return true;
	}
	while (m.at < m.end && !m.damaged) {
		uint64_t value = take_number(&m);

		if (*n < max)
			to[(*n)++] = value;
	}
	return !m.damaged;
}

static bool take_label(struct profile *p, struct sample *sample, struct message m)
{
	const char *key = "", *text = "";
	struct field field;

	while (next_field(&m, &field)) {
		if (field.number == LABEL_KEY)
			key = text_of(p, field.value);
		else if (field.number == LABEL_TEXT)
			text = text_of(p, field.value);
	}
	if (!strcmp(key, "kind"))
		sample->kind = text;
	else if (!strcmp(key, "device"))
		sample->device = text;
	return !m.damaged;
}

static struct vt_model_frame frame_of(struct profile *p, uint64_t id)
{
	const uint64_t *at = vt_map_get(&p->location_at, id), *of = NULL;
	struct vt_model_frame frame = { .kind = VT_FRAME_PYTHON };

	if (at)
		of = vt_map_get(&p->function_at, p->locations.data[*at].function);
	if (!of)
		return frame;
	frame.function = text_of(p, p->functions.data[*of].name);
	frame.file = text_of(p, p->functions.data[*of].file);
	if (p->locations.data[*at].line <= INT32_MAX)
		frame.line = (int)p->locations.data[*at].line;
	return frame;
}

static size_t title_of(const struct vt_model_frame *frames, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (vt_model_is_program(&frames[i]))
			return i;
	return n;
}

static bool add_site(struct profile *p, const struct sample *sample)
{
	struct vt_model_frame *frames =
		vt_arena_alloc(p->arena, (sample->n_locations + 1) * sizeof(*frames));
	struct vt_model_jax_site *site = frames ? vt_vec_append(&p->sites) : NULL;

	if (!site)
		return false;
	for (size_t i = 0; i < sample->n_locations; i++)
		frames[i] = frame_of(p, sample->locations[i]);
	*site = (struct vt_model_jax_site){
		.count = sample->values[0],
		.bytes = sample->values[1],
		.device = sample->device,
		.is_program = !strcmp(sample->kind, "executable"),
		.frames = frames,
		.n_frames = sample->n_locations,
		.title = title_of(frames, sample->n_locations),
	};
	return true;
}

static bool take_sample(struct profile *p, struct message m)
{
	struct sample sample = { .kind = "", .device = "" };
	struct field field;
	bool ok = true;

	while (ok && next_field(&m, &field)) {
		if (field.number == SAMPLE_LOCATION)
			ok = take_numbers(&field, sample.locations, MAX_FRAMES,
					  &sample.n_locations);
		else if (field.number == SAMPLE_VALUE)
			ok = take_numbers(&field, sample.values, VALUES, &sample.n_values);
		else if (field.number == SAMPLE_LABEL && field.is_part)
			ok = take_label(p, &sample, field.part);
	}
	return ok && !m.damaged && sample.n_values == VALUES && add_site(p, &sample);
}

static bool take_samples(struct profile *p, struct message m, bool *cut)
{
	struct field field;

	while (next_field(&m, &field)) {
		if (field.number != PROFILE_SAMPLE || !field.is_part)
			continue;
		if (p->sites.n >= VT_JAX_MAX_SITES) {
			*cut = true;
			return true;
		}
		if (!take_sample(p, field.part))
			return false;
	}
	return true;
}

struct vt_error *vt_jax_profile(struct vt_model_jax *jax, struct vt_arena *arena,
				const uint8_t *data, size_t n)
{
	struct message all = { data, data + n, false };
	struct profile p = { .arena = arena };
	bool ok = take_tables(&p, all) && take_samples(&p, all, &jax->cut) && !p.no_memory;

	if (ok && vt_vec_reserve(&jax->sites, jax->sites.n + p.sites.n + 1)) {
		if (p.sites.n)
			memcpy(jax->sites.data + jax->sites.n, p.sites.data,
			       p.sites.n * sizeof(*p.sites.data));
		jax->sites.n += p.sites.n;
		jax->told = true;
	} else {
		ok = false;
	}
	profile_deinit(&p);
	return ok ? NULL : vt_error_create(VT_ERR_FORMAT, "JAX's profile makes no sense");
}

/* ---- joining ---- */

static int compare_texts(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "");
}

static int compare_frames(const struct vt_model_frame *a, const struct vt_model_frame *b)
{
	int order = compare_texts(a->file, b->file);

	if (!order)
		order = compare_texts(a->function, b->function);
	return order ? order : (a->line > b->line) - (a->line < b->line);
}

static int compare_ways(const void *pa, const void *pb)
{
	const struct vt_model_jax_site *a = pa, *b = pb;
	int order = strcmp(a->device, b->device);

	if (!order)
		order = a->is_program - b->is_program;
	if (!order)
		order = (a->n_frames > b->n_frames) - (a->n_frames < b->n_frames);
	for (size_t i = 0; !order && i < a->n_frames; i++)
		order = compare_frames(&a->frames[i], &b->frames[i]);
	return order;
}

static int compare_bytes(const void *pa, const void *pb)
{
	const struct vt_model_jax_site *a = pa, *b = pb;

	if (a->bytes != b->bytes)
		return a->bytes < b->bytes ? 1 : -1;
	return compare_ways(pa, pb);
}

void vt_jax_finish(struct vt_model_jax *jax)
{
	size_t kept = 0;

	if (!jax->sites.n)
		return;
	qsort(jax->sites.data, jax->sites.n, sizeof(*jax->sites.data), compare_ways);
	for (size_t i = 0; i < jax->sites.n; i++) {
		struct vt_model_jax_site *last = kept ? &jax->sites.data[kept - 1] : NULL;
		const struct vt_model_jax_site *site = &jax->sites.data[i];

		if (last && !compare_ways(last, site)) {
			last->bytes += site->bytes;
			last->count += site->count;
		} else {
			jax->sites.data[kept++] = *site;
		}
	}
	jax->sites.n = kept;
	qsort(jax->sites.data, kept, sizeof(*jax->sites.data), compare_bytes);
}
