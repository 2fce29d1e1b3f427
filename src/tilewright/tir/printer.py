def to_text(n):
    return object.__repr__(n)
