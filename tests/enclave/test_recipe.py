"""The manifest of docs/enclaves.md as far as it can be checked without SGX: its syntax, and what it starts."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path


def test_the_manifest_names_the_program_that_is_built() -> None:
    text = (Path(__file__).parents[2] / "docs" / "enclaves.md").read_text()
    found = re.search(r"```toml\n(.*?)```", text, re.S)
    assert found is not None
    manifest = tomllib.loads(found[1])
    assert manifest["fs"]["mounts"] == [{"path": manifest["libos"]["entrypoint"], "uri": "file:model"}]
    assert "file:model" in manifest["sgx"]["trusted_files"]
    assert "static.c model.c -o model\n" in text
