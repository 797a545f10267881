#!/usr/bin/env bash
# The token that every Ray process has to show, made here and stored in the cluster alone.
set -euo pipefail
openssl rand -hex 32 | tr -d '\n' | kubectl create secret generic srrag-ray-token --from-file=auth_token=/dev/stdin
