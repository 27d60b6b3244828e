"""Profile handlers and the deciders they ask."""
