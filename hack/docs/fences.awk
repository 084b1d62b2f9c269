# Skips fenced blocks of Markdown files: headings, links and tables in them do not count.
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
