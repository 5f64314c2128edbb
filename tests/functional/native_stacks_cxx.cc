/* SPDX-License-Identifier: Apache-2.0 */
/*
 * C++ for native_stacks.sh: an exception being handled, lambdas, templates, virtual calls, threads,
 * destructors.
 */
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

static std::atomic<int> in_place;
static volatile int sink;

static void stand_still()
{
	in_place++;
	for (;;) {
		pause();
		sink++;
	}
}

struct base {
	virtual ~base() = default;
	virtual int work(const std::vector<std::string> &names) = 0;
};

template <typename T> struct derived : base {
	int work(const std::vector<std::string> &names) override
	{
		std::for_each(names.begin(), names.end(), [this](const std::string &name) {
			if (name == "stop")
				stand_still();
			sink++;
		});
		return sink;
	}
};

struct guard {
	~guard() noexcept(false)
	{
		stand_still();
		sink++;
	}
};

__attribute__((noinline)) static void throws(int n)
{
	if (n == 0)
		throw std::runtime_error("wanted");
	throws(n - 1);
	sink++;
}

static void handles()
{
	try {
		throws(5);
	} catch (const std::exception &) {
		stand_still();
		sink++;
	}
}

static void unwinds()
{
	try {
		guard g;
		throws(3);
	} catch (...) {
		sink++;
	}
}

static void waits()
{
	static std::mutex mutex;
	static std::condition_variable never;
	std::unique_lock<std::mutex> lock(mutex);

	in_place++;
	never.wait(lock, [] { return false; });
}

int main()
{
	std::vector<std::thread> threads;
	std::function<void(int)> nested = [&nested](int n) {
		if (n == 0)
			stand_still();
		nested(n - 1);
		sink++;
	};

	threads.emplace_back(handles);
	threads.emplace_back(unwinds);
	threads.emplace_back(waits);
	threads.emplace_back([&nested] { nested(20); });
	threads.emplace_back([] {
		derived<std::vector<std::pair<int, double>>> d;
		base &b = d;

		b.work({ "go", "stop" });
	});
	while (in_place < (int)threads.size())
		usleep(1000);
	usleep(100000);
	puts("ready");
	fflush(stdout);
	alarm(300);
	for (auto &thread : threads)
		thread.join();
}
