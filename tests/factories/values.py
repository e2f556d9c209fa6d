"""Values that tests hand to the actions: believable where nobody cares, exact where the test does."""

import factory

from conversations.domain.messages import NewMessage, Role
from strength.actions.memories import NewMemory
from strength.domain.memories import Kind


class NewMessageFactory(factory.Factory):
    """A turn of a conversation; every second one is the assistant's."""

    class Meta:
        model = NewMessage

    role = factory.Iterator([Role.USER, Role.ASSISTANT])
    content = factory.Faker("sentence", nb_words=12)


class NewMemoryFactory(factory.Factory):
    """Something to remember; no two alike."""

    class Meta:
        model = NewMemory

    content = factory.Sequence(lambda number: f"Note {number}: the harbour café serves green tea from noon.")
    kind = factory.Iterator([Kind.FACT, Kind.PREFERENCE, Kind.NOTE])
