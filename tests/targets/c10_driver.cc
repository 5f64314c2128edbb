/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A target that drives the real libc10_cuda.so of a wheel, PyTorch 2.0 or newer: its caching
 * allocator, without libtorch and without Python. It reads commands on stdin and answers each with
 * one line, "ok ...", "error ..." or, where this release has no such thing, "n/a ...", so that a
 * test always knows how far it is. It works on a simulated and on a real device; commands marked
 * [sim] need the simulated one.
 *
 *   device D            allocate on this device from now on
 *   stream I            ... and on this stream: 0 is the default one, 1 to 3 come from the pool
 *   alloc N SIZE        N blocks of SIZE bytes, kept
 *   free N|all          the N oldest kept blocks
 *   random SEED COUNT   COUNT steps of a reproducible mix: sizes, streams, frees, side streams,
 *                       private pools, emptyCache (unless something is pending, which it would
 *                       wait for). The seed also says how large blocks get, and whether they
 *                       become more or fewer
 *   private N SIZE      N blocks in a private pool, as a CUDA graph has one
 *   pending N SIZE      N blocks that are freed while a side stream still uses them; they stay
 *                       "pending free" until release
 *   release             let the side stream go on
 *   emptycache
 *   expandable on|off   expandable segments from now on
 *   history on|off      every block that is allocated from now on gets a history context
 *   snapshot FILE       the library's own snapshot and statistics, see write_snapshot()
 *   oom                 ask for more than there is; answers whether OutOfMemoryError came
 *   busy USEC           a thread allocates and frees, sleeping USEC between; may be repeated
 *   idle                stop those threads
 *   holdlock            a thread blocks inside cudaMalloc, so it owns the device mutex   [sim]
 *   unlock              let it go on                                                     [sim]
 *   wedge               a thread waits in cudaDeviceSynchronize for a stream that does not end
 *   unwedge             let it go on
 *   hang MASK           the device hangs (0: recovers)                                   [sim]
 *   about               what it was compiled for: "cuda 12.4 abi 0"
 *   sleep MS | pid | quit
 */
#include <c10/core/StorageImpl.h>
#include <c10/cuda/CUDACachingAllocator.h>
#if __has_include(<c10/cuda/CUDAAllocatorConfig.h>)
#include <c10/cuda/CUDAAllocatorConfig.h>
#endif
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#if __has_include(<c10/cuda/PeerToPeerAccess.h>)
#include <c10/cuda/PeerToPeerAccess.h>
#define HAVE_P2P_CACHE 1
#endif

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <dlfcn.h>
#include <sys/prctl.h>
#include <unistd.h>

/* libtorch_cuda sets this up for libc10_cuda; without it we have to. 2.0 has none. */
namespace c10::cuda::_internal
{
C10_CUDA_API __attribute__((weak)) void setHasPrimaryContext(bool (*fn)(DeviceIndex));
}

namespace cca = c10::cuda::CUDACachingAllocator;
using c10::DeviceIndex;
using c10::cuda::MempoolId_t;
using std::chrono::milliseconds;

namespace
{

constexpr int STREAMS = 4;

/* A gate that threads, and host functions on a stream, wait at. */
class Gate
{
      public:
	void wait()
	{
		std::unique_lock<std::mutex> l(mutex_);
		cond_.wait(l, [this] { return open_; });
	}

	void open()
	{
		std::lock_guard<std::mutex> l(mutex_);
		open_ = true;
		cond_.notify_all();
	}

	static void host_fn(void *gate)
	{
		static_cast<Gate *>(gate)->wait();
	}

      private:
	std::mutex mutex_;
	std::condition_variable cond_;
	bool open_ = false;
};

/* A side stream that is busy until it is told otherwise. */
struct BusyStream {
	std::unique_ptr<Gate> gate = std::make_unique<Gate>();
	std::optional<c10::cuda::CUDAStream> stream;
};

/* A block that nobody has freed, with the private pool that it came from. */
struct Kept {
	c10::DataPtr ptr;
	size_t size;
	MempoolId_t pool;
};

class KeptBlocks
{
      public:
	void push(c10::DataPtr ptr, size_t size, MempoolId_t pool = { 0, 0 })
	{
		blocks_.push_back({ std::move(ptr), size, pool });
		bytes_ += size;
	}

	void free_oldest()
	{
		bytes_ -= blocks_.front().size;
		blocks_.pop_front();
	}

	void free_at(size_t i)
	{
		std::swap(blocks_[i], blocks_.back());
		bytes_ -= blocks_.back().size;
		blocks_.pop_back();
	}

	size_t count() const
	{
		return blocks_.size();
	}

	size_t bytes() const
	{
		return bytes_;
	}

	const std::deque<Kept> &blocks() const
	{
		return blocks_;
	}

      private:
	std::deque<Kept> blocks_;
	size_t bytes_ = 0;
};

/* A private pool that was not released; every use of it counts. */
struct OpenPool {
	MempoolId_t id;
	unsigned uses;
};

std::map<int, std::vector<c10::cuda::CUDAStream>> streams;
bool expandable = false;
/* of a device, without or with expandable segments */
std::map<std::pair<int, bool>, std::deque<OpenPool>> open_pools;
KeptBlocks kept;
std::vector<std::unique_ptr<BusyStream>> busy_streams;
std::vector<std::thread> workers;
std::atomic<bool> workers_stop{ false };
std::atomic<bool> workers_begun{ false };
std::vector<std::thread> stuck;
std::unique_ptr<Gate> wedge_gate;
uint64_t next_pool = 1;

/* What the simulated device exports; null on a real one. */
template <typename F> F *sim(const char *name)
{
	static void *lib = dlopen("libsimcuda.so", RTLD_NOW | RTLD_NOLOAD);
	return lib ? reinterpret_cast<F *>(dlsym(lib, name)) : nullptr;
}

void check(cudaError_t err, const char *what)
{
	if (err != cudaSuccess)
		throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(err));
}

int device()
{
	int d = 0;

	check(cudaGetDevice(&d), "cudaGetDevice");
	return d;
}

c10::cuda::CUDAStream stream_at(int device_index, size_t i)
{
	auto &list = streams[device_index];

	if (list.empty()) {
		auto d = static_cast<DeviceIndex>(device_index);

		list.push_back(c10::cuda::getDefaultCUDAStream(d));
		while (list.size() < STREAMS)
			list.push_back(c10::cuda::getStreamFromPool(false, d));
	}
	return list.at(i);
}

c10::DataPtr allocate(size_t size)
{
	return cca::get()->allocate(size);
}

DeviceIndex device_index()
{
	return static_cast<DeviceIndex>(device());
}

/* ---- what differs between releases ---- */

/* Answered with "n/a": this release has no such thing. */
struct NotHere : std::runtime_error {
	using std::runtime_error::runtime_error;
};

class AtEnd
{
      public:
	explicit AtEnd(std::function<void()> fn) : fn_(std::move(fn))
	{
	}
	~AtEnd()
	{
		fn_();
	}
	AtEnd(const AtEnd &) = delete;
	AtEnd &operator=(const AtEnd &) = delete;

      private:
	std::function<void()> fn_;
};

bool any_stream(cudaStream_t)
{
	return true;
}

/*
 * 2.0 has no other way into a private pool than a graph that is being captured; the default stream
 * cannot be.
 */
template <typename Allocator, typename Body>
void while_capturing(Allocator *a, DeviceIndex d, MempoolId_t id, Body body)
{
	auto current = c10::cuda::getCurrentCUDAStream(d);
	auto stream = current.stream() ? current : stream_at(d, 1);
	cudaStreamCaptureStatus status;
	c10::cuda::CUDAStreamGuard guard(stream);
	unsigned long long capture = 0;
	cudaGraph_t graph = nullptr;

	check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed),
	      "cudaStreamBeginCapture");
	AtEnd end([&] {
		cudaStreamEndCapture(stream, &graph);
		a->notifyCaptureEnded(d, capture);
		if (graph)
			cudaGraphDestroy(graph);
	});
	check(cudaStreamGetCaptureInfo(stream, &status, &capture), "cudaStreamGetCaptureInfo");
	a->notifyCaptureBegin(d, capture, id);
	AtEnd about_to_end([&] { a->notifyCaptureAboutToEnd(d, capture); });
	body();
}

/* What body() allocates comes from the private pool id. */
template <typename Allocator, typename Body>
void in_pool(Allocator *a, DeviceIndex d, MempoolId_t id, Body body)
{
	if constexpr (requires { a->beginAllocateToPool(d, id, any_stream); }) {
		a->beginAllocateToPool(d, id, any_stream);
		AtEnd end([&] { a->endAllocateToPool(d, id); });
		body();
	} else if constexpr (requires(cudaStream_t s) { a->beginAllocateStreamToPool(d, s, id); }) {
		auto stream = c10::cuda::getCurrentCUDAStream(d).stream();

		a->beginAllocateStreamToPool(d, stream, id);
		AtEnd end([&] { a->endAllocateStreamToPool(d, stream); });
		body();
	} else {
		while_capturing(a, d, id, body);
	}
}

/* Nobody uses the pool any more; its blocks stay. */
template <typename Allocator> void release_pool(Allocator *a, DeviceIndex d, MempoolId_t id)
{
	if constexpr (requires { a->releasePool(d, id); })
		a->releasePool(d, id);
	else
		a->notifyCaptureDestroy(d, id);
}

template <typename Segment> constexpr bool HAVE_EXPANDABLE = requires(Segment s)
{
	s.is_expandable;
};
template <typename Segment> constexpr bool HAVE_OWNER = requires(Segment s)
{
	s.owner_private_pool_id;
};

template <typename Segment> bool is_expandable(const Segment &s)
{
	if constexpr (HAVE_EXPANDABLE<Segment>)
		return s.is_expandable;
	else
		return false;
}

/*
 * The pool that a segment belongs to; nothing if that is unknown. 2.0 does not say, but we know of
 * the blocks that we keep, and all blocks of a segment are of the same pool.
 */
template <typename Segment>
std::optional<MempoolId_t> owner(const Segment &s, const std::map<size_t, MempoolId_t> &kept_pools)
{
	if constexpr (HAVE_OWNER<Segment>)
		return s.owner_private_pool_id;
	auto it = kept_pools.lower_bound(static_cast<size_t>(s.address));
	if (it == kept_pools.end() || it->first >= static_cast<size_t>(s.address + s.total_size))
		return std::nullopt;
	return it->second;
}

/* ---- random ---- */

constexpr size_t SIZES[] = { 512, 4096, 65536, 1u << 20, 10u << 20, 24u << 20 };

size_t random_size(std::mt19937_64 &rng, size_t kinds = std::size(SIZES))
{
	return 1 + rng() % SIZES[rng() % kinds];
}

/* Keep the live bytes below this, so that the default budget is never spent. */
constexpr size_t RANDOM_LIVE = size_t(1) << 31;
constexpr size_t RANDOM_BLOCKS = 8000;
constexpr size_t OPEN_POOLS = 16;

class Random
{
      public:
	explicit Random(uint64_t seed) : rng_(seed), kinds_(3 + rng_() % 4), grow_(38 + rng_() % 25)
	{
	}

	void step()
	{
		unsigned what = rng_() % 100;

		if (what < grow_)
			grow();
		else if (what < 90)
			shrink();
		else if (what < 96)
			used_elsewhere();
		else if (what < 99)
			in_private_pool();
		else if (rng_() % 10 == 0 && busy_streams.empty())
			cca::emptyCache();
	}

      private:
	void grow()
	{
		size_t size = random_size(rng_, kinds_);

		if (kept.bytes() + size > RANDOM_LIVE || kept.count() >= RANDOM_BLOCKS)
			return shrink();
		c10::cuda::CUDAStreamGuard guard(stream_at(device(), rng_() % STREAMS));
		kept.push(allocate(size), size);
	}

	void shrink()
	{
		if (kept.count())
			kept.free_at(rng_() % kept.count());
	}

	/*
	 * Freed with an event of another stream; whether it is done by then is the stream's affair.
	 */
	void used_elsewhere()
	{
		auto ptr = allocate(random_size(rng_, kinds_));

		cca::recordStream(ptr, stream_at(device(), 1 + rng_() % (STREAMS - 1)));
	}

	/* A new pool, or one of those that a graph still has. */
	void in_private_pool()
	{
		auto &pools = open_pools[{ device(), expandable }];
		size_t size = random_size(rng_, kinds_);

		if (pools.size() < 2 || (pools.size() < OPEN_POOLS && rng_() % 2))
			pools.push_back({ { 0, 1000 + next_pool++ }, 0 });
		else
			std::swap(pools[rng_() % pools.size()], pools.back());
		auto &pool = pools.back();
		pool.uses++;
		in_pool(cca::get(), device_index(), pool.id, [&] {
			auto ptr = allocate(size);

			if (rng_() % 2)
				kept.push(std::move(ptr), size, pool.id);
		});
		if (may_be_released(pools.front()) && rng_() % 3 == 0)
			close_pool(pools);
	}

	/*
	 * PyTorch counts what it maps for the pools of expandable segments otherwise than what it
	 * unmaps: after several uses emptyCache may destroy a released pool that has blocks left
	 * (up to 2.15 at least).
	 */
	static bool may_be_released(const OpenPool &pool)
	{
		return !expandable || pool.uses == 1;
	}

	static void close_pool(std::deque<OpenPool> &pools)
	{
		for (unsigned i = 0; i < pools.front().uses; i++)
			release_pool(cca::get(), device_index(), pools.front().id);
		pools.pop_front();
	}

	std::mt19937_64 rng_;
	size_t kinds_;
	unsigned grow_;
};

/* ---- the truth, to compare with ---- */

/*
 * segment DEVICE ADDR SIZE STREAM POOL EXPANDABLE small|large ALLOCATED ACTIVE REQUESTED block
 * DEVICE SEGMENT ADDR SIZE REQUESTED STATE STREAM POOL EXPANDABLE small|large
 * stats DEVICE NAME CURRENT PEAK ALLOCATED FREED     (all pools together)
 * counters DEVICE ALLOC_RETRIES OOMS Addresses and streams are hexadecimal, a pool is two numbers
 * with a dot, or ?.? where it is unknown.
 */
template <typename Segment>
size_t write_segment(FILE *f, const Segment &s, const std::map<size_t, MempoolId_t> &kept_pools)
{
	auto pool = owner(s, kept_pools);
	auto at = static_cast<size_t>(s.address);
	auto device_number = static_cast<int>(s.device);
	char tail[128], pool_words[48] = "?.?";

	if (pool)
		snprintf(pool_words, sizeof(pool_words), "%llu.%llu",
			 (unsigned long long)pool->first, (unsigned long long)pool->second);
	snprintf(tail, sizeof(tail), "%#zx %s %d %s", reinterpret_cast<size_t>(s.stream),
		 pool_words, is_expandable(s), s.is_large ? "large" : "small");
	fprintf(f, "segment %d %#zx %zu %s %zu %zu %zu\n", device_number, at, size_t(s.total_size),
		tail, size_t(s.allocated_size), size_t(s.active_size), size_t(s.requested_size));
	for (const auto &b : s.blocks) {
		fprintf(f, "block %d %#zx %#zx %zu %zu %s %s\n", device_number, size_t(s.address),
			at, size_t(b.size), size_t(b.requested_size),
			b.allocated ? "active_allocated" :
			b.active    ? "active_pending_free" :
				      "inactive",
			tail);
		at += static_cast<size_t>(b.size);
	}
	return s.blocks.size();
}

size_t write_snapshot(const std::string &path)
{
	auto snap = cca::snapshot();
	FILE *f = fopen(path.c_str(), "w");
	std::map<size_t, MempoolId_t> kept_pools;
	size_t blocks = 0;

	if (!f)
		throw std::runtime_error("cannot write " + path);
	if constexpr (!HAVE_OWNER<cca::SegmentInfo>)
		for (const auto &k : kept.blocks())
			kept_pools.emplace(reinterpret_cast<size_t>(k.ptr.get()), k.pool);
	for (const auto &s : snap.segments)
		blocks += write_segment(f, s, kept_pools);
	for (int d = 0; d < c10::cuda::device_count(); d++) {
		auto st = cca::getDeviceStats(static_cast<DeviceIndex>(d));
		auto line = [&](const char *name, const auto &array) {
			const auto &v = array[0]; /* StatType::AGGREGATE */

			fprintf(f, "stats %d %s %lld %lld %lld %lld\n", d, name,
				(long long)v.current, (long long)v.peak, (long long)v.allocated,
				(long long)v.freed);
		};
		line("allocation", st.allocation);
		line("segment", st.segment);
		line("active", st.active);
		line("inactive_split", st.inactive_split);
		line("allocated_bytes", st.allocated_bytes);
		line("reserved_bytes", st.reserved_bytes);
		line("active_bytes", st.active_bytes);
		line("inactive_split_bytes", st.inactive_split_bytes);
		line("requested_bytes", st.requested_bytes);
		fprintf(f, "counters %d %lld %lld\n", d, (long long)st.num_alloc_retries,
			(long long)st.num_ooms);
	}
	if (fclose(f))
		throw std::runtime_error("cannot write " + path);
	return blocks;
}

/* ---- commands ---- */

using Words = std::istringstream;

/*
 * The simulated device exports these. What they do is in tests/simcuda/simcuda_ctl.h.
 */
bool sim_fault(const std::string &spec)
{
	auto *set = sim<int(const char *)>("simcuda_set_fault");
	return set && set(spec.c_str()) == 0;
}

std::string cmd_device(Words &in)
{
	int d = 0;

	in >> d;
	c10::cuda::set_device(static_cast<DeviceIndex>(d));
	return std::to_string(d);
}

std::string cmd_stream(Words &in)
{
	size_t i = 0;

	in >> i;
	c10::cuda::setCurrentCUDAStream(stream_at(device(), i));
	return std::to_string(i);
}

std::string cmd_alloc(Words &in)
{
	size_t n = 0, size = 0;

	in >> n >> size;
	for (size_t i = 0; i < n; i++)
		kept.push(allocate(size), size);
	return std::to_string(kept.count()) + " live";
}

std::string cmd_free(Words &in)
{
	std::string what;
	size_t n;

	in >> what;
	n = what == "all" ? kept.count() : std::stoul(what);
	for (; n && kept.count(); n--)
		kept.free_oldest();
	return std::to_string(kept.count()) + " live";
}

std::string cmd_random(Words &in)
{
	uint64_t seed = 0;
	size_t count = 0;

	in >> seed >> count;
	Random random(seed);
	for (size_t i = 0; i < count; i++)
		random.step();
	return std::to_string(kept.count()) + " live";
}

std::string cmd_private(Words &in)
{
	MempoolId_t id{ 0, next_pool++ };
	size_t n = 0, size = 0;

	in >> n >> size;
	in_pool(cca::get(), device_index(), id, [&] {
		for (size_t i = 0; i < n; i++)
			kept.push(allocate(size), size, id);
	});
	return "pool 0." + std::to_string(id.second);
}

std::string cmd_pending(Words &in)
{
	auto b = std::make_unique<BusyStream>();
	size_t n = 0, size = 0;

	in >> n >> size;
	b->stream = stream_at(device(), STREAMS - 1);
	check(cudaLaunchHostFunc(b->stream->stream(), Gate::host_fn, b->gate.get()),
	      "cudaLaunchHostFunc");
	for (size_t i = 0; i < n; i++) {
		auto ptr = allocate(size);

		cca::recordStream(ptr, *b->stream);
	}
	busy_streams.push_back(std::move(b));
	return std::to_string(n) + " pending";
}

std::string cmd_release(Words &)
{
	for (auto &b : busy_streams)
		b->gate->open();
	for (auto &b : busy_streams)
		b->stream->synchronize();
	busy_streams.clear();
	return "released";
}

std::string cmd_emptycache(Words &)
{
	cca::emptyCache();
	return "emptied";
}

std::string cmd_expandable(Words &in)
{
	std::string what;

	in >> what;
	if (!HAVE_EXPANDABLE<cca::SegmentInfo>)
		throw NotHere("this release has no expandable segments");
	expandable = what == "on";
	cca::setAllocatorSettings(std::string("expandable_segments:") +
				  (expandable ? "True" : "False"));
	return what;
}

std::string cmd_snapshot(Words &in)
{
	std::string path;

	in >> path;
	return std::to_string(write_snapshot(path)) + " blocks";
}

std::string cmd_oom(Words &)
{
	size_t free_bytes = 0, total = 0;

	check(cudaMemGetInfo(&free_bytes, &total), "cudaMemGetInfo");
	try {
		auto ptr = allocate(total * 2);
	} catch (const c10::OutOfMemoryError &) {
		return "oom";
	}
	throw std::runtime_error("twice the memory was granted");
}

void churn(int d, int usec, unsigned seed)
{
	std::mt19937_64 rng(seed);
	std::deque<c10::DataPtr> mine;

	prctl(PR_SET_NAME, "busy");
	/*
	 * Since CUDA 12 this binds the device's context to the thread. c10::cuda::set_device() does
	 * not call the runtime for the device that a new thread has anyway, nor does an allocation
	 * that the cache serves: the context would come at some time, or never.
	 */
	check(cudaSetDevice(d), "cudaSetDevice");
	workers_begun = true;
	while (!workers_stop) {
		if (mine.size() < 64 && rng() % 2)
			mine.push_back(allocate(random_size(rng) / 4 + 1));
		else if (!mine.empty())
			mine.pop_front();
		if (usec)
			usleep(static_cast<useconds_t>(usec));
	}
}

std::string cmd_busy(Words &in)
{
	int usec = 0;

	in >> usec;
	workers_stop = false;
	workers_begun = false;
	workers.emplace_back(churn, device(), usec, 4711u + static_cast<unsigned>(workers.size()));
	/* A reader of this line finds the thread at work, with the device's context. */
	while (!workers_begun)
		usleep(1000);
	return std::to_string(workers.size()) + " threads";
}

std::string cmd_idle(Words &)
{
	workers_stop = true;
	for (auto &t : workers)
		t.join();
	workers.clear();
	return "idle";
}

/* Blocks that no cache can serve force the allocator into cudaMalloc with its mutex held. */
void allocate_anew(int d)
{
	prctl(PR_SET_NAME, "holdlock");
	c10::cuda::set_device(static_cast<DeviceIndex>(d));
	auto ptr = allocate(size_t(64) << 20);
}

int sim_blocked()
{
	auto *fn = sim<int()>("simcuda_blocked");
	return fn ? fn() : -1;
}

/* Wait until one more thread is blocked than before; false after five seconds. */
bool wait_blocked(int before)
{
	for (int i = 0; i < 5000; i++) {
		if (sim_blocked() > before)
			return true;
		std::this_thread::sleep_for(milliseconds(1));
	}
	return false;
}

std::string cmd_holdlock(Words &)
{
	int before = sim_blocked();

	if (!sim_fault("cudaMalloc:block:count=1") || !sim_fault("cuMemCreate:block:count=1"))
		throw std::runtime_error("only a simulated device can do this");
	stuck.emplace_back(allocate_anew, device());
	if (!wait_blocked(before))
		throw std::runtime_error("the thread did not get stuck");
	return "held";
}

void join_stuck()
{
	for (auto &t : stuck)
		t.join();
	stuck.clear();
}

std::string cmd_unlock(Words &)
{
	auto *clear = sim<void()>("simcuda_clear_faults");

	if (clear)
		clear();
	join_stuck();
	return "unlocked";
}

std::string cmd_wedge(Words &)
{
	int d = device();

	wedge_gate = std::make_unique<Gate>();
	check(cudaLaunchHostFunc(stream_at(d, 1).stream(), Gate::host_fn, wedge_gate.get()),
	      "cudaLaunchHostFunc");
	stuck.emplace_back([d] {
		prctl(PR_SET_NAME, "wedge");
		cudaSetDevice(d);
		cudaDeviceSynchronize();
	});
	std::this_thread::sleep_for(milliseconds(50));
	return "wedged";
}

std::string cmd_unwedge(Words &)
{
	if (wedge_gate)
		wedge_gate->open();
	join_stuck();
	return "unwedged";
}

std::string cmd_hang(Words &in)
{
	auto *set = sim<void(int)>("simcuda_set_hang");
	int mask = 0;

	in >> mask;
	if (!set)
		throw std::runtime_error("only a simulated device can do this");
	set(mask);
	return std::to_string(mask);
}

std::string cmd_sleep(Words &in)
{
	int ms = 0;

	in >> ms;
	std::this_thread::sleep_for(milliseconds(ms));
	return "slept";
}

std::string cmd_about(Words &)
{
	return "cuda " + std::to_string(CUDART_VERSION / 1000) + "." +
	       std::to_string(CUDART_VERSION % 1000 / 10) + " abi " +
	       std::to_string(_GLIBCXX_USE_CXX11_ABI);
}

/*
 * Blocks get a history context with nothing in it: that there is one is all that the allocator
 * looks at. What recordHistory() takes besides differs between releases; in 2.0 blocks have no
 * context.
 */
template <typename Allocator, typename Fn, typename When, typename... More>
void record_history(Allocator *a, void (Allocator::*record)(bool, Fn, size_t, When, More...),
		    bool on)
{
	if constexpr (std::is_same_v<When, bool>) {
		throw NotHere("blocks have no context");
	} else {
		using Context = typename std::invoke_result_t<Fn>::element_type;

		(a->*record)(
			on, []() { return std::make_shared<Context>(); }, 16,
			on ? When::ALL : When::NEVER, std::decay_t<More>()...);
	}
}

std::string cmd_history(Words &in)
{
	std::string what;

	in >> what;
	record_history(cca::get(), &cca::CUDAAllocator::recordHistory, what == "on");
	return what;
}

std::string cmd_pid(Words &)
{
	return std::to_string(getpid());
}

const std::map<std::string, std::function<std::string(Words &)>> commands = {
	{ "device", cmd_device },
	{ "stream", cmd_stream },
	{ "alloc", cmd_alloc },
	{ "free", cmd_free },
	{ "random", cmd_random },
	{ "private", cmd_private },
	{ "pending", cmd_pending },
	{ "release", cmd_release },
	{ "emptycache", cmd_emptycache },
	{ "expandable", cmd_expandable },
	{ "snapshot", cmd_snapshot },
	{ "oom", cmd_oom },
	{ "busy", cmd_busy },
	{ "idle", cmd_idle },
	{ "holdlock", cmd_holdlock },
	{ "unlock", cmd_unlock },
	{ "wedge", cmd_wedge },
	{ "unwedge", cmd_unwedge },
	{ "hang", cmd_hang },
	{ "sleep", cmd_sleep },
	{ "pid", cmd_pid },
	{ "about", cmd_about },
	{ "history", cmd_history },
};

bool has_primary_context(c10::DeviceIndex d)
{
	using State = int(int, unsigned *, int *);
	static auto *state = reinterpret_cast<State *>(
		dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuDevicePrimaryCtxGetState"));
	unsigned flags = 0;
	int active = 0;

	return state && state(d, &flags, &active) == 0 && active;
}

void init()
{
	int n = c10::cuda::device_count();

	if (c10::cuda::_internal::setHasPrimaryContext)
		c10::cuda::_internal::setHasPrimaryContext(has_primary_context);
#ifdef HAVE_P2P_CACHE
	c10::cuda::detail::init_p2p_access_cache(n);
#endif
	cca::init(n);
}

std::string one_line(std::string text)
{
	return text.substr(0, text.find('\n'));
}

} // namespace

int main()
{
	std::string line;

	std::setvbuf(stdout, nullptr, _IOLBF, 0);
	try {
		init();
	} catch (const std::exception &e) {
		printf("error init: %s\n", one_line(e.what()).c_str());
		return 1;
	}
	printf("ok ready %d\n", getpid());
	while (std::getline(std::cin, line)) {
		Words in(line);
		std::string name;

		if (!(in >> name))
			continue;
		if (name == "quit") {
			printf("ok quit\n");
			break;
		}
		auto it = commands.find(name);
		if (it == commands.end()) {
			printf("error unknown command: %s\n", name.c_str());
			continue;
		}
		try {
			printf("ok %s\n", it->second(in).c_str());
		} catch (const NotHere &e) {
			printf("n/a %s\n", e.what());
		} catch (const std::exception &e) {
			printf("error %s\n", one_line(e.what()).c_str());
		}
	}
	/* Threads may be stuck for ever, on purpose: leave without destructors. */
	fflush(stdout);
	_exit(0);
}
