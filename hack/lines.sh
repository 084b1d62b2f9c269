#!/usr/bin/env bash
# Counts lines of code and words of documentation.
#
#   hack/lines.sh           lines of Rust by crate, of the chart and of scripts, words of Markdown by page
#   hack/lines.sh --total   the totals alone
#
# Empty lines do not count. The kind of a line of Rust depends on its file and `cfg`:
#   product    code of the programs and crates
#   docs       comments of product files, doc examples included
#   support    code for tests and developers only: hack/, the features `testing` and `sim`, examples
#   tests      test targets and `cfg(test)` modules; comments included, as for support
# Not counted: Go, YAML and JSON below hack/, and examples/.
# Words do not include generated text (blocks and pages marked so, output of commands in COMMANDS.md),
# fixtures, and reports copied from elsewhere.
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root"
need_tools git python3
exec python3 - "$@" <<'PYTHON'
import collections, os, re, signal, subprocess, sys

# The reader of a pipe may end first, such as head.
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
if sys.argv[1:] not in ([], ["--total"]):
    sys.exit("lines.sh: the only option is --total")

KINDS = ["product", "docs", "support", "tests"]


def tracked(*patterns):
    listed = subprocess.run(["git", "ls-files", "-z", "--", *patterns], check=True, capture_output=True)
    return [name for name in listed.stdout.decode().split("\0") if os.path.isfile(name)]


def text(name):
    with open(name, encoding="utf-8", errors="replace") as file:
        return file.read()


def crates():
    """Folder -> package name, the deepest folder first."""
    found = {}
    for name in tracked("*Cargo.toml"):
        package = re.search(r'^\[package\][^\[]*?^name = "([^"]+)"', text(name), re.M | re.S)
        if package:
            found[os.path.dirname(name)] = package.group(1)
    return sorted(found.items(), key=lambda item: -len(item[0]))


MODULE = re.compile(
    r'^[ \t]*#\[cfg\((?P<cfg>.*)\)\]\n(?P<between>(?:[ \t]*(?:#\[.*\]|//.*)\n)*)[ \t]*(?:pub(?:\([^)]*\))? )?mod (?P<name>\w+);',
    re.M,
)


def only_for(cfg):
    if re.match(r"test$|all\(test\b", cfg):
        return "tests"
    return "support" if '"testing"' in cfg or '"sim"' in cfg else None


def gated_modules(sources):
    """Path without .rs -> kind, for modules with a cfg in files of their own."""
    gated = {}
    for name, source in sources.items():
        stem = name[:-3]
        folder = os.path.dirname(name) if os.path.basename(stem) in ("lib", "main", "mod") else stem
        for module in MODULE.finditer(source):
            kind = only_for(module["cfg"])
            path = re.search(r'#\[path = "(.*)\.rs"\]', module["between"])
            if kind and path:
                gated[os.path.join(os.path.dirname(name), path.group(1))] = kind
            elif kind:
                gated[f"{folder}/{module['name']}"] = kind
    return gated


def kind_of(name, gated):
    if re.search(r"(^|/)(tests|benches)/", name):
        return "tests"
    if name.startswith("hack/") or "/examples/" in name:
        return "support"
    for path, kind in gated.items():
        if name == path + ".rs" or name.startswith(path + "/"):
            return kind
    return "product"


def count(source, kind):
    """Lines by kind. A `cfg(test)` item in a product file ends where its indentation does."""
    lines = collections.Counter()
    inside = in_block = None
    for line in source.splitlines():
        stripped = line.strip()
        if not stripped:
            continue
        indent = len(line) - len(line.lstrip())
        if kind == "product" and inside is None and re.match(r"#!?\[cfg\(test\)\]", stripped):
            inside, in_block = indent, False
        if inside is not None:
            lines["tests"] += 1
            if indent == inside:
                # Inside a block, a line of a string may be anything but this.
                in_block = in_block or stripped.endswith("{")
                if stripped == "}" or not in_block and stripped.endswith((";", "}")):
                    inside = None
        elif kind == "product" and stripped.startswith("//"):
            lines["docs"] += 1
        else:
            lines[kind] += 1
    return lines


def words(name, page):
    if page.startswith("<!-- Generated"):
        return 0
    page = re.sub(r"<!-- generated.*?<!-- end of generated text -->", "", page, flags=re.S)
    if os.path.basename(name) == "COMMANDS.md":
        page = re.sub(r"^```console\n.*?^```", "", page, flags=re.S | re.M)
    # The bars and rules of tables are not words.
    return sum(any(letter.isalnum() for letter in word) for word in page.split())


def main():
    by_crate = collections.defaultdict(collections.Counter)
    folders = crates()
    sources = {name: text(name) for name in tracked("*.rs")}
    gated = gated_modules(sources)
    for name, source in sources.items():
        crate = next((package for folder, package in folders if name.startswith(folder + "/")), "-")
        by_crate[crate].update(count(source, kind_of(name, gated)))
    for what, kind, patterns in [
        ("(chart, image)", "product", ["deployments", ":!deployments/helm/golden", ":!*.md", ":!*test*", ":!*.rs"]),
        ("(chart, image)", "tests", ["deployments/*test*"]),
        ("(scripts)", "support", ["hack/*.sh", "hack/*.py", "hack/*.awk", "hack/cluster/nvidia-imex", "hack/nvml-mock/bin/*"]),
        ("(other)", "tests", ["*.go", ":!hack"]),
    ]:
        for name in tracked(*patterns):
            by_crate[what][kind] += sum(1 for line in text(name).splitlines() if line.strip())

    print(f"{'lines':28}" + "".join(f"{kind:>9}" for kind in KINDS))
    total = collections.Counter()
    for crate, lines in sorted(by_crate.items(), key=lambda item: -item[1]["product"]):
        total.update(lines)
        if "--total" not in sys.argv:
            print(f"{crate:28}" + "".join(f"{lines[kind]:9}" for kind in KINDS))
    print(f"{'total':28}" + "".join(f"{total[kind]:9}" for kind in KINDS))

    pages = {name: words(name, text(name)) for name in tracked("*.md", ":!*/tests/*")}
    print(f"\n{'words':55}")
    for name, number in sorted(pages.items(), key=lambda item: -item[1]):
        if number and "--total" not in sys.argv:
            print(f"{name:48}{number:7}")
    print(f"{'total':48}{sum(pages.values()):7}")


main()
PYTHON
