"""One connection to a broker: what its network thread heard, for who waits."""

import threading


class MqttLine:
    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.welcomed = False
        self.told = False  # our status; so the broker acknowledges what it is given
        self.ended = ""  # why

    def heard(self, *, ended: str = "", welcomed: bool = False) -> None:
        with self.changed:
            self.ended = self.ended or ended
            self.welcomed = self.welcomed or welcomed
            self.changed.notify_all()
