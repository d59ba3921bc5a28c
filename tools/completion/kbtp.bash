# bash completion for kbtp and kbtp-trace-gen. Subcommands and options are read from --help, so that what the
# installed program knows is what is offered.

_kbtp_words() {
  # The first words of the lines below "Subcommands:", and every --option of the help text.
  "$@" --help 2>/dev/null | awk '
    /^Subcommands:/ { subcommands = 1; next }
    /^[A-Z]/ { subcommands = 0 }
    subcommands && /^  [a-z]/ { print $1 }
    match($0, /--[a-z][-a-z]*/) && /^  -/ { print substr($0, RSTART, RLENGTH) }'
}

_kbtp() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} command=(kbtp) word
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case $word in
      -*) break ;;
      *) command+=("$word") ;;
    esac
  done
  if [[ ${command[*]} == "kbtp dissect"* && $previous == --output ]]; then
    mapfile -t COMPREPLY < <(compgen -W "text json summary svg" -- "$current")
    return
  fi
  case $previous in
    --config | --esp-keys | --input | --output | --json | --out | --target-log)
      mapfile -t COMPREPLY < <(compgen -f -- "$current")
      return
      ;;
    --crc) mapfile -t COMPREPLY < <(compgen -W "on off" -- "$current") && return ;;
    --wait) mapfile -t COMPREPLY < <(compgen -W "spin block" -- "$current") && return ;;
    --color) mapfile -t COMPREPLY < <(compgen -W "auto always never" -- "$current") && return ;;
    --mpa-revision) mapfile -t COMPREPLY < <(compgen -W "1 2" -- "$current") && return ;;
    --allow-for) mapfile -t COMPREPLY < <(compgen -W "siw" -- "$current") && return ;;
    --over) mapfile -t COMPREPLY < <(compgen -W "siw rxe" -- "$current") && return ;;
    --network) mapfile -t COMPREPLY < <(compgen -W "trusted untrusted" -- "$current") && return ;;
    --transport) mapfile -t COMPREPLY < <(compgen -W "rdmap verbs" -- "$current") && return ;;
    --congestion-control)
      mapfile -t COMPREPLY < <(compgen -W "$(cat /proc/sys/net/ipv4/tcp_available_congestion_control)" -- "$current")
      return
      ;;
  esac
  if [[ ${command[*]} == "kbtp dissect"* ]]; then
    case $previous in
      -i | --interface) mapfile -t COMPREPLY < <(compgen -W "$(ls /sys/class/net 2>/dev/null)" -- "$current") && return ;;
      -o) mapfile -t COMPREPLY < <(compgen -W "text json summary svg" -- "$current") && return ;;
    esac
  fi
  if [[ ${command[*]} == "kbtp "@(replay|dissect)* && $current != -* ]]; then
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
    return
  fi
  mapfile -t COMPREPLY < <(compgen -W "$(_kbtp_words "${command[@]}")" -- "$current")
}

_kbtp_trace_gen() {
  local current=${COMP_WORDS[COMP_CWORD]}
  if [[ ${COMP_WORDS[COMP_CWORD - 1]} == --output ]]; then
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
    return
  fi
  mapfile -t COMPREPLY < <(compgen -W "$(_kbtp_words kbtp-trace-gen)" -- "$current")
}

complete -F _kbtp kbtp
complete -F _kbtp_trace_gen kbtp-trace-gen
