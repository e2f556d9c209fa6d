"""Statements that the ORM cannot say, named and described; parameters only."""

# Takes one source's excerpts out of every receipt it stands in, leaving that it was there.
FORGET_SOURCE = """
UPDATE conversations_receipt SET items = (
    SELECT coalesce(jsonb_agg(
        CASE WHEN item ->> 'source_id' = %(source_id)s::text THEN item || '{"excerpt": ""}' ELSE item END
        ORDER BY place
    ), '[]')
    FROM jsonb_array_elements(items) WITH ORDINALITY AS entry (item, place)
)
WHERE source_ids @> ARRAY[%(source_id)s::uuid]
"""
