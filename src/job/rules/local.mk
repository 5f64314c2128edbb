# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += src/job/rules/librules.a
src_job_rules_librules_a_SOURCES = \
	src/job/rules/account.c \
	src/job/rules/categories.c \
	src/job/rules/causes.c \
	src/job/rules/chains.c src/job/rules/causes.h \
	src/job/rules/collectives.c \
	src/job/rules/faults.c \
	src/job/rules/kernels.c \
	src/job/rules/review.c src/job/rules/review.h \
	src/job/rules/ledger.c \
	src/job/rules/memory.c \
	src/job/rules/missing.c \
	src/job/rules/odd.c src/job/rules/odd.h \
	src/job/rules/ras.c \
	src/job/rules/rules.c src/job/rules/rules.h
