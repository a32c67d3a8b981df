"""Compares the Helm chart, rendered for PostgreSQL, with the manifests that kustomize renders.

The chart has the same objects and the same specifications. Only what belongs to a release differs: names,
labels, annotations and the image.
"""

import sys

import yaml

RELEASE_LABELS = (
    "app.kubernetes.io/instance",
    "app.kubernetes.io/version",
    "app.kubernetes.io/managed-by",
    "helm.sh/chart",
)


def objects(file):
    with open(file, encoding="utf-8") as text:
        return {thing["kind"]: thing for thing in yaml.safe_load_all(text) if thing}


def normal(value):
    """Without what belongs to a release."""
    if isinstance(value, list):
        return [normal(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {}
    for key, item in value.items():
        if key in ("image", "imagePullPolicy"):
            continue
        if key == "annotations":
            item = {name: text for name, text in item.items() if not name.startswith("checksum/")}
        if key in ("labels", "matchLabels", "selector") and isinstance(item, dict):
            item = {name: text for name, text in item.items() if name not in RELEASE_LABELS}
        kept[key] = normal(item)
    return kept


def differences(path, left, right):
    if isinstance(left, dict) and isinstance(right, dict):
        for key in sorted(left.keys() | right.keys()):
            yield from differences(f"{path}.{key}", left.get(key), right.get(key))
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for number, pair in enumerate(zip(left, right)):
            yield from differences(f"{path}[{number}]", *pair)
    elif left != right:
        yield f"{path}: {left!r} in the manifests, {right!r} in the chart"


def main():
    manifests, chart = (normal(objects(file)) for file in sys.argv[1:])
    found = list(differences("", manifests, chart))
    if len(manifests) < 7:
        found.append(f"only {len(manifests)} objects: {sorted(manifests)}")
    if found:
        sys.exit("\n".join(found))


main()
