"""What the surroundings and single decisions look like, for people: `epp doctor`, `epp explain`."""
