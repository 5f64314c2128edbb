/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of PyTorch's flight recorder (FlightRecorderDetail.hpp: dump_json; "version" 2.4 to
 * 2.10, PyTorch 2.5 to 2.15):
 *
 * - pg_config: {NAME: {name, desc, ranks: "[0, 1]"}}: the groups of this process. Gloo's are all
 *   called "" here.
 * - pg_status: {NUMBER: {last_enqueued_collective: "3", ...}}: NUMBER counts the groups in the
 *   order that this process made them; entries tie numbers to groups. Transfers between two ranks
 *   have their own sequence numbers, and overwrite those of the collectives here.
 * - entries: the last operations, the oldest first, as many as the recorder has room for. An
 *   operation with an entry was called. It is in last_enqueued_collective once NCCL's own function
 *   has returned.
 */
#include "model/flight.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"

#define NS_PER_MS UINT64_C(1000000)
#define MAX_GROUPS 4096
#define MAX_TEXT 256  /* of a name */
#define MAX_TENSORS 4 /* of an operation, that are told */
#define MAX_DIMENSIONS 8
#define NO_NUMBER (-1)

const struct vt_flight_recorder vt_flight_recorders[VT_FLIGHT_RECORDERS] = {
	{ "nccl", "_dump_nccl_trace_json", "", false, false, "pt_nccl_watchdg", "2.5" },
	{ "gloo", "_dump_fr_trace_json", "", true, false, "pt_gloo_runloop", "2.8" },
	/* what "nccl" is there */
	{ "nccl2", "_dump_fr_trace_json", "nccl2", false, true, "NCCL ", "2.15" },
};

/* All data found for a group; later steps decide which of it counts. */
struct found {
	struct vt_model_process_group group;
	int64_t id;                             /* its number in pg_status, NO_NUMBER unknown */
	int64_t called, over;                   /* collectives in the entries; NO_NUMBER none */
	int64_t coalesced, coalesced_transfers; /* their parts have no states */
	bool transfers; /* there are or may be transfers: pg_status is useless */
	bool is_configured;
};

struct parse {
	const struct vt_flight_recorder *recorder;
	struct vt_json_in in;
	uint64_t now_ns;
	bool only_active;
	VT_VEC(struct found) found;
	bool timed;   /* starts are recorded */
	bool evicted; /* operations are not there any more */
};

/* ---- ranks ---- */

static int compare_numbers(const void *pa, const void *pb)
{
	const int *a = pa, *b = pb;

	return (*a > *b) - (*a < *b);
}

struct numbers {
	int *data;
	size_t n, capacity;
};

/* "[0, 1, 2]" */
static bool read_numbers(const char *text, struct numbers *numbers)
{
	if (*text++ != '[')
		return false;
	while (*text && *text != ']') {
		char *end;
		long value = strtol(text, &end, 10);
		int *number;

		if (end == text || value < 0 || value >= VT_FLIGHT_MAX_RANKS ||
		    numbers->n >= VT_FLIGHT_MAX_RANKS)
			return false;
		number = vt_vec_append(numbers);
		if (!number)
			return false;
		*number = (int)value;
		text = end + strspn(end, ", ");
	}
	return *text == ']' && numbers->n;
}

static void add_ranges(const struct numbers *numbers, struct vt_str *text)
{
	for (size_t i = 0, end; i < numbers->n; i = end) {
		for (end = i + 1;
		     end < numbers->n && numbers->data[end] <= numbers->data[end - 1] + 1; end++)
			;
		vt_str_addf(text, "%s%d", i ? "," : "", numbers->data[i]);
		if (numbers->data[end - 1] > numbers->data[i])
			vt_str_addf(text, "-%d", numbers->data[end - 1]);
	}
}

const char *vt_flight_ranks(struct vt_arena *arena, const char *text)
{
	struct numbers numbers = { 0 };
	struct vt_str ranges = { 0 };
	const char *copy = NULL;

	if (read_numbers(text, &numbers)) {
		qsort(numbers.data, numbers.n, sizeof(*numbers.data), compare_numbers);
		add_ranges(&numbers, &ranges);
		copy = ranges.failed ? NULL :
				       vt_arena_strndup(arena, vt_str_get(&ranges), ranges.n);
	}
	vt_str_deinit(&ranges);
	vt_vec_deinit(&numbers);
	return copy;
}

/* ---- values ---- */

static const char *text_of(struct parse *p, const struct vt_json_value *from, const char *key)
{
	const struct vt_json_value *value = vt_json_get(from, key);
	size_t n = vt_json_length(value);
	const char *copy;

	if (!vt_json_is(value, VT_JSON_STRING)) {
		vt_json_in_wrong(&p->in, key, "is not a text");
		return "";
	}
	copy = vt_arena_strndup(p->in.strings, vt_json_string(value), n < MAX_TEXT ? n : MAX_TEXT);
	p->in.nomem |= !copy;
	return copy ? copy : "";
}

static int64_t number_of(struct parse *p, const struct vt_json_value *from, const char *key)
{
	const struct vt_json_value *value = vt_json_get(from, key);

	if (vt_json_is(value, VT_JSON_INTEGER) && vt_json_integer(value) >= 0)
		return vt_json_integer(value);
	vt_json_in_wrong(&p->in, key, "is not a number");
	return 0;
}

/* A number as a text, -1 included. */
static int64_t number_in_text(struct parse *p, const struct vt_json_value *from, const char *key)
{
	const char *text = vt_json_string(vt_json_get(from, key));
	char *end = NULL;
	long long value = text ? strtoll(text, &end, 10) : 0;

	if (text && end != text && !*end && value >= -1)
		return value;
	vt_json_in_wrong(&p->in, key, "is not a number");
	return NO_NUMBER;
}

/* ---- groups ---- */

static struct found *find_group(struct parse *p, const char *name)
{
	struct found *found;

	for (size_t i = 0; i < p->found.n; i++)
		if (!strcmp(p->found.data[i].group.name, name))
			return &p->found.data[i];
	found = p->found.n < MAX_GROUPS ? vt_vec_append(&p->found) : NULL;
	if (!found) {
		vt_json_in_wrong(&p->in, "pg_config", "has too many groups");
		return NULL;
	}
	*found = (struct found){
		.group = { .backend = p->recorder->backend,
			   .name = name,
			   .description = "",
			   .last_enqueued = NO_NUMBER,
			   .last_started = NO_NUMBER,
			   .last_completed = NO_NUMBER },
		.transfers = p->recorder->by_hook,
		.id = NO_NUMBER,
		.called = NO_NUMBER,
		.over = NO_NUMBER,
		.coalesced = NO_NUMBER,
		.coalesced_transfers = NO_NUMBER,
	};
	return found;
}

static void read_config(struct parse *p, const struct vt_json_value *root)
{
	const struct vt_json_value *config = vt_json_get(root, "pg_config");

	if (!vt_json_is(config, VT_JSON_OBJECT))
		vt_json_in_wrong(&p->in, "pg_config", "is not an object");
	for (size_t i = 0; i < vt_json_keys(config); i++) {
		const struct vt_json_value *one = vt_json_of_key(config, i);
		struct found *found = find_group(p, text_of(p, one, "name"));

		if (!found)
			return;
		found->is_configured = true;
		found->group.description = text_of(p, one, "desc");
		/* Of a large group it is a long text. */
		found->group.ranks =
			vt_json_is(vt_json_get(one, "ranks"), VT_JSON_STRING) ?
				vt_flight_ranks(p->in.strings,
						vt_json_string(vt_json_get(one, "ranks"))) :
				NULL;
	}
}

/* ---- operations ---- */

/* "nccl:all_reduce" without what is known. */
static const char *operation_of(const struct parse *p, const char *name)
{
	size_t n = strlen(p->recorder->backend);

	return !strncmp(name, p->recorder->backend, n) && name[n] == ':' ? name + n + 1 : name;
}

static void add_sizes(const struct vt_json_value *sizes, struct vt_str *text)
{
	size_t n = vt_json_count(sizes);

	vt_str_add(text, "[");
	for (size_t i = 0; i < n && i < MAX_DIMENSIONS; i++)
		vt_str_addf(text, "%s%lld", i ? ", " : "",
			    (long long)vt_json_integer(vt_json_at(sizes, i)));
	vt_str_add(text, n > MAX_DIMENSIONS ? ", ...]" : "]");
}

/* "[64, 1024] Float" */
static const char *input_of(struct parse *p, const struct vt_json_value *entry)
{
	const struct vt_json_value *sizes = vt_json_get(entry, "input_sizes"),
				   *types = vt_json_get(entry, "input_dtypes");
	size_t n = vt_json_count(sizes);
	struct vt_str text = { 0 };
	const char *copy;

	for (size_t i = 0; i < n && i < MAX_TENSORS; i++) {
		const char *type = vt_json_string(vt_json_at(types, i));

		vt_str_add(&text, i ? ", " : "");
		add_sizes(vt_json_at(sizes, i), &text);
		if (type)
			vt_str_addf(&text, " %.40s", type);
	}
	if (n > MAX_TENSORS)
		vt_str_addf(&text, " and %zu more", n - MAX_TENSORS);
	copy = text.n && !text.failed ? vt_arena_strndup(p->in.strings, vt_str_get(&text), text.n) :
					NULL;
	p->in.nomem |= text.failed;
	vt_str_deinit(&text);
	return copy;
}

static bool is_state(const struct vt_json_value *entry, const char *state)
{
	const char *theirs = vt_json_string(vt_json_get(entry, "state"));

	return theirs && !strcmp(theirs, state);
}

static bool is_over(const struct parse *p, const struct vt_json_value *entry)
{
	return is_state(entry, "completed") ||
	       (p->recorder->retired_is_over &&
		vt_json_is(vt_json_get(entry, "retired"), VT_JSON_TRUE));
}

static struct found *group_of(struct parse *p, const struct vt_json_value *entry)
{
	const struct vt_json_value *names = vt_json_get(entry, "process_group");
	const struct vt_json_value *name = vt_json_at(names, 0),
				   *description = vt_json_at(names, 1);
	struct found *found;
	const char *copy;

	if (!vt_json_is(name, VT_JSON_STRING) || !vt_json_is(description, VT_JSON_STRING)) {
		vt_json_in_wrong(&p->in, "process_group", "is not a pair of names");
		return NULL;
	}
	for (size_t i = 0; i < p->found.n; i++)
		if (!strcmp(p->found.data[i].group.name, vt_json_string(name)))
			return &p->found.data[i];
	copy = vt_arena_strndup(p->in.strings, vt_json_string(name), vt_json_length(name));
	found = copy ? find_group(p, copy) : NULL;
	p->in.nomem |= !copy;
	if (found) {
		copy = vt_arena_strndup(p->in.strings, vt_json_string(description),
					vt_json_length(description));
		p->in.nomem |= !copy;
		found->group.description = copy ? copy : "";
	}
	return found;
}

/* How far the group is. */
static void look_at_entry(struct parse *p, const struct vt_json_value *entry)
{
	struct found *found = group_of(p, entry);
	int64_t number = number_of(p, entry, "collective_seq_id");

	if (!found)
		return;
	found->id = number_of(p, entry, "pg_id");
	if (vt_json_is(vt_json_get(entry, "is_p2p"), VT_JSON_TRUE))
		found->transfers = true;
	else
		found->group.operation = operation_of(p, text_of(p, entry, "profiling_name"));
	/* A transfer has the number of the collective before it. */
	if (number > found->called)
		found->called = number;
	if (!found->transfers && is_over(p, entry) && number > found->over)
		found->over = number;
	p->timed |= !p->recorder->by_hook &&
		    vt_json_integer(vt_json_get(entry, "time_discovered_started_ns")) > 0;
}

/*
 * Goes from the newest to the oldest. The parts of a coalesced group have no states: the entry
 * after them, named "coalesced", has the state.
 */
static bool is_part(struct found *found, const struct vt_model_operation *op)
{
	int64_t *coalesced = op->of_two ? &found->coalesced_transfers : &found->coalesced;

	if (op->number == *coalesced)
		return true;
	if (!strcmp(op->name, "coalesced"))
		*coalesced = op->number;
	return false;
}

static void look_for_pending(struct parse *p, const struct vt_json_value *entry)
{
	struct found *found = group_of(p, entry);
	struct vt_model_operation op = {
		.name = operation_of(p, text_of(p, entry, "profiling_name")),
		.of_two = vt_json_is(vt_json_get(entry, "is_p2p"), VT_JSON_TRUE),
		.timeout_ms = (uint64_t)number_of(p, entry, "timeout_ms"),
	};
	uint64_t created_ns = (uint64_t)number_of(p, entry, "time_created_ns");

	op.number = number_of(p, entry, op.of_two ? "p2p_seq_id" : "collective_seq_id");
	if (!found || is_part(found, &op) || is_over(p, entry))
		return;
	/* Operations in a CUDA graph never complete. */
	if (!op.of_two && op.number <= found->group.last_completed)
		return;
	op.started = is_state(entry, "started") ? 1 : p->timed ? 0 : -1;
	op.input = input_of(p, entry);
	op.age_ms = created_ns < p->now_ns ? (p->now_ns - created_ns) / NS_PER_MS : 0;
	found->group.oldest = op;
	found->group.n_pending++;
}

/* ---- numbers ---- */

static struct found *by_id(const struct parse *p, int64_t id)
{
	for (size_t i = 0; i < p->found.n; i++)
		if (p->found.data[i].id == id)
			return &p->found.data[i];
	return NULL;
}

/*
 * If entries leave one group without a number, and one number without a group, they belong
 * together.
 */
static void tie_the_last_one(struct parse *p, const struct vt_json_value *status)
{
	struct found *untied = NULL;
	size_t n_untied = 0, n_left = 0;
	int64_t left = NO_NUMBER;

	for (size_t i = 0; i < p->found.n; i++) {
		n_untied += p->found.data[i].id == NO_NUMBER;
		untied = p->found.data[i].id == NO_NUMBER ? &p->found.data[i] : untied;
	}
	for (size_t i = 0; i < vt_json_keys(status); i++) {
		int64_t id = strtoll(vt_json_key(status, i), NULL, 10);

		if (by_id(p, id))
			continue;
		left = id;
		n_left++;
	}
	if (n_untied == 1 && n_left == 1)
		untied->id = left;
}

static int64_t none_is_zero(int64_t number)
{
	return number < 0 ? 0 : number;
}

static void read_status(struct parse *p, const struct vt_json_value *root)
{
	const struct vt_json_value *status = vt_json_get(root, "pg_status");

	if (!vt_json_is(status, VT_JSON_OBJECT))
		vt_json_in_wrong(&p->in, "pg_status", "is not an object");
	tie_the_last_one(p, status);
	for (size_t i = 0; i < vt_json_keys(status); i++) {
		const struct vt_json_value *one = vt_json_of_key(status, i);
		struct found *found = by_id(p, strtoll(vt_json_key(status, i), NULL, 10));
		int64_t enqueued = number_in_text(p, one, "last_enqueued_collective");
		int64_t started = number_in_text(p, one, "last_started_collective");
		int64_t completed = number_in_text(p, one, "last_completed_collective");

		if (!found || found->transfers)
			continue;
		found->group.last_enqueued = none_is_zero(enqueued);
		found->group.last_started = started;
		found->group.last_completed = none_is_zero(completed);
	}
}

/*
 * An operation with an entry was at least called, and the entries are newer than the watchdog's
 * view.
 */
static void settle(const struct parse *p, struct found *found)
{
	struct vt_model_process_group *g = &found->group;

	if (found->called == NO_NUMBER && g->last_enqueued < 0 && !p->evicted)
		g->last_enqueued = g->last_completed = 0;
	if (found->called > g->last_enqueued)
		g->last_enqueued = found->called;
	if (found->over > g->last_completed)
		g->last_completed = found->over;
}

/* With transfers, only the pending operations tell which ones completed. */
static void settle_with_transfers(struct found *found)
{
	struct vt_model_process_group *g = &found->group;

	if (!found->transfers)
		return;
	g->last_completed = g->n_pending && !g->oldest.of_two ? g->oldest.number - 1 :
			    g->n_pending                      ? NO_NUMBER :
								g->last_enqueued;
}

static void read_entries(struct parse *p, const struct vt_json_value *root)
{
	const struct vt_json_value *entries = vt_json_get(root, "entries");
	size_t n = vt_json_count(entries);

	if (entries && !vt_json_is(entries, VT_JSON_ARRAY))
		vt_json_in_wrong(&p->in, "entries", "is not an array");
	p->evicted = p->only_active;
	p->evicted |= n && vt_json_integer(vt_json_get(vt_json_at(entries, 0), "record_id")) > 0;
	for (size_t i = 0; i < n && !p->in.wrong[0]; i++)
		look_at_entry(p, vt_json_at(entries, i));
	read_status(p, root);
	for (size_t i = 0; i < p->found.n; i++)
		settle(p, &p->found.data[i]);
	for (size_t i = n; i-- > 0 && !p->in.wrong[0];)
		look_for_pending(p, vt_json_at(entries, i));
	for (size_t i = 0; i < p->found.n; i++)
		settle_with_transfers(&p->found.data[i]);
}

/* Gloo's configuration describes one group without a name, the last one made. */
static void give_ranks_to_the_only_one(struct parse *p)
{
	struct found *nameless = NULL, *other = NULL;

	for (size_t i = 0; i < p->found.n; i++)
		*(*p->found.data[i].group.name ? &other : &nameless) = &p->found.data[i];
	if (p->found.n == 2 && nameless && other && !other->group.ranks)
		other->group.ranks = nameless->group.ranks;
}

static bool is_told(const struct parse *p, const struct found *found)
{
	return *found->group.name || p->found.n == 1;
}

static struct vt_error *add_found(const struct parse *p, struct vt_model_collectives *to)
{
	if (!vt_vec_reserve(&to->groups, to->groups.n + p->found.n))
		return &vt_enomem;
	for (size_t i = 0; i < p->found.n; i++)
		if (is_told(p, &p->found.data[i]))
			to->groups.data[to->groups.n++] = p->found.data[i].group;
	to->told_ms = p->now_ns / NS_PER_MS;
	return NULL;
}

static struct vt_error *parse(struct parse *p, const struct vt_json_value *root,
			      struct vt_model_collectives *to)
{
	read_config(p, root);
	read_entries(p, root);
	if (p->in.nomem)
		return &vt_enomem;
	if (p->in.wrong[0])
		return vt_error_create(VT_ERR_FORMAT, "PyTorch's answer has an unknown format: %s",
				       p->in.wrong);
	give_ranks_to_the_only_one(p);
	return add_found(p, to);
}

struct vt_error *vt_flight_parse(const struct vt_flight_recorder *recorder, const char *text,
				 size_t n, uint64_t now_ns, bool only_active,
				 struct vt_arena *arena, struct vt_model_collectives *to)
{
	struct vt_arena values = { 0 };
	struct parse p = { .recorder = recorder,
			   .in = { .values = &values, .strings = arena },
			   .now_ns = now_ns,
			   .only_active = only_active };
	const struct vt_json_value *root = NULL;
	struct vt_error *err = vt_json_in_parse(&p.in, text, n, &root);

	if (!err)
		err = parse(&p, root, to);
	vt_vec_deinit(&p.found);
	vt_arena_deinit(&values);
	return err;
}
