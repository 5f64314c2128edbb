#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# vramtap triage in many pods of Kubernetes by kubectl exec, put together: see usage().
# shellcheck disable=SC2034,SC2154,SC2317,SC2329 # triage-common.sh calls these functions, and has variables in common with them
set -u
# shellcheck source=/dev/null
. "$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)/triage-common.sh"

usage()
{
	cat <<'USAGE'
usage: triage-kubectl.sh -o DIR -l SELECTOR [-n NAMESPACE] [-c CONTAINER]
                         [-C FILE] [-t SECONDS] [-m SECONDS] [-b PROGRAM]
                         [-j NUMBER] [-q] [-- OPTION...]

Run vramtap triage in every pod with these labels, with kubectl exec, and
combine the results. OPTION selects the processes, such as
--match 'train\.py'; the default is --all-gpu.

The container needs sh. If it has tar and base64, the reports of all processes
come back; otherwise only the pod's report.json, which has everything that is
compared. Processes of another user need the capability SYS_PTRACE there.

  -l SELECTOR as for kubectl get -l: job-name=train
  -n NAMESPACE, -c CONTAINER
              as for kubectl exec
  -C FILE     a static vramtap, to copy into a temporary directory of each pod
              for as long as it runs
USAGE
	common_usage
}

selector=
namespace=
container=

engine_option()
{
	case $1 in
	l) selector=$2 ;;
	n) namespace=$2 ;;
	c) container=$2 ;;
	C) input=$2 ;;
	esac
}

kubectl_here()
{
	limited "$((seconds + margin))" kubectl ${namespace:+"--namespace=$namespace"} "$@"
}

# One that does not run (yet, or any more) will not answer, and is named.
list_nodes()
{
	(kubectl_here get pods --selector="$selector" --output='jsonpath={range .items[*]}{.metadata.name}{"\n"}{end}')
}

run_on()
{
	pod=$1
	shift
	kubectl_here exec --stdin "$pod" ${container:+"--container=$container"} -- sh -c "$node_program" sh "$@"
}

engine_options=l:n:c:C:
parse "$@"
shift $((OPTIND - 1))
[ -n "$selector" ] || wrong_use 'which pods? -l SELECTOR is missing'
if [ "$input" != /dev/null ]; then
	[ -z "$program" ] || wrong_use '-b and -C exclude each other'
	[ -r "$input" ] || wrong_use "cannot read $input"
	program=-
fi
[ $# -gt 0 ] || set -- --all-gpu
triage_nodes "$@"
