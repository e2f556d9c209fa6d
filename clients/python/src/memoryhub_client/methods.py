"""Methods that build a call and send it by their client's own way."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from memoryhub_client.transport import Call, Result

if TYPE_CHECKING:
    from memoryhub_client.client import AsyncMemoryhub, Memoryhub

P = ParamSpec("P")
Row = TypeVar("Row")


class operation(Generic[P, Result]):  # noqa: N801  (a decorator)
    """Descriptor: a method that builds a call becomes one that sends it, by the client's own way."""

    def __init__(self, build: Callable[Concatenate[Any, P], Call[Result]]) -> None:
        self.build = build
        self.__doc__ = build.__doc__

    @overload
    def __get__(self, client: Memoryhub, owner: object = None) -> Callable[P, Result]: ...
    @overload
    def __get__(self, client: AsyncMemoryhub, owner: object = None) -> Callable[P, Awaitable[Result]]: ...
    def __get__(self, client: Any, owner: object = None) -> Any:
        if client is None:
            return self
        return update_wrapper(lambda *args, **values: client._send(self.build(client, *args, **values)), self.build)


class listing(Generic[P, Row]):  # noqa: N801
    """Descriptor: like `operation`, for lists that come in pages."""

    def __init__(self, build: Callable[Concatenate[Any, P], Call[Row]]) -> None:
        self.build = build
        self.__doc__ = build.__doc__

    @overload
    def __get__(self, client: Memoryhub, owner: object = None) -> Callable[P, Iterator[Row]]: ...
    @overload
    def __get__(self, client: AsyncMemoryhub, owner: object = None) -> Callable[P, AsyncIterator[Row]]: ...
    def __get__(self, client: Any, owner: object = None) -> Any:
        if client is None:
            return self
        return update_wrapper(lambda *args, **values: client._pages(self.build(client, *args, **values)), self.build)
