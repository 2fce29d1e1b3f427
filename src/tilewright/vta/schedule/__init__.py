"""Programs for layers: tiles that fit the chip, loops and micro-ops that walk them, tokens that overlap the units."""
