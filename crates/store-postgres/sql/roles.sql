-- Roles and privileges of a store's schema: three roles without login, and the rights of each.
--
--     psql -v schema=tidelock -f roles.sql shop
--
-- Run it in the store's database as a superuser, or as a role that owns the database and may create roles. The roles
-- are named after the schema: tidelock_owner, tidelock_app and tidelock_reader. Give people and programs a role by
-- membership (docs/guides/postgres.md).
--
-- It can be run at any time and as often as you like, and leaves the same rights behind. Before there are tables it makes
-- the roles and the schema. Run it again once the tables are there, and after every upgrade that changed them.

\set ON_ERROR_STOP on
\if :{?schema}
\else
    \set schema tidelock
\endif
\set owner :schema '_owner'
\set app :schema '_app'
\set reader :schema '_reader'

BEGIN;

SELECT format('CREATE ROLE %I NOLOGIN', name) FROM unnest(ARRAY[:'owner', :'app', :'reader']) AS role (name)
    WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) \gexec

-- Only a member can hand things to a role. A superuser need not be one.
SELECT format('GRANT %I TO CURRENT_USER', :'owner')
    WHERE NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) \gexec

GRANT CONNECT ON DATABASE :"DBNAME" TO :"owner", :"app", :"reader";
SELECT format('CREATE SCHEMA %I', :'schema')
    WHERE NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = :'schema') \gexec

-- The owner owns everything, whichever role has created it: the schema is the store's alone.
ALTER SCHEMA :"schema" OWNER TO :"owner";
SELECT format('ALTER TABLE %s OWNER TO %I', oid::regclass, :'owner') FROM pg_class
    WHERE relnamespace = :'schema'::regnamespace AND relkind IN ('r', 'v', 'S') AND relowner <> :'owner'::regrole \gexec
SELECT format('ALTER FUNCTION %s OWNER TO %I', oid::regprocedure, :'owner') FROM pg_proc
    WHERE pronamespace = :'schema'::regnamespace AND proowner <> :'owner'::regrole \gexec

-- No other role creates anything here: a foreign table or function could be taken for the store's.
REVOKE ALL ON SCHEMA :"schema" FROM PUBLIC, :"app", :"reader";
GRANT USAGE ON SCHEMA :"schema" TO :"app", :"reader";

-- Tables of later migrations can be read by all three from the start. What else the application may do with them is
-- said below, in the version of this file that comes with them.
ALTER DEFAULT PRIVILEGES FOR ROLE :"owner" IN SCHEMA :"schema" GRANT SELECT ON TABLES TO :"app", :"reader";
ALTER DEFAULT PRIVILEGES FOR ROLE :"owner" IN SCHEMA :"schema" GRANT SELECT ON SEQUENCES TO :"app", :"reader";

SELECT to_regclass(quote_ident(:'schema') || '.commits') IS NOT NULL AS has_tables \gset
\if :has_tables

-- From here on only what is said counts.
REVOKE ALL ON ALL TABLES IN SCHEMA :"schema" FROM PUBLIC, :"app", :"reader";
REVOKE ALL ON ALL SEQUENCES IN SCHEMA :"schema" FROM PUBLIC, :"app", :"reader";
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA :"schema" FROM PUBLIC, :"app", :"reader";

-- All three roles read. Functions do what their caller may do, but for those that are named here, which do what their owner may.
GRANT SELECT ON ALL TABLES IN SCHEMA :"schema" TO :"app", :"reader";
GRANT SELECT ON ALL SEQUENCES IN SCHEMA :"schema" TO :"app", :"reader";
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA :"schema" TO :"app", :"reader";
REVOKE ALL ON FUNCTION :"schema".trim(text, bigint), :"schema".let_go(text[], text[]), :"schema".begin_epoch(bigint),
    :"schema".forget_records(bigint), :"schema".forget_items(bigint), :"schema".forget_streams(bigint),
    :"schema".forget_commits(bigint), :"schema".date_tombstones(bigint)
    FROM :"reader";

-- The application adds events. It cannot change or delete one, but by trimming a stream that is closed. It draws positions,
-- and cannot say which come next.
GRANT INSERT ON :"schema".events TO :"app";
GRANT USAGE ON SEQUENCE :"schema".positions TO :"app";
GRANT INSERT (name, version, first, closed, forget_at), UPDATE (version, closed, forget_at) ON :"schema".streams TO :"app";

-- Rows of streams, records and items keep the name that they were made with, and leave through functions once they are past their
-- retention.
GRANT INSERT, UPDATE (revision, value, expires_at) ON :"schema".records TO :"app";
GRANT INSERT, UPDATE (lane, priority, at, mark, due, hold, ready, attempts, failures, expiries, blocked, error, fence,
                      worker, since, deadline, settled, forget_at) ON :"schema".items TO :"app";

-- Commits are forgotten after their time.
GRANT INSERT, DELETE ON :"schema".commits TO :"app";

-- The clock. An epoch begins through a function.
GRANT UPDATE (clock, shift) ON :"schema".meta TO :"app";

-- To lock a row takes the right to update some column of it.
GRANT UPDATE (committed_at) ON :"schema".commits TO :"app";

\else
    \echo 'The roles and the schema are there, the tables are not: open the store once with the owner role, then run this again.'
\endif

COMMIT;
