"""Checks of a hive, and how to mend what they find. Reads and asks only: nothing here changes anything."""
