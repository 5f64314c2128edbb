/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Return addresses of the calling thread. A recipe (unwind.h) leads from each return address to the
 * next, and a cache has the recipes of all addresses seen so far. An entry is one word, half of it
 * the recipe, so it is read and written as one. A recipe may be wrong for the current stack (a
 * library is where another one was before): then frames may be wrong. But whatever the recipe, only
 * the used part of the thread's own stack is read, upwards, so nothing can fault and every walk
 * ends.
 */
#include "memo.h"

#include "vramtap/freestanding.h"
#include "unwind.h"

/*
 * The cache has sets of four words, which are tried one after the other, starting with the one that
 * the address prefers. Addresses that are met by turns must not evict each other, as each would
 * then be looked up each time. The set of an address is its low bits, mixed with those above; its
 * tag is all bits except the low ones. So set and tag together identify the address.
 */
#define CACHE_BITS 14
#define WAYS 4
#define SET_BITS (CACHE_BITS - 2)
#define ADDRESS_BITS 48
_Static_assert(ADDRESS_BITS - SET_BITS + VT_RECIPE_BITS == 64, "tag and recipe are a word");
#define MULTIPLIER UINT64_C(0x9e3779b97f4a7c15)

#define THREAD_BITS 11
#define THREADS (1u << THREAD_BITS)
#define PAGE UINT64_C(4096)
#define MAX_PROBES 4096 /* 16 MiB of stack in use */
#define WORD sizeof(uint64_t)

/*
 * How far down from its thread pointer a thread's stack is known to be mapped. Only the thread
 * itself writes its own key.
 */
struct thread {
	uint64_t key; /* thread pointer */
	uint64_t low; /* its low bits are the thread id's: another may get the same pointer */
};
#define TID_MASK (PAGE - 1)

static struct {
	struct vt_recorder_imports imports;
	bool on;
	uint64_t *cache;              /* tag << VT_RECIPE_BITS | recipe; 0 empty */
	struct vt_unwind_epoch epoch; /* of the entries in the cache */
	uint32_t lock;                /* of the epoch */
	uint32_t recipes;             /* how often some were forgotten */
	uint64_t looked;              /* when it was last compared, in units of vt_rec_now() */
	struct thread threads[THREADS];
	/* how far down the main thread's stack is known to be mapped */
	uint64_t main_low;
} native;

/* ---- recipes ---- */

/* The preferred word of its set: bits 10 and 11 of the address. */
static inline uint64_t *slot_of(uint64_t pc)
{
	return &native.cache[(pc << 2 ^ pc >> (SET_BITS - 2)) & ((1u << CACHE_BITS) - 1)];
}

/* The others, by way: 1 to WAYS - 1. */
static inline uint64_t *other_slot(uint64_t *slot, unsigned int way)
{
	return &native.cache[(uint64_t)(slot - native.cache) ^ way];
}

static inline uint64_t tag_of(uint64_t pc)
{
	return pc >> SET_BITS << VT_RECIPE_BITS;
}

/*
 * Call it when wrong recipes are no longer in the cache: a walk that has begun by now may have used
 * them, and its memo is of no use; a later one does not meet them.
 */
static void forget_walks(void)
{
	__atomic_fetch_add(&native.recipes, 1, __ATOMIC_SEQ_CST);
}

/* Forgets what was known about modules that are gone, and about addresses without a module. */
static void forget_recipes(bool all)
{
	for (uint64_t i = 0; i < UINT64_C(1) << CACHE_BITS; i++) {
		uint64_t word = __atomic_load_n(&native.cache[i], __ATOMIC_RELAXED);

		if (all || vt_recipe_kind(word) == VT_RECIPE_UNKNOWN)
			__atomic_store_n(&native.cache[i], 0, __ATOMIC_RELAXED);
	}
	forget_walks();
}

/* Whether a recipe that was found in this epoch may be kept. */
static bool is_current(const struct vt_unwind_epoch *found)
{
	bool current = true;

	if (__atomic_load_n(&native.epoch.adds, __ATOMIC_SEQ_CST) == found->adds &&
	    __atomic_load_n(&native.epoch.subs, __ATOMIC_SEQ_CST) == found->subs)
		return true;
	if (!vt_rec_lock(&native.lock))
		return false;
	/* Both counters only grow: an older epoch was overtaken by another thread. */
	if (found->adds < native.epoch.adds || found->subs < native.epoch.subs) {
		current = false;
	} else {
		bool unloaded = found->subs != native.epoch.subs;

		/*
		 * This comes first: a thread that keeps an old recipe now either sees the new
		 * epoch, or has kept the recipe before everything is forgotten.
		 */
		__atomic_store_n(&native.epoch.adds, found->adds, __ATOMIC_SEQ_CST);
		__atomic_store_n(&native.epoch.subs, found->subs, __ATOMIC_SEQ_CST);
		forget_recipes(unloaded);
	}
	vt_rec_unlock(&native.lock);
	return current;
}

/* Where a recipe is put: an empty word, else the one that the address prefers. */
static uint64_t *slot_to_fill(uint64_t pc)
{
	uint64_t *slot = slot_of(pc);

	for (unsigned int way = 0; way < WAYS; way++)
		if (!__atomic_load_n(other_slot(slot, way), __ATOMIC_RELAXED))
			return other_slot(slot, way);
	return slot;
}

static uint32_t find_recipe(uint64_t pc)
{
	struct vt_unwind_epoch epoch = { 0, 0 };
	uint64_t *slot;
	uint32_t recipe = vt_recipe(VT_RECIPE_UNKNOWN, 0, 0);

	if (pc >= UINT64_C(1) << ADDRESS_BITS)
		return recipe;
	recipe = vt_unwind_find(native.imports.dl_iterate_phdr, pc, &epoch);
	if (!is_current(&epoch))
		return recipe;
	slot = slot_to_fill(pc);
	__atomic_store_n(slot, tag_of(pc) | recipe, __ATOMIC_SEQ_CST);
	/* The cache may have been cleared, and this entry may have come after that. */
	if (!is_current(&epoch)) {
		__atomic_store_n(slot, 0, __ATOMIC_RELEASE);
		forget_walks();
	}
	return recipe;
}

/* Two addresses with the same tag and set are equal; an empty slot has no kind. */
static inline bool is_of(uint64_t word, uint64_t pc)
{
	return !((word ^ tag_of(pc)) >> VT_RECIPE_BITS) && word;
}

static __attribute__((noinline)) uint64_t recipe_elsewhere(uint64_t pc)
{
	for (unsigned int way = 1; way < WAYS; way++) {
		uint64_t word = __atomic_load_n(other_slot(slot_of(pc), way), __ATOMIC_RELAXED);

		if (is_of(word, pc))
			return word;
	}
	return find_recipe(pc);
}

/* In the low bits; the bits above may have any value. */
static inline uint64_t recipe_of(uint64_t pc)
{
	uint64_t word = __atomic_load_n(slot_of(pc), __ATOMIC_RELAXED);

	return __builtin_expect(is_of(word, pc), 1) ? word : recipe_elsewhere(pc);
}

/*
 * A library that is loaded where another one was may have the same return addresses: then nothing
 * is missing from the cache, and only the loader's counters reveal the change. So they are checked
 * now and then.
 */
static inline void look_for_changes(uint64_t now)
{
	struct vt_unwind_epoch epoch;

	if (__builtin_expect(__atomic_load_n(&native.looked, __ATOMIC_RELAXED) == now, 1))
		return;
	__atomic_store_n(&native.looked, now, __ATOMIC_RELAXED);
	vt_unwind_epoch(native.imports.dl_iterate_phdr, &epoch);
	is_current(&epoch);
}

/* ---- the stack ---- */

/*
 * rt_sigprocmask() copies the new mask before it finds that `how` is invalid: EFAULT (14) or
 * EINVAL.
 */
static bool can_read(uint64_t addr)
{
	return vt_sys4(SYS_rt_sigprocmask, -1, (long)addr, 0, 8) != -14;
}

static bool all_there(uint64_t low, uint64_t end)
{
	if ((end - low) / PAGE > MAX_PROBES)
		return false;
	for (; low < end; low += PAGE)
		if (!can_read(low))
			return false;
	return true;
}

/*
 * The C library's record of a thread, to which its thread pointer points, is at the top of its
 * stack. If there is no hole in between, this is the stack that the thread uses now (and not the
 * stack of a coroutine or of a signal handler). 0: it is not.
 */
static uint64_t end_of_thread(uint64_t sp)
{
	uint64_t pointer = vt_arch_thread_pointer(), known, low = sp & ~(PAGE - 1);
	uint64_t tid = vt_rec_tid() & TID_MASK;
	struct thread *thread;

	thread = &native.threads[pointer * MULTIPLIER >> (64 - THREAD_BITS)];
	if (sp >= pointer)
		return 0;
	known = pointer;
	/* In this order: another thread takes the key away before it writes its own range. */
	if (__atomic_load_n(&thread->key, __ATOMIC_ACQUIRE) == pointer) {
		uint64_t its_low = __atomic_load_n(&thread->low, __ATOMIC_ACQUIRE);

		if (__atomic_load_n(&thread->key, __ATOMIC_ACQUIRE) == pointer &&
		    (its_low & TID_MASK) == tid)
			known = its_low & ~TID_MASK;
	}
	if (low >= known)
		return pointer;
	if (!all_there(low, known))
		return 0;
	__atomic_store_n(&thread->key, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&thread->low, low | tid, __ATOMIC_RELEASE);
	__atomic_store_n(&thread->key, pointer, __ATOMIC_RELEASE);
	return pointer;
}

/*
 * The main thread's stack has grown: there is no hole between its known part and here. (The range
 * into which its limit lets it grow may hold other mappings, even other stacks.)
 */
static bool main_has_grown(uint64_t sp)
{
	uint64_t low = sp & ~(PAGE - 1),
		 known = __atomic_load_n(&native.main_low, __ATOMIC_RELAXED);

	if (low >= known || !all_there(low, known))
		return false;
	__atomic_store_n(&native.main_low, low, __ATOMIC_RELAXED);
	return true;
}

static inline uint64_t end_of_stack(uint64_t sp)
{
	const struct vt_recorder_imports *imports = &native.imports;
	uint64_t end;

	if (sp & 7)
		return 0;
	if (sp < imports->main_stack_high &&
	    sp >= __atomic_load_n(&native.main_low, __ATOMIC_RELAXED))
		return imports->main_stack_high & ~(WORD - 1);
	end = end_of_thread(sp);
	if (!end && main_has_grown(sp))
		end = imports->main_stack_high;
	return end & ~(WORD - 1);
}

static inline uint64_t load(uint64_t addr)
{
	return *(const volatile uint64_t *)addr;
}

struct walk {
	uint64_t pc, sp, bp;
	uint64_t end; /* of the stack: words from sp up to it can be read */
};

static inline bool is_on_stack(const struct walk *w, uint64_t addr)
{
	return !(addr & 7) && addr >= w->sp && addr < w->end;
}

/* The CFA must be above the stack pointer by a word or more, and not beyond the end. */
static inline bool is_cfa(uint64_t cfa, uint64_t sp, uint64_t end)
{
	return !(cfa & 7) && cfa > sp && cfa <= end;
}

static bool step_realigned(struct walk *w, uint64_t recipe)
{
	uint64_t at = w->bp - vt_recipe_offset(recipe), cfa;

	if (!is_on_stack(w, at) || !is_on_stack(w, w->bp))
		return false;
	cfa = load(at);
	if (!is_cfa(cfa, w->sp, w->end))
		return false;
	w->bp = load(w->bp);
	w->pc = load(cfa - WORD);
	w->sp = cfa;
	return true;
}

/*
 * Code without call frame information. If it keeps frame pointers, rbp points to the caller's saved
 * rbp, and the return address is behind that. The address counts only when it looks like a return
 * address in every way; then frames may be missing, but those found are true.
 */
static bool step_frame_pointer(struct walk *w)
{
	uint64_t pc;

	if (!is_on_stack(w, w->bp) || !is_on_stack(w, w->bp + WORD))
		return false;
	pc = load(w->bp + WORD);
	if (!(recipe_of(pc) & VT_RECIPE_AFTER_CALL))
		return false;
	w->sp = w->bp + 2 * WORD;
	w->bp = load(w->bp);
	w->pc = pc;
	return true;
}

enum step { STEP_OK, STEP_OUTER, STEP_GUESSED, STEP_LOST };

static __attribute__((noinline)) enum step step_rarely(struct walk *w, uint64_t recipe)
{
	switch (vt_recipe_kind(recipe)) {
	case VT_RECIPE_OUTER:
		return STEP_OUTER;
	case VT_RECIPE_DRAP:
		return step_realigned(w, recipe) ? STEP_OK : STEP_LOST;
	default:
		/*
		 * The psABI: a zero rbp marks the outermost frame; but rbp may be used for
		 * something else.
		 */
		return step_frame_pointer(w) ? STEP_GUESSED : STEP_LOST;
	}
}

/*
 * To the caller's frame. Pointers to registers, once inlined: each value of the chain depends on
 * the one before. saved, by_bp: as in struct vt_rec_memo_native.
 */
static inline __attribute__((always_inline)) enum step step(uint64_t *pc, uint64_t *sp,
							    uint64_t *bp, uint64_t end,
							    uint16_t *saved, bool *by_bp)
{
	uint64_t recipe = recipe_of(*pc), cfa;
	enum vt_recipe_kind kind = vt_recipe_kind(recipe);

	if (__builtin_expect(kind != VT_RECIPE_SP && kind != VT_RECIPE_BP, 0)) {
		struct walk w = { .pc = *pc, .sp = *sp, .bp = *bp, .end = end };
		enum step result = step_rarely(&w, recipe);

		*saved = VT_REC_MEMO_ODD;
		*by_bp = result != STEP_OUTER;
		*pc = w.pc;
		*sp = w.sp;
		*bp = w.bp;
		return result;
	}
	cfa = (kind == VT_RECIPE_SP ? *sp : *bp) + vt_recipe_offset(recipe);
	*by_bp = kind == VT_RECIPE_BP;
	*saved = (uint16_t)vt_recipe_saved(recipe);
	if (__builtin_expect(!is_cfa(cfa, *sp, end) || *saved > cfa - *sp, 0)) {
		*saved = VT_REC_MEMO_ODD;
		return STEP_LOST;
	}
	if (*saved)
		*bp = load(cfa - *saved);
	*pc = load(cfa - WORD);
	*sp = cfa;
	return STEP_OK;
}

static inline unsigned int flags_of(enum step result)
{
	return result == STEP_LOST    ? VT_STACK_NATIVE_LOST :
	       result == STEP_GUESSED ? VT_STACK_NATIVE_GUESS :
					0;
}

void vt_rec_native_capture(const struct vt_rec_regs *regs, struct vt_rec_frames *frames)
{
	uint64_t pc = regs->pc, sp = regs->sp, bp = regs->bp, end;
	uint64_t *words = frames->words + frames->n_words_python;
	unsigned int n = 0, flags = 0;
	uint16_t saved;
	bool by_bp;

	if (!native.on)
		return;
	end = end_of_stack(sp);
	if (!end) {
		frames->flags |= VT_STACK_NATIVE_LOST;
		return;
	}
	look_for_changes(vt_rec_now());
	/* The outermost frames of some threads have a return address of 0. */
	while (pc) {
		enum step result;

		if (n == VT_RECORDER_MAX_NATIVE) {
			flags |= VT_STACK_NATIVE_CUT;
			break;
		}
		words[n++] = pc;
		result = step(&pc, &sp, &bp, end, &saved, &by_bp);
		if (__builtin_expect(result != STEP_OK, 0)) {
			flags |= flags_of(result);
			if (result != STEP_GUESSED)
				break;
		}
	}
	frames->n_native = (uint16_t)n;
	frames->flags |= (uint16_t)flags;
}

/* ---- the same with a memo ---- */

#define FRAMES VT_REC_MEMO_FRAMES
_Static_assert(FRAMES <= VT_RECORDER_MAX_NATIVE, "what the memo has is never cut");

typedef struct vt_rec_memo_native note_t;

/*
 * From a frame that the walk before had, too: how far the words that led on are what they were. All
 * of them lie between that frame and the end of the stack, which is the same stack.
 */
static inline uint32_t unchanged_until(const note_t *notes, uint32_t at, uint64_t end)
{
	for (; at + 1 < FRAMES && notes[at].saved != VT_REC_MEMO_ODD; at++) {
		const note_t *next = &notes[at + 1];
		uint64_t sp = end - next->depth;

		if (load(sp - WORD) != next->pc)
			break;
		if (next->live && notes[at].saved && load(sp - notes[at].saved) != next->bp)
			break;
	}
	return at;
}

/* The frame pointer of the frame after a note that has one saved. */
static inline uint64_t saved_bp(const note_t *note, uint64_t end)
{
	return load(end - note[1].depth - note->saved);
}

/* The frame pointer of a note, if all since `from`, of which it is bp, are unchanged. */
static inline uint64_t bp_of(const note_t *notes, uint32_t from, uint32_t at, uint64_t bp,
			     uint64_t end)
{
	for (uint32_t i = at; i > from; i--)
		if (notes[i - 1].saved)
			return saved_bp(&notes[i - 1], end);
	return bp;
}

/* After a change: what all frame pointers are by now, and which of them matter. */
static void look_at_frame_pointers(note_t *notes, uint32_t first, uint64_t end)
{
	bool live = false;

	for (uint32_t i = first; i + 1 < FRAMES; i++)
		if (notes[i].saved != VT_REC_MEMO_ODD)
			notes[i + 1].bp = notes[i].saved ? saved_bp(&notes[i], end) : notes[i].bp;
	for (uint32_t i = FRAMES; i-- > first;) {
		live = notes[i].by_bp || (live && !notes[i].saved);
		notes[i].live = live;
	}
}

static bool settle(struct vt_rec_memo *memo, struct vt_rec_follow *f, uint32_t to)
{
	return vt_rec_follow_is_settled(f, to) ||
	       vt_rec_follow_settle(f, memo->native_frames, sizeof(note_t), &memo->native.first,
				    memo->fresh->native, to);
}

/* The result of the whole walk is in the memo. False: too many frames. */
VT_REC_HOT static bool follow(const struct vt_rec_regs *regs, struct vt_rec_memo *memo,
			      struct vt_rec_follow *f)
{
	uint64_t pc = regs->pc, sp = regs->sp, bp = regs->bp, end = memo->native.end;
	note_t *notes = memo->native_frames;
	unsigned int flags = 0;

	while (pc) {
		enum step result;
		note_t *note;

		while (f->at < FRAMES && end - notes[f->at].depth < sp)
			f->at++;
		note = &notes[f->at];
		if (f->at < FRAMES && end - note->depth == sp && note->pc == pc &&
		    (note->bp == bp || !note->live)) {
			uint32_t met = f->at;

			if (!settle(memo, f, met))
				return false;
			note->bp = bp;
			f->at = unchanged_until(notes, met, end);
			note = &notes[f->at];
			bp = bp_of(notes, met, f->at++, bp, end);
			f->from = f->at;
			pc = note->pc;
			sp = end - note->depth;
		} else {
			if (f->from - memo->native.first + f->fresh >= FRAMES)
				return false;
			note = &memo->fresh->native[f->fresh++];
			note->pc = pc;
			note->depth = (uint32_t)(end - sp);
			note->bp = bp;
		}
		result = step(&pc, &sp, &bp, end, &note->saved, &note->by_bp);
		if (__builtin_expect(result != STEP_OK, 0)) {
			flags |= flags_of(result);
			if (result != STEP_GUESSED)
				break;
		}
	}
	f->changed |= flags != memo->native.flags;
	memo->native.flags = flags;
	if (!settle(memo, f, FRAMES))
		return false;
	if (f->changed)
		look_at_frame_pointers(notes, memo->native.first, end);
	return true;
}

VT_REC_HOT enum vt_rec_again vt_rec_native_again(const struct vt_rec_regs *regs,
						 struct vt_rec_memo *memo, uint64_t now)
{
	uint64_t end = native.on ? end_of_stack(regs->sp) : 0;
	struct vt_rec_follow f = { 0 };
	uint32_t recipes;

	if (!end || end - regs->sp > UINT32_MAX)
		return VT_REC_UNKNOWN;
	if (memo->native.pause) {
		memo->native.pause--;
		return VT_REC_UNKNOWN;
	}
	look_for_changes(now);
	recipes = __atomic_load_n(&native.recipes, __ATOMIC_SEQ_CST);
	if (memo->native.end != end || memo->native.recipes != recipes) {
		memo->native.first = FRAMES;
		memo->native.end = end;
		memo->native.recipes = recipes;
		f.changed = true;
	}
	f.from = f.at = memo->native.first;
	if (follow(regs, memo, &f))
		return f.changed ? VT_REC_CHANGED : VT_REC_SAME;
	memo->native.end = 0; /* it has nothing of this stack */
	memo->native.pause = VT_REC_MEMO_PAUSE;
	return VT_REC_UNKNOWN;
}

void vt_rec_native_recall(const struct vt_rec_memo *memo, struct vt_rec_frames *frames)
{
	uint64_t *words = frames->words + frames->n_words_python;
	uint32_t first = memo->native.first;
	uint64_t index = frames->n_words_python, sum = frames->hash;

	for (uint32_t i = first; i < FRAMES; i++) {
		words[i - first] = memo->native_frames[i].pc;
		sum += vt_rec_word_hash(memo->native_frames[i].pc, index++);
	}
	frames->hash = sum;
	frames->n_native = (uint16_t)(FRAMES - first);
	frames->flags |= (uint16_t)memo->native.flags;
}

/* ---- on and off ---- */

bool vt_rec_native_init(const struct vt_recorder_config *config)
{
	native.imports = config->imports;
	native.on = false;
	native.recipes = 0;
	native.lock = 0; /* in a child, a thread of the parent may have held it */
	native.epoch = (struct vt_unwind_epoch){ 0, 0 };
	native.looked = UINT64_MAX;
	native.main_low = native.imports.main_stack_low & ~(PAGE - 1);
	if (!config->native || !native.imports.dl_iterate_phdr)
		return true;
	for (unsigned int i = 0; i < THREADS; i++)
		native.threads[i] = (struct thread){ 0, 0 };
	native.cache = vt_rec_map((UINT64_C(1) << CACHE_BITS) * sizeof(*native.cache));
	native.on = native.cache;
	return native.on;
}

void vt_rec_native_deinit(void)
{
	native.on = false;
	if (native.cache)
		vt_rec_unmap(native.cache, (UINT64_C(1) << CACHE_BITS) * sizeof(*native.cache));
	native.cache = NULL;
}
