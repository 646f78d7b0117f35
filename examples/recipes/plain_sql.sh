#!/usr/bin/env bash
# An agent's turn in plain SQL: what was said goes in, the summary, what has just left the window, and the window come out.
# Give the file of an SQLite database, or the address of a PostgreSQL one; `recapd serve` on the same database does the rest.
#
#   plain_sql.sh DATABASE AGENT QUESTION ANSWER
set -euo pipefail

database=$1 agent=$2
quoted() { printf "'%s'" "${1//\'/\'\'}"; }
sql() {
  case $database in
    postgres://* | postgresql://*) psql "$database" -XqAt -v ON_ERROR_STOP=1 -c "$1" ;;
    *) sqlite3 -cmd '.timeout 30000' "$database" "$1" ;;
  esac
}

# Ids of one's own make it harmless to insert again after an error, and tell what became of a message.
turn=$(date +%s%N) of_agent="WHERE agent_id = $(quoted "$agent")"
sql "INSERT INTO messages (agent_id, role, content, client_id) VALUES
  ($(quoted "$agent"), 'user', $(quoted "$3"), 'turn-$turn-question'),
  ($(quoted "$agent"), 'assistant', $(quoted "$4"), 'turn-$turn-answer')"

# What is inserted waits until a daemon takes it in, the answer behind the question; so the window is asked for when that is
# done. Of what the daemon refuses it says why.
patience_s=${PATIENCE_S:-5}
of_answer="$of_agent AND client_id = 'turn-$turn-answer'"
until [[ $(sql "SELECT 1 FROM messages $of_answer UNION ALL SELECT 1 FROM refused_messages $of_answer") ]]; do
  if ((SECONDS >= patience_s)); then
    printf 'No daemon has taken in this turn within %s s: is recapd serve running on this database?\n' "$patience_s" >&2
    break
  fi
  sleep 0.1
done
sql "SELECT 'Refused: ' || reason FROM refused_messages $of_agent AND client_id LIKE 'turn-$turn-%' ORDER BY id" >&2

# What to send next: the summary of what has left the window, a line for each exchange that it doesn't tell of yet (of very
# many the newest), and the window. Read from the end: what moves on meanwhile is read twice then, and never missed.
lines_max=50
window=$(sql "SELECT role || ': ' || content FROM messages $of_agent AND in_sliding_window = TRUE ORDER BY id")
older=$(sql "SELECT count(*) - $lines_max FROM agent_pending $of_agent")
pending=$(sql "SELECT '- ' || digest || ' (#' || exchange_id || ')' FROM (SELECT digest, exchange_id FROM agent_pending
  $of_agent ORDER BY exchange_id DESC LIMIT $lines_max) AS newest ORDER BY exchange_id")
summary=$(sql "SELECT content FROM agent_summary $of_agent")

printf '%s\n' "$summary"
if [[ $pending ]]; then
  printf '## Just Left the Window\n'
  if ((older > 0)); then printf -- '- %s exchanges before these wait, too\n' "$older"; fi
  printf '%s\n\n' "$pending"
fi
printf '%s\n' "$window"
