#!/usr/bin/env bash
# Gives the Claude Code of one project a memory: its hooks hand recapd what is said, and each new session is told what was
# done before it. Run it in the project's folder, with recapd in the PATH; `recapd hook uninstall claude-code` undoes it.
#
#   claude_code_hooks.sh [SERVER]       http://127.0.0.1:7411 if it isn't said
set -euo pipefail

server=${1:-http://127.0.0.1:7411}

curl --silent --fail --output /dev/null "$server/readyz" ||
  echo "no daemon at $server yet: until \`recapd serve\` runs, the hooks keep what is said in a spool" >&2

recapd hook install claude-code --project --yes --server "$server"

# What a session that starts now would be told; nothing, before the first one.
printf '{"session_id": "try", "cwd": "%s", "source": "startup"}' "$PWD" |
  recapd hook test --host claude-code --event SessionStart --server "$server"
