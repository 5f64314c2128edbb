/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The asker: a small dynamic program that vramtap, which is static, embeds and starts through the
 * machine's own dynamic loader. It opens NVML, answers over one socket, and may hang in the driver:
 * vramtap kills it at its deadline. It needs of the C library only dlopen() and dlsym(), so it runs
 * with any glibc; all else are system calls.
 */
#include <stddef.h>
#include <stdint.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>

#include "vramtap/freestanding.h"
#include "vramtap/usage.h"

#define RTLD_NOW 2
#define EPERM 1

void *dlopen(const char *file, int mode);
void *dlsym(void *handle, const char *name);

void vt_asker_main(void);

/* The compiler makes calls of these. */
void *memset(void *to, int c, size_t n);
void *memset(void *to, int c, size_t n)
{
	vt_bytes_set(to, c, n);
	return to;
}

void *memcpy(void *restrict to, const void *restrict from, size_t n);
void *memcpy(void *restrict to, const void *restrict from, size_t n)
{
	vt_bytes_copy(to, from, n);
	return to;
}

/* ---- fewer rights ---- */

/*
 * NVML needs files, ioctl() and memory. It has no business to start programs (nvidia-modprobe),
 * look into processes, talk to the network or change the file system.
 */
static const uint16_t forbidden[] = {
	SYS_execve,
	SYS_execveat,
	SYS_ptrace,
	SYS_kill,
	SYS_tkill,
	SYS_connect,
	SYS_bind,
	SYS_listen,
	SYS_accept,
	SYS_accept4,
	SYS_socketpair,
	SYS_unlinkat,
	SYS_renameat,
	SYS_renameat2,
	SYS_mknodat,
	SYS_fchmod,
	SYS_fchmodat,
	SYS_fchown,
	SYS_fchownat,
	SYS_linkat,
	SYS_symlinkat,
	SYS_mkdirat,
	SYS_truncate,
	SYS_ftruncate,
	SYS_mount,
	SYS_umount2,
	SYS_setns,
	SYS_unshare,
	SYS_pivot_root,
	SYS_chroot,
	SYS_bpf,
	SYS_keyctl,
	SYS_perf_event_open,
	SYS_reboot,
	SYS_init_module,
	SYS_socket,
	SYS_setxattr,
	SYS_process_vm_readv,
	SYS_finit_module,
	SYS_kexec_load,
	SYS_process_vm_writev,
#ifdef SYS_fork /* newer architectures have no calls that others can stand in for */
	SYS_fork,
	SYS_vfork,
	SYS_unlink,
	SYS_rename,
	SYS_mknod,
	SYS_chmod,
	SYS_chown,
	SYS_lchown,
	SYS_link,
	SYS_symlink,
	SYS_mkdir,
	SYS_rmdir,
#endif
};

#define N_FORBIDDEN (sizeof(forbidden) / sizeof(forbidden[0]))

/* A kernel without filters has none: then only what the parent has taken away is missing. */
static void give_up_calls(void)
{
	struct sock_filter code[N_FORBIDDEN + 6];
	struct sock_fprog program = { .filter = code };
	size_t n = 0;

	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						 offsetof(struct seccomp_data, arch));
	code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, VT_ARCH_AUDIT, 0,
						 N_FORBIDDEN + 3);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						 offsetof(struct seccomp_data, nr));
	code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, VT_ARCH_OTHER_CALLS,
						 N_FORBIDDEN + 1, 0);
	for (size_t i = 0; i < N_FORBIDDEN; i++)
		code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, forbidden[i],
							 (uint8_t)(N_FORBIDDEN - i), 0);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
	program.len = (unsigned short)n;
	vt_sys4(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, (long)&program, 0);
}

/* ---- NVML ---- */

enum {
	NVML_SUCCESS = 0,
	NVML_INSUFFICIENT_SIZE = 7,
	NVML_FUNCTION_NOT_FOUND = 13,
	UUID_SIZE = 80, /* NVML_DEVICE_UUID_V2_BUFFER_SIZE is 96; longer ones are refused */
	MAX_MIG = 7,
};

typedef void *nvml_device;

/* nvmlPciInfo_t: NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE 32 at its end; 80 bytes leave room. */
struct nvml_pci {
	char bus_id_legacy[16];
	unsigned int domain, bus, device, pci_device, pci_subsystem;
	char bus_id[32];
	char spare[32];
};

struct nvml_memory {
	unsigned long long total, free, used;
};

struct nvml_memory_v2 {
	unsigned int version;
	unsigned long long total, reserved, free, used;
};

struct nvml_utilisation {
	unsigned int gpu, memory;
};

/* nvmlMemoryErrorType_t, nvmlEccCounterType_t, nvmlTemperatureSensors_t, nvmlClockType_t */
enum { UNCORRECTED = 1, VOLATILE = 0, AGGREGATE = 1, SENSOR_GPU = 0, CLOCK_SM = 1 };

/*
 * What a process entry may be: version 1 has 16 bytes, 2 and 3 have 24, and version 3 of some
 * drivers of the release 535 has 32.
 */
enum { ENTRY_1 = 16, ENTRY_2 = 24, ENTRY_535 = 32, MAX_ENTRIES = 1024 };
#define NO_INSTANCE 0xffffffffu
#define NOT_AVAILABLE UINT64_MAX
#define FILL 0xa5

typedef int (*list_function)(nvml_device, unsigned int *, void *);

struct list {
	list_function function;
	uint32_t flag;
	unsigned int entry; /* size; 0: ENTRY_2 or ENTRY_535, the answer tells */
};

static struct nvml {
	void *library;
	int (*init)(void);
	int (*count)(unsigned int *);
	int (*by_index)(unsigned int, nvml_device *);
	int (*by_pci)(const char *, nvml_device *);
	int (*uuid)(nvml_device, char *, unsigned int);
	int (*pci)(nvml_device, struct nvml_pci *);
	int (*name)(nvml_device, char *, unsigned int);
	int (*minor)(nvml_device, unsigned int *);
	int (*memory)(nvml_device, struct nvml_memory *);
	int (*memory_v2)(nvml_device, struct nvml_memory_v2 *);
	int (*driver)(char *, unsigned int);
	int (*mig_mode)(nvml_device, unsigned int *, unsigned int *);
	int (*mig_count)(nvml_device, unsigned int *);
	int (*mig_by_index)(nvml_device, unsigned int, nvml_device *);
	int (*mig_gi)(nvml_device, unsigned int *);
	int (*mig_ci)(nvml_device, unsigned int *);
	int (*ecc)(nvml_device, int, int, unsigned long long *);
	int (*remapped)(nvml_device, unsigned int *, unsigned int *, unsigned int *,
			unsigned int *);
	int (*retire_pending)(nvml_device, unsigned int *);
	int (*slow)(nvml_device, unsigned long long *);
	int (*temperature)(nvml_device, int, unsigned int *);
	int (*power)(nvml_device, unsigned int *);
	int (*power_limit)(nvml_device, unsigned int *);
	int (*clock)(nvml_device, int, unsigned int *);
	int (*clock_limit)(nvml_device, int, unsigned int *);
	int (*utilisation)(nvml_device, struct nvml_utilisation *);
	struct list lists[3];
	uint32_t state;
	int32_t error;
	char version[96];
} nvml;

static unsigned char entries[MAX_ENTRIES * ENTRY_535] __attribute__((aligned(16)));

/* Where drivers are that the loader's cache does not name: WSL, NixOS, GKE and its like. */
static const char *const paths[] = {
	"libnvidia-ml.so.1",
	"/usr/lib/wsl/lib/libnvidia-ml.so.1",
	"/run/opengl-driver/lib/libnvidia-ml.so.1",
	"/usr/local/nvidia/lib64/libnvidia-ml.so.1",
	"/home/kubernetes/bin/nvidia/lib64/libnvidia-ml.so.1",
};

static void *find(const char *name, const char *older)
{
	void *function = dlsym(nvml.library, name);

	return function || !older ? function : dlsym(nvml.library, older);
}

static const struct {
	size_t offset;
	const char *name, *older;
	int needed;
} functions[] = {
#define AT(member) offsetof(struct nvml, member)
	{ AT(init), "nvmlInit_v2", "nvmlInit", 1 },
	{ AT(count), "nvmlDeviceGetCount_v2", "nvmlDeviceGetCount", 1 },
	{ AT(by_index), "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex", 1 },
	{ AT(by_pci), "nvmlDeviceGetHandleByPciBusId_v2", "nvmlDeviceGetHandleByPciBusId", 0 },
	{ AT(uuid), "nvmlDeviceGetUUID", NULL, 1 },
	{ AT(pci), "nvmlDeviceGetPciInfo_v3", NULL, 0 },
	{ AT(name), "nvmlDeviceGetName", NULL, 0 },
	{ AT(minor), "nvmlDeviceGetMinorNumber", NULL, 0 },
	{ AT(memory), "nvmlDeviceGetMemoryInfo", NULL, 1 },
	{ AT(memory_v2), "nvmlDeviceGetMemoryInfo_v2", NULL, 0 },
	{ AT(driver), "nvmlSystemGetDriverVersion", NULL, 0 },
	{ AT(mig_mode), "nvmlDeviceGetMigMode", NULL, 0 },
	{ AT(mig_count), "nvmlDeviceGetMaxMigDeviceCount", NULL, 0 },
	{ AT(mig_by_index), "nvmlDeviceGetMigDeviceHandleByIndex", NULL, 0 },
	{ AT(mig_gi), "nvmlDeviceGetGpuInstanceId", NULL, 0 },
	{ AT(mig_ci), "nvmlDeviceGetComputeInstanceId", NULL, 0 },
	{ AT(ecc), "nvmlDeviceGetTotalEccErrors", NULL, 0 },
	{ AT(remapped), "nvmlDeviceGetRemappedRows", NULL, 0 },
	{ AT(retire_pending), "nvmlDeviceGetRetiredPagesPendingStatus", NULL, 0 },
	{ AT(slow), "nvmlDeviceGetCurrentClocksEventReasons",
	  "nvmlDeviceGetCurrentClocksThrottleReasons", 0 },
	{ AT(temperature), "nvmlDeviceGetTemperature", NULL, 0 },
	{ AT(power), "nvmlDeviceGetPowerUsage", NULL, 0 },
	{ AT(power_limit), "nvmlDeviceGetEnforcedPowerLimit", NULL, 0 },
	{ AT(clock), "nvmlDeviceGetClockInfo", NULL, 0 },
	{ AT(clock_limit), "nvmlDeviceGetMaxClockInfo", NULL, 0 },
	{ AT(utilisation), "nvmlDeviceGetUtilizationRates", NULL, 0 },
#undef AT
};

/* The newest first. */
static const struct {
	unsigned int list;
	uint32_t flag;
	const char *name;
	unsigned int entry;
} list_functions[] = {
	{ 0, VT_USAGE_COMPUTE, "nvmlDeviceGetComputeRunningProcesses_v3", 0 },
	{ 0, VT_USAGE_COMPUTE, "nvmlDeviceGetComputeRunningProcesses_v2", ENTRY_2 },
	{ 0, VT_USAGE_COMPUTE, "nvmlDeviceGetComputeRunningProcesses", ENTRY_1 },
	{ 1, VT_USAGE_GRAPHICS, "nvmlDeviceGetGraphicsRunningProcesses_v3", 0 },
	{ 1, VT_USAGE_GRAPHICS, "nvmlDeviceGetGraphicsRunningProcesses_v2", ENTRY_2 },
	{ 1, VT_USAGE_GRAPHICS, "nvmlDeviceGetGraphicsRunningProcesses", ENTRY_1 },
	{ 2, VT_USAGE_MPS, "nvmlDeviceGetMPSComputeRunningProcesses_v3", 0 },
	{ 2, VT_USAGE_MPS, "nvmlDeviceGetMPSComputeRunningProcesses_v2", ENTRY_2 },
	{ 2, VT_USAGE_MPS, "nvmlDeviceGetMPSComputeRunningProcesses", ENTRY_1 },
};

#define N(array) (sizeof(array) / sizeof((array)[0]))

static uint32_t open_library(void)
{
	for (size_t i = 0; i < N(paths) && !nvml.library; i++)
		nvml.library = dlopen(paths[i], RTLD_NOW);
	if (!nvml.library)
		return VT_USAGE_NO_LIBRARY;
	for (size_t i = 0; i < N(functions); i++) {
		void *function = find(functions[i].name, functions[i].older);

		if (!function && functions[i].needed)
			return VT_USAGE_OLD;
		memcpy((char *)&nvml + functions[i].offset, &function, sizeof(function));
	}
	for (size_t i = 0; i < N(list_functions); i++) {
		struct list *list = &nvml.lists[list_functions[i].list];
		void *function = list->function ? NULL : find(list_functions[i].name, NULL);

		if (!function)
			continue;
		memcpy(&list->function, &function, sizeof(function));
		list->flag = list_functions[i].flag;
		list->entry = list_functions[i].entry;
	}
	return nvml.lists[0].function ? VT_USAGE_ANSWERED : VT_USAGE_OLD;
}

static void open_nvml(void)
{
	nvml.state = open_library();
	if (nvml.state)
		return;
	nvml.error = nvml.init();
	if (nvml.error)
		nvml.state = VT_USAGE_FAILED;
	else if (nvml.driver && nvml.driver(nvml.version, sizeof(nvml.version) - 1))
		nvml.version[0] = '\0';
}

/* ---- answers ---- */

static uint32_t number, n_devices;

static _Noreturn void leave(void)
{
	vt_sys2(SYS_exit_group, 0, 0);
	__builtin_unreachable();
}

static uint64_t now_ns(void)
{
	struct {
		int64_t s, ns;
	} now = { 0 };

	vt_sys2(SYS_clock_gettime, 1 /* CLOCK_MONOTONIC */, (long)&now);
	return (uint64_t)now.s * 1000000000u + (uint64_t)now.ns;
}

/* Nobody listens any more: leave. */
static void send(struct vt_usage_record *record)
{
	const char *at = (const char *)record;
	size_t left = sizeof(*record);

	record->number = number;
	while (left) {
		long n = vt_sys6(SYS_sendto, VT_USAGE_SOCKET, (long)at, (long)left,
				 0x4000 /* MSG_NOSIGNAL */, 0, 0);

		if (n == -4 /* EINTR */)
			continue;
		if (n <= 0)
			leave();
		at += n;
		left -= (size_t)n;
	}
}

/* What NVML did not end is no text. */
static void end_text(char *text, size_t size, int error)
{
	if (error)
		text[0] = '\0';
	text[size - 1] = '\0';
}

/*
 * The size of one of n entries: what was written behind the last one that would fit says whether
 * they are longer than the header says.
 */
static unsigned int entry_size(const struct list *list, unsigned int n)
{
	if (list->entry)
		return list->entry;
	for (size_t at = (size_t)n * ENTRY_2; at < (size_t)n * ENTRY_535; at++)
		if (entries[at] != FILL)
			return ENTRY_535;
	return ENTRY_2;
}

static uint32_t word_at(size_t at)
{
	uint32_t value;

	memcpy(&value, entries + at, sizeof(value));
	return value;
}

static void send_process(const struct list *list, unsigned int entry, unsigned int i,
			 uint32_t device)
{
	struct vt_usage_record record = { .kind = VT_USAGE_PROCESS,
					  .device = device,
					  .parent = VT_USAGE_NONE,
					  .minor = VT_USAGE_NONE,
					  .gi = VT_USAGE_NONE,
					  .ci = VT_USAGE_NONE,
					  .flags = list->flag };
	size_t at = (size_t)i * entry;

	record.pid = word_at(at);
	memcpy(&record.bytes, entries + at + 8, sizeof(record.bytes));
	if (record.bytes != NOT_AVAILABLE)
		record.flags |= VT_USAGE_HAS_BYTES;
	else
		record.bytes = 0;
	if (entry > ENTRY_1) {
		record.gi = word_at(at + 16);
		record.ci = word_at(at + 20);
	}
	send(&record);
}

/* All three lists; the first one counts. Nobody has graphics or MPS in most places. */
static int list_processes(const struct list *list, nvml_device handle, unsigned int *n)
{
	memset(entries, FILL, sizeof(entries));
	*n = MAX_ENTRIES;

	int error = list->function(handle, n, entries);

	if (!error && *n > MAX_ENTRIES)
		error = NVML_INSUFFICIENT_SIZE;
	return error;
}

/* n: of the first list, which entries has. */
static void send_processes(nvml_device handle, uint32_t device, unsigned int n)
{
	for (size_t l = 0; l < N(nvml.lists); l++) {
		const struct list *list = &nvml.lists[l];
		unsigned int entry;

		if (l && (!list->function || list_processes(list, handle, &n)))
			continue;
		entry = entry_size(list, n);
		for (unsigned int i = 0; i < n; i++)
			send_process(list, entry, i, device);
	}
}

static void read_memory(nvml_device handle, struct vt_usage_record *record)
{
	struct nvml_memory_v2 v2 = { .version = sizeof(v2) | 2u << 24 };
	struct nvml_memory v1 = { 0 };

	record->error = nvml.memory_v2 ? nvml.memory_v2(handle, &v2) : NVML_FUNCTION_NOT_FOUND;
	if (!record->error) {
		record->total_bytes = v2.total;
		record->used_bytes = v2.used;
		record->reserved_bytes = v2.reserved;
		record->flags |= VT_USAGE_HAS_MEMORY | VT_USAGE_HAS_RESERVED;
		return;
	}
	record->error = nvml.memory(handle, &v1);
	if (record->error)
		return;
	record->total_bytes = v1.total;
	record->used_bytes = v1.used; /* with what is reserved */
	record->flags |= VT_USAGE_HAS_MEMORY;
}

static void read_identity(nvml_device handle, struct vt_usage_record *record)
{
	struct nvml_pci pci = { .bus_id = "" };
	unsigned int minor;

	end_text(record->uuid, sizeof(record->uuid), nvml.uuid(handle, record->uuid, UUID_SIZE));
	if (nvml.pci && !nvml.pci(handle, &pci)) {
		memcpy(record->pci, pci.bus_id, sizeof(record->pci));
		record->pci[sizeof(record->pci) - 1] = '\0';
	}
	if (nvml.name)
		end_text(record->name, sizeof(record->name),
			 nvml.name(handle, record->name, sizeof(record->name)));
	if (nvml.minor && !nvml.minor(handle, &minor))
		record->minor = minor;
}

/* Each function may be missing, and each device may not know the answer. */
static void read_memory_health(nvml_device handle, struct vt_usage_health *h)
{
	unsigned long long errors;
	unsigned int corrected, uncorrected, pending, failed;

	if (nvml.ecc && !nvml.ecc(handle, UNCORRECTED, VOLATILE, &errors)) {
		h->ecc_now = errors;
		h->known |= VT_HEALTH_ECC_NOW;
	}
	if (nvml.ecc && !nvml.ecc(handle, UNCORRECTED, AGGREGATE, &errors)) {
		h->ecc_ever = errors;
		h->known |= VT_HEALTH_ECC_EVER;
	}
	if (nvml.remapped && !nvml.remapped(handle, &corrected, &uncorrected, &pending, &failed)) {
		h->rows_remapped = uncorrected;
		h->remap_pending = pending;
		h->remap_failed = failed;
		h->known |= VT_HEALTH_REMAPPED;
	}
	if (nvml.retire_pending && !nvml.retire_pending(handle, &h->retire_pending))
		h->known |= VT_HEALTH_RETIRED;
}

/* These take 1 and 2 ms (H100, 580.159.04), all else together 4 ms. */
static void read_limits(nvml_device handle, struct vt_usage_health *h)
{
	if (nvml.power_limit && !nvml.power_limit(handle, &h->milliwatt_limit))
		h->known |= VT_HEALTH_POWER_LIMIT;
	if (nvml.clock_limit && !nvml.clock_limit(handle, CLOCK_SM, &h->sm_mhz_limit))
		h->known |= VT_HEALTH_CLOCK_LIMIT;
}

static void read_load(nvml_device handle, struct vt_usage_health *h)
{
	struct nvml_utilisation utilisation;
	unsigned long long slow;

	if (nvml.slow && !nvml.slow(handle, &slow)) {
		h->slow = slow;
		h->known |= VT_HEALTH_SLOW;
	}
	if (nvml.temperature && !nvml.temperature(handle, SENSOR_GPU, &h->celsius))
		h->known |= VT_HEALTH_TEMPERATURE;
	if (nvml.power && !nvml.power(handle, &h->milliwatt))
		h->known |= VT_HEALTH_POWER;
	if (nvml.clock && !nvml.clock(handle, CLOCK_SM, &h->sm_mhz))
		h->known |= VT_HEALTH_CLOCK;
	if (nvml.utilisation && !nvml.utilisation(handle, &utilisation)) {
		h->busy_percent = utilisation.gpu;
		h->memory_busy_percent = utilisation.memory;
		h->known |= VT_HEALTH_UTILISATION;
	}
}

/* Devices that are whole, with their numbers, in the last answer. */
static struct {
	nvml_device handle;
	uint32_t device;
} asked[VT_USAGE_MAX_DEVICES];
static unsigned int n_asked;

static void send_health(void)
{
	for (unsigned int i = 0; i < n_asked; i++) {
		struct vt_usage_record record = { .kind = VT_USAGE_HEALTH,
						  .device = asked[i].device };

		end_text(record.uuid, sizeof(record.uuid),
			 nvml.uuid(asked[i].handle, record.uuid, UUID_SIZE));
		read_memory_health(asked[i].handle, &record.health);
		read_load(asked[i].handle, &record.health);
		if (record.health.slow & VT_SLOW_BY_HARDWARE)
			read_limits(asked[i].handle, &record.health);
		send(&record);
	}
}

/* The processes of a divided device are told of its instances, as far as those may be seen. */
static uint32_t send_device(nvml_device handle, uint32_t parent, uint32_t flags)
{
	struct vt_usage_record record = { .kind = VT_USAGE_DEVICE,
					  .device = n_devices,
					  .parent = parent,
					  .minor = VT_USAGE_NONE,
					  .gi = VT_USAGE_NONE,
					  .ci = VT_USAGE_NONE,
					  .flags = flags };
	unsigned int n = 0;

	read_identity(handle, &record);
	if (flags & VT_USAGE_IS_MIG) {
		if (!nvml.mig_gi || nvml.mig_gi(handle, &record.gi))
			record.gi = VT_USAGE_NONE;
		if (!nvml.mig_ci || nvml.mig_ci(handle, &record.ci))
			record.ci = VT_USAGE_NONE;
	}
	read_memory(handle, &record);
	if (!(flags & VT_USAGE_MIG_MODE)) {
		record.processes_error = list_processes(&nvml.lists[0], handle, &n);
		if (!record.processes_error)
			record.flags |= VT_USAGE_HAS_PROCESSES;
	}
	send(&record);
	if (record.flags & VT_USAGE_HAS_PROCESSES)
		send_processes(handle, n_devices, n);
	return n_devices++;
}

static void send_instances(nvml_device handle, uint32_t parent)
{
	unsigned int n = 0;

	if (!nvml.mig_count || !nvml.mig_by_index || nvml.mig_count(handle, &n))
		return;
	for (unsigned int i = 0; i < n && i < MAX_MIG; i++) {
		nvml_device instance;

		if (n_devices < VT_USAGE_MAX_DEVICES && !nvml.mig_by_index(handle, i, &instance))
			send_device(instance, parent, VT_USAGE_IS_MIG);
	}
}

static void send_whole(nvml_device handle)
{
	unsigned int current = 0, pending = 0;
	uint32_t device;

	if (n_devices >= VT_USAGE_MAX_DEVICES)
		return;
	asked[n_asked].handle = handle;
	asked[n_asked++].device = n_devices;
	if (!nvml.mig_mode || nvml.mig_mode(handle, &current, &pending) || current != 1) {
		send_device(handle, VT_USAGE_NONE, 0);
		return;
	}
	device = send_device(handle, VT_USAGE_NONE, VT_USAGE_MIG_MODE);
	send_instances(handle, device);
}

/* One that cannot be asked: any process may be on it. */
static void send_lost(int error)
{
	struct vt_usage_record record = { .kind = VT_USAGE_DEVICE,
					  .device = n_devices,
					  .parent = VT_USAGE_NONE,
					  .minor = VT_USAGE_NONE,
					  .gi = VT_USAGE_NONE,
					  .ci = VT_USAGE_NONE,
					  .error = error,
					  .processes_error = error };

	if (n_devices >= VT_USAGE_MAX_DEVICES)
		return;
	send(&record);
	n_devices++;
}

static int32_t send_devices(struct vt_usage_request *request)
{
	unsigned int n = 0;
	nvml_device handle;
	int error;

	if (request->n_wanted && request->n_wanted <= VT_USAGE_MAX_WANTED && nvml.by_pci) {
		for (uint32_t i = 0; i < request->n_wanted; i++) {
			request->wanted[i][sizeof(request->wanted[i]) - 1] = '\0';
			error = nvml.by_pci(request->wanted[i], &handle);
			if (error)
				send_lost(error);
			else
				send_whole(handle);
		}
		return 0;
	}
	error = nvml.count(&n);
	for (unsigned int i = 0; i < n && !error; i++) {
		int lost = nvml.by_index(i, &handle);

		if (lost)
			send_lost(lost);
		else
			send_whole(handle);
	}
	return error;
}

static int receive(struct vt_usage_request *request)
{
	size_t n = 0;

	while (n < sizeof(*request)) {
		long got = vt_sys4(SYS_read, VT_USAGE_SOCKET, (long)((char *)request + n),
				   (long)(sizeof(*request) - n), 0);

		if (got == -4 /* EINTR */)
			continue;
		if (got <= 0)
			return 0;
		n += (size_t)got;
	}
	return request->magic == VT_USAGE_MAGIC;
}

static void answer(struct vt_usage_request *request)
{
	struct vt_usage_record record = {
		.kind = VT_USAGE_STATE, .state = nvml.state, .error = nvml.error, .at_ns = now_ns()
	};

	number = request->number;
	n_devices = n_asked = 0;
	memcpy(record.name, nvml.version, sizeof(record.name));
	send(&record);
	record = (struct vt_usage_record){ .kind = VT_USAGE_END };
	if (!nvml.state)
		record.error = send_devices(request);
	record.at_ns = now_ns();
	send(&record);
	if (request->want_health)
		send_health();
}

void vt_asker_main(void)
{
	static struct vt_usage_request request;

	vt_sys2(SYS_close, 4, 0);
	give_up_calls();
	open_nvml();
	while (receive(&request))
		answer(&request);
	leave();
}

VT_ARCH_START(vt_asker_main);
