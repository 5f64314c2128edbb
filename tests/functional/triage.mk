# vramtap triage.
functional_tests += \
	tests/functional/pods.py \
	tests/functional/slurm_recipes.py \
	tests/functional/triage.py \
	tests/functional/triage_collectives.py \
	tests/functional/triage_engines.py \
	tests/functional/triage_hangs.py \
	tests/functional/triage_kernels.py \
	tests/functional/triage_ras.py \
	tests/functional/triage_slurm.py \
	tests/functional/triage_watchdog.py
EXTRA_DIST += \
	tests/functional/kube_api.py \
	tests/functional/cluster.py \
	tests/functional/ras_client.py \
	tests/targets/nccl_ras.py \
	tests/targets/ras_job.py \
	tests/targets/triage_collectives.py \
	tests/targets/triage_hangs.py \
	tests/targets/triage_job.py
