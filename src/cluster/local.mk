# SPDX-License-Identifier: Apache-2.0
cluster_scripts = \
	src/cluster/clush.sh \
	src/cluster/common.sh \
	src/cluster/kubectl.sh \
	src/cluster/mpirun.sh \
	src/cluster/node.sh \
	src/cluster/slurm.sh

noinst_LIBRARIES += src/cluster/libcluster.a
src_cluster_libcluster_a_SOURCES = \
	src/cluster/cluster.c src/cluster/cluster.h \
	src/cluster/scripts.S
EXTRA_DIST += $(cluster_scripts)

src/cluster/scripts.$(OBJEXT): $(cluster_scripts)
