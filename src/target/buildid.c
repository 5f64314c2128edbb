/* SPDX-License-Identifier: Apache-2.0 */
#include "target/buildid.h"

#include <elf.h>
#include <string.h>

uint8_t vt_build_id_in_notes(const uint8_t *notes, uint64_t n, uint64_t align,
			     uint8_t id[VT_BUILD_ID_MAX])
{
	while (n >= sizeof(Elf64_Nhdr)) {
		Elf64_Nhdr note;

		memcpy(&note, notes, sizeof(note));

		uint64_t name_room = (sizeof(note) + (uint64_t)note.n_namesz + align - 1) &
				     ~(align - 1);
		uint64_t room = (name_room + note.n_descsz + align - 1) & ~(align - 1);

		if (name_room + note.n_descsz > n)
			return 0;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof(ELF_NOTE_GNU) &&
		    !memcmp(notes + sizeof(note), ELF_NOTE_GNU, sizeof(ELF_NOTE_GNU)) &&
		    note.n_descsz > 0 && note.n_descsz <= VT_BUILD_ID_MAX) {
			memcpy(id, notes + name_room, note.n_descsz);
			return (uint8_t)note.n_descsz;
		}
		if (room >= n)
			return 0;
		notes += room;
		n -= room;
	}
	return 0;
}
