# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += src/job/profile/libprofile.a
src_job_profile_libprofile_a_SOURCES = \
	src/job/profile/stacks.c src/job/profile/stacks.h
