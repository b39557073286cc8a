#!/usr/bin/env bash
# Writes docs/settings.md from what the programs print with --help: of each setting its default and the
# first clause of its meaning. A setting that several programs share is listed once. With --check it
# changes nothing and fails when the file is not current.
set -euo pipefail
cd "$(dirname "$0")/.."
file=docs/settings.md
programs=(producer clearing-engine bank-simulator archiver bootstrap broker)

list() { # program, name, default and meaning of each setting, separated by tabs
	for program in "${programs[@]}"; do
		env -i "bin/$program" --help | # a meaning goes on below, at its column
			awk '/^  [A-Z_]+  / {if (setting != "") print setting; setting = $0; next} \
				/^ +/ && setting != "" {sub(/^ +/, " "); setting = setting $0} END {print setting}' |
			sed -E 's/;.*//; s/,? [0-9][^ ]*( MiB)? to [0-9][^ ]*( MiB)?$//; s/ \([^()]*\)$//' |
			awk -F '  +' -v program="$program" -v OFS='\t' '/^  [A-Z_]+  / && $4 !~ /^for tests only/ {
				name = $2; value = $3 == "(empty)" ? "" : $3; meaning = $4
				if (meaning !~ /^true: /) sub(/(: |, because |, so that |, such as ).*/, "", meaning)
				sub(/, and that [^,]*,/, "", meaning)
				if (value ~ /^[0-9][^:]*$/) sub(/, .*/, "", meaning) # of a number the name says most
				sub(/ while payments wait$/, "", meaning)
				print program, name, value, meaning
			}'
	done
}

render() {
	cat <<-'END'
		# Settings

		Environment variables with their defaults. A program checks all of them before it starts, and ends
		with exit code 2 and the name of one that is wrong. `PROGRAM --help` has the ranges, what is for
		tests only, and what only bank simulator and embedded broker take. `make settings` writes this file.
	END
	list | awk -F '\t' '
		{
			setting = $2 "\t" $3 "\t" $4
			if (!(setting in takers)) order[++count] = setting
			takers[setting] = takers[setting] (setting in takers && takers[setting] != "" ? ", " : "") $1
		}
		function group(several, who, i, j, field) { # the settings of several programs, or of one
			for (i = 1; i <= count; i++) {
				who = takers[order[i]]
				if ((who ~ /,/) != several || who in written || who ~ /^(bank-simulator|broker)$/) continue
				written[who] = 1
				print "\n## " who "\n\n```"
				for (j = i; j <= count; j++) {
					if (takers[order[j]] != who) continue
					split(order[j], field, "\t")
					line = sprintf("%-44s %s", field[1] "=" field[2], field[3])
					sub(/ +$/, "", line)
					print line
				}
				print "```"
			}
		}
		END {group(1); group(0)}'
}

for program in "${programs[@]}"; do
	wide=$(env -i "bin/$program" --help | LC_ALL=C.UTF-8 grep -E '^.{101}') || continue
	echo "$program --help has lines of more than 100 columns: $wide" >&2
	exit 1
done

if [ "${1:-}" = --check ]; then
	render | diff -u "$file" - >&2 || { echo "$file is not what the programs print with --help: run 'make settings'" >&2; exit 1; }
else
	mkdir -p docs
	render >"$file.new"
	mv "$file.new" "$file"
fi
