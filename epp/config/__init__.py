"""From an EndpointPickerConfig document to plugins that are built and wired."""
