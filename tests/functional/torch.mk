# PyTorch's allocator from outside, against its own snapshot.
check_PROGRAMS += tests/functional/torch_walk
tests_functional_torch_walk_SOURCES = \
	tests/functional/torch_compare.c tests/functional/torch_compare.h \
	tests/functional/torch_walk.c
tests_functional_torch_walk_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_functional_torch_walk_LDADD = \
	$(vt_walk) $(VT_LIBS)
functional_tests += tests/functional/torch_walk.py
# Without a stop: walks of a running allocator against a replay of what it does, and whole reports.
check_PROGRAMS += tests/functional/torch_replay
tests_functional_torch_replay_SOURCES = tests/functional/torch_replay.c
tests_functional_torch_replay_LDADD = \
	$(vt_walk) $(VT_LIBS)
functional_tests += tests/functional/report_no_stop.py

# The backtraces that PyTorch recorded, against its own snapshot.
functional_tests += tests/functional/torch_history.py

# PyTorch's snapshot, written by vramtap.
functional_tests += tests/functional/snapshot_file.py
EXTRA_DIST += tests/targets/torch_snapshot.py

# What grew: diff, watch --grow and report --folded.
functional_tests += tests/functional/growth.py

# With and without the table of known releases.
functional_tests += tests/functional/torch_layouts.py
# What the driver's pools and PyTorch itself say.
check_PROGRAMS += tests/functional/ask_python
tests_functional_ask_python_SOURCES = tests/functional/ask_python.c
tests_functional_ask_python_LDADD = \
	$(vt_inject) $(vt_walk) $(VT_LIBS) -lpthread
functional_tests += tests/functional/report_official.py

# Every allocation of the driver, against programs that know theirs.
# Which streams have unfinished work.
functional_tests += tests/functional/streams.py tests/functional/streams_again.py
functional_tests += tests/functional/ledger.py
# Pinned and shared memory of the host.
functional_tests += tests/functional/host.py
# Pools of other libraries, against the libraries themselves.
functional_tests += tests/functional/ask_jax.py tests/functional/cupy_owners.py tests/functional/cupy_pools.py \
	tests/functional/jax_owners.py tests/functional/libpools.py tests/functional/nccl_memory.py tests/functional/rmm_pools.py
functional_tests += tests/functional/report_pinned.py

# Backtraces that the recorder took, against PyTorch's own.
functional_tests += tests/functional/recorder_torch.py
EXTRA_DIST += tests/functional/recorder_truth.py

# What the report says of them.
functional_tests += tests/functional/recorder_report.py

# Out-of-memory errors, caught by vramtap watch.
functional_tests += tests/functional/recorder_oom.py
EXTRA_DIST += tests/functional/recorder_oom_throw.cc

# Of several processes, and of descendants that come later.
functional_tests += tests/functional/watch_many.py

# The same, by vramtap run.
functional_tests += tests/functional/run_oom.py
EXTRA_DIST += tests/targets/torch_ranks.py
# What to do about them, and about more.
functional_tests += tests/functional/advice.py

# The driver's allocations as the recorder has them, and vramtap run.
functional_tests += tests/functional/recorder_driver.py

# What the blocks in use are, against programs that know it.
functional_tests += tests/functional/alarms.py
EXTRA_DIST += tests/targets/torch_alarms.py

# The troubles that people know, and what helps.
functional_tests += tests/functional/folklore.py
EXTRA_DIST += tests/targets/torch_healthy.py

functional_tests += tests/functional/owners.py tests/functional/owners_asked.py tests/functional/owners_cli.py \
	tests/functional/owners_programs.py
EXTRA_DIST += tests/functional/owners_truth.py tests/targets/owners_planted.py tests/targets/torch_asked.py \
	tests/targets/torch_checkpoint.py tests/targets/torch_freed.py tests/targets/torch_leaks.py tests/targets/torch_owners.py \
	tests/targets/torch_unowned.py

# PyTorch's objects (tensors, storages, autograd's graphs), against what the program itself knows.
check_PROGRAMS += tests/functional/torch_tensors
tests_functional_torch_tensors_SOURCES = tests/functional/torch_tensors.c
tests_functional_torch_tensors_LDADD = \
	$(vt_owners_alone) $(VT_LIBS)
functional_tests += tests/functional/torch_tensors.py
EXTRA_DIST += tests/targets/torch_tensors.py
