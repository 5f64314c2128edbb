src_walk_libwalk_a_SOURCES += \
	src/walk/cuda_imports.c src/walk/cuda_imports.h \
	src/walk/torch_abi.h \
	src/walk/torch_blocks.c \
	src/walk/torch_devices.c \
	src/walk/torch_find.c src/walk/torch_find.h src/walk/torch_finder.h \
	src/walk/torch_history.c src/walk/torch_history.h \
	src/walk/torch_pinned.c src/walk/torch_pinned.h src/walk/torch_pinned_find.c \
	src/walk/torch_samples.c \
	src/walk/torch_slots.c src/walk/torch_slots.h src/walk/torch_slots_table.h \
	src/walk/torch_table.c src/walk/torch_table.h src/walk/torch_layouts.h \
	src/walk/torch_told.c src/walk/torch_told.h \
	src/walk/torch_walk.c
