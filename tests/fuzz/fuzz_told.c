/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What others tell in records or short texts: NVML's asker, PyTorch's own list of blocks, filters
 * of seccomp, tables of lines, environments and names of control groups, memory shared with
 * workers, debuginfod-find. An input is a byte (which of them) and what is told.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/str.h"
#include "fuzz.h"
#include "scratch.h"
#include "inject/seccomp.h"
#include "target/container.h"
#include "target/launch.h"
#include "usage/health.h"
#include "usage/usage.h"
#include "walk/native/debuginfod.h"
#include "walk/native/lines_memo.h"
#include "walk/python/internal.h"
#include "walk/python/layout.h"
#include "walk/python/line.h"
#include "walk/torch/told.h"

#define MAX_RECORDS 64
#define MAX_INSTRUCTIONS 4096

/* ---- NVML's asker ---- */

static void read_usage(const uint8_t *data, size_t size)
{
	struct vt_usage_reading reading = { 0 };
	struct vt_usage_record record;

	for (size_t n = 0; size >= sizeof(record) && n < MAX_RECORDS; n++) {
		memcpy(&record, data, sizeof(record));
		data += sizeof(record);
		size -= sizeof(record);
		vt_usage_health_check(&record.health);
		fuzz_check(!(record.health.known & ~VT_HEALTH_ALL), "what is not asked");
		if (!vt_usage_reading_add(&reading, &record, 1))
			break;
	}
	for (size_t i = 0; i < reading.devices.n; i++) {
		const struct vt_usage_device *d = &reading.devices.data[i];

		fuzz_check(strnlen(d->name, sizeof(d->name)) < sizeof(d->name), "no end of a name");
		fuzz_check(!d->memory_known || d->used_bytes <= d->total_bytes + d->reserved_bytes,
			   "more is used than there is");
		fuzz_check(d->parent == VT_USAGE_NONE || d->parent < i, "the parent of %zu", i);
	}
	for (size_t i = 0; i < reading.processes.n; i++)
		fuzz_check(reading.processes.data[i].device < reading.devices.n, "process %zu", i);
	vt_usage_reading_deinit(&reading);
}

/* ---- PyTorch's list of blocks ---- */

static void judge(const uint8_t *data, size_t size)
{
	struct vt_torch_stats stats[2];
	struct vt_torch_device_result result = { 0 };
	struct vt_block_rec *recs;
	uint64_t n, used;

	if (size < sizeof(stats))
		return;
	memcpy(stats, data, sizeof(stats));
	data += sizeof(stats);
	size -= sizeof(stats);
	n = size / sizeof(*recs);
	recs = malloc(n * sizeof(*recs) + 1);
	fuzz_check(recs, "memory");
	if (n)
		memcpy(recs, data, n * sizeof(*recs));
	used = vt_torch_judge(recs, n, 0, &stats[0], &stats[1], &result);
	fuzz_check(used <= n, "%llu of %llu", (unsigned long long)used, (unsigned long long)n);
	free(recs);
}

/* ---- filters ---- */

static void filter(const uint8_t *data, size_t size)
{
	static struct sock_filter program[MAX_INSTRUCTIONS];
	struct seccomp_data call = { .nr = 9, .arch = 0xc000003e };
	size_t n = size / sizeof(program[0]);

	n = n < MAX_INSTRUCTIONS ? n : MAX_INSTRUCTIONS;
	memcpy(program, data, n * sizeof(program[0]));
	vt_seccomp_run(program, n, &call);
	vt_seccomp_forbidden(program, n, VT_SECCOMP_HELPER);
	vt_seccomp_forbidden(program, n, VT_SECCOMP_RECORDER);
}

/* ---- tables of lines ---- */

static void lines(const uint8_t *data, size_t size)
{
	int32_t lasti;

	if (size < 5)
		return;
	memcpy(&lasti, data + 1, 4);
	vt_python_line((enum vt_python_line_table)(data[0] % 3), data + 5, size - 5, 7,
		       lasti % 4096);
}

/* ---- texts ---- */

static void texts(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 2), *copy, id[80];
	const char *cgroup, *end;
	struct vt_arena arena = { 0 };
	struct vt_launch launch;
	int version[3];

	fuzz_check(text, "memory");
	memcpy(text, data, size);
	text[size] = text[size + 1] = '\0';
	/* An environment, and after two NULs the text of a cgroup file. */
	cgroup = text;
	for (size_t i = 0; i + 1 < size; i++)
		if (!text[i] && !text[i + 1])
			cgroup = text + i + 2;
	vt_launch_of(text, size, cgroup, &arena, &launch);
	fuzz_check(launch.pod && launch.job, "no texts");
	copy = strdup(cgroup);
	fuzz_check(copy, "memory");
	if (vt_container_of_cgroup(copy, id, sizeof(id)))
		fuzz_check(strnlen(id, sizeof(id)) < sizeof(id), "no end");
	vt_py_parse_version(text, &end, version);
	free(copy);
	free(text);
	vt_arena_deinit(&arena);
}

/* ---- memory that workers share, each of which reads hostile bytes ---- */

static void memo(const uint8_t *data, size_t size)
{
	struct vt_lines_memo *shared = vt_lines_memo_create();
	struct vt_lines_key key;
	struct vt_str out = { 0 };
	uint32_t told = 0, at;
	const size_t reach = 1 << 20;

	fuzz_check(shared, "memory");
	memset(&key, 0, sizeof(key));
	for (uint64_t i = 0; i < 4; i++) {
		key.vaddr = i;
		vt_lines_memo_claim(shared, &key);
		vt_lines_memo_add(shared, &key, "name\0file\0", 10);
		vt_lines_memo_settle(shared, &key);
	}
	vt_lines_memo_tell(shared);
	/* Words anywhere: its head, the slots with an entry, entries. */
	for (; size >= 8; data += 8, size -= 8) {
		memcpy(&at, data, 4);
		memcpy((uint8_t *)shared + (at % reach & ~3u), data + 4, 4);
	}
	for (uint64_t i = 0; i < 6; i++) {
		key.vaddr = i;
		if (vt_lines_memo_find(shared, &key, &out))
			fuzz_check(out.n <= 64u << 10, "too long");
		vt_str_clear(&out);
		vt_lines_memo_claim(shared, &key);
		vt_lines_memo_add(shared, &key, "x", 1);
		vt_lines_memo_settle(shared, &key);
	}
	vt_lines_memo_wait(shared, &told, vt_now_ns());
	vt_str_deinit(&out);
	vt_lines_memo_destroy(shared);
}

/* ---- debuginfod-find ---- */

/* A program takes milliseconds: only an input that has this as its first byte. */
#define ASKED 0xdf

static void find_debuginfo(const uint8_t *data, size_t size)
{
	/* It says what is in the file "answer"; after a byte that is odd, it ends with an error. */
	static const char program[] = "#!/bin/sh\nread -r status <\"${0%/*}/status\"\n"
				      "cat \"${0%/*}/answer\"\nexit \"$status\"\n";
	static const uint8_t id[] = { 0xab, 0xcd, 0xef };
	static char path[128];
	char *found;

	if (!path[0]) {
		snprintf(path, sizeof(path), "%s:/usr/bin:/bin", scratch_directory());
		scratch_write("/debuginfod-find", program, strlen(program), 0700);
		setenv("PATH", "/nowhere", 1);
		setenv("DEBUGINFOD_URLS", " ", 1);
		fuzz_check(vt_debuginfod_problem(), "without a server");
		setenv("DEBUGINFOD_URLS", "http://127.0.0.1:9", 1);
		fuzz_check(vt_debuginfod_problem(), "without the program");
		setenv("PATH", path, 1);
		fuzz_check(!vt_debuginfod_problem(), "%s", vt_debuginfod_problem());
	}
	if (!size)
		return;
	scratch_write("/status", data[0] & 1 ? "1\n" : "0\n", 2, 0600);
	scratch_write("/answer", data + 1, size - 1, 0600);
	found = vt_debuginfod_find(id, data[0] & 2 ? 0 : sizeof(id),
				   vt_now_ns() + (data[0] & 4 ? 0 : 10 * VT_NS_PER_S));
	if (found)
		fuzz_check(!(data[0] & 7) && found[0] == '/' && !strchr(found, '\n'), "%s", found);
	free(found);
}

static void (*const readers[])(const uint8_t *data, size_t size) = { read_usage, judge, filter,
								     lines,      texts, memo };

#define N_READERS (sizeof(readers) / sizeof(readers[0]))

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size && data[0] == ASKED)
		find_debuginfo(data + 1, size - 1);
	else if (size)
		readers[data[0] % N_READERS](data + 1, size - 1);
	return 0;
}

/* ---- what is well-formed ---- */

static size_t add(uint8_t *data, size_t at, const void *what, size_t n)
{
	memcpy(data + at, what, n);
	return at + n;
}

static size_t sound_usage(uint8_t *data)
{
	struct vt_usage_record records[] = {
		{ .kind = VT_USAGE_STATE, .number = 1, .name = "580.95.05", .at_ns = 5 },
		{ .kind = VT_USAGE_DEVICE,
		  .number = 1,
		  .flags = VT_USAGE_HAS_MEMORY | VT_USAGE_HAS_RESERVED | VT_USAGE_HAS_PROCESSES,
		  .parent = VT_USAGE_NONE,
		  .gi = VT_USAGE_NONE,
		  .ci = VT_USAGE_NONE,
		  .total_bytes = 1000,
		  .used_bytes = 500,
		  .reserved_bytes = 20,
		  .uuid = "GPU-0",
		  .pci = "00000000:1B:00.0",
		  .name = "H100",
		  .health = { .known = VT_HEALTH_ALL } },
		{ .kind = VT_USAGE_PROCESS,
		  .number = 1,
		  .pid = 77,
		  .gi = VT_USAGE_NONE,
		  .ci = VT_USAGE_NONE,
		  .flags = VT_USAGE_HAS_BYTES | VT_USAGE_COMPUTE,
		  .bytes = 100 },
		{ .kind = VT_USAGE_END, .number = 1, .at_ns = 9 },
	};

	return add(data, 1, records, sizeof(records));
}

static size_t sound_list(uint8_t *data)
{
	struct vt_torch_stats stats[2] = { 0 };
	struct vt_block_rec recs[3] = { 0 };
	size_t at;

	for (uint64_t i = 0; i < 3; i++) {
		recs[i].addr = 0x7f0000000000 + i * 512;
		recs[i].size = recs[i].requested = 512;
		recs[i].state = VT_BLOCK_ALLOCATED;
		recs[i].flags = i ? 0 : VT_BLOCK_SEGMENT_START;
	}
	at = add(data, 1, stats, sizeof(stats));
	return add(data, at, recs, sizeof(recs));
}

static size_t sound_filter(uint8_t *data)
{
	static const struct sock_filter program[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 4),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0xc000003e, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_STMT(BPF_ST, 3),
		BPF_STMT(BPF_LDX | BPF_W | BPF_MEM, 3),
		BPF_STMT(BPF_ALU | BPF_ADD | BPF_X, 0),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xff),
		BPF_STMT(BPF_MISC | BPF_TAX, 0),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 1, 0, 1),
		BPF_JUMP(BPF_JMP | BPF_JA, 0, 0, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	return add(data, 1, program, sizeof(program));
}

static size_t sound_table(uint8_t *data)
{
	/* Kinds, an offset, and short, one-line, long and no-column forms of 3.11. */
	return add(data, 1,
		   "\x02\x04\x00\x00\x00\x80\x00\xd8\x08\x0c\xf0\x02\x01\x05\x08\xe8\x02\xf8", 18);
}

static size_t sound_text(uint8_t *data)
{
	static const char text[] =
		"RANK=3\0LOCAL_RANK=1\0WORLD_SIZE=8\0LOCAL_WORLD_SIZE=4\0SLURM_JOB_ID=4711\0"
		"HOSTNAME=pod-1\0KUBERNETES_SERVICE_HOST=1\0CUDA_VISIBLE_DEVICES=0,1\0SLURM_PROCID=3\0\0"
		"0::/kubepods.slice/kubepods-pod12345678_1234_1234_1234_123456789012.slice/cri-containerd-"
		"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef.scope\n";

	return add(data, 1, text, sizeof(text));
}

static size_t sound_memo(uint8_t *data)
{
	return add(data, 1, "\0\0\0\0\5\0\0\0", 8);
}

static size_t (*const sound[N_READERS])(uint8_t *data) = { sound_usage, sound_list, sound_filter,
							   sound_table, sound_text, sound_memo };

/* An answer, no path, an error, no build id, no time, an answer that never ends. */
static size_t sound_answer(unsigned int number, uint8_t *data)
{
	static const char *const answers[] = {
		"\2/cache/ab/debuginfo\n", "\10/cache\n", "\10no\n", "\1/cache\n", "\4/cache\n", ""
	};
	size_t n;

	if (number >= sizeof(answers) / sizeof(answers[0]))
		return 0;
	data[0] = ASKED;
	n = add(data, 1, answers[number], strlen(answers[number]));
	if (n == 1) {
		memset(data + 1, '/', 6000);
		data[1] = 0;
		n += 6000;
	}
	return n;
}

size_t fuzz_seed(unsigned int number, uint8_t *data, size_t max)
{
	if (max < 8192)
		return 0;
	if (number >= N_READERS)
		return sound_answer(number - (unsigned int)N_READERS, data);
	data[0] = (uint8_t)number;
	return sound[number](data);
}
