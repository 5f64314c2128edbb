/* SPDX-License-Identifier: Apache-2.0 */
/* Puts the parts of the page into the template. */
#include "report/html/html.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "report/html/escape.h"
#include "report/html/parts.h"
#include "report/html/words.h"

struct page {
	const struct vt_html_page *what;
	const struct vt_writer_options *options;
	char nonce[33]; /* no text of a target can know it */
	FILE *out;
	int errnum; /* of the first write that failed; 0 none did */
};

/* Right after writing: later calls may change errno. */
static void note_failure(struct page *page)
{
	if (!page->errnum && ferror(page->out))
		page->errnum = errno ? errno : EIO;
}

/* Texts of the target cannot be scripts: those need a number that nobody can guess. */
static void choose_nonce(char nonce[33])
{
	uint64_t random[2];

	if (getrandom(random, sizeof(random), GRND_NONBLOCK) != sizeof(random)) {
		random[0] = vt_now_ns();
		random[1] = (uintptr_t)nonce;
	}
	snprintf(nonce, 33, "%016llx%016llx", (unsigned long long)random[0],
		 (unsigned long long)random[1]);
}

static struct vt_error *put_title(struct page *page)
{
	vt_html_escape(page->what->title ? page->what->title : "vramtap", page->out);
	return NULL;
}

static struct vt_error *put_nonce(struct page *page)
{
	fputs(page->nonce, page->out);
	return NULL;
}

static struct vt_error *put_styles(struct page *page)
{
	vt_html_put_part(&vt_html_style, page->out);
	return NULL;
}

static struct vt_error *put_scripts(struct page *page)
{
	for (size_t i = 0; i < vt_html_n_scripts; i++)
		vt_html_put_part(&vt_html_scripts[i], page->out);
	return NULL;
}

static struct vt_error *put_document(struct page *page, const struct vt_html_document *document)
{
	VT_FCLOSE FILE *safe = NULL;
	struct vt_error *err;

	fputs("<script type=\"application/json\" class=\"vramtap-document\" data-name=\"",
	      page->out);
	if (document->name)
		vt_html_escape(document->name, page->out);
	fputs("\">", page->out);
	safe = vt_html_open_script(page->out);
	if (!safe)
		return &vt_enomem;
	err = document->write(document->what, page->options, safe);
	if (!err && fflush(safe))
		err = vt_error_create_os(errno, "cannot write the page");
	if (!err)
		fputs("</script>\n", page->out);
	return err;
}

static struct vt_error *put_words(struct page *page)
{
	VT_FCLOSE FILE *safe = vt_html_open_script(page->out);

	return safe ? vt_html_write_words(safe) : &vt_enomem;
}

static struct vt_error *put_attachment(struct page *page, const struct vt_html_attachment *one)
{
	VT_FCLOSE FILE *safe = NULL;

	fprintf(page->out,
		"<script type=\"application/json\" class=\"vramtap-attachment\" data-of=\"%" PRIu32
		"\">",
		one->of);
	safe = vt_html_open_script(page->out);
	if (!safe)
		return &vt_enomem;
	if (fwrite(one->text, 1, one->n, safe) != one->n || fflush(safe))
		return vt_error_create_os(errno, "cannot write the page");
	fputs("</script>\n", page->out);
	return NULL;
}

static struct vt_error *put_documents(struct page *page)
{
	for (size_t i = 0; i < page->what->n; i++)
		VT_TRY(put_document(page, &page->what->documents[i]));
	for (size_t i = 0; i < page->what->n_attachments; i++)
		VT_TRY(put_attachment(page, &page->what->attachments[i]));
	return NULL;
}

static const struct {
	const char *name;
	struct vt_error *(*put)(struct page *page);
} holes[] = {
	{ "words", put_words },   { "title", put_title },     { "nonce", put_nonce },
	{ "styles", put_styles }, { "scripts", put_scripts }, { "documents", put_documents },
};

static struct vt_error *put_hole(struct page *page, const char *name, size_t n)
{
	for (size_t i = 0; i < sizeof(holes) / sizeof(holes[0]); i++)
		if (strlen(holes[i].name) == n && !memcmp(holes[i].name, name, n))
			return holes[i].put(page);
	return vt_error_create(VT_ERR_OS, "the page's template names an unknown part");
}

struct vt_error *vt_write_page_html(const void *what, const struct vt_writer_options *options,
				    FILE *out)
{
	struct page page = { .what = what, .options = options, .out = out };
	const char *at = vt_html_template.begin, *end = vt_html_template.end;

	choose_nonce(page.nonce);
	errno = 0;
	while (at < end) {
		const char *open = memmem(at, (size_t)(end - at), "{{", 2);
		const char *close = open ? memmem(open, (size_t)(end - open), "}}", 2) : NULL;

		if (!close)
			break;
		fwrite(at, 1, (size_t)(open - at), out);
		note_failure(&page);
		VT_TRY(put_hole(&page, open + 2, (size_t)(close - open - 2)));
		note_failure(&page);
		at = close + 2;
	}
	fwrite(at, 1, (size_t)(end - at), out);
	if (fflush(out) && !page.errnum)
		page.errnum = errno;
	note_failure(&page);
	return page.errnum ? vt_error_create_os(page.errnum, "cannot write the page") : NULL;
}
