"""Classic programs run unmodified: after `install()`, `import tvm` means this package.

    import tilewright.compat; tilewright.compat.install()
    import tvm
    from tvm import relay                      # relay.var, relay.nn.conv2d, relay.build, relay.transform.FuseOps, …

or `python -m tilewright.compat script.py arguments…`, which installs and runs a script.

`tables/names.txt` says, one paragraph a namespace, where each classic name leads: most to the thing itself in this
package, some to an adapter in this folder where the classic signature or object differs. A name that leads nowhere
raises an error that says what to use instead. docs/compat.md lists what is covered.
"""

from tilewright.compat.namespace import install, uninstall

__all__ = ["install", "uninstall"]
