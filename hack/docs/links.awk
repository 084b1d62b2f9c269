# Checks that the target of every relative link and anchor in Markdown files exists.
#
#   awk -v files=LIST -f fences.awk -f links.awk pass=1 FILE... pass=2 FILE...
#
# LIST has the paths of all files of the repository, one on each line. Prints FILE:LINE: and the error, and fails.
# Anchors are those that GitHub makes from headings.

BEGIN {
    while ((getline path < files) > 0) {
        exists[path] = 1
        while (sub(/\/[^\/]*$/, "", path)) exists[path] = 1
    }
}

pass == 1 && /^#+ / {
    anchor = slug($0)
    seen = count[FILENAME, anchor]++
    if (seen) anchor = anchor "-" seen
    anchors[FILENAME "#" anchor] = 1
    next
}

pass == 2 {
    line = $0
    gsub(/`[^`]*`/, "", line)
    while (match(line, /\]\([^)]*\)/)) {
        target = substr(line, RSTART + 2, RLENGTH - 3)
        line = substr(line, RSTART + RLENGTH)
        judge(target)
    }
    if (line ~ /^\[[^]]+\]: /) {
        sub(/^\[[^]]+\]: */, "", line)
        judge(line)
    }
}

END { exit wrong }

function slug(heading) {
    sub(/^#+ +/, "", heading)
    sub(/ +#* *$/, "", heading)
    while (match(heading, /\]\([^)]*\)/))
        heading = substr(heading, 1, RSTART - 1) substr(heading, RSTART + RLENGTH)
    heading = tolower(heading)
    gsub(/[^a-z0-9 _-]/, "", heading)
    gsub(/ /, "-", heading)
    return heading
}

function judge(target, path, anchor) {
    sub(/ .*/, "", target)
    gsub(/^<|>$/, "", target)
    # A URL, or an item of rustdoc.
    if (target ~ /^[a-z]+:/ || target ~ /::/ || target == "") return
    path = target
    anchor = ""
    if (match(path, /#.*/)) {
        anchor = substr(path, RSTART + 1)
        path = substr(path, 1, RSTART - 1)
    }
    path = path == "" ? FILENAME : joined(FILENAME, path)
    if (path != "." && !(path in exists)) complain(target, "there is no " path)
    else if (anchor != "" && path ~ /\.md$/ && !((path "#" anchor) in anchors))
        complain(target, path " has no heading for #" anchor)
}

# Resolves a link in `from` to a path without dots.
function joined(from, to, parts, n, i, kept, m, path) {
    if (!sub(/\/[^\/]*$/, "", from)) from = ""
    n = split(from "/" to, parts, "/")
    m = 0
    for (i = 1; i <= n; i++) {
        if (parts[i] == "" || parts[i] == ".") continue
        if (parts[i] == ".." && m > 0) m--
        else kept[++m] = parts[i]
    }
    path = m ? kept[1] : "."
    for (i = 2; i <= m; i++) path = path "/" kept[i]
    return path
}

function complain(target, reason) {
    printf "%s:%d: broken link %s: %s\n", FILENAME, FNR, target, reason
    wrong = 1
}
