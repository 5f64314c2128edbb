/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the fields of a Block by their contents in a few dozen blocks, in any order. Each function
 * finds one field (or some that only make sense together) among the bytes that no other field has.
 * If two places fit, they have the same value in every sample. Then it takes the one that all
 * releases from 2.0 to 2.15 had, and marks the field as known by its place only. It omits a field
 * that the walk can do without rather than guess. In the end every block must pass the checks of
 * the walk, and the totals must equal the allocator's own.
 */
#include <string.h>

#include "walk/torch/finder.h"

#define NONE VT_TORCH_NO_FIELD
#define WORDS (VT_TORCH_SAMPLE_BYTES / 8)
/* sizes and addresses of blocks in the default pools are multiples of it (kMinBlockSize) */
#define MIN_BLOCK 512
#define SIZE_MAX_BITS 42 /* more than any device has */
/* a stream each; less than the upper half of an address left in the memory */
#define EVENTS_MAX (1 << 12)

struct search {
	struct vt_torch_finder *f;
	struct vt_torch_block_layout l;
	uint16_t bytes; /* that a Block may have */
	bool taken[VT_TORCH_SAMPLE_BYTES];
	/*
	 * samples whose word a is not NULL; how many of those name an object whose word b names the
	 * sample
	 */
	uint16_t filled[WORDS];
	uint16_t linked[WORDS][WORDS];
	/* the block that each sample names as its next one, if readable */
	bool has_next[VT_TORCH_SAMPLES_MAX];
	uint8_t next[VT_TORCH_SAMPLES_MAX][VT_TORCH_SAMPLE_BYTES];
	/* active blocks of a device, by its statistics */
	bool none_allocated[VT_TORCH_MAX_DEVICES], all_allocated[VT_TORCH_MAX_DEVICES];
	uint64_t n_allocated[VT_TORCH_MAX_DEVICES], n_active[VT_TORCH_MAX_DEVICES];
};

/*
 * Evidence against a candidate, by the tables that have the samples: unmapped ones are few, and it
 * must hold for them as well.
 */
struct tally {
	size_t n[VT_SAMPLE_TABLES], bad[VT_SAMPLE_TABLES];
};

static void count(struct tally *tally, const struct vt_torch_sample *sample, bool is_bad)
{
	tally->n[sample->table]++;
	tally->bad[sample->table] += is_bad;
}

static bool holds(const struct tally *tally)
{
	for (int table = 0; table < VT_SAMPLE_TABLES; table++) {
		if (!vt_torch_tolerable(tally->bad[table], tally->n[table]))
			return false;
	}
	return true;
}

static const struct vt_torch_sample *sample_at(const struct search *s, size_t i)
{
	return &s->f->samples[i];
}

static uint64_t word_of(const struct vt_torch_sample *sample, unsigned int word)
{
	return vt_load64(sample->bytes + 8 * word);
}

static unsigned int n_words(const struct search *s)
{
	return s->bytes / 8;
}

static void take_field(struct search *s, enum vt_torch_field field, uint16_t *member,
		       unsigned int offset, unsigned int width, enum vt_torch_how how)
{
	*member = (uint16_t)offset;
	memset(s->taken + offset, true, width);
	s->f->how[field] = (uint8_t)how;
}

static void leave_out(struct search *s, enum vt_torch_field field, uint16_t *member)
{
	*member = NONE;
	s->f->how[field] = VT_TORCH_HOW_NOT;
}

static bool is_free(const struct search *s, unsigned int offset, unsigned int width)
{
	if (offset + width > s->bytes)
		return false;
	for (unsigned int i = 0; i < width; i++) {
		if (s->taken[offset + i])
			return false;
	}
	return true;
}

static bool is_private(const struct search *s, const struct vt_torch_sample *sample)
{
	uint64_t pool = vt_load64(sample->bytes + s->l.pool), dca = s->f->dcas[sample->device];

	return pool != dca + s->f->layout.large_blocks && pool != dca + s->f->layout.small_blocks;
}

static bool is_allocated(const struct search *s, const struct vt_torch_sample *sample)
{
	return sample->table == VT_SAMPLE_ACTIVE && sample->bytes[s->l.allocated] == 1;
}

/* ---- how long a Block is ---- */

/*
 * operator new is malloc() in PyTorch, and glibc keeps the size of a chunk in front of it. All
 * Blocks have the same size, or 16 more if the rest of a larger chunk was too small for a chunk of
 * its own. With another malloc, a Block ends after the last field that was found.
 */
static uint64_t chunk_of(const struct search *s, size_t i)
{
	uint64_t chunk;

	if (vt_mem_read_u64(s->f->src, sample_at(s, i)->addr - 8, &chunk) || (chunk & 8))
		return 0;
	return chunk & ~UINT64_C(15);
}

static void find_end(struct search *s)
{
	uint64_t least = UINT64_MAX;
	size_t bad = 0;

	s->bytes = VT_TORCH_SAMPLE_BYTES;
	for (size_t i = 0; i < s->f->n_samples; i++) {
		uint64_t chunk = chunk_of(s, i);

		least = chunk && chunk < least ? chunk : least;
	}
	for (size_t i = 0; i < s->f->n_samples; i++)
		bad += chunk_of(s, i) - least > 16;
	if (vt_torch_tolerable(bad, s->f->n_samples) && least - 8 >= VT_TORCH_BLOCK_MIN &&
	    least - 8 < VT_TORCH_SAMPLE_BYTES)
		s->bytes = (uint16_t)(least - 8);
}

static void take_end(struct search *s)
{
	unsigned int end = VT_TORCH_SAMPLE_BYTES;

	if (s->bytes < VT_TORCH_SAMPLE_BYTES) {
		/* up to 15 more than sizeof(Block), which are readable, too */
		s->l.size_of = s->bytes;
		s->f->how[VT_TORCH_BLOCK_SIZE_OF] = VT_TORCH_HOW_SIGNATURE;
		return;
	}
	while (end && !s->taken[end - 1])
		end--;
	s->l.size_of = (uint16_t)end;
	s->f->how[VT_TORCH_BLOCK_SIZE_OF] = VT_TORCH_HOW_POSITION;
}

/* ---- stream_uses, pool ---- */

static bool find_stream_uses(struct search *s)
{
	for (unsigned int w = 0; w + sizeof(struct vt_ska) / 8 <= n_words(s); w++) {
		struct tally tally = { 0 };

		for (size_t i = 0; i < s->f->n_samples; i++) {
			struct vt_ska table;

			memcpy(&table, sample_at(s, i)->bytes + 8 * w, sizeof(table));
			count(&tally, sample_at(s, i),
			      !vt_ska_plausible(&table) ||
				      (table.n && sample_at(s, i)->table != VT_SAMPLE_ACTIVE));
		}
		if (holds(&tally)) {
			take_field(s, VT_TORCH_BLOCK_STREAM_USES, &s->l.stream_uses, 8 * w,
				   sizeof(struct vt_ska), VT_TORCH_HOW_SIGNATURE);
			return true;
		}
	}
	return false;
}

static bool find_pool(struct search *s)
{
	for (unsigned int w = 0; w < n_words(s); w++) {
		struct tally tally = { 0 };
		size_t bad = 0;

		for (size_t i = 0; i < s->f->n_samples && vt_torch_tolerable(bad, s->f->n_samples);
		     i++) {
			bool is_bad = !is_free(s, 8 * w, 8) ||
				      !vt_torch_is_pool_of(s->f, sample_at(s, i),
							   word_of(sample_at(s, i), w));

			bad += is_bad;
			count(&tally, sample_at(s, i), is_bad);
		}
		if (vt_torch_tolerable(bad, s->f->n_samples) && holds(&tally)) {
			take_field(s, VT_TORCH_BLOCK_POOL, &s->l.pool, 8 * w, 8,
				   VT_TORCH_HOW_SIGNATURE);
			return true;
		}
	}
	return false;
}

/* ---- ptr, size, prev, next ---- */

static void count_links(struct search *s)
{
	for (size_t i = 0; i < s->f->n_samples; i++) {
		const struct vt_torch_sample *sample = sample_at(s, i);

		for (unsigned int a = 0; a < n_words(s); a++) {
			uint64_t addr = word_of(sample, a);
			uint8_t there[VT_TORCH_SAMPLE_BYTES];

			if (!addr || !is_free(s, 8 * a, 8))
				continue;
			s->filled[a]++;
			if (!vt_is_object(addr) || addr == sample->addr ||
			    vt_mem_read(s->f->src, addr, there, s->bytes))
				continue;
			for (unsigned int b = 0; b < n_words(s); b++)
				s->linked[a][b] =
					(uint16_t)(s->linked[a][b] +
						   (vt_load64(there + 8 * b) == sample->addr));
		}
	}
}

/* What words a contain names a neighbour in the opposite direction of words b. */
static bool are_links(const struct search *s, unsigned int a, unsigned int b)
{
	return a != b && is_free(s, 8 * a, 8) && is_free(s, 8 * b, 8) &&
	       s->linked[a][b] + s->linked[b][a] > 0 &&
	       vt_torch_tolerable((size_t)(s->filled[a] - s->linked[a][b]), s->filled[a]) &&
	       vt_torch_tolerable((size_t)(s->filled[b] - s->linked[b][a]), s->filled[b]);
}

/* Whether word w can be an address or a size of every sample. */
static bool is_extent(const struct search *s, unsigned int w)
{
	struct tally tally = { 0 };

	if (!is_free(s, 8 * w, 8))
		return false;
	for (size_t i = 0; i < s->f->n_samples; i++) {
		uint64_t value = word_of(sample_at(s, i), w);

		count(&tally, sample_at(s, i),
		      !value || value >> 56 ||
			      (value % MIN_BLOCK && !is_private(s, sample_at(s, i))));
	}
	return holds(&tally);
}

/*
 * A size is never less than the requested size, so the candidate with the largest total is the
 * size.
 */
static uint64_t sum_of(const struct search *s, unsigned int w)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < s->f->n_samples; i++)
		sum += word_of(sample_at(s, i), w);
	return sum;
}

struct extent {
	unsigned int ptr, size; /* words */
	size_t confirmed;       /* neighbours */
	uint64_t sum;
	bool tied; /* another word can be the address as well */
};

static void read_next(struct search *s, unsigned int next)
{
	for (size_t i = 0; i < s->f->n_samples; i++) {
		uint64_t addr = word_of(sample_at(s, i), next);

		s->has_next[i] = vt_is_object(addr) &&
				 !vt_mem_read(s->f->src, addr, s->next[i], s->bytes);
	}
}

/*
 * Takes the candidate if it is better than the best one so far. Padding keeps what the memory had
 * before, which can be addresses as far from each other as those of two blocks. Then the address is
 * the word behind pool, as in all releases from 2.0 to 2.15.
 */
static void choose_extent(const struct search *s, const struct extent *one, struct extent *best)
{
	unsigned int usual = s->l.pool / 8u + 1;
	bool tied = best->confirmed && one->ptr != best->ptr && one->sum == best->sum;

	if (!best->confirmed || one->sum > best->sum || (tied && one->ptr == usual))
		*best = *one;
	best->tied |= tied;
}

/*
 * The words that make ptr + size of a block the ptr of the block that its word next names; false
 * when there are none.
 */
static bool extent_of_links(struct search *s, unsigned int next, struct extent *best)
{
	uint16_t agree[WORDS][WORDS] = { 0 };
	uint64_t total = 0;

	*best = (struct extent){ 0 };
	read_next(s, next);
	for (size_t i = 0; i < s->f->n_samples; i++) {
		const struct vt_torch_sample *sample = sample_at(s, i);

		if (!s->has_next[i])
			continue;
		total++;
		for (unsigned int p = 0; p < n_words(s); p++) {
			uint64_t distance = vt_load64(s->next[i] + 8 * p) - word_of(sample, p);

			for (unsigned int w = 0; distance && w < n_words(s); w++)
				agree[p][w] =
					(uint16_t)(agree[p][w] + (word_of(sample, w) == distance));
		}
	}
	for (unsigned int p = 0; p < n_words(s); p++) {
		for (unsigned int w = 0; w < n_words(s); w++) {
			struct extent one = { .ptr = p, .size = w, .confirmed = agree[p][w] };

			if (p == w || !agree[p][w] ||
			    !vt_torch_tolerable(total - agree[p][w], total) || !is_extent(s, p) ||
			    !is_extent(s, w))
				continue;
			one.sum = sum_of(s, w);
			choose_extent(s, &one, best);
		}
	}
	return best->confirmed > 0;
}

static bool find_linked(struct search *s)
{
	struct extent best = { 0 }, one;
	unsigned int next = 0, prev = 0;

	for (unsigned int a = 0; a < n_words(s); a++) {
		for (unsigned int b = 0; b < n_words(s); b++) {
			if (!are_links(s, a, b) || !extent_of_links(s, a, &one) ||
			    one.confirmed <= best.confirmed)
				continue;
			best = one;
			next = a;
			prev = b;
		}
	}
	if (!best.confirmed)
		return false;
	read_next(s, next);
	take_field(s, VT_TORCH_BLOCK_PTR, &s->l.ptr, 8 * best.ptr, 8,
		   best.tied ? VT_TORCH_HOW_POSITION : VT_TORCH_HOW_SIGNATURE);
	take_field(s, VT_TORCH_BLOCK_SIZE, &s->l.size, 8 * best.size, 8, VT_TORCH_HOW_SIGNATURE);
	take_field(s, VT_TORCH_BLOCK_PREV, &s->l.prev, 8 * prev, 8, VT_TORCH_HOW_SIGNATURE);
	take_field(s, VT_TORCH_BLOCK_NEXT, &s->l.next, 8 * next, 8, VT_TORCH_HOW_SIGNATURE);
	return true;
}

/* No two samples overlap, and every address is higher than any size. */
static bool are_apart(const struct search *s, unsigned int ptr, unsigned int size)
{
	size_t bad = 0;

	for (size_t i = 0; i < s->f->n_samples; i++) {
		const struct vt_torch_sample *a = sample_at(s, i);
		uint64_t start = word_of(a, ptr), end = start + word_of(a, size);

		bad += start <= word_of(a, size) || word_of(a, size) >> SIZE_MAX_BITS;
		for (size_t j = 0; j < i; j++) {
			const struct vt_torch_sample *b = sample_at(s, j);

			if (a->device == b->device && start < word_of(b, ptr) + word_of(b, size) &&
			    word_of(b, ptr) < end) {
				bad++;
				break;
			}
		}
	}
	return vt_torch_tolerable(bad, s->f->n_samples);
}

/*
 * Every segment is one block: nothing is linked. Only the values of sizes and addresses are left to
 * go by. If two words can be the address, or two different words the size, the fields stay unknown.
 */
static bool find_lone(struct search *s)
{
	unsigned int ptr = WORDS, size = WORDS;

	for (unsigned int w = 0; w < n_words(s); w++) {
		for (unsigned int p = 0; p < n_words(s); p++) {
			if (p == w || !is_extent(s, w) || !is_extent(s, p) || !are_apart(s, p, w))
				continue;
			if (ptr != WORDS && ptr != p)
				return false;
			ptr = p;
			if (size == WORDS || sum_of(s, w) > sum_of(s, size))
				size = w;
		}
	}
	if (ptr == WORDS)
		return false;
	take_field(s, VT_TORCH_BLOCK_PTR, &s->l.ptr, 8 * ptr, 8, VT_TORCH_HOW_SIGNATURE);
	take_field(s, VT_TORCH_BLOCK_SIZE, &s->l.size, 8 * size, 8, VT_TORCH_HOW_SIGNATURE);
	return true;
}

/*
 * prev and next of lone blocks: the two words behind the flags, if they are NULL, as they must be.
 */
static bool set_links(struct search *s)
{
	unsigned int at = (s->l.allocated + 8u) / 8 * 8;

	memset(s->has_next, 0, sizeof(s->has_next));
	if (s->l.mapped != NONE && s->l.mapped >= at)
		at += 8;
	if (!is_free(s, at, 16) || s->filled[at / 8] || s->filled[at / 8 + 1])
		return false;
	take_field(s, VT_TORCH_BLOCK_PREV, &s->l.prev, at, 8, VT_TORCH_HOW_POSITION);
	take_field(s, VT_TORCH_BLOCK_NEXT, &s->l.next, at + 8, 8, VT_TORCH_HOW_POSITION);
	return true;
}

/* ---- allocated, mapped ---- */

/*
 * While the target runs, the statistics and the samples are from two moments. The tolerance allows
 * for that.
 */
static void count_allocated(struct search *s)
{
	for (size_t i = 0; i < s->f->n_dcas; i++) {
		uint64_t stats = s->f->dcas[i] + s->f->layout.stats, allocated, active;

		if (vt_mem_read_u64(s->f->src, stats, &allocated) ||
		    vt_mem_read_u64(s->f->src, stats + 2 * VT_STATS_ARRAY, &active))
			continue;
		s->n_allocated[i] = allocated;
		s->n_active[i] = active;
		s->none_allocated[i] = !allocated;
		s->all_allocated[i] = allocated == active;
	}
}

/*
 * The number of active samples with a flag at offset that only active blocks can have; -1: not such
 * a flag.
 */
static int allocated_at(const struct search *s, unsigned int offset)
{
	struct tally tally = { 0 };
	size_t set = 0;

	if (!is_free(s, offset, 1))
		return -1;
	for (size_t i = 0; i < s->f->n_samples; i++) {
		const struct vt_torch_sample *sample = sample_at(s, i);
		uint8_t flag = sample->bytes[offset];
		bool active = sample->table == VT_SAMPLE_ACTIVE;

		count(&tally, sample,
		      flag > 1 || (flag ? !active || s->none_allocated[sample->device] :
					  active && s->all_allocated[sample->device]));
		/*
		 * not the tolerated number: padding may have any value, and would win against a
		 * flag that nothing has set
		 */
		set += flag == 1 && active && !s->none_allocated[sample->device];
	}
	return holds(&tally) ? (int)set : -1;
}

/*
 * How far the number of active samples with a flag at offset is from what the statistics predict. A
 * count of events can be 1 as well, in blocks that are not allocated.
 */
static uint64_t surprise_at(const struct search *s, unsigned int offset)
{
	uint64_t n[VT_TORCH_MAX_DEVICES] = { 0 }, set[VT_TORCH_MAX_DEVICES] = { 0 }, surprise = 0;

	for (size_t i = 0; i < s->f->n_samples; i++) {
		const struct vt_torch_sample *sample = sample_at(s, i);

		if (sample->table != VT_SAMPLE_ACTIVE)
			continue;
		n[sample->device]++;
		set[sample->device] += sample->bytes[offset] == 1;
	}
	for (size_t i = 0; i < s->f->n_dcas; i++) {
		bool known = s->n_active[i] && s->n_allocated[i] <= s->n_active[i] &&
			     s->n_active[i] < UINT32_MAX;
		uint64_t expected = known ? n[i] * s->n_allocated[i] / s->n_active[i] : n[i];

		surprise += set[i] > expected ? set[i] - expected : expected - set[i];
	}
	return surprise;
}

static bool mapped_at(const struct search *s, unsigned int offset)
{
	struct tally tally = { 0 };

	if (!is_free(s, offset, 1))
		return false;
	for (size_t i = 0; i < s->f->n_samples; i++)
		count(&tally, sample_at(s, i),
		      sample_at(s, i)->bytes[offset] !=
			      (sample_at(s, i)->table != VT_SAMPLE_UNMAPPED));
	return holds(&tally);
}

static void take_flags(struct search *s, unsigned int allocated, unsigned int mapped,
		       enum vt_torch_how how)
{
	take_field(s, VT_TORCH_BLOCK_ALLOCATED, &s->l.allocated, allocated, 1, how);
	if (mapped < s->bytes)
		take_field(s, VT_TORCH_BLOCK_MAPPED, &s->l.mapped, mapped, 1, how);
	else
		leave_out(s, VT_TORCH_BLOCK_MAPPED, &s->l.mapped);
}

/*
 * Without unmapped memory (one set per pool: before 2.1) nothing shows whether a Block is mapped.
 */
static bool find_flags(struct search *s)
{
	bool has_mapped = s->f->layout.sets_per_pool > 1;
	unsigned int usual = s->l.ptr + 8u, allocated = 0, mapped = s->bytes;
	uint64_t least = UINT64_MAX;
	int best = 0;

	count_allocated(s);
	/* in every release the two are side by side behind ptr: if they can be there, they are */
	for (unsigned int i = 0; i <= s->bytes && !(best && allocated == usual); i++) {
		unsigned int at = i ? i - 1 : usual, with = s->bytes;
		int set = allocated_at(s, at);

		if (has_mapped && mapped_at(s, at + 1))
			with = at + 1;
		else if (has_mapped && at && mapped_at(s, at - 1))
			with = at - 1;
		else if (has_mapped)
			continue;
		if (set < 0 || surprise_at(s, at) >= least)
			continue;
		/*
		 * no sample may be allocated, although some block is: another place must fit better
		 */
		if (set || at == usual) {
			least = surprise_at(s, at);
			best = set;
			allocated = at;
			mapped = with;
		}
	}
	if (best) {
		take_flags(s, allocated, mapped, VT_TORCH_HOW_SIGNATURE);
		return true;
	}
	/* no sample is allocated */
	if (allocated_at(s, usual) != 0 || (has_mapped && !mapped_at(s, usual + 1)))
		return false;
	take_flags(s, usual, has_mapped ? usual + 1 : s->bytes, VT_TORCH_HOW_POSITION);
	return true;
}

/* ---- the rest ---- */

/*
 * The number of allocated samples whose size is word w rounded up; -1: w is not the requested size.
 */
static int requested_at(const struct search *s, unsigned int w)
{
	size_t bad = 0, n = 0, close = 0;

	if (!is_free(s, 8 * w, 8))
		return -1;
	for (size_t i = 0; i < s->f->n_samples; i++) {
		uint64_t size = vt_load64(sample_at(s, i)->bytes + s->l.size),
			 value = word_of(sample_at(s, i), w);

		if (!is_allocated(s, sample_at(s, i)))
			continue;
		n++;
		bad += !value || value > size;
		close += value && value <= size && size - value < MIN_BLOCK;
	}
	return vt_torch_tolerable(bad, n) ? (int)close : -1;
}

static bool find_requested(struct search *s)
{
	unsigned int behind = s->l.size / 8u + 1, best = behind;
	int most = requested_at(s, behind);

	for (unsigned int w = 0; w < n_words(s); w++) {
		int close = requested_at(s, w);

		if (close > 0 && close > most) {
			most = close;
			best = w;
		}
	}
	if (most > 0)
		take_field(s, VT_TORCH_BLOCK_REQUESTED_SIZE, &s->l.requested_size, 8 * best, 8,
			   VT_TORCH_HOW_SIGNATURE);
	else if (most == 0)
		take_field(s, VT_TORCH_BLOCK_REQUESTED_SIZE, &s->l.requested_size, 8 * behind, 8,
			   VT_TORCH_HOW_POSITION);
	return most >= 0;
}

/*
 * Whether a block and its next one have the same value in word w, where one has any: they share a
 * segment.
 */
static bool neighbours_share(const struct search *s, unsigned int w)
{
	size_t bad = 0, n = 0;

	for (size_t i = 0; i < s->f->n_samples; i++) {
		uint64_t here = word_of(sample_at(s, i), w),
			 there = s->has_next[i] ? vt_load64(s->next[i] + 8 * w) : here;

		n += s->has_next[i] && (here || there);
		bad += here != there;
	}
	return vt_torch_tolerable(bad, n);
}

/*
 * How many samples have a std::shared_ptr at word w, if the others have an empty one there; -1: it
 * is none. Its second word names the control block, which begins with a virtual table and the count
 * of owners (libstdc++).
 */
static int shared_at(const struct search *s, unsigned int w)
{
	struct tally tally = { 0 };
	size_t full = 0;

	if (!is_free(s, 8 * w, 16))
		return -1;
	for (size_t i = 0; i < s->f->n_samples; i++) {
		uint64_t object = word_of(sample_at(s, i), w),
			 control = word_of(sample_at(s, i), w + 1), words[2];
		bool good = vt_is_object(object) && vt_is_object(control) &&
			    !vt_mem_read(s->f->src, control, words, sizeof(words)) &&
			    vt_is_object(words[0]) && (uint32_t)words[1] &&
			    (uint32_t)words[1] <= INT32_MAX;

		count(&tally, sample_at(s, i), (object || control) && !good);
		full += good;
	}
	return holds(&tally) ? (int)full : -1;
}

/*
 * Unmapped samples name an object in word w that their neighbours name as well, and other samples
 * name one or none: 2 if some name none, the best evidence; 1 if all name one; 0: it is not such a
 * word.
 */
static int expandable_at(const struct search *s, unsigned int w)
{
	struct tally tally = { 0 };
	size_t unmapped = 0, empty = 0;

	if (!is_free(s, 8 * w, 8) || shared_at(s, w) > 0 || !neighbours_share(s, w))
		return 0;
	for (size_t i = 0; i < s->f->n_samples; i++) {
		const struct vt_torch_sample *sample = sample_at(s, i);
		uint64_t addr = word_of(sample, w), first;

		unmapped += sample->table == VT_SAMPLE_UNMAPPED;
		empty += !addr;
		count(&tally, sample,
		      addr ? !vt_is_object(addr) || vt_mem_read_u64(s->f->src, addr, &first) :
			     sample->table == VT_SAMPLE_UNMAPPED);
	}
	if (!unmapped || !holds(&tally))
		return 0;
	return empty ? 2 : 1;
}

/* *filled: how many samples are not on the default stream. */
static bool stream_at(const struct search *s, unsigned int w, size_t *filled)
{
	struct tally tally = { 0 };

	*filled = 0;
	if (!is_free(s, 8 * w, 8))
		return false;
	for (size_t i = 0; i < s->f->n_samples; i++) {
		uint64_t value = word_of(sample_at(s, i), w);

		count(&tally, sample_at(s, i), !vt_torch_is_stream(value));
		*filled += value != 0;
	}
	return holds(&tally) && neighbours_share(s, w);
}

/*
 * A word other than the one in front of stream_uses could be it: some blocks have a value there
 * that a whole segment shares.
 */
static bool is_other_stream(const struct search *s, unsigned int w)
{
	size_t filled;

	return stream_at(s, w, &filled) && filled && shared_at(s, w) < 1 &&
	       (!w || shared_at(s, w - 1) < 1) && expandable_at(s, w) < 1;
}

/*
 * The word in front of stream_uses. If all samples are on the default stream by that word, but not
 * by another one, a new field may be in between: then the stream is unknown.
 */
static bool find_stream(struct search *s)
{
	unsigned int w = s->l.stream_uses / 8u - 1;
	size_t filled;

	if (!s->l.stream_uses || !stream_at(s, w, &filled))
		return false;
	for (unsigned int other = 0; !filled && other < n_words(s); other++) {
		if (is_other_stream(s, other))
			return false;
	}
	take_field(s, VT_TORCH_BLOCK_STREAM, &s->l.stream, 8 * w, 8,
		   filled ? VT_TORCH_HOW_SIGNATURE : VT_TORCH_HOW_POSITION);
	return true;
}

/* The walk can do without: it knows which tables it reads. */
static void find_device(struct search *s)
{
	bool several = false;

	for (size_t i = 1; i < s->f->n_samples; i++)
		several |= sample_at(s, i)->device != sample_at(s, 0)->device;
	for (unsigned int at = 0; at < (several ? s->bytes : 1u); at++) {
		struct tally tally = { 0 };

		for (size_t i = 0; i < s->f->n_samples; i++)
			count(&tally, sample_at(s, i),
			      sample_at(s, i)->bytes[at] != sample_at(s, i)->device);
		if (is_free(s, at, 1) && holds(&tally)) {
			take_field(s, VT_TORCH_BLOCK_DEVICE, &s->l.device, at, 1,
				   several ? VT_TORCH_HOW_SIGNATURE : VT_TORCH_HOW_POSITION);
			return;
		}
	}
	leave_out(s, VT_TORCH_BLOCK_DEVICE, &s->l.device);
}

/* How many samples that await their free have events at offset; -1: it is not such a count. */
static int events_at(const struct search *s, unsigned int offset)
{
	struct tally tally = { 0 };
	size_t waiting = 0;

	if (!is_free(s, offset, 4))
		return -1;
	for (size_t i = 0; i < s->f->n_samples; i++) {
		const struct vt_torch_sample *sample = sample_at(s, i);
		uint32_t n = vt_load32(sample->bytes + offset);
		bool is_waiting = sample->table == VT_SAMPLE_ACTIVE && !is_allocated(s, sample);
		struct vt_ska uses;

		memcpy(&uses, sample->bytes + s->l.stream_uses, sizeof(uses));
		count(&tally, sample, is_waiting ? n > EVENTS_MAX || (!n && !uses.n) : n != 0);
		waiting += is_waiting && n;
	}
	return holds(&tally) ? (int)waiting : -1;
}

/*
 * Only a check depends on it, so it is omitted if no sample awaits a free, or if two places fit:
 * padding keeps whatever the memory had before.
 */
static void find_event_count(struct search *s)
{
	unsigned int at = 0;
	size_t n = 0;

	for (unsigned int offset = 0; offset < s->bytes; offset += 4) {
		if (events_at(s, offset) > 0) {
			at = offset;
			n++;
		}
	}
	if (n == 1)
		take_field(s, VT_TORCH_BLOCK_EVENT_COUNT, &s->l.event_count, at, 4,
			   VT_TORCH_HOW_SIGNATURE);
	else
		leave_out(s, VT_TORCH_BLOCK_EVENT_COUNT, &s->l.event_count);
}

/*
 * context_when_allocated is followed by context_when_segment_allocated, which may be the only one
 * that is set, and would show the history of another block. So both must be seen.
 */
static void find_context(struct search *s)
{
	for (unsigned int w = 0; w + 4 <= n_words(s); w++) {
		if (shared_at(s, w) > 0 && shared_at(s, w + 2) > 0) {
			take_field(s, VT_TORCH_BLOCK_CONTEXT, &s->l.context, 8 * w, 32,
				   VT_TORCH_HOW_SIGNATURE);
			return;
		}
	}
	leave_out(s, VT_TORCH_BLOCK_CONTEXT, &s->l.context);
}

/*
 * An expandable segment always has some unmapped memory. Without unmapped memory, no segment is
 * expandable.
 */
static void find_expandable(struct search *s)
{
	unsigned int best = WORDS;
	int most = 0;
	bool several = false;

	for (unsigned int w = 0; w < n_words(s); w++) {
		int is = expandable_at(s, w);

		several = is > most ? false : several || (is && is == most);
		best = is > most ? w : best;
		most = is > most ? is : most;
	}
	if (several)
		best = WORDS;
	if (best != WORDS)
		take_field(s, VT_TORCH_BLOCK_EXPANDABLE, &s->l.expandable_segment, 8 * best, 8,
			   VT_TORCH_HOW_SIGNATURE);
	else
		leave_out(s, VT_TORCH_BLOCK_EXPANDABLE, &s->l.expandable_segment);
}

const char *vt_torch_find_fields(struct vt_torch_finder *f)
{
	struct search s = { .f = f };
	bool linked;

	find_end(&s);
	if (!find_stream_uses(&s))
		return "no hash table (stream_uses) in the blocks";
	if (!find_pool(&s))
		return "no word of the blocks names their pool";
	count_links(&s);
	linked = find_linked(&s);
	if (!linked && !find_lone(&s))
		return "the addresses and sizes of the blocks were not found";
	if (!find_flags(&s))
		return "no byte of the blocks says whether they are allocated";
	if (!linked && !set_links(&s))
		return "the neighbours of the blocks were not found";
	if (!find_requested(&s))
		return "the requested sizes of the blocks were not found";
	find_device(&s);
	find_event_count(&s);
	find_context(&s);
	if (!find_stream(&s))
		return "the streams of the blocks were not found";
	find_expandable(&s);
	take_end(&s);
	f->layout.block = s.l;
	return NULL;
}
