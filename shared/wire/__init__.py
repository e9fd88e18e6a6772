"""Shapes that travel between units. Imports nothing but pydantic; holds no behaviour."""
