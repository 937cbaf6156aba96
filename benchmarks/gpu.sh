#!/usr/bin/env bash
# Check and measure mfmc on a bare GPU machine: jax, numpy and scipy suffice, nothing is installed. Under five minutes.
#     bash benchmarks/gpu.sh [--quick]
set -euo pipefail
cd "$(dirname "$0")/.."
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"
exec python3 benchmarks/gpu.py "$@"
