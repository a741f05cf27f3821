# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154
#
# The clients' contract for command-line tools; sourced, with the arguments of
# the client. A case is a function do_NAME; it leaves what a tool received in
# files below $out, one status a line in $statuses, and may set the other
# variables of an answer.
set -euo pipefail
# shellcheck source=test/interop/paths.sh
source "$(dirname "${BASH_SOURCE[0]}")/../paths.sh"

base=$1 files=$2 scratch=$3
out=$scratch/out
statuses=$scratch/statuses
errors=$scratch/errors

# Seconds a tool may take.
patience=30

# serve: answers cases until standard input ends.
serve() {
	local name code
	while read -r name; do
		rm -rf "$out"
		mkdir "$out"
		: >"$statuses"
		sha256='' bytes=0 length=0 trailer='' continued=false
		# Standard input is the test's, not the tool's. Bash heeds "set -e" in a subshell that is no condition.
		set +e
		(set -e; "do_${name//-/_}"; answer) </dev/null >"$scratch/answer" 2>"$errors"
		code=$?
		set -e
		report "$code"
	done
}

# report CODE: the answer of a case that ended with this code.
report() {
	if (($1 == 0)); then
		tail -n 1 "$scratch/answer"
		return
	fi
	printf '{"error":"exit code %d: %s"}\n' "$1" "$(tail -c 2000 "$errors" | tr -c '[:alnum:] .,:/()_=-' ' ')"
}

answer() {
	printf '{"statuses":%s,"sha256":"%s","bytes":%d,"length":%d,"trailer":"%s","continued":%s}\n' \
		"$(count_statuses)" "$sha256" "$bytes" "${length:-0}" "$trailer" "$continued"
}

# count_statuses: the lines of $statuses as a JSON object of counts.
count_statuses() {
	sort "$statuses" | uniq -c | awk '
		{ printf "%s\"%s\":%d", (NR > 1 ? "," : "{"), $2, $1 }
		END { print NR ? "}" : "{}" }'
}

# digest FILE...: the SHA-256 of the contents, one after another.
digest() { cat "$@" | sha256sum | cut -d ' ' -f 1; }

# field NAME FILE: the value of a header field in a file of heads.
field() { sed -n "s/^[[:space:]]*$1:[[:space:]]*\([^[:space:]]*\).*/\1/Ip" "$2" | head -n 1; }

# status_lines FILE: the statuses of final responses in a file of heads.
status_lines() { sed -n 's/^[[:space:]]*HTTP\/1\.1 \([2-5][0-9][0-9]\).*/\1/p' "$1"; }
