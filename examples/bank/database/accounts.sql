-- SPDX-License-Identifier: Apache-2.0
CREATE TABLE users (
	username text PRIMARY KEY,
	account text UNIQUE NOT NULL,
	name text NOT NULL,
	salt bytea NOT NULL,
	password bytea NOT NULL
);

CREATE TABLE contacts (
	username text NOT NULL,
	label text NOT NULL,
	account text NOT NULL,
	PRIMARY KEY (username, label)
);
