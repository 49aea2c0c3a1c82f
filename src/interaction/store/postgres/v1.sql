-- Version 1. Times are milliseconds since the Unix epoch. Names and ids are
-- ordered byte by byte, whatever the database's language.

CREATE TABLE a11_conversation (
    key BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name TEXT COLLATE "C" NOT NULL UNIQUE,
    -- How many interactions there are, which is the last one's position.
    length BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);

CREATE TABLE a11_interaction (
    conversation BIGINT NOT NULL REFERENCES a11_conversation (key) ON DELETE CASCADE,
    -- From 1.
    position BIGINT NOT NULL,
    id TEXT COLLATE "C" NOT NULL,
    -- Empty: it follows none.
    previous_id TEXT COLLATE "C" NOT NULL,
    appended_at BIGINT NOT NULL,
    media_type TEXT NOT NULL,
    -- As it came.
    data BYTEA NOT NULL,
    PRIMARY KEY (conversation, position),
    UNIQUE (conversation, id)
);

CREATE INDEX a11_interaction_previous ON a11_interaction (conversation, previous_id)
WHERE previous_id <> '';

-- The calls of one turn.
CREATE TABLE a11_round (
    key BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    conversation BIGINT NOT NULL REFERENCES a11_conversation (key) ON DELETE CASCADE,
    -- The id of the interaction that made the calls.
    turn TEXT COLLATE "C" NOT NULL,
    -- Who runs them, and until when unless it is renewed.
    owner TEXT NOT NULL,
    lease_until BIGINT NOT NULL,
    -- Of a finished round.
    summary BYTEA,
    UNIQUE (conversation, turn)
);

-- A call that has begun, of a round that is not finished.
CREATE TABLE a11_call (
    round BIGINT NOT NULL REFERENCES a11_round (key) ON DELETE CASCADE,
    -- UTF-8; a provider's id can have any character.
    id BYTEA NOT NULL,
    -- NULL: it has not ended.
    outcome BYTEA,
    PRIMARY KEY (round, id)
);
