/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Python frames of the calling thread: code objects and instructions, as numbers. No other thread
 * changes them: a thread's chain of frames is its own, whether it has the GIL or not (PyTorch
 * releases it before it allocates), and the chain is at rest, since an allocation happens inside a
 * call of C code. So the frames are read in place, at the offsets that the tool knows for this
 * release, without taking references. A code object that has a frame here cannot be freed before
 * that frame ends.
 *
 * Later it may be freed, and another code object may get the same address. So the address alone
 * does not identify a code object: the words with its name and its lines do, and they are compared
 * each time.
 */
#include "memo.h"

#include "walk/python/layout.h"
#include "walk/python/layouts.h"

/*
 * Frames that are not shown: marks of the evaluator (3.12 on), and frames that have not begun. Each
 * is next to a shown frame.
 */
#define MAX_HOPS (4 * VT_RECORDER_MAX_PYTHON)
#define MAX_CODES (UINT64_C(1) << INDEX_BITS)
#define MAX_CODE (64 << 20) /* bytes of instructions; no instruction is further from the start */
#define FIRST_TABLE 4096

#define CACHE_BITS 12
#define INDEX_BITS 21
#define INDEX_MASK ((UINT64_C(1) << INDEX_BITS) - 1)
#define ADDRESS_BITS 47 /* of user space, unless a program asks for more */

#define MULTIPLIER UINT64_C(0x9e3779b97f4a7c15)

/*
 * The last seen index of a code object. Each half holds the index and one part of the object's
 * identity: its address without the low four bits, or the upper bits of its print. If two threads
 * write the halves at the same time, the indices differ.
 */
struct entry {
	uint64_t object;
	uint64_t print;
};

typedef void walk_fn(uint64_t frame, struct vt_rec_frames *frames, unsigned int max);
typedef enum vt_rec_again follow_fn(uint64_t frame, struct vt_rec_memo *memo);

static struct {
	struct vt_recorder_python at;
	bool on;
	walk_fn *walk;       /* along a chain of frames */
	follow_fn *follow;   /* the same with a memo */
	struct entry *cache; /* 1 << CACHE_BITS */
	/* indices + 1 into the table of codes, hashed by object and print; under the lock */
	uint32_t *table;
	uint64_t table_size; /* a power of 2 */
	/* bytes: the highest offset of a first traceable instruction seen so far */
	int64_t first_max;
	uint32_t lock;
} py;

static inline uint64_t word_at(uint64_t addr)
{
	return *(const volatile uint64_t *)addr;
}

static inline uint32_t half_at(uint64_t addr)
{
	return *(const volatile uint32_t *)addr;
}

/* Aligned, not in the first page, below the end of user space. */
static inline bool may_be_pointer(uint64_t addr)
{
	return !(addr & 7) && addr - 4096 < (UINT64_C(1) << ADDRESS_BITS) - 4096;
}

/*
 * An offset. Code that is specialised for a row of the table of layouts has the offsets as
 * constants, which makes it a third faster. row is NULL in code that is slow anyway, and for
 * releases with another layout.
 */
#define AT(row, member, FIELD) ((row) ? (row)->at[VT_PY_##FIELD] : py.at.member)

#define HOT_OFFSETS(X)                              \
	X(frame_previous, FRAME_PREVIOUS)           \
	X(frame_code, FRAME_CODE)                   \
	X(frame_instr, FRAME_INSTR)                 \
	X(frame_lasti, FRAME_LASTI)                 \
	X(frame_owner, FRAME_OWNER)                 \
	X(owner_generator, OWNER_GENERATOR)         \
	X(owner_shim, OWNER_SHIM)                   \
	X(code_tags, CODE_TAGS)                     \
	X(lasti_scale, LASTI_SCALE)                 \
	X(code_filename, CODE_FILENAME)             \
	X(code_name, CODE_NAME)                     \
	X(code_qualname, CODE_QUALNAME)             \
	X(code_linetable, CODE_LINETABLE)           \
	X(code_firstlineno, CODE_FIRSTLINENO)       \
	X(code_bytecode, CODE_BYTECODE)             \
	X(code_firsttraceable, CODE_FIRSTTRACEABLE) \
	X(str_length, UNICODE_LENGTH)               \
	X(str_state, UNICODE_STATE)                 \
	X(str_data, UNICODE_ASCII_DATA)             \
	X(frame_tlbc, FRAME_TLBC)                   \
	X(code_tlbc, CODE_TLBC)

typedef const struct vt_python_layout *row_t;

#define INLINE static inline __attribute__((always_inline))

/* ---- code objects ---- */

/* Distinguishes texts from each other, except those that are not in ASCII. */
INLINE uint64_t text(row_t row, uint64_t str)
{
	uint32_t is_ascii = row ? row->at[VT_PY_STATE_COMPACT] | row->at[VT_PY_STATE_ASCII] :
				  py.at.str_is_ascii;
	uint64_t length = word_at(str + AT(row, str_length, UNICODE_LENGTH));
	uint64_t data = str + AT(row, str_data, UNICODE_ASCII_DATA);

	if ((half_at(str + AT(row, str_state, UNICODE_STATE)) & is_ascii) != is_ascii)
		return length;
	if (length >= sizeof(uint64_t))
		return vt_recorder_text(length, word_at(data + length - sizeof(uint64_t)));
	/* The whole word is readable: memory of objects comes in pieces of 16 bytes. */
	return vt_recorder_text(length, word_at(data) & ((UINT64_C(1) << 8 * length) - 1));
}

INLINE uint64_t version_of(row_t row, const struct vt_recorder_code *code)
{
	uint32_t at = row ? vt_py_code_version_at(row) : py.at.code_version;

	if (at != VT_RECORDER_NONE)
		return half_at(code->object + at);
	return vt_recorder_texts(text(row, code->name), text(row, code->filename));
}

INLINE void look(row_t row, uint64_t object, struct vt_recorder_code *code)
{
	code->object = object;
	code->filename = word_at(object + AT(row, code_filename, CODE_FILENAME));
	code->name = word_at(object + AT(row, code_name, CODE_NAME));
	code->qualname = AT(row, code_qualname, CODE_QUALNAME) == VT_RECORDER_NONE ?
				 code->name :
				 word_at(object + AT(row, code_qualname, CODE_QUALNAME));
	code->linetable = word_at(object + AT(row, code_linetable, CODE_LINETABLE));
	code->firstlineno = half_at(object + AT(row, code_firstlineno, CODE_FIRSTLINENO));
	code->version = version_of(row, code);
}

static inline uint64_t rotated(uint64_t word, unsigned int by)
{
	return word << by | word >> (64 - by);
}

/* The same words in another order give another print: freed memory is reused in any order. */
static inline uint64_t print_of(const struct vt_recorder_code *code)
{
	uint64_t h = code->filename ^ rotated(code->name, 17) ^ rotated(code->qualname, 31) ^
		     rotated(code->linetable, 47);

	return (h + code->firstlineno + rotated(code->version, 32)) * MULTIPLIER;
}

/*
 * What the cache compares. co_version alone is enough: the interpreter gives each code object a
 * different one, until it runs out of them after 2^32 and leaves 0. One load of the object instead
 * of seven saves a fifth of the cost of a frame.
 */
INLINE uint64_t quick_print(row_t row, uint64_t object)
{
	uint32_t at = row ? vt_py_code_version_at(row) : py.at.code_version;
	struct vt_recorder_code code;

	if (at != VT_RECORDER_NONE) {
		uint64_t version = half_at(object + at);

		if (__builtin_expect(version != 0, 1))
			return version * MULTIPLIER;
	}
	look(row, object, &code);
	return print_of(&code);
}

static inline struct entry *entry_of(uint64_t object)
{
	return &py.cache[object * MULTIPLIER >> (64 - CACHE_BITS)];
}

static inline uint64_t object_half(uint64_t object)
{
	return object << (64 - ADDRESS_BITS);
}

_Static_assert(64 - ADDRESS_BITS + 4 == INDEX_BITS, "an object is aligned to 16 bytes");

static bool is_same_code(const struct vt_recorder_code *a, const struct vt_recorder_code *b)
{
	return a->object == b->object && a->filename == b->filename && a->name == b->name &&
	       a->qualname == b->qualname && a->linetable == b->linetable &&
	       a->firstlineno == b->firstlineno && a->version == b->version;
}

static const struct vt_recorder_code *codes(void)
{
	return (const struct vt_recorder_code *)vt_recorder.codes.addr;
}

static uint64_t slot_of(const struct vt_recorder_code *code, const uint32_t *table, uint64_t size,
			bool any)
{
	uint64_t slot = (print_of(code) ^ code->object * MULTIPLIER) >> 20 & (size - 1);

	while (table[slot] && (any || !is_same_code(&codes()[table[slot] - 1], code)))
		slot = (slot + 1) & (size - 1);
	return slot;
}

static bool grow_table(void)
{
	uint64_t size = py.table_size * 2;
	uint32_t *table = vt_rec_map(size * sizeof(*table));

	if (!table)
		return false;
	for (uint64_t i = 0; i < vt_recorder.codes.n; i++)
		table[slot_of(&codes()[i], table, size, true)] = (uint32_t)i + 1;
	vt_rec_unmap(py.table, py.table_size * sizeof(*py.table));
	py.table = table;
	py.table_size = size;
	return true;
}

static void note_first_traceable(uint64_t object)
{
	int64_t first;

	if (py.at.code_firsttraceable == VT_RECORDER_NONE)
		return;
	first = 2 * (int64_t)(int32_t)half_at(object + py.at.code_firsttraceable);
	if (first > __atomic_load_n(&py.first_max, __ATOMIC_RELAXED))
		__atomic_store_n(&py.first_max, first, __ATOMIC_RELAXED);
}

/*
 * The index of a code object in the table; adds it if it is missing. -1: no room. Under the lock.
 */
static int64_t enter(const struct vt_recorder_code *code)
{
	struct vt_recorder_array *array = &vt_recorder.codes;
	uint64_t slot = slot_of(code, py.table, py.table_size, false), n = array->n;

	if (py.table[slot])
		return py.table[slot] - 1;
	if (n >= MAX_CODES || !vt_rec_array_grow(array, sizeof(*code)))
		return -1;
	if (2 * (n + 1) > py.table_size) {
		if (!grow_table())
			return -1;
		slot = slot_of(code, py.table, py.table_size, false);
	}
	((struct vt_recorder_code *)array->addr)[n] = *code;
	__atomic_store_n(&array->n, n + 1, __ATOMIC_RELEASE);
	py.table[slot] = (uint32_t)n + 1;
	note_first_traceable(code->object);
	return (int64_t)n;
}

/* Looks up an object that is not in the cache. -1: not a code object, or no room for it. */
static __attribute__((noinline)) int64_t index_slowly(uint64_t object)
{
	struct entry *entry = entry_of(object);
	struct vt_recorder_code code;
	int64_t index;

	if (word_at(object + py.at.object_type) != py.at.code_type || !vt_rec_lock(&py.lock))
		return -1;
	look(NULL, object, &code);
	index = enter(&code);
	if (index >= 0) {
		__atomic_store_n(&entry->object, object_half(object) | (uint64_t)index,
				 __ATOMIC_RELAXED);
		__atomic_store_n(&entry->print,
				 (quick_print(NULL, object) & ~INDEX_MASK) | (uint64_t)index,
				 __ATOMIC_RELEASE);
	}
	vt_rec_unlock(&py.lock);
	return index;
}

/* print: its quick_print() */
INLINE int64_t index_of(uint64_t object, uint64_t print)
{
	const struct entry *entry = entry_of(object);
	uint64_t by_object, by_print;

	by_object = __atomic_load_n(&entry->object, __ATOMIC_RELAXED) ^ object_half(object);
	by_print = __atomic_load_n(&entry->print, __ATOMIC_ACQUIRE) ^ (print & ~INDEX_MASK);
	if (__builtin_expect(by_object == by_print && by_object <= INDEX_MASK, 1))
		return (int64_t)by_object;
	return index_slowly(object);
}

/* ---- frames ---- */

/* For an offset that cannot be an instruction, the line is unknown rather than wrong. */
static inline int64_t in_code(int64_t offset)
{
	if (__builtin_expect(offset < 0 || offset > MAX_CODE, 0))
		return offset < 0 ? -1 : INT32_MAX;
	return offset;
}

/*
 * Free-threaded builds from 3.14 on: each thread specialises a copy of the bytecode for itself.
 * co_tlbc points to the number of copies, followed by the pointers to them; the first is the code
 * object's own. The array is replaced when it grows, and the old one is freed when no thread can be
 * using it, except a thread that has detached from the interpreter, as ours has. So data read from
 * the array counts only if co_tlbc still points to it.
 */
static uint64_t bytecode_copy(uint64_t code, int32_t index)
{
	for (int try = 0; try < 4; try++) {
		uint64_t copies = word_at(code + py.at.code_tlbc), start;

		if (!may_be_pointer(copies) || index < 0 || (uint64_t)index >= word_at(copies))
			return 0;
		start = word_at(copies + 8 + (uint64_t)index * 8);
		if (word_at(code + py.at.code_tlbc) == copies)
			return start;
	}
	return 0;
}

INLINE int64_t instruction_of(row_t row, uint64_t frame, uint64_t code)
{
	uint64_t start = code + AT(row, code_bytecode, CODE_BYTECODE);

	if (AT(row, frame_instr, FRAME_INSTR) == VT_RECORDER_NONE)
		return in_code((int32_t)half_at(frame + AT(row, frame_lasti, FRAME_LASTI)) *
			       (int64_t)AT(row, lasti_scale, LASTI_SCALE));
	if (AT(row, frame_tlbc, FRAME_TLBC) != VT_RECORDER_NONE) {
		int32_t copy = (int32_t)half_at(frame + AT(row, frame_tlbc, FRAME_TLBC));

		if (copy != 0)
			start = bytecode_copy(code, copy);
		if (!start)
			return INT32_MAX;
	}
	return in_code((int64_t)(word_at(frame + AT(row, frame_instr, FRAME_INSTR)) - start));
}

/*
 * From 3.11 on a frame before its first traceable instruction is hidden: it is still making its
 * cells or its generator.
 */
INLINE bool has_begun(row_t row, uint64_t code, uint32_t owner, int64_t lasti)
{
	if (AT(row, code_firsttraceable, CODE_FIRSTTRACEABLE) == VT_RECORDER_NONE ||
	    owner == AT(row, owner_generator, OWNER_GENERATOR))
		return true;
	if (__builtin_expect(lasti >= __atomic_load_n(&py.first_max, __ATOMIC_RELAXED), 1))
		return true;
	return lasti >= 2 * (int64_t)(int32_t)half_at(
				    code + AT(row, code_firsttraceable, CODE_FIRSTTRACEABLE));
}

INLINE uint64_t word_of(int64_t index, int64_t lasti)
{
	uint64_t units = (uint64_t)lasti / 2;

	if (__builtin_expect((lasti & 1) || units >= VT_RECORDER_LASTI_WIDE, 0))
		units = VT_RECORDER_LASTI_WIDE;
	return (uint64_t)index << 16 | units;
}

INLINE int64_t lasti_of(const struct vt_rec_memo_python *seen)
{
	return (int32_t)(uint32_t)seen->owner_lasti;
}

INLINE uint64_t *put_frame(uint64_t *words, const struct vt_rec_memo_python *seen)
{
	*words++ = seen->word;
	if (__builtin_expect((seen->word & VT_RECORDER_LASTI_WIDE) == VT_RECORDER_LASTI_WIDE, 0))
		*words++ = (uint64_t)lasti_of(seen);
	return words;
}

INLINE uint64_t previous_of(row_t row, uint64_t frame)
{
	return word_at(frame + AT(row, frame_previous, FRAME_PREVIOUS));
}

INLINE uint32_t owner_of(row_t row, uint64_t frame)
{
	return AT(row, frame_owner, FRAME_OWNER) == VT_RECORDER_NONE ?
		       0 :
		       *(const volatile uint8_t *)(frame + AT(row, frame_owner, FRAME_OWNER));
}

INLINE bool is_shim(row_t row, uint32_t owner)
{
	return AT(row, frame_owner, FRAME_OWNER) != VT_RECORDER_NONE &&
	       owner >= AT(row, owner_shim, OWNER_SHIM);
}

INLINE uint64_t code_of(row_t row, uint64_t frame)
{
	uint64_t code = word_at(frame + AT(row, frame_code, FRAME_CODE));

	return AT(row, code_tags, CODE_TAGS) == VT_RECORDER_NONE ?
		       code :
		       code & ~(uint64_t)AT(row, code_tags, CODE_TAGS);
}

/* All that is read of a frame. False: it has no code object, or there is no room for it. */
INLINE bool look_at_frame(row_t row, uint64_t frame, struct vt_rec_memo_python *seen)
{
	uint32_t owner = owner_of(row, frame);
	int64_t index, lasti;

	seen->frame = frame;
	seen->owner_lasti = (uint64_t)owner << 32;
	seen->word = VT_REC_MEMO_HIDDEN;
	seen->code = 0;
	if (is_shim(row, owner))
		return true;
	seen->code = code_of(row, frame);
	if (!may_be_pointer(seen->code))
		return false;
	seen->print = quick_print(row, seen->code);
	index = index_of(seen->code, seen->print);
	if (__builtin_expect(index < 0, 0))
		return false;
	lasti = instruction_of(row, frame, seen->code);
	seen->owner_lasti |= (uint32_t)lasti;
	if (has_begun(row, seen->code, owner, lasti))
		seen->word = word_of(index, lasti);
	return true;
}

/* Follows the chain from the innermost frame on. */
INLINE void walk(row_t row, uint64_t frame, struct vt_rec_frames *frames, unsigned int max)
{
	uint64_t *words = frames->words;
	unsigned int n = 0, hops = 0;

	while (frame) {
		struct vt_rec_memo_python seen;
		uint64_t previous;

		if (hops++ == MAX_HOPS || !may_be_pointer(frame))
			break;
		previous = previous_of(row, frame);
		if (!look_at_frame(row, frame, &seen))
			break;
		if (seen.word != VT_REC_MEMO_HIDDEN) {
			if (n == max)
				break;
			words = put_frame(words, &seen);
			n++;
		}
		frame = previous;
	}
	if (frame)
		frames->flags |= VT_STACK_PYTHON_CUT;
	frames->n_python = (uint16_t)n;
	frames->n_words_python = (uint16_t)(words - frames->words);
}

static void walk_any(uint64_t frame, struct vt_rec_frames *frames, unsigned int max)
{
	walk(NULL, frame, frames, max);
}

/* ---- frames, with a memo ---- */

#define FRAMES VT_REC_MEMO_FRAMES
_Static_assert(FRAMES <= VT_RECORDER_MAX_PYTHON, "what the memo has is never cut");
/* Where a frame is looked for: so many may have returned since. */
#define WINDOW 16
#define CHUNK (16 << 10) /* bytes of the interpreter's stack, which grows upwards (3.11 on) */

typedef struct vt_rec_memo_python note_t;

INLINE bool is_unchanged(row_t row, uint64_t frame, const note_t *note)
{
	uint64_t owner_lasti = (uint64_t)owner_of(row, frame) << 32;

	if (is_shim(row, (uint32_t)(owner_lasti >> 32)))
		return owner_lasti == note->owner_lasti;
	if (code_of(row, frame) != note->code)
		return false;
	owner_lasti |= (uint32_t)instruction_of(row, frame, note->code);
	return owner_lasti == note->owner_lasti && quick_print(row, note->code) == note->print;
}

/*
 * The first frame after the note at `at` that is not as it was, or FRAMES; next: its address in the
 * chain. frame: of the note, which is unchanged. Each address is that of the note once it has been
 * compared with the word in the frame before.
 */
INLINE uint32_t unchanged_until(row_t row, const note_t *notes, uint32_t at, uint64_t frame,
				uint64_t *next)
{
	for (;;) {
		*next = previous_of(row, frame);
		at++;
		if (at == FRAMES || *next != notes[at].frame)
			return at;
		/* The same number; but whoever needs it need not wait for the chain. */
		frame = *(const volatile uint64_t *)&notes[at].frame;
		if (!is_unchanged(row, frame, &notes[at]))
			return at;
	}
}

/* A frame little above another one was called after it, and so is not among its callers. */
static inline uint32_t find_note(const note_t *notes, uint32_t at, uint64_t frame)
{
	for (uint32_t i = at; i < FRAMES && i < at + WINDOW; i++) {
		if (notes[i].frame == frame)
			return i;
		if (frame - notes[i].frame < CHUNK)
			break;
	}
	return FRAMES;
}

static __attribute__((noinline)) bool settle(struct vt_rec_memo *memo, struct vt_rec_follow *f,
					     uint32_t to)
{
	return vt_rec_follow_settle(f, memo->python_frames, sizeof(note_t), &memo->python.first,
				    memo->fresh->python, to);
}

/* The whole chain is in the memo then. False: too many frames, or one that cannot be recorded. */
INLINE bool follow(row_t row, uint64_t frame, struct vt_rec_memo *memo, struct vt_rec_follow *f)
{
	const note_t *notes = memo->python_frames;

	while (frame) {
		uint32_t found = find_note(notes, f->at, frame);

		if (!may_be_pointer(frame))
			return false;
		if (found < FRAMES && is_unchanged(row, frame, &notes[found])) {
			if (!vt_rec_follow_is_settled(f, found) && !settle(memo, f, found))
				return false;
			f->at = f->from = unchanged_until(row, notes, found, frame, &frame);
			continue;
		}
		if (found < FRAMES)
			f->at = found + 1;
		if (f->from - memo->python.first + f->fresh >= FRAMES ||
		    !look_at_frame(row, frame, &memo->fresh->python[f->fresh]))
			return false;
		f->fresh++;
		frame = previous_of(row, frame);
	}
	return vt_rec_follow_is_settled(f, FRAMES) || settle(memo, f, FRAMES);
}

INLINE enum vt_rec_again again(row_t row, uint64_t frame, struct vt_rec_memo *memo)
{
	struct vt_rec_follow f = { .from = memo->python.first, .at = memo->python.first };

	if (follow(row, frame, memo, &f))
		return f.changed ? VT_REC_CHANGED : VT_REC_SAME;
	memo->python.first = FRAMES;
	memo->python.pause = VT_REC_MEMO_PAUSE;
	return VT_REC_UNKNOWN;
}

void vt_rec_python_recall(const struct vt_rec_memo *memo, struct vt_rec_frames *frames)
{
	uint64_t *words = frames->words, sum = 0;
	uint32_t n = 0;

	for (uint32_t i = memo->python.first; i < FRAMES; i++) {
		const note_t *note = &memo->python_frames[i];
		uint64_t index = (uint64_t)(words - frames->words);

		if (note->word == VT_REC_MEMO_HIDDEN)
			continue;
		words = put_frame(words, note);
		sum += vt_rec_word_hash(note->word, index);
		if (__builtin_expect(words - frames->words > (long)index + 1, 0))
			sum += vt_rec_word_hash(words[-1], index + 1);
		n++;
	}
	frames->hash = sum;
	frames->n_python = (uint16_t)n;
	frames->n_words_python = (uint16_t)(words - frames->words);
	if (memo->python.none)
		frames->flags |= VT_STACK_NO_PYTHON;
}

/* ---- a walk for each layout ---- */

static enum vt_rec_again follow_any(uint64_t frame, struct vt_rec_memo *memo)
{
	return again(NULL, frame, memo);
}

#define WALK_ROW(i)                                                                              \
	static void walk_row_##i(uint64_t frame, struct vt_rec_frames *frames, unsigned int max) \
	{                                                                                        \
		walk(&vt_python_rows[i], frame, frames, max);                                    \
	}                                                                                        \
	static enum vt_rec_again follow_row_##i(uint64_t frame, struct vt_rec_memo *memo)        \
	{                                                                                        \
		return again(&vt_python_rows[i], frame, memo);                                   \
	}
#define ROWS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8)
ROWS(WALK_ROW)

static walk_fn *const walks[] = {
#define NAME(i) walk_row_##i,
	ROWS(NAME)
#undef NAME
};

static follow_fn *const follows[] = {
#define NAME(i) follow_row_##i,
	ROWS(NAME)
#undef NAME
};

#define N_ROWS (sizeof(walks) / sizeof(walks[0]))
_Static_assert(N_ROWS == sizeof(vt_python_rows) / sizeof(vt_python_rows[0]), "a walk for each row");

/* The walks specialised for this layout, else the general ones. */
static void choose_walk(void)
{
	py.walk = walk_any;
	py.follow = follow_any;
	for (uint32_t i = 0; i < N_ROWS; i++) {
		bool same = true;
#define SAME(member, FIELD) same = same && py.at.member == vt_python_rows[i].at[VT_PY_##FIELD];
		HOT_OFFSETS(SAME)
#undef SAME
		same = same && py.at.code_version == vt_py_code_version_at(&vt_python_rows[i]);
		if (same) {
			py.walk = walks[i];
			py.follow = follows[i];
			return;
		}
	}
}

static uint64_t innermost(uint64_t tstate)
{
	uint64_t cframe;

	if (py.at.tstate_frame != VT_RECORDER_NONE)
		return word_at(tstate + py.at.tstate_frame);
	cframe = word_at(tstate + py.at.tstate_cframe);
	return may_be_pointer(cframe) ? word_at(cframe + py.at.cframe_frame) : 0;
}

/*
 * 0: a thread that never called Python, or whose interpreter is being torn down: then thread states
 * are freed while their threads still run.
 */
static uint64_t own_tstate(void)
{
	if (!py.on || ((int (*)(void))py.at.is_finalizing)())
		return 0;
	return (uint64_t)((void *(*)(void))py.at.get_this_tstate)();
}

void vt_rec_python_capture(struct vt_rec_frames *frames, unsigned int max)
{
	uint64_t tstate = own_tstate();

	if (may_be_pointer(tstate))
		py.walk(innermost(tstate), frames, max);
	else
		frames->flags |= VT_STACK_NO_PYTHON;
}

VT_REC_HOT enum vt_rec_again vt_rec_python_again(struct vt_rec_memo *memo)
{
	uint64_t tstate = own_tstate();
	bool none = !may_be_pointer(tstate), same = none == memo->python.none;
	enum vt_rec_again again = VT_REC_SAME;

	if (memo->python.pause) {
		memo->python.pause--;
		return VT_REC_UNKNOWN;
	}
	memo->python.none = none;
	if (none)
		memo->python.first = FRAMES;
	else
		again = py.follow(innermost(tstate), memo);
	return again == VT_REC_SAME && !same ? VT_REC_CHANGED : again;
}

/* ---- on and off ---- */

bool vt_rec_python_init(const struct vt_recorder_config *config)
{
	py.at = config->python_layout;
	py.on = false;
	py.first_max = 0;
	py.lock = 0; /* in a child, a thread of the parent may have held it */
	if (!config->python || !py.at.get_this_tstate || !py.at.is_finalizing)
		return true;
	choose_walk();
	py.table_size = FIRST_TABLE;
	py.table = vt_rec_map(py.table_size * sizeof(*py.table));
	py.cache = vt_rec_map((UINT64_C(1) << CACHE_BITS) * sizeof(*py.cache));
	if (!py.table || !py.cache ||
	    !vt_rec_array_init(&vt_recorder.codes, MAX_CODES, sizeof(struct vt_recorder_code))) {
		vt_rec_python_deinit();
		return false;
	}
	py.on = true;
	return true;
}

void vt_rec_python_deinit(void)
{
	py.on = false;
	if (py.table)
		vt_rec_unmap(py.table, py.table_size * sizeof(*py.table));
	if (py.cache)
		vt_rec_unmap(py.cache, (UINT64_C(1) << CACHE_BITS) * sizeof(*py.cache));
	vt_rec_array_deinit(&vt_recorder.codes, sizeof(struct vt_recorder_code));
	py.table = NULL;
	py.cache = NULL;
}
