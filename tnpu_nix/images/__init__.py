"""Images as they are read: archives, OCI layouts and registries behind one interface."""
