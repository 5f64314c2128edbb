# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2034,SC2154,SC2317,SC2329 # common.sh calls these functions, and has variables in common with them
# Many pods of Kubernetes by kubectl exec. $where: a selector of labels, as for kubectl get -l. The container needs sh. If it has tar
# and base64, the reports of all processes come back; otherwise only the pod's report.json, which has everything that is compared.
engine=kubectl
needs=kubectl
engine_options=n:c:
namespace=
container=

engine_option()
{
	case $1 in
	n) namespace=$2 ;;
	c) container=$2 ;;
	esac
}

# One that does not run (yet, or any more) will not answer, and is named.
list_nodes()
{
	call "$((seconds + margin))" kubectl ${namespace:+"--namespace=$namespace"} get pods --selector="$where" \
		--output='jsonpath={range .items[*]}{.metadata.name}{"\n"}{end}'
}

run_on()
{
	pod=$1
	shift
	limited "$((seconds + margin))" kubectl ${namespace:+"--namespace=$namespace"} exec --stdin "$pod" ${container:+"--container=$container"} \
		-- sh -c "$node_program" sh "$@"
}
