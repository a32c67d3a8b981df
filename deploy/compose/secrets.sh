#!/bin/sh
# Makes the secrets of compose.yaml, in the folder `secrets` beside this script. What is there stays:
# another master key would not open what is stored, another password would not open the database.
set -eu
umask 077
cd "$(dirname "$0")"
# Only its owner gets into the folder. The files in it are readable, since Compose shows them to
# containers as they are, and those run as other users.
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
chmod 0444 postgres.password notify.toml master.key
echo "keep $(pwd)/master.key in another place too: without it the providers' credentials are lost"
