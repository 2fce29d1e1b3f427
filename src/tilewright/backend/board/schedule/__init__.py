"""Schedule templates of boards: register tiles of products of bytes, priced by instructions."""
