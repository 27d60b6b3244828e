"""Pure helpers that import no other room."""
