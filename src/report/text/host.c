/* SPDX-License-Identifier: Apache-2.0 */
/* Pinned and shared memory of the host, in a sentence. */
#include <stdarg.h>
#include <stdio.h>

#include "base/format.h"
#include "report/text/text.h"

__attribute__((format(printf, 3, 4))) static void add(struct vt_str *text, const char *before,
						      const char *format, ...)
{
	va_list args;

	vt_str_add(text, text->n ? before : "");
	va_start(args, format);
	vt_str_vaddf(text, format, args);
	va_end(args);
}

/* "PyTorch 4.20 GiB, of which 1.10 GiB not in use; XLA 800 MiB; 1.00 MiB unattributed" */
static void add_owners(struct vt_str *text, const struct vt_model_host *host)
{
	char size[VT_NUM_MAX];

	if (host->torch_bytes)
		add(text, "; ", "PyTorch %s", vt_format_size(size, host->torch_bytes));
	if (host->torch_bytes && host->torch_unused_known && host->torch_unused_bytes)
		vt_str_addf(text, ", of which %s not in use",
			    vt_format_size(size, host->torch_unused_bytes));
	for (unsigned int i = 0; i < VT_N_LIBPOOL_KINDS; i++)
		if (host->libpool_bytes[i])
			add(text, "; ", "%s %s", vt_libpool_library(i),
			    vt_format_size(size, host->libpool_bytes[i]));
	if (host->unattributed_bytes)
		add(text, "; ", "unattributed %s", vt_format_size(size, host->unattributed_bytes));
}

static void add_pinned(struct vt_str *text, const struct vt_model_host *host)
{
	struct vt_str owners = { 0 };
	char size[VT_NUM_MAX];

	if (!host->pinned_bytes)
		return;
	add_owners(&owners, host);
	vt_str_addf(text, "%s%s pinned (%s)", host->pinned_listed ? "" : "at least ",
		    vt_format_size(size, host->pinned_bytes), vt_str_get(&owners));
	text->failed |= owners.failed;
	vt_str_deinit(&owners);
}

static void add_shared(struct vt_str *text, const struct vt_model_host *host)
{
	uint64_t bytes = vt_host_shared_bytes(host);
	char size[VT_NUM_MAX], count[VT_NUM_MAX];

	if (!host->shared_files)
		return;
	add(text, "; ", "%s%s of shared memory",
	    !host->shared_whole && host->shared_mapped ? "about " :
	    !host->shared_whole                        ? "at least " :
	    host->shared_mapped                        ? "up to " :
							 "",
	    vt_format_size(size, bytes));
	if (host->shared_processes)
		vt_str_addf(text, " with %s child process%s",
			    vt_format_count(count, host->shared_processes),
			    host->shared_processes == 1 ? "" : "es");
	if (host->shared_bytes[VT_SHARED_TORCH] && host->shared_bytes[VT_SHARED_TORCH] != bytes)
		vt_str_addf(text, " (PyTorch's tensors %s)",
			    vt_format_size(size, host->shared_bytes[VT_SHARED_TORCH]));
}

void vt_text_host(struct vt_line *line, const struct vt_model *model)
{
	const struct vt_model_host *host = &model->host;
	bool full = vt_host_shm_is_full(host);
	char share[VT_NUM_MAX], total[VT_NUM_MAX];
	struct vt_str text = { 0 };

	add_pinned(&text, host);
	add_shared(&text, host);
	if (host->shm_known && (host->shared_files || full))
		add(&text, host->shared_files ? ", " : "; ", "/dev/shm of %s is %s full",
		    vt_format_size(total, host->shm_total_bytes),
		    vt_format_share(share, host->shm_used_bytes, host->shm_total_bytes));
	if (text.n) {
		vt_line_blank(line);
		vt_line_add(line, VT_BOLD, "Host memory");
		vt_line_pad(line, line->want + 2);
		vt_line_wrap(line, full ? VT_WARN : VT_PLAIN, vt_str_get(&text), 4, 4);
	}
	line->buf.failed |= text.failed;
	vt_str_deinit(&text);
}
