#!/usr/bin/env python3
"""Draws the panels of dashboard.json as an SVG, from the data of a Prometheus.

    deployments/monitoring/draw.py http://127.0.0.1:9090 START END [--rate 1m] > dashboard.svg

START and END are Unix times. It is no Grafana: it knows the two kinds of panels, the units and the colours that
the dashboard uses, and fails at others. Needs Python 3 only.
"""
import argparse
import html
import json
import math
import re
import sys
import urllib.parse
import urllib.request
from pathlib import Path

COLUMN, ROW, GAP = 50, 30, 8
STAT = {"green": "#3f8f4f", "orange": "#d9822b", "red": "#c4302b", "blue": "#3465a4"}
LINES = ["#3465a4", "#d9822b", "#3f8f4f", "#c4302b", "#7a5195", "#8c6d31", "#17838f", "#6b7280", "#b0438a"]


def ask(prometheus, path, **query):
    url = f"{prometheus}/api/v1/{path}?{urllib.parse.urlencode(query)}"
    with urllib.request.urlopen(url, timeout=30) as answer:
        return json.load(answer)["data"]["result"]


def number(value, unit):
    """A value as a person reads it."""
    if unit == "s":
        return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.3g} s"
    if unit == "bytes":
        return f"{value / 1024:.3g} KiB" if value >= 1024 else f"{value:.0f} B"
    if unit == "ops":
        return f"{value:.2g}/s"
    if unit == "short":
        return f"{value:.3g}"
    sys.exit(f"dashboard.json has the unit {unit!r}, which draw.py does not know")


def text(x, y, words, size=12, colour="#24292f", **more):
    attributes = "".join(f' {key.replace("_", "-")}="{value}"' for key, value in more.items())
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}"{attributes}>{html.escape(words)}</text>'


def legend_of(target, labels):
    return re.sub(r"{{ *(\w+) *}}", lambda found: labels.get(found[1], ""), target["legendFormat"])


def stat(panel, x, y, width, height, data):
    defaults = panel["fieldConfig"]["defaults"]
    result = data.now(panel["targets"][0])
    value = float(result[0]["value"][1]) if result else None
    colour = STAT["blue"]
    for step in defaults["thresholds"]["steps"]:
        if value is not None and (step["value"] is None or value >= step["value"]):
            colour = STAT[step["color"]]
    words = "no data" if value is None else number(value, defaults["unit"])
    yield f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="4" fill="{colour}"/>'
    yield text(x + 10, y + 20, panel["title"], 12, "#ffffff")
    yield text(x + width / 2, y + height - 24, words, 34, "#ffffff", text_anchor="middle", font_weight="bold")


def top_of(value):
    """The end of an axis that has this value on it."""
    if value <= 0:
        return 1
    power = 10 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 3, 4, 5, 6, 8, 10) if step * power >= value * 0.999)


def lines_of(panel, data):
    """(legend, {time: value}) of each series that has a value."""
    for target in panel["targets"]:
        for series in data.range(target):
            values = {float(at): float(value) for at, value in series["values"]}
            values = {at: value for at, value in values.items() if math.isfinite(value)}
            if values:
                yield legend_of(target, series["metric"]), values


def timeseries(panel, x, y, width, height, data):
    defaults = panel["fieldConfig"]["defaults"]
    stacked = defaults["custom"]["stacking"]["mode"] == "normal"
    lines = list(lines_of(panel, data))
    left, right, above, below = x + 58, x + width - 12, y + 34, y + height - 44
    yield f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="4" fill="#ffffff" stroke="#d0d7de"/>'
    yield text(x + 10, y + 20, panel["title"], 12, font_weight="bold")
    base = dict.fromkeys(data.times, 0.0)
    highest = max((sum(line.get(at, 0) for _, line in lines) if stacked else max((line.get(at, 0) for _, line in lines), default=0) for at in data.times), default=0)
    top = top_of(highest)
    across = lambda at: left + (at - data.start) / (data.end - data.start) * (right - left)
    up = lambda value: below - value / top * (below - above)
    for part in (0, 0.5, 1):
        yield f'<line x1="{left}" x2="{right}" y1="{up(part * top):.1f}" y2="{up(part * top):.1f}" stroke="#e6e9ec"/>'
        yield text(left - 6, up(part * top) + 4, number(part * top, defaults["unit"]), 10, "#57606a", text_anchor="end")
    for part in (0, 0.5, 1):
        minutes = (data.end - data.start) / 60 * part
        yield text(left + part * (right - left), below + 14, f"{minutes:.3g} min", 10, "#57606a", text_anchor=("start", "middle", "end")[int(part * 2)])
    where = x + 12
    if not lines:
        yield text((left + right) / 2, (above + below) / 2, "no data", 12, "#57606a", text_anchor="middle")
    for index, (legend, line) in enumerate(lines):
        colour = LINES[index % len(LINES)]
        pieces, piece = [], []
        for at in data.times:
            if at in line:
                low = base[at] if stacked else 0
                piece.append((across(at), up(low), up(low + line[at])))
                base[at] += line[at] if stacked else 0
            elif piece:
                pieces, piece = pieces + [piece], []
        for piece in pieces + [piece]:
            upper = " ".join(f"{at:.1f},{high:.1f}" for at, _, high in piece)
            lower = " ".join(f"{at:.1f},{low:.1f}" for at, low, _ in reversed(piece))
            if stacked and piece:
                yield f'<polygon points="{upper} {lower}" fill="{colour}" fill-opacity="0.2"/>'
            yield f'<polyline points="{upper}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
        if where + 6.2 * len(legend) + 30 < x + width:
            yield f'<rect x="{where}" y="{y + height - 20}" width="10" height="3" fill="{colour}"/>'
            yield text(where + 14, y + height - 15, legend, 11)
        where += 6.2 * len(legend) + 30


class Data:
    """What Prometheus has of the time that is drawn."""

    def __init__(self, arguments):
        self.prometheus, self.rate = arguments.prometheus, arguments.rate
        self.step = max(5, round((arguments.end - arguments.start) / 150))
        self.start, self.end = arguments.start, arguments.start + (arguments.end - arguments.start) // self.step * self.step
        self.times = [float(at) for at in range(self.start, self.end + 1, self.step)]

    def now(self, target):
        return ask(self.prometheus, "query", query=self.expression(target), time=self.end)

    def range(self, target):
        return ask(self.prometheus, "query_range", query=self.expression(target), start=self.start, end=self.end, step=self.step)

    def expression(self, target):
        return target["expr"].replace("$__rate_interval", self.rate)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("prometheus")
    parser.add_argument("start", type=int)
    parser.add_argument("end", type=int)
    parser.add_argument("--rate", default="1m", help="what $__rate_interval is: at least four scrapes")
    data = Data(parser.parse_args())
    dashboard = json.loads((Path(__file__).parent / "dashboard.json").read_text())
    kinds = {"stat": stat, "timeseries": timeseries}
    height = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in dashboard["panels"]) * ROW
    width = 24 * COLUMN
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">')
    print(f'<rect width="{width}" height="{height}" fill="#f6f8fa"/>')
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        box = (at["x"] * COLUMN + GAP / 2, at["y"] * ROW + GAP / 2, at["w"] * COLUMN - GAP, at["h"] * ROW - GAP)
        for element in kinds[panel["type"]](panel, *box, data):
            print(element)
    print("</svg>")


if __name__ == "__main__":
    main()
