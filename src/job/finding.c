/* SPDX-License-Identifier: Apache-2.0 */
#include "job/finding.h"

/* A name never changes and is never given again: scripts compare it. */
static const struct {
	const char *name;
	bool leaves_open; /* where the other ranks are */
} findings[VT_N_FINDINGS] = {
	[VT_FINDING_MISSING_RANK] = { "missing-rank", true },
	[VT_FINDING_UNREAD_RANK] = { "unread-rank", true },
	[VT_FINDING_CRASHED] = { "crashed", false },
	[VT_FINDING_OUT_OF_MEMORY] = { "out-of-memory", false },
	[VT_FINDING_TRACED] = { "traced", false },
	[VT_FINDING_STOPPED] = { "stopped", false },
	[VT_FINDING_RETRIES_ALLOCATION] = { "retries-allocation", false },
	[VT_FINDING_STUCK] = { "stuck", false },
	[VT_FINDING_WAITS_FOR_LOADER] = { "waits-for-loader", false },
	[VT_FINDING_WAITS_FOR_LOCK] = { "waits-for-lock", false },
	[VT_FINDING_MISSED_COLLECTIVE] = { "missed-collective", false },
	[VT_FINDING_GPU_WAITS_FOR_RANK] = { "gpu-waits-for-rank", false },
	[VT_FINDING_DIFFERENT_COLLECTIVE] = { "different-collective", false },
	[VT_FINDING_ALL_IN_COLLECTIVE] = { "all-in-collective", false },
	[VT_FINDING_ALL_IN_STORE] = { "all-in-store", false },
	[VT_FINDING_ALL_WAIT_FOR_LOADER] = { "all-wait-for-loader", false },
	[VT_FINDING_ALL_WAIT_FOR_GPU] = { "all-wait-for-gpu", false },
	[VT_FINDING_ALL_EQUAL] = { "all-equal", false },
	[VT_FINDING_RANKS] = { "ranks", false },
	[VT_FINDING_LOADER_WORKER] = { "loader-worker", false },
	[VT_FINDING_FEWER_LOADER_WORKERS] = { "fewer-loader-workers", false },
	[VT_FINDING_LOADER_BUSY] = { "loader-busy", false },
	[VT_FINDING_BEHIND] = { "behind", false },
	[VT_FINDING_MISMATCHED_COLLECTIVE] = { "mismatched-collective", false },
	[VT_FINDING_NOT_STARTED] = { "not-started", true },
	[VT_FINDING_NOT_COMPLETED] = { "not-completed", true },
	[VT_FINDING_COLLECTIVE_STALLS] = { "collective-stalls", true },
	[VT_FINDING_COLLECTIVE_WAITS] = { "collective-waits", true },
	[VT_FINDING_RAS_DEAD] = { "ras-dead", true },
	[VT_FINDING_RAS_SILENT] = { "ras-silent", true },
	[VT_FINDING_RAS_ABSENT] = { "ras-absent", true },
	[VT_FINDING_RAS_ERROR] = { "ras-error", true },
	[VT_FINDING_RAS_BEHIND] = { "ras-behind", true },
	[VT_FINDING_RAS_STATUS] = { "ras-status", true },
	[VT_FINDING_GPU_FAULT] = { "gpu-fault", true },
	[VT_FINDING_CONTEXT_LOST] = { "context-lost", true },
	[VT_FINDING_GPU_MEMORY_ERRORS] = { "gpu-memory-errors", true },
	[VT_FINDING_GPU_THROTTLED] = { "gpu-throttled", true },
	[VT_FINDING_GPU_EXCEPTION] = { "gpu-exception", true },
	[VT_FINDING_GPUS_DIFFER] = { "gpus-differ", true },
	[VT_FINDING_IMBALANCE] = { "imbalance", false },
	[VT_FINDING_IMBALANCE_CACHED] = { "imbalance-cached", false },
	[VT_FINDING_IMBALANCE_CATEGORY] = { "imbalance-category", false },
	[VT_FINDING_IMBALANCE_LINE] = { "imbalance-line", false },
	[VT_FINDING_IDLE_HOLDER] = { "idle-holder", false },
	[VT_FINDING_OUTSIDE_HOLDER] = { "outside-holder", false },
};

const char *vt_finding_name(enum vt_finding finding)
{
	return findings[finding].name;
}

bool vt_finding_tells_where(enum vt_finding finding)
{
	return !findings[finding].leaves_open;
}
