# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += src/owners/libowners.a
src_owners_libowners_a_SOURCES = \
	src/owners/arrays.c \
	src/owners/category.c \
	src/owners/dominators.c \
	src/owners/entry.c \
	src/owners/explore.c \
	src/owners/find_copies.c \
	src/owners/find_dataset.c \
	src/owners/find_graphs.c \
	src/owners/find_lost.c \
	src/owners/find_parameters.c \
	src/owners/finder.c \
	src/owners/notices.c \
	src/owners/freed.c \
	src/owners/holders.c src/owners/holders.h \
	src/owners/internal.h \
	src/owners/jax.c \
	src/owners/name.c \
	src/owners/native.c \
	src/owners/owners.h \
	src/owners/others.c \
	src/owners/proof.c \
	src/owners/rest.c \
	src/owners/roles.c \
	src/owners/search.c \
	src/owners/storages.c \
	src/owners/tell.c \
	src/owners/think.c
