#!/bin/sh
# Creates the secrets of compose.yaml in the folder `secrets` next to this script. Existing
# secrets stay, because a new master key could not decrypt the stored credentials, and the database would
# refuse a new password.
set -eu
umask 077
cd "$(dirname "$0")"
# Only its owner can enter the folder. The files in it are readable by all, since Compose mounts them
# with their mode, and containers run as other users.
mkdir -p -m 0700 secrets
cd secrets

if [ ! -e postgres.password ]; then
  head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \n' > postgres.password
fi
if [ ! -e notify.toml ]; then
  printf 'database-url = "postgres://notify:%s@postgres:5432/notify"\n' "$(cat postgres.password)" \
    > notify.toml
fi
if [ ! -e master.key ]; then
  head -c 32 /dev/urandom | base64 > master.key
fi
# Compose keeps these modes, and the containers run as other users. The folder keeps others on the host out.
chmod 0444 postgres.password notify.toml master.key
echo "keep $(pwd)/master.key in another place too: without it the providers' credentials are lost"
