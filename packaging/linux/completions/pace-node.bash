# Made from the tables of options and of verbs by make docs; do not edit.
_pace_node() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
	# A = breaks the word in two.
	if [[ $cur == = ]]; then cur=; elif [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi
	COMPREPLY=()
	case $prev in
	--log-level)
		mapfile -t COMPREPLY < <(compgen -W 'debug info warn error' -- "$cur")
		return ;;
	--log-format)
		mapfile -t COMPREPLY < <(compgen -W 'text json' -- "$cur")
		return ;;
	--provision-mode)
		mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$cur")
		return ;;
	--provision-upgrades)
		mapfile -t COMPREPLY < <(compgen -W 'off required optional' -- "$cur")
		return ;;
	--enroll-approve|--enroll-reject|--enroll-auto-approve|--cluster-admit|--cluster-admit-learner|--cluster-forget|--cluster-set|--name|--label|--listen|--listen-raft|--advertise|--discovery|--discovery-interface|--discovery-reply-port|--fleet-seed|--fleet-id|--admin-listen|--alert-exec|--provision-interval|--provision-workers|--provision-queue|--provision-helper|--provision-helper-timeout|--provision-component|--provision-deny|--provision-repository|--provision-release-key|--service-name|--firewall-allow|--scheduler) return ;;
	--state-dir|--config|--admin-tls-cert|--admin-tls-key|--admin-token-file|--provision-default)
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		compopt -o filenames
		return ;;
	esac
	mapfile -t COMPREPLY < <(compgen -W '--admin-listen= --admin-tls-cert= --admin-tls-key= --admin-token-file= --advertise= --alert-exec= --apply-upgrade --check-arguments --cluster-admit-learner= --cluster-admit= --cluster-forget= --cluster-set= --cluster-status --config= --discovery-interface= --discovery-loopback --discovery-reply-port= --discovery= --enroll-approve= --enroll-auto-approve= --enroll-clear --enroll-list --enroll-reject= --firewall-allow= --fleet-id= --fleet-seed= --help --install-service --json --label= --listen-raft= --listen= --log-format= --log-level= --name= --print-identity --print-surfaces --provision-component= --provision-default= --provision-deny= --provision-helper-timeout= --provision-helper= --provision-interval= --provision-mode= --provision-pki --provision-queue= --provision-release-key= --provision-repository= --provision-upgrades= --provision-workers= --reset-identity --run-hooks --scheduler= --service-name= --state-dir= --uninstall-service --version' -- "$cur")
	[[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace
	return 0
}

_pacectl() {
	local cur=${COMP_WORDS[COMP_CWORD]} flag='' before='' word words=() at=() machines=() value=0 goes=0
	# = and : break a word in several, so what follows one is the rest of a flag's value and no word.
	for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
		case $word in
		=) if [[ $before == --* ]]; then flag=$before value=1; fi ;;
		:) value=1; [ $goes -eq 1 ] && at[${#at[@]}-1]+=: ;;
		*)
			if [ $value -eq 1 ]; then
				value=0
				[ $goes -eq 1 ] && at[${#at[@]}-1]+=$word
			else
				goes=0 flag=''
				case $word in
				--state-dir|--config|--scheduler) flag=$word value=1 goes=1; at+=("$word=") ;;
				--yes|--passphrase-file|--key|--stale-for|--since|--limit) flag=$word value=1 ;;
				-*) ;;
				*) words+=("$word") ;;
				esac
			fi ;;
		esac
		before=$word
	done
	case $cur in
	=) if [[ $before == --* ]]; then flag=$before cur='' value=1; fi ;;
	:) flag='' value=1 ;;
	esac
	COMPREPLY=()
	if [ $value -eq 1 ]; then
		case $flag in
		--state-dir|--config|--passphrase-file|--key)
			mapfile -t COMPREPLY < <(compgen -f -- "$cur")
			compopt -o filenames ;;
		esac
		return 0
	fi
	if [[ $cur == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W '--state-dir= --config= --scheduler= --json --dry-run --force --yes= --passphrase-file= --key= --stale-for= --since= --limit=' -- "$cur")
		[[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace
		return 0
	fi
	case "${words[*]}" in
	'') mapfile -t COMPREPLY < <(compgen -W 'identity node fleet enroll member queue release watch audit doctor dashboard completion' -- "$cur") ;;
	'fleet') mapfile -t COMPREPLY < <(compgen -W 'status transfer leave recover accept backup restore set' -- "$cur") ;;
	'enroll') mapfile -t COMPREPLY < <(compgen -W 'list approve reject clear window preapprove' -- "$cur") ;;
	'member') mapfile -t COMPREPLY < <(compgen -W 'admit demote list show stale forget' -- "$cur") ;;
	'queue') mapfile -t COMPREPLY < <(compgen -W 'list show history retry drop reprovision pause resume run-helper' -- "$cur") ;;
	'release') mapfile -t COMPREPLY < <(compgen -W 'key new sign verify' -- "$cur") ;;
	'completion') mapfile -t COMPREPLY < <(compgen -W 'bash zsh fish powershell' -- "$cur") ;;
	'fleet transfer'|'member demote'|'member show'|'member forget'|'queue show'|'queue history'|'queue retry'|'queue drop'|'queue reprovision'|'queue run-helper'|'audit')
		# compgen would expand what it is given.
		mapfile -t machines < <("${COMP_WORDS[0]/#\~\//$HOME/}" "${at[@]}" completion machines 2>/dev/null)
		for word in "${machines[@]}"; do
			[[ $word == "$cur"* ]] && COMPREPLY+=("$word")
		done ;;
	'fleet backup'|'fleet restore'|'release key'|'release new'|'release sign'|'release verify')
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		compopt -o filenames ;;
	esac
	return 0
}

complete -F _pace_node pace-node
complete -F _pacectl pacectl
