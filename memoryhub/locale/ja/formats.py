"""Formats of times on Japanese pages: one everywhere, and a full time names its zone."""

DATE_FORMAT = SHORT_DATE_FORMAT = "Y年n月j日"
TIME_FORMAT = "G:i"
SHORT_DATETIME_FORMAT = "Y年n月j日 G:i"
DATETIME_FORMAT = "Y年n月j日 G:i T"
