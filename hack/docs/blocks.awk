# Splits a page into the blocks that hack/docs.sh runs.
#
#   awk -v out=DIR -f blocks.awk PAGE
#
# Writes the text of each block to DIR/NUMBER and prints a line: NUMBER, line in the page, action and the action's
# words, separated by tabs.
#
# A comment on a separate line before the block names the action:
#
#   run: cluster NODES [--mode M]  before the first block: gives the page a fresh cluster of NODES GPU nodes
#                                  (options of hack/gpu-nodes.sh)
#   run: installed NODES [--mode M] [--set A=B]...   likewise, and installs the chart (hack/install.sh)
#   run: shared NODES [--mode M] [--set A=B]...      likewise; consecutive pages with the same comment share one
#                                  cluster and must leave nothing on it
#   run: hosts MODE                switches the hosts as the text above describes: nvidia-imex runs on the host
#                                  (hostManaged), or the driver will run it (driverManaged)
#   run: none REASON               the next block cannot be run here
#   run: prints WORDS              the next block succeeds and prints these words
#   run: refused WORDS             the next block fails and prints these words
#   run: file NAME                 the next block is the content of a file that later blocks use
#   run: only here                 the rest of this comment, over several lines, is commands that readers do not need

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
