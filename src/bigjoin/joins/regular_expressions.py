"""Regular expressions of Java, which Spark and Cypher have, as those of RE2, which Arrow matches with."""

from __future__ import annotations

import re

from bigjoin.errors import QueryError, Span

_LINE_END = r"\n\r\x{85}\x{2028}\x{2029}"
_SPACE = r"\t\n\x0B\f\r "
_REFUSED = (
    (r"\(\?<?[=!]", "a look ahead or behind"),
    (r"\(\?>", "an atomic group"),
    (r"\\[1-9k]", "a reference to a group"),
    (r"[*+?}]\+", "a possessive quantifier"),
    (r"&&", "an intersection of classes"),
    (r"\[\[:", "a class of POSIX, such as [[:alpha:]],"),
    (r"\\[GXR]", "this escape"),
)


def _has_flag(pattern: str, flag: str) -> bool:
    return re.search(rf"\(\?[a-zA-Z]*{flag}", pattern) is not None


def in_re2(pattern: str, span: Span | None, *, whole: bool) -> str:
    """Return a pattern of Java as one of RE2, which has to match all of a text if `whole`, otherwise a part of it.

    What RE2 does not have is refused: it matches in linear time, whatever the pattern.
    """
    bare = re.sub(
        r"\\Q.*?(\\E|$)|\\[^1-9kGXR]|\[\^?\]?[^\]]*\]",
        lambda m: m[0] if "&&" in m[0] or m[0].startswith("[[:") else "",
        pattern,
        flags=re.DOTALL,
    )
    for refused, what in _REFUSED:
        if re.search(refused, bare):
            raise QueryError(f"{what} in a regular expression is not supported", span, "write several conditions instead")
    found, at, in_class = [], 0, False
    while at < len(pattern):
        token = pattern[at : at + 2] if pattern[at] == "\\" else pattern[at]
        if token == "\\Q":
            end = pattern.find("\\E", at + 2)
            end = len(pattern) if end < 0 else end
            found.append(re.escape(pattern[at + 2 : end]))
            at = end + 2
            continue
        at += len(token)
        if token == "\\s":
            found.append(_SPACE if in_class else f"[{_SPACE}]")
        elif token == "\\S" and not in_class:
            found.append(f"[^{_SPACE}]")
        elif token == "\\v":
            found.append(rf"\x0B\f{_LINE_END}" if in_class else rf"[\x0B\f{_LINE_END}]")
        elif token == "\\h":
            found.append(r"\t " if in_class else r"[\t ]")
        elif token == "\\Z" and not in_class:
            found.append(rf"(?:\r\n|[{_LINE_END}])?\z")
        elif token == "." and not in_class and not _has_flag(pattern, "s"):
            found.append(f"[^{_LINE_END}]")
        elif token == "$" and not in_class and not _has_flag(pattern, "m"):
            found.append(rf"(?:\r\n|[{_LINE_END}])?\z")
        else:
            in_class = token == "[" or (in_class and token != "]")
            found.append(token)
    translated = "".join(found)
    return rf"\A(?:{translated})\z" if whole else translated


def like_in_re2(pattern: str, span: Span | None) -> str:
    """Return a pattern of `like` as one of RE2; a backslash takes the meaning from %, _ and itself, as in Spark."""
    found = [r"(?s)\A"]
    for token in re.findall(r"\\.?|.", pattern, re.DOTALL):
        if token.startswith("\\") and token[1:] not in ("%", "_", "\\"):
            raise QueryError(f"{token!r} in a pattern of 'like' has no meaning", span, "write \\\\ for a backslash")
        found.append({"%": ".*", "_": "."}.get(token) or re.escape(token[-1]))
    return "".join(found) + r"\z"
