"""One request, from its parsed body to the decision and its end."""
