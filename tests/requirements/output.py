"""The output of background tasks: how it is kept within its cap, shown, searched and freed."""

from __future__ import annotations

ROWS: dict[str, dict[str, str]] = {
    "spec 7, output": {
        "output.as-written": "up to the cap, the file is byte for byte what the task wrote",
        "output.cap": "past the cap head and tail are kept, and what is on disk never exceeds the cap",
        "output.gap": "how much was dropped, from where and why, is known and said",
        "output.merge-anywhere": (
            "joining head and tail may break off anywhere, be read meanwhile, be finished later"
        ),
        "output.drained": "a full disk, a limit or a broken directory never stops the task that writes",
        "output.space-back": "when there is room again, the tail is kept again",
        "output.floor": "below the floor of free space the head grows no more and the tail is small",
        "output.not-followed": "links, FIFOs and directories in place of the files are not followed",
        "output.removed": "a file that the agent removed or replaced is said to be gone",
        "output.supervisor-light": "what the supervisor imports for output is little",
        "output.folded": "colours, carriage returns, backspaces and erasures are shown as a terminal would",
        "output.folding-bounded": "folding takes time in proportion to the bytes, whatever they are",
        "output.tail": "the tail is whole characters within its bytes, also of one endless line of progress",
        "output.pages": "successive pages join to the whole, without loss, in whole characters",
        "output.pages-bounded": "a page is bounded as JSON, also of binary noise",
        "output.read-meanwhile": "who reads while a task writes or ends sees what was written, in its place",
        "output.memory": "looking at a huge output takes little memory",
        "output.search": "a search finds lines as they are shown, with number and position, and counts more",
        "output.search-bounded": "what takes too long to search ends in an answer that says how far it came",
        "output.search-pattern": "a wrong pattern is an error that says where it is wrong",
        "output.removal": "all files of a task are counted, and go, and no others",
    },
}
