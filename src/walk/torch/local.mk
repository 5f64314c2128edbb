# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += src/walk/torch/libtorch.a
src_walk_torch_libtorch_a_SOURCES = \
	src/walk/torch/abi.h \
	src/walk/torch/blocks.c \
	src/walk/torch/code.h \
	src/walk/torch/devices.c \
	src/walk/torch/find.c src/walk/torch/find.h \
	src/walk/torch/finder.c src/walk/torch/finder.h \
	src/walk/torch/history.c src/walk/torch/history.h \
	src/walk/torch/layouts.h \
	src/walk/torch/pinned.c src/walk/torch/pinned.h \
	src/walk/torch/pinned_find.c \
	src/walk/torch/read.c \
	src/walk/torch/samples.c \
	src/walk/torch/slots.c src/walk/torch/slots.h \
	src/walk/torch/slots_table.h \
	src/walk/torch/streams.c src/walk/torch/streams.h \
	src/walk/torch/table.c src/walk/torch/table.h \
	src/walk/torch/told.c src/walk/torch/told.h \
	src/walk/torch/torch.h \
	src/walk/torch/totals.c \
	src/walk/torch/walk.c \
	src/walk/torch/walk_bulk.c \
	src/walk/torch/walk_events.c \
	src/walk/torch/walk_outcome.c \
	src/walk/torch/walk_sort.c \
	src/walk/torch/walk_state.h \
	src/walk/torch/workspaces.c src/walk/torch/workspaces.h
