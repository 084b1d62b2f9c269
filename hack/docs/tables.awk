# Whether every table of Markdown files is one to a forge: below its first row is one of dashes, and each
# row has as many cells as the first.
#
#   awk -f fences.awk -f tables.awk FILE...
#
# Prints FILE:LINE: and what is wrong, and fails.

/^ *\|/ {
    rows = FNR == last + 1 ? rows + 1 : 1
    last = FNR
    if (rows == 1) cells = count($0)
    else if (count($0) != cells) complain("this row has " count($0) " cells, and the table's first row " cells)
    if (rows == 2 && $0 !~ /^ *\|[ :|-]*-[ :|-]*$/)
        complain("this row is not |---| though it is the second one of a table, so that a forge shows none")
    next
}

rows == 1 && FNR == last + 1 { complain("the row above is a table of its own, without heading: an empty line before it?") }

END { exit wrong }

# A bar behind a backslash, or in code, is text to most, but not to all forges: those have a backslash here.
function count(row) {
    gsub(/\\\|/, "", row)
    sub(/\| *$/, "", row)
    return gsub(/\|/, "", row)
}

function complain(reason) {
    printf "%s:%d: %s\n", FILENAME, FNR, reason
    wrong = 1
}
