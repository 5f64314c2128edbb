src_walk_libwalk_a_SOURCES += \
	src/walk/cfi.c src/walk/cfi.h \
	src/walk/debugfile.c src/walk/debugfile.h \
	src/walk/debuginfod.c src/walk/debuginfod.h \
	src/walk/demangle.c src/walk/demangle.h \
	src/walk/dwarf_lines.c src/walk/dwarf_lines.h \
	src/walk/lines_memo.c src/walk/lines_memo.h \
	src/walk/merge.c \
	src/walk/merge_recorded.c \
	src/walk/native_lines.c \
	src/walk/native_places.c src/walk/native_places.h \
	src/walk/native_symbols.c \
	src/walk/native_unwind.c \
	src/walk/symfile.c src/walk/symfile.h \
	src/walk/syscall_names.h \
	src/walk/verdicts.c src/walk/verdicts.h \
	src/walk/wait.c \
	src/walk/wait_core.c \
	src/walk/wait_fd.c \
	src/walk/wait_futex.c \
	src/walk/wait_socket.c \
	src/walk/wait_parts.h
EXTRA_DIST += scripts/gen-syscall-names.sh
