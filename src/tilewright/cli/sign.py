"""`tilewright keygen NAME` and `tilewright sign FILE --key NAME.pem`: who saved an artifact (docs/security.md)."""

from __future__ import annotations

import click

from tilewright.cli.options import require_file
from tilewright.errors import InputError
from tilewright.runtime import signing
from tilewright.runtime.artifact import is_artifact
from tilewright.runtime.sealed.container import make_key


@click.command("keygen")
@click.argument("name")
@click.option("--encryption", is_flag=True, help="a key of encryption instead, NAME.key, for `compile --encrypt`")
def keygen_command(name: str, encryption: bool) -> None:
    """Make a pair of keys: NAME.pem, which stays secret, and NAME.pub.pem, which is given to whoever loads."""
    if encryption:
        click.echo(f"{make_key(f'{name}.key')}: encrypt and decrypt with it, and keep it secret")
        return
    private, public = signing.make_keys(name)
    click.echo(f"{private}: sign with it, and keep it secret\n{public}: tilewright.load(PATH, verify={str(public)!r})")


@click.command("sign")
@click.argument("artifact")
@click.option("--key", required=True, help="the private key, NAME.pem of `tilewright keygen NAME`")
def sign_command(artifact: str, key: str) -> None:
    """Sign ARTIFACT (.tw), writing ARTIFACT.sig beside it."""
    require_file(artifact)
    if not is_artifact(artifact):
        raise InputError(f"{artifact} is no compiled artifact; compile the model and sign its artifact")
    click.echo(f"{signing.sign(artifact, key)}: the signature of {artifact}")
