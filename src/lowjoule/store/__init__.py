"""Every measured point, kept."""
