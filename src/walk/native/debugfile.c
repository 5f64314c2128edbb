/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of debug files come from the target's files, and what lies there may be anything: a
 * candidate counts only when it is a regular ELF file with the right build id or checksum.
 */
#include "walk/native/debugfile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/cleanup.h"
#include "base/regular.h"
#include "walk/native/debuginfod.h"

#define DEBUG_DIRECTORY "/usr/lib/debug"
#define MAX_LINK 1024
/*
 * Reading this much for a checksum takes about a tenth of a second. Files with a build id need
 * none.
 */
#define MAX_CHECKSUMMED (UINT64_C(128) * 1024 * 1024)
#define READ_SIZE (64u * 1024)

/* What makes a candidate the right one. */
struct wish {
	const uint8_t *build_id;
	size_t build_id_len; /* 0: by checksum */
	uint32_t checksum;
};

static bool has_checksum(const struct vt_symfile *file, uint32_t wanted)
{
	VT_FREE uint8_t *piece = malloc(READ_SIZE);
	uint32_t sum = 0;

	if (!piece || file->size > MAX_CHECKSUMMED)
		return false;
	for (uint64_t at = 0; at < file->size;) {
		size_t n = file->size - at < READ_SIZE ? (size_t)(file->size - at) : READ_SIZE;

		if (!vt_symfile_read(file, at, piece, n))
			return false;
		sum = (uint32_t)crc32(sum, piece, (uInt)n);
		at += n;
	}
	return sum == wanted;
}

static bool has_build_id(const struct vt_symfile *file, const struct wish *wish)
{
	const Elf64_Shdr *section = vt_symfile_named(file, ".note.gnu.build-id");
	uint8_t note[sizeof(Elf64_Nhdr) + sizeof(ELF_NOTE_GNU) + VT_BUILD_ID_MAX];
	size_t size = sizeof(Elf64_Nhdr) + sizeof(ELF_NOTE_GNU) + wish->build_id_len;
	Elf64_Nhdr header;

	if (!section || section->sh_type != SHT_NOTE || section->sh_size < size ||
	    size > sizeof(note) || !vt_symfile_read(file, section->sh_offset, note, size))
		return false;
	memcpy(&header, note, sizeof(header));
	return header.n_type == NT_GNU_BUILD_ID && header.n_namesz == sizeof(ELF_NOTE_GNU) &&
	       header.n_descsz == wish->build_id_len &&
	       !memcmp(note + sizeof(header), ELF_NOTE_GNU, sizeof(ELF_NOTE_GNU)) &&
	       !memcmp(note + sizeof(header) + sizeof(ELF_NOTE_GNU), wish->build_id,
		       wish->build_id_len);
}

/* A stripped file in the place of its own debug file (same name, same build id) is none. */
static bool has_debug_data(const struct vt_symfile *file)
{
	return vt_symfile_section(file, SHT_SYMTAB) || vt_symfile_named(file, ".debug_info") ||
	       vt_symfile_named(file, ".debug_str");
}

/* Takes fd and path over. */
static bool try_file(int candidate, char *path, const struct wish *wish, struct vt_debugfile *found)
{
	VT_CLOSE int fd = candidate;
	struct stat st;
	bool right = false;

	if (path && fd >= 0 && !fstat(fd, &st) && st.st_size > 0) {
		struct vt_symfile file = { .fd = fd, .size = (uint64_t)st.st_size };

		right = vt_symfile_init(&file) && has_debug_data(&file) &&
			(wish->build_id_len ? has_build_id(&file, wish) :
					      has_checksum(&file, wish->checksum));
		vt_symfile_deinit(&file);
	}
	if (right)
		*found = (struct vt_debugfile){ .fd = vt_steal_fd(fd),
						.size = (uint64_t)st.st_size,
						.path = path };
	else
		free(path);
	return right;
}

/* In which root: the target's, then ours (NULL). */
#define N_ROOTS 2

static struct vt_files *root_of(const struct vt_modules *modules, size_t i)
{
	return i == 0 ? modules->files : NULL;
}

__attribute__((format(printf, 4, 5))) static bool try_path(struct vt_files *root,
							   const struct wish *wish,
							   struct vt_debugfile *found,
							   const char *format, ...)
{
	va_list args;
	char *path;
	int len;

	va_start(args, format);
	len = vasprintf(&path, format, args);
	va_end(args);
	return len >= 0 && try_file(root ? root->ops->open(root, path) : vt_open_regular(path),
				    path, wish, found);
}

static bool find_by_build_id(struct vt_files *root, const struct wish *wish,
			     struct vt_debugfile *found)
{
	char hex[2 * VT_BUILD_ID_MAX + 1];

	if (wish->build_id_len < 2 || wish->build_id_len > VT_BUILD_ID_MAX)
		return false;
	for (size_t i = 0; i < wish->build_id_len; i++)
		snprintf(hex + 2 * i, 3, "%02x", wish->build_id[i]);
	return try_path(root, wish, found, DEBUG_DIRECTORY "/.build-id/%.2s/%s.debug", hex,
			hex + 2);
}

/* The directory of a path, without the last slash. */
static int directory_length(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? (int)(slash - path) : 0;
}

static bool find_by_link(struct vt_files *root, const struct vt_module *module, const char *link,
			 const struct wish *wish, struct vt_debugfile *found)
{
	const char *path = module->path;
	int len = directory_length(path);

	/* It is a file name; with directories in it, it could lead anywhere. */
	if (path[0] != '/' || !link[0] || strchr(link, '/') || !strcmp(link, ".") ||
	    !strcmp(link, ".."))
		return false;
	return try_path(root, wish, found, "%.*s/%s", len, path, link) ||
	       try_path(root, wish, found, "%.*s/.debug/%s", len, path, link) ||
	       try_path(root, wish, found, DEBUG_DIRECTORY "%.*s/%s", len, path, link);
}

/* A section that begins with a name: what follows its NUL is at *rest. False when there is none. */
static bool read_link(const struct vt_symfile *file, const char *section_name, char *text,
		      size_t size, size_t *n, size_t *rest)
{
	const Elf64_Shdr *section = vt_symfile_named(file, section_name);

	if (!section || section->sh_type != SHT_PROGBITS || section->sh_size < 2 ||
	    section->sh_size > size ||
	    !vt_symfile_read(file, section->sh_offset, text, (size_t)section->sh_size))
		return false;
	*n = (size_t)section->sh_size;
	*rest = strnlen(text, *n) + 1;
	return *rest <= *n;
}

/* .gnu_debuglink: a file name, zeros to a multiple of four, the CRC-32 of the file. */
static bool read_debuglink(const struct vt_module *module, char *name, size_t size,
			   uint32_t *checksum)
{
	struct vt_symfile file = { .fd = module->fd, .size = module->image_size };
	size_t n, rest;
	bool ok = module->fd >= 0 && vt_symfile_init(&file) &&
		  read_link(&file, ".gnu_debuglink", name, size, &n, &rest);

	vt_symfile_deinit(&file);
	if (!ok)
		return false;
	rest = (rest + 3) & ~(size_t)3;
	if (rest > n || n - rest < sizeof(*checksum))
		return false;
	memcpy(checksum, name + rest, sizeof(*checksum));
	return true;
}

bool vt_debugfile_find(const struct vt_modules *modules, const struct vt_module *module,
		       struct vt_debugfile *found)
{
	struct wish wish = { .build_id = module->build_id, .build_id_len = module->build_id_len };
	char link[MAX_LINK];
	bool linked;

	for (size_t i = 0; i < N_ROOTS; i++)
		if (find_by_build_id(root_of(modules, i), &wish, found))
			return true;
	linked = read_debuglink(module, link, sizeof(link), &wish.checksum);
	for (size_t i = 0; linked && i < N_ROOTS; i++)
		if (find_by_link(root_of(modules, i), module, link, &wish, found))
			return true;
	if (!modules->debuginfod_until_ns || !wish.build_id_len)
		return false;

	char *path =
		vt_debuginfod_find(wish.build_id, wish.build_id_len, modules->debuginfod_until_ns);

	return path && try_file(vt_open_regular(path), path, &wish, found);
}

bool vt_debugfile_find_shared(const struct vt_modules *modules, const struct vt_symfile *of,
			      const char *path, struct vt_debugfile *found)
{
	struct wish wish = { 0 };
	char link[MAX_LINK];
	size_t n, rest;

	/* .gnu_debugaltlink: a path, absolute or relative to the file, and the build id. */
	if (!read_link(of, ".gnu_debugaltlink", link, sizeof(link), &n, &rest) || n - rest < 2)
		return false;
	wish.build_id = (const uint8_t *)link + rest;
	wish.build_id_len = n - rest;
	if (wish.build_id_len > VT_BUILD_ID_MAX)
		return false;
	for (size_t i = 0; i < N_ROOTS; i++) {
		struct vt_files *root = root_of(modules, i);

		if (link[0] != '/' &&
		    try_path(root, &wish, found, "%.*s/%s", directory_length(path), path, link))
			return true;
		if (find_by_build_id(root, &wish, found) ||
		    (link[0] == '/' && try_path(root, &wish, found, "%s", link)))
			return true;
	}
	return false;
}

void vt_debugfile_close(struct vt_debugfile *file)
{
	if (file->fd >= 0)
		close(file->fd);
	free(file->path);
	*file = (struct vt_debugfile){ .fd = -1 };
}
