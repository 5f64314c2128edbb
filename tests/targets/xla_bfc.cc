// SPDX-License-Identifier: Apache-2.0
// XLA's own allocator, tsl::BFCAllocator of a plugin of JAX, without a GPU: over invented addresses, or over those of a libcuda.so.1 that is
// there (simulated or real). Truth for the reader of such allocators: its own GetStats(), and what this program allocated.
//
//	xla_bfc PLUGIN [cuda]
//
// The plugin exports none of this: its addresses in the file are on standard input first, a line each, 0 where there is none:
// constructor, AllocateRaw(size_t, size_t), DeallocateRaw, GetStats, and of tsl::ScopedAllocationTrace the constructor, the destructor and
// the constructor of Arg. Then lines are orders, each answered with one line:
//
//	make NAME LIMIT GROWTH	-> address of a new allocator
//	alloc SIZE		-> address, 0 if there is none
//	traced SIZE NAME	-> the same, within a trace of "xla.execute" with "executable" NAME; 0 if this release has no traces
//	free ADDRESS		-> 0
//	random SEED N		-> how many are alive after N random allocations and frees
//	stats			-> the words of AllocatorStats
//	list			-> address:size of all that is alive
//	churn, rest		-> 0: a thread allocates and frees all the time, or no longer
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace
{

typedef int cuda_alloc_fn(uint64_t *addr, size_t bytes);
cuda_alloc_fn *cuda_alloc;

// tsl::SubAllocator: its visitors, then its virtual functions in order; later releases have more of them behind.
struct Sub {
	virtual ~Sub() = default;
	virtual void *Alloc(size_t, size_t bytes, size_t *received)
	{
		uint64_t addr = next;

		*received = bytes = (bytes + (2 << 20) - 1) & ~size_t((2 << 20) - 1);
		if (cuda_alloc)
			return cuda_alloc(&addr, bytes) ? nullptr : reinterpret_cast<void *>(addr);
		next += bytes + (4 << 20);
		return reinterpret_cast<void *>(addr);
	}
	virtual void Free(void *, size_t)
	{
	}
	virtual bool SupportsCoalescing() const
	{
		return false;
	}
	virtual int GetMemoryType() const
	{
		return 1;
	}
	virtual size_t GetAllocationGranularity() const
	{
		return 2 << 20;
	}

	std::vector<std::function<void(void *, int, size_t)>> on_alloc, on_free;
	static uint64_t next;
};
uint64_t Sub::next = 0x7f0000000000;

struct Options {
	bool allow_growth, allow_retry_on_failure, garbage_collection;
	double fragmentation_fraction;
	char rest[64];
};

typedef void make_fn(void *, std::unique_ptr<Sub>, size_t, const std::string &, const Options &);
typedef void *alloc_fn(void *, size_t alignment, size_t bytes);
typedef void free_fn(void *, void *);
struct View { // std::string_view, and the beginning of absl::AlphaNum
	size_t size;
	const char *text;
	char digits[32];
};
typedef void trace_fn(void *, size_t, const char *, const void *args, size_t n);
typedef void arg_fn(void *, size_t, const char *, const View *);
typedef void untrace_fn(void *);
struct Stats {
	uint64_t words[64];
};
typedef void stats_fn(Stats *result, void *); // std::optional<AllocatorStats> by a hidden pointer

make_fn *make;
alloc_fn *allocate_raw;
free_fn *deallocate_raw;
stats_fn *get_stats;
trace_fn *trace;
untrace_fn *untrace;
arg_fn *make_arg;
void *object;
std::map<uint64_t, size_t> alive;
std::atomic<bool> churns;

bool load(const char *plugin)
{
	void *lib = dlopen(plugin, RTLD_NOW);
	struct link_map *map;
	unsigned long at[7];

	if (!lib || dlinfo(lib, RTLD_DI_LINKMAP, &map)) {
		printf("skip: %s\n", dlerror());
		return false;
	}
	for (unsigned long &address : at)
		if (scanf("%li", reinterpret_cast<long *>(&address)) != 1 ||
		    (!address && &address < at + 4))
			return false;
	make = reinterpret_cast<make_fn *>(map->l_addr + at[0]);
	allocate_raw = reinterpret_cast<alloc_fn *>(map->l_addr + at[1]);
	deallocate_raw = reinterpret_cast<free_fn *>(map->l_addr + at[2]);
	get_stats = reinterpret_cast<stats_fn *>(map->l_addr + at[3]);
	if (at[4] && at[5] && at[6]) {
		trace = reinterpret_cast<trace_fn *>(map->l_addr + at[4]);
		untrace = reinterpret_cast<untrace_fn *>(map->l_addr + at[5]);
		make_arg = reinterpret_cast<arg_fn *>(map->l_addr + at[6]);
	}
	return true;
}

uint64_t allocate(size_t bytes)
{
	uint64_t addr = reinterpret_cast<uint64_t>(allocate_raw(object, 256, bytes));

	if (addr)
		alive[addr] = bytes;
	return addr;
}

uint64_t allocate_traced(size_t bytes, const char *name)
{
	alignas(16) char scope[256] = {}, arg[256] = {};
	View value = { strlen(name), name, {} };
	uint64_t addr;

	if (!trace)
		return 0;
	make_arg(arg, strlen("executable"), "executable", &value);
	trace(scope, strlen("xla.execute"), "xla.execute", arg, 1);
	addr = allocate(bytes);
	untrace(scope);
	return addr;
}

void release(uint64_t addr)
{
	deallocate_raw(object, reinterpret_cast<void *>(addr));
	alive.erase(addr);
}

size_t random_steps(unsigned seed, int n)
{
	for (int i = 0; i < n; i++) {
		if (rand_r(&seed) % 3 || alive.empty()) {
			allocate(1 + size_t(rand_r(&seed)) % (1u << (8 + rand_r(&seed) % 14)));
			continue;
		}
		auto it = alive.lower_bound(alive.begin()->first +
					    uint64_t(rand_r(&seed)) % (alive.rbegin()->first -
								       alive.begin()->first + 1));
		release(it == alive.end() ? alive.begin()->first : it->first);
	}
	return alive.size();
}

void *churn(void *)
{
	while (churns) {
		void *a = allocate_raw(object, 256, 100000), *b = allocate_raw(object, 256, 5000);

		if (a)
			deallocate_raw(object, a);
		if (b)
			deallocate_raw(object, b);
	}
	return nullptr;
}

void print_stats()
{
	Stats stats;

	memset(&stats, 0, sizeof(stats));
	get_stats(&stats, object);
	for (int i = 0; i < 15; i++)
		printf("%s%llu", i ? " " : "", static_cast<unsigned long long>(stats.words[i]));
	printf("\n");
}

unsigned long order(const char *what, const char *a, unsigned long b, unsigned long c)
{
	static pthread_t thread;

	if (!strcmp(what, "make")) {
		Options options = {};

		options.allow_growth = c;
		object = calloc(1, 4096); // more than any release needs
		make(object, std::unique_ptr<Sub>(new Sub), b, a, options);
		return reinterpret_cast<unsigned long>(object);
	}
	if (!strcmp(what, "alloc"))
		return allocate(strtoul(a, nullptr, 0));
	if (!strcmp(what, "free"))
		return release(strtoul(a, nullptr, 0)), 0;
	if (!strcmp(what, "random"))
		return random_steps(unsigned(strtoul(a, nullptr, 0)), int(b));
	if (!strcmp(what, "churn")) {
		churns = true;
		return unsigned(pthread_create(&thread, nullptr, churn, nullptr));
	}
	churns = false;
	return unsigned(pthread_join(thread, nullptr));
}

} // namespace

int main(int argc, char **argv)
{
	char line[256], what[32], a[64];

	setvbuf(stdout, nullptr, _IOLBF, 0);
	if (argc > 2) {
		void *lib = dlopen("libcuda.so.1", RTLD_NOW);
		int (*init)(unsigned) =
			lib ? reinterpret_cast<int (*)(unsigned)>(dlsym(lib, "cuInit")) : nullptr;
		int (*retain)(void **, int) = lib ? reinterpret_cast<int (*)(void **, int)>(dlsym(
							    lib, "cuDevicePrimaryCtxRetain")) :
						    nullptr;
		int (*set)(void *) =
			lib ? reinterpret_cast<int (*)(void *)>(dlsym(lib, "cuCtxSetCurrent")) :
			      nullptr;
		void *context;

		if (!init || init(0) || retain(&context, 0) || set(context))
			return puts("skip: no device"), 0;
		cuda_alloc = reinterpret_cast<cuda_alloc_fn *>(dlsym(lib, "cuMemAlloc_v2"));
	}
	if (argc < 2 || !load(argv[1]))
		return 0;
	printf("ready %d\n", int(getpid()));
	while (fgets(line, sizeof(line), stdin)) {
		unsigned long b = 0, c = 0;

		if (sscanf(line, "%31s %63s %li %li", what, a, reinterpret_cast<long *>(&b),
			   reinterpret_cast<long *>(&c)) < 1)
			continue;
		if (!strcmp(what, "traced")) {
			char name[128];

			if (sscanf(line, "%*s %*s %127s", name) == 1)
				printf("%#lx\n", static_cast<unsigned long>(allocate_traced(
							 strtoul(a, nullptr, 0), name)));
		} else if (!strcmp(what, "stats")) {
			print_stats();
		} else if (!strcmp(what, "list")) {
			for (auto &one : alive)
				printf("%#lx:%zu ", static_cast<unsigned long>(one.first),
				       one.second);
			printf("\n");
		} else {
			printf("%#lx\n", order(what, a, b, c));
		}
	}
	_exit(0); // the plugin's own destructors need a device
}
