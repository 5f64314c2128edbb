/* SPDX-License-Identifier: Apache-2.0 */
#include "report/diff/growth.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "model/place.h"
#include "report/diff/keepers.h"
#include "report/diff/lines.h"

void vt_growth_init(struct vt_growth *growth, enum vt_growth_by by)
{
	*growth = (struct vt_growth){ .by = by };
}

void vt_growth_deinit(struct vt_growth *growth)
{
	vt_map_deinit(&growth->index);
	vt_vec_deinit(&growth->sources);
	vt_arena_deinit(&growth->arena);
	vt_course_deinit(&growth->course);
}

/* What was not read in one look would seem to grow in the next. */
bool vt_growth_has_owners(const struct vt_model *model)
{
	const struct vt_model_owners *owners = &model->owners;

	return owners->state == VT_OWNERS_READ && owners->whole && !owners->ran;
}

/* After a fault the driver tells less of kinds: such a ledger is compared with its like. */
static bool has_lines(const struct vt_growth *growth, const struct vt_model *model)
{
	bool any = false;

	if (!vt_lines_are_whole(model) ||
	    (growth->looks && model->ledger.by_attributes != growth->by_attributes))
		return false;
	for (size_t i = 0; i < model->ledger.devices.n; i++)
		any = any || model->ledger.devices.data[i].claims_known;
	return any;
}

bool vt_growth_is_look(const struct vt_growth *growth, const struct vt_model *model)
{
	if (growth->by == VT_GROWTH_BY_LINE)
		return has_lines(growth, model);
	if (growth->by == VT_GROWTH_BY_SITE && !model->block_traces)
		return false;
	if (growth->by == VT_GROWTH_BY_OWNER && !vt_growth_has_owners(model))
		return false;
	for (size_t i = 0; i < model->allocators.n; i++)
		if (!model->allocators.data[i].exact)
			return false;
	return model->allocators.n > 0;
}

/* ---- finding a source ---- */

static const char *copy_text(struct vt_growth *growth, const char *text, bool *ok)
{
	const char *copy = text ? vt_arena_strdup(&growth->arena, text) : NULL;

	*ok &= !text || copy;
	return copy;
}

/* The model is released after each look. */
static const struct vt_model_frame *copy_title(struct vt_growth *growth,
					       const struct vt_model_frame *title, bool *ok)
{
	struct vt_model_frame *copy;

	if (!title)
		return NULL;
	copy = vt_arena_alloc(&growth->arena, sizeof(*copy));
	if (!copy) {
		*ok = false;
		return NULL;
	}
	*copy = (struct vt_model_frame){
		.kind = title->kind,
		.function = copy_text(growth, title->function, ok),
		.file = copy_text(growth, title->file, ok),
		.line = title->line,
		.module = copy_text(growth, title->module, ok),
		.build_id = "",
		.pc = title->pc,
		.module_offset = title->module_offset,
	};
	return copy;
}

static uint64_t hash_of(const struct vt_growth *growth, const struct vt_growth_source *key)
{
	if (growth->by == VT_GROWTH_BY_SITE)
		return vt_place_hash(key->title);
	if (growth->by == VT_GROWTH_BY_OWNER)
		return vt_keeper_hash(key->variable, key->category);
	if (growth->by == VT_GROWTH_BY_LINE)
		return (uint64_t)(uint32_t)key->device * VT_N_LINES + key->line;
	return (key->stream ^ (uint64_t)key->device << 56) * UINT64_C(0x9e3779b97f4a7c15) ^
	       key->size * UINT64_C(0xc2b2ae3d27d4eb4f);
}

static bool is_same_source(const struct vt_growth *growth, const struct vt_growth_source *a,
			   const struct vt_growth_source *b)
{
	if (growth->by == VT_GROWTH_BY_SITE)
		return vt_place_equal(a->title, b->title);
	if (growth->by == VT_GROWTH_BY_OWNER)
		return a->category == b->category && !strcmp(a->variable, b->variable);
	if (growth->by == VT_GROWTH_BY_LINE)
		return a->device == b->device && a->line == b->line;
	return a->device == b->device && a->stream == b->stream && a->size == b->size;
}

/* NULL: the limit is reached, or out of memory (*ok is then false). */
static struct vt_growth_source *find_place(struct vt_growth *growth,
					   const struct vt_growth_source *key, bool *ok)
{
	uint64_t hash = hash_of(growth, key);
	struct vt_growth_source *source;
	const uint64_t *known;

	for (; (known = vt_map_get(&growth->index, hash)) != NULL; hash++)
		if (is_same_source(growth, &growth->sources.data[*known], key)) {
			source = &growth->sources.data[*known];
			/* what an owner holds is reached by more paths later */
			if (key->path && strcmp(key->path, source->path) != 0)
				source->path = copy_text(growth, key->path, ok);
			return *ok ? source : NULL;
		}
	if (growth->sources.n == VT_GROWTH_MAX_SOURCES) {
		growth->cut = true;
		return NULL;
	}
	source = vt_vec_append(&growth->sources);
	if (!source || !vt_map_put(&growth->index, hash, growth->sources.n - 1)) {
		growth->sources.n -= source != NULL;
		*ok = false;
		return NULL;
	}
	*source = *key;
	source->title = copy_title(growth, key->title, ok);
	source->variable = copy_text(growth, key->variable, ok);
	source->path = copy_text(growth, key->path, ok);
	source->born = growth->looks;
	return *ok ? source : NULL;
}

/* ---- a look ---- */

/* Collects the amounts of this look, before they are compared with those of the last. */
static bool count(struct vt_growth *growth, const struct vt_growth_source *key, uint64_t bytes,
		  uint64_t blocks, struct vt_model_amount **now, size_t *room)
{
	bool ok = true;
	struct vt_growth_source *source = find_place(growth, key, &ok);
	size_t i;

	if (!source)
		return ok;
	source->certain = key->certain; /* as in the last look */
	i = (size_t)(source - growth->sources.data);
	if (i >= *room) {
		size_t more = growth->sources.n * 2 + 64;
		struct vt_model_amount *grown = realloc(*now, more * sizeof(*grown));

		if (!grown)
			return false;
		memset(grown + *room, 0, (more - *room) * sizeof(*grown));
		*now = grown;
		*room = more;
	}
	(*now)[i].bytes += bytes;
	(*now)[i].blocks += blocks;
	source->seen += source->look != growth->looks;
	source->look = growth->looks;
	return true;
}

/* What has no name may be another thing each time. */
static bool count_owners(struct vt_growth *growth, const struct vt_model *model,
			 struct vt_model_amount **now, size_t *room)
{
	struct vt_keepers keepers;
	bool ok = vt_keepers_init(&keepers, model);

	for (size_t i = 0; i < keepers.items.n && ok; i++) {
		const struct vt_keeper *k = &keepers.items.data[i];

		if (*k->variable)
			ok = count(growth,
				   &(struct vt_growth_source){ .variable = k->variable,
							       .path = k->path,
							       .category = k->category,
							       .certain = k->certain },
				   k->bytes, k->tensors, now, room);
	}
	vt_keepers_deinit(&keepers);
	return ok;
}

/* Lines of 0, too: they are known. */
static bool count_lines(struct vt_growth *growth, const struct vt_model *model,
			struct vt_model_amount **now, size_t *room)
{
	bool ok = true;

	for (size_t i = 0; i < model->ledger.devices.n; i++) {
		const struct vt_model_ledger_device *d = &model->ledger.devices.data[i];

		for (unsigned int line = 0; line < VT_N_LINES && ok; line++) {
			struct vt_model_amount amount;

			if (vt_line_amount(model, d, line, &amount))
				ok = count(growth,
					   &(struct vt_growth_source){ .device = d->device,
								       .line = line },
					   amount.bytes, amount.blocks, now, room);
		}
	}
	return ok;
}

static bool count_all(struct vt_growth *growth, const struct vt_model *model,
		      struct vt_model_amount **now, size_t *room)
{
	bool ok = true;

	if (growth->by == VT_GROWTH_BY_OWNER)
		return count_owners(growth, model, now, room);
	if (growth->by == VT_GROWTH_BY_LINE)
		return count_lines(growth, model, now, room);
	for (size_t i = 0; i < model->sites.n && ok && growth->by == VT_GROWTH_BY_SITE; i++)
		ok = count(growth,
			   &(struct vt_growth_source){ .title = model->sites.data[i].title },
			   model->sites.data[i].bytes, model->sites.data[i].blocks, now, room);
	for (size_t i = 0; i < model->groups.n && ok && growth->by == VT_GROWTH_BY_SIZE; i++) {
		const struct vt_model_group *g = &model->groups.data[i];

		if (g->state == VT_BLOCK_ALLOCATED)
			ok = count(growth,
				   &(struct vt_growth_source){ .device = g->device,
							       .stream = g->stream,
							       .size = g->size },
				   g->bytes, g->blocks, now, room);
	}
	return ok;
}

static uint64_t less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

static void count_untraced(struct vt_growth *growth, const struct vt_model *model)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < VT_N_UNTRACED && growth->by == VT_GROWTH_BY_SITE; i++)
		bytes += model->untraced[i].bytes;
	growth->fell[1] = growth->fell[0];
	growth->fell[0] = growth->looks > 1 ? less(growth->untraced, bytes) : 0;
	growth->untraced = bytes;
}

static void compare(const struct vt_growth *growth, struct vt_growth_source *source,
		    const struct vt_model_amount *now)
{
	/* A line that is not known is not 0. */
	if (growth->looks == 1 || (growth->by == VT_GROWTH_BY_LINE && source->seen == 1))
		source->first = source->last = *now;
	source->change = (int64_t)(now->bytes - source->last.bytes);
	if (source->change > 0) {
		uint64_t all = now->bytes - source->last.bytes,
			 rise = less(less(all, growth->fell[0]), growth->fell[1]);

		source->replaced += all - rise;
		source->rises += rise > 0;
		source->rose_at = rise ? source->seen : source->rose_at;
		source->taken += rise;
		source->largest = rise > source->largest ? rise : source->largest;
	} else if (source->change < 0) {
		source->falls++;
		source->given += source->last.bytes - now->bytes;
	}
	source->last = *now;
}

/* A line that is not known in a look has no amount then; any other source has none in use. */
static bool add_to_course(struct vt_growth *growth, const struct vt_model *model)
{
	size_t n = growth->sources.n;
	VT_FREE uint64_t *bytes = malloc((n + 1) * sizeof(*bytes));
	double seconds = (double)(model->when.tv_sec - growth->began.tv_sec) +
			 (double)(model->when.tv_nsec - growth->began.tv_nsec) / 1e9;

	if (!bytes)
		return false;
	for (size_t i = 0; i < n; i++) {
		const struct vt_growth_source *source = &growth->sources.data[i];

		bytes[i] = growth->by == VT_GROWTH_BY_LINE && source->look != growth->looks ?
				   VT_COURSE_UNKNOWN :
				   source->last.bytes;
	}
	return vt_course_add(&growth->course, seconds, bytes, n);
}

bool vt_growth_add(struct vt_growth *growth, const struct vt_model *model)
{
	static const struct vt_model_amount nothing;
	struct vt_model_amount *now = NULL;
	size_t room = 0;
	bool ok;

	if (!growth->looks++) {
		growth->by_attributes = model->ledger.by_attributes;
		growth->began = model->when;
	}
	count_untraced(growth, model);
	ok = count_all(growth, model, &now, &room);
	for (size_t i = 0; i < growth->sources.n && ok; i++) {
		struct vt_growth_source *source = &growth->sources.data[i];

		if (source->look == growth->looks)
			compare(growth, source, &now[i]);
		else if (growth->by != VT_GROWTH_BY_LINE)
			compare(growth, source, &nothing);
		else
			source->change = 0;
	}
	free(now);
	return ok && add_to_course(growth, model);
}

/* ---- the rule ---- */

static bool is_jump(uint64_t net, const struct vt_growth_source *source)
{
	return net <= source->largest || net - source->largest < net / VT_GROWTH_JUMP;
}

/* That it appeared was a rise, if it was not there at first. */
static bool only_grows(const struct vt_growth *growth, const struct vt_growth_source *source)
{
	size_t intervals = growth->looks - source->born, rises = source->rises - (source->born > 1);

	return intervals >= VT_GROWTH_LOOKS - 1 && rises * 2 > intervals && !source->falls &&
	       !is_jump(source->taken, source);
}

static bool keeps_growing(const struct vt_growth_source *source, size_t looks)
{
	uint64_t net = less(source->taken, source->given);
	bool enough = looks >= VT_GROWTH_LOOKS;
	bool often = source->rises * 2 > looks - 1 ||
		     (!source->falls && source->rises >= VT_GROWTH_RISES);
	bool kept = source->given <= source->taken / VT_GROWTH_GIVEN_BACK;

	return enough && often && kept && !is_jump(net, source);
}

/* Both what is in use of a pool and what is kept are parts of what is held. */
static bool is_told_by_a_part(const struct vt_growth *growth, const struct vt_growth_source *source)
{
	unsigned int kind = source->line % VT_N_LIBPOOL_KINDS;

	if (source->line < VT_LINE_HELD || source->line >= VT_LINE_KINDS)
		return false;
	for (size_t i = 0; i < growth->sources.n; i++) {
		const struct vt_growth_source *part = &growth->sources.data[i];

		if (part->device == source->device && part->line < VT_LINE_HELD &&
		    part->line % VT_N_LIBPOOL_KINDS == kind && keeps_growing(part, part->seen) &&
		    part->rose_at * 3 > part->seen * 2)
			return true;
	}
	return false;
}

bool vt_growth_is_growing(const struct vt_growth *growth, const struct vt_growth_source *source)
{
	if (growth->by == VT_GROWTH_BY_OWNER)
		return only_grows(growth, source);
	if (growth->by == VT_GROWTH_BY_LINE)
		return keeps_growing(source, source->seen) &&
		       source->rose_at * 3 > source->seen * 2 && !is_told_by_a_part(growth, source);
	return keeps_growing(source, growth->looks);
}

int64_t vt_growth_grown(const struct vt_growth_source *source)
{
	return (int64_t)(source->last.bytes - source->first.bytes - source->replaced);
}

static int compare_sources(const void *pa, const void *pb, void *data)
{
	const struct vt_growth *growth = data;
	const struct vt_growth_source *a = &growth->sources.data[*(const size_t *)pa],
				      *b = &growth->sources.data[*(const size_t *)pb];
	int of_a = vt_growth_is_growing(growth, a), of_b = vt_growth_is_growing(growth, b);

	if (of_a != of_b)
		return of_b - of_a;
	if (vt_growth_grown(a) != vt_growth_grown(b))
		return vt_growth_grown(a) > vt_growth_grown(b) ? -1 : 1;
	return a < b ? -1 : a > b;
}

size_t vt_growth_order(const struct vt_growth *growth, size_t *order)
{
	size_t n = 0;

	for (size_t i = 0; i < growth->sources.n; i++)
		order[i] = i;
	if (growth->sources.n > 1)
		qsort_r(order, growth->sources.n, sizeof(*order), compare_sources, (void *)growth);
	while (n < growth->sources.n &&
	       vt_growth_is_growing(growth, &growth->sources.data[order[n]]))
		n++;
	return n;
}

const struct vt_growth_source *vt_growth_most(const struct vt_growth *growth)
{
	const struct vt_growth_source *best = NULL;

	for (size_t i = 0; i < growth->sources.n; i++) {
		const struct vt_growth_source *source = &growth->sources.data[i];

		if (vt_growth_is_growing(growth, source) &&
		    (!best || vt_growth_grown(source) > vt_growth_grown(best)))
			best = source;
	}
	return best;
}

const struct vt_growth_source *vt_growth_latest(const struct vt_growth *growth)
{
	const struct vt_growth_source *best = NULL;

	for (size_t i = 0; i < growth->sources.n; i++) {
		const struct vt_growth_source *source = &growth->sources.data[i];

		if (source->change > (best ? best->change : 0))
			best = source;
	}
	return best;
}
