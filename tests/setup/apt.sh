#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# apt.sh: packages of a Debian suite that need not be this machine's, downloaded into a state directory of their own with their
# signatures checked; nothing is installed. To be sourced; the script has set work (that directory) and limit (the seconds that one
# step may take).
# shellcheck disable=SC2154 # they are variables of the script that reads this
mirror=${VRAMTAP_DEBIAN_MIRROR:-http://deb.debian.org/debian}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

# prepare_apt SUITE COMPONENT...: apt with nothing of this machine but its programs, no package installed. A mirror that is behind
# will do, one that does not answer is given up soon, and said.
prepare_apt()
{
	debian=$1
	shift
	mkdir -p "$work/lists/partial" "$work/archives/partial" "$work/etc"
	: >"$work/status"
	if ! [ -e "$keyring" ]; then
		echo "no $keyring (package debian-archive-keyring)" >"$work/log"
		return 1
	fi
	for type in deb deb-src; do
		printf '%s [signed-by=%s] %s %s %s\n' "$type" "$keyring" "$mirror" "$debian" "$*"
	done >"$work/sources.list"
	cat >"$work/apt.conf" <<CONF
Dir::Etc "$work/etc";
Dir::Etc::SourceList "$work/sources.list";
Dir::Etc::SourceParts "-";
Dir::State "$work";
Dir::State::Lists "$work/lists";
Dir::State::status "$work/status";
Dir::Cache "$work";
Dir::Cache::archives "$work/archives";
APT::Sandbox::User "root";
Acquire::Check-Valid-Until "false";
Acquire::Retries "1";
Acquire::http::Timeout "20";
Acquire::https::Timeout "20";
APT::Update::Error-Mode "any";
CONF
	APT_CONFIG=$work/apt.conf
	export APT_CONFIG
	timeout "$limit" apt-get update -qq >"$work/log" 2>&1
}
