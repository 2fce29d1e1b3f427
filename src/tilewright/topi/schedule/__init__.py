"""The parts that schedule templates of all kinds of target share: stages, accesses, spaces, costs."""
