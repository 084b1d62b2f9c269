# Whether every table of Markdown files is one to a forge: below its first row is one of dashes, and each
# row has as many cells as the first.
#
#   awk -f tables.awk FILE...
#
# Prints FILE:LINE: and what is wrong, and fails.

FNR == 1 { fence = ""; rows = 0 }

# In a fence, there are no tables.
match($0, /^ *(```+|~~~+)/) {
    mark = substr($0, 1, RLENGTH)
    gsub(/ /, "", mark)
    if (fence == "") fence = mark
    else if (index(mark, fence) == 1) fence = ""
    rows = 0
    next
}
fence != "" { next }

/^ *\|/ {
    rows++
    if (rows == 1) cells = count($0)
    else if (count($0) != cells) complain("has " count($0) " cells, and the table's first row " cells)
    is_rule = $0 ~ /^ *\|[ :|-]+$/ && /-/
    if (rows == 2 && !is_rule) complain("is not |---| though it is the second one of a table, so that a forge shows none")
    next
}

rows == 1 { complain_above() }
{ rows = 0 }

END { exit wrong }

# A bar behind a backslash, or in code, is text to most, but not to all forges: those have a backslash here.
function count(row) {
    gsub(/\\\|/, "", row)
    sub(/\| *$/, "", row)
    return gsub(/\|/, "", row)
}

function complain(reason) {
    printf "%s:%d: this row %s\n", FILENAME, FNR, reason
    wrong = 1
}

function complain_above() {
    printf "%s:%d: the row above is a table of its own, without heading: an empty line before it?\n", FILENAME, FNR
    wrong = 1
}
