"""tidemill: real-time inference on streams; this package is what other programs import."""
