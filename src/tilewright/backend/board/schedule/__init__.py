"""Schedule templates of boards: register tiles of bytes and floats, priced by instructions."""
