"""What tasks write: kept by a task's supervisor (`spool`), shown and freed by its daemon.

`files`, `stream_end` and `spool` are for the supervisor: they import nothing that costs memory.
"""
