"""Pictures of what a person writes: attached files, messages that wait, an edited message."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from app.chats.files import TextFile
from app.views.attached import FileCard
from app.views.reply import ReplyView
from engine.types import LeftOut, Weighed

if TYPE_CHECKING:
    from tests.app.screenshots import Studio

SCRIPT = '''"""Count the words of a folder of letters."""

from collections import Counter
from pathlib import Path

def words(folder: Path) -> Counter[str]:
    return Counter(word for file in folder.glob("*.txt") for word in file.read_text().lower().split())
'''
STANDS_OUT = """The file is small enough for **one pass**: lower-case it, keep letters and apostrophes, drop the small \
words, and let `Counter` do the rest.

```python
words = re.findall(r"[a-z']+", open(path).read().lower())
return Counter(w for w in words if w not in small).most_common(n)
```

1. *Harbour* leads by a wide margin
2. It seldom stands alone, and in most places it comes with a ship that is late."""
LETTERS = TextFile("letters-1931.txt", "Dear Ann, the harbour is frozen and no ship has come. " * 230)


def take_writing(studio: Studio) -> None:
    """Pictures of the composer in its states; the chat that is shown is left behind."""
    session, window, desk = studio.session, studio.window, studio.window.chat.desk
    session.new_chat()
    session.keep_draft_files(session.current, (TextFile("count.py", SCRIPT),))
    desk.show_draft()
    session.send("What does it count?", None, desk.files)
    session.keep_draft_files(session.current, ())
    text = "It counts how often each word stands in the letters of a folder, whatever its case."
    studio.worker.finish(text, studio.write(text, "mtp", 61.0), mode="mtp")
    studio.bridge.tick()
    window.findChildren(FileCard)[-1].line.click()
    session.keep_draft_files(session.current, (TextFile("count.py", SCRIPT), LETTERS, TextFile("notes.md", "- ice\n")))
    desk.show_draft()
    desk.composer.show_text("Which of them would it miss, and why?")
    studio.worker.count_words()
    studio.take("attached")
    session.send("Which of them would it miss?")
    studio.write("It would miss none, but", "mtp", 61.0)
    session.send("And does it tell “Ice” from “ice”?")
    session.send("Then write a test for it, please", None, (TextFile("count.py", SCRIPT),))
    desk.composer.show_text("Also")
    studio.take("queued")
    session.stop()
    studio.worker.finish("It would miss none, but", studio.worker.stats(9), reason="cancelled")
    studio.bridge.tick()
    window.chat.edit(session.current.turns[0])
    studio.take("editing")
    desk.give_up_edit()
    view = next(turn for turn in window.chat.transcript.turns if isinstance(turn, ReplyView))
    view.footer.reveal(True)
    details = window.chat.show_details(session.current.turns[0].answers[0], view.footer.details_button)
    studio.settle()
    studio.take_with("details", details)
    details.close()
    while session.current.queued:
        session.queue.take(session.current, 0)
    session.keep_draft_files(session.current, ())
    desk.show_draft()
    studio.ask("Tell me all of it.", "It lay in the ice all winter, and nobody came. " * 60, "mtp", 61.0)
    desk.composer.show_text("And what came of the ship?")
    studio.settle(400)
    studio.worker.say(Weighed(studio.worker.weighings[-1].id, 3980, 4096, LeftOut(2, 900)))
    studio.take("room-refuse")
    desk.room_line.action.click()
    studio.take("room-roll")
    desk.room_line.action.click()
    session.new_chat()
    session.send("What stands out?")
    studio.worker.begin()
    words = re.findall(r"\s*\S+", STANDS_OUT)
    studio.worker.write(words[0], rounds=0, lengths=(len(words[0]),))
    for number in range(1, len(words) - 1, 2):
        pair = words[number : number + 2]
        studio.worker.write("".join(pair), before=number // 2, lengths=tuple(map(len, pair)))
    text = "".join(words[: 1 + 2 * ((len(words) - 1) // 2)])
    studio.worker.finish(text, studio.worker.stats(len(words)))
    studio.bridge.tick()
    session.settings.set("tint_drafts", True)
    studio.take("tinted")
    session.settings.set("tint_drafts", False)
