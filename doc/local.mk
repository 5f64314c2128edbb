# SPDX-License-Identifier: Apache-2.0
dist_man_MANS += doc/vramtap.1 doc/vramtap-html.1 doc/vramtap-layouts.1 doc/vramtap-ps.1 doc/vramtap-record.1 doc/vramtap-relieve.1 doc/vramtap-report.1 doc/vramtap-run.1 doc/vramtap-stacks.1 doc/vramtap-triage.1 \
	doc/vramtap-diff.1 doc/vramtap-watch.1 doc/vramtap-gdb-script.1 doc/vramtap-gdb.7

# What users read. What is for people who change vramtap stays in the source.
dist_doc_DATA = LICENSE NEWS NOTICES.md doc/GLOSSARY.md doc/KUBERNETES.md doc/SAFETY.md doc/SLURM.md doc/advice.md doc/matrix.md doc/results.md \
	doc/diff.schema.json doc/ps.schema.json doc/relieve.schema.json doc/report.schema.json doc/triage.schema.json
licensesdir = $(docdir)/licenses
dist_licenses_DATA = licenses/GCC-exception-3.1.txt licenses/GPL-3.txt licenses/LGPL-2.1.txt licenses/LGPL-3.txt
picturesdir = $(docdir)/pictures
dist_pictures_DATA = doc/pictures/job.png doc/pictures/report.png doc/pictures/segments.png

# Installed, the documents that README points to lie beside it.
doc_DATA = doc/README.md
doc/README.md: $(top_srcdir)/README.md Makefile
	@$(MKDIR_P) doc
	$(AM_V_GEN)sed 's,\(](\|`\)doc/,\1,g' $(top_srcdir)/README.md >$@
CLEANFILES += doc/README.md

EXTRA_DIST += README.md doc/HOWTO_TEST.md doc/INTERNALS.md doc/RELEASING.md doc/TUTORIAL.md doc/internals/collect.md doc/internals/gdb.md \
	doc/internals/inject.md doc/internals/job.md doc/internals/ledger.md doc/internals/owners.md doc/internals/recorder.md \
	doc/internals/report.md doc/internals/stacks.md doc/internals/torch.md
