-- SPDX-License-Identifier: Apache-2.0
-- Amounts are in cents. The customer chooses the uuid, so that a payment sent twice is made once.
CREATE TABLE transactions (
	id bigserial PRIMARY KEY,
	uuid text UNIQUE NOT NULL,
	source text NOT NULL,
	target text NOT NULL,
	amount bigint NOT NULL CHECK (amount > 0)
);

CREATE INDEX ON transactions (source, id);

CREATE INDEX ON transactions (target, id);

CREATE TABLE balances (
	account text PRIMARY KEY,
	amount bigint NOT NULL
);
