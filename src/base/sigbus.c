/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sigbus.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>

#include "base/page.h"

/*
 * A page fault that a mapped file cannot serve has the code BUS_ADRERR (do_sigbus() in
 * arch/x86/mm/fault.c, do_page_fault() in arch/arm64/mm/fault.c); broken memory and other causes
 * have other codes. mmap() is a bare system call, so it may be called here.
 */
static void put_zeros(int sig, siginfo_t *info, void *context)
{
	int saved = errno;
	uint64_t page = (uint64_t)(uintptr_t)info->si_addr & ~(vt_page_size() - 1);

	(void)context;
	if (info->si_code != BUS_ADRERR ||
	    mmap((void *)(uintptr_t)page, vt_page_size(), PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED) {
		signal(sig, SIG_DFL); /* it comes again at once, */
		if (info->si_code <= 0)
			raise(sig); /* but not by itself if it was sent */
	}
	errno = saved;
}

void vt_sigbus_survive(void)
{
	struct sigaction action = { .sa_sigaction = put_zeros, .sa_flags = SA_SIGINFO };

	sigaction(SIGBUS, &action, NULL);
}
