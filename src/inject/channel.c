/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything from the target is hostile here. The descriptor that it names is only used when it is
 * a memory file, and that file can no longer shrink once it is mapped here (a mapping whose file
 * shrinks kills its reader).
 */
#include "inject/channel.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"

#define POLL_NS (50 * VT_NS_PER_US)

/* The stages of the control page */

static struct vt_error *stub_failed(const struct vt_channel *channel,
				    const struct vt_stub_block *block)
{
	int errnum = (int)block->failed_errno;
	int pid = (int)channel->pid;

	if (errnum < 0)
		return vt_error_create_os(-errnum, "process %d could not start a thread", pid);
	return vt_error_create_os(errnum, "process %d could not map 256 KiB of memory", pid);
}

/* What the helper's thread reports instead of going on; NULL for states that are not failures. */
static struct vt_error *thread_failed(const struct vt_channel *channel,
				      const struct vt_stub_control *control)
{
	int pid = (int)channel->pid;

	switch (control->state) {
	case VT_STUB_NO_FILE:
		return vt_error_create_os(control->error,
					  "process %d could not create a memory file", pid);
	case VT_STUB_NO_MAP:
		return vt_error_create_os(control->error, "process %d could not map the helper",
					  pid);
	case VT_STUB_GAVE_UP:
		return vt_error_create(
			VT_ERR_TIMEOUT,
			"the helper in process %d ended before it was given its library", pid);
	default:
		return NULL;
	}
}

static void send_command(const struct vt_channel *channel, uint32_t command)
{
	vt_error_destroy(vt_live_write(
		channel->live, channel->control->region + offsetof(struct vt_stub_control, command),
		&command, sizeof(command)));
}

/* Reads the control page. VT_ERR_NOTFOUND while it does not exist. */
static struct vt_error *read_control(const struct vt_channel *channel,
				     struct vt_stub_control *control)
{
	struct vt_memsrc *src = vt_live_source(channel->live);
	struct vt_stub_block block;
	int ret = vt_mem_read(src, channel->control->region, control, sizeof(*control));

	if (!ret && control->nonce == channel->control->nonce) {
		struct vt_error *err = thread_failed(channel, control);

		if (err)
			send_command(channel, VT_STUB_SEEN);
		return err;
	}
	if (ret && ret != -EFAULT)
		return vt_mem_error(src, ret, "the helper's control page");
	/*
	 * No page: either not yet, or the stub failed and left the reason on the stack, where it
	 * will soon be overwritten.
	 */
	if (!vt_mem_read(src, channel->block, &block, sizeof(block)) &&
	    block.failed_nonce == channel->control->nonce)
		return stub_failed(channel, &block);
	return vt_error_create(VT_ERR_NOTFOUND, "no control page");
}

static struct vt_error *wait_until_ready(const struct vt_channel *channel, uint64_t deadline,
					 struct vt_stub_control *control)
{
	for (;;) {
		struct vt_error *err = read_control(channel, control);

		if (!err && control->state == VT_STUB_READY)
			return NULL;
		if (err && !vt_error_catch(&err, VT_ERR_NOTFOUND))
			return err;
		if (vt_deadline_passed(deadline))
			return vt_error_create(
				VT_ERR_TIMEOUT,
				"the thread of process %d did not start the helper in time",
				(int)channel->pid);
		vt_sleep_ns(POLL_NS);
	}
}

/* The memory file */

/*
 * All memory files are on one internal file system of the kernel, which has nothing else that can
 * be opened.
 */
static bool is_memory_file(int fd)
{
	VT_CLOSE int own = memfd_create("vramtap", MFD_CLOEXEC);
	struct stat ours, theirs;

	return own >= 0 && !fstat(own, &ours) && !fstat(fd, &theirs) && S_ISREG(theirs.st_mode) &&
	       theirs.st_dev == ours.st_dev;
}

/*
 * Whether the process, in its own pid namespace, numbers this thread tid. (The file escapes a
 * newline in a name. The lists of groups make the file longer than any buffer, so it is read by
 * lines.)
 */
static bool is_named(int task, const char *entry, int tid)
{
	static const char tag[] = "NSpid:\t";
	char path[64];

	snprintf(path, sizeof(path), "%.20s/status", entry);

	int fd = openat(task, path, O_RDONLY | O_CLOEXEC);
	VT_FCLOSE FILE *fp = fd < 0 ? NULL : fdopen(fd, "r");
	VT_FREE char *line = NULL;
	size_t size = 0;

	if (!fp) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	while (getline(&line, &size, fp) > 0)
		/* The last number belongs to the innermost namespace. */
		if (!strncmp(line, tag, sizeof(tag) - 1))
			return strtol(strrchr(line, '\t') + 1, NULL, 10) == tid;
	return strtol(entry, NULL, 10) == tid; /* Linux before 4.1 does not tell */
}

pid_t vt_channel_find_thread(pid_t pid, int tid)
{
	const struct dirent *entry;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);

	VT_CLOSEDIR DIR *dir = opendir(path);

	if (!dir)
		return 0;
	snprintf(path, sizeof(path), "%d", tid);
	if (is_named(dirfd(dir), path, tid))
		return tid;
	while ((entry = readdir(dir)))
		if (entry->d_name[0] != '.' && is_named(dirfd(dir), entry->d_name, tid))
			return (pid_t)strtol(entry->d_name, NULL, 10);
	return 0;
}

/*
 * Opening a file can have side effects (devices, FIFOs), and the target could name any descriptor.
 * So the file is first opened without side effects and checked.
 */
static struct vt_error *open_file(const struct vt_channel *channel,
				  const struct vt_stub_control *control, int *ret_fd)
{
	int pid = (int)channel->pid;
	char path[64];

	/* A thread that is not found yields 0, which has no descriptors. */
	snprintf(path, sizeof(path), "/proc/%d/task/%d/fd/%d", pid,
		 (int)vt_channel_find_thread(channel->pid, control->file_tid), control->fd);

	VT_CLOSE int peek = open(path, O_PATH | O_CLOEXEC);

	if (peek < 0 && errno == ENOENT)
		return vt_error_create(VT_ERR_GONE, "the helper in process %d ended too early",
				       (int)channel->pid);
	if (peek < 0)
		return vt_error_create_os(errno, "cannot open the memory file of process %d",
					  (int)channel->pid);
	if (!is_memory_file(peek))
		return vt_error_create(VT_ERR_FORMAT,
				       "process %d named a file that is not a memory file",
				       (int)channel->pid);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", peek);

	int fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return vt_error_create_os(errno, "cannot open the memory file of process %d",
					  (int)channel->pid);
	*ret_fd = fd;
	return NULL;
}

static struct vt_error *write_image(const struct vt_channel *channel, int fd)
{
	const struct vt_helper_image *image = channel->image;
	size_t size = image->text_size + image->data_size;
	VT_FREE uint8_t *buf = calloc(1, size);

	if (!buf)
		return &vt_enomem;
	VT_TRY(vt_helper_image_build(image, channel->control->pieces[VT_PIECE_TEXT].addr, buf));
	for (size_t done = 0; done < size;) {
		ssize_t n = pwrite(fd, buf + done, size - done, (off_t)done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return vt_error_create_os(n ? errno : ENOSPC,
						  "cannot write the helper's memory file");
		done += (size_t)n;
		vt_fault_point("inject.memfd-writing");
	}
	return NULL;
}

/*
 * Makes the file as large as it must be. The pages are allocated here and now, so that they count
 * as this tool's memory. The target may be close to the limit of its control group.
 */
static struct vt_error *size_file(const struct vt_channel *channel, int fd, uint64_t size)
{
	/* The progress timer may interrupt either; fallocate() is not restarted by SA_RESTART. */
	if (TEMP_FAILURE_RETRY(ftruncate(fd, (off_t)size)) ||
	    TEMP_FAILURE_RETRY(fallocate(fd, 0, 0, (off_t)size)))
		return vt_error_create_os(errno,
					  "cannot resize the memory file of process %d to %llu KiB",
					  (int)channel->pid, (unsigned long long)(size >> 10));
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK))
		return vt_error_create_os(errno, "cannot seal the memory file of process %d",
					  (int)channel->pid);
	return NULL;
}

static struct vt_error *map_session(const struct vt_channel *channel, int fd, uint64_t offset,
				    struct vt_helper_shared **ret)
{
	struct stat st;

	/* After the seal: it can no longer shrink. */
	if (fstat(fd, &st) || (uint64_t)st.st_size < offset + channel->file_size)
		return vt_error_create(VT_ERR_FORMAT, "the memory file of process %d was changed",
				       (int)channel->pid);

	struct vt_helper_shared *shared = mmap(NULL, channel->file_size, PROT_READ | PROT_WRITE,
					       MAP_SHARED, fd, (off_t)offset);

	if (shared == MAP_FAILED)
		return vt_error_create_os(errno, "cannot map the memory file of process %d",
					  (int)channel->pid);
	*ret = shared;
	return NULL;
}

static struct vt_error *wait_until_running(const struct vt_channel *channel, uint64_t deadline,
					   const struct vt_helper_shared *shared,
					   struct vt_stub_control *control)
{
	for (;;) {
		/*
		 * The page is unmapped only after the library has ended: if it cannot be read, the
		 * helper has ended.
		 */
		struct vt_error *err = read_control(channel, control);

		if (err && err->code == VT_ERR_NOTFOUND) {
			vt_error_destroy(err);
			return vt_error_create(VT_ERR_GONE,
					       "the helper in process %d ended too early",
					       (int)channel->pid);
		}
		if (err)
			return err;
		if (__atomic_load_n(&shared->magic, __ATOMIC_ACQUIRE) == VT_HELPER_MAGIC &&
		    control->borrower_done)
			return NULL;
		if (vt_deadline_passed(deadline))
			return vt_error_create(VT_ERR_TIMEOUT,
					       "the helper in process %d did not answer in time",
					       (int)channel->pid);
		vt_sleep_ns(POLL_NS);
	}
}

/* Gives the waiting helper's thread the code to run; after that the session is mapped. */
static struct vt_error *deliver(const struct vt_channel *channel,
				const struct vt_stub_control *control, uint64_t offset, int *ret_fd,
				struct vt_helper_shared **ret)
{
	VT_CLOSE int fd = -1;

	VT_TRY(open_file(channel, control, &fd));
	VT_TRY(size_file(channel, fd, offset + channel->file_size));
	VT_TRY(write_image(channel, fd));
	VT_TRY(map_session(channel, fd, offset, ret));
	(*ret)->file_size = channel->file_size;
	(*ret)->patience_ns = channel->control->patience_ns;
	(*ret)->heartbeat_ns = vt_now_ns();
	*ret_fd = vt_steal_fd(fd);
	return NULL;
}

struct vt_error *vt_channel_open(const struct vt_channel *channel, uint64_t budget_ns,
				 struct vt_channel_result *result)
{
	uint64_t offset = channel->image->text_size + channel->image->data_size;
	struct vt_helper_shared *shared;
	struct vt_stub_control control;
	struct vt_error *err;
	VT_CLOSE int fd = -1;

	VT_TRY(wait_until_ready(channel, vt_now_ns() + budget_ns, &control));
	err = deliver(channel, &control, offset, &fd, &shared);
	if (err) {
		send_command(channel, VT_STUB_CLOSED);
		return err;
	}
	vt_fault_point("inject.ready-to-go");
	send_command(channel, VT_STUB_GO);
	vt_fault_point("inject.go");
	err = wait_until_running(channel, vt_now_ns() + budget_ns, shared, &control);
	if (err) {
		/* If the helper starts after all, it ends at once. */
		shared->patience_ns = 0;
		shared->heartbeat_ns = 0;
		munmap(shared, channel->file_size);
		return err;
	}
	vt_fault_point("inject.mapped");
	*result = (struct vt_channel_result){
		.fd = vt_steal_fd(fd),
		.shared = shared,
		.offset = offset,
		.end_ns = control.end_ns,
	};
	return NULL;
}
