# Checks that GitHub renders every table of Markdown files: a row of dashes follows the first row, and each row has
# as many cells as the first.
#
#   awk -f fences.awk -f tables.awk FILE...
#
# Prints FILE:LINE: and the error, and fails.

/^ *\|/ {
    rows = FNR == last + 1 ? rows + 1 : 1
    last = FNR
    if (rows == 1) cells = count($0)
    else if (count($0) != cells) complain("this row has " count($0) " cells, but the table's first row has " cells)
    if (rows == 2 && $0 !~ /^ *\|[ :|-]*-[ :|-]*$/)
        complain("the second row of a table must be |---|; otherwise GitHub does not render it")
    next
}

rows == 1 && FNR == last + 1 { complain("the row above is a table without heading; remove the empty line before it") }

END { exit wrong }

# A bar after a backslash is text. A bar in code is text for most renderers, not for all, so write \| there, too.
function count(row) {
    gsub(/\\\|/, "", row)
    sub(/\| *$/, "", row)
    return gsub(/\|/, "", row)
}

function complain(reason) {
    printf "%s:%d: %s\n", FILENAME, FNR, reason
    wrong = 1
}
