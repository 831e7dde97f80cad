"""The demo: real orders through the whole path, counted from outside at the end."""
