"""lowjoule: the least energy for the time allowed."""
