/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libnvidia-ml.so.1 of a whole host, for tests of what asks it: which devices there are and which
 * processes use them is in a text file beside the library, "host.txt", read again for each answer.
 *
 *     driver VERSION
 *     device UUID PCI MINOR TOTAL_MIB USED_MIB RESERVED_MIB NAME...
 *     mig UUID GI CI TOTAL_MIB USED_MIB          an instance of the device above
 *     process PID MIB [compute|graphics|mps]     of the device or instance above; MIB may be "?"
 *     health WHAT NUMBER...                      of the device above, which lacks the others:
 *         ecc NOW EVER, rows CORRECTED UNCORRECTED PENDING FAILED, retire PENDING, slow BITS,
 *         celsius N, power MW LIMIT, clock MHZ LIMIT, busy PERCENT PERCENT
 *     error FUNCTION CODE
 *     hang FUNCTION                              it never returns
 *     crash FUNCTION
 *     wait FUNCTION MS
 *
 * NVML_LISTS: the newest version of the functions that list processes. NVML_535: version 3 has
 * entries of 32 bytes, as some drivers of the release 535 had. NVML_NO_HEALTH: it has no
 * function for that; NVML_OLD_HEALTH: throttle reasons have their old name.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef NVML_LISTS
#define NVML_LISTS 3
#endif

enum { /* nvmlReturn_t */
       NVML_SUCCESS = 0,
       NVML_UNINITIALIZED = 1,
       NVML_INVALID_ARGUMENT = 2,
       NVML_NOT_SUPPORTED = 3,
       NVML_NOT_FOUND = 6,
       NVML_INSUFFICIENT_SIZE = 7,
       NVML_UNKNOWN = 999,
};

#define NVML(name, ...)        \
	int name(__VA_ARGS__); \
	int name(__VA_ARGS__)

#define MAX_DEVICES 64
#define MAX_PROCESSES 4096
#define NONE 0xffffffffu
#define MIB 1048576ull

enum kind { COMPUTE, GRAPHICS, MPS };

struct device {
	char uuid[96], pci[32], name[96];
	unsigned minor, gi, ci;
	unsigned long long total, used, reserved;
	struct device *parent;
	int divided;
	struct health {
		int known;
		unsigned long long numbers[4];
	} health[8];
};

static const char *const healths[] = { "ecc",     "rows",  "retire", "slow",
				       "celsius", "power", "clock",  "busy" };
enum { ECC, ROWS, RETIRE, SLOW, CELSIUS, POWER, CLOCK, BUSY };

struct process {
	struct device *device;
	unsigned pid;
	unsigned long long bytes;
	enum kind kind;
};

static struct host {
	char driver[80];
	struct device devices[MAX_DEVICES];
	size_t n_devices;
	struct process processes[MAX_PROCESSES];
	size_t n_processes;
} host;

static int initialised;

static FILE *open_host(void)
{
	Dl_info info;
	char path[4096], *slash;

	if (!dladdr(&host, &info))
		return NULL;
	snprintf(path, sizeof(path) - 16, "%s", info.dli_fname);
	slash = strrchr(path, '/');
	strcpy(slash ? slash + 1 : path, "host.txt");
	return fopen(path, "re");
}

static void add_device(const char *line, struct device **last)
{
	struct device d = { .gi = NONE, .ci = NONE };
	int name = 0;

	if (sscanf(line, "device %95s %31s %u %llu %llu %llu %n", d.uuid, d.pci, &d.minor, &d.total,
		   &d.used, &d.reserved, &name) >= 6) {
		snprintf(d.name, sizeof(d.name), "%.95s", name ? line + name : "");
		d.name[strcspn(d.name, "\n")] = '\0';
	} else if (*last && sscanf(line, "mig %95s %u %u %llu %llu", d.uuid, &d.gi, &d.ci, &d.total,
				   &d.used) == 5) {
		d.parent = (*last)->parent ? (*last)->parent : *last;
		d.parent->divided = 1;
		d.minor = d.parent->minor;
		snprintf(d.pci, sizeof(d.pci), "%s", d.parent->pci);
		snprintf(d.name, sizeof(d.name), "%.80s MIG", d.parent->name);
	} else {
		return;
	}
	d.total *= MIB;
	d.used *= MIB;
	d.reserved *= MIB;
	if (host.n_devices == MAX_DEVICES)
		return;
	*last = &host.devices[host.n_devices++];
	**last = d;
}

static void add_process(const char *line, struct device *device)
{
	char bytes[32], kind[16] = "";
	struct process p = { .device = device };

	if (!device || host.n_processes == MAX_PROCESSES ||
	    sscanf(line, "process %u %31s %15s", &p.pid, bytes, kind) < 2)
		return;
	p.bytes = *bytes == '?' ? ~0ull : strtoull(bytes, NULL, 10) * MIB;
	p.kind = !strcmp(kind, "graphics") ? GRAPHICS : !strcmp(kind, "mps") ? MPS : COMPUTE;
	host.processes[host.n_processes++] = p;
}

static void add_health(const char *line, struct device *device)
{
	unsigned long long n[4] = { 0 };
	char what[16];

	if (!device ||
	    sscanf(line, "health %15s %llu %llu %llu %llu", what, &n[0], &n[1], &n[2], &n[3]) < 2)
		return;
	for (size_t i = 0; i < sizeof(healths) / sizeof(healths[0]); i++) {
		if (strcmp(what, healths[i]))
			continue;
		device->health[i].known = 1;
		memcpy(device->health[i].numbers, n, sizeof(n));
	}
}

/* What the file has for this function happens. Handles stay: devices keep their order. */
static int enter(const char *function)
{
	FILE *file = open_host();
	char line[512], name[128];
	struct device *last = NULL;
	int code = NVML_SUCCESS, value;

	if (!file)
		return NVML_UNKNOWN;
	host.driver[0] = '\0';
	host.n_devices = host.n_processes = 0;
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "error %127s %d", name, &value) == 2 && !strcmp(name, function))
			code = value;
		if (sscanf(line, "hang %127s", name) == 1 && !strcmp(name, function))
			for (;;)
				pause();
		if (sscanf(line, "crash %127s", name) == 1 && !strcmp(name, function))
			abort();
		if (sscanf(line, "wait %127s %d", name, &value) == 2 && !strcmp(name, function))
			usleep((unsigned)value * 1000);
		sscanf(line, "driver %79s", host.driver);
		add_device(line, &last);
		add_process(line, last);
		add_health(line, last);
	}
	fclose(file);
	return code || initialised || !strncmp(function, "nvmlInit", 8) ? code : NVML_UNINITIALIZED;
}

static struct device *device_of(void *handle)
{
	struct device *d = handle;

	return d >= host.devices && d < host.devices + host.n_devices ? d : NULL;
}

#define ENTER_DEVICE(handle)                  \
	int code = enter(__func__);           \
	struct device *d = device_of(handle); \
                                              \
	if (code || !d)                       \
	return code ? code : NVML_INVALID_ARGUMENT

static int copy_text(char *to, unsigned len, const char *text)
{
	if (strlen(text) >= len)
		return NVML_INSUFFICIENT_SIZE;
	memcpy(to, text, strlen(text) + 1);
	return NVML_SUCCESS;
}

NVML(nvmlInit_v2, void)
{
	int code = enter(__func__);

	initialised = !code;
	return code;
}

NVML(nvmlSystemGetDriverVersion, char *text, unsigned len)
{
	int code = enter(__func__);

	return code ? code : copy_text(text, len, host.driver);
}

/* ---- devices ---- */

static struct device *nth(struct device *parent, unsigned n)
{
	for (size_t i = 0; i < host.n_devices; i++)
		if (host.devices[i].parent == parent && n-- == 0)
			return &host.devices[i];
	return NULL;
}

NVML(nvmlDeviceGetCount_v2, unsigned *count)
{
	int code = enter(__func__);

	for (*count = 0; nth(NULL, *count);)
		++*count;
	return code;
}

NVML(nvmlDeviceGetHandleByIndex_v2, unsigned index, void **handle)
{
	int code = enter(__func__);

	*handle = nth(NULL, index);
	return code ? code : *handle ? NVML_SUCCESS : NVML_INVALID_ARGUMENT;
}

NVML(nvmlDeviceGetHandleByPciBusId_v2, const char *pci, void **handle)
{
	int code = enter(__func__);

	for (unsigned i = 0; (*handle = nth(NULL, i)); i++)
		if (!strcasecmp(device_of(*handle)->pci + 4, strlen(pci) > 12 ? pci + 4 : pci))
			return code;
	return code ? code : NVML_NOT_FOUND;
}

NVML(nvmlDeviceGetUUID, void *handle, char *text, unsigned len)
{
	ENTER_DEVICE(handle);
	return copy_text(text, len, d->uuid);
}

NVML(nvmlDeviceGetName, void *handle, char *text, unsigned len)
{
	ENTER_DEVICE(handle);
	return copy_text(text, len, d->name);
}

NVML(nvmlDeviceGetMinorNumber, void *handle, unsigned *minor)
{
	ENTER_DEVICE(handle);
	*minor = d->minor;
	return d->parent ? NVML_NOT_SUPPORTED : NVML_SUCCESS;
}

struct pci {
	char legacy[16];
	unsigned domain, bus, device, id, subsystem;
	char bus_id[32];
};

NVML(nvmlDeviceGetPciInfo_v3, void *handle, struct pci *pci)
{
	ENTER_DEVICE(handle);
	memset(pci, 0, sizeof(*pci));
	snprintf(pci->bus_id, sizeof(pci->bus_id), "%s", d->pci);
	return NVML_SUCCESS;
}

struct memory {
	unsigned long long total, free, used;
};

NVML(nvmlDeviceGetMemoryInfo, void *handle, struct memory *memory)
{
	ENTER_DEVICE(handle);
	*memory = (struct memory){ d->total, d->total - d->used - d->reserved,
				   d->used + d->reserved };
	return NVML_SUCCESS;
}

struct memory_v2 {
	unsigned version;
	unsigned long long total, reserved, free, used;
};

NVML(nvmlDeviceGetMemoryInfo_v2, void *handle, struct memory_v2 *memory)
{
	ENTER_DEVICE(handle);
	if (memory->version != (sizeof(*memory) | 2u << 24))
		return NVML_INVALID_ARGUMENT;
	*memory = (struct memory_v2){ memory->version, d->total, d->reserved,
				      d->total - d->used - d->reserved, d->used };
	return NVML_SUCCESS;
}

/* ---- MIG ---- */

NVML(nvmlDeviceGetMigMode, void *handle, unsigned *current, unsigned *pending)
{
	ENTER_DEVICE(handle);
	*current = *pending = (unsigned)d->divided;
	return d->parent ? NVML_NOT_SUPPORTED : NVML_SUCCESS;
}

NVML(nvmlDeviceGetMaxMigDeviceCount, void *handle, unsigned *count)
{
	ENTER_DEVICE(handle);
	*count = d->divided ? 7 : 0;
	return NVML_SUCCESS;
}

NVML(nvmlDeviceGetMigDeviceHandleByIndex, void *handle, unsigned index, void **instance)
{
	ENTER_DEVICE(handle);
	*instance = nth(d, index);
	return *instance ? NVML_SUCCESS : NVML_NOT_FOUND;
}

NVML(nvmlDeviceGetGpuInstanceId, void *handle, unsigned *id)
{
	ENTER_DEVICE(handle);
	*id = d->gi;
	return d->parent ? NVML_SUCCESS : NVML_NOT_SUPPORTED;
}

NVML(nvmlDeviceGetComputeInstanceId, void *handle, unsigned *id)
{
	ENTER_DEVICE(handle);
	*id = d->ci;
	return d->parent ? NVML_SUCCESS : NVML_NOT_SUPPORTED;
}

/* ---- processes ---- */

static int list(const char *function, void *handle, enum kind kind, unsigned *count, char *out,
		size_t entry)
{
	int code = enter(function);
	struct device *d = device_of(handle);
	unsigned room = *count;

	if (code || !d)
		return code ? code : NVML_INVALID_ARGUMENT;
	*count = 0;
	for (size_t i = 0; i < host.n_processes; i++) {
		const struct process *p = &host.processes[i];
		unsigned words[8] = { p->pid, 0, 0, 0, d->gi, d->ci, 0, 0 };

		if (p->device != d || p->kind != kind)
			continue;
		memcpy(&words[2], &p->bytes, sizeof(p->bytes));
		if (*count < room)
			memcpy(out + *count * entry, words, entry);
		++*count;
	}
	return *count > room ? NVML_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

#ifdef NVML_535
#define ENTRY_3 32
#else
#define ENTRY_3 24
#endif

#define LIST(name, kind, entry)                                         \
	NVML(name, void *handle, unsigned *count, void *out)            \
	{                                                               \
		return list(__func__, handle, kind, count, out, entry); \
	}

LIST(nvmlDeviceGetComputeRunningProcesses, COMPUTE, 16)
LIST(nvmlDeviceGetGraphicsRunningProcesses, GRAPHICS, 16)
#if NVML_LISTS >= 2
LIST(nvmlDeviceGetComputeRunningProcesses_v2, COMPUTE, 24)
LIST(nvmlDeviceGetGraphicsRunningProcesses_v2, GRAPHICS, 24)
#endif
#if NVML_LISTS >= 3
LIST(nvmlDeviceGetComputeRunningProcesses_v3, COMPUTE, ENTRY_3)
LIST(nvmlDeviceGetGraphicsRunningProcesses_v3, GRAPHICS, ENTRY_3)
LIST(nvmlDeviceGetMPSComputeRunningProcesses_v3, MPS, ENTRY_3)
#endif

/* ---- health ---- */

#ifndef NVML_NO_HEALTH

#define HEALTH(handle, what)                                   \
	ENTER_DEVICE(handle);                                  \
	const unsigned long long *n = d->health[what].numbers; \
                                                               \
	if (!d->health[what].known)                            \
	return NVML_NOT_SUPPORTED

NVML(nvmlDeviceGetTotalEccErrors, void *handle, int type, int counter, unsigned long long *errors)
{
	HEALTH(handle, ECC);
	if (type != 1)
		return NVML_INVALID_ARGUMENT;
	*errors = n[counter == 1];
	return NVML_SUCCESS;
}

NVML(nvmlDeviceGetRemappedRows, void *handle, unsigned *corrected, unsigned *uncorrected,
     unsigned *pending, unsigned *failed)
{
	HEALTH(handle, ROWS);
	*corrected = (unsigned)n[0];
	*uncorrected = (unsigned)n[1];
	*pending = (unsigned)n[2];
	*failed = (unsigned)n[3];
	return NVML_SUCCESS;
}

#define NUMBER(name, what, i)                      \
	NVML(name, void *handle, unsigned *number) \
	{                                          \
		HEALTH(handle, what);              \
		*number = (unsigned)n[i];          \
		return NVML_SUCCESS;               \
	}

NUMBER(nvmlDeviceGetRetiredPagesPendingStatus, RETIRE, 0)
NUMBER(nvmlDeviceGetPowerUsage, POWER, 0)
NUMBER(nvmlDeviceGetEnforcedPowerLimit, POWER, 1)

#ifdef NVML_OLD_HEALTH
NVML(nvmlDeviceGetCurrentClocksThrottleReasons, void *handle, unsigned long long *reasons)
#else
NVML(nvmlDeviceGetCurrentClocksEventReasons, void *handle, unsigned long long *reasons)
#endif
{
	HEALTH(handle, SLOW);
	*reasons = n[0];
	return NVML_SUCCESS;
}

#define NUMBER_OF(name, what, i)                              \
	NVML(name, void *handle, int which, unsigned *number) \
	{                                                     \
		HEALTH(handle, what);                         \
		if (which != (what == CLOCK))                 \
			return NVML_INVALID_ARGUMENT;         \
		*number = (unsigned)n[i];                     \
		return NVML_SUCCESS;                          \
	}

NUMBER_OF(nvmlDeviceGetTemperature, CELSIUS, 0)
NUMBER_OF(nvmlDeviceGetClockInfo, CLOCK, 0)
NUMBER_OF(nvmlDeviceGetMaxClockInfo, CLOCK, 1)

struct utilisation {
	unsigned gpu, memory;
};

NVML(nvmlDeviceGetUtilizationRates, void *handle, struct utilisation *utilisation)
{
	HEALTH(handle, BUSY);
	*utilisation = (struct utilisation){ (unsigned)n[0], (unsigned)n[1] };
	return NVML_SUCCESS;
}

#endif
