-- Version 1. Times are milliseconds since the Unix epoch.

CREATE TABLE conversation (
    key INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    -- How many interactions there are, which is the last one's position.
    length INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;

CREATE TABLE interaction (
    key INTEGER PRIMARY KEY,
    conversation INTEGER NOT NULL REFERENCES conversation (key) ON DELETE CASCADE,
    -- From 1.
    position INTEGER NOT NULL,
    id TEXT NOT NULL,
    -- Empty: it follows none.
    previous_id TEXT NOT NULL,
    appended_at INTEGER NOT NULL,
    media_type TEXT NOT NULL,
    -- As it came.
    data BLOB NOT NULL
) STRICT;

CREATE UNIQUE INDEX interaction_position ON interaction (conversation, position);
CREATE UNIQUE INDEX interaction_id ON interaction (conversation, id);
CREATE INDEX interaction_previous ON interaction (conversation, previous_id)
WHERE previous_id <> '';

-- The calls of one turn.
CREATE TABLE round (
    key INTEGER PRIMARY KEY,
    conversation INTEGER NOT NULL REFERENCES conversation (key) ON DELETE CASCADE,
    -- The id of the interaction that made the calls.
    turn TEXT NOT NULL,
    -- Who runs them, and until when unless it is renewed.
    owner TEXT NOT NULL,
    lease_until INTEGER NOT NULL,
    -- Of a finished round.
    summary BLOB
) STRICT;

CREATE UNIQUE INDEX round_turn ON round (conversation, turn);

-- A call that has begun, of a round that is not finished.
CREATE TABLE call (
    round INTEGER NOT NULL REFERENCES round (key) ON DELETE CASCADE,
    id TEXT NOT NULL,
    -- NULL: it has not ended.
    outcome BLOB,
    PRIMARY KEY (round, id)
) STRICT;
