/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder's state, damaged: a synthetic one (tests/unit/walk/recorder/recorder_image.h) whose
 * memory was changed before it is read, or is changed during that. Reading must come to an end
 * without touching what is not there; what it yields must hold together.
 *
 * An input is a byte (how it is read) and edits of 8 bytes each.
 */
#include "fuzz.h"
#include "unit/walk/recorder/recorder_image.h"
#include "walk/recorder/join.h"
#include "walk/recorder/launches.h"
#include "walk/recorder/stacks.h"

#define N_BLOCKS 40
#define N_STACKS 10
#define MAX_EDITS 16
#define EDIT_BYTES 8
#define N_LAUNCHES 30
#define LAUNCHES_AT 5 /* the stream's place */
#define BLOCK(i) (UINT64_C(0x7fe000000000) + (uint64_t)(i)*512)

enum { HOW_RUNNING = 1, HOW_MOVING = 2 };
enum where {
	IN_HEAD,
	IN_SHARDS,
	IN_TABLES,
	IN_DRIVER,
	IN_STACKS,
	IN_WORDS,
	IN_CODES,
	IN_ARRAYS,
	IN_TRAP,
	IN_LAUNCHES,
	N_WHERE
};
enum what { SET_WORD, SET_BYTE, ADD, POINT, LARGE, N_WHAT };

struct edit {
	uint8_t where, what;
	uint16_t index, offset, value;
};

static struct recorder_image image;
static uint8_t *original;
static struct edit edits[MAX_EDITS];
static size_t n_edits, next_edit;

/* One stream, of which some launches have ended. */
static void fill_launches(void)
{
	struct vt_recorder_launches *l = &image.head->launches;
	struct vt_recorder_launch *ring;
	uint64_t at;

	l->streams = recorder_image_alloc(&image, VT_LAUNCH_STREAMS *
							  sizeof(struct vt_recorder_launch_stream));
	l->names = recorder_image_alloc(&image, 16);
	memcpy(recorder_image_at(l->names), "one\0two\0three\0", 15);
	l->names_n = l->names_room = 16;
	at = recorder_image_alloc(&image, VT_LAUNCH_RING * sizeof(*ring));
	((struct vt_recorder_launch_stream *)recorder_image_at(l->streams))[LAUNCHES_AT] =
		(struct vt_recorder_launch_stream){ .key = 0x1000,
						    .handle = 0x1000,
						    .ring = at,
						    .launches_open = N_LAUNCHES,
						    .done = 3,
						    .ready = 1 };
	ring = recorder_image_at(at);
	for (uint64_t i = 0; i < N_LAUNCHES; i++) {
		ring[i] = (struct vt_recorder_launch){
			.number_state = (i + 1) << VT_LAUNCH_STATE_BITS | VT_LAUNCH_SUBMITTED,
			.kind = VT_LAUNCH_HANDLE,
			.what = i,
			.name = 4 * (i % 3) + 1,
		};
		ring[i].check = vt_recorder_launch_check(&ring[i]);
	}
}

static void fill(void)
{
	recorder_image_init(&image);
	for (uint64_t i = 0; i < 6; i++)
		recorder_image_add_code(&image, &(struct vt_recorder_code){ .object = 4096 * i,
									    .firstlineno = i });
	for (uint64_t i = 0; i < N_STACKS; i++) {
		const uint64_t words[] = { (i % 6) << 16 | i, (i % 5) << 16 | 0xffff, UINT64_MAX,
					   0x1000 + i, 0x2000 };

		recorder_image_add_stack(&image, words, 2, 3, 2);
	}
	for (unsigned int i = 0; i < N_BLOCKS; i++)
		recorder_image_put(&image, BLOCK(i), 100 + i, i, i % (N_STACKS + 1), 4000);
	for (unsigned int i = 0; i < 8; i++)
		recorder_image_put_driver(&image, BLOCK(1000 + i), 4096, VT_DRIVER_DEVICE, i);
	fill_launches();
	original = malloc(image.size);
	if (!original)
		exit(1);
	memcpy(original, image.base, image.size);
}

/* In what is kept of all, in the stream, in its ring, in the names. */
static uint64_t address_in_launches(const struct edit *e, const struct vt_recorder_launches *was)
{
	switch (e->index % 4) {
	case 0:
		return image.addr + offsetof(struct vt_recorder_head, launches) +
		       e->offset % sizeof(*was);
	case 1:
		return was->streams + LAUNCHES_AT * sizeof(struct vt_recorder_launch_stream) +
		       e->offset % 128;
	case 2: /* the ring is behind the names */
		return was->names + 64 +
		       e->offset % (N_LAUNCHES * sizeof(struct vt_recorder_launch));
	default:
		return was->names + e->offset % 16;
	}
}

static uint64_t address_of(const struct edit *e)
{
	uint64_t base = (uintptr_t)image.base,
		 shard = image.addr + offsetof(struct vt_recorder_head, shards) +
			 e->index % VT_RECORDER_SHARDS * sizeof(struct vt_recorder_shard);
	const struct vt_recorder_head *was =
		(const struct vt_recorder_head *)(const void *)original;
	uint64_t addr = base;

	switch (e->where % N_WHERE) {
	case IN_HEAD:
		addr = image.addr + offsetof(struct vt_recorder_head, python) + e->offset % 512;
		break;
	case IN_SHARDS:
		addr = shard + e->offset % sizeof(struct vt_recorder_shard);
		break;
	case IN_TABLES:
		addr = was->shards[e->index % VT_RECORDER_SHARDS].table + e->offset;
		break;
	case IN_DRIVER:
		addr = e->index & 1 ? was->driver.table + e->offset % 3072 :
				      image.addr + offsetof(struct vt_recorder_head, driver) +
					      e->offset % 32;
		break;
	case IN_STACKS:
		addr = was->stacks.addr +
		       e->offset % (sizeof(struct vt_recorder_stack) * (N_STACKS + 1));
		break;
	case IN_WORDS:
		addr = was->words.addr + e->offset % 512;
		break;
	case IN_CODES:
		addr = was->codes.addr + e->offset % 512;
		break;
	case IN_ARRAYS:
		addr = image.addr + offsetof(struct vt_recorder_head, codes) +
		       e->offset % (3 * sizeof(struct vt_recorder_array));
		break;
	case IN_LAUNCHES:
		addr = address_in_launches(e, &was->launches);
		break;
	default:
		addr = image.addr + offsetof(struct vt_recorder_head, trap) +
		       e->offset % sizeof(struct vt_recorder_trap);
		break;
	}
	return addr - base <= image.size - 8 ? addr : base;
}

static void apply(const struct edit *e)
{
	uint8_t *at = recorder_image_at(address_of(e));
	uint64_t word;

	memcpy(&word, at, sizeof(word));
	switch (e->what % N_WHAT) {
	case SET_WORD:
		word = e->value;
		break;
	case SET_BYTE:
		word = (word & ~UINT64_C(0xff)) | (e->value & 0xff);
		break;
	case ADD:
		word += (uint64_t)(int64_t)(int16_t)e->value;
		break;
	case POINT:
		word = (uintptr_t)image.base + (uint64_t)e->value * 8 % image.size;
		break;
	default:
		word = UINT64_MAX << e->value % 64;
		break;
	}
	memcpy(at, &word, sizeof(word));
}

static void edit_meanwhile(struct recorder_image *changed)
{
	(void)changed;
	if (next_edit < n_edits)
		apply(&edits[next_edit++]);
}

static void check_stacks(const struct vt_recorder_stacks *stacks)
{
	for (size_t i = 0; i < stacks->traces.n; i++) {
		const struct vt_recorder_trace *t = &stacks->traces.data[i];

		fuzz_check(t->n_python <= VT_RECORDER_MAX_PYTHON &&
				   t->n_native <= VT_RECORDER_MAX_NATIVE,
			   "stack %zu", i);
		fuzz_check(!t->invalid || !(t->n_python + t->n_native),
			   "an invalid stack has frames");
		for (uint32_t k = 0; k < t->n_python; k++)
			fuzz_check(t->frames[k] < stacks->python.n, "stack %zu, Python frame %u", i,
				   k);
		for (uint32_t k = 0; k < t->n_native; k++)
			fuzz_check(t->frames[t->n_python + k] < stacks->native.n,
				   "stack %zu, native frame %u", i, k);
	}
	fuzz_check(stacks->python.n == stacks->code_of.n, "places");
	for (size_t i = 0; i < stacks->python.n; i++)
		fuzz_check(stacks->code_of.data[i] < stacks->codes.n, "place %zu", i);
}

static void check_launches(const struct vt_recorder_launches_pass *pass)
{
	for (size_t i = 0; i < pass->streams.n; i++) {
		const struct vt_recorder_launch_list *list = &pass->streams.data[i];
		uint64_t total = vt_recorder_stream_launches(&list->stream), last = 0;

		fuzz_check(list->n <= VT_LAUNCH_RING && list->n_unkept <= total, "stream %zu", i);
		for (size_t k = 0; k < list->n; k++) {
			const struct vt_recorder_launched *l = &list->launches[k];

			fuzz_check(l->number > last && l->number <= total, "number of %zu", k);
			fuzz_check(l->record.kind && l->record.kind < VT_N_LAUNCH_KINDS,
				   "kind of %zu", k);
			last = l->number;
		}
	}
}

static size_t join_all(struct vt_recorder_pass *before, struct vt_recorder_pass *after,
		       const struct vt_recorder_head *head, struct vt_recorder_stacks *stacks)
{
	struct vt_block_rec blocks[N_BLOCKS] = { 0 };
	uint64_t listed_ns[VT_TORCH_MAX_DEVICES] = { IMAGE_START_NS * 2 };
	struct vt_recorder_joined joined = { 0 };
	struct vt_recorder_moment moment = {
		.before = before, .after = after, .head = head, .listed_ns = listed_ns
	};
	uint32_t trace;
	size_t n;

	for (unsigned int i = 0; i < N_BLOCKS; i++)
		blocks[i] = (struct vt_block_rec){ .addr = BLOCK(i),
						   .size = 512,
						   .requested = 100 + i };
	fuzz_check(vt_recorder_join(&moment, blocks, N_BLOCKS, &joined), "out of memory");
	for (unsigned int i = 0; i < N_BLOCKS; i++) {
		const struct vt_recorder_block *b;

		if (joined.fate_of[i] != VT_RECORD_JOINED)
			continue;
		fuzz_check(joined.record_of[i] < after->blocks.n, "record of block %u", i);
		b = &after->blocks.data[joined.record_of[i]];
		fuzz_check(b->addr == BLOCK(i) && b->size == 100 + i,
			   "block %u has another's record", i);
		fuzz_check(vt_recorder_stacks_want(stacks, b->stack, &trace), "out of memory");
	}
	n = joined.n[VT_RECORD_JOINED];
	vt_recorder_joined_deinit(&joined);
	return n;
}

static void read_all(void)
{
	static struct vt_recorder_head head;
	struct vt_recorder_oom ooms[VT_RECORDER_MAX_OOMS];
	struct vt_recorder_pass before = { 0 }, after = { 0 };
	struct vt_recorder_driver_pass driver = { 0 };
	struct vt_recorder_launches_pass launches = { 0 };
	struct vt_recorder_stacks stacks = { 0 };
	enum vt_recorder_found found;
	size_t n;

	vt_error_destroy(vt_recorder_head_read(&image.src, image.addr, &head, &found));
	vt_error_destroy(vt_recorder_pass_read(&image.src, image.addr, &before));
	vt_error_destroy(vt_recorder_pass_read(&image.src, image.addr, &after));
	vt_error_destroy(vt_recorder_driver_read(&image.src, image.addr, &driver));
	vt_error_destroy(vt_recorder_launches_read(&image.src, image.addr, &launches));
	check_launches(&launches);
	fuzz_check(vt_recorder_ooms(&head, ooms) <= VT_RECORDER_MAX_OOMS, "out of memory events");
	n = join_all(&before, &after, &head, &stacks);
	vt_error_destroy(vt_recorder_stacks_read(&image.src, image.addr, &stacks));
	check_stacks(&stacks);
	if (!n_edits)
		fuzz_check(n == N_BLOCKS && stacks.n_invalid == 1 /* the one that is none */ &&
				   driver.blocks.n == 8 && launches.streams.n == 1 &&
				   launches.streams.data[0].n == N_LAUNCHES - 3,
			   "%zu blocks, %zu driver blocks", n, driver.blocks.n);
	vt_recorder_pass_deinit(&before);
	vt_recorder_pass_deinit(&after);
	vt_recorder_driver_deinit(&driver);
	vt_recorder_launches_deinit(&launches);
	vt_recorder_stacks_deinit(&stacks);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1)
		return 0;
	if (!original)
		fill();
	memcpy(image.base, original, image.size);
	image.src.coherent = !(data[0] & HOW_RUNNING);
	image.after_read = data[0] & HOW_MOVING ? edit_meanwhile : NULL;
	n_edits = next_edit = 0;
	for (size_t at = 1; at + EDIT_BYTES <= size && n_edits < MAX_EDITS; at += EDIT_BYTES) {
		struct edit *e = &edits[n_edits++];

		e->where = data[at];
		e->what = data[at + 1];
		memcpy(&e->index, data + at + 2, 2);
		memcpy(&e->offset, data + at + 4, 2);
		memcpy(&e->value, data + at + 6, 2);
		if (!image.after_read)
			apply(e);
	}
	read_all();
	return 0;
}

size_t fuzz_seed(unsigned int number, uint8_t *data, size_t max)
{
	size_t n = 1 + (number >= 4 ? EDIT_BYTES : 0);

	if (number >= 4 + 4 * N_WHERE || max < n)
		return 0;
	memset(data, 0, n);
	data[0] = (uint8_t)(number % 4);
	if (n > 1) {
		data[1] = (uint8_t)((number - 4) / 4);
		data[2] = ADD;
		data[3] = 5;
		data[7] = 1;
	}
	return n;
}
