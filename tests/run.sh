#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds vramtap and runs every test that needs no GPU. Installs what is missing (as root or with sudo), builds outside
# the source tree, and is quick the second time.
#
# usage: run.sh [STEP...]        steps: lint clang gcc matrix sanitizers dist (default: all of them)
#   VRAMTAP_CACHE   where builds, wheels and interpreters are kept (default: ~/.cache/vramtap)
#   VRAMTAP_SOAK=1  long forms of the soak tests
set -u

here=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
VRAMTAP_CACHE=${VRAMTAP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vramtap}
export VRAMTAP_CACHE
passed=0
failed=0
skipped=0
problems=
steps=${*:-lint clang gcc matrix sanitizers dist}

say() {
	printf '\n== %s\n' "$*"
}

problem() {
	failed=$((failed + 1))
	problems="$problems
  $*"
	printf 'FAILED: %s\n' "$*"
}

# Counts one check that is not part of a make suite.
try() {
	label=$1
	shift
	if "$@"; then
		passed=$((passed + 1))
		printf 'ok: %s\n' "$label"
	else
		problem "$label"
	fi
}

# Adds the counts of an automake suite; shows its failures.
count_suite() {
	log=$1
	label=$2
	if ! [ -f "$log" ]; then
		problem "$label did not run"
		return
	fi
	p=$(sed -n 's/^# PASS: *//p' "$log")
	f=$(sed -n 's/^# FAIL: *//p' "$log")
	e=$(sed -n 's/^# ERROR: *//p' "$log")
	s=$(sed -n 's/^# SKIP: *//p' "$log")
	passed=$((passed + p))
	failed=$((failed + f + e))
	skipped=$((skipped + s))
	[ $((f + e)) = 0 ] || {
		problems="$problems
  $label: $((f + e)) failed"
		tail -n 200 "$log"
	}
	printf '%s: %s passed, %s failed, %s skipped\n' "$label" "$p" "$((f + e))" "$s"
	[ "$s" = 0 ] || grep -E '^(SKIP|skip)' "$log" | sort -u | head -40
}

build() {
	name=$1
	shift
	sh "$here/scripts/build.sh" "$VRAMTAP_CACHE/build/$name" "$CUDA_HEADERS" "$@" >"$VRAMTAP_CACHE/build-$name.log" 2>&1 || {
		tail -n 40 "$VRAMTAP_CACHE/build-$name.log"
		return 1
	}
}

# A target of make's, and more arguments for it.
suite() {
	name=$1
	shift
	# The programs of the tests, with both processors.
	make -s -j2 -C "$VRAMTAP_CACHE/build/$name" check TESTS= >/dev/null 2>&1
	# The log of an earlier run must not be counted as this one's.
	rm -f "$VRAMTAP_CACHE/build/$name/test-suite.log"
	# With 32 random bits in addresses (vm.mmap_rnd_bits) the sanitizers of gcc 12 and clang 14 crash now and then.
	fixed_addresses=
	[ "$name" != sanitizers ] || fixed_addresses="setarch $(uname -m) -R"
	# shellcheck disable=SC2086 # a command with arguments
	(cd "$VRAMTAP_CACHE/build/$name" && $fixed_addresses make -s -k "$@" >"$VRAMTAP_CACHE/$name-$1.log" 2>&1)
	grep -E '^(PASS|FAIL|SKIP|ERROR):' "$VRAMTAP_CACHE/$name-$1.log"
	count_suite "$VRAMTAP_CACHE/build/$name/test-suite.log" "$name $1"
	[ "$1" = check ] || repeat_alone "$name" "$1" "$fixed_addresses"
}

# What functional tests run against is brought meanwhile: the steps before, and unit tests, need only the simulated device.
prepare() {
	sh "$here/tests/simcuda/build.sh" "$VRAMTAP_CACHE/simcuda" || problem 'building the simulated device'
	sh "$here/tests/setup/prepare.sh" >"$VRAMTAP_CACHE/prepare.log" 2>&1 &
	preparing=$!
}

prepared() {
	[ -n "$preparing" ] || return 0
	say 'PyTorch wheels and the simulated device'
	wait "$preparing" || problem 'setting up PyTorch on the simulated device (see below)'
	preparing=
	cat "$VRAMTAP_CACHE/prepare.log"
}

# Two at a time where they do not mind, and the others one by one.
functional() {
	prepared
	suite "$1" check-beside -j2
	suite "$1" check-alone
}

# Functional tests race real processes for the processors of a machine that may have other work. Up to three scripts that
# failed are run once more, alone; one that passes then is counted as passed, and named at the end all the same. More than
# three are no accident, and a crash or a word of a sanitizer never is.
repeat_alone() {
	log=$VRAMTAP_CACHE/build/$1/test-suite.log
	again=$(sed -n 's/^FAIL: \(.*\.py\)$/\1/p' "$VRAMTAP_CACHE/$1-$2.log" | sort -u)
	[ -n "$again" ] && [ "$(printf '%s\n' "$again" | wc -l)" -le 3 ] || return 0
	! grep -qE 'Sanitizer|runtime error:|SIGSEGV|SIGABRT|SIGBUS|core dumped' "$log" || return 0
	for script in $again; do
		# shellcheck disable=SC2086 # a command with arguments
		if (cd "$VRAMTAP_CACHE/build/$1" && $3 make -s check-TESTS TESTS="$script" >"$VRAMTAP_CACHE/$1-repeat.log" 2>&1); then
			passed=$((passed + 1))
			failed=$((failed - 1))
			problems="$problems
  unsteady, passed when repeated alone: $1 $script"
		else
			tail -n 200 "$log"
		fi
		printf 'once more: %s\n' "$script"
	done
}

step_lint() {
	say 'lint'
	try 'shellcheck' sh -c "cd '$here' && git ls-files '*.sh' .ci/run | xargs shellcheck"
	try 'man pages' sh -c "cd '$here' && mandoc -Tlint -W warning doc/*.[17]"
	build gcc --enable-werror || return
	try 'clang-tidy' sh "$here/scripts/tidy.sh" "$VRAMTAP_CACHE/build/gcc"
}

step_gcc() {
	say 'gcc: build, unit tests, functional tests'
	try 'build with gcc' build gcc --enable-werror
	suite gcc check -j2
	functional gcc
}

# Once, as it is long: the walk of the oldest PyTorch release, of one in the middle and of the newest.
step_matrix() {
	prepared
	say 'the matrix of PyTorch releases'
	build gcc --enable-werror || return
	log=$VRAMTAP_CACHE/matrix.log
	try 'the matrix of PyTorch releases (make check-matrix runs all of them)' sh -c "cd '$VRAMTAP_CACHE/build/gcc' && \
		make -s tests/matrix/matrix_compare >'$log' 2>&1 && \
		VRAMTAP_BUILD_DIR=. VRAMTAP_SOURCE_DIR='$here' timeout 3600 python3 -B '$here/tests/matrix/matrix.py' --run >>'$log' 2>&1"
	grep -E '^(ok|FAILED|PyTorch|again|[0-9]+ of)|^the last|differs' "$log" || tail -n 20 "$log"
}

step_clang() {
	say 'clang: build, unit tests'
	try 'build with clang' build clang --enable-werror CC=clang
	suite clang check -j2
}

step_sanitizers() {
	say 'ASan and UBSan: build, unit tests, functional tests'
	try 'build with sanitizers' build sanitizers --enable-werror --enable-sanitizers --enable-fault-points
	suite sanitizers check -j2
	functional sanitizers
}

# With gcc: what clang says of the same sources the step clang has.
step_dist() {
	say 'the distribution: make distcheck'
	build gcc --enable-werror || return
	log=$VRAMTAP_CACHE/distcheck.log
	try 'make distcheck' sh -c "cd '$VRAMTAP_CACHE/build/gcc' && \
		make -s -j2 distcheck DISTCHECK_CONFIGURE_FLAGS='--enable-werror --with-cuda-headers=$CUDA_HEADERS' \
		>'$log' 2>&1 || { tail -n 30 '$log'; false; }"
}

begin=$(date +%s)
mkdir -p "$VRAMTAP_CACHE/build"
deps=$(sh "$here/scripts/deps.sh" test) || {
	printf 'some packages are missing; what needs them will fail or be skipped\n'
}
CUDA_HEADERS=$(printf '%s\n' "$deps" | sed -n 's/^CUDA_HEADERS=//p')
prepare
for step in $steps; do
	"step_$step"
done
prepared

say "finished in $(($(date +%s) - begin)) s"
[ -z "$problems" ] || printf 'what went wrong:%s\n' "$problems"
printf '%s passed, %s failed, %s skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" = 0 ]
