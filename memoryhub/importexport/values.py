"""One column's value as JSON, and back, without loss and without guessing.

Both directions go by the type of the model's field; a type that nobody has written here is refused when the tables are
looked at, not in the middle of somebody's export.
"""

import base64
import binascii
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any
from uuid import UUID

from django.contrib.postgres.fields import ArrayField
from django.core.exceptions import ValidationError
from django.db import models

Encode = Callable[[Any], Any]
Decode = Callable[[Any], Any]
_WORDS = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}
_MICROSECOND = timedelta(microseconds=1)


class WrongValue(ValueError):
    """A value that its column cannot hold; the message does not repeat it."""


@dataclass(frozen=True)
class Codec:
    """How one type of column is written and read; `refers` says whether its values may be ids."""

    encode: Encode
    decode: Decode
    refers: bool = False


def codec_of(field: models.Field) -> Codec:
    """Return how a field's values are written and read; raises TypeError for a type without a rule."""
    if isinstance(field, models.ForeignKey):
        return codec_of(field.target_field)
    if isinstance(field, ArrayField):
        return _array(codec_of(field.base_field))
    for kind, codec in _CODECS:
        if isinstance(field, kind):
            return codec
    raise TypeError(
        f"{field} has a type that exports do not know: give it a line in memoryhub.importexport.values."
    )


def reader_of(field: models.Field) -> Decode:
    """Return what makes a column's value of one in JSON, and raises WrongValue where it cannot.

    Prepared once for each column: to look it up for each value took most of the time of an import.
    """
    decode, null = codec_of(field).decode, field.null
    known, validators = {choice for choice, _ in field.flatchoices}, field.validators

    def read(value: Any) -> Any:
        if value is None:
            if not null:
                raise WrongValue("is missing.")
            return None
        decoded = decode(value)
        if known and decoded not in known:
            raise WrongValue("is none of the words that are known here.")
        try:
            for validator in validators:
                validator(decoded)
        except ValidationError:
            raise WrongValue("does not fit its column.") from None
        return decoded

    return read


def _array(item: Codec) -> Codec:
    def encode(values: Any) -> Any:
        return [None if each is None else item.encode(each) for each in values]

    def decode(values: Any) -> Any:
        if not isinstance(values, list):
            raise WrongValue("is no list.")
        return [None if each is None else item.decode(each) for each in values]

    return Codec(encode, decode, item.refers)


def _same(value: Any) -> Any:
    return value


def _a(*kinds: type) -> Decode:
    def decode(value: Any) -> Any:
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise WrongValue("is of the wrong type.")
        return value

    return decode


def _parsed(parse: Callable[[str], Any]) -> Decode:
    def decode(value: Any) -> Any:
        try:
            return parse(_a(str)(value))
        except WrongValue:
            raise
        except (ValueError, InvalidOperation, OverflowError, binascii.Error):
            raise WrongValue("cannot be read.") from None

    return decode


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise WrongValue("is a time without a zone.")
    return moment


def _as_utc(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat()


def _write_number(value: float) -> Any:
    return (
        value
        if math.isfinite(value)
        else next(word for word, each in _WORDS.items() if repr(each) == repr(value))
    )


def _read_number(value: Any) -> float:
    if isinstance(value, str) and value in _WORDS:
        return _WORDS[value]
    try:
        return float(_a(int, float)(value))
    except OverflowError:
        raise WrongValue("is too large.") from None


def _microseconds(value: Any) -> timedelta:
    try:
        return timedelta(microseconds=_a(int)(value))
    except OverflowError:
        raise WrongValue("is too large.") from None


# The first that fits counts: what is derived from another type stands before it.
_CODECS: tuple[tuple[type[models.Field] | tuple[type[models.Field], ...], Codec], ...] = (
    (models.UUIDField, Codec(str, _parsed(UUID), refers=True)),
    (models.DateTimeField, Codec(_as_utc, _parsed(_moment))),
    (models.DateField, Codec(date.isoformat, _parsed(date.fromisoformat))),
    (models.DurationField, Codec(lambda value: value // _MICROSECOND, _microseconds)),
    (
        models.BinaryField,
        Codec(
            lambda value: base64.b64encode(bytes(value)).decode(),
            _parsed(lambda text: base64.b64decode(text, validate=True)),
        ),
    ),
    (models.JSONField, Codec(_same, _same, refers=True)),
    (models.BooleanField, Codec(_same, _a(bool))),
    (models.DecimalField, Codec(str, _parsed(Decimal))),
    (models.FloatField, Codec(_write_number, _read_number)),
    (models.IntegerField, Codec(_same, _a(int))),
    ((models.CharField, models.TextField), Codec(_same, _a(str))),
)
