# Made from the tables of options and of verbs by make docs; do not edit.
function __pacectl_said -d 'the words before the cursor, without flags and their values'
    set -l tokens (commandline -opc)
    set -e tokens[1]
    set -l said
    set -l value 0
    for word in $tokens
        if test $value = 1
            set value 0
            continue
        end
        switch $word
            case --state-dir --config --scheduler --yes --passphrase-file --key --stale-for --since --limit
                set value 1
            case '-*'
            case '*'
                set said $said $word
        end
    end
    string join -- ' ' $said
end

function __pacectl_is -d 'whether those words are one of these'
    set -l said (__pacectl_said)
    contains -- "$said" $argv
end

function __pacectl_machines -d 'the machines that the node knows which is asked'
    set -l tokens (commandline -opc)
    set -l at
    set -l want ''
    for word in $tokens[2..-1]
        if test -n "$want"
            set at $at "$want=$word"
            set want ''
            continue
        end
        switch $word
            case --state-dir --config --scheduler
                set want $word
            case '--state-dir=*' '--config=*' '--scheduler=*'
                set at $at $word
        end
    end
    $tokens[1] $at completion machines 2>/dev/null
end

complete -c pacectl -f
complete -c pacectl -n '__pacectl_is '\'''\''' -a 'identity node fleet enroll member queue release watch audit doctor dashboard completion'
complete -c pacectl -n '__pacectl_is fleet' -a status -d 'the fleet, its members, settings and conditions'
complete -c pacectl -n '__pacectl_is fleet' -a transfer -d 'have another voter lead the fleet: the one named, or any'
complete -c pacectl -n '__pacectl_is fleet' -a leave -d 'take this machine out of its fleet, or give up what it asks; its key is not revoked'
complete -c pacectl -n '__pacectl_is fleet' -a recover -d 'make this machine the only voter of its fleet, whose voters are lost for good'
complete -c pacectl -n '__pacectl_is fleet' -a accept -d 'follow the machine of that key, which recovered this machine'\''s fleet'
complete -c pacectl -n '__pacectl_is fleet' -a backup -d 'seal this voter, its key and the fleet'\''s state into a file'
complete -c pacectl -n '__pacectl_is fleet' -a restore -d 'make this machine, whose node is stopped, the one that a backup holds: the only voter of its fleet'
complete -c pacectl -n '__pacectl_is enroll' -a list -d 'the machines that wait, each with its key'
complete -c pacectl -n '__pacectl_is enroll' -a approve -d 'admit a waiting machine whose key you have compared'
complete -c pacectl -n '__pacectl_is enroll' -a reject -d 'refuse a waiting machine'
complete -c pacectl -n '__pacectl_is enroll' -a clear -d 'drop every row of the waiting list'
complete -c pacectl -n '__pacectl_is enroll' -a window -d 'admit whoever asks, unseen, for at most 24h'
complete -c pacectl -n '__pacectl_is enroll' -a preapprove -d 'admit machines before they ask'
complete -c pacectl -n '__pacectl_is member' -a admit -d 'make a machine a voter, or record where a voter moved'
complete -c pacectl -n '__pacectl_is member' -a demote -d 'make a voter a learner again, or take a promotion back'
complete -c pacectl -n '__pacectl_is member' -a list -d 'the members of the fleet'
complete -c pacectl -n '__pacectl_is member' -a show -d 'one member'
complete -c pacectl -n '__pacectl_is member' -a stale -d 'the members that were not heard for long'
complete -c pacectl -n '__pacectl_is member' -a forget -d 'remove a member and revoke its key for ever'
complete -c pacectl -n '__pacectl_is fleet' -a set -d 'change a setting of the fleet'
complete -c pacectl -n '__pacectl_is queue' -a list -d 'the provisioning queue'
complete -c pacectl -n '__pacectl_is queue' -a show -d 'one machine of the queue'
complete -c pacectl -n '__pacectl_is queue' -a history -d 'the past runs of one machine'
complete -c pacectl -n '__pacectl_is queue' -a retry -d 'try a machine again now'
complete -c pacectl -n '__pacectl_is queue' -a drop -d 'take a machine out of the queue'
complete -c pacectl -n '__pacectl_is queue' -a reprovision -d 'provision a machine anew'
complete -c pacectl -n '__pacectl_is queue' -a pause -d 'hold the queue: no further run is begun'
complete -c pacectl -n '__pacectl_is queue' -a resume -d 'let a queue that was paused go on'
complete -c pacectl -n '__pacectl_is queue' -a run-helper -d 'ask the helper about a machine and configure nothing'
complete -c pacectl -n '__pacectl_is release' -a key -d 'make a release key: the secret one sealed in FILE, the public one in FILE.pub'
complete -c pacectl -n '__pacectl_is release' -a new -d 'put a version'\''s programs into a release repository'
complete -c pacectl -n '__pacectl_is release' -a sign -d 'sign a version of a release repository'
complete -c pacectl -n '__pacectl_is release' -a verify -d 'check a version'\''s signature and each of its programs'
complete -c pacectl -n '__pacectl_is completion' -a 'bash zsh fish powershell'
complete -c pacectl -n '__pacectl_is "fleet transfer" "member demote" "member show" "member forget" "queue show" "queue history" "queue retry" "queue drop" "queue reprovision" "queue run-helper" "audit"' -a '(__pacectl_machines)'
complete -c pacectl -n '__pacectl_is "fleet backup" "fleet restore" "release key" "release new" "release sign" "release verify"' -F
complete -c pacectl -l state-dir -r -F -d 'where identity and state are kept; refused if others can write it or read the key'
complete -c pacectl -l config -r -F -d 'a YAML file with these options as keys, underscores for dashes'
complete -c pacectl -l scheduler -x -d 'send a verb to another machine'\''s 0xFC endpoint under this machine'\''s key'
complete -c pacectl -l json -d 'answer a verb with exactly one JSON value on stdout, in failure too'
complete -c pacectl -l dry-run -d 'may be left out: nothing is configured either way'
complete -c pacectl -l force -d 'go alone, without asking the fleet, which still lists this machine then'
complete -c pacectl -l yes -x -d 'the fleet'\''s id, given back without being asked for it: for scripts'
complete -c pacectl -l passphrase-file -r -F -d 'the file whose one line is the passphrase, - for stdin; never the passphrase itself'
complete -c pacectl -l key -r -F -d 'the release key: to sign, the file of the secret one; to verify, the public one or its file'
complete -c pacectl -l stale-for -x -d 'how long it was not heard, such as 720h or 30d; member forget takes every such learner, after a preview'
complete -c pacectl -l since -x -d 'only what was done within so long, such as 24h'
complete -c pacectl -l limit -x -d 'only the newest so many entries'
