/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/symptoms.h"

/*
 * tests/functional/readme.py compares README.md and vramtap(1) with this table. Capital letters
 * begin each symptom, for completion in fish takes lines that begin with small ones for commands.
 */
static const struct {
	const char *symptom, *command;
} symptoms[] = {
	{ "A process hangs", "vramtap stacks PID" },
	{ "GPU at 100 %, nothing moves", "vramtap report --kernels PID" },
	{ "A job of many processes hangs", "vramtap triage --children-of PID" },
	{ "A Slurm job hangs", "vramtap triage --slurm JOB" },
	{ "A job in Kubernetes hangs", "vramtap triage --kubectl SELECTOR" },
	{ "GPU memory is full now", "vramtap report PID" },
	{ "Who allocates from now on?", "vramtap record PID on" },
	{ "Memory may run out", "vramtap watch PID --on-oom" },
	{ "Memory ran out, and will again", "vramtap run --on-oom -- COMMAND" },
	{ "Memory grows and grows", "vramtap watch PID --grow" },
	{ "A crash left a core", "vramtap report --core=FILE" },
	{ "Already in gdb or cuda-gdb", "vramtap gdb-script >v.gdb; (gdb) source v.gdb" },
	{ "What uses this machine's GPUs?", "vramtap ps" },
	{ "What is this process?", "vramtap PID" },
};

void vt_print_symptoms(FILE *out)
{
	for (size_t i = 0; i < sizeof(symptoms) / sizeof(symptoms[0]); i++)
		fprintf(out, "  %-31s %s\n", symptoms[i].symptom, symptoms[i].command);
}
