"""Images, their settings and their health checks."""
