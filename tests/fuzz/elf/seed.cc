// SPDX-License-Identifier: Apache-2.0
// Classes, namespaces and inlined members, for the DWARF of seeds.sh.
extern "C" int outside(int x);

namespace one::two
{
template <typename T> struct Box {
	T held;
	inline __attribute__((always_inline)) T get(int by) const
	{
		return static_cast<T>(held * outside(by));
	}
	__attribute__((noinline, cold)) T fail(int by);
};

template <typename T> T Box<T>::fail(int by)
{
	return get(by) + get(by + 1);
}

namespace
{
struct Hidden {
	int x;
	__attribute__((noinline)) int run(int by)
	{
		Box<int> box{ x };
		auto deep = [&](int y) __attribute__((always_inline))
		{
			return box.get(y) + box.get(by);
		};

		if (__builtin_expect(by == 77, 0))
			return box.fail(deep(by));
		return deep(x) + deep(by);
	}
};
} // namespace
} // namespace one::two

extern "C" int enter(int x);
extern "C" int enter(int x)
{
	one::two::Hidden hidden{ x };

	return hidden.run(x) + one::two::Box<int>{ 3 }.get(4);
}
