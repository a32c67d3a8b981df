"""Prints the queries of a Grafana dashboard as recording rules, so that promtool can check their syntax."""

import json
import re
import sys


def queries(dashboard):
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            yield target["expr"]


def main():
    with open(sys.argv[1], encoding="utf-8") as text:
        dashboard = json.load(text)
    rules = []
    for number, query in enumerate(queries(dashboard)):
        query = re.sub(r"\$__\w+", "5m", query)
        rules.append({"record": f"dashboard:query:{number}", "expr": query})
    if not rules:
        sys.exit(f"{sys.argv[1]}: no queries")
    # JSON is YAML as well.
    print(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))


main()
