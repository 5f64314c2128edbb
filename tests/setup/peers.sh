#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# peers.sh: the programs that bench/stacks.py measures beside vramtap, from PyPI into the cache (quick the second time).
# eu-stack and gdb are Debian packages (elfutils, gdb); what is missing of those is only said here.
set -u
cache=${VRAMTAP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vramtap}
dest=$cache/peers
wanted='py-spy==0.4.3 pystack==1.7.2'
status=0

if [ "$(cat "$dest/.done" 2>/dev/null)" != "$wanted" ]; then
	rm -rf "$dest"
	mkdir -p "$cache"
	# shellcheck disable=SC2086 # two words
	if python3 -m venv "$dest" >&2 && "$dest/bin/pip" install --quiet --disable-pip-version-check $wanted >&2; then
		printf '%s' "$wanted" >"$dest/.done"
	else
		echo "peers.sh: cannot install $wanted" >&2
		status=1
	fi
fi
for program in eu-stack gdb; do
	command -v "$program" >/dev/null || echo "peers.sh: no $program here (apt-get install elfutils gdb)" >&2
done
exit $status
