"""The library's face: open a root, ask it, and get results that print well."""
