# SPDX-License-Identifier: Apache-2.0
# bash completion of vramtap. Commands and options are those that the program's own --help lists.
# shellcheck shell=bash

_vramtap_commands()
{
	"$1" --help 2>/dev/null | sed -n '/^Commands:/,/^$/s/^  \([a-z][a-z-]*\) .*/\1/p'
}

# "--name", "--name=VALUE", or "-x" and its long name in the next line.
_vramtap_options()
{
	"$1" "$2" --help 2>/dev/null | sed -n 's/^  \(-[A-Za-z?]\), /\1\n      /;s/^\(-.\n\)\{0,1\}      \(--[a-z][^ ]*\).*/\1\2/p'
}

_vramtap_pids()
{
	local status name uid kernel
	for status in /proc/[0-9]*/status; do
		uid=
		kernel=1
		while read -r name value _; do
			case $name in
			Uid:) uid=$value ;;
			VmSize:) kernel= ;;
			esac
		done <"$status"
		[ -n "$kernel" ] || [ "$EUID" != 0 ] && [ "$uid" != "$EUID" ] || printf '%s\n' "${status//[!0-9]/}"
	done 2>/dev/null
}

# The values of the option $1 of which --help says VALUE: words where there are few, else files or PIDs.
_vramtap_values()
{
	case $1=$2 in
	--color=*) compgen -W 'auto always never' -- "$3" ;;
	--threads=*) compgen -W 'groups all python main' -- "$3" ;;
	--by=*) compgen -W 'category module variable type' -- "$3" ;;
	*=PID) compgen -W "$(_vramtap_pids)" -- "$3" ;;
	*=FILE | *=CORE | *=PATH | *=DIR) compgen -f -- "$3" ;;
	esac
}

_vramtap()
{
	local program=$1 current=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} option='' value='' wanted i
	COMPREPLY=()
	if [ "$COMP_CWORD" = 1 ]; then
		mapfile -t COMPREPLY < <(compgen -W "$(_vramtap_commands "$program") help --help --version" -- "$current")
		return
	fi
	if [ "$command" = help ]; then
		mapfile -t COMPREPLY < <(compgen -W "$(_vramtap_commands "$program")" -- "$current")
		return
	fi
	# After vramtap run -- or the first word that is no option, another program's command line begins.
	if [ "$command" = run ] || [ "$command" = gdb-script ]; then
		for ((i = 2; i < COMP_CWORD; i++)); do
			case ${COMP_WORDS[i]} in
			--) ((i++)) && break ;;
			-* | =) ;;
			*) [ "${COMP_WORDS[i - 1]}" = '=' ] || break ;;
			esac
		done
		if [ "$i" -lt "$COMP_CWORD" ] || [ "${COMP_WORDS[COMP_CWORD - 1]}" = -- ]; then
			if declare -F _command_offset >/dev/null; then
				_command_offset "$i"
			else
				mapfile -t COMPREPLY < <(compgen -f -- "$current")
			fi
			return
		fi
	fi
	# bash breaks words at "=": "--color = au".
	if [ "$current" = '=' ]; then
		option=${COMP_WORDS[COMP_CWORD - 1]}
		current=
	elif [ "${COMP_WORDS[COMP_CWORD - 1]}" = '=' ]; then
		option=${COMP_WORDS[COMP_CWORD - 2]}
	elif [[ ${COMP_WORDS[COMP_CWORD - 1]} == -* && $current != -* ]]; then
		option=${COMP_WORDS[COMP_CWORD - 1]}
	fi
	if [[ $option == -* ]]; then
		value=$(_vramtap_options "$program" "$command" | sed -n "s/^${option}=//p")
		# -o FILE: a short option has the value of the long one in the next line.
		[[ $option == --* ]] || value=$(_vramtap_options "$program" "$command" | sed -n "/^${option}\$/{n;s/^--[a-z-]*=//p;}")
	fi
	if [ -n "$value" ]; then
		[[ $value =~ ^(FILE|CORE|PATH|DIR)$ ]] && compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(_vramtap_values "$option" "$value" "$current")
		return
	fi
	case $current in
	-*) wanted=$(_vramtap_options "$program" "$command" | sed 's/=.*/=/;s/\[=.*//') ;;
	*)
		case $command in
		diff | html)
			compopt -o filenames 2>/dev/null
			mapfile -t COMPREPLY < <(compgen -f -- "$current")
			return
			;;
		record) wanted="$(_vramtap_pids) on status off" ;;
		gdb-script) wanted='gdb cuda-gdb' ;;
		run)
			mapfile -t COMPREPLY < <(compgen -c -- "$current")
			return
			;;
		*) wanted=$(_vramtap_pids) ;;
		esac
		;;
	esac
	mapfile -t COMPREPLY < <(compgen -W "$wanted" -- "$current")
	if [[ ${COMPREPLY[0]} == *= && ${#COMPREPLY[@]} == 1 ]]; then
		compopt -o nospace 2>/dev/null
	fi
}

complete -F _vramtap vramtap
