src_walk_libwalk_a_SOURCES += \
	src/walk/native/cfi.c src/walk/native/cfi.h \
	src/walk/native/debugfile.c src/walk/native/debugfile.h \
	src/walk/native/debuginfod.c src/walk/native/debuginfod.h \
	src/walk/native/demangle.c src/walk/native/demangle.h \
	src/walk/native/dwarf_lines.c src/walk/native/dwarf_lines.h \
	src/walk/native/lines_memo.c src/walk/native/lines_memo.h \
	src/explain/merge.c \
	src/explain/merge_recorded.c \
	src/walk/native/lines.c \
	src/walk/native/places.c src/walk/native/places.h \
	src/walk/native/symbols.c \
	src/walk/native/unwind.c \
	src/walk/native/symfile.c src/walk/native/symfile.h \
	src/explain/syscall_names.h \
	src/explain/verdicts.c src/explain/verdicts.h \
	src/explain/wait.c \
	src/explain/wait_core.c \
	src/explain/wait_fd.c \
	src/explain/wait_futex.c \
	src/explain/wait_socket.c \
	src/explain/wait_parts.h
EXTRA_DIST += scripts/gen-syscall-names.sh
