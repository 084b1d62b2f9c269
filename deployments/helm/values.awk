# The page of the reference with the chart's values: their types are in keys.yaml, their defaults and what they mean in
# values.yaml, where a comment directly above a key is about that key.
#
#   awk -f values.awk keys.yaml values.yaml

BEGIN {
    source = "../../deployments/helm/imex-dra/values.yaml"
    print "<!-- Generated. `deployments/helm/test.sh --update` brings it up to date. -->\n"
    print "# Values of the chart\n"
    print "In the order, and with the comments, of [values.yaml](" source "). A boolean may also be the string `true` or"
    print "`false`. Other keys are refused.\n"
    print "| value | type | default | |\n|---|---|---|---|"
}

/^ *#/ { text = $0; sub(/^ *# ?/, "", text); comment = comment (comment == "" ? "" : " ") text; next }

match($0, /^ *("\*"|[A-Za-z]+):/) {
    key = substr($0, 1, RLENGTH - 1)
    rest = substr($0, RLENGTH + 2)
    indent = match(key, /[^ ]/) - 1
    gsub(/[ "]/, "", key)
    level = indent / 2
    names[level] = key
    path = names[0]
    for (i = 1; i <= level; i++) path = path "." names[i]
    if (FILENAME ~ /keys\.yaml$/) {
        gsub(/^"|"$/, "", rest)
        type[path] = rest
        if (sub(/^unused: /, "", rest)) unused[++count] = "| `" path "` | " rest " |"
    } else if (path in type && (type[path] != "" || comment != ""))
        printf "| `%s` | %s | %s | %s |\n", path, type[path], initial(rest), escaped(comment)
}
{ comment = "" }

END {
    print "\n## Keys of NVIDIA's chart that have no effect\n"
    print "They are accepted, and named after the installation.\n"
    print "| key | why |\n|---|---|"
    for (i = 1; i <= count; i++) print unused[i]
}

function initial(text) {
    if (type[path] == "") return ""
    return text == "" ? "[set](" source ")" : "`" text "`"
}

function escaped(text) {
    gsub(/\|/, "\\|", text)
    gsub(/</, "\\&lt;", text)
    return text
}
