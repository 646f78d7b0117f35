#!/usr/bin/env bash
# An agent's turn in plain SQL: what was said goes in, the window and the summary come out. Give the file of an SQLite
# database, or the address of a PostgreSQL one; `recapd serve` on the same database does the rest.
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

# Ids of one's own make it harmless to insert again after an error.
turn=$(date +%s%N)
sql "INSERT INTO messages (agent_id, role, content, client_id) VALUES
  ($(quoted "$agent"), 'user', $(quoted "$3"), 'turn-$turn-question'),
  ($(quoted "$agent"), 'assistant', $(quoted "$4"), 'turn-$turn-answer')"

# What to send next: the summary of what has left the window, and the window.
sql "SELECT content FROM agent_summary WHERE agent_id = $(quoted "$agent")"
sql "SELECT role || ': ' || content FROM messages
  WHERE agent_id = $(quoted "$agent") AND in_sliding_window = TRUE ORDER BY id"
