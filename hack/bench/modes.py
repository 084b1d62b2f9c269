#!/usr/bin/env python3
"""Measures the cost of driver-managed IMEX: hack/bench.sh modes [--pairs N]

Two clusters with two nodes each and the chart run side by side, one host-managed with isolation channel, one
driver-managed. A round applies a ComputeDomain with a pod on each node, waits until both pods run, and deletes them.
The clusters alternate, and each pair of rounds gives one difference. Both times include kubectl's.

The API servers log the requests of the chart's programs. On the driver-managed cluster, the requests of a round, of
an idle minute and of a daemon's restart are counted.
"""

import argparse
import collections
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]

POLICY = """apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
    userGroups: ["system:serviceaccounts:imex-dra"]
  - level: None
"""

ROUND = """apiVersion: resource.nvidia.com/v1beta1
kind: ComputeDomain
metadata: {name: train}
spec: {numNodes: 0, channel: {allocationMode: Single, resourceClaimTemplate: {name: train}}}
"""

POD = """---
apiVersion: v1
kind: Pod
metadata: {name: worker-%(node)d}
spec:
  terminationGracePeriodSeconds: 0
  nodeSelector: {kubernetes.io/hostname: node%(node)d}
  resourceClaims: [{name: channel, resourceClaimTemplateName: train}]
  containers:
    - name: main
      image: localhost/busybox:1
      command: [sleep, infinity]
      resources: {claims: [{name: channel}]}
"""


class Cluster:
    """One of the two clusters, with its state below `directory`."""

    def __init__(self, directory, mode, options):
        self.state = pathlib.Path(directory) / mode
        self.mode = mode
        self.options = options
        self.env = dict(os.environ, IMEX_CLUSTER_DIR=str(self.state))

    def run(self, *command, stdin=None):
        done = subprocess.run(
            [str(word) for word in command], env=self.env, cwd=ROOT, input=stdin, text=True, capture_output=True
        )
        if done.returncode:
            sys.exit(f"{self.mode}: {' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
        return done.stdout

    def kubectl(self, *arguments, stdin=None):
        return self.run("hack/cluster.sh", "kubectl", *arguments, stdin=stdin)

    def up(self, audit):
        self.env["IMEX_CLUSTER_AUDIT"] = audit
        self.run("hack/cluster.sh", "up", "--nodes", 2)
        self.run("hack/install.sh", "--mode", self.mode, *self.options)

    def down(self):
        subprocess.run(["hack/cluster.sh", "down"], env=self.env, cwd=ROOT, capture_output=True)

    def round(self):
        """Seconds from the domain's creation until both pods run."""
        objects = ROUND + "".join(POD % {"node": node} for node in (1, 2))
        began = time.monotonic()
        self.kubectl("apply", "-f", "-", stdin=objects)
        running = ["--for=jsonpath={.status.phase}=Running", "--timeout=120s"]
        self.kubectl("wait", *running, "pod/worker-1", "pod/worker-2")
        took = time.monotonic() - began
        self.kubectl("delete", "--wait", "--timeout=120s", "-f", "-", stdin=objects)
        return took

    def requests(self):
        """Number of requests so far by (program, verb, resource)."""
        # A leader renews its lease equally often in each mode.
        counts = collections.Counter()
        for line in (self.state / "log" / "audit.log").read_text().splitlines():
            event = json.loads(line)
            object_ = event.get("objectRef", {})
            if object_.get("resource") == "leases" and "-controller" in object_.get("name", ""):
                continue
            program = event["user"]["username"].rsplit("-", 1)[-1]
            counts[program, event["verb"], object_.get("resource", "?")] += 1
        return counts

    def counted(self, what):
        before = self.requests()
        what()
        # A program may still send requests about it.
        time.sleep(3)
        return self.requests() - before


def table(title, counts, divisor=1):
    print(f"\n{title}:\n\n| program | request | times |\n|---|---|--:|")
    for (program, verb, resource), count in sorted(counts.items()):
        print(f"| {program} | {verb} {resource} | {count / divisor:g} |")
    if not counts:
        print("| | none | 0 |")


def measure(host, driver, pairs):
    for cluster in (host, driver):
        cluster.round()
    times = {host: [], driver: []}

    def rounds():
        for number in range(pairs):
            for cluster in (host, driver) if number % 2 else (driver, host):
                times[cluster].append(cluster.round())

    of_rounds = driver.counted(rounds)
    differences = [1000 * (b - a) for a, b in zip(times[host], times[driver])]
    print(f"From a ComputeDomain's creation until its two pods run, {pairs} pairs:\n")
    print("| | p50 | p90 |\n|---|--:|--:|")
    for cluster in (host, driver):
        ms = sorted(1000 * took for took in times[cluster])
        print(f"| {cluster.mode} | {statistics.median(ms):.0f} ms | {ms[int(0.9 * (len(ms) - 1))]:.0f} ms |")
    differences.sort()
    print(f"| difference of a pair | {statistics.median(differences):+.0f} ms | {differences[int(0.9 * (pairs - 1))]:+.0f} ms |")
    table("A ComputeDomain with a pod on each of two nodes costs, driver-managed", of_rounds, pairs)

    table("A minute without any costs", driver.counted(lambda: time.sleep(60)))

    def restart():
        selector = "imex-dra-component=imex-daemon"
        of = ["pods", "-n", "imex-dra", "-l", selector]
        name = driver.kubectl("get", *of, "--field-selector=spec.nodeName=node1", "-o", "name").strip()
        driver.kubectl("delete", "-n", "imex-dra", name)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            ready = driver.kubectl("get", *of, "-o", "jsonpath={.items[*].status.conditions[?(@.type=='Ready')].status}")
            if ready.split() == ["True", "True"]:
                return
            time.sleep(0.2)
        sys.exit("the daemon of node1 did not become ready within 60 s")

    table("A daemon's restart costs", driver.counted(restart))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=30)
    pairs = parser.parse_args().pairs
    with tempfile.TemporaryDirectory(prefix="imex-dra-modes-", dir="/var/tmp") as directory:
        policy = pathlib.Path(directory) / "audit-policy.yaml"
        policy.write_text(POLICY)
        isolation = ["--set", "resources.computeDomains.imex.isolation=channel"]
        host = Cluster(directory, "hostManaged", isolation)
        driver = Cluster(directory, "driverManaged", [])
        try:
            host.up(str(policy))
            driver.up(str(policy))
            measure(host, driver, pairs)
        finally:
            host.down()
            driver.down()


main()
