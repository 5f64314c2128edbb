/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of stacks: whose they are, and in one line. */
{
	/* Whether a frame is the program's own code: Python, and not of a framework or the standard library. */
	vt.isProgram = (frame) => frame.program === true;

	/* "Block.forward  net.py:20" */
	vt.frameText = (frame) => (vt.functionName(frame) + "  " + vt.place(frame)).trim();
}
