/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds PyTorch's allocator of pinned host memory. No release exports the object, but each exports
 * a short function that refers to it: this reads the reference from the function's code, and trusts
 * it if it leads to an object of the right class.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "walk/torch/abi.h"
#include "walk/torch/code.h"
#include "walk/torch/find.h"
#include "walk/torch/pinned.h"

/* more than those functions have; what follows leads nowhere, or to the same object */
#define CODE_MAX 160
#define CALL_SIZE 5
#define CUDA_DEVICE_TYPE 1 /* c10::DeviceType::CUDA */

/* One entrance per generation. They are exported, so stripped libraries have them, too. */
static const struct {
	const char *library;
	const char *symbol;
} entrances[] = {
	/* at::getHostAllocator(c10::DeviceType), since 2.8: an array of pointers by device type */
	{ "libtorch_cpu.so", "_ZN2at16getHostAllocatorEN3c1010DeviceTypeE" },
	/*
	 * at::cuda::getCachingHostAllocator(), up to 2.7: the object itself; up to 2.3 a wrapper
	 * without members
	 */
	{ "libtorch_cuda.so", "_ZN2at4cuda23getCachingHostAllocatorEv" },
	/*
	 * at::cuda::CachingHostAllocator_emptyCache(), up to 2.7: with the wrapper, it calls the
	 * function that has the pointer
	 */
	{ "libtorch_cuda.so", "_ZN2at4cuda31CachingHostAllocator_emptyCacheEv" },
};

#define N_ENTRANCES (sizeof(entrances) / sizeof(entrances[0]))

struct finder {
	struct vt_memsrc *src;
	uint64_t object;
	/* CUDAHostAllocatorWrapper exists: the first use creates the allocator */
	bool wrapper;
	bool unset; /* a pointer that a called function returns is NULL */
};

/* The CachingHostAllocatorImpl at addr, or the only member of the object there; else 0. */
static uint64_t implementation_of(struct finder *f, uint64_t addr)
{
	char name[VT_RTTI_MAX];
	uint64_t member;

	if (!vt_is_object(addr))
		return 0;
	vt_torch_class_name(f->src, addr, name);
	if (strstr(name, "CUDACachingHostAllocatorImpl"))
		return addr;
	f->wrapper |= strstr(name, "CUDAHostAllocatorWrapper") != NULL;
	if (!strstr(name, "CUDACachingHostAllocator") ||
	    vt_mem_read_u64(f->src, addr + 8, &member) || !vt_is_object(member))
		return 0;
	vt_torch_class_name(f->src, member, name);
	return strstr(name, "CUDACachingHostAllocatorImpl") ? member : 0;
}

/*
 * Whether the code's reference is valid: the object, a pointer to it, or an array of such pointers.
 */
static bool leads_to_it(struct finder *f, uint64_t target)
{
	uint64_t words[CUDA_DEVICE_TYPE + 1];

	if (!vt_is_object(target))
		return false;
	f->object = implementation_of(f, target);
	if (f->object || vt_mem_read(f->src, target, words, sizeof(words)))
		return f->object != 0;
	f->object = implementation_of(f, words[0]);
	if (!f->object)
		f->object = implementation_of(f, words[CUDA_DEVICE_TYPE]);
	/* CUDAHostAllocator, behind the wrapper, has no virtual function, and so no name */
	if (!f->object && vt_pinned_is_unordered(f->src, words[0]))
		f->object = words[0];
	return f->object != 0;
}

/* called: a function that the entrance calls; no further calls are followed. */
static bool look_at_code(struct finder *f, uint64_t addr, bool called)
{
	uint8_t code[CODE_MAX];
	size_t n = vt_torch_read_some(f->src, addr, code, sizeof(code));
	bool first = true;

	for (size_t i = 0; i + VT_CODE_REFERENCE_SIZE <= n; i++) {
		if (vt_code_is_reference(code + i)) {
			uint64_t target = vt_code_relative(addr + i + VT_CODE_REFERENCE_SIZE,
							   code + i + 3),
				 word;

			if (leads_to_it(f, target))
				return true;
			if (called && first && code[i + 1] == 0x8b &&
			    !vt_mem_read_u64(f->src, target, &word) && !word)
				f->unset = true;
			first = false;
		} else if (!called && code[i] == 0xe8 &&
			   look_at_code(f, vt_code_relative(addr + i + CALL_SIZE, code + i + 1),
					true)) {
			return true;
		}
	}
	return false;
}

/* Takes over the outcome; true if it is final. */
static bool take_outcome(const struct finder *f, bool found_it, struct vt_pinned_found *found)
{
	if (found_it) {
		found->state = VT_PINNED_FOUND;
		found->object = f->object;
	} else if (f->wrapper && f->unset) {
		found->state = VT_PINNED_UNUSED;
	}
	return found->state != VT_PINNED_UNKNOWN;
}

bool vt_pinned_find_in_code(struct vt_memsrc *src, const uint64_t *functions, size_t n,
			    struct vt_pinned_found *found)
{
	struct finder f = { .src = src };
	bool found_it = false;

	*found = (struct vt_pinned_found){ .state = VT_PINNED_UNKNOWN };
	for (size_t i = 0; i < n && !found_it; i++)
		found_it = functions[i] && look_at_code(&f, functions[i], false);
	return take_outcome(&f, found_it, found);
}

static const char *why_not(struct vt_modules *modules, bool any)
{
	size_t index = 0;
	const struct vt_module *library;

	while (!any && (library = vt_modules_by_name(modules, "libtorch_c", &index)))
		if (vt_module_lacks_file(modules, library))
			return "files of libtorch_cuda.so and libtorch_cpu.so are needed, and none can be used";
	return any ? "no function of PyTorch leads to its allocator" :
		     "PyTorch exports none of the functions that lead to its allocator";
}

void vt_pinned_find(struct vt_modules *modules, struct vt_memsrc *src,
		    struct vt_pinned_found *found)
{
	uint64_t functions[N_ENTRANCES], any = 0;
	size_t index = 0;

	*found = (struct vt_pinned_found){ .state = VT_PINNED_ABSENT };
	if (!vt_modules_by_name(modules, "libtorch_cuda.so", &index))
		return;
	for (size_t i = 0; i < N_ENTRANCES; i++) {
		functions[i] =
			vt_modules_symbol(modules, entrances[i].library, entrances[i].symbol);
		any |= functions[i];
	}
	if (!vt_pinned_find_in_code(src, functions, N_ENTRANCES, found))
		snprintf(found->why, sizeof(found->why), "%s", why_not(modules, any));
}
