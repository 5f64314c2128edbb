dist_man_MANS += doc/vramtap.1 doc/vramtap-layouts.1 doc/vramtap-ps.1 doc/vramtap-record.1 doc/vramtap-relieve.1 doc/vramtap-report.1 doc/vramtap-run.1 doc/vramtap-stacks.1 doc/vramtap-triage.1 \
	doc/vramtap-diff.1 doc/vramtap-watch.1 doc/vramtap-gdb-script.1 doc/vramtap-gdb.7
dist_doc_DATA = README.md NEWS doc/report.schema.json doc/GLOSSARY.md doc/INTERNALS.md doc/HOWTO_TEST.md doc/SAFETY.md doc/advice.md doc/matrix.md doc/results.md doc/diff.schema.json doc/ps.schema.json doc/relieve.schema.json doc/triage.schema.json
internalsdir = $(docdir)/internals
dist_internals_DATA = doc/internals/collect.md doc/internals/gdb.md doc/internals/inject.md doc/internals/job.md \
	doc/internals/ledger.md doc/internals/owners.md doc/internals/recorder.md doc/internals/report.md doc/internals/stacks.md doc/internals/torch.md
EXTRA_DIST += doc/RELEASING.md
