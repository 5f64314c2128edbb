# SPDX-License-Identifier: Apache-2.0
"""A client of NCCL's RAS of the tests' own, and its own reading of the answers: what vramtap says is compared with it."""
import json
import re
import socket

from harness import check


def free_address():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return "127.0.0.1", probe.getsockname()[1]


def ask(address, form):
    """What RAS says in this form, as NCCL's own client asks; None when it does not know the form."""
    with socket.create_connection(address, timeout=20) as connection, connection.makefile("rb") as lines:
        def command(text):
            connection.sendall(text.encode() + b"\n")
            return lines.readline().decode().strip()
        check(command("CLIENT PROTOCOL 2").startswith("SERVER PROTOCOL"), "no RAS")
        if form == "json" and command("SET FORMAT json") != "OK":
            return None
        connection.sendall(b"VERBOSE STATUS\n")
        return lines.read().decode()


def counts_of(said):
    """{operation: {rank: how many}} of the operations that ranks of the one communicator have launched a different number of times; of text
    those that are named."""
    if said.startswith("{"):
        (communicator,) = json.loads(said)["communicators"]
        counts = {}
        for rank in communicator["ranks"]:
            for name, count in rank["collective_counts"].items():
                counts.setdefault(name, {})[rank["rank"]] = count
        return {name: of for name, of in counts.items() if len(set(of.values())) > 1}
    found, operation = {}, None
    for line in said.splitlines():
        about = re.fullmatch(r"  Communicator ranks have different (\w+) operation counts", line)
        rank = re.match(r"  Rank (\d+) has (?:launched up to operation (\d+)|not launched any operations) -- ", line)
        operation = about.group(1) if about else operation
        if rank:
            found.setdefault(operation, {})[int(rank.group(1))] = int(rank.group(2) or 0)
    return found


def counts_told(ras):
    """The same by vramtap's report."""
    counts = {}
    for group in ras["groups"]:
        if group["about"] == "count":
            counts.setdefault(group["what"], {}).update({rank["rank"]: group["count"] for rank in group["ranks"]})
    return counts
