/* SPDX-License-Identifier: Apache-2.0 */
#include "triage/phase.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

bool vt_phases_init(struct vt_phases *phases, size_t n)
{
	size_t size = n * sizeof(*phases->words);
	void *words = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int wake[2];

	if (words == MAP_FAILED)
		return false;
	if (pipe2(wake, O_CLOEXEC | O_NONBLOCK)) {
		munmap(words, size);
		return false;
	}
	*phases = (struct vt_phases){ .words = words, .n = n, .wake = { wake[0], wake[1] } };
	return true;
}

void vt_phases_deinit(struct vt_phases *phases)
{
	if (!phases->words)
		return;
	munmap(phases->words, phases->n * sizeof(*phases->words));
	close(phases->wake[0]);
	close(phases->wake[1]);
	*phases = (struct vt_phases){ 0 };
}

void vt_phase_say(struct vt_phases *phases, size_t worker, enum vt_phase phase)
{
	ssize_t ret;

	__atomic_store_n(&phases->words[worker], (uint32_t)phase, __ATOMIC_RELEASE);
	/* A full pipe wakes the parent anyway. */
	do
		ret = write(phases->wake[1], "", 1);
	while (ret < 0 && errno == EINTR);
}

void vt_phases_woken(struct vt_phases *phases)
{
	char bytes[4096];
	ssize_t n;

	do
		n = read(phases->wake[0], bytes, sizeof(bytes));
	while (n == sizeof(bytes) || (n < 0 && errno == EINTR));
}

uint32_t vt_phase_of(const struct vt_phases *phases, size_t worker)
{
	return __atomic_load_n(&phases->words[worker], __ATOMIC_ACQUIRE);
}
