/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stands in for the recorder's other parts where its tables are tested: capture takes the
 * frames that the thread has named itself, hooks are a flag.
 */
#ifndef VT_RECORDER_FAKES_H
#define VT_RECORDER_FAKES_H

#include <semaphore.h>

#include "recorder/memo.h"

/* The frames of the calling thread: n words of Python frames, as they are recorded. */
struct fake_stack {
	uint64_t words[2 * VT_RECORDER_MAX_PYTHON];
	uint16_t n;
};

extern _Thread_local struct fake_stack fake_stack; /* no words: no Python */
/* Called within capture, if there is one. */
extern void (*fake_in_capture)(void);
/* What these return. */
extern bool fake_python_init, fake_native_init;
extern uint32_t fake_torch_in, fake_driver_in;
/* What is in. */
extern bool fake_python, fake_native, fake_torch, fake_driver, fake_launches;

/* A configuration that records everything, without a bound that matters. */
struct vt_recorder_config fake_config(void);

#endif
