/* SPDX-License-Identifier: Apache-2.0 */
/* vramtap watch: the user wants to end it. */
#include <signal.h>
#include <unistd.h>

#include "base/ends.h"
#include "base/progress.h"
#include "cmd/watch.h"
#include "target/session.h"

static volatile sig_atomic_t ended;

static void on_signal(int signo)
{
	static const char text[] =
		"vramtap: interrupted again; the process was released, the recorder is left on\n";

	if (ended) {
		vt_session_emergency_release();
		vt_say_at_once(text, sizeof(text) - 1);
		_exit(128 + signo);
	}
	ended = 1;
}

void vt_watch_catch_signals(void)
{
	vt_ends_handle(on_signal, NULL);
}

bool vt_watch_ended(void)
{
	return ended;
}
