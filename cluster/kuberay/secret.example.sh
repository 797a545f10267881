#!/usr/bin/env bash
# Creates the token that every Ray process must present, and stores it only in the cluster.
set -euo pipefail
openssl rand -hex 32 | tr -d '\n' | kubectl create secret generic srrag-ray-token --from-file=auth_token=/dev/stdin
