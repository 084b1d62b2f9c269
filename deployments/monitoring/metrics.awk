# Whether expressions of PromQL name metrics, labels and values that there are.
#
#   awk -F '\t' -f metrics.awk PAGE.md... EXPRESSIONS
#
# Pages have rows | `METRIC{LABEL,LABEL}` | meaning, with `VALUE`s |. The last file has a line for each expression:
# where it is from, a tab, the expression. Prints what is wrong, and fails.

BEGIN {
    # Of a target, whoever scrapes it, and of the buckets of histograms.
    split("job instance namespace pod node le", names, " ")
    for (i in names) of_targets[names[i]] = 1
    known["up"] = 1
}

FILENAME ~ /\.md$/ {
    if ($0 !~ /^\| `(imex|nvidia)_dra_/) next
    split($0, parts, "`")
    name = parts[2]
    sub(/\{.*/, "", name)
    known[name] = 1
    labels = parts[2]
    if (sub(/^[^{]*\{/, "", labels)) {
        sub(/\}$/, "", labels)
        count = split(labels, names, ",")
        for (i = 1; i <= count; i++) { has[name, names[i]] = 1; any_label[names[i]] = 1 }
    }
    # Every second part is between backticks.
    count = split($0, parts, "`")
    for (i = 4; i <= count; i += 2) value_of[name, parts[i]] = 1
    next
}

{
    rest = $2
    while (match(rest, /(imex|nvidia)_dra_[a-z_]+/)) {
        name = substr(rest, RSTART, RLENGTH)
        rest = substr(rest, RSTART + RLENGTH)
        if (!(name in known)) sub(/_(bucket|sum|count)$/, "", name)
        if (!(name in known)) wrong_with("no program has the metric " name)
        else if (rest ~ /^\{/) judge_matchers(name, substr(rest, 2, index(rest, "}") - 2))
    }
    rest = $2
    while (match(rest, /(by|without|on|ignoring) \([^)]*\)/)) {
        labels = substr(rest, RSTART, RLENGTH)
        rest = substr(rest, RSTART + RLENGTH)
        gsub(/^[a-z]+ \(|\)$/, "", labels)
        count = split(labels, names, /, */)
        for (i = 1; i <= count; i++)
            if (!(names[i] in any_label || names[i] in of_targets)) wrong_with("no metric has the label " names[i])
    }
}

END {
    if (!NR || !("imex_dra_leader" in known)) { print "found no table of metrics"; wrong = 1 }
    exit wrong
}

function judge_matchers(name, text,    matchers, count, i, label, values, number, j) {
    count = split(text, matchers, /, */)
    for (i = 1; i <= count; i++) {
        label = values = matchers[i]
        sub(/[=!~].*/, "", label)
        if (label in of_targets) continue
        if (!((name, label) in has)) { wrong_with(name " has no label " label); continue }
        gsub(/^[^"]*"|"$/, "", values)
        number = split(values, each, /[|]/)
        for (j = 1; j <= number; j++)
            if (!((name, each[j]) in value_of)) wrong_with("the table of metrics knows no " label "=" each[j] " of " name)
    }
}

function wrong_with(text) {
    print "FAILED: " $1 ": " text | "cat >&2"
    wrong = 1
}
