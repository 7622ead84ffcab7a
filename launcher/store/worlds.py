"""The state of imaginary fleets, kept between processes."""

from collections.abc import Mapping

from launcher.store.database import Database


class Worlds:
    """The worlds of one `$NVLAUNCH_HOME`, each as text, by the name of its inventory."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def world(self, fleet: str) -> str | None:
        """Return the stored world of an imaginary fleet; None before the first."""
        for row in self._db.read("SELECT world FROM worlds WHERE fleet = ?", fleet):
            return str(row["world"])
        return None

    def save_world(self, fleet: str, text: str) -> None:
        """Store the world of an imaginary fleet."""
        self.save_worlds({fleet: text})

    def save_worlds(self, texts: Mapping[str, str]) -> None:
        """Store worlds by name, in one transaction."""
        with self._db.write(durable=False) as db:
            db.executemany("INSERT OR REPLACE INTO worlds VALUES (?, ?)", texts.items())
