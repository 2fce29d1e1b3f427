"""Sealed data: encrypted and signed, checked before it is used, by Python and by a reader in C."""
