# Checks that every key that a documented helm command sets is a value of its chart.
#
#   awk -v charts=DIR -f keys.awk FILE...
#
# A command that names DIR/CHART sets values of that chart. Commands that name another repository's chart, and those
# of nvidia-ctk, are skipped. All others set values of imex-dra. Prints FILE:LINE: and the key, and fails.

FNR == 1 { command = "" }
command == "" { start = FNR }
/\\$/ { command = command substr($0, 1, length($0) - 1) " "; next }
{
    command = command $0
    if (command ~ /--set/) judge(command)
    command = ""
}

END { exit wrong }

function judge(command, chart, rest, words, n, i) {
    chart = "imex-dra"
    if (match(command, /deployments\/helm\/[a-z-]+/)) chart = substr(command, RSTART + 17, RLENGTH - 17)
    else if (command ~ /helm .*[ ](nvidia|oci:\/)\// || command ~ /nvidia-ctk/) return
    load(chart)
    # \, is part of a value, \. of a key.
    gsub(/\\,/, "", command)
    gsub(/\\\./, "_", command)
    rest = command
    while (match(rest, /--set(-string|-json|-file)?[ =]'?"?/)) {
        rest = substr(rest, RSTART + RLENGTH)
        words = rest
        sub(/[ '"`)].*/, "", words)
        n = split(words, pairs, ",")
        for (i = 1; i <= n; i++) if (pairs[i] ~ /=/) judge_key(chart, pairs[i])
    }
}

function judge_key(chart, key, part) {
    sub(/=.*/, "", key)
    gsub(/\[[0-9]+\]/, "", key)
    for (part = key; part != ""; ) {
        if (type[chart, part] != "") {
            if (part == key || type[chart, part] ~ /^(map|list|\{\}|\[\]|unused)/) return
            break
        }
        if (!sub(/\.[^.]*$/, "", part)) break
    }
    printf "%s:%d: the chart %s has no value %s\n", FILENAME, start, chart, key
    wrong = 1
}

# Loads the keys of a chart: from keys.yaml, which has their types, or values.yaml.
function load(chart, path, line, depth, name, value, stack, i, key) {
    if (loaded[chart]++) return
    path = charts "/" chart "/keys.yaml"
    if ((getline line < path) < 0) path = charts "/" chart "/values.yaml"
    else close(path)
    while ((getline line < path) > 0) {
        if (line !~ /^ *[A-Za-z*"][^:]*:/) continue
        match(line, /^ */)
        depth = RLENGTH / 2
        name = value = substr(line, RLENGTH + 1)
        sub(/:.*/, "", name)
        sub(/^[^:]*: */, "", value)
        gsub(/^"/, "", value)
        stack[depth] = name
        key = stack[0]
        for (i = 1; i <= depth; i++) key = key "." stack[i]
        type[chart, key] = value == "" ? "object" : value
    }
    close(path)
}
