"""Loading on a device: artifacts and modules of ours, or shared libraries that bring all they need."""

ARTIFACT, LIBRARY = "artifact", "library"
