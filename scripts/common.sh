# Shared by scripts/demo, scripts/test and scripts/check: one virtual environment in .venv, made on first use.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "$root"

find_python() {
  local candidate
  for candidate in "${PYTHON:-}" python3.13 python3.12 python3.11 python3 python; do
    [ -n "$candidate" ] && command -v "$candidate" >/dev/null 2>&1 || continue
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  echo "Tilewright needs Python 3.11 or newer; set PYTHON to one." >&2
  exit 1
}

# ensure_environment EXTRAS: .venv with Tilewright installed from this checkout, with these extras.
ensure_environment() {
  local extras="$1" stamp="$root/.venv/.installed-$1" quiet="-q"
  if [ ! -x .venv/bin/python ]; then
    echo "making a virtual environment in .venv"
    "$(find_python)" -m venv .venv
  fi
  if [ ! -e "$stamp" ] || [ pyproject.toml -nt "$stamp" ]; then
    echo "installing tilewright[$extras] (once)"
    .venv/bin/python -m pip install $quiet --disable-pip-version-check -e ".[$extras]" 2> >(grep -v '^WARNING: Location' >&2 || true)
    touch "$stamp"
  fi
}

# ensure_packages NAMES: Debian packages, where this is Debian and we may install them; else a line that names them.
ensure_packages() {
  local name missing=()
  for name in "$@"; do
    dpkg-query -W -f '${Status}' "$name" 2>/dev/null | grep -q 'ok installed' || missing+=("$name")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "installing ${missing[*]} (once)"
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q "${missing[@]}" >/dev/null && return 0
  fi
  echo "not installed, so tests that need them are skipped: ${missing[*]}" >&2
}
