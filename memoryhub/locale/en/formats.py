"""Formats of times on English pages: one everywhere, and a full time names its zone."""

DATE_FORMAT = SHORT_DATE_FORMAT = "j M Y"
TIME_FORMAT = "H:i"
SHORT_DATETIME_FORMAT = "j M Y, H:i"
DATETIME_FORMAT = "j M Y, H:i T"
