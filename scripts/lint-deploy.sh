#!/usr/bin/env bash
# Checks the files that run Notify (Dockerfile, compose.yaml, the systemd unit, the Kubernetes manifests)
# with the tools that read them, and the CI workflow as YAML. The test target `deploy` compares their
# contents with the server.
set -euo pipefail
cd "$(dirname "$0")/.."

# The highest allowed exposure in `systemd-analyze security`, in tenths. The remaining exposure is the network access.
EXPOSURE_MAX=11

tools=target/lint-deploy
if ! cmp -s deploy/lint-requirements.txt "$tools/requirements.txt"; then
  rm -rf "$tools"
  python3 -m venv "$tools"
  "$tools/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: \
    -r deploy/lint-requirements.txt
  cp deploy/lint-requirements.txt "$tools/requirements.txt"
fi
PATH="$PWD/$tools/bin:$PATH"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

echo "-- Dockerfile: hadolint"
hadolint --failure-threshold style Dockerfile

echo "-- YAML: yamllint"
yamllint --strict -d '{extends: default, rules: {
  document-start: disable, line-length: {max: 100}, braces: {max-spaces-inside: 1}}}' \
  .github compose.yaml deploy

echo "-- compose.yaml: docker compose"
NOTIFY_PUBLIC_URL=https://notify.example.com docker-compose -f compose.yaml config --quiet
if NOTIFY_PUBLIC_URL='' docker-compose -f compose.yaml config --quiet 2>/dev/null; then
  echo "compose.yaml starts without NOTIFY_PUBLIC_URL"
  exit 1
fi

echo "-- Kubernetes manifests: kustomize, kubernetes-validate"
for folder in base several; do
  kubectl kustomize "deploy/kubernetes/$folder" >"$scratch/$folder.yaml"
  kubernetes-validate --strict --quiet "$scratch/$folder.yaml"
done

echo "-- notify.service: systemd-analyze"
# The unit's binary need not be installed on this machine.
sed "s|^ExecStart=/usr/bin/notify-server|ExecStart=$(command -v true)|" \
  deploy/systemd/notify.service >"$scratch/notify.service"
complaints=$(systemd-analyze verify --man=no "$scratch/notify.service" 2>&1)
if [ -n "$complaints" ]; then
  echo "$complaints"
  exit 1
fi
systemd-analyze security --offline=true --no-pager --threshold="$EXPOSURE_MAX" \
  deploy/systemd/notify.service | tail -1
