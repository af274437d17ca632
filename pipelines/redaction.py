"""What people are shown of an address: never a secret in it, wherever it is written."""

import re

_CREDENTIALS = re.compile(r"(?<=//)\S*@")
# A whole address may be written with a space in its password, or without its scheme.
_WITH_SPACES = re.compile(r"(^(?:\S+?=)?\w[\w+.-]*://)\S.*@|(?<=//)[^\s/\"']+:[^/\"'@]*@")
_WITHOUT_SCHEME = re.compile(r"(?<![^\s=])[^\s:/@=]+:[^\s/]*@(?=\S)")
# Many cameras take them in the query: ?user=admin&pwd=secret, ?loginuse=admin&loginpas=secret, ?usrpwd=…
_WORD = r"\w*(?:user|usr|login|pas|pwd|psw|token|auth|key|secret|cred)\w*"
_IN_QUERY = re.compile(rf"(?i)([?&;]{_WORD}=)[^&#\s]*")
# Some, the XMEye family among them, take them in the path: /user=admin_password=secret_channel=1_stream=0.sdp
_IN_PATH = re.compile(rf"(?i)([/_]{_WORD}=)[^?&#\s]*?(?=_(?:channel|stream)=|[?&#\s]|$)")


def redacted(text: str) -> str:
    """`rtsp://admin:secret@10.0.0.7/stream?token=x` as `rtsp://***@10.0.0.7/stream?token=***`."""
    text = _CREDENTIALS.sub("***@", _WITH_SPACES.sub(lambda match: f"{match[1] or ''}***@", text))
    return _IN_QUERY.sub(r"\1***", _IN_PATH.sub(r"\1***", _WITHOUT_SCHEME.sub("***@", text)))
