# Leaves out what is in fences of Markdown files, and the fences: there are no headings, links or tables.
#
#   awk -f fences.awk -f RULES.awk FILE...

FNR == 1 { fence = "" }

fence == "" && match($0, /^ *(```+|~~~+)/) {
    fence = substr($0, 1, RLENGTH)
    gsub(/ /, "", fence)
    next
}
fence != "" {
    line = $0
    gsub(/^ +| +$/, "", line)
    if (index(line, fence) == 1 && line ~ /^(`+|~+)$/) fence = ""
    next
}
