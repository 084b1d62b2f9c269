# Splits a page into what hack/docs.sh does with it.
#
#   awk -v out=DIR -f blocks.awk PAGE
#
# The text of each block that has a part in it becomes DIR/NUMBER, and a line on stdout says: NUMBER, the line
# in the page, what is done with it, and with which words, separated by tabs.
#
# A comment says what, on a line of its own before the block:
#
#   run: cluster NODES [--mode M]  before the first block: the page has a fresh cluster of so many GPU nodes
#                                  (options of hack/gpu-nodes.sh)
#   run: installed NODES [--mode M] [--set A=B]...   likewise, and the chart is installed (hack/install.sh)
#   run: shared NODES [--mode M] [--set A=B]...      likewise; pages with the same comment that follow each other
#                                  share one cluster, and leave nothing on it
#   run: hosts MODE                what is written above for the hosts is done: they run nvidia-imex (hostManaged), or the driver
#                                  is to run it (driverManaged)
#   run: none REASON               the next block cannot be run here
#   run: prints WORDS              it succeeds, and prints these words
#   run: refused WORDS             it fails, and prints these words
#   run: file NAME                 it is the content of a file that later blocks use
#   run: only here                 the comment goes on, up to its end, with commands that readers do not need

/^ *<!-- run: only here$/ { body = ""; hidden = FNR; indent = match($0, /</) - 1; next }
hidden && /^ *-->$/ { emit(hidden, "hidden", "", body); hidden = 0; next }
hidden { body = body substr($0, indent + 1) "\n"; next }

/^ *<!-- run: .* -->$/ && !fence {
    marker = $0
    sub(/^ *<!-- run: /, "", marker)
    sub(/ -->$/, "", marker)
    what = marker
    sub(/ .*/, "", what)
    words = substr(marker, length(what) + 2)
    if (what ~ /^(cluster|installed|shared|hosts)$/) { emit(FNR, what, words, ""); what = words = "" }
    else if (what !~ /^(none|prints|refused|file)$/ || words == "") emit(FNR, "unknown", marker, "")
    next
}

/^ *```/ && !fence {
    fence = FNR
    indent = match($0, /`/) - 1
    language = substr($0, indent + 4)
    body = ""
    next
}
/^ *```$/ && fence {
    if (language == "sh" || what == "file") emit(fence, what == "" ? "run" : what, words, body)
    else if (what != "") emit(fence, "unknown", what " before a block of " language, "")
    fence = 0
    what = words = ""
    next
}
fence { body = body substr($0, indent + 1) "\n"; next }
what != "" && !/^$/ { emit(FNR, "unknown", what " before no block", ""); what = "" }

function emit(line, what, words, body, file) {
    number++
    file = out "/" number
    printf "%s", body > file
    close(file)
    printf "%d\t%d\t%s\t%s\n", number, line, what, words
}
