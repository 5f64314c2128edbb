/* SPDX-License-Identifier: Apache-2.0 */
#include "model/xid.h"

#include <stddef.h>

/* By code. Those that no driver writes any more are left out. */
/* clang-format off */
static const struct vt_xid_meaning meanings[] = {
	{ 8, VT_BLAME_DRIVER, VT_XID_RESTART, true, "the GPU stopped processing" },
	{ 11, VT_BLAME_DRIVER, VT_XID_RESTART, true, "invalid or corrupted push buffer" },
	{ 13, VT_BLAME_APPLICATION, VT_XID_DEBUG, true, "graphics engine exception" },
	{ 25, VT_BLAME_DRIVER, VT_XID_RESTART, true, "invalid or illegal push buffer" },
	{ 31, VT_BLAME_APPLICATION, VT_XID_DEBUG, true, "GPU memory page fault" },
	{ 32, VT_BLAME_DRIVER, VT_XID_RESTART, true, "invalid or corrupted push buffer" },
	{ 37, VT_BLAME_DRIVER, VT_XID_NOTE, false, "driver firmware error" },
	{ 38, VT_BLAME_DRIVER, VT_XID_NOTE, false, "driver firmware error" },
	{ 39, VT_BLAME_DRIVER, VT_XID_RESTART, true, "copy engine exception" },
	{ 40, VT_BLAME_DRIVER, VT_XID_RESTART, true, "copy engine exception" },
	{ 41, VT_BLAME_DRIVER, VT_XID_RESTART, true, "copy engine exception" },
	{ 43, VT_BLAME_APPLICATION, VT_XID_DEBUG, true, "the GPU stopped processing" },
	{ 44, VT_BLAME_DRIVER, VT_XID_RESTART, true, "fault during a context switch" },
	{ 45, VT_BLAME_AFTERMATH, VT_XID_RESTART, true, "channels removed after an earlier error" },
	{ 46, VT_BLAME_DRIVER, VT_XID_RESET, true, "the GPU stopped processing" },
	{ 48, VT_BLAME_HARDWARE, VT_XID_RESET, false, "double-bit ECC error" },
	{ 54, VT_BLAME_HARDWARE, VT_XID_REBOOT, false, "auxiliary power is not connected" },
	{ 61, VT_BLAME_HARDWARE, VT_XID_RESET, false, "internal micro-controller breakpoint" },
	{ 62, VT_BLAME_HARDWARE, VT_XID_RESET, false, "internal micro-controller halt" },
	{ 63, VT_BLAME_HARDWARE, VT_XID_NOTE, false, "GPU memory row remapped or page retired" },
	{ 64, VT_BLAME_HARDWARE, VT_XID_RESET, false, "GPU memory row remapping failed" },
	{ 66, VT_BLAME_DRIVER, VT_XID_NOTE, false, "illegal access by the driver" },
	{ 67, VT_BLAME_DRIVER, VT_XID_NOTE, false, "illegal access by the driver" },
	{ 68, VT_BLAME_APPLICATION, VT_XID_RESTART, true, "video decoder exception" },
	{ 69, VT_BLAME_APPLICATION, VT_XID_DEBUG, true, "graphics engine class error" },
	{ 74, VT_BLAME_LINK, VT_XID_RESET, false, "NVLink error" },
	{ 79, VT_BLAME_HARDWARE, VT_XID_REBOOT, false, "the GPU has fallen off the bus" },
	{ 80, VT_BLAME_DRIVER, VT_XID_RESTART, true, "corrupted data sent to the GPU" },
	{ 92, VT_BLAME_HARDWARE, VT_XID_NOTE, false, "high rate of single-bit ECC errors" },
	{ 93, VT_BLAME_HARDWARE, VT_XID_NOTE, false, "wear limit of the InfoROM" },
	{ 94, VT_BLAME_HARDWARE, VT_XID_RESTART, true, "contained memory error" },
	{ 95, VT_BLAME_HARDWARE, VT_XID_RESET, true, "uncontained memory error" },
	{ 109, VT_BLAME_DRIVER, VT_XID_RESET, true, "context switch timeout" },
	{ 110, VT_BLAME_DRIVER, VT_XID_RESET, false, "security fault" },
	{ 119, VT_BLAME_DRIVER, VT_XID_RESET, false, "the GPU's system processor does not answer (GSP RPC timeout)" },
	{ 120, VT_BLAME_DRIVER, VT_XID_RESET, false, "error of the GPU's system processor (GSP)" },
	{ 121, VT_BLAME_LINK, VT_XID_NOTE, false, "C2C link error" },
	{ 136, VT_BLAME_LINK, VT_XID_RESET, false, "NVLink training failed" },
	{ 137, VT_BLAME_APPLICATION, VT_XID_NOTE, false, "NVLink privilege error" },
	{ 140, VT_BLAME_HARDWARE, VT_XID_RESET, false, "unrecovered ECC error" },
	{ 143, VT_BLAME_HARDWARE, VT_XID_RESET, false, "GPU initialization error" },
	{ 144, VT_BLAME_LINK, VT_XID_RESET, false, "NVLink error (SAW)" },
	{ 145, VT_BLAME_LINK, VT_XID_RESET, false, "NVLink error (RLW)" },
	{ 146, VT_BLAME_LINK, VT_XID_RESET, false, "NVLink error (TLW)" },
	{ 147, VT_BLAME_LINK, VT_XID_RESET, false, "NVLink error (TREX)" },
	{ 148, VT_BLAME_LINK, VT_XID_RESET, false, "NVLink error (NVLPW_CTRL)" },
	{ 149, VT_BLAME_LINK, VT_XID_RESET, false, "NVLink error (NETIR)" },
	{ 150, VT_BLAME_LINK, VT_XID_RESET, false, "NVLink error (MSE)" },
	{ 154, VT_BLAME_AFTERMATH, VT_XID_NOTE, false, "the recovery that the driver asks for has changed" },
	{ 155, VT_BLAME_LINK, VT_XID_RESET, false, "NVLink error (software)" },
	{ 156, VT_BLAME_HARDWARE, VT_XID_RESET, false, "a part of the GPU was retired" },
	{ 157, VT_BLAME_HARDWARE, VT_XID_NOTE, false, "retiring a part of the GPU failed" },
	{ 158, VT_BLAME_HARDWARE, VT_XID_RESET, false, "fatal timeout of the GPU" },
	{ 160, VT_BLAME_HARDWARE, VT_XID_NOTE, false, "a memory channel was retired" },
	{ 161, VT_BLAME_HARDWARE, VT_XID_NOTE, false, "retiring a memory channel failed" },
	{ 171, VT_BLAME_HARDWARE, VT_XID_NOTE, false, "uncorrectable DRAM error (details of Xid 48)" },
	{ 172, VT_BLAME_HARDWARE, VT_XID_NOTE, false, "uncorrectable SRAM error (details of Xid 48)" },
};
/* clang-format on */

const struct vt_xid_meaning *vt_xid_meaning(uint32_t code)
{
	for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++)
		if (meanings[i].code == code)
			return &meanings[i];
	return NULL;
}

const char *vt_xid_blame_name(unsigned int blame)
{
	static const char *const names[] = {
		[VT_BLAME_UNKNOWN] = "unknown", [VT_BLAME_APPLICATION] = "application",
		[VT_BLAME_DRIVER] = "driver",   [VT_BLAME_HARDWARE] = "hardware",
		[VT_BLAME_LINK] = "link",       [VT_BLAME_AFTERMATH] = "aftermath",
	};

	return blame < VT_N_BLAMES ? names[blame] : names[VT_BLAME_UNKNOWN];
}

const char *vt_xid_action_name(unsigned int action)
{
	static const char *const names[] = {
		[VT_XID_NOTE] = "note",   [VT_XID_DEBUG] = "debug",   [VT_XID_RESTART] = "restart",
		[VT_XID_RESET] = "reset", [VT_XID_REBOOT] = "reboot",
	};

	return action < VT_N_XID_ACTIONS ? names[action] : names[VT_XID_NOTE];
}
