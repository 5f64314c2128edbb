#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# stub-libs.sh LIBDIR OUTDIR: small libraries in the place of NVIDIA's (cuBLAS, cuDNN, ...; gigabytes), made from
# what the libraries in LIBDIR import: the same sonames, symbols and symbol versions, and functions that do nothing and
# return 0. The exceptions are in stub-answers. libcuda, libcudart and NCCL are not made here; the simulated device has them.
set -eu
libdir=${1:?usage: stub-libs.sh LIBDIR OUTDIR}
out=${2:?usage: stub-libs.sh LIBDIR OUTDIR}
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
cc=${CC:-cc}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM

# Which sonames to stand in for: NVIDIA's, as far as LIBDIR does not hold them.
for lib in "$libdir"/lib*.so*; do
	readelf -dW "$lib" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'
done | sort -u | grep -E '^lib(cublas|cudnn|cufft|cufile|cupti|curand|cusolver|cusparse|nvJitLink|nvrtc|nvshmem|nvToolsExt)' |
	while read -r soname; do
		[ -e "$libdir/$soname" ] || echo "$soname"
	done >"$tmp/sonames"

for lib in "$libdir"/lib*.so*; do
	# "version NODE SONAME": a node belongs to the library that the version table names
	readelf -VW "$lib" | awk '
		/ File: / { for (i = 1; i < NF; i++) if ($i == "File:") file = $(i + 1) }
		/ Name: / { for (i = 1; i < NF; i++) if ($i == "Name:") print "version", $(i + 1), file }'
	nm -D --undefined-only --with-symbol-versions "$lib" 2>/dev/null | awk '{ print "symbol", $NF }'
	nm -D --defined-only "$lib" 2>/dev/null | awk '{ sub(/@.*/, "", $NF); print "defined", $NF }'
done | sort -u >"$tmp/facts"

# One C file and one version script for each soname.
awk -v dir="$tmp" -v answers="$here/stub-answers" '
	function body(name,    i, text) {
		text = ""
		for (i = 1; i <= n_answers; i++) {
			if (name !~ "^(" pattern[i] ")$")
				continue
			if (kind[i] == "string")
				return "return (long)\"stub\";"
			if (kind[i] == "handle")
				text = text "*(void **)a" arg[i] " = &handle; "
			if (kind[i] == "int")
				text = text "*(int *)a" arg[i] " = " value[i] "; "
			if (kind[i] == "size")
				text = text "*(unsigned long *)a" arg[i] " = " value[i] "; "
		}
		return text "return 0;"
	}
	function emit(soname, node, name) {
		if ((soname, name) in seen)
			return
		seen[soname, name] = 1
		file = dir "/" soname ".c"
		if (!(soname in begun)) {
			begun[soname] = 1
			print "static char handle[64] __attribute__((unused));" >file
			print "int sim_enter(const char *) __attribute__((weak));" >file
			print "#define ARGS " args >file
		}
		printf "long %s(ARGS) { if (sim_enter) sim_enter(\"%s\"); %s }\n", name, name, body(name) >file
		map = dir "/" soname ".nodes"
		print (node == "" ? "-" : node), name >map
	}
	BEGIN {
		# More than any function takes: what the caller did not pass is not looked at.
		for (i = 0; i < 20; i++)
			args = args (i ? ", " : "") "char *a" i
	}
	FILENAME == answers {
		if ($1 ~ /^#/ || !NF)
			next
		pattern[++n_answers] = $1
		kind[n_answers] = $2
		arg[n_answers] = $3
		value[n_answers] = $4
		next
	}
	FILENAME ~ /sonames$/ { wanted[$1] = 1; next }
	$1 == "version" { owner[$2] = $3 }
	$1 == "defined" { defined[$2] = 1 }
	$1 == "symbol" { symbols[$2] = 1 }
	END {
		# Unversioned imports go by their prefix.
		split("cuFile libcufile cusparseLt libcusparseLt cufft libcufft curand libcurand " \
		      "nvshmem libnvshmem cupti libcupti nvtx libnvToolsExt", p, " ")
		for (s in symbols) {
			at = index(s, "@")
			name = at ? substr(s, 1, at - 1) : s
			node = at ? substr(s, at + 1) : ""
			sub(/^@/, "", node)
			if (node != "" && owner[node] in wanted)
				emit(owner[node], node, name)
			if (node != "" || name in defined)
				continue
			for (i = 1; i in p; i += 2)
				if (index(name, p[i]) == 1)
					for (w in wanted)
						if (index(w, p[i + 1] ".") == 1 || index(w, p[i + 1] "_") == 1)
							emit(w, "", name)
		}
	}' "$here/stub-answers" "$tmp/sonames" "$tmp/facts"

mkdir -p "$out"
while read -r soname; do
	[ -f "$tmp/$soname.c" ] || echo 'extern int nothing_is_imported;' >"$tmp/$soname.c"
	: >>"$tmp/$soname.nodes"
	awk '$1 != "-" { n[$1] = n[$1] " " $2 ";" } END { for (v in n) print v " { global:" n[v] " };" }' \
		"$tmp/$soname.nodes" >"$tmp/$soname.map"
	script=
	[ -s "$tmp/$soname.map" ] && script=-Wl,--version-script,$tmp/$soname.map
	# shellcheck disable=SC2086 # no version script, no word
	$cc -w -O1 -fPIC -shared -Wl,-soname,"$soname" $script -o "$out/$soname" "$tmp/$soname.c"
done <"$tmp/sonames"
