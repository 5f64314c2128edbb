src_walk_libwalk_a_SOURCES += \
	src/walk/native/cfi.c src/walk/native/cfi.h \
	src/walk/native/debugfile.c src/walk/native/debugfile.h \
	src/walk/native/debuginfod.c src/walk/native/debuginfod.h \
	src/walk/native/demangle.c src/walk/native/demangle.h \
	src/walk/native/dwarf_lines.c src/walk/native/dwarf_lines.h \
	src/walk/native/lines_memo.c src/walk/native/lines_memo.h \
	src/walk/merge.c \
	src/walk/merge_recorded.c \
	src/walk/native/lines.c \
	src/walk/native/places.c src/walk/native/places.h \
	src/walk/native/symbols.c \
	src/walk/native/unwind.c \
	src/walk/native/symfile.c src/walk/native/symfile.h \
	src/walk/syscall_names.h \
	src/walk/verdicts.c src/walk/verdicts.h \
	src/walk/wait.c \
	src/walk/wait_core.c \
	src/walk/wait_fd.c \
	src/walk/wait_futex.c \
	src/walk/wait_socket.c \
	src/walk/wait_parts.h
EXTRA_DIST += scripts/gen-syscall-names.sh
